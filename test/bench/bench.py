#!/usr/bin/env python3
"""Compares two poolers that read a pgbouncer.ini: in turns, against one scratch PostgreSQL.

A is the one to compare with (--against), B the one of interest (--pooler)."""

import argparse
import json
import os
import shutil
import signal
import sys

import report
import scenarios
from clients import IN_FLIGHT
from machine import Binary, Machine, Pooler, Postgres, Trouble, raise_descriptor_limit

NEEDED_DESCRIPTORS = 200 + IN_FLIGHT


def positive(kind):
    def parse(text):
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError("must be above 0")
        return value
    return parse


def setting(text):
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError("wanted: name=value")
    return name.strip(), value.strip()


def parse_options(arguments):
    names = [s.name for s in scenarios.ALL]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="scenarios:\n" + "\n".join("  %-9s %s" % (s.name, s.about) for s in scenarios.ALL))
    add = parser.add_argument
    add("--pooler", required=True, metavar="BIN", help="the pooler of interest (B)")
    add("--against", default="/usr/sbin/pgbouncer", metavar="BIN",
        help="the pooler to compare with (A); default %(default)s")
    add("--scenario", action="append", choices=names, metavar="NAME",
        help="only this one; may be repeated; default all")
    add("--rounds", type=positive(int), default=5, help="turns of each pooler (%(default)s)")
    add("--seconds", type=positive(int), default=3, help="length of a turn (%(default)s)")
    add("--clients", type=positive(int), default=32,
        help="where a scenario names no number (%(default)s)")
    add("--idle-clients", type=positive(int), default=5000,
        help="of the scenario idle (%(default)s)")
    add("--tls-clients", type=positive(int), default=1000,
        help="of the scenario tls (%(default)s)")
    add("--sampling", type=positive(float), default=0.25, metavar="PART",
        help="part of short transactions whose latency is noted (%(default)s)")
    add("--engines", action="store_true",
        help="B with io_engine = epoll, and C, the same program with io_engine = io_uring")
    add("--unix", action="store_true", help="clients come over unix sockets, not TCP")
    add("--set", type=setting, action="append", default=[], metavar="NAME=VALUE",
        help="a setting for B only; may be repeated")
    add("--set-both", type=setting, action="append", default=[], metavar="NAME=VALUE",
        help="a setting for both; may be repeated")
    add("--syscalls", action="store_true",
        help="also count system calls per transaction with strace, in runs of their own")
    add("--json", metavar="FILE",
        help="also write every round's numbers there; - is stdout, without the table")
    add("--quick", action="store_true", help="only see whether everything works: one round of 1 s")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds = options.seconds = 1
        options.idle_clients = min(options.idle_clients, 500)
        options.tls_clients = 50
    if options.sampling > 1:
        parser.error("--sampling is at most 1")
    if options.syscalls and not shutil.which("strace"):
        parser.error("--syscalls needs strace")
    return options


class Bench:
    """One run of the program."""

    def __init__(self, options, machine):
        self.options, self.machine = options, machine
        self.postgres = None
        self.binaries = []
        self.scenarios = [s for s in scenarios.ALL
                          if not options.scenario or s.name in options.scenario]
        self.results, self.syscalls = {}, {}

    def prepare(self):
        options = self.options
        most = raise_descriptor_limit() - NEEDED_DESCRIPTORS
        if options.idle_clients > most:
            note("only %d idle clients: the limit of open files" % most)
            options.idle_clients = most
        both = dict(options.set_both)
        if options.unix:
            both["unix_socket_dir"] = self.machine.dir
        ours = dict(both, **dict(options.set))
        engines = ("epoll", "io_uring") if options.engines else (None,)
        self.binaries = [Binary(self.machine, "A", options.against, both)]
        for letter, engine in zip("BC", engines):
            settings = dict(ours, io_engine=engine) if engine else ours
            self.binaries.append(Binary(self.machine, letter, options.pooler, settings))
        self.postgres = Postgres(self.machine, max_connections=options.clients + 100)

    def heading(self):
        lines = ["%s = %s (%s)%s" % (b.letter, b.path, b.version, "".join(
            " %s=%s" % item for item in b.settings.items())) for b in self.binaries]
        rounds = self.options.rounds
        return lines + ["PostgreSQL %s, %d processors; %d round%s of %d s in turns; medians" % (
            self.postgres.version(), os.cpu_count(), rounds, "s" if rounds > 1 else "",
            self.options.seconds)]

    def with_pooler(self, scenario, binary, work):
        pooler = Pooler(self.machine, binary, self.postgres, scenario.auth, scenario.users(),
                        scenario.settings(self.options, self.machine), scenario.entry)
        try:
            return work(self, pooler, self.options)
        except (Trouble, OSError, ProcessLookupError) as trouble:
            pooler.check()
            raise Trouble(str(trouble) or type(trouble).__name__) from None
        finally:
            pooler.stop()

    def run(self, scenario):
        rows = {binary.letter: [] for binary in self.binaries}
        self.results[scenario.name] = rows
        for turn in range(self.options.rounds):
            for binary in self.binaries:
                row = self.with_pooler(scenario, binary, scenario.measure)
                rows[binary.letter].append(row)
                note("%s %d/%d %s: %s" % (
                    scenario.name, turn + 1, self.options.rounds, binary.letter,
                    ", ".join("%s %s" % (title, report.number(row.get(key)))
                              for key, title in scenario.metrics)))

    def count_syscalls(self, scenario):
        self.syscalls[scenario.name] = {
            binary.letter: self.with_pooler(scenario, binary, scenario.count_syscalls)
            for binary in self.binaries}

    def run_all(self):
        """Runs every scenario; one that fails does not stop the others. Gives their failures."""
        failures = 0
        for scenario in self.scenarios:
            try:
                self.run(scenario)
                if self.options.syscalls and isinstance(scenario, scenarios.Load):
                    self.count_syscalls(scenario)
            except Trouble as trouble:
                failures += 1
                self.results[scenario.name]["trouble"] = str(trouble)
                note("%s failed: %s" % (scenario.name, trouble))
        return failures

    def show(self):
        options = self.options
        if options.json:
            everything = {
                "poolers": {b.letter: {"path": b.path, "version": b.version, "settings": b.settings}
                            for b in self.binaries},
                "postgres": self.postgres.version(), "processors": os.cpu_count(),
                "seconds": options.seconds, "rounds": self.results, "syscalls": self.syscalls,
                "ratios": {s.name: {b.letter: report.ratios(self.results[s.name]["A"],
                                                            self.results[s.name][b.letter],
                                                            s.metrics)
                                    for b in self.binaries[1:]}
                           for s in self.scenarios}}
            text = json.dumps(everything, indent=1) + "\n"
            if options.json == "-":
                sys.stdout.write(text)
                return
            with open(options.json, "w") as out:
                out.write(text)
        lines = self.heading() + report.table(self.results, self.scenarios)
        if self.syscalls:
            lines += report.syscall_table(self.syscalls)
        print("\n".join(lines))


def note(text):
    print(text, file=sys.stderr, flush=True)


def interrupted(_signal, _frame):
    sys.exit(130)


def main(arguments):
    options = parse_options(arguments)
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, interrupted)
    machine = Machine()
    try:
        bench = Bench(options, machine)
        bench.prepare()
        failures = bench.run_all()
        bench.show()
        return 1 if failures else 0
    except Trouble as trouble:
        note("bench: %s" % trouble)
        return 2
    finally:
        machine.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
