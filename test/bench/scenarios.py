"""What is measured: each scenario starts a pooler, loads it, and gives a row of numbers."""

import glob
import hashlib
import os
import re
import signal
import time

import clients
from machine import DATABASE, HOST, SECRET, USER, Trouble, tail, until

SERVERS = 16
WAVE = 1000  # logins
USERS = 10000  # in the user list
POOLS = 500
MEGABYTE = 1 << 20
QUIET = 0.001  # seconds of CPU time in 0.3 s: nobody works

LOAD_METRICS = [("tps", "tx/s"), ("p50", "p50 ms"), ("p99", "p99 ms"), ("p99.9", "p99.9 ms"),
                ("cpu", "cpu us/tx"), ("user", "user us"), ("system", "sys us")]
LOGIN_METRICS = [(key, title.replace("tx", "login")) for key, title in LOAD_METRICS]
TLS_METRICS = [("memory", "bytes/client"), ("login_cpu", "cpu us/login")]
WAVE_METRICS = [("quiet", "quiet p99 ms"), ("during", "p99 ms meanwhile"), ("times", "times"),
                ("logins", "logins/s"), ("login_cpu", "cpu us/login")]
USER_METRICS = [("memory", "bytes/user"), ("start", "start cpu ms")]
POOL_METRICS = [("memory", "bytes/pool"), ("login_cpu", "cpu us/login")]
IDLE_METRICS = [("memory", "bytes/client"), ("login_cpu", "cpu us/login"),
                ("idle_cpu", "idle cpu ms/s")]


def percentile(ordered, percent):
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def latencies(seconds):
    if not seconds:
        return {}
    ordered = sorted(seconds)
    return {"p%g" % p: percentile(ordered, p) * 1000 for p in (50, 99, 99.9)}


def per_piece(before, after, pieces):
    """CPU time of each piece of work in microseconds, in all and by kind."""
    kinds = zip(("cpu", "user", "system"), before, after)
    return {kind: (b - a) * 1e6 / pieces for kind, a, b in kinds}


def settle(pooler):
    """Waits until the pooler has nothing more to do."""
    give_up = time.monotonic() + 5
    last = 0
    while pooler.cpu()[0] - last > QUIET and time.monotonic() < give_up:
        last = pooler.cpu()[0]
        time.sleep(0.3)


def secured(machine):
    certificate, key = machine.certificate()
    return {"client_tls_sslmode": "require", "client_tls_cert_file": certificate,
            "client_tls_key_file": key}


class Scenario:
    entry = ""  # more of the database's connection string

    def __init__(self, name, about, mode="transaction", auth="trust"):
        self.name, self.about, self.mode, self.auth = name, about, mode, auth
        self.metrics = LOAD_METRICS

    def secret(self):
        if self.auth == "md5":
            return "md5" + hashlib.md5((SECRET + USER).encode()).hexdigest()
        return clients.scram_secret()

    def users(self):
        return {USER: self.secret()}

    def settings(self, _options, _machine):
        return {"pool_mode": self.mode, "default_pool_size": SERVERS}


