"""Robustness: killed clients and servers, restarts, pauses and reloads under load, exhausted
resources."""

import os
import random
import resource
import signal
import socket
import struct
import threading

import pytest

import programs
import waiting
import wire
from pooler import settings_of_run

TRANSACTION = {"pool_mode": "transaction"}


@pytest.fixture
def busy(make_pooler, pg):
    """A pooler with ten server connections for a hundred clients, and with a short retry delay."""
    def make(**settings):
        return make_pooler({"db": pg.conn(pool_size=10)}, settings=dict(
            {"max_client_conn": 1000, "server_login_retry": 0.2, "query_wait_timeout": 30},
            **dict(TRANSACTION, **settings)))
    return make


def assert_baseline(pooler, fds):
    """Asserts that no connection is left except the admin console."""
    pooler.wait_pool(cl_active=0, cl_waiting=0, sv_active=0, sv_tested=0, sv_login=0,
                     cl_active_cancel_req=0, cl_waiting_cancel_req=0, sv_being_canceled=0)
    numbers = {r["list"]: int(r["items"]) for r in pooler.show("LISTS")}
    assert numbers["used_clients"] == 1 and numbers["login_clients"] == 0, numbers
    waiting.wait_for(lambda: pooler.fds() <= fds + numbers["used_servers"], "descriptors are closed")


class Load:
    """Threads that query through the pooler. A client that fails is counted and replaced."""

    def __init__(self, pooler, clients=8, sql="select 1"):
        self.pooler = pooler
        self.sql = sql
        self.stop = threading.Event()
        self.errors = []
        self.done = 0
        self.threads = [threading.Thread(target=self.run) for _ in range(clients)]

    def run(self):
        client = None
        while not self.stop.is_set():
            try:
                if client is None:
                    client = self.pooler.connect()
                client.query(self.sql)
                self.done += 1
            except (wire.Refused, wire.Closed, OSError) as error:
                self.errors.append(error)
                if client:
                    client.close()
                client = None
                self.stop.wait(0.05)
        if client:
            client.close()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(20)

    def wait_more(self, count=50):
        """Waits until that many more queries have succeeded."""
        target = self.done + count
        waiting.wait_for(lambda: self.done >= target, "load goes on: %s" % self.errors[-3:])


def test_killed_clients(busy, pg):
    pooler = busy()
    pooler.admin.query("SHOW POOLS")
    base = pooler.fds()
    pg.do("create table if not exists killed (n int)", "grant all on killed to public")
    with Load(pooler, 4) as load:
        for sql in ("select pg_sleep(30)", "copy killed from stdin",
                    "copy (select generate_series(1, 100000000)) to stdout", "begin; select 1"):
            victims = [programs.Program(["psql", "-XAtq", "-c", sql, "-c", "select pg_sleep(30)"],
                                        pooler.env_for(), stdin=True) for _ in range(3)]
            waiting.wait_for(lambda: pooler.pool()["sv_active"] >= 3, "victims at work")
            for victim in victims:
                victim.process.send_signal(signal.SIGKILL)
                victim.__exit__()
            load.wait_more()
    assert not load.errors, load.errors
    assert_baseline(pooler, base)
    pg.do("drop table killed")


def test_clients_that_vanish_by_the_hundred(busy):
    """Half of the clients vanish in the middle of a query, with a TCP reset."""
    pooler = busy()
    pooler.admin.query("SHOW POOLS")
    base = pooler.fds()
    rand = random.Random(7)
    with Load(pooler, 3) as load:
        for _ in range(300):
            client = pooler.connect()
            client.send(rand.choice([wire.query("select 1"), wire.query("begin"),
                                     wire.query("select pg_sleep(1)"), wire.parse("", "select 1"),
                                     wire.query("select 1")[:5], b""]))
            if rand.random() < 0.5:
                reset(client)
            client.close()
        load.wait_more()
    assert not load.errors, load.errors
    assert_baseline(pooler, base)


