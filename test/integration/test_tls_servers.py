"""TLS towards servers: all values of sslmode, host names, client certificates, cancel requests."""

import os
import re
import ssl
import threading

import pytest

import certs
import fakeserver
import postgres
import waiting
import wire


@pytest.fixture(scope="module")
def ca():
    folder = waiting.scratch("certs")
    authority = certs.Authority(folder)
    authority.server = authority.issue("server", "db.test", ["localhost", "127.0.0.1"])
    yield authority
    waiting.discard(folder)


@pytest.fixture(scope="module")
def tls_pg(pg_bin, ca):
    """PostgreSQL with TLS. Without TLS it accepts only second_user over TCP."""
    server = postgres.Postgres(pg_bin)
    try:
        server.create()
        server.do("alter system set ssl = on",
                  "alter system set ssl_cert_file = '%s'" % ca.server.cert_file,
                  "alter system set ssl_key_file = '%s'" % ca.server.key_file,
                  "alter system set ssl_ca_file = '%s'" % ca.file)
        server.set_hba(["local all all trust",
                        "host all second_user 127.0.0.1/32 trust",
                        "hostssl all scram_user 127.0.0.1/32 cert",
                        "hostssl all plain_user 127.0.0.1/32 scram-sha-256",
                        "hostssl all all 127.0.0.1/32 trust"])
        yield server
    finally:
        server.remove()


IN_TLS = "select ssl from pg_stat_ssl where pid = pg_backend_pid()"


def entry(server, **more):
    return postgres.connstr(host=server.host, port=server.port, dbname="postgres", **more)


def settings(**more):
    return {"pool_mode": "transaction", "server_login_retry": "0.1", **more}


@pytest.mark.parametrize("mode", ["allow", "prefer", "require", "verify-ca", "verify-full"])
def test_modes_with_a_server_that_has_tls(make_pooler, tls_pg, ca, mode):
    pooler = make_pooler({"db": entry(tls_pg)}, settings=settings(
        server_tls_sslmode=mode, server_tls_ca_file=ca.file))
    with pooler.connect() as client:
        assert client.query(IN_TLS).value == "t"
        row = pooler.show_one("SERVERS")
        assert row["tls"].startswith("TLSv1.3/TLS_"), row["tls"]
        pooler.wait_log(r"LOG S-0x\S+ db/trust_user@127\.0\.0\.1:\d+ SSL established: TLSv1\.3/")


def test_disable(make_pooler, tls_pg):
    pooler = make_pooler({"db": entry(tls_pg)}, settings=settings(server_tls_sslmode="disable"))
    with pooler.connect(user="second_user") as client:
        assert client.query(IN_TLS).value == "f"
        assert pooler.show_one("SERVERS")["tls"] == ""


@pytest.mark.parametrize("mode", ["allow", "prefer"])
def test_server_without_tls_is_used_in_clear(make_pooler, pg, mode):
    pooler = make_pooler({"db": pg.conn()}, settings=settings(server_tls_sslmode=mode))
    with pooler.connect() as client:
        assert client.query(IN_TLS).value == "f"


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_server_without_tls_is_refused(make_pooler, pg, mode):
    pooler = make_pooler({"db": pg.conn()}, settings=settings(
        server_tls_sslmode=mode, query_wait_timeout="0.5"))
    assert pooler.refusal() == "query_wait_timeout"
    pooler.wait_log("closing because: server refused SSL")


def test_unix_socket_needs_no_tls(make_pooler, tls_pg):
    pooler = make_pooler({"db": tls_pg.unix_conn()}, settings=settings(
        server_tls_sslmode="verify-full"))
    with pooler.connect() as client:
        assert client.query(IN_TLS).value == "f"


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
def test_certificate_of_a_stranger(make_pooler, tls_pg, mode):
    folder = waiting.scratch("certs")
    try:
        stranger = certs.Authority(folder, "stranger")
        pooler = make_pooler({"db": entry(tls_pg)}, settings=settings(
            server_tls_sslmode=mode, server_tls_ca_file=stranger.file, query_wait_timeout="0.5"))
        assert pooler.refusal() == "query_wait_timeout"
        pooler.wait_log("TLS handshake error: .*certificate verify failed")
        pooler.wait_log("closing because: TLS handshake error: certificate verify failed: .+ \\(age")
        assert pooler.show_one("HOSTS", database="db")["last_error"].startswith(
            "TLS handshake error: certificate verify failed: ")
    finally:
        waiting.discard(folder)


