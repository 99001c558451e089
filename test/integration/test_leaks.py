"""Session state that a client leaves on a server connection which others use next: session_state,
SHOW STATE_LEAKS."""

import struct

import pytest

import waiting
import wire

RESET = "DISCARD ALL"
REFUSED = ("%s is refused: it would change the session of a server connection that is shared "
           "(session_state)")

# kind: (a statement that leaves session state, a similar one that leaves none)
KINDS = {
    "SET": ("set work_mem = '1MB'", "set local work_mem = '1MB'"),
    "SET ROLE": ("set role trust_user", "set local role trust_user"),
    "SET SESSION AUTHORIZATION": ("set session authorization trust_user",
                                  "set local session authorization trust_user"),
    "LISTEN": ("listen leak", "notify leak"),
    "PREPARE": ("prepare leak as select 1", "deallocate all"),
    "CREATE TEMP": ("create temp table leak (a int)",
                    "create temp table leak (a int) on commit drop"),
    "LOAD": ("load 'plpgsql'", "reset all"),
    "set_config": ("select set_config('work_mem', '1MB', false)",
                   "select set_config('work_mem', '1MB', true)"),
    "advisory lock": ("select pg_try_advisory_lock(99)", "select pg_try_advisory_xact_lock(99)"),
}


def settings(state, **more):
    return dict({"pool_mode": "transaction", "session_state": state}, **more)


def leaks(pooler):
    return {r["kind"]: int(r["count"]) for r in pooler.show("STATE_LEAKS")}


def resets(session):
    return session.queries().count(RESET)


@pytest.fixture
def make(make_pooler, pg):
    """make(state) returns a pooler with one server connection, for the superuser."""
    def made(state, **more):
        return make_pooler({"db": pg.conn(pool_size=1)}, settings=settings(state, **more))

    return made


def owner(pooler, **more):
    return pooler.connect(user="owner", **more)


def error_of(result):
    error = next(m for m in result.messages if m.kind == "E")
    return dict(error.fields())


def extended(client, sql):
    """Runs the SQL as an unnamed statement of the extended protocol."""
    client.send(wire.parse("", sql), wire.bind(), wire.execute(), wire.sync())
    return wire.Result(client.recv_until("Z"))


@pytest.mark.parametrize("kind", KINDS)
def test_forward_counts_what_is_left(make, kind):
    pooler = make("forward")
    client = owner(pooler, application_name="leaker")
    leaking, harmless = KINDS[kind]
    client.query(leaking)
    row = pooler.show_one("STATE_LEAKS")
    assert {k: row[k] for k in ("database", "user", "application_name", "kind", "count")} == {
        "database": "db", "user": "owner", "application_name": "leaker", "kind": kind,
        "count": "1"}
    assert row["last_time"].startswith("20")
    client.query("reset all")
    client.query("deallocate all")
    client.query("drop table if exists leak")
    client.query(harmless)
    client.query("select 1")
    assert leaks(pooler) == {kind: 1}


def run_simple(client, sql):
    return client.query(sql, check=False)


HOLD = "declare leak cursor with hold for select 1"


@pytest.mark.parametrize("state", ["forward", "clean", "refuse"])
@pytest.mark.parametrize("who", ["setting", "database", "user"])
@pytest.mark.parametrize("run", [run_simple, extended], ids=["simple", "extended"])
def test_every_kind_in_every_mode(make_pooler, pg, state, who, run):
    """Different clients run each statement twice on one server connection."""
    other = "clean" if state == "forward" else "forward"
    pooler = make_pooler(
        {"db": pg.conn(pool_size=1, **({"session_state": state} if who == "database" else {}))},
        settings=settings(state if who == "setting" else other),
        users={"owner": "session_state=" + state} if who == "user" else {})
    one, two = owner(pooler), owner(pooler)
    before = one.value("select pg_backend_pid()")
    for kind, (leaking, _) in dict(KINDS, **{"DECLARE WITH HOLD": (HOLD, None)}).items():
        for client in (one, two):
            # A cursor WITH HOLD outlives its transaction, so the statement is sent alone.
            result = run(client, leaking)
            if state == "refuse":
                assert error_of(result)["M"] == REFUSED % kind
            elif state == "clean":
                assert not result.errors
            if state == "forward":
                client.query("discard all")
        assert leaks(pooler)[kind] == 2, kind
    assert one.value("select pg_backend_pid()") == before


