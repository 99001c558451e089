"""Clients and servers that send without end. Each may only use a limited amount of memory and
log."""

import socket
import time

import pytest

import fakeserver
import waiting
import wire

MOST = 40 * 1024 * 1024
TRANSACTION = {"pool_mode": "transaction"}

CLIENT = {
    "close of statements": wire.close("S", "x") * 4000,
    "parse and close": (wire.parse("a", "select 1") + wire.close("S", "a")) * 2000,
    "parse": wire.parse("", "select 1") * 2000,
    "describe": wire.describe("S", "a") * 4000,
    "flush": wire.flush() * 8000,
    "sync": wire.sync() * 8000,
    "query": wire.query("") * 6000,
    "refused query": wire.query("listen x") * 4000,
    "late copy": (wire.copy_data("x") + wire.copy_done()) * 3000,
}


@pytest.fixture
def lean(make_pooler):
    """A pooler whose memory can be measured."""
    def make(databases, **settings):
        pooler = make_pooler(databases, start=False, settings=dict(TRANSACTION, **settings))
        pooler.quarantine_mb = 4
        return pooler.start()
    return make


def pump(sock, data, seconds=1.5):
    """Sends until the other side stops reading."""
    sock.settimeout(0.4)
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            sock.sendall(data)
    except (socket.timeout, OSError):
        pass


@pytest.mark.parametrize("kind", CLIENT)
@pytest.mark.parametrize("first", ["select pg_sleep(60)", "begin"], ids=["behind a query", "unread"])
def test_client_that_sends_without_end(lean, pg, kind, first):
    pooler = lean({"db": pg.conn(pool_size=2)},
                  session_state="refuse" if kind.startswith("refused") else None)
    client, other = pooler.connect(), pooler.connect()
    other.query("select 1")
    client.send(wire.parse("a", "select 1") + wire.sync())
    client.recv_until("Z")
    client.send(wire.query(first))
    if first == "begin":
        client.recv_until("Z")
    before = pooler.rss()
    pump(client.sock, CLIENT[kind])
    assert pooler.rss() - before < MOST
    assert other.value("select 2") == "2"
    client.close()
    pg.do("select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(60)%' "
          "and pid <> pg_backend_pid()")
    pooler.wait_pool(cl_active=1, sv_active=0)


@pytest.mark.parametrize("in_transaction", [False, True])
def test_long_pipeline_without_sync(make_pooler, pg, in_transaction):
    """A client sends more messages before its Sync than the pooler tracks outstanding answers for.
    All of them are answered."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    client = pooler.connect()
    if in_transaction:
        client.query("begin")
    count = 60000
    data = (wire.parse("", "select 1") + wire.close("P", "")) * (count // 2) + wire.sync()
    client.sock.settimeout(60)
    client.sock.sendall(data)
    seen = client.recv_until("Z")
    assert "".join(m.kind for m in seen) == "13" * (count // 2) + "Z"
    assert client.value("select 5") == "5"


def test_syncs_amid_copy_data(lean, pg):
    """The server skips these Syncs, so none is answered until the COPY has ended."""
    pg.do("create table if not exists flooded (n int)", "grant all on flooded to public")
    pooler = lean({"db": pg.conn(pool_size=1)})
    client = pooler.connect()
    client.send(wire.query("copy flooded from stdin"))
    client.recv_until("G")
    before = pooler.rss()
    pump(client.sock, wire.sync() * 8000, 2)
    assert pooler.rss() - before < MOST
    client.close()
    assert pooler.connect().value("select 1") == "1"
    pg.do("drop table flooded")


def asks(*requests):
    def script(session):
        session.recv_startup()
        while True:
            session.send(b"".join(requests) * 1000)
    return script


ENDLESS_LOGIN = {
    "md5": asks(wire.auth(5, b"salt")),
    "cleartext": asks(wire.auth(3)),
    "parameters": asks(wire.auth(0), wire.parameter_status("some", "x" * 1000)),
    "notices": asks(wire.fields("N", [("S", "NOTICE"), ("M", "x" * 1000)])),
    "keys": asks(wire.auth(0), wire.backend_key(b"12345678")),
}


@pytest.mark.parametrize("kind", ENDLESS_LOGIN)
def test_server_whose_login_never_ends(lean, pg, fake, kind):
    bad = fake(ENDLESS_LOGIN[kind])
    pooler = lean({"db": bad.conn(user="u", password="pw"), "good": pg.conn()}, server_connect_timeout=60)
    good = pooler.connect("good")
    good.query("select 1")
    before = pooler.rss()
    client = pooler.client()
    client.send(client.startup_packet())
    waiting.holds_for(lambda: good.value("select 2") == "2" and pooler.rss() - before < MOST, 1.5,
                      "others are served, in little memory", pause=0)
    client.close()


def test_notifications_of_a_resting_server_fill_no_log(make_pooler, fake):
    """A client leaves a LISTEN behind on a server connection, and many clients send NOTIFY. (When
    the flood ends within a message, the pooler closes that connection.)"""
    notification = wire.message("A", b"\0\0\0\1channel\0payload\0")

    def script(session):
        session.login()
        for count in (1, 5000):
            session.recv()
            session.send(fakeserver.plain_answer("select 1"))
            session.send(notification * count)
        session.serve()

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings=TRANSACTION)
    client = pooler.connect()
    client.query("select 1")
    pooler.wait_log("got packet 'A' from server when not linked")
    client.query("select 1")
    waiting.holds_for(lambda: 1 <= pooler.log().count(
        "got packet 'A' from server when not linked") <= 4, 0.3, "few lines")
    assert client.value("select 1") == "fake"