"""Cancel requests within one process (protocol.md 13)."""

import os
import socket
import struct
import threading

import pytest

import fakeserver
import waiting
import wire

KEY = b"\0\0\x30\x39\x12\x34\x56\x78"


def send_cancel(pooler, key, unix=False):
    raw = pooler.raw(unix)
    raw.send(wire.cancel_request(key))
    return raw


def test_running_query(pooler, pg):
    client = pooler.connect()
    client.send(wire.query("select pg_sleep(30)"))
    waiting.wait_for(lambda: pg.backends("query like '%sleep(30)%' and state='active'"), "runs")
    client.cancel()
    result = client.finish()
    assert result.errors[0].field("C") == "57014"
    assert result.status == "I"
    assert client.value("select 1") == "1"
    pooler.wait_log(r"closing because: successfully sent cancel request \(age")


def test_the_server_gets_its_own_key_and_nothing_else(make_pooler, fake):
    got = []

    def script(session):
        code = session.recv_startup()
        if code == wire.CANCEL_REQUEST:
            got.append(session.startup_body)
            answer.set()
            return
        session.send(fakeserver.welcome(KEY))
        session.serve([("slow", lambda s, q: (answer.wait(10), fakeserver.plain_answer("select 1"))[1])])

    answer = threading.Event()
    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings={"pool_mode": "transaction"})
    client = pooler.connect()
    assert client.key != KEY
    client.send(wire.query("slow"))
    pooler.wait_pool(sv_active=1)
    client.cancel()
    assert got == [KEY]
    client.finish()
    assert len(server.sessions) == 2


def test_queued_query(make_pooler, pg):
    """A cancel request for a client that waits for a server is answered at once, and the client
    stays connected."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={"pool_mode": "transaction"})
    holder, waiter, behind = (pooler.connect() for _ in range(3))
    holder.query("begin")
    waiter.send(wire.query("select 1"))
    pooler.wait_pool(cl_waiting=1)
    behind.send(wire.query("select 2"))
    pooler.wait_pool(cl_waiting=2)
    waiter.cancel()
    result = waiter.finish()
    assert result.kinds() == "EZ" and result.status == "I"
    assert (result.errors[0].field("S"), result.errors[0].field("C")) == ("ERROR", "57014")
    pooler.wait_pool(cl_waiting=1)
    assert holder.value("select 3") == "3"
    holder.query("commit")
    assert behind.finish().value == "2"
    assert waiter.value("select 4") == "4"


def test_queued_pipeline(make_pooler, pg):
    """One error and one ReadyForQuery answer everything up to Sync."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={"pool_mode": "transaction"})
    holder, waiter = pooler.connect(), pooler.connect()
    holder.query("begin")
    waiter.send(wire.parse("", "select 1"), wire.bind(), wire.execute(), wire.sync())
    pooler.wait_pool(cl_waiting=1)
    waiter.cancel()
    result = waiter.finish()
    assert result.kinds() == "EZ" and result.errors[0].field("C") == "57014"
    holder.query("commit")
    assert waiter.value("select 5") == "5"


def test_big_queued_query(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={"pool_mode": "transaction"})
    holder, waiter = pooler.connect(), pooler.connect()
    holder.query("begin")
    big = threading.Thread(target=lambda: waiter.send(wire.query("select '%s'" % ("x" * 3000000))))
    big.start()
    pooler.wait_pool(cl_waiting=1)
    waiter.cancel()
    assert waiter.finish().errors[0].field("C") == "57014"
    big.join(10)
    holder.query("commit")
    assert waiter.value("select 6") == "6"


@pytest.mark.parametrize("comes", ["with it", "later"])
@pytest.mark.parametrize("behind", [b"\0" * 9, b"\xff" * 9, wire.terminate()])
def test_what_comes_behind_a_cancel_is_ignored(make_pooler, fake, behind, comes):
    """As PostgreSQL does. go-pg sends a Terminate behind it."""
    def script(session):
        if session.recv_startup() == wire.CANCEL_REQUEST:
            arrived.set()
            go_on.wait(10)
            return
        session.send(fakeserver.welcome(KEY))
        session.serve([("slow", lambda s, q: (go_on.wait(10), fakeserver.plain_answer("select 1"))[1])])

    arrived, go_on = threading.Event(), threading.Event()
    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings={"pool_mode": "transaction"})
    client = pooler.connect()
    client.send(wire.query("slow"))
    pooler.wait_pool(sv_active=1)
    raw = pooler.raw()
    if comes == "later":
        raw.send(wire.cancel_request(client.key))
        assert arrived.wait(10)
        raw.send(behind)
    else:
        raw.send(wire.cancel_request(client.key) + behind)
        assert arrived.wait(10)
    go_on.set()
    raw.expect_closed()
    assert not client.finish().errors


