"""Logins to good and faulty servers (protocol.md 8, 9.3, 10.4)."""

import asyncio
import os
import re
import signal
import struct
import threading
import time

import asyncpg
import pytest

import codes
import fakeserver
import postgres
import waiting
import wire
from test_wire_faults import protocol_errors

ADMIN = {"admin_user": "admin secret 91c"}


def secret_of(user, kind):
    plain = postgres.USERS[user][0]
    return {"plain": plain, "md5": wire.md5_hash(user, plain),
            "scram": wire.ScramKeys(plain).secret()}[kind]


# the server's authentication method, and the pooler's secret


@pytest.mark.parametrize("user, kind", [
    ("plain_user", "plain"), ("md5_user", "plain"), ("md5_user", "md5"), ("scram_user", "plain"),
    ("trust_user", None)])
@pytest.mark.parametrize("where", ["user list", "connection string"])
def test_forced_user(make_pooler, pg, user, kind, where):
    secret = secret_of(user, kind) if kind else ""
    more = {"password": secret} if secret and where == "connection string" else {}
    known = dict(ADMIN, client="x")
    if where == "user list":
        known[user] = secret
    pooler = make_pooler({"db": pg.conn(user=user, **more)}, userlist=known)
    with pooler.connect(user="client") as client:
        assert client.value("select session_user") == user
        assert pooler.pool("db", user)["cl_active"] == 1


@pytest.mark.parametrize("user, kind, text", [
    ("scram_user", "md5", "server login failed: wrong password type"),
    ("scram_user", "scram", "server login failed: wrong password type"),
    ("md5_user", "scram", "server login failed: wrong password type"),
    ("plain_user", "md5", "server login failed: wrong password type"),
    ("plain_user", "scram", "server login failed: wrong password type"),
])
def test_secrets_that_do_not_fit(make_pooler, pg, user, kind, text):
    pooler = make_pooler({"db": pg.conn(user=user)},
                         userlist=dict(ADMIN, client="x", **{user: secret_of(user, kind)}))
    client = pooler.client(user="client")
    with pytest.raises(wire.Refused) as refused:
        client.login()
    assert refused.value.message.raw() == wire.fields("E", codes.fatal(text))
    client.expect_closed()


ASKED = {"cleartext": wire.auth(3), "md5": wire.auth(5, b"salt"),
         "scram": wire.auth(10, b"SCRAM-SHA-256\0\0")}
ANSWERED = {("plain", "cleartext"), ("plain", "md5"), ("plain", "scram"), ("md5", "md5")}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("kind", ["plain", "md5", "scram", "broken md5", "broken scram"])
@pytest.mark.parametrize("where", ["user list", "connection string"])
def test_hostile_server_gets_no_stored_secret(make_pooler, fake, asked, kind, where):
    """The pooler sends only a plain password in clear text. A hash or a verifier would let the
    server log in as the pooler."""
    answers = []

    def script(session):
        session.recv_startup()
        session.send(ASKED[asked])
        answers.append(session.recv().body)
        session.send(wire.fields("E", [("S", "FATAL"), ("C", "28P01"), ("M", "seen")]))

    password = "plain-secret-5e"
    secret = {"plain": password, "md5": wire.md5_hash("u", password),
              "scram": wire.ScramKeys(password).secret(), "broken md5": "md5" + "A" * 32,
              "broken scram": "SCRAM-SHA-256$1:x"}[kind]
    more = {"password": secret} if where == "connection string" else {}
    pooler = make_pooler({"db": fake(script).conn(user="u", **more)},
                         userlist=dict(ADMIN, client="x", **({} if more else {"u": secret})))
    told = pooler.refusal(user="client")
    if (kind, asked) in ANSWERED:
        assert told == "seen"
        assert answers[0] == password.encode() + b"\0" or asked != "cleartext"
    else:
        assert told == "server login failed: wrong password type"
        assert answers == []
    assert not any(secret.encode() in answer for answer in answers if kind != "plain")


def test_scram_keys_pass_through(make_pooler, pg):
    pooler = make_pooler(
        {"db": pg.conn()}, settings={"auth_type": "scram-sha-256", "pool_mode": "transaction"},
        userlist=dict(ADMIN, scram_user=pg.secret_of("scram_user")))
    secret = postgres.USERS["scram_user"][0]
    clients = [pooler.connect(user="scram_user", secret=secret) for _ in range(3)]
    for client in clients:
        client.query("begin")
    assert len({c.value("select pg_backend_pid()") for c in clients}) == 3
    assert clients[0].value("select session_user") == "scram_user"


