"""Passwords for servers that a program prints or a file holds (configuration.md 12)."""

import contextlib
import fcntl
import os
import re
import ssl
import subprocess
import threading
import time

import pytest

import certs
import fakeserver
import keeper
import postgres
import waiting
import wire
from test_takeover import restart, wait_end  # noqa: F401

NO_PASSWORD = "server login failed: there is no password"
SECRET = "Kq7 rotating secret %04d"
QUICK = {"server_login_retry": "0.1", "pool_mode": "transaction"}
FIRST = "the first secret 5b20"


@pytest.fixture
def role(pg):
    """A role whose password the test changes."""
    pg.do("create role changing login password '%s'" % FIRST)
    yield "changing"
    pg.do("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'changing'", "drop role changing")


def write_program(pooler, text, name="program"):
    """Returns the path of a program of the shell. Each run adds a line to the file `runs`."""
    path = pooler.write(name, "#!/bin/sh\necho $$ >>%s\n%s\n" % (pooler.path("runs"), text))
    os.chmod(path, 0o700)
    return path


def runs(pooler):
    return len(pooler.read("runs").splitlines())


@pytest.fixture
def stopped(make_pooler, pg):
    """stopped(entry, **settings) returns a pooler that is not started."""
    def make(entry=None, **settings):
        return make_pooler({"db": entry or pg.conn(user="changing")}, start=False, settings={**QUICK, **settings})
    return make


def start(pooler, text, **settings):
    pooler.settings.update(settings, server_password_command=write_program(pooler, text))
    return pooler.start()


class Rotation:
    """Changes the password of the role, and what the program prints."""

    def __init__(self, pg, pooler, every):
        self.pg, self.every, self.count = pg, every, 0
        self.lock, self.now = pooler.write("lock", ""), pooler.path("now")
        self.pooler, self.is_over = pooler, threading.Event()
        self.program = "exec flock -s %s cat %s" % (self.lock, self.now)
        self.thread = threading.Thread(target=self.run)
        self.change()

    def change(self):
        self.count += 1
        with open(self.lock) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.pg.do("alter role changing password '%s'" % (SECRET % self.count))
            self.pooler.write("now", SECRET % self.count + "\n")
            keeper.learn(SECRET % self.count)

    def run(self):
        while not self.is_over.wait(self.every):
            self.change()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def work(pooler, until, errors, done):
    while not until.is_set():
        try:
            with pooler.connect() as client:
                assert client.value("select 1") == "1"
            done.append(1)
        except Exception as error:  # noqa: BLE001
            errors.append(error)


@contextlib.contextmanager
def short_connections(pooler, threads=4):
    """Clients that log in, ask and leave again, none of which gets an error."""
    until, errors, done = threading.Event(), [], []
    workers = [threading.Thread(target=work, args=(pooler, until, errors, done)) for _ in range(threads)]
    for one in workers:
        one.start()
    try:
        yield done
    finally:
        until.set()
        for one in workers:
            one.join()
    assert not errors, errors[:3]


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("lifetime", ["600", "1"])
def test_a_password_that_changes(stopped, role, pg, workers, lifetime):
    """Each query needs a login of its own, and no client sees that the password changes."""
    pooler = stopped(workers=workers, server_lifetime="0", server_password_lifetime=lifetime)
    rotation = Rotation(pg, pooler, 1.0)
    start(pooler, rotation.program)
    with rotation, short_connections(pooler) as done:
        waiting.wait_for(lambda: rotation.count >= 5, "it has changed", pause=0.1)
        count = len(done)
        waiting.wait_for(lambda: len(done) > count + 20, "clients go on", pause=0.1)
    assert rotation.count <= runs(pooler) + 1


def test_pgbench_with_short_connections(stopped, role, pg):
    """Each transaction is a connection of its own to the pooler and from it to the server."""
    pooler = stopped(server_lifetime="0")
    rotation = Rotation(pg, pooler, 2.0)
    start(pooler, rotation.program)
    script = pooler.write("one.sql", "select current_user;\n")
    with rotation:
        done = subprocess.run([pg.program("pgbench"), "-n", "-C", "-c", "4", "-T", "7", "-f", script, "db"],
                              env=pooler.env_for(), capture_output=True, text=True)
    assert done.returncode == 0 and "number of failed transactions: 0 " in done.stdout, done.stdout + done.stderr
    assert rotation.count >= 4


