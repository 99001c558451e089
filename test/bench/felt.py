"""Scenarios that measure the latency of established clients during a disturbance."""

import os
import shutil
import signal
import threading
import time

import clients
from machine import DATABASE, HOST, Trouble
from memory import Canned
from scenario import Holder, Scenario, latencies, per_piece, run_load

WAVE = 1000  # The number of logins in a wave.
RATE = 1000  # The number of requests per second of the established clients.
MANY = 10000  # The number of users and of databases that a RELOAD reads.


class Wave(Scenario):
    """Measures the latency of one client's queries while many others log in, each of whom makes the
    pooler derive SCRAM keys."""

    metrics = (("quiet", "p99 quiet"), ("during", "p99 beside"), ("times", "times"),
               ("logins", "logins/s"), ("login_cpu", "cpu us/login"))
    entry = "user=bench"  # The users of the wave have no role on the server.

    def __init__(self, name, about, **more):
        super().__init__(name, about, auth="scram-sha-256", **more)

    def users(self):
        return dict(super().users(), **dict(clients.wave_user(n) for n in range(WAVE)))

    def measure(self, bench, subject, options):
        client = clients.established(subject.port)
        try:
            client.latencies(self.for_seconds(0.5))
            quiet = client.latencies(self.for_seconds(options.seconds))
            before, start = subject.cpu(), time.monotonic()
            process = clients.wave(subject.port, WAVE)
            during = client.latencies(lambda: process.poll() is None)
            spent = time.monotonic() - start
            if process.returncode != 0:
                raise Trouble("the logins ended with %s" % process.returncode)
            subject.check()
        finally:
            client.sock.close()
        p99 = [latencies(took)["p99"] for took in (quiet, during)]
        return {"quiet": p99[0], "during": p99[1], "times": p99[1] / p99[0],
                "logins": WAVE / spent,
                "login_cpu": per_piece(before, subject.cpu(), WAVE)["cpu"]}

    @staticmethod
    def for_seconds(seconds):
        end = time.monotonic() + seconds
        return lambda: time.monotonic() < end


