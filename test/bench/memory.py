"""Scenarios that measure the memory (PSS) of idle clients, users, pools and prepared statements."""

import time

import clients
from machine import DATABASE, HOST, USER, Process, free_port
from scenario import SERVERS, Holder, Scenario, per_piece, run_load, secured, settle

USERS = 10000  # The number of users in the user list.
POOLS = 500
FIRST = 200


class Idle(Scenario):
    """Clients that have logged in and run one query, and are idle now."""

    metrics = (("memory", "bytes/client"), ("login_cpu", "cpu us/login"),
               ("idle_cpu", "idle cpu ms/s"))

    def measure(self, bench, subject, options):
        # These clients warm the pooler up: as many as log in at once, so that memory that is
        # allocated once exists before the measurement begins.
        first = Holder(bench, subject, FIRST)
        memory, before = subject.memory(), subject.cpu()
        crowd = Holder(bench, subject, options.idle_clients)
        try:
            settle(subject)
            after = subject.cpu()
            row = {"memory": (subject.memory() - memory) / options.idle_clients,
                   "login_cpu": per_piece(before, after, options.idle_clients)["cpu"]}
            time.sleep(options.seconds)
            row["idle_cpu"] = (subject.cpu()[0] - after[0]) * 1000 / options.seconds
            subject.check()
        finally:
            crowd.close()
            first.close()
        return row


class IdleTls(Scenario):
    """Idle clients as in Idle, with TLS."""

    metrics = (("memory", "bytes/client"), ("login_cpu", "cpu us/login"))

    def settings(self, options, machine):
        return dict(super().settings(options, machine), **secured(machine))

    def measure(self, bench, subject, options):
        first = clients.open_idle_tls(subject.port, FIRST)
        memory, before = subject.memory(), subject.cpu()
        peers = clients.open_idle_tls(subject.port, options.tls_clients)
        try:
            settle(subject)
            row = {"memory": (subject.memory() - memory) / len(peers),
                   "login_cpu": per_piece(before, subject.cpu(), len(peers))["cpu"]}
            subject.check()
        finally:
            clients.close_idle(first + peers)
        return row


class Users(Scenario):
    """Users in the user list who never log in."""

    metrics = (("memory", "bytes/user"), ("start", "start cpu ms"))

    def __init__(self, name, about, **more):
        super().__init__(name, about, auth="scram-sha-256", **more)

    def users(self):
        secret = self.secret()
        return dict(super().users(), **{"user%d" % n: secret for n in range(USERS)})

    def measure(self, bench, subject, options):
        settle(subject)
        memory, start = subject.memory(), subject.cpu()[0]
        alone = subject.like(super().users())
        try:
            settle(alone)
            return {"memory": (memory - alone.memory()) / USERS,
                    "start": (start - alone.cpu()[0]) * 1000}
        finally:
            alone.stop()


class Pools(Scenario):
    """Pools whose only client has left and whose server connection was closed to make room."""

    entry = "max_db_connections=%d" % SERVERS
    metrics = (("memory", "bytes/pool"), ("login_cpu", "cpu us/login"))

    def server(self, bench):
        return bench.need_postgres()

    def names(self):
        return ["pool%d" % n for n in range(POOLS)]

    def users(self):
        return dict(super().users(), **{name: self.secret() for name in self.names()})

    def measure(self, bench, subject, options):
        bench.need_postgres().need_roles(self.names())
        clients.visit(subject.port, [USER] * SERVERS)
        settle(subject)
        memory, before = subject.memory(), subject.cpu()
        clients.visit(subject.port, self.names())
        settle(subject)
        subject.check()
        return {"memory": (subject.memory() - memory) / POOLS,
                "login_cpu": per_piece(before, subject.cpu(), POOLS)["cpu"]}


class Statements(Scenario):
    """Named prepared statements of clients in transaction mode. Each server connection keeps only a
    few of them."""

    metrics = (("own", "bytes/text"), ("shared", "bytes/name"))
    is_ours_only = True
    texts, peers = 5000, 50

    def measure(self, bench, subject, options):
        first = [clients.established(subject.port) for _ in range(self.peers)]
        try:
            settle(subject)
            before = subject.memory()
            first[0].prepare(range(self.texts))
            own = subject.memory()
            for client in first[1:]:
                client.prepare(range(self.texts // 10))
            shared = subject.memory()
        finally:
            clients.close_idle(first)
        names = (self.peers - 1) * (self.texts // 10)
        return {"own": (own - before) / self.texts, "shared": (shared - own) / names}


class Canned(Process):
    """The server of canned answers, which accepts every login for every database."""

    def __init__(self, machine, program, delay=0):
        port = free_port()
        super().__init__(machine, "canned", [program, "--port", str(port), "--delay", str(delay)],
                         machine.fresh_path("canned.log"), port)
        self.wait_until_up()


class ManyPools(Scenario):
    """Pools of databases that only the `*` entry covers. Each pool was used once. The scenario also
    measures the latency of an established client meanwhile. Server connections are closed after
    each transaction."""

    metrics = (("memory", "bytes/pool"), ("login_cpu", "cpu us/visit"), ("quiet", "p99 before"),
               ("during", "p99 after"), ("times", "times"), ("idle_cpu", "idle cpu ms/s"))
    most_rounds = 2

    def server(self, bench):
        return bench.need_canned()

    def databases(self, port):
        return {DATABASE: "host=%s port=%d" % (HOST, port),
                "*": "host=%s port=%d" % (HOST, port)}

    def settings(self, options, machine):
        return dict(super().settings(options, machine), server_lifetime=0, server_round_robin=0,
                    autodb_idle_timeout=100000)

    def steady(self, bench, subject, options):
        return run_load(bench, "--port", subject.port, "--rate", 1000, "--seconds", options.seconds)

    def measure(self, bench, subject, options):
        count = options.many_pools
        if subject.name == "reference":
            count = min(count, options.reference_pools)
        quiet = self.steady(bench, subject, options)["p99"]
        memory, before = subject.memory(), subject.cpu()
        bench.machine.run(bench.load_program, "--port", str(subject.port), "--clients", str(count),
                          "--database", "pool%", "--visit", seconds=120 + count / 100)
        settle(subject)
        row = {"memory": (subject.memory() - memory) / count,
               "login_cpu": per_piece(before, subject.cpu(), count)["cpu"]}
        before = subject.cpu()
        time.sleep(options.seconds)
        row["idle_cpu"] = (subject.cpu()[0] - before[0]) * 1000 / options.seconds
        during = self.steady(bench, subject, options)["p99"]
        subject.check()
        return dict(row, quiet=quiet, during=during, times=during / quiet)