def tls_fake(fake, pair, script=None, seen=None):
    """A scripted server with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert_file, pair.key_file)
    if seen is not None:
        context.sni_callback = lambda sock, name, ctx: seen.append(name)

    def play(session):
        session.tls = context
        (script or fakeserver.polite)(session)

    return fake(quiet(play))


def quiet(script):
    """Ignores TLS errors in the script, because the pooler aborts the handshake."""
    def play(session):
        try:
            script(session)
        except ssl.SSLError:
            pass
    return play


@pytest.mark.parametrize("host, names, is_right", [
    ("localhost", ["localhost"], True),
    ("localhost", ["LOCALHOST"], True),
    ("localhost", ["other"], False),
    ("localhost", ["*.localhost"], False),
    ("127.0.0.1", ["127.0.0.1"], True),
    ("127.0.0.1", ["localhost"], False),
])
def test_names_of_verify_full(make_pooler, fake, ca, host, names, is_right):
    seen = []
    server = tls_fake(fake, ca.issue("named", "cn.test", names), seen=seen)
    pooler = make_pooler({"db": "host=%s port=%d" % (host, server.port)}, settings=settings(
        server_tls_sslmode="verify-full", server_tls_ca_file=ca.file,
        query_wait_timeout="10" if is_right else "0.5"))
    if is_right:
        with pooler.connect() as client:
            assert client.query("select 1").value == "fake"
    else:
        assert pooler.refusal() == "query_wait_timeout"
        pooler.wait_log("TLS handshake error: .*(mismatch|name)")
    # An IP address is never sent as SNI.
    assert seen[0] == (host if host == "localhost" else None)


def test_sni_in_every_mode(make_pooler, fake, ca):
    seen = []
    server = tls_fake(fake, ca.server, seen=seen)
    pooler = make_pooler({"db": "host=localhost port=%d" % server.port},
                         settings=settings(server_tls_sslmode="prefer"))
    with pooler.connect() as client:
        client.query("select 1")
    assert seen == ["localhost"]


def test_each_host_of_a_list_is_verified_by_its_own_name(make_pooler, fake, ca):
    right = tls_fake(fake, ca.issue("right", "x", ["localhost"]))
    pooler = make_pooler({"db": "host=127.0.0.1,localhost port=%d" % right.port},
                         settings=settings(server_tls_sslmode="verify-full",
                                           server_tls_ca_file=ca.file, server_login_retry="0"))
    with pooler.connect() as client:  # The certificate has the host name, but not the address.
        assert client.query("select 1").value == "fake"
        served, = [row for row in pooler.show("SERVERS") if row["state"] in ("active", "idle", "used")]
        assert served["addr"] == "127.0.0.1"


def test_revoked_server_certificate(make_pooler, fake, ca):
    bad = ca.issue("revoked", "x", ["localhost"])
    server = tls_fake(fake, bad)
    pooler = make_pooler({"db": "host=localhost port=%d" % server.port}, settings=settings(
        server_tls_sslmode="verify-ca", server_tls_ca_file=ca.file,
        server_tls_crl_file=ca.revoke(bad), query_wait_timeout="0.5"))
    assert pooler.refusal() == "query_wait_timeout"
    pooler.wait_log("TLS handshake error: .*revoked")


def test_expired_server_certificate(make_pooler, fake, ca):
    server = tls_fake(fake, ca.issue("expired", "x", ["localhost"], days=-2))
    pooler = make_pooler({"db": "host=localhost port=%d" % server.port}, settings=settings(
        server_tls_sslmode="verify-ca", server_tls_ca_file=ca.file, query_wait_timeout="0.5"))
    reason = "TLS handshake error: certificate verify failed: certificate has expired"
    with pooler.client() as client, pytest.raises(wire.Refused) as refused:
        client.login()
    assert refused.value.text == "query_wait_timeout"
    assert reason in refused.value.message.field("D")
    pooler.wait_log(r"closing because: %s \(age" % reason)
    assert pooler.show_one("HOSTS", database="db")["last_error"] == reason


def test_client_certificate_for_the_server(make_pooler, tls_pg, ca):
    own = ca.issue("own", "scram_user")
    pooler = make_pooler({"db": entry(tls_pg)}, settings=settings(
        server_tls_sslmode="require", server_tls_cert_file=own.cert_file,
        server_tls_key_file=own.key_file), userlist={"scram_user": ""})
    with pooler.connect(user="scram_user") as client:
        assert client.query("select current_user").value == "scram_user"


def test_database_entries_have_their_own(make_pooler, tls_pg, ca):
    own = ca.issue("entry", "scram_user")
    pooler = make_pooler({
        "plain": entry(tls_pg, sslmode="disable", user="second_user"),
        "cert": entry(tls_pg, sslmode="verify-full", sslrootcert=ca.file, sslcert=own.cert_file,
                      sslkey=own.key_file, user="scram_user")},
        settings=settings(server_tls_sslmode="require"))
    with pooler.connect("plain") as client:
        assert client.query(IN_TLS).value == "f"
    with pooler.connect("cert") as client:
        assert client.query("select current_user").value == "scram_user"
        assert client.query(IN_TLS).value == "t"


@pytest.mark.parametrize("options, text", [
    ("sslmode=sometimes", "invalid sslmode: sometimes"),
    ("sslnegotiation=late", "invalid sslnegotiation: late"),
    ("sslnegotiation=direct sslmode=prefer", "sslnegotiation=direct needs sslmode=require"),
    ("sslnegotiation=direct", "sslnegotiation=direct needs sslmode=require"),
    ("sslcert=x", "sslcert and sslkey belong together"),
    ("channel_binding=x", "invalid channel_binding: x"),
    ("sslrootcert=/nonexistent sslmode=verify-ca", "failed to load CA"),
])
def test_bad_entries(make_pooler, options, text):
    pooler = make_pooler({"db": "host=127.0.0.1 " + options}, start=False)
    code, _, err = pooler.run_ini()
    assert code == 1 and text in err, err
    assert "pgbouncer.ini:2" in err, err


# the answer to SSLRequest


@pytest.mark.parametrize("answer, reason", [
    (b"X", "bad sslreq answer"),
    (b"E\0\0\0\x0cSERROR\0\0", "bad sslreq answer"),
    (b"S" + wire.auth(0), "received unencrypted data after SSL response"),
    (b"N" + wire.auth(0), "received unencrypted data after SSL response"),
])
def test_bad_answers(make_pooler, fake, answer, reason):
    def script(session):
        session.recv_exact(8)
        session.send(answer)
        session.recv_exact(1)

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings=settings(
        server_tls_sslmode="prefer", query_wait_timeout="0.5"))
    assert pooler.refusal() == "query_wait_timeout"
    pooler.wait_log("closing because: " + reason)
    assert not server.logged_in()


def test_bytes_in_clear_after_the_answer_are_never_believed(make_pooler, fake):
    """An attacker in the middle answers S and then continues in clear text."""
    def script(session):
        session.recv_exact(8)
        session.send(b"S")
        session.recv_exact(5)  # The ClientHello begins here.
        session.send(fakeserver.welcome())
        session.recv_exact(100000)

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings=settings(
        server_tls_sslmode="require", query_wait_timeout="0.5"))
    assert pooler.refusal() == "query_wait_timeout"
    pooler.wait_log("TLS handshake error: ")


def test_bytes_in_clear_amid_tls(make_pooler, fake, ca):
    """The log names the failure, and the next server connection serves the client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate = ca.issue("amid", "localhost", ["localhost"])
    context.load_cert_chain(certificate.cert_file, certificate.key_file)

    def script(session):
        session.tls = context
        if session.number > 0:
            return fakeserver.polite(session)
        session.login()
        session.recv()
        os.write(session.sock.fileno(), wire.data_row(["clear"]))
        return session.recv()

    pooler = make_pooler({"db": fake(script).conn()}, settings=settings(server_tls_sslmode="require"))
    client = pooler.connect()
    client.send(wire.query("select 1"))
    client.expect_fatal("server conn crashed?")
    pooler.wait_log("WARNING S-0x.* tls_sbufio_recv: read failed: wrong version number$")
    assert pooler.connect().value("select 1") == "fake"


