#!/usr/bin/env python3
"""Measures failovers: what clients that write see of them, beyond PostgreSQL's own time. It starts a
primary with a synchronous standby, the pooler in front of them, and 20 clients that insert rows."""

import argparse
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../integration"))

import replication  # noqa: E402
import waiting  # noqa: E402
import wire  # noqa: E402
import writers  # noqa: E402
from pooler import Pooler  # noqa: E402

WRITERS = 20
SECONDS = 2  # How long they write before and after the event.


class Event:
    """One way in which a primary, or a host, is lost. `happen` returns when PostgreSQL accepts
    writes again (None: it did all the time)."""

    def __init__(self, name, happen, settle=lambda bench: None):
        self.name, self.happen, self.settle = name, happen, settle


def promote(bench):
    bench.pair.standby.do("alter system reset synchronous_standby_names", "select pg_promote(true, 60)")
    return time.monotonic()


def kill(bench):
    bench.pair.primary.stop("QUIT")
    return promote(bench)


def hang(bench):
    bench.pair.primary.freeze()
    return promote(bench)


def come_back(bench):
    bench.pair.primary.thaw()


def start_again(bench):
    """The old primary comes back as a second one, and is given the time to get writes."""
    bench.pair.primary.start()
    time.sleep(SECONDS)


def refuse(bench):
    refuse_at(bench.pair.standby)


def refuse_at_primary(bench):
    refuse_at(bench.pair.primary)


def refuse_at(node):
    node.write_hba(["local all all trust", "host replication all 127.0.0.1/32 trust",
                    "host all all 127.0.0.1/32 reject"])
    node.do("select pg_reload_conf()")


def nothing(bench):
    """Shows what the machine itself makes of the measurement."""


def planned(bench):
    console = bench.pooler.console()
    console.send(wire.query("SWITCHOVER db"))
    console.recv_until("N")
    bench.pair.primary.stop("INT")
    at = promote(bench)
    console.recv_until("Z")
    return at


# "promoted": the standby is promoted although the primary runs. "two primaries": the old one is
# started again after a failover.
EVENTS = [Event("nothing", nothing), Event("killed", kill), Event("hung", hang, come_back), Event("refused", refuse), Event("refused by the primary", refuse_at_primary),
          Event("planned", planned), Event("promoted", promote), Event("two primaries", kill, start_again)]


class Bench:
    def __init__(self, options, event):
        self.event = event
        self.pair = replication.Pair(options.pg_bin)
        self.options = options

    def start(self):
        self.pair.create()
        self.pair.primary.do(
            *writers.TABLE,
            "alter system set synchronous_standby_names = 'standby'",
            "alter system set synchronous_commit = 'on'", "select pg_reload_conf()")
        self.pair.wait_replayed()
        settings = dict(pair for pair in (text.split("=", 1) for text in self.options.set))
        self.pooler = Pooler(
            os.path.abspath(self.options.pooler),
            {"db": self.pair.entry("target_session_attrs=read-write pool_size=4")},
            settings=dict({"pool_mode": "transaction", "log_connections": 0, "log_disconnections": 0,
                           "query_wait_timeout": 300, "max_client_conn": 200}, **settings)).start()

    def run(self):
        clients = [writers.Writer(self.pooler.connect, number) for number in range(WRITERS)]
        for client in clients:
            client.start()
        time.sleep(SECONDS)
        begun = time.monotonic()
        accepts = self.event.happen(self)
        # Answers of the old host may be noticed late, so the rows at the new one are counted.
        before = self.count(accepts)
        waiting.wait_for(lambda: self.count(accepts) > before + WRITERS, "writes go on", 120)
        self.event.settle(self)
        time.sleep(SECONDS)
        writers.finish(clients)
        return self.judge(clients, begun, accepts)

    def kept(self, accepts):
        """Returns the node that is the primary at the end."""
        return self.pair.standby if accepts else self.pair.primary

    def count(self, accepts):
        return int(self.kept(accepts).value("select count(*) from written"))

    def judge(self, clients, begun, accepts):
        moments = writers.moments(clients)
        # An answer may be noticed late, so the longest pause counts, and not the first answer.
        start = accepts or begun
        pauses = [b - max(a, start) for a, b in zip(moments, moments[1:]) if b > start]
        with self.kept(accepts).client() as client:
            lost = writers.lost(clients, client)
        return {"event": self.event.name, "gap": max(pauses), "errors": sum(len(w.errors) for w in clients),
                "writes": len(moments), "lost": lost}

    def stop(self):
        if hasattr(self, "pooler"):
            self.pooler.remove()
        self.pair.remove()


def find_pg_bin():
    folders = [os.path.join("/usr/lib/postgresql", version, "bin")
               for version in sorted(os.listdir("/usr/lib/postgresql"), key=float)]
    return folders[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pooler", default="build/release/pgbouncer", metavar="BIN")
    parser.add_argument("--pg-bin", default=None, metavar="FOLDER", help="PostgreSQL's programs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--event", action="append", choices=[e.name for e in EVENTS])
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="a setting of the pooler")
    options = parser.parse_args()
    options.pg_bin = options.pg_bin or find_pg_bin()
    print("| event | seconds without a write beyond PostgreSQL's own, longest of %d "
          "| errors of 20 clients | writes | lost or at the wrong primary |" % options.rounds)
    print("|---|---|---|---|---|")
    for event in EVENTS:
        if options.event and event.name not in options.event:
            continue
        results = []
        for _ in range(options.rounds):
            bench = Bench(options, event)
            try:
                bench.start()
                results.append(bench.run())
            finally:
                bench.stop()
        print("| %s | %.2f | %d | %d | %d |" % (
            event.name, max(r["gap"] for r in results), max(r["errors"] for r in results),
            sum(r["writes"] for r in results), sum(r["lost"] for r in results)), flush=True)


if __name__ == "__main__":
    main()