def test_what_the_program_gets(stopped, role, pg):
    """Arguments as they stand, without a shell, and the place of the login."""
    pooler = stopped(pg.conn(dbname="other", user="changing"))
    seen = pooler.path("seen")
    path = write_program(pooler, 'echo "$#|$1|$2|$PGHOST|$PGPORT|$PGUSER|$PGDATABASE|$KEPT" >%s\n'
                         "cat >>%s\nprintf '%s\\n'" % (seen, seen, FIRST))
    pooler.env.update(PGHOST="wrong", PGUSER="wrong", KEPT="kept")
    pooler.settings["server_password_command"] = path + " 'it''s *' $HOME"
    pooler.start()
    assert pooler.connect().value("select current_user") == "changing"
    assert pooler.read("seen") == "2|it's *|$HOME|127.0.0.1|%d|changing|other|kept\n" % pg.port
    assert pooler.config()["server_password_command"] == path + " 'it''s *' $HOME"


@pytest.mark.parametrize("text, reason", [
    ("echo 'no such account' >&2; echo more >&2; echo Kq7secret; exit 3", "exit 3: no such account"),
    ("printf 'a\\033[1mb' >&2; exit 1", r"exit 1: a\x1b[1mb"),
    ("exit 7", "exit 7"),
    ("echo Kq7secret; kill -9 $$", "was ended by signal 9"),
    ("echo Kq7secret; exec sleep 60", "has not ended within 1 s"),
    ("head -c 70000 /dev/zero | tr '\\0' K", "prints too much"),
    ("head -c 65537 /dev/zero | tr '\\0' K", "gives more than 65536 bytes"),
    ("yes", "prints too much"),
    ("echo", "gives an empty password"),
    ("printf 'Kq7\\0secret'", "gives a password with a NUL"),
], ids=["status", "escapes", "silent", "killed", "hangs", "long", "one-more", "endless", "empty", "nul"])
def test_a_program_that_fails(stopped, role, text, reason):
    keeper.learn("Kq7secret")
    pooler = start(stopped(), text, server_connect_timeout="1")
    assert pooler.refusal() == NO_PASSWORD
    assert_told(pooler, pooler.path("program") + ": " + reason)
    assert b"Kq7" not in pooler.log().encode()
    assert not running(pooler)
    write_program(pooler, "printf '%s'" % FIRST)
    waiting.wait_for(lambda: try_to_connect(pooler), "it works again", pause=0.05)


def assert_told(pooler, reason):
    """The log has it, and so have the views of those who look after it."""
    pooler.wait_log(r"WARNING no password for user changing at 127\.0\.0\.1:\d+: %s$" % re.escape(reason))
    assert pooler.show_one("HOSTS", database="db")["last_error"] == reason
    answer = dict(pooler.admin.query("EXPLAIN LOGIN trust_user db").rows)
    assert re.sub(r"\d+", "0", answer["last attempt"]) == re.sub(r"\d+", "0", "failed 0 s ago: " + reason)


def running(pooler):
    """The processes that programs have left, as lines of ps."""
    groups = pooler.read("runs").split()
    return [pid for pid in groups if os.path.exists("/proc/%s" % pid) and not is_zombie(pid)]


def is_zombie(pid):
    with contextlib.suppress(OSError), open("/proc/%s/stat" % pid) as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    return True


def try_to_connect(pooler):
    with contextlib.suppress(wire.Refused, wire.Closed), pooler.connect() as client:
        return client.value("select 1") == "1"
    return False


def test_a_program_that_is_missing(stopped, role):
    pooler = stopped()
    pooler.settings["server_password_command"] = "/nowhere/program --x"
    pooler.start()
    assert pooler.refusal() == NO_PASSWORD
    assert_told(pooler, "/nowhere/program: cannot be run: No such file or directory")


def test_the_longest_password(stopped, pg, fake):
    """64 KiB without the newline reach the server."""
    seen = []

    def script(session):
        session.recv_startup()
        session.send(wire.auth(5, b"salt"))
        seen.append(session.recv())
        session.send(fakeserver.welcome())
        session.serve()

    server = fake(script)
    pooler = start(stopped("host=127.0.0.1 port=%d dbname=x user=changing" % server.port),
                   "head -c 65536 /dev/zero | tr '\\0' K; echo")
    assert pooler.connect().value("select 1")
    assert seen[0].body[:-1].decode() == wire.md5_answer("changing", "K" * 65536, b"salt")


