"""Kerberos: clients that log in by GSSAPI, and the pooler at servers that ask for it (configuration.md 13)."""

import os
import re
import struct
import subprocess
import threading
import time

import pytest

import kdc as kerberos
import postgres
import waiting
import wire

pytestmark = pytest.mark.skipif(kerberos.missing() is not None, reason=str(kerberos.missing()))

# Clients reach the pooler as localhost, and the pooler the server as 127.0.0.1.
OF_POOLER, OF_SERVER = "postgres/localhost", "postgres/127.0.0.1"
SERVICE = "postgres@localhost"
FAILED = 'GSSAPI authentication failed for user "%s"'
# For how long the tickets of one of the pooler's principals are valid.
BRIEF_S = 4
QUICK = {"server_login_retry": "0.1", "pool_mode": "transaction"}


@pytest.fixture(scope="module")
def kdc():
    realm = kerberos.Kdc()
    try:
        realm.create()
        realm.add(OF_POOLER)
        realm.add(OF_SERVER)
        realm.add("pooler", "other")
        realm.add("brief", more='-maxlife "%d seconds"' % BRIEF_S, keytab=realm.path("pooler.keytab"))
        for name in ("ann", "bob", "ann/admin"):
            realm.add(name)
            realm.kinit(name)
        yield realm
    finally:
        realm.remove()


def server_hba(options="map=kerb"):
    return ["host all ann,bob 127.0.0.1/32 gss " + options, *postgres.hba_lines()]


@pytest.fixture(scope="module")
def server(cluster, kdc):
    """PostgreSQL lets in ann and bob by GSSAPI alone, and knows the pooler's principals as both."""
    with open(os.path.join(cluster.data, "pg_ident.conf"), "a") as ident:
        for principal in ("pooler", "brief"):
            for user in ("ann", "bob"):
                ident.write("kerb %s@%s %s\n" % (principal, kdc.realm, user))
    cluster.do("create role ann login", "create role bob login",
               "alter system set krb_server_keyfile = '%s'" % kdc.path("postgres-127.0.0.1.keytab"))
    cluster.set_hba(server_hba())
    try:
        yield cluster
    finally:
        cluster.do("alter system reset krb_server_keyfile")
        cluster.set_hba(postgres.hba_lines())
        cluster.do("drop role ann, bob")


@pytest.fixture
def made(make_pooler, server, kdc):
    """made(rules, entry, **settings) returns a pooler that reads tickets; start=False: it is not started."""
    def make(rules="host all all all gss include_realm=0", entry=None, ident="", start=True, users=None, env=None,
             **settings):
        pooler = make_pooler(
            {"db": entry or server.conn()}, start=False, users=users,
            env={**kdc.env(), "KRB5RCACHEDIR": kdc.dir, **(env or {})})
        pooler.settings.update(QUICK)
        pooler.settings.update(
            auth_type="hba", auth_hba_file=pooler.write("hba", "host pgbouncer all all md5\n%s\n" % rules),
            auth_ident_file=pooler.write("ident", ident), krb_server_keyfile=kdc.path("postgres-localhost.keytab"),
            server_krb_keyfile=kdc.path("pooler.keytab"), server_krb_principal="pooler")
        pooler.settings.update(settings)
        return pooler.start() if start else pooler
    return make


def client(pooler, kdc, user="ann", name="ann", database="db", service=SERVICE):
    """Returns a client that has the ticket of `name` and wants to log in as `user`."""
    made = pooler.client(database, user)
    made.initiator = kerberos.Initiator(kdc, name.replace("/", "-") + ".cache", service)
    return made


def refusal(*args, **more):
    with client(*args, **more) as one:
        with pytest.raises(wire.Refused) as refused:
            one.login()
        one.expect_closed()
        assert refused.value.severity == "FATAL"
        return refused.value.text


def psql(pooler, kdc, sql, user="ann", cache="ann.cache", **more):
    env = dict(os.environ, **kdc.env(cache), PGGSSENCMODE="disable", PGSSLMODE="disable", **more)
    return subprocess.run(
        ["psql", "-XAtqc", sql, "host=localhost port=%d dbname=db user=%s" % (pooler.port, user)],
        env=env, capture_output=True, text=True, timeout=60)