class Load(Scenario):
    """pgbench through the pooler."""

    def __init__(self, name, about, arguments, client_count=None, servers=SERVERS, script=None,
                 against=None, is_secured=False, **more):
        """against: pgbench's arguments for A, where it cannot do the same."""
        super().__init__(name, about, **more)
        self.against, self.is_secured = against, is_secured
        self.arguments, self.client_count = arguments, client_count
        self.servers, self.script = servers, script
        self.is_reconnecting = "-C" in arguments

    def count(self, options):
        return self.client_count or options.clients

    def settings(self, options, machine):
        # In session mode every client needs a server of its own.
        size = self.count(options) if self.mode == "session" else self.servers
        return dict({"pool_mode": self.mode, "default_pool_size": size},
                    **(secured(machine) if self.is_secured else {}))

    def has_quick_transactions(self):
        return not self.script and not self.is_reconnecting

    def command(self, bench, pooler, options, *length):
        count = self.count(options)
        host = bench.machine.dir if options.unix else HOST
        arguments = self.against if self.against and pooler.letter == "A" else self.arguments
        found = [bench.postgres.program("pgbench"), "-n", "-h", host, "-p", str(pooler.port),
                 "-U", USER, "-c", str(count), "-j", str(min(2, count)), *arguments, *length]
        if self.script:
            path = bench.machine.path(self.name + ".sql")
            found += ["-f", bench.machine.write(path, self.script)]
        mode = "require" if self.is_secured else "disable"
        return found + ["dbname=%s sslmode=%s" % (DATABASE, mode)]

    def warm(self, bench, pooler, options):
        bench.machine.run(*self.command(bench, pooler, options, "-t", "2" if self.script else "20"))

    def measure(self, bench, pooler, options):
        self.warm(bench, pooler, options)
        log = bench.machine.fresh_path("transactions")
        wanted = ["-T", str(options.seconds), "-l", "--log-prefix=" + log]
        if self.has_quick_transactions():
            wanted.append("--sampling-rate=%g" % options.sampling)
        command = self.command(bench, pooler, options, *wanted)
        count, tps, before = self.run(bench, pooler, log, command)
        after = pooler.cpu()
        pooler.check()
        row = {"tps": tps, "transactions": count, "rss": pooler.rss()}
        row.update(per_piece(before, after, count))
        row.update(latencies(self.read(log)))
        return row

    def run(self, bench, pooler, log, command):
        """Gives transactions, their rate, and the pooler's CPU time when they began."""
        path = bench.machine.fresh_path("pgbench")
        with open(path, "wb") as out:
            process = bench.machine.start(command, stdout=out, stderr=out)
        before = pooler.cpu()
        if self.has_quick_transactions():
            # Once transactions are in the log the logins are over: count from here.
            until(lambda: process.poll() is not None or any(
                os.path.getsize(p) for p in glob.glob(log + ".*")), "pgbench works", 60)
            if process.poll() is None:
                before = pooler.cpu()
        bench.machine.wait(process, 120)
        with open(path) as out:
            output = out.read()
        count, tps = (re.search(p, output) for p in (r"processed: (\d+)", r"tps = ([\d.]+)"))
        if process.returncode != 0 or not count or not int(count.group(1)):
            raise Trouble("pgbench: %s\n%s" % (output.strip()[-600:], tail(pooler.log)))
        return int(count.group(1)), float(tps.group(1)), before

    def read(self, log):
        """Seconds of each logged transaction. Of pgbench's log, the third field; with a new
        connection for each, the time since the same client's last end, logins included."""
        found, last = [], {}
        for path in glob.glob(log + ".*"):
            with open(path) as lines:
                for line in lines:
                    client, _, took, _, seconds, micros = line.split()[:6]
                    if not self.is_reconnecting:
                        found.append(int(took) / 1e6)
                        continue
                    end = int(seconds) + int(micros) / 1e6
                    if client in last:
                        found.append(end - last[client])
                    last[client] = end
            os.unlink(path)
        return found

    def count_syscalls(self, bench, pooler, options):
        """System calls per transaction by name, under strace: all of one short run."""
        self.warm(bench, pooler, options)
        table, notes = bench.machine.fresh_path("strace"), bench.machine.fresh_path("strace-notes")
        with open(notes, "wb") as out:
            strace = bench.machine.start(
                ["strace", "-c", "-f", "-o", table, "-p", str(pooler.pid)], unprivileged=False,
                stdout=out, stderr=out)
        until(lambda: strace.poll() is not None or "attached" in tail(notes),
              "strace is attached", 10)
        if strace.poll() is not None:
            raise Trouble("strace: " + tail(notes).strip())
        output = bench.machine.run(*self.command(bench, pooler, options, "-T", "2"))
        bench.machine.stop(strace, signal.SIGINT)
        transactions = int(re.search(r"processed: (\d+)", output).group(1))
        found = {}
        with open(table) as lines:
            for line in lines:
                fields = line.split()
                if len(fields) >= 5 and fields[3].isdigit() and fields[-1] != "total":
                    found[fields[-1]] = int(fields[3]) / transactions
        return found


class Idle(Scenario):
    """Clients that are logged in, have asked once, and now do nothing."""

    def __init__(self, name, about):
        super().__init__(name, about)
        self.metrics = IDLE_METRICS

    def measure(self, bench, pooler, options):
        first = clients.open_idle(pooler.port, SERVERS)
        memory, before = pooler.rss(), pooler.cpu()
        peers = clients.open_idle(pooler.port, options.idle_clients)
        try:
            settle(pooler)
            after = pooler.cpu()
            row = {"memory": (pooler.rss() - memory) / len(peers),
                   "login_cpu": per_piece(before, after, len(peers))["cpu"]}
            time.sleep(options.seconds)
            row["idle_cpu"] = (pooler.cpu()[0] - after[0]) * 1000 / options.seconds
            pooler.check()
        finally:
            clients.close_idle(first + peers)
        return row