@pytest.mark.parametrize("run", [run_simple, extended], ids=["simple", "extended"])
def test_select_into_temp(make, run):
    pooler = make("clean")
    client = owner(pooler)
    run(client, "select 1 as a into temp table leak")
    assert client.value("select to_regclass('pg_temp.leak') is null") == "t"
    assert leaks(pooler) == {"CREATE TEMP": 1}


def function_call(oid, *values):
    body = struct.pack("!ihh", oid, 0, len(values))
    body += b"".join(struct.pack("!i", len(v)) + v for v in values)
    return wire.message("F", body + struct.pack("!h", 0))


@pytest.mark.parametrize("kind, oid, values", [
    ("advisory lock", 2880, [b"99"]), ("advisory lock", 2889, [b"9", b"8"]),
    ("set_config", 2078, [b"work_mem", b"1MB", b"f"]), (None, 2891, [b"99"])])
def test_function_call(make, kind, oid, values):
    pooler = make("clean")
    one, two = owner(pooler), owner(pooler)
    one.send(function_call(oid, *values))
    assert one.finish().kinds()[-2:] in ("VZ", "EZ")
    assert two.value("select count(*) from pg_locks where locktype = 'advisory'") == "0"
    assert two.value("show work_mem") == "4MB"
    assert leaks(pooler) == ({kind: 1} if kind else {})
    # A statement that fails leaves no state.
    one.send(function_call(oid))
    assert one.finish().kinds() == "EZ"
    assert leaks(pooler) == ({kind: 1} if kind else {})


def test_forward_leaves_it(make):
    pooler = make("forward")
    one, two = owner(pooler), owner(pooler)
    one.query("set work_mem = '1234kB'")
    assert two.value("show work_mem") == "1234kB"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("run", [lambda c, sql: c.query(sql), extended], ids=["simple", "extended"])
def test_clean(make, kind, run):
    pooler = make("clean")
    one, two = owner(pooler), owner(pooler)
    before = one.value("select pg_backend_pid()")
    run(one, KINDS[kind][0])
    assert two.value("select pg_backend_pid()") == before
    assert two.value("select current_user || ' ' || current_setting('work_mem')") == "owner 4MB"
    assert two.value("select count(*) from pg_listening_channels()") == "0"
    assert two.value("select count(*) from pg_prepared_statements where from_sql") == "0"
    assert two.value("select count(*) from pg_locks where locktype = 'advisory'") == "0"
    assert two.value("select to_regclass('pg_temp.leak') is null") == "t"
    assert leaks(pooler) == {kind: 1}


def test_clean_runs_the_reset_query_once_per_leak(make_pooler, fake):
    server = fake()
    pooler = make_pooler({"db": server.conn(pool_size=1)}, settings=settings("clean"))
    client, other = pooler.connect(), pooler.connect()
    client.query("select 1")
    session = server.sessions[0]
    assert resets(session) == 0
    for count in (1, 2, 3):
        client.query("listen leak")
        other.query("select 1")
        client.query("select 1")
        waiting.wait_for(lambda: resets(session) == count, "reset %d" % count)
    assert resets(session) == 3 and len(server.sessions) == 1
    texts = session.queries()
    assert all(texts[i + 1] == RESET for i, q in enumerate(texts) if q == "listen leak")


def test_clean_waits_for_the_end_of_the_transaction(make):
    pooler = make("clean")
    client = owner(pooler)
    client.query("begin")
    client.query("set work_mem = '1234kB'")
    assert client.value("show work_mem") == "1234kB"
    client.query("commit")
    assert client.value("show work_mem") == "4MB"
    client.query("begin; create temp table leak (a int) on commit drop; set local work_mem = '1MB'")
    client.query("commit")
    assert leaks(pooler) == {"SET": 1}


