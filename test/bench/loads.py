"""Scenarios under load: pgbench, the load program, COPY, logins without a query."""

import glob
import os
import re
import time

import calls
import clients
from machine import DATABASE, HOST, USER, Trouble, tail, until
from scenario import (MEGABYTE, SERVERS, Scenario, latencies, load_command, per_piece, run_load,
                      secured, settle)

METRICS = (("tps", "tx/s"), ("p50", "p50 ms"), ("p99", "p99 ms"), ("p99.9", "p99.9 ms"),
           ("cpu", "cpu us/tx"), ("user", "user us"), ("system", "sys us"))
LOGIN_METRICS = tuple((key, title.replace("tx", "login")) for key, title in METRICS)
COPY_METRICS = (("cpu", "cpu us/MB"), ("user", "user us"), ("system", "sys us"))
COPY_ROWS = 300000
CALLS_SECONDS = "1"


class Pgbench(Scenario):
    metrics = METRICS
    is_loaded = True

    def __init__(self, name, about, arguments, client_count=None, servers=SERVERS, script=None,
                 against=None, is_secured=False, **more):
        """`against` gives other pgbench arguments for the reference, where it does not support
        these."""
        super().__init__(name, about, **more)
        self.against, self.is_secured = against, is_secured
        self.arguments, self.client_count = arguments, client_count
        self.servers, self.script = servers, script
        self.is_reconnecting = "-C" in arguments
        self.is_plain = not is_secured and self.auth == "trust"

    def count(self, options):
        return self.client_count or options.clients

    def settings(self, options, machine):
        # In session mode every client needs its own server connection.
        size = self.count(options) if self.mode == "session" else self.servers
        return dict({"pool_mode": self.mode, "default_pool_size": size},
                    **(secured(machine) if self.is_secured else {}))

    def server(self, bench):
        return bench.need_postgres()

    def has_quick_transactions(self):
        return not self.script and not self.is_reconnecting

    def command(self, bench, subject, options, *length):
        count = self.count(options)
        host = bench.machine.dir if options.unix else HOST
        arguments = self.against if self.against and subject.name == "reference" else self.arguments
        found = [bench.need_postgres().program("pgbench"), "-n", "-h", host, "-p", str(subject.port),
                 "-U", USER, "-c", str(count), "-j", str(min(2, count)), *arguments, *length]
        if self.script:
            path = bench.machine.path(self.name + ".sql")
            found += ["-f", bench.machine.write(path, self.script)]
        mode = "require" if self.is_secured else "disable"
        return found + ["dbname=%s sslmode=%s" % (DATABASE, mode)]

    def warm(self, bench, subject, options):
        bench.machine.run(*self.command(bench, subject, options, "-t",
                                        "2" if self.script or self.is_reconnecting else "20"))

    def measure(self, bench, subject, options):
        self.warm(bench, subject, options)
        log = bench.machine.fresh_path("transactions")
        wanted = ["-T", str(max(1, round(options.seconds))), "-l", "--log-prefix=" + log]
        if self.has_quick_transactions():
            wanted.append("--sampling-rate=%g" % options.sampling)
        command = self.command(bench, subject, options, *wanted)
        count, tps, before = self.run(bench, subject, log, command)
        after = subject.pid and subject.cpu()
        subject.check()
        row = {"tps": tps, "transactions": count}
        if subject.pid:
            row.update(per_piece(before, after, count), memory=subject.memory())
        row.update(latencies(self.read(log)))
        return row

    def run(self, bench, subject, log, command):
        """Returns the number of transactions, their rate, and the subject's CPU time at the start
        of the count."""
        path = bench.machine.fresh_path("pgbench")
        with open(path, "wb") as out:
            process = bench.machine.start(command, stdout=out, stderr=out)
        before = subject.pid and subject.cpu()
        if self.has_quick_transactions():
            # The first logged transactions show that the logins are over, so the count begins here.
            until(lambda: process.poll() is not None or any(
                os.path.getsize(p) for p in glob.glob(log + ".*")), "pgbench works", 60)
            if process.poll() is None:
                before = subject.pid and subject.cpu()
        bench.machine.wait(process, 120)
        with open(path) as out:
            output = out.read()
        count, tps = (re.search(p, output) for p in (r"processed: (\d+)", r"tps = ([\d.]+)"))
        if process.returncode != 0 or not count or not int(count.group(1)):
            raise Trouble("pgbench: %s\n%s" % (output.strip()[-600:], tail(subject.log)))
        return int(count.group(1)), float(tps.group(1)), before

    def read(self, log):
        """Returns the duration of each logged transaction in seconds: the third field of pgbench's
        log. With a new connection per transaction it is the time since the end of the same client's
        previous transaction, so that it includes the login."""
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

    def count_calls(self, bench, subject, options):
        """Counts system calls per transaction by name in one short run. The logins of the run are
        included."""
        self.warm(bench, subject, options)
        output, found = calls.count(bench.machine, bench.counter, subject.pid,
                                    self.command(bench, subject, options, "-T", CALLS_SECONDS))
        count = int(re.search(r"processed: (\d+)", output).group(1))
        return {name: times / count for name, times in found.items()}


