"""TLS towards clients: when it is used, which clients are accepted, what the console shows."""

import re
import socket
import ssl

import psycopg
import pytest

import certs
import waiting
import wire


@pytest.fixture(scope="module")
def ca():
    folder = waiting.scratch("certs")
    authority = certs.Authority(folder)
    authority.server = authority.issue("server", "localhost", ["localhost", "127.0.0.1"])
    authority.client = authority.issue("client", "trust_user")
    yield authority
    waiting.discard(folder)


@pytest.fixture(scope="module")
def stranger():
    """A certificate authority that the pooler does not trust."""
    folder = waiting.scratch("certs")
    yield certs.Authority(folder, "stranger")
    waiting.discard(folder)


@pytest.fixture
def tls_pooler(make_pooler, pg, ca):
    def make(mode="require", **settings):
        return make_pooler({"db": pg.conn()}, settings={
            "client_tls_sslmode": mode, "client_tls_cert_file": ca.server.cert_file,
            "client_tls_key_file": ca.server.key_file, "client_tls_ca_file": ca.file,
            "pool_mode": "transaction", **settings})
    return make


def context(ca, client=None, alpn=None, version=None):
    made = ssl.create_default_context(cafile=ca.file)
    if client:
        made.load_cert_chain(client.cert_file, client.key_file)
    if alpn:
        made.set_alpn_protocols(alpn)
    if version:
        made.minimum_version = made.maximum_version = version
    return made


def ask(raw):
    raw.send(wire.ssl_request())
    return raw.recv_exact(1)


def secured(pooler, made, user="trust_user", database="db", secret=None, direct=False):
    """Returns a client with TLS that is not logged in."""
    client = pooler.client(database, user, secret)
    if not direct:
        assert ask(client) == b"S"
    client.sock = made.wrap_socket(client.sock, server_hostname="localhost")
    return client


def libpq(pooler, ca, user="trust_user", **more):
    options = dict(host="localhost", hostaddr=pooler.host, port=pooler.port, user=user, dbname="db",
                   password=pooler.userlist.get(user) or "", sslmode="verify-full",
                   sslrootcert=ca.file, gssencmode="disable", connect_timeout=90)
    options.update(more)
    return psycopg.connect(autocommit=True, prepare_threshold=None, **options)


def test_libpq_verifies_us(tls_pooler, ca):
    pooler = tls_pooler()
    with libpq(pooler, ca) as conn:
        assert conn.execute("select 40 + 2").fetchone() == (42,)
        assert conn.pgconn.ssl_in_use


@pytest.mark.parametrize("mode, answer", [("disable", b"N"), ("allow", b"S"), ("prefer", b"S"),
                                          ("require", b"S")])
def test_ssl_request_is_answered_by_mode(tls_pooler, mode, answer):
    pooler = tls_pooler(mode)
    with pooler.raw() as raw:
        assert ask(raw) == answer
    with pooler.raw(unix=True) as raw:
        assert ask(raw) == b"N"


def test_optional_tls_lets_plain_clients_in(tls_pooler):
    pooler = tls_pooler("prefer")
    with pooler.connect() as client:
        assert client.query("select 1").value == "1"


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_required_tls_refuses_plain_clients(tls_pooler, mode):
    pooler = tls_pooler(mode)
    assert pooler.refusal() == "SSL required"
    with pooler.connect(unix=True) as client:  # A unix socket never needs TLS.
        assert client.query("select 1").value == "1"


