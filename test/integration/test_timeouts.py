"""Timeouts (protocol.md 15)."""

import time

import pytest

import codes
import fakeserver
import waiting
import wire


def fatal(text):
    """Returns the first fields of an error of the pooler; the limit and a hint follow them."""
    return codes.fatal(text)


def not_before(low, what):
    """Asserts that what() is not true earlier than that many seconds from now. How much later it is
    depends on the machine."""
    at = time.monotonic()
    what()
    spent = time.monotonic() - at
    assert spent >= low - 0.05, spent


def test_client_login_timeout(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()},
                         settings={"client_login_timeout": 0.7, "auth_type": "md5",
                                   "tcp_defer_accept": 0})
    silent, asked, halfway = pooler.raw(), pooler.raw(), pooler.raw()
    halfway.send(wire.ssl_request())
    client = pooler.client()
    asked.send(client.startup_packet())
    asked.recv_kinds("R")
    halfway.recv_exact(1)
    not_before(0.4, lambda: silent.expect_fatal("client_login_timeout"))
    asked.expect_fatal("client_login_timeout")
    halfway.expect_fatal("client_login_timeout")
    pooler.wait_log(r"closing because: client_login_timeout \(age")


def test_trickling_does_not_prolong_a_login(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()},
                         settings={"client_login_timeout": 0.8, "tcp_defer_accept": 0})
    raw = pooler.raw()
    at = time.monotonic()
    for byte in pooler.client().startup_packet():
        if raw.has_data(0.1):
            break
        raw.send(bytes([byte]))
    raw.expect_fatal("client_login_timeout")
    assert time.monotonic() - at > 0.7


def test_client_login_timeout_while_the_server_is_down(make_pooler, fake):
    server = fake(lambda s: s.recv_exact(1 << 20))
    pooler = make_pooler({"db": server.conn()}, settings={"client_login_timeout": 0.7})
    client = pooler.client()
    client.send(client.startup_packet())
    not_before(0.7, lambda: client.expect_fatal("client_login_timeout (server down)"))


def test_client_idle_timeout(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()},
                         settings={"pool_mode": "transaction", "client_idle_timeout": 0.8})
    idle, busy = pooler.connect(), pooler.connect()
    busy.query("begin")
    idle.query("select 1")
    not_before(0.8, lambda: idle.expect_fatal("client_idle_timeout"))
    assert busy.value("select 1") == "1"


def test_client_idle_timeout_of_a_user(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"pool_mode": "transaction"},
                         users={"second_user": "client_idle_timeout=1"})
    other, limited = pooler.connect(), pooler.connect(user="second_user")
    not_before(1, lambda: limited.expect_fatal("client_idle_timeout"))
    assert other.value("select 1") == "1"


def test_query_keeps_a_client_from_being_idle(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()},
                         settings={"pool_mode": "transaction", "client_idle_timeout": 0.6})
    assert pooler.connect().query("select pg_sleep(1.2)").tag == "SELECT 1"


def blocked(make_pooler, pg, database="", users=None, **settings):
    """A pool of one server, which a client holds. Returns (pooler, holder)."""
    pooler = make_pooler({"db": pg.conn(user="trust_user", pool_size=1) + " " + database},
                         settings=dict(settings, pool_mode="transaction"), users=users)
    holder = pooler.connect(user="owner")
    holder.query("begin")
    return pooler, holder


@pytest.mark.parametrize("setting, text", [("query_wait_timeout", "query_wait_timeout"),
                                           ("query_timeout", "query_timeout")])
def test_waiting_too_long(make_pooler, pg, setting, text):
    pooler, holder = blocked(make_pooler, pg, **{setting: 0.8})
    client = pooler.connect()
    client.send(wire.query("select 1"))
    not_before(0.8, lambda: client.expect_fatal(text))
    assert holder.value("select 1") == "1"


def test_wait_timeout_of_user_over_database_over_all(make_pooler, pg):
    pooler, _ = blocked(make_pooler, pg, "query_wait_timeout=1", query_wait_timeout=30,
                        users={"second_user": "query_wait_timeout=0"})
    free, bound = pooler.connect(user="second_user"), pooler.connect()
    for client in (free, bound):
        client.send(wire.query("select 1"))
    not_before(1, lambda: bound.expect_fatal("query_wait_timeout"))
    assert not free.has_data(0.5)


def test_wait_timeout_of_a_user_alone(make_pooler, pg):
    pooler, _ = blocked(make_pooler, pg, query_wait_timeout=0,
                        users={"second_user": "query_wait_timeout=1"})
    client = pooler.connect(user="second_user")
    client.send(wire.query("select 1"))
    not_before(1, lambda: client.expect_fatal("query_wait_timeout"))


NOTICE = wire.fields("N", [("S", "NOTICE"), ("C", "00000"), (
    "M", "No server connection available in postgres backend, client being queued")])


