"""Client authentication (protocol.md 4)."""

import base64
import os
import re
import struct

import pytest

import codes
import wire

PLAIN = "open sesame 77"
USERS = {
    "p": PLAIN,
    "m": wire.md5_hash("m", PLAIN),
    "s": wire.ScramKeys(PLAIN).secret(),
    "empty": "",
    "admin_user": "admin secret 91c",
}


def guard(start, pg):
    def make(auth_type, **settings):
        return start({"db": pg.conn(user="trust_user")}, userlist=USERS,
                     settings=dict(settings, auth_type=auth_type))
    return make


@pytest.fixture
def guarded(make_pooler, pg):
    """guarded(auth_type) returns a pooler with a forced user, so that only client authentication
    matters."""
    return guard(make_pooler, pg)


@pytest.fixture
def guarded_shared(shared_pooler, pg):
    """The same, for cases that may have the same pooler one after the other."""
    return guard(shared_pooler, pg)


# the matrix of methods and secrets

WAYS = {
    ("trust", "p"): [0], ("trust", "m"): [0], ("trust", "s"): [0], ("trust", "empty"): [0],
    ("plain", "p"): [3, 0], ("plain", "m"): [3, 0], ("plain", "s"): [3, 0],
    ("md5", "p"): [5, 0], ("md5", "m"): [5, 0], ("md5", "s"): [10, 11, 12, 0],
    ("scram-sha-256", "p"): [10, 11, 12, 0], ("scram-sha-256", "s"): [10, 11, 12, 0],
}


@pytest.mark.parametrize("method, user", WAYS)
def test_right_password(guarded_shared, method, user):
    pooler = guarded_shared(method)
    with pooler.connect(user=user, secret=PLAIN) as client:
        assert client.auth_codes() == WAYS[method, user]
        assert client.value("select current_user") == "trust_user"
        assert pooler.show_one("CLIENTS", database="db")["user"] == user


FAILURE = {"plain": "password authentication failed", "md5": "password authentication failed",
           "scram-sha-256": "SASL authentication failed"}


@pytest.mark.parametrize("method", FAILURE)
@pytest.mark.parametrize("user", ["p", "m", "s", "empty", "unknown"])
@pytest.mark.parametrize("secret", ["wrong", "md5", PLAIN + "x", PLAIN[:-1]])
def test_wrong_password(guarded_shared, method, user, secret):
    pooler = guarded_shared(method)
    text = FAILURE[method]
    if method == "md5" and user == "s":
        text = "SASL authentication failed"
    client = pooler.client(user=user, secret=secret)
    with pytest.raises(wire.Refused) as refused:
        client.login()
    assert refused.value.message.raw() == wire.fields("E", codes.fatal(text))
    client.expect_closed()
    pooler.wait_log(r"closing because: %s \(age" % text)


@pytest.mark.parametrize("method", ["plain", "md5"])
def test_empty_password(guarded_shared, method):
    for user in ("p", "empty", "unknown"):
        client = guarded_shared(method).client(user=user)
        client.send(client.startup_packet())
        client.recv_kinds("R")
        client.send(wire.password(""))
        client.expect_fatal("empty password returned by client")


def test_the_hash_is_no_password(guarded_shared):
    assert guarded_shared("plain").refusal(user="m", secret=USERS["m"]) == FAILURE["plain"]
    assert guarded_shared("plain").refusal(user="s", secret=USERS["s"]) == FAILURE["plain"]


def test_md5_secret_cannot_do_scram(guarded):
    pooler = guarded("scram-sha-256")
    assert pooler.refusal(user="m", secret=PLAIN) == "SASL authentication failed"
    pooler.wait_log("ERROR .*SCRAM authentication failed: user has MD5 secret$")


def test_trust_needs_a_known_user(guarded):
    assert guarded("trust").refusal(user="unknown") == '"trust" authentication failed'


def test_any_lets_everyone_in(guarded):
    pooler = guarded("any")
    with pooler.connect(user="whoever") as client:
        assert client.auth_codes() == [0]
        assert client.value("select current_user") == "trust_user"
        assert pooler.show_one("CLIENTS", database="db")["user"] == "trust_user"


def test_any_needs_a_forced_user(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "any"})
    assert pooler.refusal(user="trust_user") == "bouncer config error"
    pooler.wait_log("ERROR .*auth_type=any requires forced user$")


# refusals do not reveal which users exist


