"""Clients and servers that send without end. Each may only use a limited amount of memory and
log."""

import socket
import struct
import time

import pytest

import certs
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


@pytest.fixture
def pair():
    folder = waiting.scratch("certs")
    yield certs.Authority(folder).issue("server", "localhost", ["localhost", "127.0.0.1"])
    waiting.discard(folder)


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

# what strangers leave behind

STRANGERS = 800
HALVES = 300
KEPT_OF_EACH = 24 * 1024  # for a login that has not been proven; without AddressSanitizer it is 5


def half_login(pooler, database, nonce):
    """A stranger who has sent the first message of a SCRAM login and stops there."""
    client = pooler.client(database, "admin_user")
    client.send(client.startup_packet())
    client.recv()
    client.send(wire.sasl_initial("SCRAM-SHA-256", "n,,n=,r=" + nonce))
    return client


@pytest.mark.parametrize("database", ["db", "pgbouncer"])
@pytest.mark.parametrize("nonce", [900, 60000])
def test_half_logins_cost_little(lean, pg, database, nonce):
    """A message of SASL may have 1,024 bytes, as in PostgreSQL. Longer ones are refused, and nothing of
    them is kept. What was kept of those who have left is used again."""
    pooler = lean({"db": pg.conn()}, auth_type="scram-sha-256", max_client_conn=2000,
                  client_login_timeout=600)
    if pooler.is_for_threads():
        pytest.skip("memory cannot be measured with ThreadSanitizer")
    half_login(pooler, database, "warm").recv()
    before = pooler.rss()
    for _ in range(3):
        held = [half_login(pooler, database, "a" * nonce) for _ in range(STRANGERS)]
        for client in held:
            if nonce < 1024:
                assert client.recv().kind == "R"
            else:
                client.expect_fatal("SASL authentication failed")
        assert pooler.rss() - before < STRANGERS * KEPT_OF_EACH
        for client in held:
            client.close()
        waiting.wait_for(lambda: int(pooler.show_one("LISTS", list="login_clients")["items"]) <= 1)


@pytest.mark.parametrize("first", [5, 1000, 5000])
def test_a_long_message_of_a_login_is_not_kept(lean, pg, first):
    """Nor is the part of one that is too long kept until the rest comes."""
    pooler = lean({"db": pg.conn()}, auth_type="scram-sha-256", client_login_timeout=600)
    client = half_login(pooler, "db", "a" * 100)
    client.recv()
    whole = wire.message("p", b"c=biws,r=" + b"a" * 60000)
    client.send(whole[:first])
    waiting.wait_read(client.sock)
    client.send(whole[first:])
    client.expect_fatal("SASL authentication failed")
    pooler.wait_log("ERROR C-.* a SASL message of %d bytes is too long" % (len(whole) - 1))


def startup_part(have):
    """Sends the beginning of a startup packet of 65,535 bytes, the longest that is read."""
    def begin(client):
        client.send((struct.pack("!ii", 65535, wire.PROTOCOL_3_0) + b"options\0" + b"-c datestyle=iso " * 4000)[:have])
    return begin


def password_part(have):
    def begin(client):
        client.send(client.startup_packet())
        client.recv()
        client.send((b"p" + struct.pack("!i", 60000) + b"x" * 60000)[:have])
    return begin


def sasl_part(client):
    client.send(client.startup_packet())
    client.recv()
    client.send(wire.sasl_initial("SCRAM-SHA-256", "n,,n=,r=" + "a" * 900)[:600])


def final_part(client):
    client.send(client.startup_packet())
    client.recv()
    client.send(wire.sasl_initial("SCRAM-SHA-256", "n,,n=,r=abc"))
    client.recv()
    client.send(wire.message("p", b"c=biws,r=" + b"a" * 900)[:600])


def hello_part(client):
    client.send(wire.ssl_request())
    assert client.sock.recv(1) == b"S"
    client.send(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + b"\0" * 15000)


# What is sent, and how much may be kept of each. Most of it is OpenSSL's with TLS.
HALF = {
    "nothing": (None, lambda client: None, 8),
    "startup packet": (None, startup_part(3000), 16),
    "long startup packet": (None, startup_part(60000), 44),
    "password": ("plain", password_part(3000), 16),
    "long password": ("plain", password_part(55000), 44),
    "password for PAM": ("pam", password_part(55000), 44),
    "SASL initial": ("scram-sha-256", sasl_part, 24),
    "SASL response": ("scram-sha-256", final_part, 24),
    "TLS handshake": (None, hello_part, 120),
}


def is_all_read(port):
    """Has the process that listens at this port read what all clients have sent?"""
    here = ":%04X " % port
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table if here in line]
    return not any(int(row[4].split(":")[1], 16) for row in rows if row[3] == "01" and row[1].endswith(here[:-1]))


@pytest.mark.parametrize("kind", HALF)
def test_half_logins_of_every_kind_cost_little(lean, pg, pair, kind):
    """Long startup packets and passwords are read, but for a few clients of each worker at a time: the others get
    an error."""
    method, begin, most = HALF[kind]
    # Where the kernel's queue of connections is full, the pooler is not told of their end for a while.
    pooler = lean({"db": pg.conn()}, workers=1, listen_backlog=2 * HALVES, auth_type=method, max_client_conn=2000, client_login_timeout=600,
                  client_tls_sslmode="prefer", client_tls_cert_file=pair.cert_file, client_tls_key_file=pair.key_file)
    if pooler.is_for_threads():
        pytest.skip("memory cannot be measured with ThreadSanitizer")
    opened = pooler.fds()
    with pooler.client("db", "admin_user") as warm:
        begin(warm)
    waiting.wait_for(lambda: pooler.fds() <= opened, "it is closed")
    before = pooler.rss()
    for _ in range(3):
        held = []
        for _ in range(HALVES):
            held.append(pooler.client("db", "admin_user"))
            begin(held[-1])
        waiting.wait_for(lambda: is_all_read(pooler.port), "what was sent is read")
        assert pooler.rss() - before < HALVES * most * 1024
        refused = 0
        for client in held[::-1]:
            if kind.startswith("long") and client.has_data(0.001):
                client.expect_fatal("too many incomplete logins with long messages", "53300")
                refused += 1
            client.close()
        assert refused >= HALVES - 80 if kind.startswith("long") else refused == 0
        waiting.wait_for(lambda: pooler.fds() <= opened, "they are closed")


@pytest.mark.parametrize("unix", [False, True])
def test_half_logins_at_the_console_give_way(make_pooler, pg, unix):
    """Beyond max_client_conn the console has room for some logins that have not been proven; the
    oldest of them give way to new ones, and so the administrator gets in."""
    pooler = make_pooler({"db": pg.conn()}, settings={
        "auth_type": "scram-sha-256", "max_client_conn": 20, "client_login_timeout": 600})
    held = [half_login(pooler, "pgbouncer", "abc") for _ in range(STRANGERS)]
    with pooler.client("pgbouncer", "admin_user", unix=unix).login() as console:
        lists = {row["list"]: row["items"] for row in console.query("SHOW LISTS").dicts()}
    assert int(lists["login_clients"]) <= 120
    ended = [client for client in held if is_refused(client)]
    assert len(ended) >= STRANGERS - 120
    assert ended == held[:len(ended)]


def is_refused(client):
    assert client.recv().kind == "R"
    if not client.has_data(0.001):
        return False
    client.expect_fatal("no more connections allowed (max_client_conn)")
    return True
