#!/usr/bin/env python3
"""Compares poolers that read a pgbouncer.ini. They run in turns in front of the same scratch
PostgreSQL.

The reference is the pooler to compare with (--against). The pooler of interest (--pooler) runs
once, or once for each engine (--engines). Where a scenario allows it, haproxy, minimal relays and a
direct connection take part in the turns."""

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import signal
import sys
import time

import calls
import worker_counts
import report
import scenarios
import subjects
import targets
from clients import IN_FLIGHT
from machine import Machine, Postgres, Trouble, raise_descriptor_limit
from memory import Canned
from scenario import SERVERS

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


def list_of_scenarios():
    lines = ["scenarios (* runs when none is picked):"]
    lines += [" %s %-10s %s" % ("*" if s.main else " ", s.name, s.about) for s in scenarios.ALL]
    return "\n".join(lines)


def add_what(add):
    names = [s.name for s in scenarios.ALL]
    add("--pooler", metavar="BIN", help="the pooler of interest")
    add("--against", default="/usr/sbin/pgbouncer", metavar="BIN",
        help="the pooler to compare with, or `none`; default %(default)s")
    add("--engines", action="store_true",
        help="the pooler of interest with io_engine = epoll, and with io_engine = io_uring")
    add("--workers", action="store_true",
        help="only the pooler of interest, with 1, 2, 4 and 8 workers, which are compared with one; "
             "without --scenario, the scenarios that are about workers. In some of them the "
             "smallest relay runs with as many threads, which shows the lowest possible ratio")
    add("--opponents", choices=("some", "all", "none"), default="some",
        help="haproxy, bare relays and direct connections: where scenarios ask for them, "
             "wherever they can, or nowhere (%(default)s)")
    add("--scenario", action="append", choices=names, metavar="NAME", default=[],
        help="only this one; may be repeated")
    add("--all", action="store_true", help="every scenario, not only the main ones")
    add("--targets", action="store_true",
        help="the scenarios for which there are targets, and how close each engine comes")
    add("--programs", metavar="DIR",
        help="where load, canned and the relays are; default: test/bench beside the pooler")


def add_how(add):
    add("--rounds", type=positive(int), default=5, help="turns of each (%(default)s)")
    add("--seconds", type=positive(float), default=1,
        help="length of a turn; at least 1 for pgbench (%(default)s)")
    add("--clients", type=positive(int), default=32,
        help="where a scenario names no number (%(default)s)")
    add("--idle-clients", type=positive(int), default=5000,
        help="of the scenario idle (%(default)s)")
    add("--tls-clients", type=positive(int), default=2000, help="of the scenario tls (%(default)s)")
    add("--crowd", type=positive(int), default=10000,
        help="clients of the scenarios crowd and show (%(default)s)")
    add("--many-pools", type=positive(int), default=100000,
        help="of the scenario of that name (%(default)s)")
    add("--reference-pools", type=positive(int), default=5000,
        help="those of the reference in that scenario, if its cost per pool grows with their number "
             "(%(default)s)")
    add("--felt-seconds", type=positive(float), default=4,
        help="length of each part of show, reload and user-list (%(default)s)")
    add("--sampling", type=positive(float), default=0.25, metavar="PART",
        help="part of pgbench's short transactions whose latency is noted (%(default)s)")
    add("--canned", action="store_true",
        help="a server of canned answers instead of PostgreSQL, where pgbench is not needed: "
             "what is left of the processors is the pooler's")
    add("--unix", action="store_true", help="clients come over unix sockets, not TCP")
    add("--set", type=setting, action="append", default=[], metavar="NAME=VALUE",
        help="a setting for the pooler of interest only; may be repeated")
    add("--set-both", type=setting, action="append", default=[], metavar="NAME=VALUE",
        help="a setting for the reference, too; may be repeated")
    add("--syscalls", action="store_true",
        help="also count system calls per transaction with perf or strace, in runs of their own")
    add("--quick", action="store_true",
        help="only see whether everything works: one short round, small numbers")