def conversation(pooler, database, user, secret):
    """Returns what the pooler sends during a login, with salts and nonces blanked."""
    client = pooler.client(database, user, secret)
    try:
        client.login()
        return "in"
    except wire.Refused:
        told = []
        for m in client.login_messages:
            raw = m.raw()
            if m.kind == "R" and m.body[3] in (5, 11):
                raw = (raw[:9], len(raw))
            told.append(raw)
        return told
    finally:
        client.close()


@pytest.mark.parametrize("method", ["trust", "plain", "md5", "scram-sha-256"])
def test_unknown_names_look_alike(guarded, method):
    pooler = guarded(method)
    told = [conversation(pooler, database, user, "wrong")
            for database in ("db", "absent") for user in ("p", "unknown", "also unknown")]
    if method == "trust":  # trust believes a known user, and only then looks for the database.
        assert conversation(pooler, "db", "unknown", "") == conversation(pooler, "absent", "unknown", "")
        assert pooler.refusal("absent", "p") == "no such database: absent"
    else:
        assert all(t == told[0] for t in told), told


@pytest.mark.parametrize("method", ["plain", "md5", "scram-sha-256"])
def test_absent_database_is_told_after_authentication(guarded, method):
    pooler = guarded(method)
    assert pooler.refusal("absent", "p", PLAIN) == "no such database: absent"
    assert pooler.refusal("absent", "p", "wrong") == FAILURE[method]
    pooler.wait_log(r"LOG .*login failed: db=absent user=p$")


def test_unknown_user_is_logged(guarded):
    pooler = guarded("md5")
    pooler.refusal(user="unknown", secret="x")
    pooler.wait_log(r"LOG C-0x\S+ \S+ no such user: unknown$")


def scram_first(pooler, user):
    client = pooler.client(user=user)
    client.send(client.startup_packet())
    client.recv_kinds("R")
    client.send(wire.sasl_initial("SCRAM-SHA-256", "n,,n=,r=abcdef"))
    return dict(p.split("=", 1) for p in client.recv().body[4:].decode().split(","))


def test_mock_salt_is_steady(guarded):
    pooler = guarded("scram-sha-256", scram_iterations=5000)
    one, two, other = (scram_first(pooler, u) for u in ("ghost", "ghost", "other ghost"))
    assert one["s"] == two["s"] != other["s"]
    # those of users with a password, or of one whose secret is in the list
    assert len(base64.b64decode(one["s"])) == 16 and one["i"] == two["i"] in ("5000", "4096")
    real = scram_first(pooler, "p")
    assert real["s"] == scram_first(pooler, "p")["s"] and real["i"] == "5000"
    assert len(base64.b64decode(real["s"])) == 16
    for first in (one, real):
        assert first["r"].startswith("abcdef") and len(first["r"]) == 6 + 24


@pytest.mark.parametrize("shared", ["so_reuseport", "peer_id"])
def test_processes_behind_one_address_have_the_same_salts(guarded, shared):
    """Otherwise whoever connects twice learns whose salt is stored, and so who exists."""
    one, two = (guarded("scram-sha-256", **{shared: 1}) for _ in range(2))
    for name in ("ghost", "other ghost", "p"):
        assert scram_first(one, name)["s"] == scram_first(two, name)["s"]


def test_unknown_names_have_rounds_like_users(make_pooler, pg):
    """Otherwise a user with other rounds than most would be known by them."""
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, settings={"auth_type": "scram-sha-256"}, userlist={
        "u%d" % n: wire.ScramKeys(PLAIN, iterations=6000 + 1000 * (n % 2)).secret() for n in range(4)})
    ghosts = ["ghost %d" % n for n in range(40)]
    told = [scram_first(pooler, name)["i"] for name in ghosts]
    assert set(told) == {"6000", "7000"}
    assert told == [scram_first(pooler, name)["i"] for name in ghosts]


def test_md5_salts_differ(guarded):
    pooler = guarded("md5")
    salts = set()
    for _ in range(8):
        client = pooler.client(user="p")
        client.send(client.startup_packet())
        salts.add(client.recv().body[4:])
        client.close()
    assert len(salts) > 6


# details of SCRAM


def sasl_start(pooler, user="p"):
    client = pooler.client(user=user, secret=PLAIN)
    client.send(client.startup_packet())
    assert client.recv().raw() == wire.auth(10, b"SCRAM-SHA-256\0\0")
    return client


def test_wrong_mechanism(guarded):
    client = sasl_start(guarded("scram-sha-256"))
    client.send(wire.sasl_initial("SCRAM-SHA-1", "n,,n=,r=abc"))
    client.expect_fatal("client selected an invalid SASL authentication mechanism")


