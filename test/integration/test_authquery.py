"""auth_query: users who are not in auth_file (protocol.md 5)."""

import threading

import pytest

import wire
import waiting

SECRET = "asked for 6d2"
CHANGED = "changed 9e1"
AUTH = ("aq_auth", "of the asker 3f8")
ROLES = {"aq_md5": ("md5", "md5"), "aq_scram": ("scram-sha-256", "scram-sha-256"),
         "aq_trust": ("scram-sha-256", "trust")}

# This function answers from a table and counts its calls.
SETUP = """
create schema aq;
create sequence aq.asked;
create table aq.answers (asked text, n text, s text);
create function aq.find(who text) returns table (n text, s text) language sql as
    'select nextval(''aq.asked''); select n, s from aq.answers where asked = who';
create function aq.slow(who text) returns table (n text, s text) language sql as
    'select pg_sleep(30); select who, who';
create schema evil;
create function evil.now() returns timestamptz language sql as 'select ''1970-1-1''::timestamptz';
create table evil.pg_authid as select rolname, 'let me in'::text as rolpassword,
    'infinity'::timestamptz as rolvaliduntil, true as rolcanlogin from pg_authid;
create function evil.always(name, text) returns boolean language sql as 'select true';
create operator evil.= (leftarg = name, rightarg = text, function = evil.always);
create function evil.never(timestamptz, timestamptz) returns boolean language sql as 'select false';
create operator evil.< (leftarg = timestamptz, rightarg = timestamptz, function = evil.never);
grant usage on schema evil, aq to public;
grant all on all tables in schema evil, aq to public;
grant all on sequence aq.asked to public;
"""


@pytest.fixture(scope="module")
def asked(cluster):
    """The cluster with roles, the auth_user, and functions for auth_query."""
    with cluster.client() as owner:
        for name, (stored, _) in {**ROLES, "aq_expired": ("md5", ""), "aq_nologin": ("md5", "")}.items():
            owner.query("set password_encryption = '%s'" % stored)
            owner.query("create role %s login password '%s'" % (name, SECRET))
        owner.query("alter role aq_expired valid until '2001-01-01'")
        owner.query("alter role aq_nologin nologin")
        owner.query("set password_encryption = 'md5'")
        owner.query("create role aq_auth login superuser password '%s'" % AUTH[1])
        owner.query(SETUP)
    before = open(cluster.data + "/pg_hba.conf").read().splitlines()
    cluster.set_hba(["host all aq_auth 127.0.0.1/32 md5", "host all aq_expired 127.0.0.1/32 md5"]
                    + ["host all %s 127.0.0.1/32 %s" % (n, m) for n, (_, m) in ROLES.items()] + before)
    yield cluster
    cluster.set_hba(before)
    with cluster.client() as owner:
        owner.query("drop schema aq, evil cascade")
        for name in [*ROLES, "aq_expired", "aq_nologin", "aq_auth"]:
            owner.query("drop owned by %s" % name)
            owner.query("drop role %s" % name)


@pytest.fixture
def asking(make_pooler, asked, pg):
    """asking(method, **settings) returns a pooler that knows only the auth_user and its admins."""
    def make(method="md5", databases=None, users=None, keys=None, **settings):
        userlist = dict([AUTH, ("admin_user", "admin secret 91c")], **(users or {}))
        settings = {"auth_user": AUTH[0], "auth_type": method, "pool_mode": "transaction", **settings}
        return make_pooler(databases or {"db": pg.conn(**(keys or {}))}, userlist=userlist, settings=settings)
    return make


@pytest.fixture
def table(asked):
    """table(rows...) sets the answers of auth_query; table.count() returns how often it ran."""
    class Table:
        keys = {"auth_query": "select n, s from aq.find($1)"}

        def __call__(self, *rows):
            with asked.client() as owner:
                owner.query("truncate aq.answers")
                for row in rows:
                    owner.query("insert into aq.answers values (%s)" % ", ".join(
                        "null" if v is None else "'%s'" % v for v in row))

        def count(self):
            return int(asked.value("select case when is_called then last_value else 0 end from aq.asked"))

    return Table()


