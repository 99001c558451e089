"""Clients that log in with OAuth tokens (RFC 7628, PostgreSQL 18), and servers that ask for them."""

import json
import os
import re
import ssl
import subprocess
import sys
import threading
import time

import pytest

try:
    import psycopg
except ImportError:
    psycopg = None

import certs
import fakeserver
import issuer as issuers
import keeper
import postgres
import toolchain
import waiting
import wire
from test_tls_clients import context, secured

FAILED = "OAuth bearer authentication failed"
ADMIN = "admin secret 7c1e"


@pytest.fixture(scope="module")
def ca():
    folder = waiting.scratch("certs")
    authority = certs.Authority(folder)
    authority.server = authority.issue("server", "localhost", ["localhost", "127.0.0.1"])
    yield authority
    waiting.discard(folder)


@pytest.fixture
def issuer(ca):
    made = issuers.Issuer(ca.server)
    yield made
    made.is_hanging.clear()
    made.go()


@pytest.fixture
def stopped(make_pooler, pg, ca, issuer):
    """stopped(rules=None, **settings) returns a pooler that is not started; with rules its auth_type
    is hba."""
    def make(rules=None, database=None, ident="", **settings):
        pooler = make_pooler({"db": database or pg.conn(user="trust_user")}, start=False,
                             userlist={"admin_user": ADMIN})
        settings = {
            "client_tls_sslmode": "allow", "client_tls_cert_file": ca.server.cert_file,
            "client_tls_key_file": ca.server.key_file, "oauth_ca_file": ca.file,
            "oauth_audience": "other " + issuers.AUDIENCE, "admin_users": "admin_user", "auth_type": "hba", **settings}
        if settings["auth_type"] == "oauth":
            settings.setdefault("oauth_issuer", issuer.name)
            settings.setdefault("oauth_scope", issuers.SCOPE)
        else:
            rules = rules or rule(issuer)
            settings.update(auth_hba_file=pooler.path("hba"), auth_ident_file=pooler.path("ident"))
            pooler.write("hba", "host pgbouncer admin_user all md5\n" + rules)
            pooler.write("ident", ident or "unused a b\n")
        pooler.settings.update(settings)
        return pooler
    return make


@pytest.fixture
def tokened(stopped):
    return lambda *args, **more: stopped(*args, **more).start()


def rule(issuer, more="", scope=issuers.SCOPE):
    return 'hostssl all all all oauth issuer="%s" scope="%s" %s\n' % (issuer.name, scope, more)