def test_scram_keys_of_another_salt_fail(make_pooler, pg):
    """The pooler's SCRAM secret has another salt than the server's, so the server refuses it."""
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "scram-sha-256"},
                         userlist=dict(ADMIN, scram_user=secret_of("scram_user", "scram")))
    assert pooler.refusal(user="scram_user", secret=postgres.USERS["scram_user"][0]) == (
        'password authentication failed for user "scram_user"')


def test_own_user_with_own_password(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "md5"})
    for user in ("plain_user", "md5_user", "scram_user"):
        with pooler.connect(user=user) as client:
            assert client.value("select session_user") == user


def test_unix_socket_to_the_server(make_pooler, pg):
    pooler = make_pooler({"db": pg.unix_conn(), "default": "dbname=postgres port=%d" % pg.port},
                         start=False)
    with pooler.start().connect() as client:
        assert client.value("select inet_client_addr() is null") == "t"
        assert pooler.show_one("SERVERS")["addr"] == "unix"


@pytest.mark.parametrize("method", ["plain", "md5", "scram"])
def test_fake_server_methods(make_pooler, fake, method):
    secret = "s3cret of the fake"

    def script(session):
        session.recv_startup()
        if method == "plain":
            session.send(wire.auth(3))
            assert session.recv().raw() == wire.password(secret)
        elif method == "md5":
            session.send(wire.auth(5, b"\x01\0\xff\x7f"))
            assert session.recv().raw() == wire.password(
                wire.md5_answer("u", secret, b"\x01\0\xff\x7f"))
        else:
            scram_login(session, secret)
        session.send(fakeserver.welcome())
        session.serve()

    server = fake(script)
    pooler = make_pooler({"db": server.conn(user="u", password="'%s'" % secret)})
    with pooler.connect() as client:
        assert client.value("select 1") == "fake"


def scram_login(session, secret, mechanisms=b"SCRAM-SHA-256\0\0", spoil_first=None, spoil_final=None,
                iterations=4096):
    scram = wire.ScramServer(wire.ScramKeys(secret, iterations=iterations))
    session.send(wire.auth(10, mechanisms))
    initial = session.recv().body
    assert initial.startswith(b"SCRAM-SHA-256\0"), initial
    client_first = initial[18:].decode()
    assert struct.unpack("!i", initial[14:18])[0] == len(client_first)
    assert re.fullmatch(r"n,,n=,r=[\x21-\x2b\x2d-\x7e]{24}", client_first), client_first
    first = scram.first(client_first)
    session.send(wire.auth(11, (spoil_first(first) if spoil_first else first).encode()))
    assert scram.is_proven(session.recv().body.decode())
    final = scram.final()
    session.send(wire.auth(12, (spoil_final(final) if spoil_final else final).encode()))


# the startup packet to the server


def test_startup_packet(make_pooler, fake):
    server = fake()
    pooler = make_pooler({"db": server.conn("there", application_name="app", timezone="'Asia/Tokyo'",
                                            datestyle="German", client_encoding="LATIN1"),
                          "bare": server.conn("bare")})
    with pooler.connect(application_name="mine", client_encoding="UTF8") as client:
        client.query("select 1")
    assert server.sessions[0].startup_params() == [
        ("database", "there"), ("client_encoding", "LATIN1"), ("datestyle", "German"),
        ("timezone", "Asia/Tokyo"), ("application_name", "app"), ("user", "trust_user")]
    pooler.connect("bare").close()
    assert server.sessions[1].startup_params() == [("database", "bare"), ("user", "trust_user")]


def test_connect_query(make_pooler, fake):
    server = fake()
    pooler = make_pooler({"db": server.conn(connect_query="'select ''first'''")},
                         settings={"pool_mode": "transaction"})
    client = pooler.connect()
    client.query("select 2")
    client.query("select 3")
    assert server.sessions[0].queries() == ["select 'first'", "select 2", "select 3"]


def test_connect_query_that_fails(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(connect_query="select nonsense"),
                          "'left open'": pg.conn(connect_query="set my.x = 'seen'")},
                         settings={"pool_mode": "transaction"})
    assert pooler.connect().value("select 1") == "1"
    pooler.wait_log(r'ERROR .*S: error while executing exec_on_query: ERROR: '
                    r'column "nonsense" does not exist$')
    assert pooler.connect("left open").value("show my.x") == "seen"


def test_parameters_set_by_connect_query(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(connect_query="set datestyle = 'German'")})
    client = pooler.connect()
    assert dict(client.parameters())["DateStyle"] == "German, DMY"
    assert client.value("show datestyle") == "German, DMY"


# failed logins