class IdleTls(Scenario):
    """The same inside TLS."""

    def __init__(self, name, about):
        super().__init__(name, about)
        self.metrics = TLS_METRICS

    def settings(self, options, machine):
        return dict(super().settings(options, machine), **secured(machine))

    def measure(self, bench, pooler, options):
        first = clients.open_idle_tls(pooler.port, SERVERS)
        memory, before = pooler.rss(), pooler.cpu()
        peers = clients.open_idle_tls(pooler.port, options.tls_clients)
        try:
            settle(pooler)
            row = {"memory": (pooler.rss() - memory) / len(peers),
                   "login_cpu": per_piece(before, pooler.cpu(), len(peers))["cpu"]}
            pooler.check()
        finally:
            clients.close_idle(first + peers)
        return row


class Users(Scenario):
    """Users of the user list of whom nobody ever comes."""

    def __init__(self, name, about):
        super().__init__(name, about, auth="scram-sha-256")
        self.metrics = USER_METRICS

    def users(self):
        secret = self.secret()
        return dict(super().users(), **{"user%d" % n: secret for n in range(USERS)})

    def measure(self, bench, pooler, options):
        settle(pooler)
        memory, start = pooler.rss(), pooler.cpu()[0]
        alone = pooler.like(super().users())
        try:
            settle(alone)
            return {"memory": (memory - alone.rss()) / USERS,
                    "start": (start - alone.cpu()[0]) * 1000}
        finally:
            alone.stop()


class Pools(Scenario):
    """Pools whose one client has left and whose server was closed for the sake of others."""

    entry = "max_db_connections=%d" % SERVERS

    def __init__(self, name, about):
        super().__init__(name, about)
        self.metrics = POOL_METRICS

    def names(self):
        return ["pool%d" % n for n in range(POOLS)]

    def users(self):
        return dict(super().users(), **{name: self.secret() for name in self.names()})

    def measure(self, bench, pooler, options):
        bench.postgres.need_roles(self.names())
        clients.visit(pooler.port, [USER] * SERVERS)
        settle(pooler)
        memory, before = pooler.rss(), pooler.cpu()
        clients.visit(pooler.port, self.names())
        settle(pooler)
        pooler.check()
        return {"memory": (pooler.rss() - memory) / POOLS,
                "login_cpu": per_piece(before, pooler.cpu(), POOLS)["cpu"]}


class Wave(Scenario):
    """What a client that asks one question after the other feels while many log in, each of
    whose keys must be derived."""

    entry = "user=" + USER  # the others are no roles of the server

    def __init__(self, name, about):
        super().__init__(name, about, auth="scram-sha-256")
        self.metrics = WAVE_METRICS

    def users(self):
        return dict(super().users(), **dict(clients.wave_user(n) for n in range(WAVE)))

    def measure(self, bench, pooler, options):
        client = clients.established(pooler.port)
        try:
            client.latencies(self.for_seconds(0.5))
            quiet = client.latencies(self.for_seconds(options.seconds))
            before, start = pooler.cpu(), time.monotonic()
            process = clients.wave(pooler.port, WAVE)
            during = client.latencies(lambda: process.poll() is None)
            spent = time.monotonic() - start
            if process.returncode != 0:
                raise Trouble("the logins ended with %s" % process.returncode)
            pooler.check()
        finally:
            client.sock.close()
        p99 = [latencies(took)["p99"] for took in (quiet, during)]
        return {"quiet": p99[0], "during": p99[1], "times": p99[1] / p99[0],
                "logins": WAVE / spent,
                "login_cpu": per_piece(before, pooler.cpu(), WAVE)["cpu"]}

    @staticmethod
    def for_seconds(seconds):
        end = time.monotonic() + seconds
        return lambda: time.monotonic() < end


class Storm(Scenario):
    """Clients that log in and leave, as many as fit."""

    def __init__(self, name, about):
        super().__init__(name, about, auth="scram-sha-256")
        self.metrics = LOGIN_METRICS

    def measure(self, bench, pooler, options):
        clients.storm(pooler.port, 0.2)
        before, start = pooler.cpu(), time.monotonic()
        took = clients.storm(pooler.port, options.seconds)
        spent = time.monotonic() - start
        settle(pooler)
        row = {"tps": len(took) / spent, "transactions": len(took)}
        row.update(per_piece(before, pooler.cpu(), len(took)), **latencies(took))
        pooler.check()
        return row