AS_WHOM = "select current_user, gss_authenticated, principal from pg_stat_gssapi where pid = pg_backend_pid()"


@pytest.mark.parametrize("workers", [1, 3])
def test_both_sides(made, kdc, workers):
    """Nobody has a password: psql logs in by a ticket, and the pooler by its own."""
    pooler = made(workers=workers)
    for user in ("ann", "bob"):
        done = psql(pooler, kdc, AS_WHOM, user, user + ".cache")
        assert (done.stdout, done.stderr) == ("%s|t|pooler@EXAMPLE.COM\n" % user, "")
    with client(pooler, kdc) as one:
        assert one.login().auth_codes() == [7, 8, 0]
        assert one.value("select 1") == "1"
    names = [row["name"] for row in pooler.show("USERS")]
    assert "ann" in names and "bob" in names


# clients


def test_who_may_log_in(made, kdc):
    pooler = made("host all all all gss")
    for user in ("ann", "bob", "absent", "trust_user"):
        assert refusal(pooler, kdc, user) == FAILED % user
    pooler.wait_log(r"WARNING C-.* GSSAPI: ann@EXAMPLE\.COM may not log in as ann$")
    assert not [row for row in pooler.show("USERS") if row["name"] == "ann"]
    pooler = made("host all all all gss include_realm=0")
    for user in ("bob", "absent", "trust_user", "ANN"):
        assert refusal(pooler, kdc, user) == FAILED % user
    assert refusal(pooler, kdc, "ann", "bob") == FAILED % "ann"
    assert refusal(pooler, kdc, "ann", "ann", "absent") == "no such database: absent"


def test_the_realm(made, kdc):
    pooler = made("host all all all gss include_realm=0 krb_realm=" + kerberos.OTHER)
    assert refusal(pooler, kdc) == FAILED % "ann"
    pooler.wait_log(r"GSSAPI: ann@EXAMPLE\.COM is not of the realm OTHER\.EXAMPLE$")
    pooler = made("host all all all gss krb_realm=example.com include_realm=0", krb_caseins_users="1")
    client(pooler, kdc).login().close()
    pooler = made("host all all all gss krb_realm=EXAMPLE.COM include_realm=0")
    client(pooler, kdc).login().close()


def test_another_realm(made, kdc):
    """The keys of a service of the same name in another realm are others."""
    other = kerberos.Kdc(kerberos.OTHER)
    try:
        other.create()
        other.add(OF_POOLER)
        other.add("ann")
        other.kinit("ann")
        pooler = made()
        with pooler.client("db", "ann") as one:
            one.initiator = kerberos.Initiator(other, "ann.cache", SERVICE)
            with pytest.raises(wire.Refused, match="GSSAPI authentication failed"):
                one.login()
        pooler.wait_log(r"GSSAPI: accepting GSS security context failed: .*OTHER\.EXAMPLE")
    finally:
        other.remove()


def test_maps(made, kdc):
    pooler = made("host all all all gss map=kerb", ident=(
        "kerb /^(.*)/admin@EXAMPLE\\.COM$ \\1\nkerb bob@EXAMPLE.COM ann\nkerb Ann@example.com Bob\n"))
    client(pooler, kdc, "ann", "ann/admin").login().close()
    client(pooler, kdc, "ann", "bob").login().close()
    assert refusal(pooler, kdc, "bob", "ann/admin") == FAILED % "bob"
    assert refusal(pooler, kdc, "bob", "bob") == FAILED % "bob"
    assert refusal(pooler, kdc, "bob", "ann") == FAILED % "bob"
    pooler.set("krb_caseins_users", "1")
    client(pooler, kdc, "bob", "ann").login().close()
    assert refusal(pooler, kdc, "ann", "ann") == FAILED % "ann"


def test_no_spelling_of_a_name_evades_a_rule(made, kdc, server):
    pooler = made("host all ann all reject\nhost all all all gss include_realm=0", krb_caseins_users="1",
                  entry=server.conn(user="trust_user"))
    assert refusal(pooler, kdc, "ANN") == "login rejected"
    pooler.wait_log("a rule names the user in another spelling")
    client(pooler, kdc, "BOB", "bob").login().close()