@pytest.mark.parametrize("conn, code, text", [
    ({"dbname": "absent"}, "3D000", 'database "absent" does not exist'),
    ({"user": "no_role", "password": "x"}, "28P01",
     'password authentication failed for user "no_role"'),
    ({"user": "scram_user", "password": "wrong"}, "28P01",
     'password authentication failed for user "scram_user"'),
])
def test_server_errors_are_forwarded(make_pooler, pg, conn, code, text):
    pooler = make_pooler({"db": pg.conn(**conn)})
    client = pooler.client()
    with pytest.raises(wire.Refused) as refused:
        client.login()
    assert (refused.value.severity, refused.value.code) == ("FATAL", code)
    if text:
        assert refused.value.message.raw() == wire.error("FATAL", code, text)
    pooler.wait_log(r" WARNING .*server login failed: FATAL ")


def failing(*replies):
    """Returns a script that sends the nth reply to the nth connection; None is a good login."""
    def script(session):
        reply = replies[min(session.number, len(replies) - 1)]
        if reply is None:
            fakeserver.polite(session)
        else:
            session.recv_startup()
            session.send(reply)
    return script


TROUBLE = wire.error("FATAL", "53300", "too many clients already")


def test_all_waiting_clients_are_told(make_pooler, fake):
    asked = threading.Event()
    server = fake(lambda session: (session.recv_startup(), asked.wait(15), session.send(TROUBLE)))
    pooler = make_pooler({"db": server.conn()})
    clients = [pooler.client() for _ in range(5)]
    for client in clients:
        client.send(client.startup_packet())
    waiting.wait_for(lambda: pooler.log().count("login attempt: db=db") == 5, "all clients wait")
    asked.set()
    for client in clients:
        client.expect_fatal("too many clients already", "53300")


@pytest.mark.one_worker  # Each worker tries by itself.
def test_fast_failure_of_clients_that_are_in(make_pooler, fake):
    server = fake(failing(None, TROUBLE))
    pooler = make_pooler({"db": server.conn()}, settings={"pool_mode": "transaction"})
    first, second = pooler.connect(), pooler.connect()
    pooler.wait_pool(sv_idle=1)
    server.sessions[0].sock.shutdown(2)
    pooler.wait_pool(sv_idle=0)
    first.send(wire.query("select 1"))
    first.expect_fatal("too many clients already", "53300")
    second.send(wire.query("select 1"))
    second.expect_fatal("server login has been failing, cached error: too many clients already "
                        "(server_login_retry)")
    assert len(server.sessions) == 2


@pytest.mark.one_worker  # Each worker tries by itself.
def test_login_retry_spacing(make_pooler, fake):
    server = fake(failing(TROUBLE))
    pooler = make_pooler({"db": server.conn()}, settings={"server_login_retry": 0.7})
    started = time.monotonic()
    for _ in range(4):
        assert pooler.refusal() == "too many clients already"
    assert time.monotonic() - started > 3 * 0.7 - 0.1
    assert len(server.sessions) == 4


@pytest.mark.parametrize("where", [
    "host=/nonexistent port=1", "host=@nonexistent port=1", "host=/%s port=1" % ("x" * 200),
    "host=255.255.255.255 port=1", "host=::ffff:255.255.255.255 port=1",
    "host=no-such-host.invalid port=1", "host=%s.invalid port=1" % ("x" * 70)])
def test_connect_that_fails_at_once_without_pause(make_pooler, fake, where):
    """The pooler retries without a pause and keeps working: the console answers, memory does not
    grow, and the waiting client is served when the server is up."""
    server = fake()
    pooler = make_pooler({"db": where}, settings={
        "pool_mode": "transaction", "server_login_retry": 0, "dns_nxdomain_ttl": 60})
    client = pooler.client()
    client.send(client.startup_packet())
    waiting.wait_for(lambda: len(re.findall("connect failed|lookup failed", pooler.log())) > 5,
                     "several attempts")
    assert pooler.pool()["cl_waiting"] == 1
    pooler.databases["db"] = server.conn()
    pooler.write_files()
    pooler.reload()
    client.authenticate()
    assert client.value("select 1") == "fake"


@pytest.mark.one_worker  # Each worker begins at another host.
def test_host_list_begins_with_its_first(make_pooler, fake):
    first = fake(host="127.0.0.3")
    second = fake(host="127.0.0.4", port=first.port)
    pooler = make_pooler({"db": "host=127.0.0.3,127.0.0.4 port=%d" % first.port},
                         settings={"pool_mode": "session"})
    pooler.connect()
    assert len(first.of_pools()) == 1
    assert not second.of_pools()


@pytest.mark.one_worker  # Each worker balances its own connections.
def test_hosts_with_ports_and_weights(make_pooler, fake):
    servers = [fake(host="127.0.0.3"), fake(host="127.0.0.4"), fake(host="127.0.0.5")]
    pooler = make_pooler({"db": "host=%s port=%s weight=3,1,1" % (
        ",".join(s.host for s in servers), ",".join(str(s.port) for s in servers))},
        settings={"pool_mode": "session"})
    clients = [pooler.connect() for _ in range(10)]
    for client in clients:
        client.query("select 1")
    assert [len(s.of_pools()) for s in servers] == [6, 2, 2]
    assert pooler.show_one("DATABASES", name="db")["port"] == str(servers[0].port)