class Copy(Scenario):
    """COPY of one table in or out by psql, again and again."""

    def __init__(self, name, about, is_in):
        super().__init__(name, about)
        self.is_in = is_in
        self.metrics = [("cpu", "cpu us/MB"), ("user", "user us"), ("system", "sys us")]

    def psql(self, bench, port, *commands):
        return bench.machine.run(
            bench.postgres.program("psql"), "-X", "-q", "-h", HOST, "-p", str(port), "-U", USER,
            "-v", "ON_ERROR_STOP=1", *(part for c in commands for part in ("-c", c)), DATABASE)

    def measure(self, bench, pooler, options):
        path = bench.machine.path("copied")
        self.psql(bench, bench.postgres.port,
                  "create table if not exists copied (n int, words text)", "truncate copied",
                  "insert into copied select n, repeat('x', 63) from generate_series(1, %d) n"
                  % COPY_ROWS)
        out = "\\copy copied to '%s'" % path
        self.psql(bench, pooler.port, out)
        megabytes = os.path.getsize(path) / MEGABYTE
        before = pooler.cpu()
        for _ in range(options.seconds):
            if self.is_in:
                self.psql(bench, pooler.port, "begin", "\\copy copied from '%s'" % path, "rollback")
            else:
                self.psql(bench, pooler.port, out)
        pooler.check()
        return per_piece(before, pooler.cpu(), megabytes * options.seconds)


LARGE = "select repeat('x', %d) from generate_series(1, 10);\n" % MEGABYTE
MANY_ROWS = "select n, repeat('x', 90) from generate_series(1, 100000) n;\n"

ROWS_OF_1K = "select repeat('x', 1000) from generate_series(1, 20000);\n"
PIPELINE = "\\startpipeline\n" + "select 1;\n" * 10 + "\\endpipeline\n"
COPY_ROWS = 300000

ALL = [
    Load("select1", "select 1, simple protocol", [], script="select 1;\n"),
    Load("simple", "pgbench -S, simple protocol", ["-S", "-M", "simple"]),
    Load("extended", "pgbench -S, extended protocol", ["-S", "-M", "extended"]),
    Load("prepared", "pgbench -S, prepared statements, session mode", ["-S", "-M", "prepared"],
         mode="session"),
    Load("shared", "the same in transaction mode; A with the simple protocol",
         ["-S", "-M", "prepared"], against=["-S", "-M", "simple"]),
    Load("pipeline", "10 queries per flush", ["-M", "extended"], script=PIPELINE),
    Load("one", "select 1, one client", [], client_count=1, script="select 1;\n"),
    Load("fixed", "select 1 at a fixed 8,000 per second", ["-R", "8000"], script="select 1;\n"),
    Load("secured", "select 1 inside TLS", [], script="select 1;\n", is_secured=True),
    Load("secured-c", "pgbench -S -C inside TLS", ["-S", "-C"], is_secured=True),
    Load("trust-c", "pgbench -S -C, trust", ["-S", "-C"]),
    Load("connect", "pgbench -S -C, md5: a new connection for each transaction", ["-S", "-C"],
         auth="md5"),
    Load("many", "pgbench -S, 600 clients over 56 servers", ["-S"], client_count=600, servers=56),
    Load("large", "10 MB in 10 rows", [], client_count=4, script=LARGE),
    Load("bulk", "20 MB in rows of 1 KB", [], client_count=4, script=ROWS_OF_1K),
    Copy("copy-in", "COPY of 70-byte rows from the client", True),
    Copy("copy-out", "COPY of 70-byte rows to the client", False),
    Load("rows", "10 MB in 100,000 rows", [], client_count=4, script=MANY_ROWS),
    Storm("storm", "logins without a query, SCRAM secret in the user list"),
    Wave("wave", "1,000 SCRAM logins with plain-text secrets beside an established client"),
    Users("users", "%d users in the user list: resident memory" % USERS),
    Pools("pools", "%d pools in which nothing happens any more: resident memory" % POOLS),
    IdleTls("tls", "idle clients inside TLS: resident memory"),
    Idle("idle", "idle clients: resident memory, and CPU time while nothing happens"),
]
