"""Scenarios that show what several workers (threads) of one pooler cost, and whom they serve."""

import os

import clients
from loads import METRICS, Program
from machine import Pooler
from scenario import SERVERS, run_load

COUNTS = (2, 4, 8)  # Numbers of workers that are compared with one.
GROUPS = 8  # The clients of one group are all at the same worker, with up to so many workers.
DELAY = 1  # The milliseconds that a server takes for an answer, where clients wait for servers.
WAITING = 600  # The clients of the scenario fairness.
MANY_SERVERS = 48  # So many that all workers have enough, with 32 clients.
PER_GROUP = 32  # Active clients where one group at a time is active.


def name_of(count):
    return "%d worker%s" % (count, "" if count == 1 else "s")


def relay_name(count):
    return "%d thread%s" % (count, "" if count == 1 else "s")


BESIDE = {name_of(count): relay_name(count) for count in (1, *COUNTS)}


def compared_with(subject):
    """Returns the subject with which this one is compared."""
    return relay_name(1) if subject in BESIDE.values() else name_of(1)


def handed_over(subject):
    """Returns how many servers at rest workers have handed to each other so far."""
    console = clients.console(subject.port)
    try:
        return sum(int(row["servers_out"]) for row in console.rows("show workers"))
    finally:
        console.sock.close()


def busiest(before, after):
    """Returns the busiest thread's part of the CPU time of all threads."""
    spent = [after[thread] - before.get(thread, 0) for thread in after]
    return max(spent) / sum(spent)


class SeveralWorkers(Program):
    """Clients in front of a server of canned answers, so that the pooler uses most of the
    processors. What the load and the server use is measured, too."""

    metrics = METRICS[:5] + (("load_cpu", "load us"), ("server_cpu", "server us"),
                             ("in_use", "in use %"), ("handed", "moved/1000"),
                             ("busiest", "busiest %"), ("memory", "memory MB"))
    is_ours_only = True
    is_plain = False
    delay = 0

    def __init__(self, name, about, words, servers=SERVERS, has_relays=False, **more):
        """`has_relays`: the smallest relay runs beside, with as many threads."""
        super().__init__(name, about, words, **more)
        self.servers, self.has_relays = servers, has_relays

    def settings(self, options, machine):
        return dict(super().settings(options, machine), default_pool_size=self.servers)

    def server(self, bench):
        return bench.need_canned(self.delay)

    def measure(self, bench, subject, options):
        words = self.arguments(bench, subject, options) + [
            "--seconds", options.seconds, "--watch", subject.pid,
            "--watch-server", self.server(bench).pid]
        is_pooler = isinstance(subject, Pooler)
        before, threads = is_pooler and handed_over(subject), subject.thread_cpu()
        row = run_load(bench, *words)
        row["busiest"] = 100 * busiest(threads, subject.thread_cpu())
        requests = row["transactions"] + row["early"]
        if is_pooler:
            row["handed"] = 1000 * (handed_over(subject) - before) / requests
        used = row["cpu"] + row["load_cpu"] + row["server_cpu"]
        row["in_use"] = row["tps"] * used / 1e4 / os.cpu_count()
        row["memory"] = subject.memory() / 1e6
        subject.check()
        return row


class Waits(SeveralWorkers):
    """More clients than servers, and a server takes its time, so that what is measured is how long
    clients wait for one."""

    metrics = METRICS[:4] + (("max", "max ms"), ("cpu", "cpu us/tx"), ("handed", "moved/1000"),
                             ("busiest", "busiest %"))
    delay = DELAY
    is_loaded = False


def one_group(options):
    return "--every", GROUPS


def group_after_group(options):
    return "--every", GROUPS, "--shift", 0.1


ALL = (
    SeveralWorkers("scale", "select 1, 32 clients", lambda o: (), has_relays=True),
    SeveralWorkers("scale-1000", "select 1, 1,000 clients", lambda o: (), client_count=lambda o: 1000,
         has_relays=True),
    SeveralWorkers("scale-wide", "select 1, 32 clients, a server for each", lambda o: (),
         servers=MANY_SERVERS, has_relays=True),
    SeveralWorkers("uneven", "select 1, all %d active clients of %d at one worker" % (
        PER_GROUP, PER_GROUP * GROUPS), one_group, client_count=lambda o: PER_GROUP * GROUPS),
    SeveralWorkers("wander", "select 1, the %d active clients of %d at another worker ten times a second" % (
        PER_GROUP, PER_GROUP * GROUPS), group_after_group,
         client_count=lambda o: PER_GROUP * GROUPS),
    Waits("fairness", "%d clients wait for %d servers, of which each takes %d ms" % (
        WAITING, SERVERS, DELAY), lambda o: (), client_count=lambda o: WAITING),
    Waits("elsewhere", "%d clients, active at another worker than before ten times a second, "
          "%d servers, of which each takes %d ms" % (SERVERS, SERVERS, DELAY),
          group_after_group, client_count=lambda o: SERVERS * GROUPS),
)