def login(pooler, user, secret=SECRET, database="db"):
    with pooler.connect(database, user, secret) as client:
        return client.value("select current_user")


# auth_query on the real catalogs


@pytest.mark.parametrize("method", ["plain", "md5", "scram-sha-256"])
@pytest.mark.parametrize("user", ["aq_md5", "aq_scram"])
def test_default_query(asking, pg, method, user):
    if (method, user) == ("scram-sha-256", "aq_md5"):
        assert asking(method).refusal(user=user, secret=SECRET) == "SASL authentication failed"
        return
    pooler = asking(method)
    if (method, user) == ("plain", "aq_scram"):
        # A plain password authenticates the client, but gives the pooler no SCRAM keys for the
        # server.
        assert pooler.refusal(user=user, secret=SECRET) == "server login failed: wrong password type"
    else:
        for _ in range(3):
            assert login(pooler, user) == user
        assert pooler.pool(user=user)["sv_idle"] == 1
    assert pooler.pool(user=AUTH[0])["sv_idle"] == 1
    assert user in [row["name"] for row in pooler.show("USERS")]
    wrong = "SASL authentication failed" if user == "aq_scram" and method != "plain" \
        else "password authentication failed"
    for secret in ("wrong", "md5", "NULL"):
        assert pooler.refusal(user=user, secret=secret) == wrong


def test_trust(asking):
    pooler = asking("trust")
    assert login(pooler, "aq_trust", "") == "aq_trust"
    assert pooler.refusal(user="aq_nobody") == "no such user"
    assert "aq_nobody" not in [row["name"] for row in pooler.show("USERS")]
    pooler.wait_log("LOG C-0x[0-9a-f]+: [^ ]* login failed: db=db$")


@pytest.mark.parametrize("method", ["plain", "md5"])
def test_unfit_roles(asking, method):
    pooler = asking(method)
    nobody = "no such user" if method == "md5" else "password authentication failed"
    assert pooler.refusal(user="aq_nobody", secret=SECRET) == nobody
    assert pooler.refusal(user="aq_nologin", secret=SECRET) == nobody
    assert pooler.refusal(user="aq_expired", secret=SECRET) == "password authentication failed"
    assert pooler.refusal(user="aq_expired", secret="md5") == "password authentication failed"


@pytest.mark.parametrize("query", [None, "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL "
                                         "ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin"])
def test_search_path_of_a_client(asking, query):
    """A client shares the server connections of the auth_user and leaves a search_path behind."""
    pooler = asking("plain", default_pool_size=1, **({"auth_query": query} if query else {}))
    with pooler.connect(user=AUTH[0], secret=AUTH[1]) as client:
        client.query("set search_path = evil, pg_catalog")
    # This query has names without a schema, so it finds the client's objects; the default query
    # must not.
    if query:
        assert pooler.refusal(user="aq_md5", secret=SECRET) == "password authentication failed"
    else:
        assert login(pooler, "aq_md5") == "aq_md5"
        assert pooler.refusal(user="aq_expired", secret=SECRET) == "password authentication failed"
        assert pooler.refusal(user="aq_expired", secret="let me in") == "password authentication failed"
        assert pooler.refusal(user="aq_nobody", secret="let me in") == "password authentication failed"


def test_parameters_stay_with_their_clients(asking):
    """The auth_user's server connection gets no parameters of the client, and the next client of
    that connection gets its own."""
    pooler = asking("md5", default_pool_size=1)
    with pooler.connect(user=AUTH[0], secret=AUTH[1], TimeZone="Asia/Tokyo") as first:
        assert first.value("show timezone") == "Asia/Tokyo"
        with pooler.connect(user="aq_md5", secret=SECRET, TimeZone="Europe/Rome") as second:
            assert second.value("show timezone") == "Europe/Rome"
            assert first.value("show timezone") == "Asia/Tokyo"
    with pooler.connect(user=AUTH[0], secret=AUTH[1]) as third:
        assert third.value("show timezone") == "UTC"


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_server_goes_back(asking, mode, pg):
    pooler = asking("md5", pool_mode=mode, default_pool_size=1)
    for _ in range(5):
        assert pooler.refusal(user="aq_md5", secret="wrong") == "password authentication failed"
    pooler.wait_pool(user=AUTH[0], sv_idle=1, sv_active=0, sv_tested=0)
    assert pg.backends("usename = 'aq_auth'") == 1


