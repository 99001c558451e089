"""The environment of a benchmark: the scratch folder, the account, PostgreSQL, the poolers, and
their CPU clocks."""

import os
import pwd
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

HOST = "127.0.0.1"
USER, SECRET, DATABASE = "bench", "secret of bench", "bench"

TICKS = os.sysconf("SC_CLK_TCK")

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.normpath(os.path.join(HERE, "../.."))
PG_BIN = os.path.join(HERE, "..", "setup", "pg-bin")
PG_CONF = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{dir}'
max_connections = {connections}
shared_buffers = 128MB
fsync = off
synchronous_commit = off
autovacuum = off
jit = off
max_parallel_workers_per_gather = 0
lc_messages = 'C'
"""


class Trouble(Exception):
    """A program of the benchmark failed. The text says which and why."""


def account():
    """Returns the passwd entry of the account that runs everything: the current account, or an
    unprivileged one when the current account is root."""
    if os.getuid() != 0:
        return pwd.getpwuid(os.getuid())
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Trouble("no unprivileged account to run as")


def free_port():
    """Returns a free port below the range from which the kernel assigns ports of outgoing
    connections."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
                return port
            except OSError:
                continue


def raise_descriptor_limit():
    """Raises the descriptor limit as far as allowed, also for child processes, and returns it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def tail(path, lines=8):
    try:
        with open(path, errors="replace") as log:
            return "".join(log.readlines()[-lines:])
    except OSError:
        return ""


class Machine:
    """A scratch folder and every process started in it. close() removes the folder and stops the
    processes."""

    def __init__(self):
        self.account = account()
        self.dir = tempfile.mkdtemp(prefix="pooler-bench-", dir="/tmp")
        os.chmod(self.dir, 0o755)
        self.give(self.dir)
        self.running = []
        self.made = 0

    def give(self, path):
        if os.getuid() == 0:
            os.chown(path, self.account.pw_uid, self.account.pw_gid)

    def path(self, name):
        return os.path.join(self.dir, name)

    def fresh_path(self, name):
        self.made += 1
        return self.path("%s.%d" % (name, self.made))

    def write(self, path, text):
        with open(path, "w") as out:
            out.write(text)
        self.give(path)
        return path

    def copy(self, path, name):
        """Copies a program, so that a concurrent build does not change what is measured and the
        unprivileged account can run it."""
        if not os.path.isfile(path):
            raise Trouble("no program at " + path)
        copied = self.path(name)
        shutil.copy(path, copied)
        os.chmod(copied, 0o755)
        return copied

    def environment(self):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        # libpq looks for certificates in the home folder, which must be readable.
        return dict(kept, LC_ALL="C", HOME=self.dir, PGPASSWORD=SECRET, PGCONNECT_TIMEOUT="20")

    def start(self, command, unprivileged=True, **options):
        if unprivileged and os.getuid() == 0:
            options.update(user=self.account.pw_uid, group=self.account.pw_gid, extra_groups=[])
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(command, cwd=self.dir, env=self.environment(), **options)
        self.running.append(process)
        return process

    def stop(self, process, how, patience=10):
        if process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process in self.running:
            self.running.remove(process)

    def wait(self, process, seconds):
        """Waits until the process ends by itself."""
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Trouble("%s did not end" % process.args[0]) from None
        finally:
            self.stop(process, signal.SIGKILL)

    def run(self, *command, seconds=120, unprivileged=True):
        """Runs a program to its end and returns its output. Raises Trouble when the exit code is
        not 0."""
        process = self.start(command, unprivileged, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        try:
            output = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            raise Trouble("%s did not end" % command[0]) from None
        finally:
            self.stop(process, signal.SIGKILL)
        if process.returncode != 0:
            raise Trouble("%s: %s" % (os.path.basename(command[0]), output.strip()[-600:]))
        return output

    def certificate(self):
        """Returns the paths of a self-signed certificate for HOST and its key, which are made
        once."""
        certificate, key = self.path("server.crt"), self.path("server.key")
        if not os.path.exists(certificate):
            self.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                     "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=" + HOST,
                     "-keyout", key, "-out", certificate)
        return certificate, key

    def close(self):
        for process in reversed(list(self.running)):
            self.stop(process, signal.SIGQUIT)
        shutil.rmtree(self.dir, ignore_errors=True)


class Postgres:
    """A scratch cluster with trust authentication for everyone on loopback."""

    def __init__(self, machine, max_connections):
        self.machine = machine
        found = subprocess.run(["sh", PG_BIN], stdout=subprocess.PIPE, text=True, check=False)
        if found.returncode != 0:
            raise Trouble("no PostgreSQL server found")
        self.bin = found.stdout.strip()
        self.port = free_port()
        data = machine.path("data")
        machine.run(self.program("initdb"), "-D", data, "-U", USER, "-A", "trust",
                    "-E", "UTF8", "--locale=C", "-N")
        with open(os.path.join(data, "postgresql.conf"), "a") as conf:
            conf.write(PG_CONF.format(
                port=self.port, dir=machine.dir, connections=max_connections))
        log = machine.path("postgres.log")
        with open(log, "ab") as out:
            self.process = machine.start([self.program("postgres"), "-D", data],
                                         stdout=out, stderr=out)
        until(lambda: self.is_up(log), "PostgreSQL accepts connections", 60)
        self.psql("create database " + DATABASE, database="postgres")
        machine.run(self.program("pgbench"), "-i", "-q", "-h", HOST, "-p", str(self.port),
                    "-U", USER, DATABASE)
        self.version = self.psql("show server_version")

    def program(self, name):
        return os.path.join(self.bin, name)

    def is_up(self, log):
        if self.process.poll() is not None:
            raise Trouble("PostgreSQL ended:\n" + tail(log))
        return subprocess.run([self.program("pg_isready"), "-q", "-h", HOST, "-p",
                               str(self.port)], check=False).returncode == 0

    def psql(self, sql, database=DATABASE):
        return self.machine.run(self.program("psql"), "-XAtq", "-h", HOST, "-p", str(self.port),
                                "-U", USER, "-d", database, "-c", sql).strip()

    def need_roles(self, names):
        """Creates those of the roles that do not exist yet."""
        known = set(self.psql("select rolname from pg_roles").split("\n"))
        wanted = ["create role %s login" % name for name in names if name not in known]
        if wanted:
            self.psql("; ".join(wanted))


class Process:
    """A running process that is measured."""

    def __init__(self, machine, name, command, log, port):
        self.machine, self.name, self.log, self.port = machine, name, log, port
        with open(self.log, "ab") as out:
            self.process = machine.start(command, stdout=out, stderr=out)
        self.pid = self.process.pid

    def wait_until_up(self):
        until(self.is_up, "%s listens" % self.name, 60)

    def is_up(self):
        self.check()
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0

    def check(self):
        if self.process.poll() is not None:
            raise Trouble("%s ended with %s:\n%s" % (
                self.name, self.process.returncode, tail(self.log)))

    def stop(self):
        self.machine.stop(self.process, signal.SIGTERM)

    def cpu(self):
        """Returns the CPU time used so far in seconds, by all threads including ended ones, as
        (all, user, system).

        The user and system times have a resolution of 10 ms. The total comes from the process's CPU
        clock (see clock_getcpuclockid(3) for its number on Linux), which has a finer resolution."""
        with open("/proc/%d/stat" % self.pid) as stat:
            fields = stat.read().rpartition(")")[2].split()
        user, system = (int(field) / TICKS for field in fields[11:13])
        return time.clock_gettime(~self.pid << 3 | 2), user, system

    def thread_cpu(self):
        """Returns {thread: CPU time used so far in seconds} of the threads that exist."""
        found, folder = {}, "/proc/%d/task" % self.pid
        for thread in os.listdir(folder):
            with open("%s/%s/schedstat" % (folder, thread)) as stat:
                found[thread] = int(stat.read().split()[0]) / 1e9
        return found

    def memory(self):
        """Returns the memory of the process in bytes (PSS: shared pages count in part)."""
        with open("/proc/%d/smaps_rollup" % self.pid) as rollup:
            return int(re.search(r"Pss:\s+(\d+)", rollup.read()).group(1)) * 1024


class Pooler(Process):
    """One running pooler."""

    def __init__(self, machine, name, program, databases, users, settings):
        """databases: {name: connection string}; users: {name: secret}."""
        self.databases, self.users = dict(databases), dict(users)
        self.ini, self.userlist = machine.fresh_path("ini"), machine.fresh_path("userlist")
        port = free_port()
        self.settings = dict({
            "listen_addr": HOST, "listen_port": port, "unix_socket_dir": "",
            "auth_file": self.userlist, "max_client_conn": 200000, "admin_users": USER,
            "log_connections": 0, "log_disconnections": 0,
            "ignore_startup_parameters": "extra_float_digits"}, **settings)
        self.write_files(machine)
        self.program = program
        super().__init__(machine, name, [program, self.ini], machine.fresh_path("pooler.log"), port)
        self.wait_until_up()

    def stop(self):
        self.machine.stop(self.process, signal.SIGQUIT)

    def write_files(self, machine):
        machine.write(self.userlist, "".join('"%s" "%s"\n' % each for each in self.users.items()))
        machine.write(self.ini, "\n".join(
            ["[databases]"] + ["%s = %s" % item for item in self.databases.items()] +
            ["[pgbouncer]"] + ["%s = %s" % item for item in self.settings.items()]) + "\n")

    def like(self, users):
        """Returns another pooler with the same configuration but different users."""
        settings = {k: v for k, v in self.settings.items() if k not in ("listen_port", "auth_file")}
        return Pooler(self.machine, self.name, self.program, self.databases, users, settings)


def until(condition, what, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Trouble("not within %d s: %s" % (seconds, what))
        time.sleep(0.01)
