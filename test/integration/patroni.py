"""PostgreSQL under Patroni: three nodes, each at a loopback address of its own, and an etcd that tells
them who leads. Everything is started and stopped by its pid, in a scratch folder."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import urllib.request

import postgres
import waiting
import wire

PROGRAMS = ("patroni", "patronictl", "etcd")
SCOPE = "main"
UP = 120
PARAMETERS = {
    "fsync": "off", "shared_buffers": "16MB", "max_connections": 100,
    "wal_log_hints": "on", "wal_keep_size": "64MB", "max_wal_size": "256MB", "autovacuum": "off",
    "wal_retrieve_retry_interval": "100ms", "timezone": "UTC", "lc_messages": "C",
}
# Patroni reaches its own server over the unix socket, and the other ones as the superuser.
OWN_HBA = ["local all all trust", "local replication all trust",
           "host replication all 127.0.0.0/8 trust", "host all %s 127.0.0.0/8 trust" % postgres.SUPERUSER]
HBA = [*OWN_HBA, "host all trust_user 127.0.0.0/8 trust", "host all all 127.0.0.0/8 scram-sha-256"]


def missing():
    """Returns why Patroni cannot run here, or None."""
    lacking = [name for name in PROGRAMS if not shutil.which(name)]
    if lacking:
        return "not installed: " + ", ".join(lacking)
    if "--enable-v2" not in subprocess.run(["etcd", "--help"], capture_output=True, text=True).stdout:
        return "this etcd has no API of version 2"
    with open(shutil.which("patroni")) as program:
        python = program.readline().removeprefix("#!").split()
    done = subprocess.run([*python, "-c", "import etcd"], capture_output=True)
    return "Patroni lacks python3-etcd" if done.returncode else None


def pids_below(pid):
    """Returns a process and all that it has started, the first one before the others."""
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as pids:
            return [pid] + [one for child in pids.read().split() for one in pids_below(int(child))]
    except OSError:
        return []


class Etcd:
    def __init__(self, folder):
        self.folder, self.process = folder, None
        self.port, self.peer_port = waiting.PORTS.take(), waiting.PORTS.take()
        self.output = open(os.path.join(folder, "etcd.log"), "ab")

    def start(self):
        url, peer = ("http://127.0.0.1:%d" % port for port in (self.port, self.peer_port))
        self.process = subprocess.Popen(
            ["etcd", "--name=one", "--data-dir=" + os.path.join(self.folder, "etcd"), "--enable-v2=true",
             "--listen-client-urls=" + url, "--advertise-client-urls=" + url, "--listen-peer-urls=" + peer,
             "--initial-advertise-peer-urls=" + peer, "--initial-cluster=one=" + peer],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output,
            **waiting.run_as(waiting.unprivileged()))
        waiting.wait_for(lambda: fetch(url + "/health"), "etcd is up", UP, 0.05)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def remove(self):
        self.stop()
        self.output.close()


def fetch(url):
    """Returns what this address serves, or None."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read()
    except OSError:
        return None