# method x kind of user x result of auth_query


ROWS = {"none": [], "null name": [(None, SECRET)], "null secret": [("aq_trust", None)],
        "two": [("aq_md5", "first"), ("aq_trust", SECRET)], "two, null last": [("x", SECRET), ("aq_trust", None)]}
REFUSALS = {"plain": "password authentication failed", "md5": "password authentication failed",
            "scram-sha-256": "SASL authentication failed"}


@pytest.mark.parametrize("method", ["trust", "plain", "md5", "scram-sha-256"])
@pytest.mark.parametrize("rows", ROWS)
def test_matrix(asking, table, method, rows):
    pooler = asking(method, users={"listed": SECRET}, keys=table.keys)
    table(*[("someone", *row) for row in ROWS[rows]])
    outcome = {"none": "no such user" if method in ("trust", "md5") else REFUSALS[method], "null name": "bouncer config error", "two": None,
               }.get(rows, None if method == "trust" else REFUSALS[method])
    for secret in (SECRET, "md5", "wrong"):
        expected = REFUSALS[method] if outcome is None and method != "trust" and secret != SECRET else outcome
        if expected is None:
            assert login(pooler, "someone", secret) == "aq_trust"
        else:
            assert pooler.refusal(user="someone", secret=secret) == expected
    asked = table.count()
    # A refusal reveals neither which users are listed nor which databases exist.
    assert pooler.refusal("absent", "someone", SECRET) == REFUSALS.get(method, '"trust" authentication failed')
    if method == "trust":
        assert pooler.refusal("absent", "listed", SECRET) == "no such database: absent"
    else:
        assert pooler.refusal(user="listed", secret="wrong") == REFUSALS[method]
    assert table.count() == asked
    # No client is ever logged in as the auth_user.
    assert all(c["user"] != AUTH[0] for c in pooler.show("CLIENTS"))


def test_errors(asking, table):
    pooler = asking("md5", keys=dict(auth_query="select $1::text, 2, 3"))
    assert pooler.refusal(user="aq_md5") == "bouncer config error"
    pooler.wait_log("expected 2 columns from auth_query, not 3")
    pooler = asking("md5", keys=dict(auth_query="select n from nowhere"))
    assert pooler.refusal(user="aq_md5") == "bouncer config error"
    pooler.wait_log('ERROR .*S: error in auth_query: ERROR: relation "nowhere" does not exist$')
    pooler.wait_log(r"closing because: error response from auth_query \(age")
    assert pooler.pool(user=AUTH[0])["sv_idle"] == 0


def challenge(pooler, database, user):
    """Returns salt and rounds that a stranger is told."""
    client = pooler.client(database, user)
    client.send(client.startup_packet())
    assert client.recv().kind == "R"
    client.send(wire.sasl_initial("SCRAM-SHA-256", "n,,n=,r=abcdef"))
    told = dict(p.split("=", 1) for p in client.recv().body[4:].decode().split(","))
    client.close()
    return told["s"], told["i"]


def test_challenges_do_not_tell_which_databases_exist(asking, table, pg):
    """A user has the same salt in every database, also in those that do not exist."""
    known = wire.ScramKeys(SECRET, iterations=7000)
    table(["aq_scram", "aq_scram", known.secret()])
    pooler = asking("scram-sha-256", {"db": pg.conn(), "other": pg.conn()}, **table.keys)
    for user in ("aq_scram", "aq_ghost"):
        told = {challenge(pooler, database, user) for database in ("db", "absent", "other", "db", "void")}
        assert len(told) == 1, (user, told)
    assert pooler.refusal("absent", "aq_scram", SECRET) == "no such database: absent"
    assert pooler.refusal("absent", "aq_scram", "wrong") == "SASL authentication failed"
    assert pooler.refusal("absent", "aq_ghost", "wrong") == "SASL authentication failed"


