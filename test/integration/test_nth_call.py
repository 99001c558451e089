"""The n-th call fails: memory whose size a peer chooses, sockets, files, threads, names. The program of
test/nth lets one call fail, for every n of what a scenario does (`make nth-call`), or for some of them.
After each the process lives, only who was concerned is hurt, new clients are served, and the log says why."""

import hashlib
import mmap
import os
import struct

import pytest

import waiting
import wire

# The share of the n that are tried.
SHARE = float(os.environ.get("NTH_SHARE", "0.06"))
MOST = 2000  # No scenario makes more calls.


class Calls:
    """The file that the program shares with the test: see test/nth/nth_calls.c."""

    def __init__(self, pooler, name="calls"):
        self.path = pooler.write(name, b"\0" * 64)
        self.file = open(self.path, "r+b")
        self.bytes = mmap.mmap(self.file.fileno(), 64)

    def fail(self, number, only=""):
        self.bytes[0:64] = struct.pack("QQ24x24s", 0, number, only.encode())

    def stop(self):
        """No further call fails. The count and what has failed can be looked at."""
        self.bytes[8:16] = struct.pack("Q", 0)

    @property
    def count(self):
        return struct.unpack("Q", self.bytes[0:8])[0]

    @property
    def failed(self):
        return self.bytes[16:40].rstrip(b"\0").decode()


def is_chosen(kind, number):
    """The same n each time, so that a new failure comes from a change."""
    digest = hashlib.sha256(b"%s %d" % (kind.encode(), number)).digest()
    return SHARE >= 1 or digest[0] < SHARE * 256


@pytest.fixture(scope="module")
def program(request):
    ours = os.path.abspath(request.config.getoption("--pooler"))
    path = os.path.join(os.path.dirname(ours), "test/nth/pgbouncer")
    if not os.access(path, os.X_OK):
        pytest.skip("%s is not built" % path)
    with waiting.within_reach(path) as reachable:
        yield reachable


# Only the user whose login is tried has to prove who it is.
RULES = """local all all trust
host all trust_user,admin_user all trust
host all all all %s
"""


def prepare(make_pooler, pg, program, method="trust", **settings):
    pooler = make_pooler({
        "db": pg.conn(pool_size=2), "quiet": pg.conn(pool_size=1, pool_mode="session"),
        "named": pg.conn(pool_size=3).replace("127.0.0.1", "localhost"),
        "asked": pg.conn(auth_user="owner", auth_query="select usename, passwd from pg_shadow where usename=$1"),
    }, start=False, settings={
        "pool_mode": "transaction", "server_login_retry": "0.05", "max_prepared_statements": 10,
        "query_wait_timeout": 10, "io_engine": "epoll", "workers": 1, "auth_type": "hba", **settings})
    pooler.settings["auth_hba_file"] = pooler.write("hba", RULES % method)
    pooler.settings["pidfile"] = pooler.path("pid")
    pooler.binary = program
    pooler.may_log_fatal = True
    pooler.calls = Calls(pooler)
    pooler.env["NTH_CALLS"] = pooler.calls.path
    return pooler


def is_served(pooler):
    try:
        with pooler.connect() as client:
            return client.value("select 41 + 1") == "42"
    except (OSError, wire.Closed, wire.Refused, AssertionError):
        return False


# What clients do. Each ends with its connection closed.


def login(user, database="db"):
    def run(pooler):
        with pooler.connect(database, user) as client:
            client.query("select 1")
    return run


def query(pooler):
    with pooler.connect() as client:
        client.query("select repeat('x', 100000)")
        client.send(wire.parse("s", "select 2"), wire.bind("", "s"), wire.execute(), wire.sync())
        client.finish()
        client.query("select '%s'" % ("y" * 200000))


def copy(pooler):
    with pooler.connect() as client:
        client.query("begin")
        client.query("create temporary table copied (t text) on commit drop")
        client.send(wire.query("copy copied from stdin"))
        client.recv_until("G")
        client.send(wire.copy_data("x" * 50000 + "\n") * 10, wire.copy_done())
        client.finish()
        client.send(wire.query("copy copied to stdout"))
        client.finish()
        client.query("commit")


def cancel(pooler):
    with pooler.connect() as client:
        client.send(wire.query("select pg_sleep(0.3)"))
        pooler.raw().sock.sendall(wire.cancel_request(client.key))
        client.finish()