def test_server_that_is_starting_up(make_pooler, fake):
    starting = wire.error("FATAL", "57P03", "the database system is starting up")
    server = fake(failing(starting, starting, None))
    pooler = make_pooler({"db": server.conn()}, settings={"server_login_retry": 0.2})
    with pooler.connect() as client:
        assert client.value("select 1") == "fake"
    assert len(server.sessions) == 3


def test_refused_connection_keeps_clients_waiting(make_pooler, fake):
    closed = waiting.PORTS.take()
    pooler = make_pooler({"db": "host=127.0.0.1 port=%d" % closed},
                         settings={"client_login_timeout": 0.8, "server_login_retry": 0.2})
    assert pooler.refusal() == "client_login_timeout (server down)"
    pooler.wait_log(r"closing because: connect failed \(age")


def test_server_that_comes_back(make_pooler, pg, fake):
    closed = waiting.PORTS.take()
    pooler = make_pooler({"db": "host=127.0.0.1 port=%d dbname=postgres" % closed},
                         settings={"server_login_retry": 0.2})
    client = pooler.client()
    client.send(client.startup_packet())
    pooler.wait_log("connect failed")
    pooler.databases["db"] = pg.conn()
    pooler.write_files()
    pooler.reload()
    client.authenticate()
    assert client.value("select 1") == "1"


def test_silent_server(make_pooler, fake):
    server = fake(lambda session: session.recv_exact(1 << 20))
    pooler = make_pooler({"db": server.conn()},
                         settings={"server_connect_timeout": 1, "client_login_timeout": 4,
                                   "server_login_retry": 30})
    client = pooler.client()
    client.send(client.startup_packet())
    pooler.wait_log(r"closing because: connect timeout \(age")
    client.expect_fatal("client_login_timeout (server down)")


# hostile servers: during the login


def scram_error(**spoil):
    def script(session):
        session.recv_startup()
        scram_login(session, "pw", **spoil)
        session.send(fakeserver.welcome())
        session.recv_exact(1)
    return script


def saying(data):
    def script(session):
        session.recv_startup()
        session.send(data)
        session.recv_exact(1 << 20)
    return script


@pytest.mark.parametrize("script, text", [
    (saying(wire.auth(10, b"SCRAM-SHA-1\0\0")),
     "server login failed: none of the server's SASL authentication mechanisms are supported"),
    (saying(wire.auth(10, b"\0")),
     "server login failed: none of the server's SASL authentication mechanisms are supported"),
    (scram_error(spoil_final=lambda f: "v=" + "A" * 43 + "="),
     "server login failed: invalid server signature"),
])
def test_scram_failures_are_told(make_pooler, fake, script, text):
    server = fake(script)
    pooler = make_pooler({"db": server.conn(user="u", password="pw")})
    assert pooler.refusal() == text