@pytest.mark.parametrize("gs2", ["n,,", "y,,"])
def test_gs2_flags_that_pass(guarded, gs2):
    client = sasl_start(guarded("scram-sha-256"))
    scram = wire.ScramClient(PLAIN, gs2=gs2, user="ignored")
    client.send(wire.sasl_initial("SCRAM-SHA-256", scram.first()))
    client.send(wire.message("p", scram.final(client.recv().body[4:].decode()).encode()))
    final = client.recv()
    assert final.body[:4] == b"\0\0\0\x0c" and scram.is_server_final(final.body[4:].decode())
    client.recv_until("Z")


BAD_FIRST = [
    "", "n", "n,", "n,,", "x,,n=,r=abc", "p=tls-unique,,n=,r=abc", "p=tls-server-end-point,,n=,r=abc",
    "n,a=someone,n=,r=abc", "n,,m=ext,n=,r=abc", "n,,n=", "n,,n=,r=a\x01b",
    "n,,n=,r=\xe9", "n,,n=,x=abc", "n,,n,r=abc", "," * 50, "n,,n=,r=" + "a" * 60000 + "\x01",
]


@pytest.mark.parametrize("first", BAD_FIRST, ids=range(len(BAD_FIRST)))
def test_bad_client_first(guarded_shared, first):
    pooler = guarded_shared("scram-sha-256")
    client = sasl_start(pooler)
    client.send(wire.sasl_initial("SCRAM-SHA-256", first.encode("latin1")))
    client.expect_fatal("SASL authentication failed")
    pooler.connect(user="p", secret=PLAIN).close()


@pytest.mark.parametrize("body", [
    b"", b"SCRAM-SHA-256", b"SCRAM-SHA-256\0", b"SCRAM-SHA-256\0\0\0", b"\0" * 8,
    b"SCRAM-SHA-256\0" + struct.pack("!i", 100) + b"n,,n=,r=abc",
    b"SCRAM-SHA-256\0" + struct.pack("!i", 3) + b"n,,n=,r=abc",
    b"SCRAM-SHA-256\0" + struct.pack("!i", -1),
    b"SCRAM-SHA-256\0" + struct.pack("!i", -2147483648) + b"n,,n=,r=abc",
    b"SCRAM-SHA-256\0" + struct.pack("!i", 2147483647) + b"n,,n=,r=abc",
], ids=range(10))
def test_bad_sasl_messages(guarded, body):
    pooler = guarded("scram-sha-256", client_login_timeout=1)
    client = sasl_start(pooler)
    client.send(wire.message("p", body))
    try:
        assert client.recv().field("S") == "FATAL"
    except wire.Closed:
        pass
    client.pending = b""
    client.expect_closed()
    pooler.connect(user="p", secret=PLAIN).close()


@pytest.mark.parametrize("spoil", ["proof", "short proof", "no proof", "nonce", "channel",
                                   "not base64", "empty", "long"])
def test_bad_client_final(guarded, spoil):
    pooler = guarded("scram-sha-256")
    client = sasl_start(pooler)
    scram = wire.ScramClient(PLAIN)
    client.send(wire.sasl_initial("SCRAM-SHA-256", scram.first()))
    first = client.recv().body[4:].decode()
    good = scram.final(first)
    bad = {
        "proof": scram.final(first, proof=os.urandom(32)),
        "short proof": scram.final(first, proof=b"abc"),
        "no proof": good.rsplit(",p=", 1)[0],
        "nonce": scram.final(first, nonce="other"),
        "channel": scram.final(first, channel="eSws"),
        "not base64": good.rsplit(",p=", 1)[0] + ",p=!!!!",
        "empty": "",
        "long": good + "A" * 70000,
    }[spoil]
    client.send(wire.message("p", bad.encode()))
    client.expect_fatal("SASL authentication failed")
    if spoil == "proof":
        pooler.wait_log(r"ERROR C-.* password authentication failed$")
    if spoil == "nonce":
        pooler.wait_log(r"ERROR C-.* invalid SCRAM response \(nonce does not match\)$")


def test_scram_byte_by_byte(guarded):
    pooler = guarded("scram-sha-256")
    client = pooler.client(user="s", secret=PLAIN)
    send = client.send
    client.send = lambda *parts: client.send_slowly(b"".join(parts))
    client.login()
    client.send = send
    assert client.value("select 1") == "1"