def test_a_ticket_for_another_service(made, kdc):
    pooler = made()
    assert refusal(pooler, kdc, service="postgres@127.0.0.1") == FAILED % "ann"
    pooler.wait_log(r"WARNING C-.* GSSAPI: accepting GSS security context failed: .*postgres/127\.0\.0\.1")


def test_a_ticket_is_not_taken_twice(made, kdc):
    pooler = made()
    with client(pooler, kdc) as one, client(pooler, kdc) as thief:
        thief.initiator.token = one.initiator.token
        one.login()
        with pytest.raises(wire.Refused, match="GSSAPI authentication failed"):
            thief.login()
    pooler.wait_log("GSSAPI: .*replay")


def test_clocks_that_differ(made, kdc):
    """What a client has said long ago is not believed."""
    pooler = made(env={"KRB5_CONFIG": kdc.krb5_conf("strict.conf", more="clockskew = 1")})
    with client(pooler, kdc) as late:
        begun = time.monotonic()
        waiting.wait_for(lambda: time.monotonic() > begun + 3, "the token is old")
        with pytest.raises(wire.Refused, match="GSSAPI authentication failed"):
            late.login()
    pooler.wait_log("GSSAPI: .*[Cc]lock skew")
    client(pooler, kdc).login().close()


def tokens(kdc):
    good = kerberos.Initiator(kdc, "ann.cache", SERVICE).token
    yield "cut", good[:len(good) // 2]
    yield "one byte short", good[:-1]
    yield "longer", good + b"x"
    yield "changed", good[:-20] + bytes([good[-20] ^ 1]) + good[-19:]
    yield "zeros", bytes(1000)
    yield "text", b"p secret\0"
    yield "long", good[:2] + b"\x83" + good[3:] + b"y" * 60000
    yield "huge length", b"\x60\x84\xff\xff\xff\xff" + good[6:]


def test_tokens_that_are_none(made, kdc):
    pooler = made()
    for name, token in tokens(kdc):
        with pooler.client("db", "ann") as one:
            one.send(one.startup_packet(), wire.message("p", token))
            assert one.recv().body == struct.pack("!i", 7), name
            assert one.recv().text() == FAILED % "ann", name
            one.expect_closed()
    assert pooler.log().count("GSSAPI: accepting GSS security context failed: ") >= 8
    client(pooler, kdc).login().close()


def test_messages_that_are_too_long(made, kdc):
    pooler = made()
    for size in (65536, 100000):
        with pooler.client("db", "ann") as one:
            one.send(one.startup_packet(), wire.message("p", bytes(size)))
            assert one.recv().body == struct.pack("!i", 7)
            assert one.recv().text() == FAILED % "ann"
            one.expect_closed()
    pooler.wait_log("a GSSAPI message of 100004 bytes is too long")
    with pooler.client("db", "ann") as one:
        one.send(one.startup_packet(), b"p" + struct.pack("!i", 200000))
        assert one.recv().body == struct.pack("!i", 7)
        one.expect_closed()


def test_a_ticket_with_many_groups(made, kdc):
    """As those of Active Directory are: up to the length that PostgreSQL reads, and no further."""
    pooler = made()
    for size, is_read in ((60000, True), (66000, False)):
        token = kerberos.big_token(kdc, "ann.cache", OF_POOLER + "@" + kdc.realm, size)
        assert size < len(token) < size + 2000
        with pooler.client("db", "ann") as one:
            one.send(one.startup_packet(), wire.message("p", token))
            found = one.recv_until("ZE")
        codes = [struct.unpack_from("!i", m.body)[0] for m in found if m.kind == "R"]
        assert (codes, found[-1].kind) == (([7, 8, 0], "Z") if is_read else ([7], "E"))


def test_half_an_exchange(made, kdc):
    """A client that leaves, or waits, while its ticket is read disturbs nobody."""
    pooler = made(client_login_timeout="1")
    for _ in range(5):
        with client(pooler, kdc) as one:
            one.send(one.startup_packet(), wire.message("p", one.initiator.token))
    with client(pooler, kdc) as silent:
        silent.send(silent.startup_packet())
        assert silent.recv().body == struct.pack("!i", 7)
        assert silent.recv().text() == "client_login_timeout"
    client(pooler, kdc).login().close()


def answers(pooler, user, database):
    with pooler.client(database, user) as one:
        one.send(one.startup_packet(), wire.message("p", b"no ticket"))
        found = (one.recv().raw(), one.recv().text().replace(user, "USER"))
        one.expect_closed()
    return found


def test_who_exists_is_not_told(made, kdc):
    """Users of the list, users that a ticket has made, and nobody get the same answers."""
    pooler = made()
    client(pooler, kdc).login().close()
    found = {answers(pooler, user, database) for user in ("ann", "trust_user", "md5_user", "absent", "bob")
             for database in ("db", "absent")}
    assert len(found) == 1, found


def test_many_at_once(made, kdc):
    """More logins than there are helper threads wait for them, and none is refused."""
    pooler = made(max_client_conn="200")
    made_clients = [client(pooler, kdc) for _ in range(60)]
    try:
        for one in made_clients:
            one.send(one.startup_packet())
        for one in made_clients:
            one.authenticate()
    finally:
        for one in made_clients:
            one.close()


@pytest.mark.parametrize("rule, reason", [
    ("local all all gss", "gssapi authentication is not supported on local sockets"),
    ("host all all all gss include_realm=2", "include_realm=2 is no option of gss"),
    ("host all all all gss krb_realm=", "krb_realm= is no option of gss"),
    ("host all all all gss map=absent", "Ident map absent is not found in ident config file"),
    ("host all all all gss compat_realm=1", "compat_realm=1 is no option of gss"),
])
def test_rules_that_cannot_work(made, rule, reason):
    pooler = made(rule, start=False)
    pooler.write_files()
    code, out, err = pooler.run("--check-config", pooler.ini)
    assert code == 1 and reason in out + err


def test_keys_that_cannot_be_read(made, kdc):
    pooler = made(start=False, krb_server_keyfile="/nonexistent/keytab")
    pooler.write_files()
    code, out, err = pooler.run("--check-config", pooler.ini)
    assert code == 1
    assert "krb_server_keyfile: cannot read /nonexistent/keytab, which the method gss needs" in out + err
    pooler.settings["krb_server_keyfile"] = kdc.path("postgres-localhost.keytab")
    pooler.users = {"ann": "server_krb_keyfile=/nonexistent/other"}
    pooler.write_files()
    code, out, err = pooler.run("--check-config", pooler.ini)
    assert code == 1 and "server_krb_keyfile: cannot read /nonexistent/other: " in out + err


# servers


def test_explained(made, kdc, server):
    pooler = made()
    client(pooler, kdc).login().close()
    told = {row["item"]: row["value"] for row in pooler.admin.query("EXPLAIN LOGIN ann db 127.0.0.1").dicts()}
    assert told["method"] == "gss" and told["login"] == "possible"
    assert told["client secret"] == "a Kerberos ticket, read with the keys in " + kdc.path("postgres-localhost.keytab")
    assert told["server ticket"] == "for postgres/HOST as pooler of %s, where the server asks for GSSAPI" % kdc.path(
        "pooler.keytab")
    assert told["last attempt"].startswith("worked ")


@pytest.mark.parametrize("change, reason", [
    ({"server_krb_keyfile": "/nonexistent/keytab"}, "for pooler from /nonexistent/keytab: "),
    ({"server_krb_principal": "absent"}, "for absent from "),
    ({"server_krb_service": "absent"}, "Server absent/127.0.0.1@EXAMPLE.COM not found in Kerberos database"),
    ({"server_krb_keyfile": "", "server_krb_principal": ""}, "No Kerberos credentials available"),
])
def test_no_ticket(made, kdc, change, reason):
    """Why there is none is told to the client, in the log and on the console."""
    pooler = made(**change)
    told = refusal(pooler, kdc)
    assert told.startswith("server login failed: no Kerberos ticket") and reason in told
    pooler.wait_log("ERROR S-.*no Kerberos ticket.*" + re.escape(reason))
    assert reason in pooler.show_one("HOSTS", database="db")["last_error"]
    explained = {row["item"]: row["value"] for row in pooler.admin.query("EXPLAIN LOGIN ann db").dicts()}
    assert "no Kerberos ticket" in explained["last attempt"]


def test_whom_the_server_does_not_know(made, kdc, server):
    """Its reason comes right behind its last token, and the end of the connection behind that."""
    pooler = made(start=False, server_krb_principal="other", server_login_retry="60")
    for number in range(20):
        pooler.databases["db%d" % number] = server.conn()
    pooler.start()
    for number in range(20):
        assert refusal(pooler, kdc, database="db%d" % number) == FAILED % "ann"
    pooler.wait_log('server login failed: FATAL GSSAPI authentication failed for user "ann"')
    assert "server conn crashed" not in pooler.log()


def test_levels(made, kdc, server):
    """Of the user, of the database, and of all; krbsrvname is libpq's name of a setting."""
    pooler = made(entry=server.conn(krbsrvname="postgres", server_krb_principal="other"),
                  users={"ann": "server_krb_principal=brief"})
    assert psql(pooler, kdc, AS_WHOM).stdout == "ann|t|brief@EXAMPLE.COM\n"
    assert FAILED % "bob" in psql(pooler, kdc, AS_WHOM, "bob", "bob.cache").stderr


def test_the_accounts_cache(made, kdc):
    """Without a keytab, a ticket that somebody else gets and renews."""
    pooler = made(env=kdc.env("account.cache"), server_krb_keyfile="", server_krb_principal="", server_lifetime="0")
    assert "server login failed: no Kerberos ticket" in refusal(pooler, kdc)
    kdc.kinit("pooler", cache="account.cache")
    waiting.wait_for(lambda: psql(pooler, kdc, AS_WHOM).stdout == "ann|t|pooler@EXAMPLE.COM\n", "it is found", pause=0.1)


class Load:
    """Clients of `user` that need a new server connection for each query, none of which gets an error."""

    def __init__(self, pooler, kdc, threads=2):
        self.pooler, self.kdc = pooler, kdc
        self.until, self.errors, self.count = threading.Event(), [], 0
        self.threads = [threading.Thread(target=self.run) for _ in range(threads)]

    def run(self):
        try:
            with wire.Client(self.pooler.host, self.pooler.port, "trust_user", "forced").login() as one:
                while not self.until.is_set():
                    assert one.value("select current_user") == "ann"
                    self.count += 1
        except Exception as error:  # noqa: BLE001
            self.errors.append(error)

    def __enter__(self):
        for one in self.threads:
            one.start()
        return self

    def __exit__(self, *_):
        self.until.set()
        for one in self.threads:
            one.join()
        assert not self.errors, self.errors[:3]

    def wait_more(self, count=20):
        begun = self.count
        waiting.wait_for(lambda: self.count > begun + count or self.errors, "queries are answered", pause=0.05)


@pytest.fixture
def loaded(made, server):
    """A pooler whose entry `forced` is for clients without a ticket."""
    def make(principal="brief", **settings):
        pooler = made("host forced all all trust", start=False, server_lifetime="0", **settings)
        pooler.databases["forced"] = server.conn(user="ann")
        pooler.settings["server_krb_principal"] = principal
        return pooler.start()
    return make


@pytest.mark.parametrize("workers", [1, 3])
def test_tickets_end_under_load(loaded, kdc, workers):
    pooler = loaded(workers=workers)
    with Load(pooler, kdc) as load:
        begun = requests(kdc)
        waiting.wait_for(lambda: requests(kdc) > begun + 3 or load.errors, "tickets are renewed", pause=0.1)
        load.wait_more()
    # one ticket for half of its time, however many logins there are
    assert requests(kdc) - begun < 30 and load.count > 100


def requests(kdc, name="brief"):
    with open(kdc.path("kdc.log")) as log:
        return len(re.findall(r"AS_REQ .* ISSUE: .* %s@" % name, log.read()))


def test_a_reload_gets_new_tickets(loaded, kdc):
    """Others may stand in the keytab now."""
    pooler = loaded("pooler")
    assert works(pooler)
    begun = requests(kdc, "pooler")
    assert works(pooler)
    assert requests(kdc, "pooler") == begun
    pooler.reload()
    assert works(pooler)
    assert requests(kdc, "pooler") == begun + 1


def test_a_kdc_that_is_away(loaded, kdc):
    """Tickets go on until they end; then clients are told why, and when it is back all is well."""
    pooler = loaded("pooler")
    with Load(pooler, kdc) as load:
        load.wait_more()
        with kdc.away():
            load.wait_more()
    pooler = loaded("brief")
    with wire.Client(pooler.host, pooler.port, "trust_user", "forced").login() as one:
        assert one.value("select current_user") == "ann"
        with kdc.away():
            refused = waiting.wait_for(lambda: error_of(one), "the ticket has ended", pause=0.1)
            assert "Cannot contact any KDC for realm 'EXAMPLE.COM'" in refused
        waiting.wait_for(lambda: works(pooler), "it works again", pause=0.2)


def error_of(one):
    one.send(wire.query("select 1"))
    last = one.recv_until("EZ")[-1]
    return last.text() if last.kind == "E" else None


def works(pooler):
    try:
        with wire.Client(pooler.host, pooler.port, "trust_user", "forced").login() as one:
            return one.value("select current_user") == "ann"
    except (wire.Refused, wire.Closed):
        return False


def test_a_kdc_that_hangs(loaded, kdc, server):
    """It costs the login its time, and nobody else anything."""
    with kerberos.black_hole() as port:
        pooler = loaded("pooler", server_connect_timeout="2", env={"KRB5_CONFIG": kdc.krb5_conf("hole.conf", port)})
        with pooler.client("forced", "trust_user") as waits, Asking(pooler.console()) as asking:
            waits.send(waits.startup_packet())
            told = waits.recv_until("E")[-1].text()
        assert told == "server login failed: no Kerberos ticket: no KDC has answered in time"
        assert len(asking.times) > 50 and max(asking.times) < 0.5
        assert "no KDC has answered in time" in pooler.show_one("HOSTS", database="forced")["last_error"]


class Asking:
    """Asks the console all the time, and notes how long each answer took."""

    def __init__(self, console):
        self.console, self.times, self.until = console, [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.until.wait(0.01):
            begun = time.monotonic()
            self.console.query("SHOW VERSION")
            self.times.append(time.monotonic() - begun)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.until.set()
        self.thread.join()


def test_keys_of_the_server_that_change(loaded, kdc, server):
    """A ticket that is kept was made for the old ones: the server refuses it, and the pooler gets another."""
    pooler = loaded("pooler")
    assert works(pooler)
    begun = time.monotonic()
    waiting.wait_for(lambda: time.monotonic() > begun + 1.2, "the ticket is not new")
    os.unlink(kdc.path("postgres-127.0.0.1.keytab"))
    kdc.admin("ktadd -k %s %s" % (kdc.path("postgres-127.0.0.1.keytab"), OF_SERVER))
    assert works(pooler)
    pooler.wait_log("closing because: server refuses the ticket")


def scripted(made, fake, *answers):
    """Returns the error of a client whose server asks for GSSAPI and goes on with these bytes."""
    def script(session):
        session.recv_startup()
        if session.is_monitors():
            session.login()
            session.serve()
        for answer in answers:
            session.send(answer)
            session.recv()

    pooler = made("host forced all all trust", start=False)
    pooler.databases["forced"] = fake(script).conn(user="ann")
    pooler.start()
    with pooler.client("forced", "trust_user") as one:
        one.send(one.startup_packet())
        return one.recv_until("E")[-1].text()


NOT_PROVEN = "server login failed: the server has not proven by GSSAPI who it is"


@pytest.mark.parametrize("answers, told", [
    ([wire.auth(7), wire.auth(0) + wire.ready()], NOT_PROVEN),
    ([wire.auth(7) + wire.auth(0) + wire.ready()], NOT_PROVEN),
    ([wire.auth(7), wire.auth(8, b"garbage")], NOT_PROVEN + ": "),
    ([wire.auth(7), wire.auth(8, b"")], NOT_PROVEN + ": "),
    ([wire.auth(7), wire.auth(8, bytes(500000))], NOT_PROVEN + ": "),
    ([wire.auth(7), wire.auth(7)], "server login failed: the server asks for GSSAPI out of order"),
    ([wire.auth(7) + wire.auth(8, b"x")], NOT_PROVEN + ": "),
    ([wire.auth(8, b"x")], "server login failed: unexpected GSSAPI message"),
], ids=["silent", "at once", "garbage", "empty", "long", "twice", "early", "first"])
def test_a_server_that_proves_nothing(made, fake, answers, told):
    """Who has not shown that it has the key of the service is not believed."""
    assert scripted(made, fake, *answers).startswith(told)