def add_output(add):
    add("--json", metavar="FILE",
        help="also write every round's numbers there; - is stdout, without the table")
    add("--from", dest="source", metavar="FILE", help="measure nothing: show what --json wrote")
    add("--write-doc", metavar="FILE",
        help="put the tables between the marks of this document (doc/performance.md)")


def parse_options(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=list_of_scenarios())
    add_what(parser.add_argument_group("what is compared").add_argument)
    add_how(parser.add_argument_group("how long and how much").add_argument)
    add_output(parser.add_argument_group("what comes out").add_argument)
    options = parser.parse_args(arguments)
    if not options.source and not options.pooler:
        parser.error("--pooler is missing")
    if options.pooler and not options.programs:
        options.programs = os.path.join(os.path.dirname(os.path.abspath(options.pooler)), "test/bench")
    if options.quick:
        make_quick(options)
    if options.targets:
        options.engines = options.syscalls = True
    if options.workers and (options.targets or options.engines):
        parser.error("--workers does not go with --targets or --engines")
    if options.sampling > 1:
        parser.error("--sampling is at most 1")
    options.command = "bench.py " + " ".join(shlex.quote(a) for a in arguments)
    return options


def make_quick(options):
    options.rounds = 1
    options.seconds = options.felt_seconds = 0.3
    options.idle_clients = min(options.idle_clients, 500)
    options.tls_clients, options.crowd = 50, 300
    options.many_pools = options.reference_pools = 1000


def pick(options):
    if options.scenario:
        return [s for s in scenarios.ALL if s.name in options.scenario]
    if options.workers:
        return list(worker_counts.ALL)
    if options.targets:
        return [s for s in scenarios.ALL if s.name in targets.ENGINE_AIMS.scenarios()]
    return [s for s in scenarios.ALL if s.main or options.all]


class Bench:
    """One run of the program."""

    def __init__(self, options, machine):
        self.options, self.machine = options, machine
        self.postgres = self.canned_path = self.counter = None
        self.canned = {}
        self.scenarios = pick(options)
        self.subjects, self.results = [], {}

    def prepare(self):
        options = self.options
        self.fit_descriptors()
        if options.workers:
            options.against = options.opponents = "none"
        if options.against != "none" and not os.path.exists(options.against):
            note("the reference is left out: no %s" % options.against)
            options.against = "none"
        self.load_program = self.machine.copy(os.path.join(options.programs, "load"), "load")
        self.subjects = subjects.poolers(options, self.machine)
        self.subjects += subjects.opponents(options, self.machine, note)
        if options.syscalls:
            self.counter = calls.counter(self.machine)
            if not self.counter:
                note("system calls are left out: neither perf nor strace works here")

    def fit_descriptors(self):
        most = raise_descriptor_limit() - NEEDED_DESCRIPTORS
        for name in ("idle_clients", "crowd"):
            if getattr(self.options, name) > most:
                note("only %d of --%s: the limit of open files" % (most, name.replace("_", "-")))
                setattr(self.options, name, most)

    def need_postgres(self):
        if not self.postgres:
            self.postgres = Postgres(self.machine, max_connections=self.options.clients + 200)
        return self.postgres

    def need_canned(self, delay=0):
        """Returns the server of canned answers that waits so many milliseconds before each."""
        if delay not in self.canned:
            self.canned[delay] = Canned(self.machine, self.canned_program(), delay)
        return self.canned[delay]

    def canned_program(self):
        if not self.canned_path:
            path = os.path.join(self.options.programs, "canned")
            self.canned_path = self.machine.copy(path, "canned")
        return self.canned_path

    def server_port(self, scenario):
        return scenario.server(self).port

    def with_subject(self, scenario, subject, work):
        running = subject.start(self, scenario)
        try:
            return work(self, running, self.options)
        except (Trouble, OSError) as trouble:
            running.check()
            raise Trouble(str(trouble) or type(trouble).__name__) from None
        finally:
            running.stop()

    def run(self, scenario):
        taking_part = [s for s in self.subjects if s.fits(scenario, self.options)]
        result = {"about": scenario.about, "metrics": scenario.metrics,
                  "rounds": {subject.name: [] for subject in taking_part}}
        self.results[scenario.name] = result
        start = time.monotonic()
        rounds = min(self.options.rounds, scenario.most_rounds or self.options.rounds)
        for turn in range(rounds):
            for subject in taking_part:
                row = self.with_subject(scenario, subject, scenario.measure)
                result["rounds"][subject.name].append(row)
                note("%s %d/%d %s: %s" % (
                    scenario.name, turn + 1, rounds, subject.name,
                    ", ".join("%s %s" % (title, report.number(row.get(key)))
                              for key, title in scenario.metrics)))
        if self.counter and scenario.is_loaded:
            result["calls"] = {
                subject.name: self.with_subject(scenario, subject, scenario.count_calls)
                for subject in taking_part if subject.name != "direct"}
        note("%s took %.0f s" % (scenario.name, time.monotonic() - start))

    def run_all(self):
        """Runs every scenario and returns the failures. A failed scenario does not stop the
        others."""
        failures = 0
        for scenario in self.scenarios:
            try:
                self.run(scenario)
            except Trouble as trouble:
                failures += 1
                self.results[scenario.name]["trouble"] = str(trouble)
                note("%s failed: %s" % (scenario.name, trouble))
        return failures

    def figures(self):
        options = self.options
        other_of = worker_counts.compared_with if options.workers else lambda _: report.REFERENCE
        measured = {name: result for name, result in self.results.items()
                    if "trouble" in result or any(result["rounds"].values())}
        for result in measured.values():
            result["ratios"] = report.ratios(result, other_of)
        taken = {name for result in measured.values() for name in result["rounds"]}
        return {
            "machine": {"processor": processor(), "processors": os.cpu_count(),
                        "kernel": platform.release(), "date": datetime.date.today().isoformat(),
                        "postgres": self.postgres.version if self.postgres else "-"},
            "options": {"rounds": options.rounds, "seconds": options.seconds,
                        "clients": options.clients, "servers": SERVERS, "unix": options.unix,
                        "canned": options.canned, "workers": options.workers,
                        "command": options.command},
            "subjects": {s.name: {"about": s.about, "settings": s.settings}
                         for s in self.subjects if s.name in taken},
            "scenarios": measured}