@pytest.mark.parametrize("workers", [1, 4])
def test_one_at_a_time(make_pooler, role, pg, workers):
    """For each host and user one program runs, for all databases, pools and workers."""
    pooler = make_pooler({name: pg.conn(user="changing", dbname=dbname) for name, dbname in
                          (("db", "postgres"), ("two", "other"))}, start=False,
                         settings={**QUICK, "workers": workers})
    inside = pooler.path("inside")
    start(pooler, "mkdir %s || touch %s\nsleep 0.3\nrmdir %s\nprintf '%s'" % (inside, pooler.path("both"), inside, FIRST))
    clients = [pooler.client(name) for name in ("db", "two") for _ in range(4)]
    threads = [threading.Thread(target=client.login) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        assert client.value("select current_user") == "changing"
        client.close()
    assert not os.path.exists(pooler.path("both"))
    assert runs(pooler) == 2


def test_a_refused_password_is_fetched_again_once(stopped, role, pg):
    pooler = start(stopped(server_lifetime="0", server_login_retry="60"), "cat %s" % "now")
    now = pooler.write("now", FIRST)
    write_program(pooler, "cat %s" % now)
    for _ in range(3):
        pooler.connect().value("select 1")
    assert runs(pooler) == 1
    pg.do("alter role changing password 'another secret 77c1'")
    pooler.write("now", "another secret 77c1")
    assert pooler.connect().value("select 1") == "1"
    assert runs(pooler) == 2
    pooler.wait_log("closing because: server refuses the password")
    pg.do("alter role changing password 'the third secret 0e9d'")
    # the program does not know it yet
    assert not try_to_connect(pooler)
    assert runs(pooler) == 3
    assert "password authentication failed" in pooler.log()


def test_fetched_again_before_its_end(stopped, role):
    """A password that is used is there when it is needed, and one that is not is forgotten."""
    pooler = stopped(server_lifetime="0", server_password_lifetime="2")
    start(pooler, "[ -e %s ] && sleep 1\nprintf '%s'" % (pooler.path("slow"), FIRST))
    pooler.connect().value("select 1")
    pooler.write("slow", "")
    longest = 0
    for number in range(3):
        waiting.wait_for(lambda: runs(pooler) > number + 1 or used(pooler) > 9, "it is fetched again")
        began = time.monotonic()
        assert pooler.connect().value("select 1") == "1"
        longest = max(longest, time.monotonic() - began)
    assert runs(pooler) == 4 and longest < 0.8, (runs(pooler), longest)
    count = waiting.wait_for(lambda: settled(pooler), "nobody needs it")
    assert count <= 5


def used(pooler):
    pooler.connect().value("select 1")
    return 0


def settled(pooler):
    """The number of runs, when none is added for longer than the lifetime."""
    before = runs(pooler)
    time.sleep(3)
    return before if runs(pooler) == before else 0


def test_reload_forgets_them(stopped, role):
    pooler = start(stopped(server_lifetime="0"), "printf '%s'" % FIRST)
    for number in (1, 2):
        assert pooler.connect().value("select 1") == "1"
        assert pooler.connect().value("select 1") == "1"
        assert runs(pooler) == number
        pooler.reload()


# files


def test_a_file_behind_renamed_links(stopped, role, pg):
    """As Kubernetes and Vault's agents replace it, and by rename."""
    pooler = stopped(server_lifetime="0")
    folder = pooler.path("secret")
    os.mkdir(folder)
    os.symlink("..data/password", os.path.join(folder, "password"))
    pooler.settings["server_password_file"] = os.path.join(folder, "password")

    def publish(number, secret):
        version = os.path.join(folder, "..%d" % number)
        os.mkdir(version)
        pooler.write(os.path.join(version, "password"), secret + "\n")
        os.symlink("..%d" % number, os.path.join(folder, "..new"))
        os.rename(os.path.join(folder, "..new"), os.path.join(folder, "..data"))
        keeper.learn(secret)

    publish(1, FIRST)
    pooler.start()
    assert pooler.connect().value("select 1") == "1"
    for number in range(2, 6):
        pg.do("alter role changing password '%s'" % (SECRET % number))
        publish(number, SECRET % number)
        assert pooler.connect().value("select 1") == "1"
    assert "server refuses the password" not in pooler.log()
    os.unlink(os.path.join(folder, "..data"))
    assert not try_to_connect(pooler)
    pooler.wait_log("no password for user changing at .*/password: No such file or directory")
    publish(7, SECRET % 5)
    waiting.wait_for(lambda: try_to_connect(pooler), "it works again", pause=0.05)


def test_files_that_fail(stopped, role):
    pooler = stopped()
    path = pooler.path("secret")
    pooler.settings["server_password_file"] = path
    os.mkfifo(path)
    waiting.give(path)
    pooler.start()
    assert pooler.refusal() == NO_PASSWORD
    assert_told(pooler, path + ": is not a file")


# where they count


def test_levels(make_pooler, role, pg):
    """The user's, then the database's, then the global one; password= comes before all."""
    pooler = make_pooler({"db": pg.conn(), "own": pg.conn(), "given": pg.conn(user="changing", password=FIRST)},
                         start=False, settings=dict(QUICK), userlist={"admin_user": "admin secret 91c"})
    for name in ("of_user", "of_database", "global"):
        write_program(pooler, "echo %s >>%s\necho 'wrong secret %s'" % (name, pooler.path("which"), name), name)
    pooler.databases["own"] += " server_password_command=" + pooler.path("of_database")
    pooler.settings["server_password_command"] = pooler.path("global")
    names = {"scram_user": "server_password_command=" + pooler.path("of_user"), "md5_user": "pool_size=3",
             "trust_user": "server_password_command=''"}
    pooler.users.update(names)
    for name in names:
        pooler.userlist[name] = postgres.USERS[name][0] or ""
    pooler.start()
    for database, user, which in (("db", "scram_user", "of_user"), ("own", "scram_user", "of_user"),
                                  ("own", "md5_user", "of_database"), ("db", "md5_user", "global")):
        assert "password authentication failed" in pooler.refusal(database, user)
        assert pooler.read("which").split()[-1] == which
    before = pooler.read("which")
    assert pooler.connect("own", "trust_user").value("select current_user") == "trust_user"
    assert pooler.connect("given", "md5_user").value("select current_user") == "changing"
    assert pooler.read("which") == before
    answer = dict(pooler.admin.query("EXPLAIN LOGIN md5_user own").rows)
    assert answer["server secret"] == "server_password_command, " + pooler.path("of_database")
    answer = dict(pooler.admin.query("EXPLAIN LOGIN md5_user given").rows)
    assert answer["server secret"] == "password= of the database, plain password"


@pytest.mark.parametrize("settings, problem", [
    ({"server_password_command": "program"}, "a command begins with the absolute path of a program"),
    ({"server_password_command": "/bin/sh 'x"}, "a quote in the command is not closed"),
    ({"server_password_command": "/bin/sh", "server_password_file": "/x"}, "do not go together"),
])
def test_what_is_refused_at_load(stopped, role, settings, problem):
    pooler = start(stopped(), "printf '%s'" % FIRST)
    pooler.settings.update(settings)
    pooler.write_files()
    with pytest.raises(wire.Refused):
        pooler.reload()
    assert problem in pooler.log()
    assert pooler.connect().value("select 1") == "1"


def test_check_config(stopped, pg):
    pooler = stopped()
    program = write_program(pooler, "echo x")
    os.chmod(program, 0o777)
    secret = pooler.write("secret", "x")
    os.chmod(secret, 0o644)
    pooler.settings["server_password_command"] = "/nowhere/x --y"
    pooler.databases["*"] = "host=127.0.0.1 server_password_file=/nowhere/file"
    pooler.users.update(one="server_password_command='%s x'" % program, two="server_password_file=" + secret)
    _, out, _ = pooler.run_ini(None, "--check-config")
    assert re.search(r"ini:\d+: server_password_command: cannot run /nowhere/x: No such file", out), out
    assert re.search(r"ini:\d+: server_password_file: cannot read /nowhere/file: No such file", out), out
    assert re.search(r"ini:\d+: warning: server_password_command: other accounts can write %s" % program, out), out
    assert re.search(r"ini:\d+: warning: server_password_file: other accounts can read the password in %s" % secret, out)


def asks_in_clear(seen, tls=None):
    def script(session):
        session.tls = tls
        session.recv_startup()
        session.send(wire.auth(3))
        with contextlib.suppress(wire.Closed):
            seen.append(session.recv())
            session.send(fakeserver.welcome())
            session.serve()
    return script


def test_never_in_clear(stopped, fake):
    """Not where somebody between could read it."""
    seen = []
    server = fake(asks_in_clear(seen))
    pooler = start(stopped("host=127.0.0.1 port=%d dbname=x user=changing" % server.port), "printf '%s'" % FIRST)
    assert pooler.refusal() == ("server login failed: the server asks for the password in clear text, which is "
                                "sent only inside TLS or over a unix socket")
    assert not seen


def test_in_clear_inside_tls(stopped, fake):
    folder = waiting.scratch("certs")
    pair = certs.Authority(folder).issue("server", "localhost", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert_file, pair.key_file)
    seen = []
    server = fake(asks_in_clear(seen, context))
    pooler = start(stopped("host=127.0.0.1 port=%d dbname=x user=changing" % server.port, server_tls_sslmode="require"),
                   "printf '%s'" % FIRST)
    assert pooler.connect().value("select 1")
    assert seen[0].body[:-1].decode() == FIRST
    waiting.discard(folder)


def test_in_clear_over_a_unix_socket(stopped, role, pg):
    pg.set_hba(["local all changing password", *postgres.hba_lines()])
    try:
        pooler = start(stopped(pg.unix_conn(user="changing")), "printf '%s'" % FIRST)
        assert pooler.connect().value("select current_user") == "changing"
    finally:
        pg.set_hba(postgres.hba_lines())


@pytest.mark.parametrize("workers", [1, 4])
def test_the_monitor_of_hosts(stopped, role, pg, workers):
    """It logs in as the pool's user, with the password of the program, also when that has changed."""
    pooler = stopped(pg.conn(user="changing", target_session_attrs="primary"), workers=workers, server_lifetime="0")
    rotation = Rotation(pg, pooler, 0.5)
    start(pooler, rotation.program)
    monitors = "application_name = 'pgbouncer monitor' and usename = 'changing'"
    with rotation, pooler.connect() as client:
        assert client.value("select 1") == "1"
        for _ in range(4):
            waiting.wait_for(lambda: pg.backends(monitors) == 1, "the monitor is there")
            before = rotation.count
            waiting.wait_for(lambda: rotation.count > before, "it has changed")
            pg.do("select pg_terminate_backend(pid) from pg_stat_activity where " + monitors)
        assert client.value("select 1") == "1"
        assert pooler.show_one("HOSTS", database="db")["state"] == "up"
        # It is there as long as the database has clients.
        waiting.wait_for(lambda: pg.backends(monitors) == 1, "the monitor is there again")
    write_program(pooler, "echo 'no ticket' >&2; exit 4")
    pg.do("alter role changing password 'unknown 4471 secret'",
          "select pg_terminate_backend(pid) from pg_stat_activity where " + monitors)
    with pooler.client() as waits:
        waits.send(waits.startup_packet())
        waiting.wait_for(lambda: "exit 4: no ticket" in (
            pooler.show_one("HOSTS", database="db")["last_error"] or ""), "SHOW HOSTS tells it")


@pytest.mark.parametrize("workers", [1, 4])
def test_takeover(stopped, role, pg, restart, workers):  # noqa: F811
    """The new process fetches what it needs itself, under a load that sees no error."""
    pooler = stopped(workers=workers, server_lifetime="1")
    rotation = Rotation(pg, pooler, 1.0)
    start(pooler, rotation.program)
    old = []
    with rotation, short_connections(pooler) as done, pooler.connect() as stays:
        backend = stays.query("begin").tag and stays.value("select pg_backend_pid()")
        for _ in range(2):
            before = runs(pooler)
            old.append(restart(pooler))
            waiting.wait_for(lambda: runs(pooler) > before, "the new process has fetched it", pause=0.05)
            count = len(done)
            waiting.wait_for(lambda: len(done) > count + 20, "clients go on", pause=0.05)
        assert stays.value("select pg_backend_pid()") == backend
        assert stays.query("commit").tag == "COMMIT"
    for process in old:
        wait_end(process, pooler)


def test_a_hanging_program_ends_with_the_pooler(stopped, role):
    pooler = start(stopped(), "sleep 60 & exec sleep 60")
    with pooler.client() as client:
        client.send(client.startup_packet())
        waiting.wait_for(lambda: runs(pooler) == 1, "it runs")
        pooler.signal("QUIT")
        pooler.wait_exit()
    waiting.wait_for(lambda: not running(pooler), "the program is gone")