class Program(Scenario):
    """Runs the load program. It measures the latency of every request and uses little CPU time
    itself."""

    metrics = METRICS
    is_loaded = is_plain = True

    def __init__(self, name, about, words, client_count=None, **more):
        super().__init__(name, about, **more)
        self.words, self.client_count = words, client_count

    def count(self, options):
        return self.client_count(options) if self.client_count else options.clients

    def arguments(self, bench, subject, options):
        found = ["--port", subject.port, "--clients", self.count(options), *self.words(options)]
        if options.unix:
            found += ["--unix", bench.machine.dir]
        return found

    def measure(self, bench, subject, options):
        words = self.arguments(bench, subject, options) + ["--seconds", options.seconds]
        if subject.pid:
            words += ["--watch", subject.pid]
        row = run_load(bench, *words)
        row["spread"] = row["p99"] / row["p50"]
        subject.check()
        return row

    def count_calls(self, bench, subject, options):
        words = self.arguments(bench, subject, options) + ["--warm", 0, "--seconds", CALLS_SECONDS]
        output, found = calls.count(bench.machine, bench.counter, subject.pid,
                                    load_command(bench, *words))
        count = int(re.search(r'"transactions": (\d+)', output).group(1))
        return {name: times / count for name, times in found.items()}


class Crowd(Program):
    """Most clients are idle. After each answer the client that was idle longest sends the next
    request."""

    metrics = METRICS[:4] + (("spread", "p99/p50"),) + METRICS[4:]


class Storm(Scenario):
    """Clients log in and disconnect as often as possible."""

    metrics = LOGIN_METRICS

    def __init__(self, name, about, **more):
        super().__init__(name, about, auth="scram-sha-256", **more)

    def measure(self, bench, subject, options):
        clients.storm(subject.port, 0.2)
        before, start = subject.cpu(), time.monotonic()
        took = clients.storm(subject.port, options.seconds)
        spent = time.monotonic() - start
        settle(subject)
        row = {"tps": len(took) / spent, "transactions": len(took)}
        row.update(per_piece(before, subject.cpu(), len(took)), **latencies(took))
        subject.check()
        return row


class Copy(Scenario):
    """psql copies one table in or out by COPY, repeatedly."""

    metrics = COPY_METRICS
    is_plain = True

    def __init__(self, name, about, is_in, **more):
        super().__init__(name, about, **more)
        self.is_in = is_in

    def psql(self, bench, port, *commands):
        return bench.machine.run(
            bench.need_postgres().program("psql"), "-X", "-q", "-h", HOST, "-p", str(port), "-U",
            USER, "-v", "ON_ERROR_STOP=1", *(part for c in commands for part in ("-c", c)), DATABASE)

    def server(self, bench):
        return bench.need_postgres()

    def make_table(self, bench, path):
        if not os.path.exists(path):
            self.psql(bench, bench.need_postgres().port,
                      "create table copied (n int, words text)",
                      "insert into copied select n, repeat('x', 63) from generate_series(1, %d) n"
                      % COPY_ROWS, "\\copy copied to '%s'" % path)

    def measure(self, bench, subject, options):
        path = bench.machine.path("copied")
        self.make_table(bench, path)
        megabytes, times = os.path.getsize(path) / MEGABYTE, max(1, round(options.seconds))
        out = "\\copy copied to '/dev/null'"
        self.psql(bench, subject.port, "select 1")
        before = subject.pid and subject.cpu()
        for _ in range(times):
            if self.is_in:
                self.psql(bench, subject.port, "begin", "\\copy copied from '%s'" % path, "rollback")
            else:
                self.psql(bench, subject.port, out)
        subject.check()
        return per_piece(before, subject.cpu(), megabytes * times) if subject.pid else {}