def test_idle_client(pooler):
    client = pooler.connect()
    client.query("select 1")
    client.cancel()
    pooler.wait_log(r"closing because: cancel request for idle client \(age")
    assert client.value("select 1") == "1"


def test_idle_in_transaction_is_harmless(pooler):
    client = pooler.connect()
    client.query("begin")
    client.cancel()
    assert client.value("select 1") == "1"
    assert client.query("commit").tag == "COMMIT"


def test_unknown_key(pooler):
    client = pooler.connect()
    send_cancel(pooler, os.urandom(8)).expect_closed()
    pooler.wait_log(r"closing because: failed cancel request \(age")
    assert client.value("select 1") == "1"


@pytest.mark.parametrize("key", [b"", b"abc", b"a" * 4, b"a" * 7, b"a" * 9, b"a" * 300])
def test_wrong_sizes(pooler, key):
    send_cancel(pooler, key).expect_closed()
    assert pooler.connect().value("select 1") == "1"


def test_half_a_cancel(pooler):
    raw = pooler.raw()
    raw.send(wire.cancel_request(b"a" * 8)[:11])
    raw.close()
    assert pooler.connect().value("select 1") == "1"


def test_over_the_unix_socket(pooler, pg):
    client = pooler.connect(unix=True)
    client.send(wire.query("select pg_sleep(30)"))
    waiting.wait_for(lambda: pg.backends("query like '%sleep(30)%' and state='active'"), "runs")
    client.cancel()
    assert client.finish().errors[0].field("C") == "57014"


def test_only_the_right_client(pooler, pg):
    clients = [pooler.connect() for _ in range(4)]
    for client in clients:
        client.send(wire.query("select pg_sleep(1.5)"))
    waiting.wait_for(lambda: pg.backends("query like '%sleep(1.5)%' and state='active'") == 4, "run")
    clients[2].cancel()
    ends = [c.finish() for c in clients]
    assert [bool(e.errors) for e in ends] == [False, False, True, False]


def test_beyond_the_pool_size(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1, max_db_connections=1)},
                         settings={"pool_mode": "transaction"})
    client = pooler.connect()
    client.send(wire.query("select pg_sleep(30)"))
    waiting.wait_for(lambda: pg.backends("query like '%sleep(30)%' and state='active'"), "runs")
    client.cancel()
    assert client.finish().errors[0].field("C") == "57014"


def test_keys(pooler):
    clients = [pooler.connect() for _ in range(30)]
    keys = {c.key for c in clients}
    assert len(keys) == 30
    assert all(len(k) == 8 and k[0] < 0x80 for k in keys)


def test_cancel_wait_timeout(make_pooler, fake):
    """A cancel request that cannot be delivered is dropped without a message."""
    def script(session):
        session.recv_startup()
        session.send(fakeserver.welcome(KEY))
        server.listener.close()
        session.serve([("slow", lambda s, q: None)])

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings={
        "pool_mode": "transaction", "cancel_wait_timeout": 0.8, "server_login_retry": 30})
    client = pooler.connect()
    client.send(wire.query("slow"))
    pooler.wait_pool(sv_active=1)
    raw = send_cancel(pooler, client.key)
    raw.expect_closed()
    pooler.wait_pool(cl_waiting_cancel_req=0, cl_active_cancel_req=0)


def test_reserve_leaves_room_for_cancels(make_pooler, pg):
    """With the reserve pool a pool may have up to twice its size in servers, and a query can still
    be cancelled."""
    pooler = make_pooler({"db": pg.conn(pool_size=1, reserve_pool_size=2)}, settings={
        "pool_mode": "transaction", "reserve_pool_timeout": "0.01", "cancel_wait_timeout": "0"})
    clients = [pooler.connect() for _ in range(3)]
    for client in clients:
        client.send(wire.query("select pg_sleep(62)"))
    waiting.wait_for(lambda: pg.backends("query like '%sleep(62)%' and state='active'") == 3, "all run")
    raws = [send_cancel(pooler, client.key) for client in clients]
    for client in clients:
        assert client.finish().errors[0].field("C") == "57014"
    for raw in raws:
        raw.expect_closed()