class Felt(Scenario):
    """Measures established clients that send requests at a fixed rate. When the pooler stops for a
    while, all requests that come due meanwhile are delayed. Twice a second the scenario runs a
    command on the console."""

    metrics = (("quiet", "p99 quiet"), ("during", "p99 beside"), ("times", "times"),
               ("max", "max ms"), ("cpu_ms", "cpu ms/piece"), ("took", "took ms"))
    most_rounds = 3

    def steady(self, bench, subject, options):
        return run_load(bench, "--port", subject.port, "--rate", RATE, "--seconds",
                        options.felt_seconds, "--watch", subject.pid)

    def around(self, bench, subject, options):
        """Returns what exists during the whole measurement: an object with close()."""
        raise NotImplementedError

    def act(self, subject, console):
        """Performs the disturbance once. It is called repeatedly."""
        raise NotImplementedError

    def measure(self, bench, subject, options):
        around = self.around(bench, subject, options)
        console = clients.console(subject.port)
        try:
            self.steady(bench, subject, options)
            quiet = self.steady(bench, subject, options)
            busy = Again(lambda: self.act(subject, console))
            try:
                during = self.steady(bench, subject, options)
            finally:
                took = busy.end()
            subject.check()
        finally:
            console.sock.close()
            around.close()
        more = (during["cpu"] * during["transactions"] - quiet["cpu"] * quiet["transactions"])
        return {"quiet": quiet["p99"], "during": during["p99"], "max": during["max"],
                "times": during["p99"] / quiet["p99"], "cpu_ms": more / 1000 / len(took),
                "took": sorted(took)[len(took) // 2] * 1000}


class Lifetime(Felt):
    """All clients send requests all the time, first while servers are kept, then while each one is
    replaced after five seconds."""

    metrics = (("quiet", "p99 quiet"), ("during", "p99 replacing"), ("times", "times"),
               ("max", "max ms"), ("logins", "logins/s"), ("waited", "waits ms/s"))
    is_ours_only = True

    def __init__(self, name, about, servers, **more):
        super().__init__(name, about, **more)
        self.servers = servers

    def settings(self, options, machine):
        return dict(super().settings(options, machine), default_pool_size=self.servers,
                    min_pool_size=min(self.servers, self.count(options)))

    def steady(self, bench, subject, options):
        return run_load(bench, "--port", subject.port, "--kind", "prepared", "--clients", self.count(options),
                        "--seconds", options.felt_seconds)

    def measure(self, bench, subject, options):
        console = clients.console(subject.port)
        try:
            self.steady(bench, subject, options)
            quiet = self.steady(bench, subject, options)
            console.command("set server_lifetime = 5")
            before, waited = self.logins(bench), self.waited(console)
            during = self.steady(bench, subject, options)
            logins, waited = self.logins(bench) - before, self.waited(console) - waited
            subject.check()
        finally:
            console.sock.close()
        return {"quiet": quiet["p99"], "during": during["p99"], "max": during["max"],
                "times": during["p99"] / quiet["p99"], "logins": logins / options.felt_seconds,
                "waited": waited / 1000 / options.felt_seconds}

    @staticmethod
    def waited(console):
        """Returns for how long clients have waited for a server, in microseconds."""
        rows = console.rows("show stats_totals")
        return sum(int(row["wait_time"]) for row in rows if row["database"] == DATABASE)

    @staticmethod
    def logins(bench):
        """Returns the number of connections that PostgreSQL has had."""
        return int(bench.need_postgres().psql("select sum(sessions) from pg_stat_database"))


class HostDown(Felt):
    """A database has two hosts, and one of them stops or hangs in the middle of the measurement.
    The pooler closes its connections to that host first (PAUSE), because a query in progress there
    would fail or never end. From then on the pooler keeps retrying the host."""

    metrics = (("quiet", "p99 quiet"), ("during", "p99 down"), ("times", "times"),
               ("max", "max ms"))
    is_ours_only = True

    def __init__(self, name, about, how, **more):
        super().__init__(name, about, **more)
        self.how = how

    def server(self, bench):
        return bench.need_canned()

    def settings(self, options, machine):
        return dict(super().settings(options, machine), server_login_retry=1)

    def use_both(self, bench, subject, other, console):
        subject.databases[DATABASE] = "host=%s,%s port=%d,%d" % (
            HOST, HOST, bench.server_port(self), other.port)
        subject.write_files(subject.machine)
        console.command("reload")

    def lose(self, other, console):
        console.command("pause")
        os.kill(other.pid, self.how)
        console.command("resume")

    def measure(self, bench, subject, options):
        other = Canned(bench.machine, bench.canned_program())
        console = clients.console(subject.port)
        try:
            self.use_both(bench, subject, other, console)
            self.steady(bench, subject, options)
            quiet = self.steady(bench, subject, options)
            self.lose(other, console)
            during = self.steady(bench, subject, options)
            subject.check()
        finally:
            console.sock.close()
            os.kill(other.pid, signal.SIGCONT)
            other.process.kill()
            other.process.wait()
        return {"quiet": quiet["p99"], "during": during["p99"], "max": during["max"],
                "times": during["p99"] / quiet["p99"]}


class Again:
    """Repeats an action twice a second during the load and records how long it took."""

    def __init__(self, act):
        self.act, self.took, self.fault = act, [], None
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            is_over = False
            while not is_over:
                start = time.monotonic()
                self.act()
                self.took.append(time.monotonic() - start)
                is_over = self.is_over.wait(0.5)
        except (Trouble, OSError) as fault:
            self.fault = fault

    def end(self):
        self.is_over.set()
        self.thread.join(60)
        if self.fault or self.thread.is_alive():
            raise Trouble("the console: %s" % (self.fault or "no answer"))
        return self.took


class Show(Felt):
    """Runs SHOW CLIENTS with many clients."""

    def around(self, bench, subject, options):
        return Holder(bench, subject, options.crowd)

    def act(self, subject, console):
        console.command("show clients")


class Reload(Felt):
    """Runs RELOAD with many users and databases. One user and one database come and go."""

    def __init__(self, name, about, users=MANY, databases=MANY, is_ours_only=False, **more):
        super().__init__(name, about, **more)
        self.many_users, self.many_databases = users, databases
        self.is_ours_only = is_ours_only

    def users(self):
        secret = self.secret()
        return dict(super().users(), **{"user%d" % n: secret for n in range(self.many_users)})

    def databases(self, port):
        entry = "host=%s port=%d dbname=%s" % (HOST, port, DATABASE)
        return dict(super().databases(port),
                    **{"base%d" % n: entry for n in range(self.many_databases)})

    class Versions:
        """Two versions of the files, of which the second has one user and one database more. They are
        written beforehand, because writing them would take processor time from the measurement."""

        def __init__(self, scenario, subject):
            self.subject, self.turn = subject, 0
            self.files = (subject.userlist, subject.ini)
            if scenario.many_users:
                subject.users["new"] = scenario.secret()
            if scenario.many_databases:
                subject.databases["new"] = subject.databases[DATABASE]
            for path in self.files:
                shutil.copy(path, path + ".0")
            subject.write_files(subject.machine)
            for path in self.files:
                shutil.copy(path, path + ".1")

        def swap(self):
            for path in self.files:
                os.link("%s.%d" % (path, self.turn), path + ".new")
                os.rename(path + ".new", path)
            self.turn = 1 - self.turn

        def close(self):
            pass

    def around(self, bench, subject, options):
        self.versions = self.Versions(self, subject)
        return self.versions

    def act(self, subject, console):
        self.versions.swap()
        console.command("reload")


class BusyProcess:
    """A process of low priority that computes without end."""

    def __init__(self, machine, niceness):
        self.machine = machine
        self.process = machine.start(["nice", "-n", str(niceness), "sh", "-c", "while :; do :; done"])

    def close(self):
        self.machine.stop(self.process, signal.SIGKILL)


class Beside(Felt):
    """Runs an unrelated process of low priority during the second measurement, and the pooler does
    nothing but serve its clients: what is felt here is the scheduler's share of the other
    scenarios."""

    metrics = (("quiet", "p99 quiet"), ("during", "p99 beside"), ("times", "times"),
               ("max", "max ms"))
    niceness = 10  # That of the pooler's helper threads.

    def measure(self, bench, subject, options):
        self.steady(bench, subject, options)
        quiet = self.steady(bench, subject, options)
        busy = BusyProcess(bench.machine, self.niceness)
        try:
            during = self.steady(bench, subject, options)
        finally:
            busy.close()
        subject.check()
        return {"quiet": quiet["p99"], "during": during["p99"], "max": during["max"],
                "times": during["p99"] / quiet["p99"]}