HOSTILE_LOGIN = {
    "unknown auth": saying(wire.auth(99)),
    "gss": saying(wire.auth(7)),
    "short auth": saying(wire.message("R", b"\0\0")),
    "empty auth": saying(wire.message("R", b"")),
    "md5 without salt": saying(wire.auth(5)),
    "md5 with half a salt": saying(wire.auth(5, b"ab")),
    "continue without start": saying(wire.auth(11, b"r=x,s=AAAA,i=1")),
    "final without start": saying(wire.auth(12, b"v=AAAA")),
    "sasl list without end": saying(wire.auth(10, b"SCRAM-SHA-256")),
    "sasl list empty": saying(wire.auth(10)),
    "short key": saying(wire.auth(0) + wire.message("K", b"abc") + wire.ready()),
    "long key": saying(wire.auth(0) + wire.message("K", b"a" * 300) + wire.ready()),
    "parameter without value": saying(wire.auth(0) + wire.message("S", b"name\0") + wire.ready()),
    "parameter without end": saying(wire.auth(0) + wire.message("S", b"name\0value") + wire.ready()),
    "parameter empty": saying(wire.auth(0) + wire.message("S", b"") + wire.ready()),
    "huge parameter": saying(wire.auth(0) + wire.parameter_status("DateStyle", "x" * 200000)
                             + wire.ready()),
    "error without fields": saying(wire.message("E", b"\0")),
    "error with nothing": saying(wire.message("E", b"")),
    "error without code": saying(wire.fields("E", [("S", "FATAL"), ("M", "m")])),
    "error without text": saying(wire.fields("E", [("S", "FATAL"), ("C", "28000")])),
    "error with doubled fields": saying(wire.fields("E", [("C", "1"), ("C", "2"), ("M", "a"), ("M", "b")])),
    "error without end": saying(wire.message("E", b"SFATAL\0Mabc")),
    "error with a long text": saying(wire.error("FATAL", "28000", "x" * 100000)),
    "error with a long code": saying(wire.error("FATAL", "2" * 1000, "text")),
    "empty ready": saying(wire.auth(0) + wire.message("Z", b"")),
    "ready at once": saying(wire.ready()),
    "row": saying(wire.data_row(["x"])),
    "unknown type": saying(wire.message("!", b"abc")),
    "length too small": saying(b"R\0\0\0\x03"),
    "negative length": saying(b"R\xff\xff\xff\xff"),
    "huge length": saying(b"R\x7f\xff\xff\xff" + b"x" * 1000),
    "zero bytes": saying(b"\0" * 64),
    "http": saying(b"HTTP/1.0 400 Bad Request\r\n\r\n"),
    "nothing": lambda session: session.recv_startup(),
    "scram nonce changed": scram_error(spoil_first=lambda f: "r=other" + f[f.index(",s="):]),
    "scram without salt": scram_error(spoil_first=lambda f: f[:f.index(",s=")] + ",i=4096"),
    "scram bad salt": scram_error(spoil_first=lambda f: re.sub(",s=[^,]*", ",s=!!!", f)),
    "scram zero rounds": scram_error(spoil_first=lambda f: re.sub(",i=.*", ",i=0", f)),
    "scram no rounds": scram_error(spoil_first=lambda f: re.sub(",i=.*", ",i=", f)),
    "scram negative rounds": scram_error(spoil_first=lambda f: re.sub(",i=.*", ",i=-5", f)),
    "scram overflowing rounds": scram_error(spoil_first=lambda f: re.sub(",i=.*", ",i=9" + "9" * 30, f)),
    "scram long nonce": scram_error(spoil_first=lambda f: f.replace(",s=", "A" * 200000 + ",s=")),
    "scram empty": scram_error(spoil_first=lambda f: ""),
    "scram empty final": scram_error(spoil_final=lambda f: ""),
    "scram error final": scram_error(spoil_final=lambda f: "e=other-error"),
    "scram long final": scram_error(spoil_final=lambda f: "v=" + "A" * 100000),
    "scram short final": scram_error(spoil_final=lambda f: "v=AAAA"),
}


@pytest.mark.parametrize("name", HOSTILE_LOGIN)
def test_hostile_login(make_pooler, fake, name):
    """The faulty server connection is closed, and all other clients are served."""
    script = HOSTILE_LOGIN[name]

    def guarded(session):
        try:
            script(session)
        except AssertionError:
            if not name.startswith("scram"):
                raise

    bad, good = fake(guarded), fake()
    pooler = make_pooler({"db": bad.conn(user="u", password="pw"), "good": good.conn()},
                         settings={"server_connect_timeout": 1, "server_login_retry": 5})
    other = pooler.connect("good")
    pooler.set("client_login_timeout", "0.6")
    client = pooler.client()
    client.send(client.startup_packet())
    bad.wait_sessions(1)
    assert other.value("select 1") == "fake"
    told = client.recv_until("EZ")[-1]
    if told.kind == "E":
        client.expect_closed()
        assert told.text(), told
    else:
        assert name in ("long key", "huge parameter", "ready at once")
    assert pooler.connect("good").value("select 1") == "fake"
    assert "closing because:  (age" not in pooler.log()
    if name == "http":
        pooler.wait_log(r"bad pkt header from server: 'H' with length \d+, as text: HTTP/1.0$")


def test_billions_of_scram_rounds(make_pooler, fake):
    """A server that requests the highest iteration count does not block other clients."""
    def script(session):
        session.recv_startup()
        session.send(wire.auth(10, b"SCRAM-SHA-256\0\0"))
        nonce = session.recv().body.split(b"r=")[1].decode()
        session.send(wire.auth(11, ("r=%sx,s=QUJDREVGR0g=,i=2147483647" % nonce).encode()))
        session.recv_exact(1)

    bad, good = fake(script), fake()
    pooler = make_pooler({"db": bad.conn(user="u", password="pw"), "good": good.conn()},
                         settings={"client_login_timeout": 2})
    other = pooler.connect("good")
    client = pooler.client()
    client.send(client.startup_packet())
    bad.wait_sessions(1)
    for _ in range(100):
        other.query("select 1")
    assert client.recv_until("E")
    assert pooler.cpu_time() < 1.5