@pytest.mark.one_worker  # Each worker learns for itself.
@pytest.mark.parametrize("method", ["scram-sha-256", "plain"])
def test_rounds_do_not_tell_which_users_exist(asking, table, method):
    """Users who do not exist have the rounds that most of those have whom auth_query has found."""
    table(*[[name, name, wire.ScramKeys(SECRET, iterations=rounds).secret()]
            for name, rounds in (("aq_one", 7000), ("aq_two", 7000), ("aq_three", 5000))])
    pooler = asking(method, verbose=1, **table.keys)
    for user in ("aq_three", "aq_one", "aq_two"):
        pooler.refusal("db", user, "wrong")
    for user in ("aq_ghost", "aq_one"):
        since = pooler.mark()
        pooler.refusal("db", user, "wrong")
        assert pooler.log_since(since).count("deriving a SCRAM key, 7000 iterations") == 1, user
        if method == "scram-sha-256":
            assert challenge(pooler, "db", user)[1] == "7000"


@pytest.mark.one_worker  # Each worker asks for itself.
@pytest.mark.parametrize("method", ["md5", "scram-sha-256"])
def test_names_that_cannot_be_asked_for_cost_no_connection(asking, pg, method):
    """A stranger may send any name, also one that is no UTF-8. The error that the server answers with
    does not cost its connection."""
    pooler = asking(method, default_pool_size=1)
    assert pooler.refusal(user="nobody", secret="x") in ("no such user", "SASL authentication failed")
    since = pooler.mark()
    for n in range(190):
        assert pooler.refusal(user=b"nobody \xff%d" % n, secret="x") == "bouncer config error"
    pooler.wait_log("ERROR .*S: error in auth_query: ERROR: invalid byte sequence for encoding")
    assert login(pooler, "aq_scram")
    said = pooler.log_since(since)
    assert said.count("new connection to server") == 1 and "error response" not in said  # aq_scram's own


RAISE = ("create or replace function aq_raise(name text, out who text, out secret text) as $$ begin "
         "raise 'nobody' using errcode = '%s'; end $$ language plpgsql")


@pytest.mark.one_worker
@pytest.mark.parametrize("query, name, said", [
    ("select rolname::text, 'x' from pg_roles where oid = $1::regrole", "nobody", 'role "nobody" does not exist'),
    ("select rolname::text, 'x' from pg_roles where oid = $1::regrole", "a b", "invalid name syntax"),
    ("select $1::int::text, 'x'", "nobody", "invalid input syntax for type integer"),
    ("28000", "nobody", "nobody"), ("28P01", "nobody", "nobody"), ("P0002", "nobody", "nobody"),
    ("AUTH1", "nobody", "nobody"), ("23505", "nobody", "nobody")])
def test_errors_about_a_name_cost_no_connection(asking, pg, query, name, said):
    if len(query) == 5:
        pg.do(RAISE % query)
        query = "select * from aq_raise($1)"
    pooler = asking("md5", keys=dict(auth_query=query, auth_dbname="db"), default_pool_size=1)
    for _ in range(5):
        assert pooler.refusal(user=name, secret="x") == "bouncer config error"
    pooler.wait_log("ERROR .*S: error in auth_query: ERROR: " + said)
    assert pooler.log().count("new connection to server") == 1


def test_names_that_a_function_does_not_know_cost_no_connection(asking, pg):
    """The usual function with OUT parameters returns a row of NULLs for them."""
    pooler = asking("scram-sha-256", keys=dict(auth_query="select null::text, $1::text"))
    for n in range(9):
        assert pooler.refusal(user="nobody%d" % n, secret="x") == "bouncer config error"
    assert pooler.log().count("new connection to server") == 1