class Login:
    """A raw client that logs in with a token; None asks where to get one."""

    def __init__(self, pooler, ca, token, user="trust_user", database="db", send=True):
        self.client = secured(pooler, context(ca), user, database)
        self.client.send(self.client.startup_packet())
        self.offer = self.client.recv()
        if send:
            self.client.send(wire.sasl_initial("OAUTHBEARER", issuers.first_message(token)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def succeed(self):
        assert self.client.recv().raw() == wire.auth(0)
        self.client.finish()
        return self.client

    def status(self):
        """Returns the status document."""
        answer = self.client.recv()
        assert answer.kind == "R" and answer.body[:4] == b"\0\0\0\x0b", answer
        return json.loads(answer.body[4:])

    def fail(self, text=FAILED):
        """Answers to the status as RFC 7628 says, and gets the error."""
        status = self.status()
        self.client.send(wire.message("p", b"\x01"))
        self.client.expect_fatal(text, "28000")
        return status


def get_in(pooler, ca, token, **more):
    with Login(pooler, ca, token, **more) as login:
        return login.succeed().value("select current_user")


def get_out(pooler, ca, token, **more):
    with Login(pooler, ca, token, **more) as login:
        login.fail()


# clients


@pytest.mark.parametrize("by_rule", [True, False])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_token_opens(tokened, issuer, ca, by_rule, workers):
    pooler = tokened(auth_type="hba" if by_rule else "oauth", workers=workers)
    with Login(pooler, ca, issuer.token()) as login:
        assert login.offer.body == b"\0\0\0\x0aOAUTHBEARER\0\0"
        assert login.succeed().value("select 40 + 2") == "42"
        if by_rule:
            (row,) = [row for row in console(pooler, ca, "SHOW CLIENTS") if row["database"] == "db"]
            assert row["auth_method"] == "oauth"
            assert [row["auth_method"] for row in console(pooler, ca, "SHOW SERVERS")] == [""]
    for _ in range(6):
        assert get_in(pooler, ca, issuer.token()) == "trust_user"
    assert issuer.gets == ["/.well-known/openid-configuration", "/keys"]
    pooler.wait_log("the token is that of trust_user, who may log in as trust_user")
    pooler.wait_log("got 1 keys of the issuer " + issuer.name)


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"])
def test_algorithms(tokened, issuer, ca, algorithm):
    issuer.keys = [issuers.Key("one", algorithm), issuers.Key("two", "RS256")]
    pooler = tokened()
    assert get_in(pooler, ca, issuer.token()) == "trust_user"
    assert get_in(pooler, ca, issuer.token(header={"kid": None})) == "trust_user"


def test_where_to_get_a_token(tokened, issuer, ca):
    """A client without a token is told, as PostgreSQL 18 does it."""
    pooler = tokened()
    with Login(pooler, ca, None) as login:
        assert login.fail("OAuth bearer token required") == {"status": "invalid_token", "scope": issuers.SCOPE,
                                "openid-configuration": issuer.name + "/.well-known/openid-configuration"}
    with Login(pooler, ca, None, send=False) as login:
        login.client.send(wire.message("p", wire.cstr("OAUTHBEARER") + b"\xff\xff\xff\xff"))
        assert login.client.recv().raw() == wire.auth(11)
        login.client.send(wire.message("p", issuers.first_message(issuer.token())))
        login.succeed()
    assert "WARNING" not in pooler.log()


def test_pgx(tokened, issuer, ca):
    """A driver that knows tokens itself."""
    try:
        folder = toolchain.built("go")
    except toolchain.Missing as missing:
        pytest.skip(str(missing))
    pooler = tokened()

    def log_in(token):
        env = dict(os.environ, PGHOST="localhost", PGPORT=str(pooler.port), PGDATABASE="db", PGUSER="trust_user",
                   PGSSLMODE="verify-full", PGSSLROOTCERT=ca.file)
        return subprocess.run(["bin/oauth-pgx"], cwd=folder, env=env, input=token, text=True, check=True, timeout=60,
                              stdout=subprocess.PIPE).stdout

    assert log_in(issuer.token()) == "trust_user\n"
    told = log_in(issuer.token(exp=int(time.time()) - 60))
    assert told.startswith("refused:") and "OAuth authentication failed: invalid_token" in told


def test_libpq_18(tokened, issuer, ca):
    """It asks the pooler first, for whom it has no token yet."""
    if not psycopg or psycopg.pq.version() < 180000:
        pytest.skip("no libpq 18")
    pooler = tokened(rule(issuer, scope="openid"))
    words = "host=localhost port=%d dbname=db user=trust_user sslmode=verify-full sslrootcert=%s oauth_issuer=%s " \
        "oauth_client_id=tests" % (pooler.port, ca.file, issuer.name)

    def log_in(token):
        return subprocess.run([sys.executable, os.path.join(toolchain.SOURCES, "python", "libpq_oauth.py"), words],
                              input=token, text=True, check=True, timeout=60, stdout=subprocess.PIPE).stdout

    asked = issuer.name + "/.well-known/openid-configuration openid\n"
    assert log_in(issuer.token()) == asked + "trust_user\n"
    told = log_in(issuer.token(exp=int(time.time()) - 60))
    assert told.startswith(asked + "refused:") and FAILED in told


REFUSED = {
    "expired": (dict(exp=lambda now: now - 60), "it has expired 60 s ago"),
    "early": (dict(nbf=lambda now: now + 100), "it begins in"),
    "endless": (dict(exp=None), "it does not say when it expires"),
    "wrong audience": (dict(aud="elsewhere"), "it is for another audience"),
    "no audience": (dict(aud=None), "it is for another audience"),
    "wrong issuer": (dict(iss="https://other.example"), "its issuer is https://other.example"),
    "no scope": (dict(scope=None), "it lacks a scope"),
    "other scope": (dict(scope="openid postgresql"), "it lacks a scope"),
    "no name": (dict(sub=None), "its claim sub is no text"),
}


def test_tokens_that_are_refused(tokened, issuer, ca):
    pooler = tokened()
    now = int(time.time())
    for claims, reason in REFUSED.values():
        claims = {name: value(now) if callable(value) else value for name, value in claims.items()}
        mark = pooler.mark()
        get_out(pooler, ca, issuer.token(**claims))
        pooler.wait_log("WARNING .*token is not accepted: .*" + reason[:25], since=mark)
    good = issuer.token()
    for bad, reason in ((good[:-10], "signature is wrong"), (good[:-40] + "A" * 40, "signature is wrong"),
                        (good.rsplit(".", 1)[0], "not of the form"), ("opaque", "not of the form"),
                        (issuers.b64_json({"alg": "none"}) + "." + good.split(".")[1] + ".", "algorithm is none"),
                        (issuers.hs256({"kid": "first"}, issuer.claims(), json.dumps(
                            issuer.keys[0].public()).encode()), "algorithm is HS256")):
        mark = pooler.mark()
        get_out(pooler, ca, issuers.learned(bad))
        pooler.wait_log("WARNING .*token is not accepted: .*" + reason, since=mark)
    forged = issuer.token(key=issuers.Key("first"))
    get_out(pooler, ca, forged)
    assert get_in(pooler, ca, good) == "trust_user"


def test_clocks_may_differ_a_little(tokened, issuer, ca):
    pooler = tokened()
    now = time.time()
    assert get_in(pooler, ca, issuer.token(exp=now - 15, nbf=now + 15)) == "trust_user"
    assert get_in(pooler, ca, issuer.token(aud=["x", issuers.AUDIENCE], scope=None, scp=["postgres", "openid"]))


def test_long_tokens(tokened, issuer, ca):
    """As long as PostgreSQL reads them; longer ones are not kept."""
    pooler = tokened()
    assert get_in(pooler, ca, issuer.token(more="x" * 40000)) == "trust_user"
    with Login(pooler, ca, issuer.token(more="x" * 75000)) as login:
        login.client.expect_fatal(FAILED, "28000")
    pooler.wait_log("a SASL message of 100[0-9]{3} bytes is too long")


def test_messages_that_are_none(tokened, issuer, ca):
    pooler = tokened()
    token = issuer.token().encode()
    for message in (b"", b"n,,", b"n,a=x,\x01auth=Bearer " + token + b"\x01\x01", b"p=x,,\x01auth=\x01\x01",
                    b"n,,\x01auth=Bearer " + token + b"\x01", b"n,,\x01\x01",
                    b"n,,\x01auth=Bearer " + token + b"\x01\x01x", b"n,,\x01auth=\x01auth=\x01\x01"):
        with Login(pooler, ca, None, send=False) as login:
            login.client.send(wire.sasl_initial("OAUTHBEARER", message))
            login.client.expect_fatal("malformed OAUTHBEARER message", "08P01")
    with Login(pooler, ca, None) as login:
        login.status()
        login.client.send(wire.message("p", issuers.first_message(issuer.token())))
        login.client.expect_fatal("malformed OAUTHBEARER message", "08P01")
    with Login(pooler, ca, None, send=False) as login:
        login.client.send(wire.sasl_initial("SCRAM-SHA-256", b"n,,n=,r=x"))
        login.client.expect_fatal("client selected an invalid SASL authentication mechanism", "08P01")
    for auth in (b"Basic " + token, b"Bearer ", b"Bearer a b"):
        with Login(pooler, ca, None, send=False) as login:
            login.client.send(wire.sasl_initial("OAUTHBEARER", b"n,,\x01auth=" + auth + b"\x01\x01"))
            login.fail()
    assert get_in(pooler, ca, issuer.token()) == "trust_user"


def test_only_inside_tls(tokened, issuer, ca):
    pooler = tokened(auth_type="oauth")
    for unix in (False, True):
        client = pooler.client(unix=unix)
        with client:
            client.send(client.startup_packet())
            client.expect_fatal("OAuth tokens are accepted only inside TLS", "28000")


@pytest.mark.parametrize("user", ["trust_user", "nobody_knows"])
@pytest.mark.parametrize("database", ["db", "absent"])
def test_nobody_learns_who_exists(tokened, issuer, ca, user, database):
    """The same answers for all names, until the token is known to be good."""
    pooler = tokened()
    with Login(pooler, ca, issuer.token("somebody"), user=user, database=database) as login:
        assert login.offer.body == b"\0\0\0\x0aOAUTHBEARER\0\0"
        login.fail()
    assert user not in [row["name"] for row in console(pooler, ca, "SHOW USERS") if user != "trust_user"]
    if database == "absent":
        with Login(pooler, ca, issuer.token(user), user=user, database=database) as login:
            login.client.expect_fatal("no such database: absent", "3D000")


def test_cost_does_not_tell_who_exists(tokened, issuer, ca):
    """One check for each token, whoever is meant, and nothing is looked up before it."""
    pooler = tokened(verbose=1)
    assert get_in(pooler, ca, issuer.token())
    counts = {}
    for user in ("trust_user", "admin_user", "unknown", "trust_user", "another"):
        mark = pooler.mark()
        get_out(pooler, ca, issuer.token("somebody"), user=user)
        counts[user] = (pooler.log_since(mark).count("checking a token"), pooler.log_since(mark).count("no such user"))
    assert set(counts.values()) == {(1, 0)}, counts


def console(pooler, ca, text):
    with pooler.connect("pgbouncer", "admin_user", ADMIN) as admin:
        return admin.query(text).dicts()


def test_names_and_maps(tokened, issuer, ca):
    pooler = tokened(rule(issuer, "map=people"), ident="people /^(.*)@example\\.org$ \\1\npeople root@x trust_user\n",
                     oauth_name_claim="email")
    assert get_in(pooler, ca, issuer.token(email="trust_user@example.org")) == "trust_user"
    assert get_in(pooler, ca, issuer.token(email="root@x")) == "trust_user"
    for email in ("trust_user", "trust_user@example.com", "root@y", "", None, 7):
        get_out(pooler, ca, issuer.token(email=email))
    pooler.wait_log("the token is that of root@y, who may not log in as trust_user by the ident map people")
    pooler = tokened()
    get_out(pooler, ca, issuer.token("Trust_user"))
    get_out(pooler, ca, issuer.token("trust_user "))


# keys


def test_keys_are_changed_under_load(tokened, issuer, ca):
    """No client of a known or a new key is refused, and no fetch is made for each of them."""
    pooler = tokened(workers=2, oauth_keys_lifetime=600)
    assert get_in(pooler, ca, issuer.token())
    time.sleep(5.1)  # A fetch is made every five seconds at most, whatever tokens come.
    until, errors, done = threading.Event(), [], []

    def work():
        while not until.is_set():
            try:
                get_in(pooler, ca, issuer.token(key=issuer.keys[-1]))
                done.append(1)
            except Exception as error:  # noqa: BLE001
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        waiting.wait_for(lambda: len(done) > 30, "clients come")
        issuer.keys = [issuer.keys[0], issuers.Key("second", "ES256")]
        count = len(done)
        waiting.wait_for(lambda: len(done) > count + 60, "clients go on")
    finally:
        until.set()
        for thread in threads:
            thread.join()
    assert not errors, errors[:3]
    assert issuer.gets.count("/keys") == 2


def test_unknown_keys_are_asked_for_at_a_bounded_rate(tokened, issuer, ca):
    pooler = tokened()
    assert get_in(pooler, ca, issuer.token())
    for number in range(20):
        get_out(pooler, ca, issuer.token(header={"kid": "invented %d" % number}))
    assert issuer.gets.count("/keys") == 1
    pooler.wait_log("the issuer has no key with its id, invented 7")


def test_the_issuer_is_away(tokened, issuer, ca):
    """Known keys go on; unknown ones are refused at once, also where the issuer hangs."""
    pooler = tokened(oauth_keys_lifetime=0)
    assert get_in(pooler, ca, issuer.token())
    time.sleep(5.1)  # From now on a fetch may begin.
    issuer.is_hanging.set()
    assert get_in(pooler, ca, issuer.token()) == "trust_user"
    waiting.wait_for(lambda: len(issuer.gets) == 3, "it is asked again")
    begun = time.monotonic()
    for _ in range(5):
        assert get_in(pooler, ca, issuer.token()) == "trust_user"
    assert time.monotonic() - begun < 5
    waiting.wait_for(lambda: re.search("no keys of the issuer .*imed? ?out", pooler.log()), "the fetch is given up")
    begun = time.monotonic()
    for _ in range(5):
        get_out(pooler, ca, issuer.token(key=issuers.Key("unknown")))
        assert get_in(pooler, ca, issuer.token()) == "trust_user"
    assert time.monotonic() - begun < 5
    (row,) = console(pooler, ca, "SHOW ISSUERS")
    assert row["issuer"] == issuer.name and row["keys"] == "1" and int(row["failures"]) >= 1
    assert "imed out" in row["last_failure"]
    state = dict((row["key"], row["value"]) for row in console(pooler, ca, "SHOW STATE"))
    assert int(state["longest_turn_us"]) < 1000000
    issuer.is_hanging.clear()


def test_the_issuer_comes_later(tokened, issuer, ca):
    issuer.go()
    pooler = tokened()
    get_out(pooler, ca, issuer.token())
    pooler.wait_log("no keys of the issuer .*onnect")
    issuer.come()

    def comes_in():
        with Login(pooler, ca, issuer.token()) as login:
            answer = login.client.recv()
            return answer.raw() == wire.auth(0)
    waiting.wait_for(comes_in, "the keys are fetched", pause=0.5)


@pytest.mark.parametrize("document, reason", [
    ({"issuer": "https://other.example"}, "that of the issuer https://other.example"),
    ({"jwks_uri": "http://127.0.0.1/keys"}, "no jwks_uri that begins with https"),
    ({"jwks_uri": 7}, "no jwks_uri that begins with https"),
    ({"more": "x" * 1024 * 1024}, "/openid-configuration: the answer is too long"),
    ({"jwks_uri": "%s/gone"}, "/gone: status 404"),
    ({"jwks_uri": "%s/.well-known/openid-configuration"}, "/openid-configuration: not a JSON")])
def test_discovery_documents_that_are_refused(tokened, issuer, ca, document, reason):
    issuer.document = {name: value.replace("%s", issuer.name) if isinstance(value, str) else value
                       for name, value in document.items()}
    pooler = tokened()
    get_out(pooler, ca, issuer.token())
    pooler.wait_log("no keys of the issuer .*" + reason)


def test_the_issuer_proves_itself(tokened, issuer, ca):
    """Its certificate has to be of an authority that is trusted."""
    pooler = tokened(oauth_ca_file="")
    get_out(pooler, ca, issuer.token())
    pooler.wait_log("no keys of the issuer .*certificate")


def test_keys_from_a_file(stopped, issuer, ca):
    pooler = stopped()
    pooler.settings["oauth_keys_file"] = pooler.write("keys", issuer.answer("/keys").decode())
    issuer.go()
    pooler.start()
    assert get_in(pooler, ca, issuer.token()) == "trust_user"
    new = issuers.Key("second", "ES256")
    get_out(pooler, ca, issuer.token(key=new))
    pooler.write("keys", json.dumps({"keys": [new.public()]}))
    with pooler.connect("pgbouncer", "admin_user", ADMIN) as admin:
        admin.query("RELOAD")
        assert get_in(pooler, ca, issuer.token(key=new)) == "trust_user"
        get_out(pooler, ca, issuer.token())
        pooler.write("keys", '{"keys": []}')
        assert b"none of its 0 keys" in admin.query("RELOAD", check=False).messages[0].body
    assert get_in(pooler, ca, issuer.token(key=new)) == "trust_user"


# a program judges


def program(pooler, text):
    path = pooler.write("validator", "#!/bin/sh\n" + text)
    os.chmod(path, 0o700)
    return path


def test_a_program_judges(stopped, issuer, ca):
    pooler = stopped(oauth_audience="")
    opaque = issuers.learned("an-opaque.token~of/the+issuer==")
    pooler.settings["oauth_validator_command"] = program(pooler, '''
token=$(cat)
case "$*$token" in
*"%s") echo $PGUSER ;;
*bad*) echo "no such token" >&2; exit 3 ;;
*talk*) echo "what is $token" >&2; exit 4 ;;
*two*) echo one; echo two ;;
*none*) ;;
esac
echo "$PGUSER|$PGDATABASE|$OAUTH_ISSUER|$OAUTH_SCOPE|$*" >%s
''' % (opaque, pooler.path("seen")))
    pooler.start()
    assert get_in(pooler, ca, opaque) == "trust_user"
    assert waiting.wait_for(lambda: pooler.read("seen"), "it has run") == "trust_user|db|%s|%s|\n" % (
        issuer.name, issuers.SCOPE)
    for token, reason in (("a-bad-token", "exit 3: no such token"),
                          ("this-one-may-talk", "does not accept it, and complains with a part of the token"),
                          ("two-lines", "prints more than a name"), ("none-at-all", "prints no name")):
        mark = pooler.mark()
        get_out(pooler, ca, issuers.learned(token))
        pooler.wait_log("WARNING .*oauth_validator_command: .*" + reason, since=mark)
    assert not issuer.gets
    assert get_in(pooler, ca, issuers.learned("x" * 60000 + opaque)) == "trust_user"


def test_a_program_decides_who_it_is(stopped, issuer, ca):
    pooler = stopped(rule(issuer, "delegate_ident_mapping=1"), oauth_audience="")
    pooler.settings["oauth_validator_command"] = program(pooler, 'test "$PGUSER" = trust_user && grep -q good')
    pooler.start()
    assert get_in(pooler, ca, "a-good-one") == "trust_user"
    get_out(pooler, ca, "another-one")
    get_out(pooler, ca, "a-good-one", user="nobody_knows")


def test_a_spelling_that_a_program_may_accept(stopped, issuer, ca):
    """A rule that rejects a name holds for all spellings, where something else compares names."""
    pooler = stopped("hostssl all trust_user all reject\n" + rule(issuer, "delegate_ident_mapping=1"), oauth_audience="")
    pooler.settings["oauth_validator_command"] = program(pooler, "exit 0")
    pooler.start()
    with Login(pooler, ca, None, user="Trust_User", send=False) as login:
        assert "login rejected" in str(login.offer.fields())


def test_a_program_that_hangs(stopped, issuer, ca):
    pooler = stopped(oauth_audience="")
    pooler.settings["oauth_validator_command"] = program(pooler, "exec sleep 1000")
    pooler.start()
    begun = time.monotonic()
    get_out(pooler, ca, "some-token")
    assert 9 < time.monotonic() - begun < 30
    pooler.wait_log("has not ended within 10 s")


# what is refused


CHECKED = [
    ("hostssl all all all oauth scope=x", {}, "requires the options issuer and scope"),
    ("hostssl all all all oauth issuer=https://x", {}, "requires the options issuer and scope"),
    ("hostssl all all all oauth issuer=http://x scope=x", {}, "has to begin with https"),
    ("hostssl all all all oauth issuer=https://x scope=x validator=y", {}, "unrecognized authentication option name"),
    ("hostssl all all all oauth issuer=https://x scope=x map=absent", {}, "Ident map absent is not found"),
    ("hostssl all all all oauth issuer=https://x scope=x map=unused delegate_ident_mapping=1", {}, "do not go together"),
    ("hostssl all all all oauth issuer=https://x scope=x delegate_ident_mapping=1", {}, "needs oauth_validator_command"),
    ("hostnossl all all all oauth issuer=https://x scope=x", {}, "needs TLS"),
    ("local all all oauth issuer=https://x scope=x", {}, "needs TLS"),
    ("host all all all oauth issuer=https://x scope=x", {"client_tls_sslmode": "disable"}, "needs client_tls_sslmode"),
    ("host all all all oauth issuer=https://x scope=x", {"oauth_audience": ""}, "needs oauth_audience"),
    ("host all all all oauth issuer=https://x scope=x", {"oauth_keys_file": "/absent"}, "/absent: "),
    (None, {"auth_type": "oauth", "oauth_scope": ""}, "needs oauth_issuer"),
    (None, {"auth_type": "oauth", "oauth_issuer": "http://x"}, "needs oauth_issuer"),
    (None, {"oauth_validator_command": "relative"}, "oauth_validator_command"),
]


@pytest.mark.parametrize("line, settings, reason", CHECKED)
def test_what_cannot_work_is_refused(stopped, line, settings, reason):
    pooler = stopped(line and line + "\n", **settings)
    pooler.write_files()
    code, out, err = pooler.run("--check-config", pooler.ini)
    assert code != 0 and reason in out + err, out + err
    code, out, err = pooler.run(pooler.ini)
    assert code != 0 and reason in out + err, out + err


@pytest.mark.parametrize("auth_type", ["hba", "oauth"])
def test_explain_config(stopped, pg, auth_type):
    """Who has a token may be in no list, so that nobody knows how many users there are."""
    pooler = stopped(auth_type=auth_type, database=pg.conn())
    pooler.write_files()
    _, out, _ = pooler.run("--explain-config", pooler.ini)
    assert "and any number that LDAP, PAM, Kerberos or OAuth lets in" in " ".join(out.split())


def test_explain_login(stopped, issuer, ca):
    pooler = stopped(rule(issuer, "map=people"), ident="people a b\n").start()
    told = {row["item"]: row["value"] for row in console(pooler, ca, "EXPLAIN LOGIN new_user db 127.0.0.1")}
    assert told["method with TLS"] == "oauth"
    pooler = stopped(auth_type="oauth")
    pooler.settings.update(auth_type="oauth")
    pooler.start()
    with secured(pooler, context(ca), "admin_user", "pgbouncer") as client:
        client.send(client.startup_packet())
        client.recv()
        client.send(wire.sasl_initial("OAUTHBEARER", issuers.first_message(issuer.token("admin_user"))))
        assert client.recv().raw() == wire.auth(0)
        client.finish()
        told = {row["item"]: row["value"] for row in client.query("EXPLAIN LOGIN new_user db 127.0.0.1").dicts()}
    assert told["client secret"] == "a token of the issuer %s for the scope %s, inside TLS, judged by the keys of the issuer" % (
        issuer.name, issuers.SCOPE)
    assert told["client name"] == "the token's sub, equal to the user"
    assert told["login"] == "possible"


# servers


def scripted(token, offer=b"OAUTHBEARER\0\0", status=b'{"status":"invalid_token"}', pair=None):
    """Returns the script of a PostgreSQL 18 that takes this token."""
    def script(session):
        if pair:
            session.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            session.tls.load_cert_chain(pair.cert_file, pair.key_file)
        session.recv_startup()
        session.send(wire.auth(10, offer))
        answer = session.recv()
        if answer.body == wire.sasl_initial("OAUTHBEARER", issuers.first_message(token()))[5:]:
            session.send(fakeserver.welcome())
            session.serve()
            return
        session.send(wire.auth(11, status))
        session.recv()
        session.send(wire.error("FATAL", "28000", "OAuth bearer authentication failed for user \"u\""))
    return script


def test_a_server_gets_the_token(make_pooler, fake, ca):
    """Inside TLS; and one that it refuses is fetched again."""
    now = ["the-first-token-9d2c"]
    server = fake(scripted(lambda: now[0], pair=ca.server))
    pooler = make_pooler({"db": server.conn()}, start=False, settings={
        "server_tls_sslmode": "require", "server_login_retry": "0.1", "pool_mode": "transaction"})
    pooler.settings["server_password_file"] = pooler.write("token", now[0] + "\n")
    pooler.start()
    keeper.learn(now[0])
    with pooler.connect() as client:
        assert client.value("select 1") == "fake"
    now[0] = "the-second-token-11ab"
    keeper.learn(now[0])
    pooler.admin.query("RECONNECT")
    pooler.write("token", now[0])
    with pooler.connect() as client:
        assert client.value("select 1") == "fake"


def test_postgresql_18_gets_the_token(make_pooler, pg18):
    """Over its unix socket; a token that it does not accept is the last error."""
    library = os.path.join(pg18.dir, "validator.so")
    source = os.path.join(os.path.dirname(__file__), "oauth_validator.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    pg18.do("alter system set oauth_validator_libraries = '%s'" % library)
    pg18.set_hba(['local all trust_user oauth issuer="https://login.example.com" scope="openid"'] + postgres.hba_lines())
    try:
        pooler = make_pooler({"db": "host=%s port=%d dbname=postgres" % (pg18.dir, pg18.port)}, start=False,
                             settings={"server_login_retry": "0.1"})
        pooler.settings["server_password_file"] = pooler.write("token", "trust_user-token\n")
        pooler.start()
        keeper.learn("trust_user-token")
        with pooler.connect() as client:
            assert client.value("select system_user") == "oauth:trust_user"
        pooler.admin.query("RECONNECT")
        pooler.write("token", "somebody-token\n")
        with pytest.raises(wire.Refused, match='OAuth bearer authentication failed for user "trust_user"'):
            pooler.connect()
        pooler.wait_log('server login failed: FATAL OAuth bearer authentication failed for user "trust_user"')
    finally:
        pg18.do("alter system reset oauth_validator_libraries")
        pg18.set_hba(postgres.hba_lines())


def test_a_refused_token_is_fetched_again(make_pooler, fake, ca):
    server = fake(scripted(lambda: "token-of-run-2", pair=ca.server))
    pooler = make_pooler({"db": server.conn()}, start=False, settings={"server_tls_sslmode": "require"})
    path = pooler.write("program", "#!/bin/sh\necho >>%s\necho token-of-run-$(wc -l <%s)\n" % (
        pooler.path("runs"), pooler.path("runs")))
    os.chmod(path, 0o700)
    pooler.settings["server_password_command"] = path
    pooler.start()
    with pooler.connect() as client:
        assert client.value("select 1") == "fake"
    assert len(pooler.read("runs").splitlines()) == 2


@pytest.mark.parametrize("content, mode, binding, reason", [
    ("a-token", "disable", "prefer", "sent only inside TLS or over a unix socket"),
    ("no token", "require", "prefer", "the password that was fetched is none"),
    (None, "require", "prefer", "only server_password_command or server_password_file gives"),
    ("a-token", "require", "require", "channel binding is required")])
def test_servers_that_get_no_token(make_pooler, fake, ca, content, mode, binding, reason):
    server = fake(scripted(lambda: "never", pair=ca.server))
    pooler = make_pooler({"db": server.conn()}, start=False, settings={
        "server_tls_sslmode": mode, "server_channel_binding": binding})
    if content:
        pooler.settings["server_password_file"] = pooler.write("token", content)
    pooler.start()
    assert reason in pooler.refusal()
    assert all("p" not in session.kinds() for session in server.of_pools())