class Node:
    """One machine: Patroni, and the PostgreSQL that it starts."""

    def __init__(self, cluster, number):
        self.cluster, self.name = cluster, "pg%d" % number
        self.host, self.port, self.rest_port = "127.0.0.%d" % (20 + number), cluster.port, cluster.rest_port
        self.dir = os.path.join(cluster.dir, self.name)
        os.mkdir(self.dir)
        waiting.give(self.dir)
        self.data, self.config = os.path.join(self.dir, "data"), os.path.join(self.dir, "patroni.yml")
        self.process = None
        self.output = open(os.path.join(self.dir, "log"), "ab")

    def write_config(self, hooks):
        superuser = {"username": postgres.SUPERUSER}
        dcs = {**self.cluster.times, "synchronous_mode": True, "maximum_lag_on_failover": 1 << 20,
               "postgresql": {"use_pg_rewind": True, "remove_data_directory_on_rewind_failure": True,
                              "remove_data_directory_on_diverged_timelines": True, "parameters": PARAMETERS}}
        config = {
            "scope": SCOPE, "name": self.name, "etcd": {"host": "127.0.0.1:%d" % self.cluster.etcd.port},
            "restapi": {"listen": "%s:%d" % (self.host, self.rest_port),
                        "connect_address": "%s:%d" % (self.host, self.rest_port)},
            "bootstrap": {"dcs": dcs, "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}, "no-sync"]},
            "postgresql": {
                "listen": "%s:%d" % (self.host, self.port), "connect_address": "%s:%d" % (self.host, self.port),
                "data_dir": self.data, "bin_dir": self.cluster.pg_bin, "pgpass": os.path.join(self.dir, "pgpass"),
                "use_unix_socket": True, "pg_hba": HBA, "parameters": {"unix_socket_directories": self.dir},
                "authentication": {"superuser": superuser, "replication": superuser, "rewind": superuser}, **hooks}}
        with open(self.config, "w") as file:
            json.dump(config, file)
        waiting.give(self.config)

    def start(self):
        self.process = subprocess.Popen(
            ["patroni", self.config], cwd=self.dir, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output,
            env=dict(os.environ, PGHOST=self.dir), **waiting.run_as(waiting.unprivileged()))

    # what happens to machines

    def postmaster(self):
        """Returns the pid of PostgreSQL's first process, or None."""
        try:
            with open(os.path.join(self.data, "postmaster.pid")) as file:
                pid = int(file.readline())
            is_ours = os.readlink("/proc/%d/cwd" % pid) == self.data
        except (OSError, ValueError):
            return None
        return pid if is_ours else None

    def signal_all(self, number):
        """Patroni gets it first, so that it starts nothing more."""
        for first in (self.process and self.process.pid, self.postmaster()):
            for pid in pids_below(first) if first else []:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def freeze(self):
        """The kernel still accepts connections, and nobody answers."""
        self.signal_all(signal.SIGSTOP)

    def thaw(self):
        self.signal_all(signal.SIGCONT)

    def kill(self):
        """Ends everything at once, as the loss of the machine does."""
        self.freeze()
        self.signal_all(signal.SIGKILL)
        if self.process:
            self.process.wait()
            self.process = None
        waiting.wait_for(lambda: not self.postmaster(), "PostgreSQL is gone", UP)

    def set_hba(self, lines):
        """Patroni writes the file only when its own configuration changes."""
        with open(os.path.join(self.data, "pg_hba.conf"), "w") as file:
            file.write("\n".join(lines) + "\n")
        self.do("select pg_reload_conf()")

    # questions

    def client(self, user=postgres.SUPERUSER, database="postgres", secret=None):
        """Returns a client that is logged in over the unix socket, without the pooler."""
        return wire.Client(self.dir, self.port, user, database, secret, {}).login()

    def value(self, sql):
        with self.client() as owner:
            return owner.value(sql)

    def do(self, *statements):
        with self.client() as owner:
            for sql in statements:
                owner.query(sql)

    def is_primary(self):
        assert not self.process or self.process.poll() is None, self.log()[-5000:]
        try:
            return self.process and self.value("select pg_is_in_recovery()") == "f"
        except (OSError, wire.Refused, wire.Closed):
            return False

    def log(self):
        with open(os.path.join(self.dir, "log"), errors="replace") as file:
            return file.read()


class Cluster:
    """Three nodes with one synchronous standby. `times` are Patroni's: ttl, loop_wait, retry_timeout;
    `hooks` are more settings of its section postgresql."""

    def __init__(self, pg_bin, times, hooks=()):
        self.pg_bin, self.times = pg_bin, times
        self.dir = waiting.scratch("patroni", waiting.fast_place())
        self.port, self.rest_port = waiting.PORTS.take(), waiting.PORTS.take()
        self.etcd = Etcd(self.dir)
        self.nodes = [Node(self, number) for number in (1, 2, 3)]
        for node in self.nodes:
            node.write_config(dict(hooks))

    def create(self):
        self.etcd.start()
        self.nodes[0].start()
        waiting.wait_for(self.nodes[0].is_primary, "the first node leads", UP, 0.05)
        self.nodes[0].do("create role trust_user login", "grant all on schema public to public")
        for node in self.nodes[1:]:
            node.start()
        self.wait_whole()
        return self

    @property
    def primary(self):
        """Returns the one node that is primary, or None."""
        found = [node for node in self.nodes if node.is_primary()]
        return found[0] if len(found) == 1 else None

    @property
    def synchronous(self):
        """Returns the standby that has confirmed what is committed."""
        name = self.primary.value("select application_name from pg_stat_replication where sync_state = 'sync'")
        return next(node for node in self.nodes if node.name == name)

    def is_whole(self):
        try:
            return self.primary.value(
                "select count(*) = 2 and bool_or(sync_state = 'sync') and bool_and(state = 'streaming') and "
                "bool_and(replay_lsn = pg_current_wal_lsn()) from pg_stat_replication") == "t" and self.is_agreed()
        except (AttributeError, OSError, wire.Refused, wire.Closed):
            return False

    def is_agreed(self):
        """Does Patroni know of the leader, of two standbys that follow it, and which is synchronous?"""
        told = fetch("http://%s:%d/cluster" % (self.primary.host, self.rest_port))
        members = json.loads(told)["members"] if told else []
        roles = sorted(member["role"] for member in members if member["state"] in ("running", "streaming"))
        return roles == ["leader", "replica", "sync_standby"]

    def wait_whole(self):
        """Waits until all nodes are up and a switchover is possible."""
        for node in self.nodes:
            if not node.process:
                node.start()
        try:
            waiting.wait_for(self.is_whole, "two standbys follow", UP, 0.1)
        except AssertionError as late:
            raise AssertionError("%s\n%s" % (late, "\n".join(n.name + ":\n" + n.log()[-1500:] for n in self.nodes))) from None

    def patronictl(self, *args):
        return ["patronictl", "-c", self.nodes[0].config, *args]

    def run(self, *args):
        done = subprocess.run(self.patronictl(*args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL, cwd=self.dir, **waiting.run_as(waiting.unprivileged()))
        assert done.returncode == 0, done.stdout
        return done.stdout

    def switchover(self):
        self.run("switchover", SCOPE, "--leader", self.primary.name, "--candidate", self.synchronous.name, "--force")

    def remove(self):
        for node in self.nodes:
            node.kill()
            node.output.close()
        self.etcd.remove()
        waiting.discard(self.dir)

    def entry(self, more=""):
        """Returns the value of an entry of [databases]."""
        return "host=%s port=%d dbname=postgres %s" % (",".join(node.host for node in self.nodes), self.port, more)