def processor():
    with open("/proc/cpuinfo") as lines:
        found = re.search(r"model name\s*: (.*)", lines.read())
    return found.group(1) if found else platform.machine()


def is_about_aims(figures, aims, options):
    return options.targets or (aims is not targets.ENGINE_AIMS and any(aims.rows(figures)))


def show(figures, options):
    if options.json:
        text = json.dumps(figures, indent=1) + "\n"
        if options.json == "-":
            sys.stdout.write(text)
        else:
            with open(options.json, "w") as out:
                out.write(text)
    aims = targets.of(figures)
    if options.write_doc:
        report.write_into(options.write_doc, report.markdown(
            figures, (aims.titles(), aims.rows(figures))), aims.mark)
    if options.json != "-":
        lines = report.heading(figures) + report.table(figures) + report.nearest_table(figures)
        lines += report.calls_table(figures)
        print("\n".join(lines + (
            aims.table(figures) if is_about_aims(figures, aims, options) else [])))


def note(text):
    print(text, file=sys.stderr, flush=True)


class Interrupted(BaseException):
    """A signal asks for the end. What was measured until then is shown."""

    def __init__(self, number):
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


def interrupted(number, _frame):
    raise Interrupted(number)


def measure(options):
    machine = Machine()
    try:
        bench = Bench(options, machine)
        bench.prepare()
        try:
            status = 1 if bench.run_all() else 0
        except Interrupted as end:
            note("%s: these are the rounds that were complete" % end)
            status = end.status
        show(bench.figures(), options)
        return status
    finally:
        machine.close()


def show_again(options):
    with open(options.source) as figures:
        show(json.load(figures), options)
    return 0


def main(arguments):
    options = parse_options(arguments)
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, interrupted)
    try:
        return show_again(options) if options.source else measure(options)
    except (Trouble, ValueError, OSError) as trouble:
        note("bench: %s" % trouble)
        return 2
    except Interrupted as end:
        return end.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