def test_wait_notice(make_pooler, pg):
    pooler, holder = blocked(make_pooler, pg, query_wait_notify=1)
    client = pooler.connect()
    client.send(wire.query("select 1"))
    assert client.recv().raw() == NOTICE
    assert not client.has_data(1.3)
    holder.query("commit")
    assert client.finish().kinds() == "TDCZ"


def test_wait_notice_off(make_pooler, pg):
    pooler, holder = blocked(make_pooler, pg, query_wait_notify=0)
    client = pooler.connect()
    client.send(wire.query("select 1"))
    assert not client.has_data(0.5)
    holder.query("commit")
    assert client.finish().kinds() == "TDCZ"


def test_query_timeout(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"query_timeout": 0.7})
    client = pooler.connect()
    client.query("begin")
    assert not client.has_data(1.2)  # Idle time in a transaction does not count as query time.
    client.send(wire.query("select pg_sleep(20)"))
    at = time.monotonic()
    assert client.recv_until("E")[-1].fields()[:3] == fatal("query timeout")
    assert time.monotonic() - at > 0.6
    client.expect_closed()
    pooler.wait_log(r"S-.*closing because: query timeout \(age")
    pooler.wait_pool(sv_active=0, sv_idle=0)


@pytest.mark.parametrize("key, text, sql", [
    ("query_timeout", "query timeout", "select pg_sleep(20)"),
    ("idle_transaction_timeout", "idle transaction timeout", None),
    ("transaction_timeout", "transaction timeout", None),
])
def test_timeouts_of_the_pool_user(make_pooler, pg, key, text, sql):
    pooler = make_pooler({"db": pg.conn(), "forced": pg.conn(user="second_user")},
                         settings={"pool_mode": "transaction"}, users={"second_user": key + "=1"})
    free, bound = pooler.connect("db"), pooler.connect("forced")
    for client in (free, bound):
        client.query("begin")
    if sql:
        bound.send(wire.query(sql))
    at = time.monotonic()
    assert bound.recv_until("E")[-1].fields()[:3] == fatal(text)
    assert time.monotonic() - at > 0.7
    assert free.value("select 1") == "1"


def test_idle_transaction_timeout(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={
        "pool_mode": "transaction", "idle_transaction_timeout": 1.5})
    outside, inside = pooler.connect(), pooler.connect()
    outside.query("select 1")
    inside.query("begin")
    for _ in range(6):
        assert not inside.has_data(0.3)
        inside.query("select 1")
    not_before(1.5, lambda: inside.expect_fatal("idle transaction timeout"))
    pooler.wait_log(r"S-.*closing because: idle transaction timeout \(age")
    assert outside.value("select 1") == "1"


def test_failed_transaction_is_idle_too(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"idle_transaction_timeout": 0.6})
    client = pooler.connect()
    client.query("begin")
    client.query("nonsense", check=False)
    client.expect_fatal("idle transaction timeout")


def test_transaction_timeout(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={
        "pool_mode": "session", "transaction_timeout": 1})
    client = pooler.connect()
    client.query("select 1")
    assert not client.has_data(1.4)
    client.query("select 1")
    client.query("begin")
    at = time.monotonic()
    told = None
    while told is None or told.kind != "E":
        if not client.has_data(0.2):
            client.send(wire.query("select 1"))
        told = client.recv_until("ZE")[-1]
    assert told.fields()[:3] == fatal("transaction timeout")
    assert time.monotonic() - at > 0.8
    client.expect_closed()
    pooler.wait_log(r"S-.*closing because: transaction timeout \(age")


def test_server_connect_timeout(make_pooler, fake):
    server = fake(lambda s: s.recv_exact(1 << 20))
    pooler = make_pooler({"db": server.conn()}, settings={
        "server_connect_timeout": 1, "server_login_retry": 0.1})
    client = pooler.client()
    client.send(client.startup_packet())
    pooler.wait_log(r"closing because: connect timeout \(age=[1-9]\d*s\)")
    server.wait_sessions(2)


def test_trickling_does_not_prolong_a_server_login(make_pooler, fake):
    def script(session):
        session.recv_startup()
        for byte in fakeserver.welcome():
            session.send(bytes([byte]))
            if session.has_data(0.05):
                break

    pooler = make_pooler({"db": fake(script).conn()}, settings={"server_connect_timeout": 1})
    client = pooler.client()
    client.send(client.startup_packet())
    pooler.wait_log(r"closing because: connect timeout \(age=[1-9]\d*s\)")


def test_disabled_by_zero(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={
        "query_timeout": 0, "query_wait_timeout": 0, "client_idle_timeout": 0,
        "idle_transaction_timeout": 0, "transaction_timeout": 0, "client_login_timeout": 0,
        "server_idle_timeout": 0})
    client = pooler.connect()
    client.query("begin")
    waiting.holds_for(pooler.is_running, 0.8)
    assert client.value("select 1") == "1"


def test_change_while_waiting(make_pooler, pg):
    """A timeout that is switched on also applies to clients that wait already."""
    pooler, _ = blocked(make_pooler, pg)
    client = pooler.connect()
    client.send(wire.query("select 1"))
    pooler.wait_pool(cl_waiting=1)
    pooler.set("query_wait_timeout", "0.5")
    client.expect_fatal("query_wait_timeout")