def reload(pooler):
    with pooler.console(unix=True) as console:
        pooler.consoles.remove(console)
        console.query("RELOAD", check=False)


def views(pooler):
    with pooler.console(unix=True) as console:
        pooler.consoles.remove(console)
        for view in ("POOLS", "CLIENTS", "SOCKETS", "MEM", "CONFIG"):
            console.query("SHOW " + view)


def name(pooler):
    with pooler.console(unix=True) as console:
        pooler.consoles.remove(console)
        console.query("RECONNECT named", check=False)
    with pooler.connect("named") as client:
        client.query("select 1")


# The method of logins, and what is done.
SCENARIOS = {
    "trust": ("trust", login("trust_user")),
    "md5": ("md5", login("md5_user")),
    "scram": ("scram-sha-256", login("scram_user")),
    "auth_query": ("md5", login("second_user", "asked")),
    "query": ("trust", query),
    "copy": ("trust", copy),
    "cancel": ("trust", cancel),
    "reload": ("trust", reload),
    "views": ("trust", views),
    "name": ("trust", name),
}
SAYS = (" ERROR ", " WARNING ", "closing because")


def attempt(pooler, run, number, only=""):
    """Returns what it has met, or None."""
    pooler.calls.fail(number, only)
    try:
        run(pooler)
    except (OSError, wire.Closed, wire.Refused, AssertionError) as error:
        return error
    finally:
        pooler.calls.stop()
    return None