@pytest.mark.parametrize("version, shown", [
    (ssl.TLSVersion.TLSv1_2, "TLSv1.2/"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3/TLS_")])
def test_what_was_negotiated_is_shown(tls_pooler, ca, version, shown):
    pooler = tls_pooler()
    made = context(ca, version=version)
    with secured(pooler, made) as client:
        client.login()
        cipher = client.sock.cipher()[0]
        row = pooler_clients(pooler, ca)[0]
        assert row["tls"].startswith(shown) and cipher in row["tls"], row["tls"]
        pooler.wait_log(r"login attempt: db=db user=trust_user tls=%s\S+ replication=no"
                        % shown.replace(".", r"\."))


def pooler_clients(pooler, ca):
    """Returns the rows of `db` in SHOW CLIENTS, read over the unix socket."""
    with pooler.connect("pgbouncer", "admin_user", unix=True) as console:
        return [r for r in console.query("SHOW CLIENTS").dicts() if r["database"] == "db"]


def test_big_results_and_queries(tls_pooler, ca):
    pooler = tls_pooler()
    with libpq(pooler, ca) as conn:
        text = conn.execute("select repeat('x', 5000000)").fetchone()[0]
        assert len(text) == 5000000
        assert conn.execute("select length(%s)", ("y" * 3000000,)).fetchone() == (3000000,)
        rows = conn.execute("select g, repeat('z', 100) from generate_series(1, 50000) g").fetchall()
        assert len(rows) == 50000


def test_bytes_in_clear_behind_the_request_are_refused(tls_pooler):
    pooler = tls_pooler()
    with pooler.raw() as raw:
        raw.send(wire.ssl_request() + wire.startup({"user": "trust_user", "database": "db"}))
        raw.expect_fatal("received unencrypted data after SSL request")
    with pooler.raw() as raw:
        raw.send(wire.gssenc_request() + wire.ssl_request())
        raw.expect_fatal("received unencrypted data after GSSAPI encryption request")


def test_bytes_in_clear_behind_the_answer_are_never_believed(tls_pooler):
    """A startup packet in clear text after the S is no TLS handshake."""
    pooler = tls_pooler()
    with pooler.raw() as raw:
        assert ask(raw) == b"S"
        raw.send(wire.startup({"user": "trust_user", "database": "db"}))
        with pytest.raises((wire.Closed, AssertionError)):
            # The pooler may send a TLS alert, but never a message of the protocol.
            message = raw.recv()
            assert message.kind not in ("R", "E"), message
    pooler.wait_log("TLS handshake error: ")
    assert "login attempt" not in pooler.log()


def test_second_request_inside_tls(tls_pooler, ca):
    pooler = tls_pooler()
    with secured(pooler, context(ca)) as client:
        client.send(wire.ssl_request())
        client.expect_closed()
    pooler.wait_log(r"LOG C-0x\w+: \S+ closing because: SSL req inside SSL \(age=0s\)$")
    with secured(pooler, context(ca)) as client:
        client.send(wire.gssenc_request())
        assert client.recv_exact(1) == b"N"
        assert client.login().query("select 1").value == "1"


def test_gss_request_then_ssl_request(tls_pooler, ca):
    pooler = tls_pooler()
    client = pooler.client()
    client.send(wire.gssenc_request())
    assert client.recv_exact(1) == b"N"
    assert ask(client) == b"S"
    client.sock = context(ca).wrap_socket(client.sock, server_hostname="localhost")
    with client:
        assert client.login().query("select 1").value == "1"


# direct TLS


def test_direct_tls(tls_pooler, ca):
    pooler = tls_pooler()
    with secured(pooler, context(ca, alpn=["postgresql"]), direct=True) as client:
        assert client.sock.selected_alpn_protocol() == "postgresql"
        assert client.login().query("select 1").value == "1"


def test_direct_tls_by_libpq(tls_pooler, ca):
    pooler = tls_pooler()
    if psycopg.pq.version() < 170000:
        pytest.skip("libpq %d knows no direct TLS" % psycopg.pq.version())
    with libpq(pooler, ca, sslnegotiation="direct") as conn:
        assert conn.execute("select 1").fetchone() == (1,)


def test_direct_tls_without_alpn(tls_pooler, ca):
    with secured(tls_pooler(), context(ca), direct=True) as client:
        assert client.login().query("select 1").value == "1"


def test_direct_tls_with_another_protocol_only(tls_pooler, ca):
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secured(tls_pooler(), context(ca, alpn=["http/1.1"]), direct=True)


def test_direct_tls_where_there_is_none(tls_pooler, ca):
    pooler = tls_pooler("disable")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secured(pooler, context(ca), direct=True)
    with pooler.connect() as client:
        assert client.query("select 1").value == "1"


def test_handshake_byte_by_byte(tls_pooler, ca):
    pooler = tls_pooler()
    raw = pooler.raw()
    raw.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context(ca).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with raw:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw.send_slowly(outgoing.read())
                incoming.write(raw.sock.recv(65536))
        tls.write(wire.startup({"user": "trust_user", "database": "db"}))
        raw.send_slowly(outgoing.read())
        seen = b""
        while not seen.endswith(b"Z\0\0\0\5I"):
            try:
                seen += tls.read(65536)
            except ssl.SSLWantReadError:
                incoming.write(raw.sock.recv(65536))


# client certificates


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
def test_client_without_certificate_is_refused(tls_pooler, ca, mode):
    pooler = tls_pooler(mode)
    with pytest.raises(psycopg.OperationalError):
        libpq(pooler, ca, sslcert="/nonexistent", sslkey="/nonexistent")
    pooler.wait_log(r" WARNING C-0x\S+: \(nodb\)/\(nouser\)@127.0.0.1:\d+ TLS handshake error: .*peer did not return a certificate")
    with libpq(pooler, ca, sslcert=ca.client.cert_file, sslkey=ca.client.key_file) as conn:
        assert conn.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize("mode", ["prefer", "require", "verify-ca"])
def test_certificate_of_a_stranger_is_refused(tls_pooler, ca, stranger, mode):
    pooler = tls_pooler(mode)
    forged = stranger.issue("forged", "trust_user")
    with pytest.raises(psycopg.OperationalError):
        libpq(pooler, ca, sslcert=forged.cert_file, sslkey=forged.key_file)
    pooler.wait_log("TLS handshake error: .*certificate verify failed")


def test_expired_certificate_is_refused(tls_pooler, ca):
    pooler = tls_pooler("verify-ca")
    old = ca.issue("old", "trust_user", days=-2)
    with pytest.raises(psycopg.OperationalError):
        libpq(pooler, ca, sslcert=old.cert_file, sslkey=old.key_file)
    pooler.wait_log("TLS handshake error: .*expired")


def test_revoked_certificate_is_refused(tls_pooler, ca):
    gone = ca.issue("gone", "trust_user")
    pooler = tls_pooler("verify-ca", client_tls_crl_file=ca.revoke(gone))
    with pytest.raises(psycopg.OperationalError):
        libpq(pooler, ca, sslcert=gone.cert_file, sslkey=gone.key_file)
    pooler.wait_log("TLS handshake error: .*revoked")
    with libpq(pooler, ca, sslcert=ca.client.cert_file, sslkey=ca.client.key_file) as conn:
        assert conn.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize("name", ["TRUST_USER", "Trust_user", "*", "*_user", "trust_*", "*.trust_user", "trust_user.",
                                  "trust_user ", " trust_user", "x.trust_user", "trust_user,CN=x"])
def test_names_of_certificates_are_no_host_names(tls_pooler, ca, name):
    """A name is compared letter by letter, also if it is an alternative one."""
    pooler = tls_pooler("verify-full", auth_type="cert")
    other = ca.issue("other", name, [] if "," in name or " " in name else [name])
    with pytest.raises(psycopg.OperationalError, match="certificate authentication failed"):
        libpq(pooler, ca, sslcert=other.cert_file, sslkey=other.key_file)
    with libpq(pooler, ca, sslcert=ca.client.cert_file, sslkey=ca.client.key_file) as conn:
        assert conn.execute("select 1").fetchone() == (1,)


# protocol versions and ciphers


def test_protocols(tls_pooler, ca):
    pooler = tls_pooler(client_tls_protocols="tlsv1.2")
    with secured(pooler, context(ca)) as client:
        assert client.sock.version() == "TLSv1.2"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secured(pooler, context(ca, version=ssl.TLSVersion.TLSv1_3))


def test_ciphers(tls_pooler, ca):
    pooler = tls_pooler(client_tls_ciphers="ECDHE-ECDSA-AES128-GCM-SHA256",
                        client_tls13_ciphers="TLS_CHACHA20_POLY1305_SHA256")
    with secured(pooler, context(ca, version=ssl.TLSVersion.TLSv1_2)) as client:
        assert client.sock.cipher()[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"
    with secured(pooler, context(ca, version=ssl.TLSVersion.TLSv1_3)) as client:
        assert client.sock.cipher()[0] == "TLS_CHACHA20_POLY1305_SHA256"


def test_session_is_resumed(tls_pooler, ca):
    pooler = tls_pooler()
    made = context(ca, version=ssl.TLSVersion.TLSv1_2)
    with secured(pooler, made) as client:
        client.login()
        session = client.sock.session
    again = pooler.client()
    assert ask(again) == b"S"
    again.sock = made.wrap_socket(again.sock, server_hostname="localhost", session=session)
    with again:
        assert again.sock.session_reused
        assert again.login().query("select 1").value == "1"


# reload


def test_new_certificate_by_reload(tls_pooler, ca, stranger):
    pooler = tls_pooler()
    own = certs.Pair(ca.folder, "moving", ca.server.certificate, ca.server.key)
    pooler.settings.update(client_tls_cert_file=own.cert_file, client_tls_key_file=own.key_file)
    pooler.write_files()
    pooler.signal("HUP")
    pooler.wait_log("re-reading config")
    with libpq(pooler, ca) as kept:
        own.write(stranger.issue("next", "localhost", ["localhost"]))
        mark = pooler.mark()
        pooler.signal("HUP")
        pooler.wait_log("re-reading config", mark)
        waiting.wait_for(lambda: is_believed(pooler, stranger), "the new certificate is shown")
        assert not is_believed(pooler, ca)
        assert kept.execute("select 1").fetchone() == (1,)  # The old connection stays usable.


def is_believed(pooler, authority):
    try:
        with libpq(pooler, authority):
            return True
    except psycopg.OperationalError:
        return False


def test_new_certificate_by_itself(tls_pooler, ca, stranger):
    own = certs.Pair(ca.folder, "watched", ca.server.certificate, ca.server.key)
    pooler = tls_pooler(client_tls_cert_file=own.cert_file, client_tls_key_file=own.key_file,
                        tls_reload_period="0.05")
    assert is_believed(pooler, ca)
    own.write(stranger.issue("next", "localhost", ["localhost"]))
    waiting.wait_for(lambda: is_believed(pooler, stranger), "the new certificate is shown")
    pooler.wait_log("certificate files have changed, using them")


def test_broken_certificate_changes_nothing(tls_pooler, ca):
    own = certs.Pair(ca.folder, "breaking", ca.server.certificate, ca.server.key)
    pooler = tls_pooler("prefer", client_tls_cert_file=own.cert_file,
                        client_tls_key_file=own.key_file)
    with open(own.cert_file, "w") as out:
        out.write("no certificate\n")
    error = pooler.admin.query("RELOAD", check=False).errors[0]
    assert error.text() == "RELOAD failed, see logs for additional details"
    pooler.wait_log("ERROR TLS setup failed: failed to load certificate file \"%s\"" % own.cert_file)
    pooler.wait_log("ERROR TLS configuration could not be reloaded, keeping old configuration")
    assert is_believed(pooler, ca)


def test_set_of_tls_settings(tls_pooler, ca):
    pooler = tls_pooler("prefer")
    result = pooler.admin.query("SET client_tls_cert_file = '/nonexistent'")
    assert result.notices[0].text() == ("TLS settings could not be applied, still using old "
                                        "configuration")
    assert result.tag == "SET client_tls_cert_file=/nonexistent"
    assert pooler.config()["client_tls_cert_file"] == "/nonexistent"
    assert is_believed(pooler, ca)
    pooler.set("client_tls_cert_file", ca.server.cert_file)
    # without a file every certificate of a public authority would be taken
    pooler.set("client_tls_ca_file", "")
    result = pooler.admin.query("SET client_tls_sslmode = 'verify-ca'")
    assert result.notices[0].text() == ("TLS settings could not be applied, still using old "
                                        "configuration")
    assert is_believed(pooler, ca)
    pooler.set("client_tls_sslmode", "require")
    assert pooler.refusal() == "SSL required"


# impossible settings


@pytest.mark.parametrize("settings, text", [
    ({"client_tls_key_file": ""}, "To allow TLS connections from clients, client_tls_key_file and "
     "client_tls_cert_file must be set."),
    ({"client_tls_protocols": "tlsv9"}, "invalid client_tls_protocols: tlsv9"),
    ({"client_tls_ciphers": "nonsense"}, "invalid client_tls_ciphers: nonsense"),
    ({"client_tls_dheparams": "x"}, "invalid client_tls_dheparams: x"),
    ({"client_tls_ecdhcurve": "x"}, "invalid client_tls_ecdhecurve: x"),
    ({"client_tls13_ciphers": "nonsense"}, "TLS setup failed: failed to set the TLSv1.3 cipher suites"),
    ({"client_tls_ca_file": "/nonexistent"}, "TLS setup failed: failed to load CA: "),
    ({"client_tls_cert_file": "/nonexistent"},
     'TLS setup failed: failed to load certificate file "/nonexistent": '),
    ({"client_tls_sslmode": "verify-full", "client_tls_ca_file": ""},
     "client_tls_sslmode requires client_tls_ca_file"),
    ({"client_tls_sslmode": "verify-ca", "client_tls_ca_file": ""},
     "client_tls_sslmode requires client_tls_ca_file"),
    ({"auth_type": "cert"}, "auth_type=cert requires client_tls_sslmode=SSLMODE_VERIFY_FULL"),
    ({"auth_type": "cert", "client_tls_sslmode": "verify-full", "client_tls_ca_file": ""},
     "auth_type=cert requires client_tls_ca_file"),
])
def test_impossible_settings_stop_the_start(make_pooler, ca, settings, text):
    pooler = make_pooler({"db": "host=127.0.0.1"}, start=False, settings={
        "client_tls_sslmode": "require", "client_tls_cert_file": ca.server.cert_file,
        "client_tls_key_file": ca.server.key_file, "client_tls_ca_file": ca.file, **settings})
    code, _, err = pooler.run_ini()
    assert code == 1
    assert "ERROR " + text in err, err
    assert re.search("FATAL TLS setup failed$", err, re.M), err
    code, out, err = pooler.run_ini(None, "-t")
    assert code == 1 and text in out, (out, err)


def test_impossible_settings_at_a_reload(tls_pooler):
    pooler = tls_pooler("require")
    pooler.console(unix=True)
    pooler.settings["client_tls_key_file"] = ""
    pooler.write_files()
    assert pooler.admin.query("RELOAD", check=False).errors[0].field("C") == "F0000"
    pooler.wait_log("ERROR To allow TLS connections from clients, client_tls_key_file and client_tls_cert_file")
    pooler.wait_log("ERROR TLS configuration could not be reloaded, keeping old configuration$")


def test_rules_for_certificates_need_an_authority(make_pooler, ca):
    """Without an authority file, every certificate of a public authority would be trusted."""
    pooler = make_pooler({"db": "host=127.0.0.1"}, start=False, settings={
        "client_tls_sslmode": "prefer", "client_tls_cert_file": ca.server.cert_file,
        "client_tls_key_file": ca.server.key_file, "auth_type": "hba"})
    pooler.settings["auth_hba_file"] = pooler.path("hba")
    pooler.write("hba", "host all admin_user all trust\nhostssl all all all cert\n")
    text = "the method cert requires client_tls_ca_file"
    code, _, err = pooler.run_ini()
    assert code == 1 and "ERROR %s\n\t%s:2\n" % (text, pooler.path("hba")) in err, err
    code, out, _ = pooler.run_ini(None, "-t")
    assert code == 1 and "%s:2: %s\n" % (pooler.path("hba"), text) in out, out
    pooler.settings["client_tls_ca_file"] = ca.file
    pooler.start()
    pooler.settings["client_tls_ca_file"] = ""
    pooler.write_files()
    mark = pooler.mark()
    assert pooler.admin.query("RELOAD", check=False).errors
    pooler.wait_log("ERROR " + text, mark)
    assert pooler.admin.query("SET client_tls_ca_file = ''", check=False).errors
    assert pooler.config()["client_tls_ca_file"] == ca.file


def test_key_of_another_certificate(make_pooler, ca):
    pooler = make_pooler({"db": "host=127.0.0.1"}, start=False, settings={
        "client_tls_sslmode": "require", "client_tls_cert_file": ca.server.cert_file,
        "client_tls_key_file": ca.client.key_file})
    code, _, err = pooler.run_ini()
    assert code == 1 and "private/public key mismatch" in err, err
    for option in ("--check-config", "--explain-config"):
        code, out, _ = pooler.run_ini(None, option)
        assert code == 1 and re.search(r"^\S+pgbouncer.ini:\d+: .*private/public key mismatch", out, re.M), out


def test_plain_end_of_tls_client_is_no_warning(tls_pooler, ca):
    pooler = tls_pooler()
    client = secured(pooler, context(ca)).login()
    mark = pooler.mark()
    socket.socket(fileno=client.sock.detach()).close()
    pooler.wait_log("closing because: client unexpected eof", mark)
    assert "WARNING" not in pooler.log_since(mark)


# channel binding

BOUND = {"p": "bound secret 17", "s": wire.ScramKeys("bound secret 17").secret(), "admin_user": "admin secret 91c"}
REQUIRED = "channel binding is required"


@pytest.fixture
def bound(make_pooler, pg, ca):
    def make(mode, **settings):
        return make_pooler({"db": pg.conn(user="trust_user")}, userlist=BOUND, settings={
            "client_tls_sslmode": "prefer", "client_tls_cert_file": ca.server.cert_file,
            "client_tls_key_file": ca.server.key_file, "auth_type": "scram-sha-256",
            "client_channel_binding": mode, **settings})
    return make


@pytest.mark.parametrize("user", ["p", "s"])
@pytest.mark.parametrize("ours, theirs, works", [
    ("prefer", "require", True), ("prefer", "prefer", True), ("prefer", "disable", True),
    ("require", "require", True), ("require", "prefer", True), ("require", "disable", False),
    ("disable", "prefer", True), ("disable", "disable", True), ("disable", "require", False)])
def test_channel_binding_with_libpq(bound, ca, ours, theirs, works, user):
    pooler = bound(ours)
    options = dict(password="bound secret 17", channel_binding=theirs)
    if works:
        with libpq(pooler, ca, user, **options) as conn:
            assert conn.execute("select 1").fetchone() == (1,)
        options["password"] = "wrong"
    with pytest.raises(psycopg.OperationalError):
        libpq(pooler, ca, user, **options)


def test_offer_is_by_connection(bound, ca):
    pooler = bound("prefer")
    plus = wire.auth(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0")
    with secured(pooler, context(ca), "p") as client:
        client.send(client.startup_packet())
        assert client.recv().raw() == plus
    with pooler.client(user="p") as client:
        client.send(client.startup_packet())
        assert client.recv().raw() == wire.auth(10, b"SCRAM-SHA-256\0\0")


def test_taken_away_offer_is_noticed(bound, ca):
    """The client supports binding and was told that the pooler does not, so there is an attacker in
    the middle."""
    pooler = bound("prefer")
    client = secured(pooler, context(ca), "p", secret="bound secret 17")
    with client:
        client.send(client.startup_packet())
        client.recv_kinds("R")
        client.send(wire.sasl_initial("SCRAM-SHA-256", "y,,n=,r=abcdefghijkl"))
        client.expect_fatal("SASL authentication failed")


def test_required_binding_leaves_no_other_way(bound, ca):
    pooler = bound("require")
    secret = "bound secret 17"
    assert pooler.refusal(user="p", secret=secret) == REQUIRED
    pooler.connect(user="p", secret=secret, unix=True).close()
    with pooler.connect("pgbouncer", "admin_user", unix=True) as console:
        console.query("SET auth_type = plain")
    for made in (None, context(ca)):
        client = secured(pooler, made, "p", secret=secret) if made else pooler.client(user="p", secret=secret)
        with client, pytest.raises(wire.Refused) as refused:
            client.login()
        assert refused.value.text == REQUIRED