# direct TLS


def test_direct_tls(make_pooler, fake, ca):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca.server.cert_file, ca.server.key_file)
    context.set_alpn_protocols(["postgresql"])
    agreed = []

    def script(session):
        session.sock = context.wrap_socket(session.sock, server_side=True)
        agreed.append(session.sock.selected_alpn_protocol())
        fakeserver.polite(session)

    server = fake(quiet(script))
    pooler = make_pooler({"db": "host=localhost port=%d sslmode=require sslnegotiation=direct"
                          % server.port}, settings=settings())
    with pooler.connect() as client:
        assert client.query("select 1").value == "fake"
    assert agreed == ["postgresql"]


def test_direct_tls_with_postgresql(make_pooler, pg18, ca):
    pg18.do("alter system set ssl = on",
            "alter system set ssl_cert_file = '%s'" % ca.server.cert_file,
            "alter system set ssl_key_file = '%s'" % ca.server.key_file,
            "select pg_reload_conf()")
    pooler = make_pooler({"db": pg18.conn(sslmode="require", sslnegotiation="direct")},
                         settings=settings(server_login_retry="0"))
    try:
        with pooler.connect() as client:
            assert client.query(IN_TLS).value == "t"
    finally:
        pg18.do("alter system reset all", "select pg_reload_conf()")