class Deaf:
    """A listening socket with a full queue. A connect to it hangs."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.port = self.listener.getsockname()[1]
        self.others = []

    def accept(self):
        return fakeserver.Session(self.listener.accept()[0], 0)

    def fill(self):
        for _ in range(4):
            self.others.append(socket.socket())
            self.others[-1].setblocking(False)
            self.others[-1].connect_ex(("127.0.0.1", self.port))

    def close(self):
        for one in (self.listener, *self.others):
            one.close()


def test_cancel_that_cannot_connect_has_a_clock(make_pooler):
    """Without cancel_wait_timeout, server_connect_timeout ends a connect that hangs."""
    deaf = Deaf()
    pooler = make_pooler({"db": "host=127.0.0.1 port=%d" % deaf.port}, settings={
        "pool_mode": "transaction", "cancel_wait_timeout": "0", "server_connect_timeout": "1"})
    client = pooler.client()
    login = threading.Thread(target=client.login)
    login.start()
    server = deaf.accept()
    server.login()
    login.join(30)
    client.send(wire.query("slow"))
    assert server.recv().kind == "Q"
    deaf.fill()
    raw = send_cancel(pooler, client.key)
    raw.expect_closed()
    pooler.wait_log(r"closing because: connect timeout \(age")
    server.send(fakeserver.plain_answer("select 1"))
    assert client.finish().value == "fake"
    server.close()
    deaf.close()


def test_late_cancel_spares_the_next_client(make_pooler, fake):
    """While a cancel request for a server is being delivered, no other client gets that server."""
    release = threading.Event()
    running = threading.Event()

    def script(session):
        if session.recv_startup() == wire.CANCEL_REQUEST:
            release.wait(10)
            return
        session.send(fakeserver.welcome(KEY))

        def slow(s, q):
            running.wait(10)
            return fakeserver.plain_answer("select 1")

        session.serve([("slow", slow)])

    server = fake(script)
    pooler = make_pooler({"db": server.conn(pool_size=1)}, settings={"pool_mode": "transaction"})
    victim, other = pooler.connect(), pooler.connect()
    victim.send(wire.query("slow"))
    pooler.wait_pool(sv_active=1)
    raw = send_cancel(pooler, victim.key)
    waiting.wait_for(server.cancels, "cancel arrives")
    running.set()
    victim.finish()
    other.send(wire.query("select 2"))
    pooler.wait_pool(sv_being_canceled=1)
    assert not other.has_data(0.3)
    assert pooler.show_one("SERVERS", state="being_canceled")
    release.set()
    raw.expect_closed()
    assert other.finish().value == "fake"


def test_storm(make_pooler, pg):
    """A cancel request for a finished query never hits the query of another client."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={
        "pool_mode": "transaction", "max_client_conn": 500})
    noisy, calm = pooler.connect(), pooler.connect()
    stop = threading.Event()

    def storm():
        while not stop.is_set():
            raw = send_cancel(pooler, noisy.key)
            raw.expect_closed()
            raw.close()

    thread = threading.Thread(target=storm)
    thread.start()
    try:
        for _ in range(300):
            noisy.send(wire.query("select 1"))
            noisy.finish()
            assert calm.query("select pg_sleep(0.002)").tag == "SELECT 1"
    finally:
        stop.set()
        thread.join(10)


def test_console_has_a_key_too(pooler):
    assert len(pooler.admin.key) == 8
    send_cancel(pooler, pooler.admin.key).expect_closed()
    assert pooler.admin.value("SHOW VERSION")


def test_cancel_in_shutdown(pooler, pg):
    client = pooler.connect(unix=True)
    client.send(wire.query("select pg_sleep(30)"))
    waiting.wait_for(lambda: pg.backends("query like '%sleep(30)%' and state='active'"), "runs")
    pooler.signal("TERM")
    pooler.wait_log("got SIGTERM")
    client.cancel()
    assert client.finish().errors[0].field("C") == "57014"
    client.close()
    assert pooler.wait_exit() == 0


def test_key_guessing_is_silent(pooler):
    client = pooler.connect()
    for low in range(50):
        raw = send_cancel(pooler, client.key[:4] + struct.pack("!I", low))
        raw.expect_closed()
    assert client.value("select 1") == "1"