def test_where_it_is_asked(asking, pg):
    pooler = asking("md5", databases={
        "unknown": pg.conn(auth_dbname="nowhere"), "itself": pg.conn(auth_dbname="pgbouncer"),
        "beside": pg.conn(auth_dbname="auth", user="owner"), "auth": pg.conn(user="trust_user")})
    assert pooler.refusal("unknown", "aq_md5") == "bouncer config error"
    pooler.wait_log('ERROR .*authentication database "nowhere" is not configured.$')
    assert pooler.refusal("itself", "aq_md5") == "bouncer config error"
    pooler.wait_log('ERROR .*cannot use the reserved "pgbouncer" database as an auth_dbname$')
    assert login(pooler, "aq_md5", database="beside") == "owner"
    assert pooler.pool("auth", AUTH[0])["sv_idle"] == 1
    pooler.admin.query("DISABLE auth")
    assert pooler.refusal("beside", "aq_md5") == 'authentication database "auth" is disabled'


def test_auth_database_from_the_template(asking, pg):
    pooler = asking("md5", databases={"*": pg.conn()}, auth_dbname="postgres")
    assert login(pooler, "aq_md5", database="postgres") == "aq_md5"
    pooler.wait_log("LOG .*registered new auto-database: postgres$")


def test_unproven_clients_leave_no_databases(asking, pg):
    """auth_query has a pool in the database that the client requests. The pooler removes that
    database when the login fails."""
    pooler = asking("scram-sha-256", databases={"*": pg.conn()}, server_idle_timeout="0.2",
                    server_login_retry="0.1")
    for n in range(3):
        assert pooler.refusal("absent%d" % n, "stranger", "x")
    assert pooler.refusal("postgres", "stranger", "x") == "SASL authentication failed"
    assert pooler.refusal("postgres", "aq_scram", "x") == "SASL authentication failed"
    waiting.wait_for(lambda: {row["name"] for row in pooler.show("DATABASES")} == {"pgbouncer"})
    pooler.connect("postgres", "aq_scram", SECRET).close()
    assert "postgres" in {row["name"] for row in pooler.show("DATABASES")}


def test_console(asking, pg):
    pooler = asking("md5", databases={"db": pg.conn()}, admin_users="aq_md5, admin_user", auth_dbname="db")
    with pooler.connect("pgbouncer", "aq_md5", SECRET) as console:
        assert console.query("show version").tag == "SHOW"
    assert pooler.refusal("pgbouncer", "aq_trust", SECRET) == "not allowed"
    pooler.set("auth_dbname", "")
    assert pooler.refusal("pgbouncer", "aq_md5", SECRET) == "bouncer config error"


# while auth_query runs


@pytest.fixture
def slow(asking, pg):
    """A pooler with a client whose query takes 30 seconds."""
    pooler = asking("md5", keys=dict(auth_query="select * from aq.slow($1)"))
    client = pooler.client(user="aq_md5", secret=SECRET)
    client.send(client.startup_packet())
    waiting.wait_for(lambda: pg.backends("usename = 'aq_auth' and state = 'active'") == 1, "the query runs")
    yield pooler, client
    client.close()
    pg.value("select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = 'aq_auth'")


def stop_query(pg, how="cancel"):
    pg.value("select count(pg_%s_backend(pid)) from pg_stat_activity where usename = 'aq_auth'" % how)


@pytest.mark.parametrize("how", ["cancel", "terminate"])
def test_query_is_ended(slow, pg, how):
    pooler, client = slow
    stop_query(pg, how)
    client.expect_fatal("bouncer config error")
    assert pooler.show_one("LISTS", list="used_clients")["items"] == "1"


@pytest.mark.one_worker  # Each worker asks for itself.
def test_client_leaves(slow, pg):
    pooler, client = slow
    other = pooler.client(user="aq_md5", secret=SECRET)
    other.send(other.startup_packet())
    waiting.wait_for(lambda: pooler.show_one("LISTS", list="login_clients")["items"] == "2", "both wait")
    client.close()
    waiting.wait_for(lambda: pooler.show_one("LISTS", list="login_clients")["items"] == "1", "one has gone")
    assert pooler.pool(user=AUTH[0])["sv_active"] == 1
    stop_query(pg)
    other.expect_fatal("bouncer config error")
    other.close()