def test_clean_with_hold(make):
    pooler = make("clean")
    client = owner(pooler)
    client.query("begin; declare c cursor with hold for select 1; declare d cursor for select 1")
    client.query("commit")
    assert leaks(pooler) == {"DECLARE WITH HOLD": 1}
    assert client.value("select count(*) from pg_cursors") == "0"


def test_prepared_long_ago(make):
    """The statement runs again on a server that parsed its text in an earlier transaction."""
    pooler = make("clean")
    one, two = owner(pooler), owner(pooler)
    one.send(wire.parse("lock", "select pg_try_advisory_lock(99)"), wire.sync())
    one.recv_until("Z")
    for count in (1, 2):
        one.send(wire.bind("", "lock"), wire.execute(), wire.sync())
        one.recv_until("Z")
        assert leaks(pooler) == {"advisory lock": count}
        assert two.value("select count(*) from pg_locks where locktype = 'advisory'") == "0"


def test_prepare_that_is_kept_is_no_leak(make):
    pooler = make("refuse", track_sql_prepare=1)
    one, two = owner(pooler), owner(pooler)
    one.query("prepare leak as select 5")
    two.query("prepare leak as select 6")
    assert (one.value("execute leak"), two.value("execute leak")) == ("5", "6")
    assert not extended(one, "prepare other as select 7").errors
    assert one.value("execute other") == "7"
    assert leaks(pooler) == {}
    # In a query with several statements, PREPARE goes to the server unchanged.
    assert error_of(one.query("prepare more as select 5; select 1", check=False))["C"] == "0A000"


def test_tracked_parameters_are_no_leaks(make):
    pooler = make("refuse")
    client = owner(pooler)
    for sql in ("set timezone = 'Asia/Tokyo'", "set time zone 'UTC'", "set names 'latin1'",
                "set session application_name to 'x'", "reset all", "discard all"):
        assert client.query(sql).tag
    assert leaks(pooler) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_refuse(make, kind):
    pooler = make("refuse")
    client = owner(pooler)
    leaking, harmless = KINDS[kind]
    for run in (lambda c, sql: c.query(sql, check=False), extended):
        result = run(client, leaking)
        error = error_of(result)
        assert (error["S"], error["C"], error["M"]) == ("ERROR", "0A000", REFUSED % kind)
        assert error["H"].endswith("a pool in session mode.")
        assert result.kinds() == "EZ"
        # In a transaction block a refusal aborts the block, like any statement that fails.
        client.query("begin")
        assert run(client, leaking).messages[-1].body == b"E"
        later = error_of(run(client, leaking))
        assert later["C"] == "25P02"
        client.query("rollback")
    client.query(harmless)
    assert client.value("show work_mem") == "4MB"
    assert leaks(pooler) == {kind: 6}


def test_refused_in_a_pipeline(make):
    """Messages before the refused one run, messages after it up to Sync are skipped, and the
    answers are in order."""
    pooler = make("refuse")
    client = owner(pooler)
    client.send(wire.parse("a", "select 1"), wire.bind("", "a"), wire.execute(),
                wire.parse("b", "listen leak"), wire.describe("S", "b"), wire.bind("", "b"),
                wire.execute(), wire.parse("c", "select 2"), wire.sync(),
                wire.query("select 3"),
                wire.bind("", "a"), wire.execute(), wire.sync())
    assert wire.Result(client.recv_until("Z")).kinds() == "12DCEZ"
    assert wire.Result(client.recv_until("Z")).kinds() == "TDCZ"
    assert wire.Result(client.recv_until("Z")).kinds() == "2DCZ"
    for name in ("b", "c"):
        client.send(wire.bind("", name), wire.execute(), wire.sync())
        error = error_of(wire.Result(client.recv_until("Z")))
        assert (error["C"], error["M"]) == (
            "26000", 'prepared statement "%s" does not exist' % name)
    client.send(wire.parse("b", "select 4"), wire.bind("", "b"), wire.execute(), wire.sync())
    assert wire.Result(client.recv_until("Z")).kinds() == "12DCZ"