@pytest.mark.parametrize("number", [6, 9, 99])
def test_unknown_authentication_is_logged(make_pooler, fake, number):
    server = fake(saying(wire.auth(number)))
    pooler = make_pooler({"db": server.conn()}, settings={"client_login_timeout": 1})
    client = pooler.client()
    client.send(client.startup_packet())
    pooler.wait_log(r"ERROR .*unknown/unsupported auth method: %d$" % number)
    pooler.wait_log(r"closing because: failed to answer authreq \(age")


def test_server_login_byte_by_byte(make_pooler, fake):
    def script(session):
        session.recv_startup()
        session.send_slowly(fakeserver.welcome())
        session.serve()

    pooler = make_pooler({"db": fake(script).conn()})
    with pooler.connect() as client:
        assert client.value("select 1") == "fake"


def test_welcome_is_that_of_the_server(make_pooler, fake):
    known = [("zeta", "1"), ("in_hot_standby", "off"), ("server_version", "99"), ("DateStyle", "ISO"),
             ("alpha", ""), ("client_encoding", "UTF8"), ("standard_conforming_strings", "on"), ("TimeZone", "UTC"),
             ("application_name", ""), ("IntervalStyle", "postgres")]

    def script(session):
        session.login(parameters=known)
        session.serve()

    pooler = make_pooler({"db": fake(script).conn()})
    expected = [("zeta", "1"), ("in_hot_standby", "off"), ("server_version", "99"), ("alpha", ""),
                ("DateStyle", "ISO"), ("client_encoding", "UTF8"), ("TimeZone", "UTC"),
                ("standard_conforming_strings", "on"), ("application_name", ""),
                ("IntervalStyle", "postgres")]
    for _ in range(2):
        client = pooler.connect()
        assert client.parameters() == expected
        kinds = "".join(m.kind for m in client.login_messages)
        assert kinds == "R" + "S" * 10 + "KZ"
        assert len(client.key) == 8 and client.key[0] < 0x80
        client.close()


# hostile servers: after the login


OUT_OF_TURN = {
    "ready twice": wire.command_complete("SELECT 1") + wire.ready() + wire.ready(),
    "a row too late": wire.command_complete("SELECT 1") + wire.ready() + wire.data_row(["leak"]),
    "a whole answer too late": wire.command_complete("SELECT 1") + wire.ready()
    + fakeserver.plain_answer("select 1"),
    "unknown message": wire.message("!", b"x") + wire.ready(),
    "authentication": wire.auth(0) + wire.ready(),
    "second key": wire.backend_key(b"k" * 8) + wire.ready(),
    "short length": b"C\0\0\0\x01",
    "negative length": b"C\xff\xff\xff\xfe",
    "empty ready": wire.message("Z"),
    "long ready": wire.message("Z", b"IIII"),
    "broken parameter": wire.message("S", b"abc") + wire.ready(),
    "error without fields": wire.message("E") + wire.ready(),
    "notice without fields": wire.message("N") + wire.ready(),
    "short description": wire.message("T", b"\0") + wire.ready(),
    "end": b"",
}


@pytest.mark.parametrize("name", OUT_OF_TURN)
def test_server_that_answers_wrongly(make_pooler, fake, name):
    """No byte of the wrong answer reaches the next client of the pool."""
    def script(session):
        session.login()
        session.recv_until("Q")
        session.send(OUT_OF_TURN[name])
        if name == "end":
            return
        session.serve([("select 1", fakeserver.plain_answer("select 1"))])

    def serve_right(session):
        return script(session) if session.number == 0 else fakeserver.polite(session)

    server = fake(serve_right)
    pooler = make_pooler({"db": server.conn()},
                         settings={"pool_mode": "transaction", "query_timeout": 2})
    victim, other = pooler.connect(), pooler.connect()
    victim.send(wire.query("select broken"))
    try:
        victim.recv_until("ZE")
    except wire.Closed:
        pass
    victim.close()
    result = other.query("select 1")
    assert result.kinds() == "TDCZ" and result.value == "fake"
    assert pooler.is_running()


@pytest.mark.parametrize("data, stays", [
    (wire.message("A", struct.pack("!i", 1) + b"channel\0payload\0"), True),
    (wire.fields("N", [("S", "WARNING"), ("C", "01000"), ("M", "idle talk")]), False),
    (wire.error("FATAL", "57P01", "terminating connection"), False),
    (wire.parameter_status("DateStyle", "German"), False),
    (wire.data_row(["x"]), False),
], ids=["notification", "notice", "error", "parameter", "row"])
def test_unasked_messages_on_an_idle_server(make_pooler, fake, data, stays):
    server = fake()
    pooler = make_pooler({"db": server.conn()}, settings={"pool_mode": "transaction"})
    client = pooler.connect()
    client.query("select 1")
    pooler.wait_pool(sv_idle=1)
    server.sessions[0].send(data)
    pooler.wait_log(r"WARNING .*got packet '%s' from server when not linked$" % data[:1].decode())
    if not stays:
        waiting.wait_for(lambda: server.sessions[0].ended.is_set(), "server closed")
        pooler.wait_log(r"S-\S+ \S+ closing because: (SV_IDLE server got dirty|unknown pkt) \(age")
    assert client.value("select 2") == "fake"
    assert len(server.sessions) == (1 if stays else 2)
    assert not client.has_data(0.05)