def test_nobody_is_left(slow, pg):
    """The client leaves while its auth_query runs. The server may finish the query, then it is
    closed."""
    pooler, client = slow
    client.close()
    waiting.wait_for(lambda: pooler.show_one("LISTS", list="login_clients")["items"] == "0", "it has gone")
    assert pooler.pool(user=AUTH[0])["sv_active"] == 1
    waiting.wait_for(lambda: pooler.pool(user=AUTH[0])["sv_active"] == 0, "the query is given up")
    pooler.wait_log(r"S-.*aq_auth.*closing because: query timeout \(age")


def test_database_goes(asking, table, pg):
    table(("aq_trust", "aq_trust", SECRET))
    query = "select n, s from pg_sleep(1), aq.find($1)"
    auth = pg.conn(auth_query=query)
    pooler = asking("plain", databases={"db": pg.conn(auth_dbname="auth", auth_query=query), "auth": auth})
    with pooler.client(user="aq_trust", secret=SECRET) as client:
        client.send(client.startup_packet())
        waiting.wait_for(lambda: pg.backends("usename = 'aq_auth' and state = 'active'") == 1, "the query runs")
        pooler.databases = {"auth": auth}
        pooler.change()
        assert client.recv().kind == "R"
        client.send(wire.password(SECRET))
        client.expect_fatal("database removed")


def test_reload_and_kill(slow):
    pooler, client = slow
    pooler.reload()
    assert pooler.pool(user=AUTH[0])["sv_active"] == 1
    pooler.admin.query("KILL db")
    client.expect_fatal("bouncer config error")


def test_pause_waits_for_it(slow, pg):
    pooler, client = slow
    with pooler.console() as console:
        console.send(wire.query("PAUSE"))
        assert not console.has_data(0.3)
        stop_query(pg)
        client.expect_fatal("bouncer config error")
        assert console.recv_until("Z")
        console.query("RESUME")


def test_login_timeout(slow):
    pooler, client = slow
    pooler.set("client_login_timeout", "0.5")
    client.expect_fatal("client_login_timeout")


@pytest.mark.parametrize("signal", ["TERM", "INT", "QUIT"])
def test_shutdown(slow, pg, signal):
    pooler, client = slow
    pooler.signal(signal)
    if signal != "QUIT":
        stop_query(pg)
        client.expect_fatal("bouncer config error")
    pooler.wait_exit()


def test_crowd_is_one_query(asking, table, pg):
    table(("aq_trust", "aq_trust", SECRET))
    pooler = asking("md5", keys=table.keys, max_client_conn=500)
    before = table.count()
    clients = [pooler.client(user="aq_trust", secret=SECRET) for _ in range(300)]
    for client in clients:
        client.send(client.startup_packet())
    for client in clients:
        client.recv_kinds("R")
    assert 1 <= table.count() - before <= 30
    assert pg.backends("usename = 'aq_auth'") <= 20
    for client in clients:
        client.close()


# cached answers


@pytest.mark.one_worker  # Each worker asks for itself.
def test_kept_answers(asking, table):
    table(("aq_trust", "aq_trust", SECRET))
    pooler = asking("md5", keys=table.keys, auth_query_cache_time=60)
    before = table.count()
    for _ in range(5):
        assert login(pooler, "aq_trust") == "aq_trust"
    assert table.count() - before == 1
    # A wrong password makes the pooler ask again each time. The cached secret stays.
    for n in (2, 3):
        assert pooler.refusal(user="aq_trust", secret="wrong") == "password authentication failed"
        assert table.count() - before == n
    table(("aq_trust", "aq_trust", CHANGED))
    assert login(pooler, "aq_trust", CHANGED) == "aq_trust"
    assert pooler.refusal(user="aq_trust", secret=SECRET) == "password authentication failed"
    asked = table.count()
    assert login(pooler, "aq_trust", CHANGED) == "aq_trust"
    assert table.count() == asked
    for command in ("RELOAD", "RECONNECT", "RECONNECT db"):
        asked = table.count()
        pooler.admin.query(command)
        assert login(pooler, "aq_trust", CHANGED) == "aq_trust"
        assert table.count() == asked + 1
    # The pooler asks again each time for a user who did not exist.
    assert pooler.refusal(user="late", secret=SECRET) == "no such user"
    table(("late", "aq_trust", SECRET))
    assert login(pooler, "late") == "aq_trust"