def reset(client):
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize("last, most", [("select 1", 10), ("select pg_sleep(0.2)", 110)],
                         ids=["answered", "running"])
def test_vanished_clients_cause_no_storm_of_logins(busy, last, most):
    """A server connection whose client vanished after its answer is used again; one in the middle
    of a query is replaced."""
    pooler = busy(log_disconnections=0)
    pooler.admin.query("SHOW POOLS")
    base = pooler.fds()
    with Load(pooler, 3) as load:
        for _ in range(10):
            clients = [pooler.connect() for _ in range(100 if last == "select 1" else 10)]
            for client in clients:
                client.send(wire.query(last))
            if last == "select 1":
                for client in clients:
                    client.finish()
            for client in clients:
                reset(client)
        load.wait_more()
    assert not load.errors, load.errors
    assert pooler.log().count("new connection to server") <= most
    assert_baseline(pooler, base)


def test_terminated_backends(busy, pg):
    pooler = busy()
    pooler.admin.query("SHOW POOLS")
    base = pooler.fds()
    with Load(pooler, 6) as load:
        for _ in range(20):
            load.wait_more(20)
            pg.do("select pg_terminate_backend(pid) from pg_stat_activity where usename='trust_user' "
                  "order by random() limit 1")
        load.wait_more(100)
    # Only clients on a terminated backend may have seen an error.
    assert len(load.errors) <= 20, load.errors
    assert_baseline(pooler, base)


@pytest.mark.parametrize("how", ["INT", "QUIT"])
def test_restart_of_postgresql(busy, pg, how):
    pooler = busy()
    pooler.admin.query("SHOW POOLS")
    base = pooler.fds()
    idle = [pooler.connect() for _ in range(10)]
    for client in idle:
        client.query("select 1")
    with Load(pooler, 6) as load:
        load.wait_more()
        pg.restart(how)
        load.wait_more(200)

        def goes_well():
            before = len(load.errors)
            load.wait_more(200)
            return len(load.errors) == before

        # Several workers find the servers again one after the other.
        if settings_of_run().get("workers", "1") != "1":
            waiting.wait_for(goes_well, "no more errors")
        assert goes_well()
    for client in idle:  # Idle clients have seen no error.
        assert client.value("select 1") == "1"
        client.close()
    assert_baseline(pooler, base)


def test_queries_wait_for_the_restart(busy, pg):
    """A query that is sent while the server is down or starting gets its answer after the
    restart."""
    pooler = busy()
    client = pooler.client()
    pg.stop()
    client.send(client.startup_packet())
    pooler.wait_log("connect failed")
    pg.start()
    client.authenticate()
    assert client.value("select 1") == "1"


def bench_under(pooler, pg, disturb, *args):
    """Runs pgbench, one after the other, for as long as disturb() takes, and allows no error."""
    script = pooler.write("load.sql", "select 1;\n")
    is_over, failures = threading.Event(), []

    def load():
        try:
            while not is_over.is_set():
                programs.pgbench(pooler, pg, "-n", "-f", script, "-c", "20", "-j", "2", "-T", "3", *args)
        except BaseException as fault:
            failures.append(fault)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        waiting.wait_for(lambda: int((pooler.show("STATS") or [{}])[0].get("total_query_count", 0)) > 50,
                         "load")
        disturb()
    finally:
        is_over.set()
        thread.join()
    assert not failures, failures


def test_pause_and_resume_under_load(busy, pg):
    pooler = busy()

    def disturb():
        for _ in range(12):
            assert pooler.admin.query("PAUSE").tag == "PAUSE"
            assert pooler.pool()["sv_active"] == pooler.pool()["sv_idle"] == 0
            assert pooler.admin.query("RESUME").tag == "RESUME"
            assert pooler.admin.query("PAUSE db").tag == "PAUSE"
            assert pooler.admin.query("RESUME db").tag == "RESUME"

    bench_under(pooler, pg, disturb)
    pooler.wait_pool(cl_active=0, cl_waiting=0, sv_active=0)


