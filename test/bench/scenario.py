"""The base of all scenarios. A scenario starts a subject, puts load on it, and returns a row of
numbers."""

import hashlib
import json
import os
import time

import clients
from machine import DATABASE, HOST, SECRET, USER, Trouble

SERVERS = 10
MEGABYTE = 1 << 20
QUIET = 0.001  # CPU seconds used in 0.3 s; a process that uses less counts as idle.


def percentile(ordered, percent):
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def latencies(seconds):
    if not seconds:
        return {}
    ordered = sorted(seconds)
    return {"p%g" % p: percentile(ordered, p) * 1000 for p in (50, 99, 99.9)}


def per_piece(before, after, pieces):
    """Returns the CPU time per unit of work in microseconds: total, user and system."""
    kinds = zip(("cpu", "user", "system"), before, after)
    return {kind: (b - a) * 1e6 / pieces for kind, a, b in kinds}


def settle(pooler):
    """Waits until the pooler is idle."""
    give_up = time.monotonic() + 30
    last = 0
    while pooler.cpu()[0] - last > QUIET and time.monotonic() < give_up:
        last = pooler.cpu()[0]
        time.sleep(0.3)


def secured(machine):
    certificate, key = machine.certificate()
    return {"client_tls_sslmode": "require", "client_tls_cert_file": certificate,
            "client_tls_key_file": key}


class Scenario:
    entry = ""  # Options that are added to the database's connection string.
    metrics = ()  # A list of (key of a row, title of its column).
    most_rounds = None  # A limit of rounds for a scenario that takes long.
    main = False  # Whether the scenario runs when none is chosen on the command line.
    # Whether relays and a direct connection to PostgreSQL can run this scenario, too.
    is_plain = False
    is_secured = False  # Whether clients use TLS.
    is_ours_only = False  # Whether the reference cannot run this scenario.
    # Whether the pooler also runs with the settings that save the database work.
    is_about_database = False
    is_loaded = False  # Whether system calls per transaction can be counted.
    # The subjects other than poolers that take part, unless all or none are requested.
    opponents = ()

    def __init__(self, name, about, mode="transaction", auth="trust", main=False, opponents=()):
        self.name, self.about, self.mode, self.auth = name, about, mode, auth
        self.main, self.opponents = main, opponents

    def secret(self):
        if self.auth == "md5":
            return "md5" + hashlib.md5((SECRET + USER).encode()).hexdigest()
        return clients.scram_secret()

    def users(self):
        return {USER: self.secret()}

    def databases(self, port):
        return {DATABASE: "host=%s port=%d %s" % (HOST, port, self.entry)}

    def settings(self, _options, _machine):
        return {"pool_mode": self.mode, "default_pool_size": SERVERS}

    def count(self, options):
        return options.clients

    def server(self, bench):
        """Returns the server behind the pooler, which is started on first use."""
        return bench.need_canned() if bench.options.canned else bench.need_postgres()

    def measure(self, bench, subject, options):
        """Measures one subject once: returns a row with a number for each metric."""
        raise NotImplementedError


def load_command(bench, *words):
    return [bench.load_program] + [str(word) for word in words]


def run_load(bench, *words):
    """Runs the load program and returns the row that it prints."""
    output = bench.machine.run(*load_command(bench, *words))
    try:
        return json.loads(output)
    except ValueError:
        raise Trouble("load: " + output.strip()[-600:]) from None


class Holder:
    """Clients of the load program that log in, run one query, and then stay idle until close()."""

    def __init__(self, bench, subject, count, *words):
        machine = bench.machine
        self.machine, path = machine, machine.fresh_path("held")
        reading, self.writing = os.pipe()
        with open(path, "wb") as out:
            command = load_command(bench, "--port", subject.port, "--clients", count, "--hold", *words)
            self.process = machine.start(command, stdin=reading, stdout=out, stderr=out)
        os.close(reading)
        self.path = path
        try:
            self.wait_until_ready()
        except Trouble:
            self.close()
            raise

    def wait_until_ready(self):
        give_up = time.monotonic() + 120
        while not self.text().startswith("ready"):
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise Trouble("the clients did not come: " + self.text().strip())
            time.sleep(0.02)

    def text(self):
        with open(self.path, errors="replace") as out:
            return out.read()

    def close(self):
        os.close(self.writing)
        self.machine.wait(self.process, 60)