@pytest.mark.one_worker  # Each worker asks for itself.
def test_kept_answers_per_database(asking, pg, table):
    table(("aq_trust", "aq_trust", SECRET))
    pooler = asking("md5", databases={
        "kept": pg.conn(auth_query_cache_time=60, **table.keys), "asked": pg.conn(**table.keys)})
    for database, queries in (("kept", 1), ("asked", 3)):
        before = table.count()
        for _ in range(3):
            login(pooler, "aq_trust", database=database)
        assert table.count() - before == queries


@pytest.mark.one_worker  # Each worker asks for itself.
def test_changed_scram_password(asking, pg):
    """SCRAM cannot be repeated on one connection: the first attempt fails, and the next one
    succeeds."""
    pooler = asking("scram-sha-256", auth_query_cache_time=60)
    try:
        assert login(pooler, "aq_scram") == "aq_scram"
        pg.do("set password_encryption = 'scram-sha-256'; alter role aq_scram password '%s'" % CHANGED)
        assert pooler.refusal(user="aq_scram", secret=CHANGED) == "SASL authentication failed"
        assert login(pooler, "aq_scram", CHANGED) == "aq_scram"
        assert pooler.refusal(user="aq_scram", secret=SECRET) == "SASL authentication failed"
    finally:
        pg.do("set password_encryption = 'scram-sha-256'; alter role aq_scram password '%s'" % SECRET)


@pytest.mark.parametrize("user", ["aq_md5", "aq_scram"])
def test_changed_password_reaches_the_server_login(asking, pg, user):
    """The server login uses the secret of the latest client login, not that of the first."""
    pooler = asking("md5")
    stored = ROLES[user][0]
    try:
        assert login(pooler, user) == user
        pg.do("set password_encryption = '%s'; alter role %s password '%s'" % (stored, user, CHANGED))
        pooler.admin.query("RECONNECT")
        assert login(pooler, user, CHANGED) == user
    finally:
        pg.do("set password_encryption = '%s'; alter role %s password '%s'" % (stored, user, SECRET))


def test_nothing_is_told(asking, pg):
    pooler = asking("md5", verbose=3, log_connections=1)
    for user in ("aq_md5", "aq_scram"):
        login(pooler, user)
    pooler.refusal(user="aq_md5", secret="mistyped 31c")
    told = b"".join(m.raw() for view in ("USERS", "POOLS", "DATABASES", "CONFIG", "CLIENTS", "SERVERS", "MEM")
                    for m in pooler.admin.query("SHOW " + view).messages)
    told += pooler.log().encode()
    for secret in (SECRET, AUTH[1], "mistyped 31c", pg.secret_of("aq_md5"), pg.secret_of("aq_scram")):
        assert secret.encode() not in told


def test_many_users(asking, table):
    """Each of many users needs an auth_query, and the auth_user's pool has few server
    connections."""
    table(*[("user%d" % i, "user%d" % i, SECRET) for i in range(40)])
    pooler = asking("md5", keys=dict(table.keys, user="trust_user"), default_pool_size=2)
    failures = []

    def come(i):
        try:
            assert login(pooler, "user%d" % i) == "trust_user"
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=come, args=(i,)) for i in range(40)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert int(pooler.pool(user=AUTH[0])["sv_idle"]) <= 2
    assert len([r for r in pooler.show("USERS") if r["name"].startswith("user")]) == 40