@pytest.mark.parametrize("secret", ["pass\u00adword", "\u2168 roman", "t\u00e9l\u00e9", "\u0420\u0443\u0441"])
def test_saslprep_with_a_real_client(make_pooler, pg, secret):
    """libpq prepares the password with SASLprep (RFC 4013), so the pooler has to do it, too."""
    import psycopg
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, settings={"auth_type": "scram-sha-256"},
                         userlist={"u": secret, "admin_user": "admin secret 91c"})
    with psycopg.connect(host=pooler.host, port=pooler.port, user="u", password=secret, dbname="db",
                         sslmode="disable") as conn:
        assert conn.execute("select 1").fetchone() == (1,)


def test_scram_length_of_iterations(make_pooler, pg):
    keys = wire.ScramKeys(PLAIN, iterations=9999)
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, settings={"auth_type": "scram-sha-256"},
                         userlist={"u": keys.secret(), "admin_user": "admin secret 91c"})
    pooler.connect(user="u", secret=PLAIN).close()
    assert scram_first(pooler, "u")["i"] == "9999"


@pytest.mark.parametrize("secret", [
    "md5" + "0" * 31, "md5" + "G" * 32, "md5" + "A" * 32, "SCRAM-SHA-256$4096:bad$x:y", "SCRAM-SHA-256$",
    "SCRAM-SHA-256$0:%s$%s:%s" % ("AAAA", "A" * 43 + "=", "A" * 43 + "=") + "x"])
def test_malformed_secret_matches_nothing(make_pooler, pg, secret):
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, settings={"auth_type": "plain"},
                         userlist={"admin_user": "admin secret 91c", "u": secret})
    pooler.wait_log('WARNING the secret of user "u" begins like an md5 or SCRAM-SHA-256 secret, but it is '
                    r"malformed: .*\n\t%s:\d+$" % re.escape(pooler.path("userlist.txt")))
    assert pooler.refusal(user="u", secret=secret) == FAILURE["plain"]
    for method in ("md5", "scram-sha-256"):
        pooler.change(auth_type=method)
        assert pooler.refusal(user="u", secret=secret) == FAILURE[method]


# after authentication


def test_disabled_database(guarded):
    pooler = guarded("md5")
    pooler.admin.query("DISABLE db")
    assert pooler.refusal(user="p", secret="wrong") == FAILURE["md5"]
    assert pooler.refusal(user="p", secret=PLAIN) == 'database "db" is disabled'


def test_login_attempt_is_logged_before_the_password(guarded):
    pooler = guarded("md5")
    client = pooler.client(user="p")
    client.send(client.startup_packet())
    client.recv_kinds("R")
    pooler.wait_log(r"LOG C-0x\S+ db/p@127\.0\.0\.1:\d+ login attempt: db=db user=p tls=no replication=no$")


def test_client_limits(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(max_db_client_connections=2), "free": pg.conn()},
                         users={"second_user": "max_user_client_connections=1"})
    held = [pooler.connect(), pooler.connect()]
    assert pooler.refusal() == "client connections exceeded (max_db_client_connections)"
    assert pooler.show_one("DATABASES", name="db")["current_client_connections"] == "2"
    held.append(pooler.connect("free", "second_user"))
    assert pooler.refusal("free", "second_user") == (
        "client connections exceeded (max_user_client_connections)")
    pooler.connect("free").close()
    for client in held:
        client.close()
    pooler.wait_pool(cl_active=0)
    pooler.connect().close()


def test_global_client_limits(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"max_user_client_connections": 1})
    held = pooler.connect()
    assert pooler.refusal() == "client connections exceeded (max_user_client_connections)"
    other = pooler.connect(user="second_user")
    pooler.change(max_user_client_connections=0, max_db_client_connections=2)
    assert pooler.refusal() == "client connections exceeded (max_db_client_connections)"
    held.close()
    other.close()


@pytest.mark.parametrize("limit", ["max_user_client_connections", "max_db_client_connections"])
def test_half_open_logins_use_up_no_limit(make_pooler, pg, limit):
    """A client that has not authenticated does not count towards the limits of a user or
    database."""
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, settings={"auth_type": "scram-sha-256", limit: 2},
                         userlist={"p": PLAIN, "admin_user": "admin secret 91c"})
    strangers = []
    for _ in range(5):
        strangers.append(pooler.client(user="p"))
        strangers[-1].send(strangers[-1].startup_packet())
        strangers[-1].recv_kinds("R")
    shown = {"max_user_client_connections": ("USERS", "p"), "max_db_client_connections": ("DATABASES", "db")}[limit]
    assert pooler.show_one(shown[0], name=shown[1])["current_client_connections"] == "0"
    held = [pooler.connect(user="p", secret=PLAIN) for _ in range(2)]
    assert pooler.show_one(shown[0], name=shown[1])["current_client_connections"] == "2"
    assert pooler.refusal(user="p", secret=PLAIN) == "client connections exceeded (%s)" % limit
    # Only an authenticated client is told that a limit was reached.
    assert pooler.refusal(user="p", secret="wrong") == "SASL authentication failed"
    for client in strangers + held:
        client.close()
    pooler.wait_pool(cl_active=0)
    pooler.connect(user="p", secret=PLAIN).close()


