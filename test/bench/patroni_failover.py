#!/usr/bin/env python3
"""Measures what clients see of switchovers and failovers under Patroni: 10 that write through the
pooler, and beside them, in the same run, 10 that write through haproxy, which checks Patroni's REST
address /primary as its documents say. Two of each log in anew for each row. It starts etcd, three nodes,
the pooler and haproxy on loopback, and needs Debian's packages patroni, python3-etcd, etcd-server and
haproxy."""

import argparse
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../integration"))

import haproxy  # noqa: E402
import patroni  # noqa: E402
import waiting  # noqa: E402
import wire  # noqa: E402
import writers  # noqa: E402
from failover import find_pg_bin  # noqa: E402
from pooler import ADMIN, Pooler  # noqa: E402

SCRIPT = os.path.join(HERE, "../../etc/patroni-switchover")
WRITERS, ANEW = 10, 2
SECONDS = 2  # How long they write before and after the event.
PAUSE = 0.2  # A longer time without a direct write is PostgreSQL's own.
CHECKS = ["option httpchk OPTIONS /primary", "http-check expect status 200",
          "default-server inter 3s fall 3 rise 2 on-marked-down shutdown-sessions"]


class Prober(threading.Thread):
    """Writes at one node, past everything: PostgreSQL accepts writes when one of them does."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.moments, self.ends = node, [], False

    def run(self):
        client = None
        while not self.ends:
            try:
                client = client or self.node.client()
                client.query("insert into probed values (1)")
                self.moments.append(time.monotonic())
            except (wire.Refused, wire.Closed, OSError):
                client = client and client.close()
            time.sleep(0.01)
        if client:
            client.close()


def beyond(moments, own, begun):
    """Returns the longest time without a write that was acknowledged, less the part of it in which
    PostgreSQL itself accepted none."""
    closed = [(a, b) for a, b in zip(own, own[1:]) if b - a > PAUSE]
    pauses = [(a, b) for a, b in zip(moments, moments[1:]) if b > begun]
    return max(b - a - sum(max(0, min(b, d) - max(a, c)) for c, d in closed) for a, b in pauses)


# events


def nothing(_):
    """Shows what the machine itself makes of the measurement."""


def planned(bench):
    """SWITCHOVER around patronictl, as doc/recipes/patroni.md has it."""
    primary, candidate = bench.cluster.primary, bench.cluster.synchronous
    bench.pooler.write("pgpass", "*:*:*:%s:%s\n" % ADMIN)
    os.chmod(bench.pooler.path("pgpass"), 0o600)
    console = "host=127.0.0.1 port=%d user=%s" % (bench.pooler.port, ADMIN[0])
    done = subprocess.run(
        ["sh", SCRIPT, "-p", console, "-d", "db", "--",
         *bench.cluster.patronictl("switchover", patroni.SCOPE, "--leader", primary.name, "--candidate",
                                   candidate.name, "--force")],
        env=dict(os.environ, PGPASSFILE=bench.pooler.path("pgpass")), stdin=subprocess.DEVNULL, cwd=bench.pooler.dir,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **waiting.run_as(waiting.unprivileged()))
    assert done.returncode == 0, done.stdout


def unplanned(bench):
    bench.cluster.switchover()


def killed(bench):
    lost = bench.cluster.primary
    lost.kill()
    bench.wait_for_another(lost)


def killed_amid_a_takeover(bench):
    lost = bench.cluster.primary
    lost.kill()
    time.sleep(1)
    bench.restart_online()
    bench.wait_for_another(lost)


def hung(bench):
    """The machine goes on when another one has taken over, and is a primary until Patroni notices."""
    lost = bench.cluster.primary
    lost.freeze()
    bench.wait_for_another(lost)
    bench.wait_writes()
    lost.thaw()


def without_etcd(bench):
    """The primary may not stay one when it cannot renew its lead."""
    bench.cluster.etcd.stop()
    waiting.wait_for(lambda: not bench.cluster.primary, "the primary has given up", patroni.UP, 0.05)
    time.sleep(SECONDS)
    bench.cluster.etcd.start()


def refusing(bench):
    primary = bench.cluster.primary
    primary.set_hba(patroni.OWN_HBA)
    time.sleep(5)
    primary.set_hba(patroni.HBA)


def without_synchronous(bench):
    bench.cluster.synchronous.kill()


EVENTS = {"nothing happens": nothing, "planned: SWITCHOVER around patronictl switchover": planned,
          "patronictl switchover alone": unplanned, "the primary's machine is lost": killed,
          "it is lost, and the pooler is restarted online (-R) meanwhile": killed_amid_a_takeover,
          "it hangs, and goes on when another one leads": hung, "etcd is away for longer than ttl": without_etcd,
          "the primary refuses logins for 5 s": refusing, "the synchronous standby is lost": without_synchronous}


class Bench:
    def __init__(self, options):
        self.options, self.old = options, []
        self.cluster = patroni.Cluster(options.pg_bin, {
            "ttl": options.ttl, "loop_wait": options.loop_wait, "retry_timeout": options.retry_timeout})

    def start(self):
        self.cluster.create()
        self.cluster.primary.do(*writers.TABLE, "create table probed (value int)")
        settings = dict(text.split("=", 1) for text in self.options.set)
        self.pooler = Pooler(
            os.path.abspath(self.options.pooler), {"db": self.cluster.entry("target_session_attrs=read-write pool_size=4")},
            settings={"pool_mode": "transaction", "log_connections": 0, "log_disconnections": 0,
                      "query_wait_timeout": 300, "max_client_conn": 200, **settings}).start()
        self.haproxy = haproxy.Haproxy(CHECKS + [
            "server %s %s:%d maxconn 100 check port %d" % (node.name, node.host, node.port, node.rest_port)
            for node in self.cluster.nodes])

    def through_haproxy(self):
        client = wire.Client(self.haproxy.host, self.haproxy.port, "trust_user", "postgres", None, {})
        try:
            return client.login()
        except BaseException:
            client.close()
            raise

    def restart_online(self):
        mark = self.pooler.mark()
        self.old.append(self.pooler.process)
        self.pooler.args = ["-R"]
        self.pooler.launch()
        self.pooler.wait_log(" process up: ", mark)

    def wait_for_another(self, lost):
        waiting.wait_for(lambda: any(node.is_primary() for node in self.cluster.nodes if node is not lost),
                         "another node leads", patroni.UP, 0.02)

    def wait_writes(self):
        """Waits until all writers have written once more."""
        before = time.monotonic()
        waiting.wait_for(lambda: all(w.acknowledged and w.acknowledged[-1][0] > before for w in self.writers),
                         "writes go on", patroni.UP)

    def run(self, happen):
        self.cluster.wait_whole()
        self.writers = [writers.Writer(connect, group + number, number < ANEW)
                        for group, connect in ((0, self.pooler.connect), (100, self.through_haproxy))
                        for number in range(WRITERS)]
        self.cluster.primary.do("truncate written")
        probers = [Prober(node) for node in self.cluster.nodes]
        for thread in probers + self.writers:
            thread.start()
        self.wait_writes()
        time.sleep(SECONDS)
        for writer in self.writers:
            del writer.errors[:]
        begun = time.monotonic()
        happen(self)
        self.wait_writes()
        time.sleep(SECONDS)
        self.cluster.wait_whole()
        writers.finish(self.writers)
        for prober in probers:
            prober.ends = True
        own = sorted(moment for prober in probers for moment in prober.moments)
        result = [max(b - a for a, b in zip(own, own[1:]) if b > begun)]
        with self.cluster.primary.client() as client:
            for group in (self.writers[:WRITERS], self.writers[WRITERS:]):
                result += [beyond(writers.moments(group), own, begun), sum(bool(w.errors) for w in group),
                           sum(len(w.errors) for w in group), writers.lost(group, client)]
        return result

    def stop(self):
        for thing in ("haproxy", "pooler", "cluster"):
            if hasattr(self, thing):
                getattr(self, thing).remove()
        for process in self.old:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pooler", default="build/release/pgbouncer", metavar="BIN")
    parser.add_argument("--pg-bin", default=None, metavar="FOLDER", help="PostgreSQL's programs")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--event", action="append", help="the beginning of an event's name")
    parser.add_argument("--ttl", type=int, default=30, help="of Patroni, as the next two; the defaults are its own")
    parser.add_argument("--loop-wait", type=int, default=10)
    parser.add_argument("--retry-timeout", type=int, default=10)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the pooler")
    options = parser.parse_args()
    options.pg_bin = options.pg_bin or find_pg_bin()
    lacking = patroni.missing() or (not haproxy.PROGRAM and "not installed: haproxy")
    if lacking:
        parser.error(lacking)
    bench = Bench(options)
    try:
        bench.start()
        print("| event | PostgreSQL itself: seconds without a write | pooler: seconds beyond that | clients with an error "
              "(errors) | acknowledged rows lost | haproxy: seconds beyond that | clients with an error (errors) "
              "| acknowledged rows lost |\n|---|---|---|---|---|---|---|---|", flush=True)
        for name, happen in EVENTS.items():
            if options.event and not any(name.startswith(wanted) for wanted in options.event):
                continue
            rounds = [bench.run(happen) for _ in range(options.rounds)]
            print("| %s | %.1f | %.2f | %d (%d) | %d | %.2f | %d (%d) | %d |" % (
                name, *[max(values) for values in zip(*rounds)]), flush=True)
    finally:
        bench.stop()


if __name__ == "__main__":
    main()
