"""What is measured: poolers, and for comparison relays, haproxy and PostgreSQL itself."""

import os
import shutil
import subprocess

import clients
import database
import worker_counts
from machine import HOST, USER, Pooler, Process, Trouble, free_port

HAPROXY = """
global
    maxconn 2000
    nbthread 1
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen postgres
    bind %s:%d
    server one %s:%d
"""


class Subject:
    """Something that a scenario can put load on. Its name stands in its row of the tables."""

    is_pooler = False
    is_reference = False

    def __init__(self, name, about, settings=None):
        self.name, self.about, self.settings = name, about, settings or {}

    def can_run(self, scenario):
        return scenario.is_plain

    def fits(self, scenario, options):
        """Says whether the subject can run this scenario and is requested for it."""
        if not self.can_run(scenario) or scenario.count(options) > 200:
            return False
        if options.unix and not isinstance(self, Direct):
            return False
        return options.opponents == "all" or (
            options.opponents == "some" and self.name in scenario.opponents)

    def start(self, bench, scenario):
        """Starts the subject in front of the scenario's server. The result has port, pid, cpu(),
        check() and stop()."""
        raise NotImplementedError


class PoolerSubject(Subject):
    is_pooler = True

    def __init__(self, machine, name, path, settings, is_reference=False):
        self.program = machine.copy(path, "pooler-" + name)
        version = machine.run(self.program, "-V").split("\n", 1)[0]
        super().__init__(name, "%s (%s)" % (path, version), settings)
        self.is_reference = is_reference

    def fits(self, scenario, options):
        return not (self.is_reference and scenario.is_ours_only)

    def start(self, bench, scenario):
        settings = dict(scenario.settings(bench.options, bench.machine), auth_type=scenario.auth,
                        **self.settings)
        return Pooler(bench.machine, self.name, self.program,
                      scenario.databases(bench.server_port(scenario)), scenario.users(), settings)


class SavingPooler(PoolerSubject):
    """The pooler with the settings that save the database work, where a scenario is about that."""

    def fits(self, scenario, options):
        return scenario.is_about_database


class Haproxy(Subject):
    def __init__(self, program):
        version = subprocess.run([program, "-v"], stdout=subprocess.PIPE, text=True, check=False)
        super().__init__("haproxy", version.stdout.split("\n", 1)[0] + ", mode tcp, one thread")
        self.program = program

    def start(self, bench, scenario):
        machine, port = bench.machine, free_port()
        path = machine.write(machine.fresh_path("haproxy"), HAPROXY % (
            HOST, port, HOST, bench.server_port(scenario)))
        process = Process(machine, self.name, [self.program, "-db", "-f", path],
                          machine.fresh_path("haproxy.log"), port)
        process.wait_until_up()
        return process


class Relay(Subject):
    """A minimal relay, one of the programs of this folder."""

    arguments = ()

    def __init__(self, machine, name, about, path):
        super().__init__(name, about)
        self.program = machine.copy(path, name)

    def start(self, bench, scenario):
        machine, port = bench.machine, free_port()
        command = [self.program, str(port), str(bench.server_port(scenario)),
                   *self.arguments]
        if scenario.is_secured:
            command += machine.certificate()
        process = Process(machine, self.name, command, machine.fresh_path(self.name), port)
        process.wait_until_up()
        return process


class RelayBeside(Relay):
    """A minimal relay with as many threads as the pooler has workers."""

    def __init__(self, machine, path, count):
        about = "the smallest relay (%s), threads that share nothing" % os.path.basename(path)
        super().__init__(machine, worker_counts.relay_name(count), about, path)
        self.arguments = (str(count),)

    def fits(self, scenario, options):
        return getattr(scenario, "has_relays", False) and not options.unix


class LoginRelay(Relay):
    """The smallest pooler, for clients that connect anew, or that speak TLS, which no other
    relay does."""

    def can_run(self, scenario):
        return scenario.is_plain or scenario.is_secured

    def fits(self, scenario, options):
        return (self.name in scenario.opponents and super().fits(scenario, options)
                and scenario.count(options) < LENT)


class Direct(Subject):
    """A direct connection to the server."""

    def __init__(self):
        super().__init__("direct", "PostgreSQL without anything in between")

    class Nothing:
        pid, log = None, os.devnull

        def __init__(self, port):
            self.port, self.name = port, "direct"

        def check(self):
            pass

        stop = check

    def start(self, bench, scenario):
        return self.Nothing(bench.server_port(scenario))


LENT = 64  # The number of server connections that relay_login lends.
RELAYS = ((Relay, "relay_epoll", "the smallest relay on epoll"),
          (Relay, "relay_uring", "the smallest relay on io_uring"),
          (LoginRelay, "relay_login", "the smallest pooler on epoll: it answers logins itself and gives "
           "clients open connections"))


def find_program(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def relay_beside(machine, subject):
    """Returns the smallest relay with the engine that this pooler uses here."""
    users = {USER: clients.scram_secret()}
    pooler = Pooler(machine, "engine", subject.program, {}, users,
                    dict(subject.settings, auth_type="trust"))
    try:
        console = clients.console(pooler.port)
        rows = {row["key"]: row["value"] for row in console.rows("show state")}
        console.sock.close()
        return "relay_" + rows["io_engine"].replace("io_", "")
    finally:
        pooler.stop()


def poolers(options, machine):
    """Returns the reference and the pooler under test: the latter once, or once per engine; or the
    latter alone, once per number of workers."""
    both = dict(options.set_both)
    if options.unix:
        both["unix_socket_dir"] = machine.dir
    ours = dict(both, **dict(options.set))
    if options.workers:
        found = [PoolerSubject(machine, worker_counts.name_of(count), options.pooler,
                               dict(ours, workers=count)) for count in (1, *worker_counts.COUNTS)]
        relay = os.path.join(options.programs, relay_beside(machine, found[0]))
        return found + [RelayBeside(machine, relay, count) for count in (1, *worker_counts.COUNTS)]
    found = []
    if options.against != "none":
        found.append(PoolerSubject(machine, "reference", options.against, both, True))
    if not options.engines:
        return found + [PoolerSubject(machine, "pooler", options.pooler, ours),
                        SavingPooler(machine, "switched on", options.pooler, dict(ours, **database.SWITCHED_ON))]
    return found + [kind(machine, engine + name, options.pooler, dict(ours, io_engine=engine, **more))
                    for engine in ("epoll", "io_uring") for kind, name, more in (
                        (PoolerSubject, "", {}), (SavingPooler, ", on", database.SWITCHED_ON))]


def opponents(options, machine, note):
    """Returns the subjects that are available here, and a line of text for each that is not."""
    if options.opponents == "none":
        return []
    found = [Direct()]
    haproxy = find_program("haproxy")
    if haproxy:
        found.append(Haproxy(haproxy))
    else:
        note("haproxy is left out: it is not installed")
    for kind, name, about in RELAYS:
        path = os.path.join(options.programs, name)
        try:
            found.append(kind(machine, name, about, path))
        except Trouble as trouble:
            note("%s is left out: %s" % (name, trouble))
    return found
