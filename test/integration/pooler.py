"""The pooler under test: its files, its process, its console."""

import functools
import glob
import itertools
import os
import re
import signal
import subprocess

import keeper
import postgres
import waiting
import wire

ADMIN = ("admin_user", "admin secret 91c")
STATS = ("stats_user", "stats secret 5e0")

DEFAULTS = {
    "listen_addr": "127.0.0.1",
    "auth_type": "trust",
    "admin_users": ADMIN[0],
    "stats_users": STATS[0],
}


for _, known in (ADMIN, STATS):
    keeper.learn(known)

# FDS is not in this list, because SHOW FDS passes descriptors to the client.
VIEWS = ("HELP CONFIG DATABASES POOLS CLIENTS SERVERS USERS VERSION PEERS PEER_POOLS SOCKETS ACTIVE_SOCKETS "
         "LISTS MEM STATE DNS_HOSTS DNS_ZONES STATS STATS_TOTALS STATS_AVERAGES TOTALS "
         "HOSTS PREPARED_STATEMENTS STATE_LEAKS LATENCY BLOCKERS PINS LISTENERS CERTIFICATES ISSUERS WARNINGS WORKERS").split()


def is_file_of(variable):
    """Is the file of the test among those that this variable of the environment names?"""
    file = os.path.basename(os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0])
    return file.removesuffix(".py") in os.environ.get(variable, "").split()


def settings_of_run():
    """Returns {name: value} of $POOLER_SETTINGS, for example "io_engine=epoll; workers=2": the
    settings in which two runs of the tests differ. Files that $POOLER_TWO_WORKERS names have two
    workers, and those of $POOLER_AUTO_ENGINE the engine that is used by default. The settings of a
    test take precedence."""
    text = os.environ.get("POOLER_SETTINGS", "")
    if is_file_of("POOLER_TWO_WORKERS"):
        text = "workers=2;" + text
    if is_file_of("POOLER_AUTO_ENGINE"):
        text = "io_engine=auto;" + text
    elif os.environ.get("POOLER_IO_ENGINE"):
        text += ";io_engine=" + os.environ["POOLER_IO_ENGINE"]
    lines = text.replace(";", "\n").splitlines()
    pairs = [line.partition("=") for line in lines if line.strip()]
    return {name.strip(): value.strip() for name, _, value in pairs}


def default_userlist():
    known = {name: secret or "" for name, (secret, _, _) in postgres.USERS.items()}
    known[postgres.SUPERUSER] = ""
    known.update([ADMIN, STATS])
    return known


def userlist_text(users):
    return "".join('"%s" "%s"\n' % (n.replace('"', '""'), s.replace('"', '""'))
                   for n, s in users.items())


@functools.lru_cache
def is_old(binary):
    """Says whether this is a release whose behaviour the tests do not describe."""
    said = subprocess.run([binary, "-V"], capture_output=True, text=True).stdout
    return re.match(r"PgBouncer 1\.1\d\.", said) is not None


def section(name, entries):
    lines = ["[%s]" % name]
    lines += ["%s = %s" % (k, v) for k, v in entries.items() if v is not None]
    return "\n".join(lines) + "\n"


# Of so many poolers one shows all its views when it stops, which costs as much as a short case.
LOOK_EVERY = 4
STOPPED = itertools.count()


