"""A scratch PostgreSQL cluster, with a user for every kind of password."""

import atexit
import contextlib
import os
import signal
import subprocess

import keeper
import waiting
import wire

# name: (password, authentication method over TCP, how the password is stored)
USERS = {
    "trust_user": (None, "trust", None),
    "second_user": (None, "trust", None),
    "plain_user": ("plain secret 7d1", "password", "scram-sha-256"),
    "md5_user": ("md5 secret 4b9", "md5", "md5"),
    "scram_user": ("scram secret 2f6", "scram-sha-256", "scram-sha-256"),
}
SUPERUSER = "owner"
MADE = {}  # folder of PostgreSQL's programs: scratch folder with what initdb made
for known, _, _ in USERS.values():
    keeper.learn(known)

CONF = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{dir}'
fsync = off
synchronous_commit = off
full_page_writes = off
max_connections = 200
shared_buffers = 64MB
max_wal_senders = 20
autovacuum = off
logging_collector = off
log_line_prefix = '%m [%p] %u@%d '
timezone = 'UTC'
log_timezone = 'UTC'
lc_messages = 'C'
jit_above_cost = -1
"""


def hba_lines():
    lines = ["local all all trust"]
    for name, (_, method, _stored) in USERS.items():
        lines.append("host all %s 127.0.0.1/32 %s" % (name, method))
    lines.append("host all %s 127.0.0.1/32 trust" % SUPERUSER)
    lines.append("host all all 127.0.0.1/32 scram-sha-256")
    return lines


class Postgres:
    """One running cluster."""

    def __init__(self, bindir):
        self.bindir = bindir
        self.account = waiting.unprivileged()
        self.dir = waiting.scratch("pgtest", waiting.fast_place())
        self.data = os.path.join(self.dir, "data")
        self.port = waiting.PORTS.take()
        self.host = "127.0.0.1"
        self.process = None
        self.since = 0
        self.kept = []
        self.output = open(os.path.join(self.dir, "log"), "ab")

    def program(self, name):
        path = os.path.join(self.bindir, name) if self.bindir else name
        return path if os.path.exists(path) else name

    def run(self, *command, **options):
        return subprocess.run(command, check=True, stdout=subprocess.DEVNULL,
                              cwd=self.dir, **waiting.run_as(self.account), **options)

    def make_data(self):
        """initdb takes half a second of CPU time, so each process runs it once for each version."""
        made = MADE.get(self.bindir)
        if made is None:
            MADE[self.bindir] = made = waiting.scratch("pgmade", waiting.fast_place())
            atexit.register(waiting.discard, made)
            self.run(self.program("initdb"), "-D", os.path.join(made, "data"), "-U", SUPERUSER, "-A", "trust",
                     "-E", "UTF8", "--locale=C", "-N")
        self.run("cp", "-a", os.path.join(made, "data"), self.data)

    def create(self):
        self.make_data()
        with open(os.path.join(self.data, "postgresql.conf"), "a") as conf:
            conf.write(CONF.format(port=self.port, dir=self.dir))
        self.write_hba(hba_lines())
        self.start()
        with self.client() as owner:
            for name, (secret, _, stored) in USERS.items():
                if stored:
                    owner.query("set password_encryption = '%s'" % stored)
                owner.query("create role %s login %s" % (
                    name, "password '%s'" % secret if secret else ""))
            owner.query("grant all on schema public to public")
            owner.query("create database other")
            owner.query("grant pg_signal_backend to trust_user")
        keeper.SERVERS.append(self.learn_secrets)
        return self

    def write_hba(self, lines):
        path = os.path.join(self.data, "pg_hba.conf")
        with open(path, "w") as hba:
            hba.write("\n".join(lines) + "\n")

    def set_hba(self, lines):
        """Replaces pg_hba.conf and waits until PostgreSQL has loaded it."""
        with self.client() as owner:
            before = owner.value("select pg_conf_load_time()")
            self.write_hba(lines)
            owner.query("select pg_reload_conf()")

            def reloaded():
                with self.client() as fresh:
                    return fresh.value("select pg_conf_load_time()") != before

            waiting.wait_for(reloaded, "pg_hba.conf in force")

    def start(self):
        self.process = subprocess.Popen(
            [self.program("postgres"), "-D", self.data], stdout=self.output, stderr=self.output,
            stdin=subprocess.DEVNULL, cwd=self.dir, **waiting.run_as(self.account))
        waiting.wait_for(self.is_up, "PostgreSQL accepts connections", 30)

    def is_up(self):
        assert self.process.poll() is None, self.log()[-2000:]
        try:
            with self.client():
                return True
        except (OSError, wire.Refused, wire.Closed):
            return False

    def stop(self, how="INT"):
        """Stops the cluster. `how` is INT for a fast shutdown, QUIT for an immediate one, TERM for
        a smart one."""
        while self.kept:
            self.kept.pop().close()
        if self.process:
            self.thaw()
            self.process.send_signal(getattr(signal, "SIG" + how))
            self.process.wait(30)
            self.process = None

    def restart(self, how="INT"):
        self.stop(how)
        self.start()

    def processes(self):
        """Returns the pids of the cluster, its first process before the others."""
        first = self.process.pid
        try:
            with open("/proc/%d/task/%d/children" % (first, first)) as pids:
                return [first] + [int(pid) for pid in pids.read().split()]
        except FileNotFoundError:
            return []

    def signal_all(self, number):
        """The first process gets it before the others are listed, so that it starts no more of them."""
        for pids in (self.processes()[:1], self.processes()[1:]):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def freeze(self):
        """Stops all processes of the cluster: the kernel still accepts connections, and nobody answers."""
        self.signal_all(signal.SIGSTOP)

    def thaw(self):
        """Lets the processes go on that freeze() has stopped."""
        self.signal_all(signal.SIGCONT)

    def remove(self):
        self.stop("QUIT")
        self.output.close()
        waiting.discard(self.dir)

    def log(self):
        with open(os.path.join(self.dir, "log"), errors="replace") as log:
            return log.read()

    def client(self, user=SUPERUSER, database="postgres", secret=None, **params):
        """Returns a raw client that is logged in directly, without the pooler."""
        return wire.Client(self.dir, self.port, user, database, secret, params).login()

    @contextlib.contextmanager
    def session(self, database):
        """A session of the superuser. One in `postgres` stays open for the next caller, because to begin
        a backend costs more than most queries."""
        owner = None
        with contextlib.suppress(IndexError):
            owner = self.kept.pop() if database == "postgres" else None
        if owner and owner.has_data(0.0001):  # The server has ended it.
            owner.close()
            owner = None
        owner = owner or self.client(database=database)
        is_kept = False
        try:
            yield owner
            if database == "postgres" and not self.kept and owner.query("discard all").status == "I":
                is_kept = True
                self.kept.append(owner)
        finally:
            if not is_kept:
                owner.close()

    def value(self, sql, database="postgres"):
        with self.session(database) as owner:
            return owner.value(sql)

    def do(self, *statements, database="postgres"):
        with self.session(database) as owner:
            for sql in statements:
                owner.query(sql)

    def learn_secrets(self):
        if self.process is None or self.process.poll() is not None:
            return
        with self.session("postgres") as owner:
            for secret, in owner.query("select rolpassword from pg_authid").rows:
                keeper.learn(secret)

    def conn(self, dbname="postgres", **more):
        """Returns a connection string for [databases], over TCP."""
        return connstr(host=self.host, port=self.port, dbname=dbname, **more)

    def unix_conn(self, dbname="postgres", **more):
        return connstr(host=self.dir, port=self.port, dbname=dbname, **more)

    def secret_of(self, user):
        """Returns the user's secret as PostgreSQL stores it."""
        return self.value("select rolpassword from pg_authid where rolname='%s'" % user)

    def backends(self, where="true"):
        """Returns the number of client backends that began in this test, without the one that runs this
        query. A query of an earlier test may run on after its pooler has gone."""
        return int(self.value(
            "select count(*) from pg_stat_activity where backend_type='client backend' "
            "and pid <> pg_backend_pid() and backend_start >= to_timestamp(%f) and (%s)" % (self.since, where)))


def connstr(**parts):
    return " ".join("%s=%s" % (k, quoted(str(v))) for k, v in parts.items())


def quoted(value):
    if value and not any(c in value for c in " '"):
        return value
    return "'%s'" % value.replace("'", "''")