@pytest.mark.parametrize("database", ["db", "pgbouncer"])
@pytest.mark.parametrize("kind", ["plain", "md5", "scram"])
@pytest.mark.parametrize("method", ["plain", "md5", "scram-sha-256"])
def test_unknown_users_look_like_known_ones(make_pooler, pg, method, kind, database):
    make = {"plain": lambda user: PLAIN, "md5": lambda user: wire.md5_hash(user, PLAIN),
            "scram": lambda user: wire.ScramKeys(PLAIN).secret()}[kind]
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, settings={"auth_type": method}, userlist=dict(
        {user: make(user) for user in ("one", "two", "three")}, empty="", broken="md5123",
        admin_user="admin secret 91c"))
    known = conversation(pooler, database, "one", "wrong")
    for user in ("two", "unknown", "empty", "broken"):
        assert conversation(pooler, database, user, "wrong") == known, user


def test_nul_padded_and_strange_user_names(guarded):
    pooler = guarded("md5")
    for user in ("a\nb", "%s%n%p", "\xff\xfe", "a'b\"c\\", " "):
        assert pooler.refusal(user=user, secret="x") == FAILURE["md5"]
    assert re.search("%s%n%p", pooler.log())


# SQLSTATEs

STARTUPS = {
    "wrong password": {"user": "scram_user", "database": "postgres"},
    "unknown database": {"user": "trust_user", "database": "absent"},
    "no user": {"database": "postgres"},
    "unknown parameter": {"user": "trust_user", "database": "postgres", "nonsense": "1"},
    "broken options": {"user": "trust_user", "database": "postgres", "options": "-q"},
}


def refused_with(host, port, params, version=wire.PROTOCOL_3_0):
    client = wire.Client(host, port, params.get("user", "x"), params.get("database"), "wrong")
    with client, pytest.raises(wire.Refused) as refused:
        client.send(wire.startup(params, version))
        client.authenticate()
    return refused.value.code


@pytest.mark.parametrize("params", STARTUPS.values(), ids=STARTUPS)
def test_sqlstates_are_those_of_postgresql(make_pooler, pg, params):
    """Drivers and applications decide by them."""
    pooler = make_pooler({"postgres": pg.conn()}, start=False, settings={"auth_type": "hba"})
    pooler.settings["auth_hba_file"] = pooler.path("hba")
    pooler.write("hba", "host all scram_user all scram-sha-256\nhost all all all trust\n")
    pooler.start()
    assert refused_with("127.0.0.1", pooler.port, params) == refused_with("127.0.0.1", pg.port, params)


@pytest.mark.parametrize("method, code", [
    ("scram-sha-256", "28P01"), ("md5", "28P01"), ("plain", "28P01"), ("trust", "28000")])
def test_sqlstate_of_an_unknown_user(guarded, method, code):
    """With a password it is that of a wrong one, so that nobody learns who exists."""
    import psycopg
    pooler = guarded(method)
    assert refused_with("127.0.0.1", pooler.port, {"user": "nobody", "database": "db"}) == code
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect("host=127.0.0.1 port=%d user=nobody password=x dbname=db" % pooler.port)
    assert "authentication failed" in str(refused.value)


def test_sqlstates_of_limits_and_of_the_end(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1, max_db_client_connections=3)}, settings={
        "pool_mode": "transaction", "max_client_conn": 4})
    who = {"user": "trust_user", "database": "db"}
    with pooler.connect() as busy, pooler.connect() as waits, pooler.connect():
        assert refused_with("127.0.0.1", pooler.port, who) == "53300"
        busy.query("begin")
        waits.send(wire.query("select 1"))
        pooler.wait_pool(cl_waiting=1)
        pooler.admin.query("SHUTDOWN WAIT_FOR_SERVERS")
        waits.expect_fatal("server shutting down")
        busy.query("rollback")