class Pooler:
    """One pooler with its own scratch folder. A setting with the value None is left out of the ini
    file."""

    def __init__(self, binary, databases=None, settings=None, users=None, userlist=None,
                 peers=None, extra="", args=(), env=None, as_root=False):
        self.binary = binary
        self.account = waiting.unprivileged()
        self.dir = waiting.scratch("pooler")
        self.host = "127.0.0.1"
        self.port = waiting.PORTS.take()
        self.databases = dict(databases or {})
        self.settings = dict(DEFAULTS, listen_port=self.port, unix_socket_dir=self.dir,
                             auth_file=self.path("userlist.txt"), **settings_of_run())
        self.settings.update(settings or {})
        self.users = dict(users or {})
        self.peers = dict(peers or {})
        self.extra = extra
        self.userlist = default_userlist() if userlist is None else dict(userlist)
        self.args = list(args)
        self.env = dict(env or {})
        self.as_root = as_root
        self.process = None
        self.consoles = []
        self.expected_exit = 0
        self.may_log_fatal = False
        self.preexec = None
        # The bytes of freed memory that AddressSanitizer keeps in quarantine.
        self.quarantine_mb = 256
        self.heard = bytearray()  # Errors, and everything that consoles received.
        self.case_began = 0  # Where in the log the present case began.

    # files

    def path(self, name):
        return os.path.join(self.dir, name)

    @property
    def ini(self):
        return self.path("pgbouncer.ini")

    def write(self, name, text):
        path = name if os.path.isabs(name) else self.path(name)
        keeper.learn_file(wire.as_bytes(text).decode(errors="replace"))
        with open(path, "wb") as out:
            out.write(wire.as_bytes(text))
        waiting.give(path)
        return path

    def ini_text(self):
        text = section("databases", self.databases) + section("pgbouncer", self.settings)
        if self.users:
            text += section("users", self.users)
        if self.peers:
            text += section("peers", self.peers)
        return text + self.extra

    def write_files(self):
        self.write("pgbouncer.ini", self.ini_text())
        self.write("userlist.txt", userlist_text(self.userlist))
        for secret in self.userlist.values():
            keeper.learn(secret)

    # process

    def command(self, *args):
        return [self.binary, *self.args, *args]

    def environment(self):
        env = dict(os.environ, TZ="UTC", LC_ALL="C", **self.env)
        report = self.path("sanitizer")
        env["ASAN_OPTIONS"] = "detect_leaks=1:abort_on_error=0:exitcode=99:log_path=" + report
        env["ASAN_OPTIONS"] += ":quarantine_size_mb=%d" % self.quarantine_mb
        if "LD_PRELOAD" in env:
            env["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
        env["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1:exitcode=99:log_path=" + report
        env["TSAN_OPTIONS"] = "exitcode=99:log_path=" + report
        return env

    def switch(self):
        return {} if self.as_root else waiting.run_as(self.account)

    def run(self, *args, timeout=120, **options):
        """Runs the program to its end and returns (exit code, stdout, stderr)."""
        done = subprocess.run([self.binary, *args], capture_output=True, text=True,
                              cwd=self.dir, env=self.environment(), timeout=timeout,
                              stdin=subprocess.DEVNULL, **{**self.switch(), **options})
        self.check_sanitizers()
        return done.returncode, done.stdout, done.stderr

    def run_ini(self, text=None, *args):
        """Writes this ini file (by default the pooler's own) and runs the program on it to its
        end."""
        self.write_files()
        if text is not None:
            self.write("pgbouncer.ini", text)
        return self.run(*args, self.ini)

    def launch(self):
        """Starts the process and does not wait."""
        self.write_files()
        command, env, switch = self.command(self.ini), self.environment(), {}
        if not self.as_root:
            command, switch = waiting.program_as(self.account, command, env)
        with open(self.path("stderr"), "ab") as err, open(self.path("stdout"), "ab") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                cwd=self.dir, env=env, preexec_fn=self.preexec, **switch)
        return self

    def start(self):
        self.launch()
        waiting.wait_for(self.is_up, "pooler is up")
        return self

    def is_up(self):
        if self.process.poll() is not None:
            raise AssertionError("pooler ended with %s:\n%s" % (
                self.process.returncode, self.log()[-3000:]))
        return re.search(r"[ \"]process up: ", self.log())

    @property
    def pid(self):
        return self.process.pid

    def signal(self, name):
        self.process.send_signal(getattr(signal, "SIG" + name))

    def wait_exit(self, deadline=waiting.DEADLINE):
        """Waits for the process to end by itself and returns its exit code."""
        return self.process.wait(deadline)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        """Stops the process, and asserts that it ended cleanly and revealed no secret."""
        self.case_began = 0
        if self.is_running() and not self.is_old():
            keeper.learn_stored()
            if next(STOPPED) % LOOK_EVERY == 0:
                self.look_at_everything()
        for console in self.consoles:
            console.close()
        if self.process is None:
            return
        if self.process.poll() is None:
            self.signal("QUIT")
            try:
                self.process.wait(waiting.DEADLINE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(waiting.DEADLINE)
        self.check_sanitizers()
        code = self.process.returncode
        if self.is_old() and code == -signal.SIGQUIT:
            return  # Releases before 1.23 have no handler for SIGQUIT.
        assert code == self.expected_exit, "exit code %d:\n%s" % (code, self.log()[-3000:])
        assert self.may_log_fatal or "] FATAL " not in self.log(), self.log()[-3000:]
        self.check_secrets()

    def look_at_everything(self):
        """Reads all views of the console, if the console accepts the login at once."""
        if ADMIN[0] not in self.userlist:
            return
        try:
            with self.client("pgbouncer", ADMIN[0]) as console:
                console.sock.settimeout(1)
                console.login()
                console.send(b"".join(wire.query("SHOW " + view) for view in VIEWS))
                for _ in VIEWS:
                    console.recv_until("Z")
        except (OSError, wire.Refused, wire.Closed, AssertionError):
            pass  # The test left the pooler in a state in which the console does not answer.

    def check_secrets(self):
        """Asserts that no secret of this run is in a log or was sent to a client."""
        for folder, _, names in os.walk(self.dir):
            for name in names:
                if name in ("stderr", "stdout") or name.endswith(".log") or name == "log":
                    with open(os.path.join(folder, name), "rb") as text:
                        assert not keeper.told(text.read()), (name, keeper.told(self.log().encode()))
        assert not keeper.told(bytes(self.heard)), keeper.told(bytes(self.heard))

    def is_old(self):
        return is_old(self.binary)

    def check_sanitizers(self):
        for report in glob.glob(self.path("sanitizer*")):
            with open(report, errors="replace") as file:
                text = file.read()
            # LeakSanitizer says so of a thread that ends while it looks; leaks come with a report.
            if re.sub(r"==\d+==Unable to get registers from thread \d+\.\n", "", text):
                raise AssertionError("sanitizer report:\n" + text[:6000])

    def remove(self):
        if self.is_running():
            self.process.kill()
            self.process.wait(waiting.DEADLINE)
        waiting.discard(self.dir)

    # state of the process

    def read(self, name):
        try:
            with open(self.path(name), errors="replace") as text:
                return text.read()
        except FileNotFoundError:
            return ""

    def log(self):
        return self.read("stderr")[self.case_began:]

    def begin_case(self):
        """For one more case: the clients of the case before have gone, and its lines of the log do not count."""
        assert self.is_running(), self.log()[-3000:]
        waiting.wait_for(lambda: all(row["database"] == "pgbouncer" for row in self.show("CLIENTS")),
                         "the clients of the case before have gone")
        self.case_began += len(self.log())

    def mark(self):
        """Returns the current position in the log, for wait_log and log_since."""
        return len(self.log())

    def log_since(self, mark):
        return self.log()[mark:]

    def wait_log(self, pattern, since=0, deadline=waiting.DEADLINE):
        return waiting.wait_for(lambda: re.search(pattern, self.log_since(since), re.M),
                                "log line %r in:\n%s" % (pattern, self.log()[-1500:]), deadline)

    def cpu_time(self):
        """Returns the seconds of CPU time used so far."""
        with open("/proc/%d/stat" % self.pid) as stat:
            parts = stat.read().rsplit(")", 1)[1].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    def fds(self):
        """Returns the number of open descriptors."""
        return len(os.listdir("/proc/%d/fd" % self.pid))

    def has_sanitizer(self):
        with open(self.binary, "rb") as program:
            text = program.read()
        return b"__asan_init" in text or b"__tsan_init" in text

    def is_for_threads(self):
        """Says whether ThreadSanitizer is built in. It keeps a history of each piece of memory and of each
        descriptor, which counts as the program's memory, so that small amounts cannot be told from it."""
        with open(self.binary, "rb") as program:
            return b"__tsan_init" in program.read()

    def rss(self):
        """Returns the resident memory in bytes."""
        with open("/proc/%d/status" % self.pid) as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024

    # clients

    def raw(self, unix=False):
        """Returns a connected socket that has sent nothing yet."""
        return wire.Wire(wire.open_socket(self.dir if unix else self.host, self.port))

    def client(self, database="db", user="trust_user", secret=None, unix=False, **params):
        """Returns a client that is connected but not logged in."""
        if secret is None:
            secret = self.userlist.get(user)
        client = wire.Client(self.dir if unix else self.host, self.port, user, database, secret,
                             params)
        client.heard = self.heard
        client.hears_all = database == "pgbouncer"
        return client

    def connect(self, database="db", user="trust_user", secret=None, unix=False, **params):
        """Returns a client that is logged in."""
        client = self.client(database, user, secret, unix, **params)
        try:
            return client.login()
        except BaseException:
            client.close()
            raise

    def refusal(self, *args, **more):
        """Expects the login to fail and returns the error's text."""
        client = self.client(*args, **more)
        with client:
            try:
                client.login()
            except wire.Refused as refused:
                client.expect_closed()
                return refused.text
        raise AssertionError("login succeeded")

    def wait_room(self, **client):
        """Waits until a client is let in."""
        def is_let_in():
            try:
                self.connect(**client).close()
                return True
            except wire.Refused:
                return False

        waiting.wait_for(is_let_in, "room for a client")

    def console(self, user=ADMIN[0], secret=None, unix=False):
        console = self.connect("pgbouncer", user, secret, unix)
        self.consoles.append(console)
        return console

    @property
    def admin(self):
        """The admin console, which stays open until the pooler stops."""
        if not self.consoles:
            self.console()
        return self.consoles[0]

    def show(self, what):
        """Returns the rows of SHOW as dicts."""
        return self.admin.query("SHOW " + what).dicts()

    def show_one(self, what, **match):
        """Returns the one row with these values."""
        rows = [r for r in self.show(what) if all(r[k] == v for k, v in match.items())]
        assert len(rows) == 1, (what, match, rows)
        return rows[0]

    def pool(self, database="db", user="trust_user"):
        """Returns the numbers of one row of SHOW POOLS, all zero when there is no such pool."""
        for row in self.show("POOLS"):
            if row["database"] == database and row["user"] == user:
                return {k: int(v) if v and v.isdigit() else v for k, v in row.items()}
        return {}

    def wait_pool(self, database="db", user="trust_user", deadline=waiting.DEADLINE, **wanted):
        """Waits until the pool's row has these numbers."""
        def has():
            row = self.pool(database, user)
            return row if all(row.get(k, 0) == v for k, v in wanted.items()) else None

        try:
            return waiting.wait_for(has, "pool %s" % wanted, deadline, 0.02)
        except AssertionError as late:
            raise AssertionError("%s; pool is %s" % (late, self.pool(database, user))) from None

    def config(self):
        """Returns {name: value} of SHOW CONFIG."""
        return {r["key"]: r["value"] for r in self.show("CONFIG")}

    def set(self, name, value):
        assert self.admin.query("SET %s = '%s'" % (name, value)).tag == "SET %s=%s" % (name, value)

    def reload(self):
        assert self.admin.query("RELOAD").tag == "RELOAD"

    def change(self, **settings):
        """Writes these settings into the ini file and reloads it."""
        self.settings.update(settings)
        self.write_files()
        self.reload()

    # programs

    def env_for(self, user="trust_user", secret=None):
        known = secret if secret is not None else self.userlist.get(user) or ""
        return dict(os.environ, PGPASSWORD=known, PGUSER=user, PGHOST=self.host,
                    PGPORT=str(self.port), PGSSLMODE="disable", PGGSSENCMODE="disable",
                    PGCONNECT_TIMEOUT="60", PGDATABASE="db")
