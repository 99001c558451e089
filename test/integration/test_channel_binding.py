"""SCRAM with channel binding, towards clients and towards servers."""

import ssl
import struct

import psycopg
import pytest

import certs
import postgres
import waiting
import wire

USER = "scram_user"
SECRET = postgres.USERS[USER][0]


@pytest.fixture(scope="module")
def ca():
    folder = waiting.scratch("certs")
    authority = certs.Authority(folder)
    authority.server = authority.issue("server", "localhost", ["localhost", "127.0.0.1"])
    yield authority
    waiting.discard(folder)


@pytest.fixture(scope="module")
def tls_pg(pg_bin, ca):
    server = postgres.Postgres(pg_bin)
    try:
        server.create()
        server.do("alter system set ssl = on",
                  "alter system set ssl_cert_file = '%s'" % ca.server.cert_file,
                  "alter system set ssl_key_file = '%s'" % ca.server.key_file)
        server.set_hba(["local all all trust", "hostssl all md5_user 127.0.0.1/32 md5",
                        "hostssl all trust_user 127.0.0.1/32 trust",
                        "host all all 127.0.0.1/32 scram-sha-256"])
        yield server
    finally:
        server.remove()


@pytest.fixture
def bound_pooler(make_pooler, tls_pg, ca):
    """A pooler with TLS towards clients and servers. The user list holds the secret as PostgreSQL
    stores it."""
    def make(pair=None, secret=None, options=None, **settings):
        pair = pair or ca.server
        entry = postgres.connstr(host=tls_pg.host, port=tls_pg.port, dbname="postgres",
                                 **(options or {}))
        return make_pooler({"db": entry}, settings={
            "auth_type": "scram-sha-256", "pool_mode": "transaction", "server_login_retry": "0.1",
            "client_tls_sslmode": "prefer", "client_tls_cert_file": pair.cert_file,
            "client_tls_key_file": pair.key_file, "client_tls_ca_file": ca.file, **settings},
            userlist={USER: secret or tls_pg.secret_of(USER), "md5_user": "md5 secret 4b9",
                      "trust_user": "", "admin_user": "admin secret 91c"})
    return make


def libpq(pooler, ca, binding="require", user=USER, secret=SECRET, **more):
    options = dict(host="localhost", hostaddr=pooler.host, port=pooler.port, user=user, dbname="db",
                   password=secret, sslmode="verify-full", sslrootcert=ca.file,
                   gssencmode="disable", channel_binding=binding, connect_timeout=90)
    options.update(more)
    return psycopg.connect(autocommit=True, prepare_threshold=None, **options)


@pytest.mark.parametrize("kind, digest", [("ec", None), ("rsa", None), ("rsa", "SHA384"),
                                          ("ec", "SHA512")])
def test_libpq_requires_it(bound_pooler, ca, kind, digest):
    from cryptography.hazmat.primitives import hashes
    pair = ca.issue("own", "localhost", ["localhost"], kind=kind,
                    digest=digest and getattr(hashes, digest)())
    with libpq(bound_pooler(pair), ca) as conn:
        assert conn.execute("select current_user").fetchone() == (USER,)


@pytest.mark.parametrize("secret", [SECRET, None], ids=["plain", "pass-through"])
@pytest.mark.parametrize("binding", ["disable", "prefer", "require"])
def test_both_hops(bound_pooler, ca, secret, binding):
    pooler = bound_pooler(secret=secret, client_channel_binding="require" if binding == "require"
                          else "prefer", server_channel_binding="require")
    with libpq(pooler, ca, binding) as conn:
        assert conn.execute("select current_user").fetchone() == (USER,)
        assert conn.execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()"
                            ).fetchone() == (True,)



def test_wrong_secret_is_refused(bound_pooler, ca):
    with pytest.raises(psycopg.OperationalError, match="SASL authentication failed"):
        libpq(bound_pooler(), ca, secret="wrong")


def test_not_offered_when_switched_off(bound_pooler, ca):
    pooler = bound_pooler(client_channel_binding="disable")
    with pytest.raises(psycopg.OperationalError, match="channel binding"):
        libpq(pooler, ca)
    with libpq(pooler, ca, "prefer") as conn:
        assert conn.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize("auth_type", ["scram-sha-256", "plain", "md5"])
def test_required_of_clients_in_clear(bound_pooler, auth_type):
    pooler = bound_pooler(client_channel_binding="require", auth_type=auth_type)
    assert pooler.refusal(user=USER, secret=SECRET) == "channel binding is required"
    # A unix socket needs no channel binding, because no third party can read it.
    if auth_type == "scram-sha-256":
        with pooler.connect(user=USER, secret=SECRET, unix=True) as client:
            assert client.query("select 1").value == "1"


def test_required_of_clients_in_tls(bound_pooler, ca):
    pooler = bound_pooler(client_channel_binding="require")
    with pytest.raises(psycopg.OperationalError):
        libpq(pooler, ca, "disable")
    with libpq(pooler, ca, "prefer") as conn:
        assert conn.execute("select 1").fetchone() == (1,)