@pytest.mark.parametrize("kind", SCENARIOS)
def test_only_the_touched_connection_is_hurt(make_pooler, pg, program, kind):
    method, run = SCENARIOS[kind]
    pooler = prepare(make_pooler, pg, program, method, dns_max_ttl=0)
    if kind == "auth_query":
        pg.do("alter user second_user password 'second'")
        pooler.userlist.pop("second_user")
        run = lambda pooler: pooler.connect("asked", "second_user", "second").close()  # noqa: E731
    pooler.start()
    pooler.admin.query("SHOW VERSION")
    beside = pooler.connect("quiet")
    backend = beside.value("select pg_backend_pid()")
    for _ in range(2):
        assert attempt(pooler, run, 0) is None
    total = pooler.calls.count
    assert is_served(pooler)
    fds, seen = pooler.fds(), set()
    for number in (n for n in range(1, total + total // 5) if is_chosen(kind, n)):
        mark = pooler.mark()
        error = attempt(pooler, run, number)
        failed = pooler.calls.failed
        seen.add(failed)
        what = "%s: call %d of %d, %s, %r" % (kind, number, total, failed or "none", error)
        assert pooler.is_running(), what + "\n" + pooler.log_since(mark)[-2000:]
        assert beside.value("select pg_backend_pid()") == backend, what
        waiting.wait_for(lambda: is_served(pooler), what + ": new clients are served", 20)
        assert not error or failed, what
        if error:
            waiting.wait_for(lambda: any(word in pooler.log_since(mark) for word in SAYS), what + ": the log says it")
    assert seen - {""}, seen
    waiting.wait_for(lambda: int(pooler.show_one("LISTS", list="login_clients")["items"]) == 0, "no login is left")
    assert is_served(pooler)
    waiting.wait_for(lambda: pooler.fds() <= fds + 6, "no descriptor is left")
    beside.close()
    if kind == "auth_query":
        pg.do("alter user second_user password null")


# Calls of which each of the first few fails in each run.
ALWAYS = ("accept4", "epoll_ctl", "socket", "connect", "recv", "send", "mem_try")


@pytest.mark.parametrize("call", ALWAYS)
def test_each_of_the_first(make_pooler, pg, program, call):
    """A connection that is gone before accept() stops nobody else (they waited for 5 s), and a descriptor that
    epoll had no room for is watched later (it never was: who got such a server waited for ever)."""
    pooler = prepare(make_pooler, pg, program)
    pooler.start()
    beside = pooler.connect("quiet")
    backend = beside.value("select pg_backend_pid()")
    for number in range(1, 6):
        pooler.admin.query("RECONNECT db")
        attempt(pooler, login("trust_user"), number, call)
        what = "%s %d" % (call, number)
        if number == 1 and call not in ("recv", "mem_try"):
            assert pooler.calls.failed == call
        waiting.wait_for(lambda: is_served(pooler), what, 3)
        assert beside.value("select pg_backend_pid()") == backend, what


def ends(pooler, number):
    """Starts the program and waits until it serves, or has ended. The line about that may be what is lost."""
    pooler.calls.fail(number)
    pooler.launch()
    waiting.wait_for(lambda: pooler.process.poll() is not None or is_served(pooler),
                     "up or ended, with call %d" % number)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_start_and_a_shutdown(make_pooler, pg, program, workers):
    """A start fails with a reason, or serves, and ends when it is told to."""
    pooler = prepare(make_pooler, pg, program, workers=workers, auth_type="any")
    pooler.databases = {"db": pg.conn(user="trust_user")}
    total = MOST
    for number in range(MOST):
        if number > total:
            break
        if number and not is_chosen("start %d" % workers, number):
            continue
        pooler.write("stderr", "")
        ends(pooler, number)
        failed = pooler.calls.failed
        what = "call %d of %d, %s" % (number, total, failed or "none")
        if pooler.is_running():
            waiting.wait_for(lambda: is_served(pooler), what + ": clients are served", 20)
            pooler.signal("TERM")
            assert pooler.wait_exit() == 0, what + pooler.log()[-2000:]
            total = total if number else pooler.calls.count
        else:
            assert pooler.process.returncode == 1 and failed and pooler.log().strip(), what + pooler.log()[-2000:]
        pooler.check_sanitizers()
        pooler.process = None
        if os.path.exists(pooler.path("pid")):
            os.unlink(pooler.path("pid"))


def is_well(client, value):
    try:
        return client.value("select %d" % value) == str(value)
    except (OSError, wire.Closed, wire.Refused, AssertionError):
        return False


def is_near(pooler):
    """Its socket file and its pidfile are its own: the next process finds them. It warns of a pidfile that cannot
    be renamed, and goes on without it."""
    try:
        with pooler.connect(unix=True) as client:
            return client.value("select 5") == "5" and (
                pooler.calls.failed == "rename" or pooler.read("pid") == "%d\n" % pooler.pid)
    except (OSError, wire.Closed, wire.Refused):
        return False


@pytest.mark.parametrize("workers, only", [(1, "recvmsg"), (2, "recvmsg"), (1, "rename"), (1, ""), (2, "")])
def test_a_takeover(make_pooler, pg, program, workers, only):
    """A call of either process fails: the new one serves, or the old one goes on, with its socket file and its
    pidfile. Nobody is lost but for one client whose own descriptor was concerned."""
    if SHARE < 1 and (not only or workers > 1):
        pytest.skip("it is part of make nth-call: not everything that it finds is mended")
    pooler = prepare(make_pooler, pg, program, workers=workers, auth_type="any")
    pooler.databases = {"db": pg.conn(user="trust_user", pool_size=3)}
    pooler.args = []
    pooler.start()
    pooler.args = ["-R"]
    total = MOST
    for number in range(MOST):
        if number > total + 1:  # The one behind a failure at the end succeeds.
            break
        if number and number <= total and not only and not is_chosen("takeover %d" % workers, number):
            continue
        clients = [pooler.connect() for _ in range(4)]
        clients[0].query("begin")
        clients[1].query("select 1")
        old, mark = pooler.process, pooler.mark()
        pooler.calls.fail(number, only)
        pooler.launch()
        waiting.wait_for(lambda: pooler.process.poll() is not None or old.poll() is not None,
                         "one of the two processes ends, with call %d" % number)
        pooler.calls.stop()
        failed = pooler.calls.failed
        what = "call %d of %d, %s" % (number, total, failed or "none")
        if pooler.process.poll() is None:
            assert old.returncode == 0, (what, old.returncode, pooler.log_since(mark)[-3000:])
        else:
            assert pooler.process.returncode == 1 and failed, (what, pooler.log_since(mark)[-3000:])
            pooler.process = old
            assert pooler.is_running(), what
        well = [is_well(client, n) for n, client in enumerate(clients)]
        assert well.count(False) <= (1 if failed else 0), (what, well, pooler.log_since(mark)[-3000:])
        waiting.wait_for(lambda: is_served(pooler) and is_near(pooler), what + ": new clients are served", 20)
        for client in clients:
            client.close()
        pooler.check_sanitizers()
        total = total if number else pooler.calls.count