@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_reload_under_load(busy, pg, protocol):
    pooler = busy()

    def disturb():
        for turn in range(50):
            pooler.settings["max_client_conn"] = 900 + turn
            pooler.databases["more%d" % turn] = pg.conn()
            pooler.users["user%d" % turn] = "pool_size=%d" % turn
            pooler.databases["db"] = pg.conn(pool_size=10, connect_query="select %d" % (turn // 10))
            pooler.write_files()
            pooler.reload()

    bench_under(pooler, pg, disturb, "-M", protocol)
    assert pooler.config()["max_client_conn"] == "949"


def test_reconnect_under_load(busy, pg):
    pooler = busy()

    def disturb():
        for _ in range(20):
            pooler.admin.query("RECONNECT")

    bench_under(pooler, pg, disturb)


PER_WORKER = 12  # descriptors of a worker itself, where there are several


def limited(make_pooler, pg, descriptors):
    """Besides those that several workers need for themselves."""
    pooler = make_pooler({"db": pg.conn(pool_size=3)}, start=False,
                         settings=dict(TRANSACTION, max_client_conn=1000, client_login_timeout=5))
    workers = int(pooler.settings.get("workers", 1))
    descriptors += PER_WORKER * workers if workers > 1 else 0
    pooler.preexec = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    return pooler.start()


def fill(pooler, most=200):
    """Connects until the pooler accepts no more, by an error or by silence, and returns the
    sockets."""
    held = []
    for _ in range(most):
        client = pooler.client()
        held.append(client)
        client.send(client.startup_packet())
        if not client.has_data(0.7):
            return held
        try:
            if client.recv().kind == "E":
                return held
        except wire.Closed:
            return held
    raise AssertionError("no limit was reached")


def test_descriptor_limit(make_pooler, pg):
    pooler = limited(make_pooler, pg, 64)
    first, console = pooler.connect(), pooler.admin
    first.query("select 1")
    base = pooler.fds()
    held = fill(pooler)
    assert len(held) > 20
    for _ in range(20):
        assert first.value("select 1") == "1"
    assert console.value("SHOW VERSION")
    at = pooler.cpu_time()
    waiting.holds_for(lambda: pooler.cpu_time() - at < 0.3, 0.5, "no busy loop at the limit")
    for client in held:
        client.close()
    waiting.wait_for(lambda: pooler.fds() <= base + 3, "closed")

    def is_served():
        try:
            with pooler.connect() as client:
                return client.value("select 1") == "1"
        except (OSError, wire.Closed, wire.Refused):
            return False

    waiting.wait_for(is_served, "new clients", 20)


def test_too_few_descriptors_to_start(make_pooler, pg):
    """Wherever a process lacks a descriptor at its start, it says so and ends."""
    pooler = make_pooler({"db": pg.conn()}, start=False)
    pooler.may_log_fatal = True
    for descriptors in range(8, 64):
        limit = (descriptors, descriptors)
        pooler.preexec = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        pooler.launch()
        waiting.wait_for(lambda: not pooler.is_running() or " process up: " in pooler.log(),
                         "it is up, or has ended")
        if " process up: " in pooler.log():
            break
        assert pooler.wait_exit() == 1, pooler.log()
    assert "FATAL" in pooler.log() and "Too many open files" in pooler.log()


def test_console_at_the_descriptor_limit(make_pooler, pg):
    """At the descriptor limit an administrator can still log in, other clients cannot."""
    pooler = limited(make_pooler, pg, 64)
    pooler.connect().query("select 1")
    held = fill(pooler)
    console = pooler.client("pgbouncer", "admin_user", unix=True)
    console.login()
    assert console.query("SHOW POOLS").tag == "SHOW"
    for client in held:
        client.close()


STRANGERS = {"silent": lambda client: None,
             "half-open": lambda client: client.send(client.startup_packet()),
             "half-open on the console": lambda client: client.send(client.startup_packet())}


@pytest.mark.parametrize("unix", [False, True])
@pytest.mark.parametrize("kind", STRANGERS)
def test_strangers_do_not_keep_the_administrator_out(make_pooler, pg, kind, unix):
    """Unauthenticated clients hold every descriptor, including the reserved ones, and reconnect as
    soon as they are disconnected."""
    pooler = limited(make_pooler, pg, 64)
    pooler.change(client_login_timeout=600, auth_type="scram-sha-256", tcp_defer_accept=0)
    ended = threading.Event()

    def stranger():
        while not ended.is_set():
            try:
                client = pooler.client("pgbouncer" if "console" in kind else "db", "admin_user", unix=unix)
                STRANGERS[kind](client)
                while not ended.is_set():
                    if client.has_data(0.1) and client.recv().kind == "E":
                        break
                client.close()
            except (OSError, wire.Closed):
                pass

    crowd = [threading.Thread(target=stranger) for _ in range(60)]
    for thread in crowd:
        thread.start()
    try:
        pooler.wait_log("descriptor limit")
        for way in (False, True):
            console = administrator(pooler, way)
            assert console.query("SHOW POOLS").tag == "SHOW"
            console.close()
    finally:
        ended.set()
        for thread in crowd:
            thread.join()


def administrator(pooler, unix):
    """Logs in as administrator, with several attempts, because the pooler may disconnect it in the
    crowd."""
    for _ in range(5):
        try:
            return pooler.client("pgbouncer", "admin_user", unix=unix).login()
        except (OSError, wire.Closed, wire.Refused) as failure:
            last = failure
    raise last


def test_server_needs_a_descriptor_too(make_pooler, pg):
    """Without a free descriptor for a server connection the client waits, and the process goes
    on."""
    pooler = limited(make_pooler, pg, 64)
    first = pooler.connect()
    first.query("begin")
    second = pooler.connect()
    held = fill(pooler)
    second.send(wire.query("select 2"))
    assert first.value("select 1") == "1"
    first.query("commit")
    assert second.finish().value == "2"
    for client in held:
        client.close()


IDLE = 5000


@pytest.mark.slow
def test_5000_idle_clients(make_pooler, pg):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < IDLE + 500:
        pytest.skip("descriptor limit of this machine is %d" % hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE + 500), hard))
    pooler = make_pooler({"db": pg.conn(pool_size=5)}, start=False,
                         settings=dict(TRANSACTION, max_client_conn=IDLE + 100, log_connections=0,
                                       log_disconnections=0, listen_backlog=1024))
    pooler.preexec = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (IDLE + 500, hard))
    pooler.start()
    pooler.admin.query("SHOW POOLS")
    base = pooler.fds()
    worker = pooler.connect()
    worker.query("select 1")
    idle = [pooler.connect() for _ in range(IDLE)]
    try:
        shown = []

        def show():
            for _ in range(5):
                shown.append(len(pooler.show("CLIENTS")))

        thread = threading.Thread(target=show)
        thread.start()
        for _ in range(200):
            worker.query("select 1")
        thread.join(30)
        assert shown == [IDLE + 2] * 5
        at = pooler.cpu_time()
        waiting.holds_for(lambda: pooler.cpu_time() - at < 0.1, 1, "idle clients cost nothing")
        assert idle[0].value("select 1") == idle[-1].value("select 1") == "1"
    finally:
        for client in idle:
            client.close()
        worker.close()
    assert_baseline(pooler, base)


def test_idle_pooler_costs_nothing(pooler):
    pooler.connect().query("select 1")
    at = pooler.cpu_time()
    waiting.holds_for(lambda: pooler.cpu_time() - at <= 0.03, 1, "no CPU time")