def secured(pooler, ca):
    client = pooler.client("db", USER, SECRET)
    client.send(wire.ssl_request())
    assert client.recv_exact(1) == b"S"
    made = ssl.create_default_context(cafile=ca.file)
    client.sock = made.wrap_socket(client.sock, server_hostname="localhost")
    client.send(client.startup_packet())
    code, = struct.unpack_from("!i", client.recv().body)
    assert code == 10
    return client


def test_mechanisms_best_first(bound_pooler, ca):
    pooler = bound_pooler()
    client = pooler.client("db", USER, SECRET)
    client.send(wire.ssl_request())
    assert client.recv_exact(1) == b"S"
    client.sock = ssl.create_default_context(cafile=ca.file).wrap_socket(
        client.sock, server_hostname="localhost")
    with client:
        client.send(client.startup_packet())
        assert client.recv().body[4:] == b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"


@pytest.mark.parametrize("mechanism, gs2", [
    # The client says that the pooler offers no binding: an attacker removed the mechanism.
    ("SCRAM-SHA-256", "y,,"),
    ("SCRAM-SHA-256", "p=tls-server-end-point,,"),
    ("SCRAM-SHA-256-PLUS", "n,,"),
    ("SCRAM-SHA-256-PLUS", "p=tls-unique,,"),
])
def test_downgrades_are_seen(bound_pooler, ca, mechanism, gs2):
    with secured(bound_pooler(), ca) as client:
        scram = wire.ScramClient(SECRET, gs2=gs2)
        client.send(wire.sasl_initial(mechanism, scram.first()))
        client.expect_fatal("SASL authentication failed")


def test_bound_to_another_certificate(bound_pooler, ca):
    """An attacker in the middle has another certificate, and the client sends the hash of that
    one."""
    with secured(bound_pooler(), ca) as client:
        gs2 = "p=tls-server-end-point,,"
        scram = wire.ScramClient(SECRET, gs2=gs2)
        client.send(wire.sasl_initial("SCRAM-SHA-256-PLUS", scram.first()))
        first = client.recv().body[4:].decode()
        client.send(wire.message("p", scram.final(
            first, channel=wire.b64(gs2.encode() + b"x" * 32)).encode()))
        client.expect_fatal("SASL authentication failed")


# towards servers


def refused(pooler, text):
    assert pooler.refusal("db", "app", None) == text


def entry(server, **more):
    return "host=%s port=%d user=app password=secret channel_binding=require " % (
        server.host, server.port) + " ".join("%s=%s" % i for i in more.items())


@pytest.mark.parametrize("request_, text", [
    (wire.auth(3), "server login failed: channel binding is required, but the server does not "
     "ask for SCRAM"),
    (wire.auth(5, b"salt"), "server login failed: channel binding is required, but the server does "
     "not ask for SCRAM"),
    (wire.auth(0), "server login failed: channel binding is required, but the server does not ask "
     "for SCRAM"),
    (wire.auth(10, b"SCRAM-SHA-256\0\0"), "server login failed: channel binding is required, but "
     "the server does not offer it"),
])
def test_servers_that_do_not_bind_get_no_password(make_pooler, fake, ca, request_, text):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca.server.cert_file, ca.server.key_file)
    got = []

    def script(session):
        session.tls = context
        session.recv_startup()
        session.send(request_)
        got.append(session.recv())

    server = fake(script)
    pooler = make_pooler({"db": entry(server, sslmode="require")}, settings={
        "server_login_retry": "0.1"}, userlist={"app": "secret"})
    refused(pooler, text)
    assert all(m.kind == "X" for m in got), got


def test_servers_in_clear_are_refused(make_pooler, fake):
    def script(session):
        session.recv_startup()
        session.send(wire.auth(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"))
        session.recv()

    pooler = make_pooler({"db": entry(fake(script))}, settings={"server_login_retry": "0.1"},
                         userlist={"app": "secret"})
    refused(pooler, "server login failed: channel binding is required, but the connection to the "
            "server has nothing to bind to")


def test_server_that_pretends_not_to_offer_it(make_pooler, fake, ca):
    """The pooler sends the flag "y" (it supports binding, the server did not offer it), so that an
    honest server detects an attacker in the middle."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca.server.cert_file, ca.server.key_file)
    got = []

    def script(session):
        session.tls = context
        session.recv_startup()
        session.send(wire.auth(10, b"SCRAM-SHA-256\0\0"))
        got.append(session.recv())

    server = fake(script)
    pooler = make_pooler({"db": "host=%s port=%d user=app password=secret" % (
        server.host, server.port)}, settings={"server_login_retry": "0.1",
                                              "query_wait_timeout": "0.5"},
        userlist={"app": "secret"})
    pooler.refusal("db", "app", None)
    assert b"y,,n=,r=" in got[0].body


def test_pooler_uses_plus_with_postgresql(bound_pooler, ca):
    """The server accepts only SCRAM-SHA-256-PLUS on this connection."""
    pooler = bound_pooler(server_channel_binding="require")
    with libpq(pooler, ca) as conn:
        assert conn.execute("select 1").fetchone() == (1,)
    pooler = bound_pooler(server_channel_binding="require", server_tls_sslmode="disable",
                          query_wait_timeout="1")
    with pytest.raises(psycopg.OperationalError, match="nothing to bind to"):
        libpq(pooler, ca)