def whole_and_its_prefixes():
    row = wire.data_row(["wrong"])
    return [row[:count] for count in (1, 4, 5, 7, len(row) - 1)]


PLACES = ["behind its greeting", "behind an answer", "at rest"]


def replaced(make_pooler, fake, where, said):
    """The first server says this there, and another one serves the client. Returns the pooler."""
    def answer(session, sql):
        behind = said if session.number == 0 and where == "behind an answer" else b""
        return fakeserver.plain_answer(sql) + behind

    def script(session):
        first = session.number == 0
        session.recv_startup()
        session.send(fakeserver.welcome() + (said if first and where == "behind its greeting" else b""))
        if first and where == "at rest":
            pooler_rests.wait(10)
            session.send(said)
        session.serve([("select", answer)])

    pooler_rests = threading.Event()
    server = fake(script)
    pooler = make_pooler({"db": server.conn(pool_size=1)}, settings={
        "pool_mode": "transaction", "server_login_retry": 0.1})
    client = pooler.connect()
    pooler_rests.set()
    if where == "behind an answer":
        assert client.query("select 1").value == "fake"
    server.sessions[0].ended.wait(10)
    assert client.query("select 2").value == "fake"
    assert len(server.logged_in()) == 2
    return pooler


@pytest.mark.parametrize("part", whole_and_its_prefixes(), ids=lambda part: len(part))
@pytest.mark.parametrize("where", PLACES)
def test_part_of_a_message_of_an_idle_server(make_pooler, fake, part, where):
    """The beginning of the next client's answer is not taken for the rest of the message."""
    assert protocol_errors(replaced(make_pooler, fake, where, part)) == 1


@pytest.mark.parametrize("cut", [1, 5, 20, None])
@pytest.mark.parametrize("where", PLACES)
def test_last_word_of_an_idle_server(make_pooler, fake, where, cut):
    """PostgreSQL may end a server at any time, which is no fault of the protocol."""
    end = wire.error("FATAL", "57P01", "terminating connection")[:cut]
    pooler = replaced(make_pooler, fake, where, end)
    assert protocol_errors(pooler) == 0 and "unexpected pkt" not in pooler.log()


def test_a_server_that_ends_behind_its_greeting(make_pooler, fake):
    """Its login has not failed: clients wait for the next server, and none is refused."""
    end = wire.error("FATAL", "57P01", "terminating connection")

    def script(session):
        session.recv_startup()
        session.send(fakeserver.welcome() + (end if session.number == 1 else b""))
        if session.number == 0:
            ends.wait(waiting.DEADLINE)
            session.send(end)
        elif session.number > 1:
            session.serve()

    ends = threading.Event()
    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings={"pool_mode": "transaction", "server_login_retry": 1})
    first, second = pooler.connect(), pooler.connect()
    ends.set()
    pooler.wait_log("closing because: SV_IDLE server got dirty")
    first.send(wire.query("select 1"))
    pooler.wait_log(r"closing because: idle server got dirty")
    assert second.value("select 1") == "fake"
    assert first.finish().value == "fake"


def test_terminate_is_said_to_closed_servers(make_pooler, fake):
    server = fake()
    pooler = make_pooler({"db": server.conn()}, settings={"pool_mode": "transaction"})
    pooler.connect().close()
    pooler.admin.query("RECONNECT")
    waiting.wait_for(lambda: server.sessions[0].ended.is_set(), "closed")
    assert server.sessions[0].received[-1].raw() == wire.terminate()


def test_lost_server_is_told_to_its_client(make_pooler, fake):
    def script(session):
        session.login()
        session.recv_until("Q")
        session.send(wire.row_description([("v", 25, -1)]))

    pooler = make_pooler({"db": fake(script).conn()})
    client = pooler.connect()
    client.send(wire.query("select 1"))
    client.recv_kinds("T")
    client.expect_fatal("server conn crashed?")


def in_query(client):
    client.send(wire.query("select pg_sleep(20)"))


def in_extended_query(client):
    client.send(wire.parse("s", "select pg_sleep(20)"), wire.describe("S", "s"),
                wire.bind("", "s"), wire.flush(), wire.execute(), wire.sync())
    client.recv_kinds("1tT2")


def in_transaction(client):
    client.query("begin")


