"""Method x secret x user x database x TLS: the answers that libpq and the tests' own client get."""

import ssl

import psycopg
import pytest

import certs
import codes
import waiting
import wire

PLAIN = "matrix secret 26"
USERS = {"p": PLAIN, "m": wire.md5_hash("m", PLAIN), "s": wire.ScramKeys(PLAIN).secret(), "empty": "",
         "admin_user": "admin secret 91c"}
METHODS = ("trust", "password", "md5", "scram-sha-256", "cert", "peer", "reject", "ldap")
FAILURE = {
    "trust": '"trust" authentication failed', "password": "password authentication failed",
    "md5": "password authentication failed", "scram-sha-256": "SASL authentication failed",
    "cert": "certificate authentication failed", "peer": "unix socket login rejected",
    "reject": "login rejected", "ldap": "LDAP authentication failed",
}


@pytest.fixture(scope="module")
def ca():
    folder = waiting.scratch("certs")
    authority = certs.Authority(folder)
    authority.server = authority.issue("server", "localhost", ["localhost", "127.0.0.1"])
    authority.clients = {user: authority.issue(user, user) for user in (*USERS, "unknown")}
    yield authority
    waiting.discard(folder)


@pytest.fixture
def pooler(make_pooler, pg, ca):
    """Database `db` uses the method under test. `plain` allows only connections without TLS, `tls`
    only those with it."""
    def make(method, extra=""):
        made = make_pooler({name: pg.conn(user="trust_user") for name in ("db", "plain", "tls")},
                           userlist=USERS, start=False)
        made.settings.update({
            "auth_type": "hba", "auth_hba_file": made.path("hba"), "auth_ident_file": made.path("ident"),
            "client_tls_sslmode": "prefer", "client_tls_cert_file": ca.server.cert_file,
            "client_tls_key_file": ca.server.key_file, "client_tls_ca_file": ca.file})
        made.write("ident", "m p m\nm s all\nm /^empty$ p\n")
        made.write("hba", "host pgbouncer admin_user all md5\nhostnossl plain all all trust\n"
                   "hostssl tls all all trust\nhost plain,tls all all reject\n"
                   "host db,absent all all %s %s\n" % (method, extra))
        return made.start()
    return make


def expected(method, user, secret, database, has_cert):
    """Returns the text of the refusal, or None."""
    exists, right = user in USERS, secret == PLAIN
    if method in ("reject", "peer", "ldap"):
        return FAILURE[method]
    if method == "trust":
        proven = exists
    elif method == "cert":
        proven = exists and has_cert
    elif method == "md5" and user == "s":
        proven, method = right, "scram-sha-256"
    elif method == "scram-sha-256" and user == "m":
        proven = False
    else:
        proven = exists and right and user != "empty"
    if not proven:
        return FAILURE[method]
    return "no such database: absent" if database == "absent" else None


def by_wire(pooler, ca, user, secret, database, is_tls, with_cert):
    """Returns the exact refusal that the tests' own client gets, or None when it is logged in."""
    client = pooler.client(database, user, secret)
    with client:
        if is_tls:
            made = ssl.create_default_context(cafile=ca.file)
            if with_cert:
                pair = ca.clients[user]
                made.load_cert_chain(pair.cert_file, pair.key_file)
            client.send(wire.ssl_request())
            assert client.recv_exact(1) == b"S"
            client.sock = made.wrap_socket(client.sock, server_hostname="localhost")
        try:
            client.login()
        except wire.Refused as refused:
            client.expect_closed()
            return refused.message.raw()
        assert client.value("select 1") == "1"


def by_libpq(pooler, ca, user, secret, database, is_tls, with_cert):
    """Returns the refusal as libpq reports it, or None when it is logged in."""
    options = dict(host="localhost", hostaddr=pooler.host, port=pooler.port, user=user, dbname=database,
                   password=secret, gssencmode="disable", connect_timeout=90, channel_binding="disable",
                   sslmode="verify-full" if is_tls else "disable", sslrootcert=ca.file, sslcert="", sslkey="")
    if with_cert:
        pair = ca.clients[user]
        options.update(sslcert=pair.cert_file, sslkey=pair.key_file)
    try:
        with psycopg.connect(autocommit=True, **options) as conn:
            assert conn.execute("select 1").fetchone() == (1,)
    except psycopg.OperationalError as error:
        return str(error)


@pytest.mark.parametrize("method", METHODS)
def test_matrix(pooler, ca, method):
    made = pooler(method, "ldapserver=127.0.0.1 ldapport=1 ldapprefix=x" if method == "ldap" else "")
    for user in ("p", "m", "s", "empty", "unknown"):
        for database in ("db", "absent"):
            for secret in (PLAIN, "wrong"):
                for is_tls, with_cert in ((False, False), (True, False), (True, True)):
                    if with_cert and method != "cert":
                        continue
                    if secret == "wrong" and method in ("trust", "cert", "reject", "peer"):
                        continue
                    what = (user, secret, database, is_tls, with_cert)
                    text = expected(method, user, secret, database, with_cert)
                    assert by_wire(made, ca, *what) == (
                        text and wire.fields("E", codes.fatal(text))), what
                    told = by_libpq(made, ca, *what)
                    assert (told is None) == (text is None) and (text or "") in (told or ""), (what, told)


def test_rules_for_tls_and_for_none(pooler, ca):
    made = pooler("md5")
    for database, is_tls in (("plain", False), ("tls", True)):
        for tls in (False, True):
            told = by_wire(made, ca, "p", "x", database, tls, False)
            assert told == (None if tls == is_tls else wire.fields("E", codes.fatal("login rejected")))


def test_certificates_by_map(pooler, ca):
    """The map gives the names in certificates: p may log in as m, s as any user, and a regular
    expression covers one user."""
    made = pooler("cert", "map=m")
    for name, user, may in (("p", "m", True), ("p", "p", False), ("s", "s", True), ("m", "m", False),
                            ("s", "p", True), ("empty", "p", True), ("empty", "m", False)):
        swapped = dict(ca.clients)
        swapped[user] = ca.clients[name]

        class As:
            clients, file = swapped, ca.file
        told = by_wire(made, As, user, "x", "db", True, True)
        assert told == (None if may else wire.fields("E", codes.fatal(FAILURE["cert"]))), (name, user)
    made.wait_log(r" ERROR C-0x\S+: db/m@\S+ ident map: m does not have a match$")


def test_explained_with_tls(pooler):
    made = pooler("md5")
    told = dict(made.admin.query("EXPLAIN LOGIN p tls 192.0.2.1").rows)
    assert told["method with TLS"] == "trust" and told["method"] == "reject"
    assert told["rule with TLS"] == "%s:3: hostssl tls all all trust" % made.path("hba")


def test_cert_for_everybody(make_pooler, pg, ca):
    made = make_pooler({"db": pg.conn(user="trust_user")}, userlist=USERS, settings={
        "auth_type": "cert", "client_tls_sslmode": "verify-full", "client_tls_ca_file": ca.file,
        "client_tls_cert_file": ca.server.cert_file, "client_tls_key_file": ca.server.key_file})
    assert by_wire(made, ca, "p", "", "db", True, True) is None
    assert by_libpq(made, ca, "unknown", "", "db", True, True).endswith(FAILURE["cert"])
    made.wait_log(r" ERROR C-0x\S+: \(nodb\)/unknown@\S+ TLS certificate name mismatch$")
    assert by_wire(made, ca, "p", "", "db", False, False) == wire.fields("E", codes.fatal("SSL required"))