BEGINNINGS = {
    "parse": wire.parse("", "select 1 " + " " * 20000)[:17000],
    "bind": wire.parse("s", "select 1") + wire.bind("", "s", [b"v" * 20000])[:17000],
    "short bind": wire.bind("", "", [b"value"])[:-3],
}


@pytest.mark.parametrize("setting, text", [
    ("query_timeout", "query timeout"), ("transaction_timeout", "transaction timeout"),
    ("idle_transaction_timeout", "idle transaction timeout")])
@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS)
def test_client_that_stops_within_a_message(make_pooler, pg, setting, text, beginning):
    pooler = make_pooler({"db": pg.conn(user="trust_user", pool_size=1)},
                         settings={"pool_mode": "transaction", setting: 1})
    halfway = pooler.connect()
    halfway.send(beginning)
    pooler.wait_pool(sv_active=1)
    error = halfway.recv_until("E")[-1]
    assert error.fields()[:3] == fatal(text)
    assert error.field("D") == setting + " is 1"
    halfway.expect_closed()
    assert pooler.connect().value("select 1") == "1"


@pytest.mark.parametrize("setting, text", [
    ("query_timeout", "query timeout"), ("transaction_timeout", "transaction timeout"),
    ("query_wait_timeout", "query_wait_timeout")])
def test_server_that_hangs_in_our_sets(make_pooler, fake, setting, text):
    def script(session):
        session.login()
        session.serve([("SET ", b"")])

    pooler = make_pooler({"db": fake(script).conn(pool_size=1)},
                         settings={"pool_mode": "transaction", setting: 1})
    client = pooler.connect(application_name="other")
    client.send(wire.query("select 1"))
    client.expect_fatal(text)
    pooler.wait_pool(sv_active=0)


def test_close_takes_no_server(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(user="trust_user", pool_size=1)},
                         settings={"pool_mode": "transaction", "query_timeout": 1})
    closes, holder = pooler.connect(), pooler.connect()
    holder.query("begin")
    closes.send(wire.close("S", "s"))
    assert closes.recv().kind == "3"
    holder.query("commit")


@pytest.mark.parametrize("place", ["global", "database", "user"])
def test_error_names_the_limit_that_was_hit(make_pooler, pg, place):
    """The error names the setting, its value in force, and the remedy."""
    settings = {"pool_mode": "transaction", "default_pool_size": 1, "query_wait_timeout": 1 if place == "global" else 50}
    more = {"query_wait_timeout": 1} if place == "database" else {}
    pooler = make_pooler({"db": pg.conn(**more)}, settings=settings,
                         users={"second_user": "query_wait_timeout=1"} if place == "user" else {})
    with pooler.connect(user="second_user") as holder, pooler.connect(user="second_user") as waiter:
        holder.query("begin")
        waiter.send(wire.query("select 1"))
        error = waiter.expect_error("query_wait_timeout")
        detail = ('query_wait_timeout is 1; pool_size of database "db" and user "second_user" is 1, and all these '
                  "server connections are in use")
        assert error.field("D") == detail
        assert error.field("H").startswith("Try again later. SHOW BLOCKERS on the console tells who")
    pooler.wait_log("pooler error: query_wait_timeout\n\t%s$" % detail)


@pytest.mark.parametrize("setting, text", [("query_wait_timeout", "query_wait_timeout"),
                                           ("client_login_timeout", "client_login_timeout (server down)")])
def test_error_says_why_the_server_is_down(make_pooler, setting, text):
    pooler = make_pooler({"db": "host=127.0.0.1 port=%d" % waiting.PORTS.take()}, settings={setting: 1})
    with pooler.client() as client, pytest.raises(wire.Refused) as refused:
        client.login()
    error = refused.value.message
    assert error.text() == text
    assert error.field("D") == setting + " is 1; the last connection to a server failed: Connection refused"


def test_error_says_that_the_database_is_paused(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"query_wait_timeout": 1})
    with pooler.connect() as client:
        pooler.admin.query("PAUSE db")
        client.send(wire.query("select 1"))
        error = client.expect_error("query_wait_timeout")
        assert error.field("D") == 'query_wait_timeout is 1; database "db" is paused'
        pooler.admin.query("RESUME db")


def test_error_names_the_limit_on_clients(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(max_db_client_connections=1)}, settings={"max_client_conn": 9})
    with pooler.connect():
        with pooler.client() as refused:
            refused.send(refused.startup_packet())
            error = refused.expect_error("client connections exceeded (max_db_client_connections)")
            assert error.field("D") == "max_db_client_connections is 1"
        pooler.set("max_client_conn", 1)
        with pooler.client() as refused:
            refused.send(refused.startup_packet())
            error = refused.expect_error("no more connections allowed (max_client_conn)")
            assert error.field("D") == "max_client_conn is 1"