def in_rows(client):
    # Slowly, because a server that waits for room to send its rows may end amid one of them, without a word.
    client.send(wire.query("select repeat('x', 9999), pg_sleep(0.01) from generate_series(1, 100000000)"))
    client.recv_kinds("TD")


def in_session(client):
    client.query("listen something")


MOMENTS = [in_query, in_extended_query, in_transaction, in_rows, in_session]


def last_words(client):
    """Returns what a connection ends with: everything from its first error on."""
    told = client.recv_until("E")[-1:]
    with pytest.raises(wire.Closed):
        while True:
            told.append(client.recv())
    return [(m.kind, m.field("S"), m.field("C")) for m in told]


STOPPED = [("E", "FATAL", "57P01")]
CRASHED = [("E", "FATAL", "08006")]


def check_log_of_loss(pooler):
    """What tools look for in the log does not depend on what the client was told."""
    pooler.wait_log(r"WARNING C-0x.* pooler error: server conn crashed\?$")
    pooler.wait_log(r"LOG C-0x.* closing because: server conn crashed\? ")
    pooler.wait_log(r"LOG S-0x.* closing because: server conn crashed\? ")


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.__name__)
def test_nothing_follows_a_fatal_error_of_a_server(make_pooler, pg, moment):
    mode = "session" if moment == in_session else "transaction"
    pooler = make_pooler({"db": pg.conn()}, settings={"pool_mode": mode})
    client = pooler.connect()
    pid = client.value("select pg_backend_pid()")
    moment(client)
    pg.do("select pg_terminate_backend(%s)" % pid)
    assert last_words(client) == STOPPED
    check_log_of_loss(pooler)
    assert pooler.connect().value("select 1") == "1"


def test_nothing_follows_the_fatal_error_of_a_stopped_server(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"pool_mode": "session"})
    # A server that waits for room to send its rows may end amid one of them, without a word.
    moments = [moment for moment in MOMENTS if moment is not in_rows]
    clients = [pooler.connect() for _ in moments]
    for client, moment in zip(clients, moments):
        moment(client)
    pg.restart()
    assert [last_words(client) for client in clients] == [STOPPED] * len(clients)


def test_crash_of_a_server_is_told(make_pooler, pg):
    """PostgreSQL says that as a WARNING only, and a killed backend says nothing."""
    pooler = make_pooler({"db": pg.conn()}, settings={"pool_mode": "session"})
    killed, other = pooler.connect(), pooler.connect()
    pid = killed.value("select pg_backend_pid()")
    warned = other.value("select pg_backend_pid()")
    in_transaction(other)
    # PostgreSQL leaves the WARNING out while it is still sending an answer.
    waiting.wait_for(lambda: pg.backends(f"pid = {warned} and wait_event = 'ClientRead'"),
                     "its server has returned to reading")
    os.kill(int(pid), signal.SIGKILL)
    assert last_words(killed) == CRASHED
    warning = other.recv()
    assert (warning.kind, warning.field("S"), warning.field("C")) == ("N", "WARNING", "57P02")
    assert last_words(other) == CRASHED
    waiting.wait_for(pg.is_up, "it is up again")


@pytest.mark.parametrize("cut", [None, 3, 7, 20, 40])
@pytest.mark.parametrize("code, severity, follows", [
    ("57P02", "FATAL", []), ("XX000", "PANIC", []), ("57014", "ERROR", CRASHED)])
def test_last_word_in_two_pieces(make_pooler, fake, code, severity, follows, cut):
    said = wire.error(severity, code, "it has to be")

    def script(session):
        session.login()
        session.recv_until("Q")
        session.send(said[:cut])
        if cut:
            waiting.wait_read(session.sock)
            session.send(said[cut:])

    pooler = make_pooler({"db": fake(script).conn()})
    client = pooler.connect()
    client.send(wire.query("select 1"))
    assert last_words(client) == [("E", severity, code)] + follows


async def asyncpg_is_told(pg, port, database):
    """Returns the error of a query whose server is terminated."""
    client = await asyncpg.connect(host="127.0.0.1", port=port, user="trust_user",
                                   database=database)
    query = asyncio.ensure_future(client.fetch("select pg_sleep(20)"))
    sleeping = "query like '%pg_sleep(20)%' and wait_event = 'PgSleep'"
    while not pg.backends(sleeping):
        await asyncio.sleep(0.01)
    pg.do("select pg_terminate_backend(pid, 5000) from pg_stat_activity where " + sleeping)
    with pytest.raises(Exception) as error:
        await query
    return error.type, str(error.value)


def test_asyncpg_is_told_what_postgresql_says(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"pool_mode": "transaction"})
    told = asyncio.run(asyncpg_is_told(pg, pooler.port, "db"))
    assert told == asyncio.run(asyncpg_is_told(pg, pg.port, "postgres"))
    assert "due to administrator command" in told[1]