# cancel


def test_cancel_goes_over_tls_when_its_query_does(make_pooler, fake, ca):
    running = threading.Event()
    cancelled = threading.Event()

    def script(session):
        if session.recv_startup() == wire.CANCEL_REQUEST:
            session.is_encrypted = isinstance(session.sock, ssl.SSLSocket)
            cancelled.set()
            return
        session.send(fakeserver.welcome())
        while True:
            message = session.recv()
            if message.kind == "Q" and b"sleep" in message.body:
                running.set()
                assert cancelled.wait(15)
                session.send(wire.error("ERROR", "57014", "canceling statement due to user request")
                             + wire.ready())
            elif message.kind == "Q":
                session.send(fakeserver.plain_answer(message.body[:-1].decode()))

    server = tls_fake(fake, ca.server, script)
    pooler = make_pooler({"db": "host=localhost port=%d" % server.port}, settings=settings(
        server_tls_sslmode="verify-full", server_tls_ca_file=ca.file))
    with pooler.connect() as client:
        client.send(wire.query("select sleep"))
        assert running.wait(15)
        client.cancel()
        assert client.recv_until("Z")[0].field("C") == "57014"
    assert [s.is_encrypted for s in server.sessions if s.startup_code == wire.CANCEL_REQUEST] == [True]


def test_cancel_with_postgresql(make_pooler, tls_pg, ca):
    pooler = make_pooler({"db": entry(tls_pg)}, settings=settings(
        server_tls_sslmode="verify-full", server_tls_ca_file=ca.file))
    with pooler.connect() as client:
        client.send(wire.query("select pg_sleep(60)"))
        waiting.wait_for(lambda: tls_pg.backends("query like '%pg_sleep(60)%' and state='active'"),
                         "the query runs")
        client.cancel()
        assert client.recv_until("E")[-1].field("C") == "57014"
        client.recv_until("Z")
        assert client.query("select 1").value == "1"