def test_unnamed_statement_and_refusal(make):
    """A refused Parse with a name keeps the unnamed statement; one without a name drops it."""
    pooler = make("refuse")
    client = owner(pooler)
    client.query("begin")
    client.query("savepoint s")
    client.send(wire.parse("", "select 1"), wire.sync())
    client.recv_until("Z")
    client.send(wire.parse("b", "listen leak"), wire.sync())
    assert wire.Result(client.recv_until("Z")).kinds() == "EZ"
    client.send(wire.parse("r", "rollback to s"), wire.sync(), wire.bind("", "r"), wire.execute(),
                wire.sync())
    client.recv_until("Z"), client.recv_until("Z")
    client.send(wire.bind(), wire.execute(), wire.sync())
    assert wire.Result(client.recv_until("Z")).kinds() == "2DCZ"
    client.send(wire.parse("", "listen leak"), wire.sync())
    assert wire.Result(client.recv_until("Z")).kinds() == "EZ"
    client.send(wire.bind("", "r"), wire.execute(), wire.sync())
    client.recv_until("Z")
    client.send(wire.bind(), wire.execute(), wire.sync())
    assert error_of(wire.Result(client.recv_until("Z")))["C"] == "26000"


def test_refuse_cleans_what_it_could_not_see(make):
    pooler = make("refuse")
    client = owner(pooler)
    client.query("select 1; set work_mem = '1234kB'")
    assert client.value("show work_mem") == "4MB"
    client.query("select 'pg_advisory_lock(1)'")
    assert leaks(pooler) == {"SET": 1}


def test_long_statement_is_refused(make):
    pooler = make("refuse")
    client = owner(pooler)
    result = client.query("listen leak -- " + "x" * 300000, check=False)
    assert error_of(result)["C"] == "0A000" and result.kinds() == "EZ"
    assert client.value("select 1") == "1"


def test_statement_mode(make):
    pooler = make("refuse", pool_mode="statement")
    client = owner(pooler)
    assert error_of(client.query("listen leak", check=False))["C"] == "0A000"
    assert client.value("select 1") == "1"


def test_session_mode_has_no_leaks(make):
    pooler = make("refuse", pool_mode="session")
    client = owner(pooler)
    client.query("listen leak")
    client.query("set work_mem = '1234kB'")
    assert client.value("show work_mem") == "1234kB"
    assert leaks(pooler) == {}


def test_user_before_database_before_setting(make_pooler, pg):
    pooler = make_pooler(
        {"db": pg.conn(), "strict": pg.conn(session_state="refuse")},
        settings=settings("clean"),
        users={"second_user": "session_state=forward"})

    def outcome(**who):
        client = pooler.connect(**who)
        result = client.query("set work_mem = '1234kB'", check=False)
        return result.kinds() if "E" in result.kinds() else client.value("show work_mem")

    assert outcome(database="db") == "4MB"
    assert outcome(database="strict") == "EZ"
    assert outcome(database="db", user="second_user") == "1234kB"
    assert outcome(database="strict", user="second_user") == "1234kB"
    pooler.set("session_state", "refuse")
    assert outcome(database="db") == "EZ"


def test_bad_words(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=settings("clean"))
    result = pooler.admin.query("SET session_state = 'no'", check=False)
    assert "E" in result.kinds()
    assert pooler.config()["session_state"] == "clean"


def test_without_reset_query_the_server_is_closed(make):
    pooler = make("clean", server_reset_query="")
    client = owner(pooler)
    before = client.value("select pg_backend_pid()")
    client.query("listen leak")
    assert client.value("select pg_backend_pid()") != before
    pooler.wait_log("session state was left behind")