# reload


@pytest.mark.parametrize("name, value, chosen", [
    ("server_tls13_ciphers", "TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
    ("server_tls_ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
])
def test_ciphers_towards_servers(make_pooler, tls_pg, name, value, chosen):
    pooler = make_pooler({"db": entry(tls_pg)}, settings=settings(server_tls_sslmode="require"))
    if name == "server_tls_ciphers":
        pooler.change(server_tls_protocols="tlsv1.2")

    def cipher():
        with pooler.connect() as client:
            return client.value("select cipher from pg_stat_ssl where pid = pg_backend_pid()")

    assert cipher() != chosen
    pooler.change(**{name: value})
    assert cipher() == chosen


def test_changed_settings_recycle_servers(make_pooler, tls_pg, ca):
    pooler = make_pooler({"db": entry(tls_pg)}, settings=settings(server_tls_sslmode="require"))
    with pooler.connect() as client:
        first = client.query("select pg_backend_pid()").value
        pooler.reload()
        # The settings are unchanged, so the server connection stays.
        assert client.query("select pg_backend_pid()").value == first
        pooler.change(server_tls_sslmode="verify-ca", server_tls_ca_file=ca.file)
        assert client.query("select pg_backend_pid()").value != first


def test_big_answers_over_tls(make_pooler, tls_pg):
    pooler = make_pooler({"db": entry(tls_pg)}, settings=settings(server_tls_sslmode="require"))
    with pooler.connect() as client:
        assert len(client.query("select repeat('x', 10000000)").value) == 10000000
        assert client.query("select length('%s')" % ("y" * 2000000)).value == "2000000"


# channel binding


@pytest.mark.parametrize("mode", ["disable", "prefer", "require"])
@pytest.mark.parametrize("by_keys", [False, True])
def test_channel_binding(make_pooler, tls_pg, mode, by_keys):
    """The pooler uses channel binding with a password, and with the SCRAM keys from a client's
    login."""
    secret = postgres.USERS["plain_user"][0]
    known = tls_pg.secret_of("plain_user") if by_keys else secret
    pooler = make_pooler({"db": entry(tls_pg)}, userlist={"plain_user": known, "admin_user": ""},
                         settings=settings(server_channel_binding=mode, auth_type="scram-sha-256"))
    with pooler.connect(user="plain_user", secret=secret) as client:
        assert client.query("select current_user, ssl from pg_stat_ssl where pid = pg_backend_pid()").rows == [
            ("plain_user", "t")]


@pytest.mark.parametrize("user, sslmode", [("trust_user", "require"), ("second_user", "disable")])
def test_required_binding_refuses_whoever_does_not_prove_itself(make_pooler, tls_pg, user, sslmode):
    pooler = make_pooler({"db": entry(tls_pg, channel_binding="require")},
                         settings=settings(server_tls_sslmode=sslmode))
    assert pooler.refusal(user=user) == (
        "server login failed: channel binding is required, but the server does not ask for SCRAM")
    pooler.wait_log("ERROR S-.* channel binding is required")


def test_make_userlist_over_tls(make_pooler, tls_pg, ca):
    pooler = make_pooler(start=False)
    text = "host=127.0.0.1 port=%d user=%s sslmode=verify-full sslrootcert=" % (
        tls_pg.port, postgres.SUPERUSER)
    code, out, err = pooler.run("--make-userlist", text + ca.file)
    assert code == 0 and '"scram_user" "SCRAM-SHA-256$' in out, err
    folder = waiting.scratch("certs")
    try:
        stranger = certs.Authority(folder, "stranger")
        code, out, err = pooler.run("--make-userlist", text + stranger.file)
        assert (code, out) == (1, "")
        assert re.search("TLS handshake error: .*certificate verify failed", err)
    finally:
        waiting.discard(folder)
