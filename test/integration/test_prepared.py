"""Prepared statements of a client whose server connection changes (protocol.md 12)."""

import contextlib

import pytest

import postgres
import wire

SETTINGS = {"pool_mode": "transaction", "default_pool_size": "1", "max_prepared_statements": "200"}


@pytest.fixture
def table(pg):
    """A table of one row with a column `id`."""
    name = "prepared_table"
    pg.do("drop table if exists " + name, "create table %s as select 1 as id" % name,
          "grant all on %s to public" % name, "alter table %s owner to trust_user" % name)
    yield name
    pg.do("drop table if exists " + name)


def make(make_pooler, pg, **more):
    settings = dict(SETTINGS, **{k: str(v) for k, v in more.items()})
    return make_pooler({"db": pg.conn()}, settings=settings)


def prepare(client, name, sql, types=()):
    client.send(wire.parse(name, sql, types), wire.sync())
    assert client.finish().kinds() == "1Z"


def run(name, *values, described=True, **formats):
    """Returns Bind, Describe of the portal, Execute."""
    middle = wire.describe("P") if described else b""
    return wire.bind("", name, values, **formats) + middle + wire.execute()


def rows(client, *parts):
    client.send(*parts, wire.sync())
    result = client.finish()
    if result.errors:
        raise wire.Refused(result.errors[0])
    return result.rows


def refusal(client, *parts):
    with pytest.raises(wire.Refused) as caught:
        rows(client, *parts)
    return caught.value.code, caught.value.text


# statements of one text and several readings


@pytest.mark.parametrize("name, value, other, sql", [
    ("datestyle", "SQL, DMY", "ISO, MDY", "select '01/02/2001'::date - date '2001-01-01'"),
    ("timezone", "America/New_York", "Asia/Tokyo", "select extract(epoch from '2001-01-01 00:00'::timestamptz)"),
    ("intervalstyle", "sql_standard", "postgres", "select extract(epoch from '-1 1:00:00'::interval)"),
    ("standard_conforming_strings", "off", "on", r"select length('a\\b')"),
    ("client_encoding", "LATIN1", "UTF8", "select octet_length('\u00e9')"),
])
def test_statements_are_read_under_their_clients_parameters(make_pooler, pg, name, value, other, sql):
    """What PostgreSQL reads into constants when it parses is not shared with clients who mean something else."""
    pooler = make(make_pooler, pg)
    wanted = []
    for one in (value, other):
        with pg.client(**{name: one}) as direct:
            wanted.append(rows(direct, wire.parse("s", sql), run("s")))
    assert wanted[0] != wanted[1]
    clients = [pooler.connect(**{name: one}) for one in (value, other)]
    assert [rows(client, wire.parse("s", sql), run("s")) for client in clients] == wanted
    for _ in range(2):
        assert [rows(client, run("s")) for client in clients] == wanted
    assert pooler.pool()["sv_idle"] == 1


@pytest.mark.parametrize("sql, code", [("select '\\\\'", "22P06"), ("select 1 as " + 70 * "n", "42622")],
                         ids=["backslash", "name that is cut"])
def test_a_notice_of_parse_comes_each_time(make_pooler, pg, sql, code):
    """Also when the server has the statement; and not when the pooler prepares it for a Bind."""
    pooler = make(make_pooler, pg)
    clients = [pooler.connect(standard_conforming_strings="off") for _ in range(2)]
    for client in clients + clients:
        client.send(wire.parse("s", sql), wire.sync())
        result = client.finish()
        assert result.kinds() == "N1Z" and result.messages[0].field("C") == code
        client.send(run("s"), wire.sync())
        assert client.finish().kinds() == "2TDCZ"
        client.send(wire.close("S", "s"), wire.parse("s", sql), wire.sync())
        assert client.finish().kinds() == "3N1Z"
        client.send(wire.close("S", "s"), *[wire.parse("s", sql + " "), wire.close("S", "s")] * 2, wire.parse("s", sql), wire.sync())
        assert client.finish().kinds() == "3N13N13N1Z"
        pooler.admin.query("RECONNECT")
        client.send(run("s"), wire.sync())
        assert client.finish().kinds() == "2TDCZ"
        client.send(wire.close("S", "s"), wire.sync())
        client.finish()


# statements that the server has lost


@contextlib.contextmanager
def altered(client, table, sql="select * from %s"):
    """A statement whose result type has changed since it was prepared."""
    prepare(client, "stale", sql % table)
    assert rows(client, run("stale")) == [("1",)]
    client.query("alter table %s add column more text default 'm'" % table)
    yield
    assert rows(client, run("stale"))[0][-1] == "m"


def test_changed_result_type_is_not_seen(make_pooler, pg, table):
    client = make(make_pooler, pg).connect()
    with altered(client, table):
        client.send(run("stale"), wire.sync())
        result = client.finish()
        assert result.kinds() == "2TDCZ"
        assert result.names == ["id", "more"]


def test_changed_result_type_is_not_seen_by_a_description(make_pooler, pg, table):
    client = make(make_pooler, pg).connect()
    with altered(client, table):
        client.send(wire.describe("S", "stale"), wire.sync())
        result = client.finish()
        assert result.kinds() == "tTZ"
        assert result.names == ["id", "more"]


def test_changed_result_type_before_sync(make_pooler, pg, table):
    client = make(make_pooler, pg).connect()
    with altered(client, table):
        client.send(run("stale"), wire.flush())
        client.recv_kinds("2TDC")
        client.send(run("stale"), wire.flush())
        client.recv_kinds("2TDC")
        client.send(wire.sync())
        assert client.finish().kinds() == "Z"


def test_changed_result_type_with_more_behind(make_pooler, pg, table):
    """Nothing of the failed pipeline has run, so the pooler sends all of it again."""
    client = make(make_pooler, pg).connect()
    prepare(client, "other", "select 'other'")
    with altered(client, table):
        assert rows(client, run("stale"), run("other"), wire.close("S", "other"),
                    wire.parse("late", "select 'late'"), run("late")) == [
            ("1", "m"), ("other",), ("late",)]
    assert refusal(client, run("other")) == ("26000", 'prepared statement "other" does not exist')
    assert rows(client, run("late")) == [("late",)]


def test_changed_result_type_in_a_transaction(make_pooler, pg, table):
    client = make(make_pooler, pg).connect()
    with altered(client, table):
        client.query("begin")
        assert refusal(client, run("stale")) == (
            "0A000", "cached plan must not change result type")
        assert client.query("rollback").tag == "ROLLBACK"


def test_changed_result_type_after_rows(make_pooler, pg, table):
    client = make(make_pooler, pg).connect()
    prepare(client, "other", "select 'other'")
    with altered(client, table):
        client.send(run("other"), run("stale"), wire.sync())
        assert client.finish().kinds() == "2TDCEZ"


def test_changed_result_type_of_binary_rows_not_described(make_pooler, pg, table):
    """A client that decodes binary numbers by an earlier RowDescription must not get rows of
    another type."""
    client = make(make_pooler, pg).connect()
    with altered(client, table):
        code, _ = refusal(client, run("stale", described=False, results=[1]))
        assert code == "0A000"


def test_changed_result_type_of_text_rows_not_described(make_pooler, pg, table):
    client = make(make_pooler, pg).connect()
    with altered(client, table):
        assert rows(client, run("stale", described=False)) == [("1", "m")]


def test_changed_result_type_meets_the_next_client(make_pooler, pg, table):
    """The statement on the server has the old result type, and another client prepares the same
    text now."""
    pooler = make(make_pooler, pg)
    with altered(pooler.connect(), table):
        late = pooler.connect()
        late.send(wire.parse("mine", "select * from " + table), wire.describe("S", "mine"),
                  wire.sync())
        assert late.finish().kinds() == "1tTZ"
        assert rows(late, run("mine")) == [("1", "m")]


def test_error_of_the_statement_itself_is_seen_once(make_pooler, pg, table):
    client = make(make_pooler, pg).connect()
    prepare(client, "stale", "select * from " + table)
    rows(client, run("stale"))
    client.query("drop table " + table)
    for _ in range(2):
        assert refusal(client, run("stale"))[0] == "42P01"
    client.query("create table %s as select 7 as id" % table)
    assert rows(client, run("stale")) == [("7",)]


@pytest.fixture
def forgetting(pg):
    """A query that drops all statements, which the pooler cannot see in its text."""
    pg.do("create or replace function public.forget_all() returns void language plpgsql as "
          "$f$begin execute 'deallocate all'; end$f$")
    yield "select public.forget_all()"


def test_statement_the_server_has_lost(make_pooler, pg, forgetting):
    client = make(make_pooler, pg).connect()
    prepare(client, "a", "select 'a'")
    prepare(client, "b", "select 'b'")
    client.query(forgetting)
    assert rows(client, run("a")) == [("a",)]
    client.query("begin")
    assert refusal(client, run("b")) == ("26000", 'prepared statement "b" does not exist')
    client.query("rollback")
    assert rows(client, run("b")) == [("b",)]
    assert rows(client, run("b"), run("a")) == [("b",), ("a",)]


# SQL-level statements


@pytest.fixture
def sql_pooler(make_pooler, pg):
    return make(make_pooler, pg, track_sql_prepare=1, default_pool_size=2)


def on_two_servers(pooler, client, sql, database="db"):
    """The client's query runs on every server connection in turn, while other clients keep the rest
    busy."""
    with pooler.connect(database) as busy:
        busy.query("begin")
        first = client.query(sql, check=False)
    with pooler.connect(database) as busy, pooler.connect(database) as other:
        busy.query("begin")
        other.query("begin")
        busy.query("rollback")
        second = client.query(sql, check=False)
        other.query("rollback")
    return first, second


def sql_error(client, sql):
    result = client.query(sql, check=False)
    assert len(result.errors) == 1, result.messages
    fields = dict(result.errors[0].fields())
    return fields["C"], fields["M"], fields.get("P")


def test_sql_prepare_is_off_by_default(make_pooler, pg):
    pooler = make(make_pooler, pg)
    client = pooler.connect()
    client.query("prepare off as select 1")
    assert pg.value("select 1") == "1"
    assert pooler.connect().value("execute off") == "1"


def test_sql_prepare_works_across_servers(sql_pooler):
    client = sql_pooler.connect()
    assert client.query("prepare one (int, text) as select $1 + 1, $2").kinds() == "CZ"
    for result in on_two_servers(sql_pooler, client, "execute one(4, 'x')"):
        assert result.kinds() == "TDCZ"
        assert result.rows == [("5", "x")]
        assert result.tag == "SELECT 1"


def test_sql_names_belong_to_one_client(sql_pooler):
    a, b = sql_pooler.connect(), sql_pooler.connect()
    a.query("prepare same as select 'a'")
    b.query("prepare same as select 'b'")
    assert (a.value("execute same"), b.value("EXECUTE Same ;")) == ("a", "b")
    c = sql_pooler.connect()
    assert sql_error(c, "execute same") == ("26000", 'prepared statement "same" does not exist', None)


@pytest.mark.parametrize("kind, body", [
    ("P", b"s"), ("P", b"named"), ("P", b"s\0select 1"), ("P", b"s\0select 1\0"),
    ("P", b"s\0select 1\0\0\2\0\0\0\x17"), ("B", b"\0"), ("B", b"portal and more"),
    ("B", b"\0statement"), ("D", b""), ("D", b"S"), ("D", b"Sname"), ("C", b"S"), ("C", b"Sname")])
@pytest.mark.parametrize("is_linked", [False, True])
def test_message_that_cannot_be_read(make_pooler, pg, kind, body, is_linked):
    pooler = make(make_pooler, pg)
    client = pooler.connect()
    if is_linked:
        client.query("begin")
    client.send(wire.message(kind, body))
    client.expect_fatal("broken %s packet" % {
        "P": "Parse", "B": "Bind", "D": "Describe", "C": "Close"}[kind])
    assert pooler.connect().value("select 1") == "1"


@pytest.mark.one_worker  # Each worker has its own texts, and numbers them.
def test_sql_texts_are_shared(sql_pooler):
    for _ in range(3):
        client = sql_pooler.connect()
        assert client.query("prepare mine as select 12").tag == "PREPARE"
        assert client.value("execute mine") == "12"
        text, = sql_pooler.show("PREPARED_STATEMENTS")
        assert (text["name"], text["query"]) == ("PGBOUNCER_SQL_1", " as select 12")
        assert sum(int(c["prepared_statements"]) for c in sql_pooler.show("CLIENTS")) == 1
        assert sum(int(s["prepared_statements"]) for s in sql_pooler.show("SERVERS")) == 1
        assert client.query("deallocate mine").tag == "DEALLOCATE"


def test_sql_deallocate(sql_pooler):
    client = sql_pooler.connect()
    client.query("prepare gone as select 1")
    for result in on_two_servers(sql_pooler, client, "select 1"):
        assert result.kinds() == "TDCZ"
    assert client.query("deallocate prepare gone").kinds() == "CZ"
    assert sql_error(client, "execute gone")[0] == "26000"
    assert sql_error(client, "deallocate gone") == (
        "26000", 'prepared statement "gone" does not exist', None)
    client.query("prepare gone as select 2")
    assert client.value("execute gone") == "2"
    for all_of_them in ("deallocate all", "discard all"):
        assert client.query(all_of_them).tag == all_of_them.upper()
        assert sql_error(client, "execute gone")[0] == "26000"
        client.query("prepare gone as select 3")
        assert client.value("execute gone") == "3"


def test_sql_duplicates(sql_pooler):
    client = sql_pooler.connect()
    client.query("prepare twice as select 1")
    for result in on_two_servers(sql_pooler, client, "prepare twice as select 2"):
        assert dict(result.errors[0].fields())["M"] == 'prepared statement "twice" already exists'
        assert result.kinds() == "EZ"
    assert client.value("execute twice") == "1"


@pytest.mark.parametrize("sql", [
    "prepare broken as select nothing",
    "prepare broken (int) as select $1 +++",
    "/* ü */ prepare \"Ünï\" as select 'ü', nothing",
    "prepare fine as select 1; prepare fine as select nothing",
    "prepare broken (nothing) as select 1",
    "execute absent",
    "execute absent(nothing, 1)",
    "deallocate absent",
    "prepare",
    "execute",
    "deallocate",
    "prepare x as",
    "prepare transaction 'x'",
    "execute \"\"",
    "execute broken x y",
])
def test_sql_errors_are_those_of_a_direct_connection(sql_pooler, pg, sql):
    with pg.client(user="trust_user") as direct:
        wanted = direct.query(sql, check=False)
    got = sql_pooler.connect().query(sql, check=False)
    assert got.messages == wanted.messages


def test_sql_error_behind_a_prelude_has_its_place(sql_pooler, pg):
    with pg.client(user="trust_user") as direct:
        direct.query("prepare p (int) as select $1")
        wanted = direct.query("execute p(1 + nothing)", check=False).messages
    client = sql_pooler.connect()
    client.query("prepare p (int) as select $1 -- é")
    for result in on_two_servers(sql_pooler, client, "execute p(1 + nothing)"):
        assert result.messages == wanted


def test_sql_prepare_in_a_failed_transaction(sql_pooler):
    client = sql_pooler.connect()
    client.query("prepare kept as select 1")
    client.query("begin")
    assert sql_error(client, "prepare lost as select nothing")[0] == "42703"
    for sql in ("prepare later as select 1", "deallocate kept", "execute kept"):
        assert sql_error(client, sql)[0] == "25P02"
    client.query("rollback")
    assert client.value("execute kept") == "1"
    assert sql_error(client, "execute later")[0] == "26000"
    # PostgreSQL keeps a statement whose PREPARE is in a transaction that is rolled back.
    client.query("begin")
    client.query("prepare stays as select 5")
    client.query("rollback")
    assert client.value("execute stays") == "5"


def test_sql_statements_leave_the_server(make_pooler, pg):
    pooler = make(make_pooler, pg, track_sql_prepare=1, max_prepared_statements=2)
    client = pooler.connect()
    for i in range(5):
        client.query("prepare s%d as select %d" % (i, i))
    count = "select count(*) from pg_prepared_statements where name like 'PGBOUNCER_SQL_%'"
    assert client.value(count) == "2"
    for i in range(5):
        assert client.value("execute s%d" % i) == str(i)
        assert client.value(count) == "2"


def test_sql_changed_result_type_is_not_seen(sql_pooler, table):
    client = sql_pooler.connect()
    client.query("prepare stale as select * from " + table)
    assert client.query("execute stale").rows == [("1",)]
    client.query("alter table %s add column more text default 'm'" % table)
    result = client.query("execute stale")
    assert result.kinds() == "TDCZ"
    assert result.rows == [("1", "m")]
    client.query("do $$ begin execute 'deallocate all'; end $$")
    assert client.query("execute stale").rows == [("1", "m")]
    client.query("begin")
    client.query("alter table %s add column yet text" % table)
    assert sql_error(client, "execute stale")[0] == "0A000"
    client.query("commit")
    assert client.query("execute stale").rows == [("1", "m")]


def test_sql_queries_in_a_pipeline(sql_pooler):
    client = sql_pooler.connect()
    client.send(wire.query("prepare p as select 1"), wire.query("execute p"),
                wire.query("deallocate p"), wire.query("execute p"), wire.query("select 2"))
    kinds = [client.finish().kinds() for _ in range(5)]
    assert kinds == ["CZ", "TDCZ", "CZ", "EZ", "TDCZ"]
    client.send(run_unnamed("select 3"), wire.query("prepare p as select 1"), wire.query("execute p"))
    kinds = [client.finish().kinds() for _ in range(2)]
    assert kinds == ["12TDCCZ", "TDCZ"]


def run_unnamed(sql):
    return wire.parse("", sql) + run("")


def test_sql_several_in_one_query_pass_as_they_are(sql_pooler, pg):
    client = sql_pooler.connect()
    result = client.query("prepare a as select 1; execute a; deallocate a")
    assert result.kinds() == "CTDCCZ"


# named statements of the protocol


@pytest.mark.parametrize("limit", [1, 2, 200])
def test_statements_over_servers(make_pooler, pg, limit):
    pooler = make(make_pooler, pg, max_prepared_statements=limit, default_pool_size=2)
    client = pooler.connect()
    for i in range(4):
        prepare(client, "s%d" % i, "select %d::text" % i)
    for _ in range(2):
        with pooler.connect() as busy:
            busy.query("begin")
            for i in range(4):
                assert rows(client, run("s%d" % i)) == [(str(i),)]
        assert rows(client, *[run("s%d" % i) for i in range(4)]) == [(str(i),) for i in range(4)]
    assert pooler.show_one("CLIENTS", database="db")["prepared_statements"] == "4"
    for row in pooler.show("SERVERS"):
        assert int(row["prepared_statements"]) <= min(limit, 4)
    held = client.value("select count(*) from pg_prepared_statements")
    assert int(held) == min(limit, 4)


@pytest.mark.parametrize("limit", [1, 200])
def test_statements_forgotten_further_on_in_a_query(make_pooler, pg, limit):
    """Later messages of the pipeline must not find the forgotten statements."""
    pooler = make(make_pooler, pg, max_prepared_statements=limit)
    client = pooler.connect()
    prepare(client, "mine", "select 'mine'")
    prepare(client, "other", "select 'other'")
    client.send(wire.query("begin; deallocate all; rollback"), run("mine"), wire.sync())
    client.recv_kinds("CCCZ" "EZ")


@pytest.mark.parametrize("forget", ["deallocate all", "discard all"])
def test_all_statements_forgotten(make_pooler, pg, forget):
    pooler = make(make_pooler, pg)
    client, other = pooler.connect(), pooler.connect()
    prepare(client, "mine", "select 'mine'")
    prepare(other, "theirs", "select 'theirs'")
    assert client.query(forget).tag == forget.upper()
    assert refusal(client, run("mine")) == ("26000", 'prepared statement "mine" does not exist')
    assert rows(other, run("theirs")) == [("theirs",)]
    client.send(run_unnamed(forget), wire.parse("after", "select 'after'"), run("after"), wire.sync())
    result = client.finish()
    assert not result.errors and result.rows == [("after",)]
    assert rows(client, run("after")) == [("after",)]


def test_names_that_are_taken_or_unknown(make_pooler, pg):
    client = make(make_pooler, pg).connect()
    prepare(client, "taken", "select 1")
    assert refusal(client, wire.parse("taken", "select 2")) == (
        "42P05", 'prepared statement "taken" already exists')
    assert rows(client, run("taken")) == [("1",)]
    assert refusal(client, run("unknown")) == (
        "26000", 'prepared statement "unknown" does not exist')
    assert refusal(client, wire.describe("S", "unknown"))[0] == "26000"
    client.send(wire.close("S", "unknown"), wire.close("S", "taken"), wire.sync())
    assert client.finish().kinds() == "33Z"
    assert refusal(client, run("taken"))[0] == "26000"
    assert refusal(client, run("taken", "too many")) == (
        "26000", 'prepared statement "taken" does not exist')
    prepare(client, "taken", "select 3")
    assert refusal(client, run("taken", "too many")) == (
        "08P01", 'bind message supplies 1 parameters, but prepared statement "taken" requires 0')


@pytest.mark.one_worker  # A server of another worker would be the last that is taken.
def test_a_name_is_taken_on_every_server(make_pooler, pg, table):
    """Also on one where its text cannot be prepared any more."""
    pooler = make(make_pooler, pg, default_pool_size=2)
    client, other = pooler.connect(), pooler.connect()
    prepare(client, "taken", "select * from " + table)
    other.query("begin")  # Has the server of the client from here on.
    first = other.value("select pg_backend_pid()")
    pg.do("alter table %s rename to %s_away" % (table, table))
    assert refusal(client, wire.parse("taken", "select 2")) == (
        "42P05", 'prepared statement "taken" already exists')
    pg.do("alter table %s_away rename to %s" % (table, table))
    assert client.value("select pg_backend_pid()") != first
    assert rows(client, run("taken")) == [("1",)]
    other.query("rollback")


@pytest.mark.one_worker  # A server of another worker would be the last that is taken.
def test_a_name_stays_taken_when_the_limit_is_lowered(make_pooler, pg):
    """The server closes other statements than the one that the Parse meets."""
    pooler = make(make_pooler, pg, max_prepared_statements=3)
    client = pooler.connect()
    for number, name in enumerate(["taken", "second", "third"], 1):
        prepare(client, name, "select %d" % number)
    pooler.set("max_prepared_statements", 1)
    assert refusal(client, wire.parse("taken", "select 2")) == (
        "42P05", 'prepared statement "taken" already exists')
    assert rows(client, run("taken")) == [("1",)]
    assert rows(client, run("second")) == [("2",)]


@pytest.mark.one_worker  # Each worker has its own texts, and numbers them.
def test_views_and_counters(make_pooler, pg):
    pooler = make(make_pooler, pg)
    a, b = pooler.connect(), pooler.connect()
    for client in (a, b):
        prepare(client, "s", "select $1::int4 + 1", [23])
        assert rows(client, run("s", "1")) == [("2",)]
    text = pooler.show("PREPARED_STATEMENTS")
    assert len(text) == 1
    totals = pooler.show_one("STATS_TOTALS", database="db")
    assert totals["client_parse_count"] == "2"
    assert totals["server_parse_count"] == "1"
    assert totals["bind_count"] == "2"


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_descriptions_of_known_texts_in_one_pipeline(make_pooler, pg, mode):
    """What pgx sends for a batch. Descriptions of many columns come in more than one read, and the
    pooler answers each Parse itself."""
    columns = ", ".join('%d as "a column with a long name, %d"' % (i, i) for i in range(60))
    texts = ["select %d, %s" % (number, columns) for number in range(150)]
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={"pool_mode": mode})
    for _ in range(6):
        with pooler.connect() as client:
            client.send(*[wire.parse("s%d" % i, text) + wire.describe("S", "s%d" % i)
                          for i, text in enumerate(texts)], wire.sync())
            client.recv_kinds("1tT" * len(texts) + "Z")


# settings that no server reports, and by which Parse reads operators and evaluates constants

SILENT = {
    "array_nulls": ("off", "select '{NULL}'::text[]::text"),
    "bytea_output": ("escape", r"select '\x41'::bytea::text"),
    "extra_float_digits": ("-5", "select (1 / 3::float8)::text"),
    "role": ("silent_role", "select v from silent.by_right"),
    "row_security": ("off", "select v from guarded"),
    "search_path": ("silent", "select v from silent_table"),
    "timezone_abbreviations": ("India", "select extract(epoch from '2020-01-01 12:00 IST'::timestamptz)"),
    "transform_null_equals": ("on", "select count(*) from (values (null::int), (1)) v (x) where x = null"),
    "xmlbinary": ("hex", r"select xmlelement(name a, '\x41'::bytea)::text"),
    "xmloption": ("document", "select 'a'::xml::text"),
}


@pytest.fixture(scope="module")
def silent(cluster):
    """A table of this name with another value in a schema that is not in search_path."""
    cluster.do("create schema silent", "grant usage on schema silent to trust_user", "create role silent_role",
               "grant silent_role to trust_user", "create table silent.by_right as select 1 as v", "create table public.guarded (v int)",
               "alter table guarded enable row level security", "grant select on silent.by_right, guarded to public",
               "create table public.silent_table as select 'seen' as v", "create table silent.silent_table as select 'hidden' as v",
               "grant select on public.silent_table, silent.silent_table to public")
    yield cluster
    cluster.do("drop schema silent cascade", "drop table public.silent_table, guarded", "drop role silent_role")


def by_set(client, name, value):
    client.query("set %s = '%s'" % (name, value))


def by_values(client, name, value):
    rows(client, wire.parse("", "select set_config($1, $2, false)"), wire.bind("", "", [name, value]), wire.execute())


def by_do(client, name, value):
    client.query("do $$begin perform set_config('%s', '%s', false); end$$" % (name, value))


def each_has(clients, sql):
    """What each gets, by a named statement and often enough by unnamed ones: kinds of messages, and rows or the error's code."""
    found = []
    for name in ("s", "", "", ""):
        for client in clients:
            client.send(wire.parse(name, sql), wire.bind("", name), wire.execute(), wire.close("S", name), wire.sync())
            result = client.finish()
            found.append((result.kinds(), result.errors[0].field("C") if result.errors else result.rows))
    return found


@pytest.mark.parametrize("first", [True, False], ids=["before", "behind"])
@pytest.mark.parametrize("way", [by_set, by_values, by_do])
@pytest.mark.parametrize("name", SILENT)
def test_settings_that_no_server_reports(make_pooler, silent, name, way, first):
    """Of two clients of one server one has set it: neither gets what PostgreSQL has made of the text for the other."""
    value, sql = SILENT[name]
    pooler = make_pooler({"db": silent.conn()}, settings=dict(SETTINGS, session_state="keep", prepare_unnamed="2"))
    found = []
    for clients in [silent.client("trust_user"), silent.client("trust_user")], [pooler.connect(), pooler.connect()]:
        seen = [] if first else each_has(clients, sql)
        way(clients[0], name, value)
        found.append(seen + each_has(clients, sql))
    assert found[0] == found[1]


@pytest.mark.parametrize("state", ["forward", "clean", "keep"])
@pytest.mark.parametrize("command", [
    "set local %s = '%s'", "select set_config('%s', '%s', true)", "do $$begin set local %s = '%s'; end$$",
    "do $$begin perform set_config('%s', '%s', true); end$$"], ids=["set", "set_config", "do set", "do set_config"])
@pytest.mark.parametrize("name", SILENT)
def test_such_settings_of_a_transaction(make_pooler, silent, name, command, state):
    value, sql = SILENT[name]
    pooler = make_pooler({"db": silent.conn()}, settings=dict(SETTINGS, session_state=state, prepare_unnamed="2"))
    found = []
    for one, other in (silent.client("trust_user"), silent.client("trust_user")), (pooler.connect(), pooler.connect()):
        one.query("begin")
        one.query(command % (name, value))
        seen = each_has([one], sql)
        one.query("rollback")
        found.append(seen + each_has([other, one], sql))
    assert found[0] == found[1]


@pytest.mark.parametrize("way", [by_set, by_values, by_do])
def test_parse_fails_where_search_path_hides_the_table(make_pooler, silent, way):
    """Though the server has prepared the text before."""
    pooler = make_pooler({"db": silent.conn()}, settings=dict(SETTINGS, session_state="keep"))
    with pooler.connect() as client:
        prepare(client, "s", "select v from silent_table")
        way(client, "search_path", "none")
        client.send(wire.close("S", "s"), wire.parse("s", "select v from silent_table"), wire.sync())
        result = client.finish()
        assert result.kinds() == "3EZ" and result.errors[0].field("C") == "42P01"


# what is found in place of what others find


WAYS_OF_TEMP = ["create temp table shadowed (v int)", "select 7 as v into temp shadowed",
                "do $$begin execute 'create temp table shadowed (v int)'; end$$", "select make_shadow()",
                "explain (analyze, costs off, timing off, summary off) create temp table shadowed as select 7 as v"]


@pytest.fixture(scope="module")
def shadowed(cluster):
    """A table that others hide."""
    cluster.do("create table public.shadowed as select 1 as v", "grant all on public.shadowed to public",
               "create schema trust_user authorization trust_user", "create role nobody_else",
               "create schema only_ours", "create table only_ours.it as select 1 as v", "grant select on only_ours.it to public",
               "create function make_shadow() returns int language plpgsql as 'begin create temp table shadowed (v int); return 1; end'")
    yield cluster
    cluster.do("drop table public.shadowed", "drop schema trust_user cascade", "drop schema only_ours cascade",
               "drop function make_shadow", "drop role nobody_else")


def ways_to_connect(make_pooler, cluster, **more):
    """Directly, and by a pooler."""
    pooler = make_pooler({"db": cluster.conn()}, settings=dict(SETTINGS, prepare_unnamed="2", **more))
    return cluster.client, pooler.connect


def pairs_of_clients(*args, **more):
    return [(connect(user="trust_user"), connect(user="trust_user")) for connect in ways_to_connect(*args, **more)]


@pytest.mark.parametrize("way", WAYS_OF_TEMP)
@pytest.mark.parametrize("sql", ["select v from shadowed", "select count(*) from shadowed"])
def test_temporary_tables_are_found_by_their_client_alone(make_pooler, shadowed, sql, way):
    """Also where the server has prepared the text, and where the session has had another temporary table before."""
    found = []
    for one, other in pairs_of_clients(make_pooler, shadowed, session_state="keep", default_pool_size="2"):
        seen = each_has([one, other], sql)
        one.query("create temp table another (v int)")
        seen += each_has([one, other], sql)
        one.query(way)
        seen += each_has([one, other], sql)
        one.query("drop table pg_temp.shadowed")
        found.append(seen + each_has([one, other], sql))
    assert found[0] == found[1]


@pytest.mark.parametrize("known", [True, False])
def test_a_temporary_table_of_a_transaction_decides_no_types_for_others(make_pooler, shadowed, known):
    sql, found = "select count(*) from shadowed where v > $1", []
    for one, other in pairs_of_clients(make_pooler, shadowed):
        for client in [other] * known + [one, other]:
            if client is one:
                one.query("begin")
                one.query("create temp table shadowed (v bigint) on commit drop")
            for name in ("s", "", "", ""):
                client.send(wire.parse(name, sql), wire.describe("S", name), wire.close("S", name), wire.sync())
                found.append([m.body for m in client.finish().messages if m.kind == "t"])
            if client is one:
                one.query("commit")
    half = len(found) // 2
    assert found[:half] == found[half:]


@pytest.mark.parametrize("way", ["select 7 as v into {}", "with a as (select 7 as v) select v into table {} from a",
                                 "explain (analyze, costs off, timing off, summary off) create table {} as select 7 as v",
                                 "create table {} as select 7 as v"])
@pytest.mark.parametrize("end", ["commit", "rollback", None], ids=["commit", "rollback", "no block"])
def test_tables_that_are_made_in_front(make_pooler, shadowed, end, way):
    """In a schema that search_path has first."""
    sql, found = "select v from shadowed", []
    for one, other in pairs_of_clients(make_pooler, shadowed):
        seen = each_has([one, other], sql)
        for text in ["begin"] * bool(end) + [way.format("trust_user.shadowed")]:
            one.query(text)
        if end:
            seen += each_has([one], sql)
            one.query(end)
        seen += each_has([one, other], sql)
        one.query("drop table if exists trust_user.shadowed")
        found.append(seen + each_has([one, other], sql))
    assert found[0] == found[1]


@pytest.mark.parametrize("give, take", [
    ("grant usage on schema only_ours to trust_user", "revoke usage on schema only_ours from trust_user"),
    ("grant usage on schema only_ours to nobody_else; grant nobody_else to trust_user", "revoke nobody_else from trust_user")])
def test_rights_that_parse_looks_at(make_pooler, shadowed, give, take):
    """A Parse fails where the client has no right to use the schema any more."""
    sql, found = "select v from only_ours.it", []
    for connect in ways_to_connect(make_pooler, shadowed):
        clients, owner = [connect(user="trust_user"), connect(user="trust_user")], connect(user=postgres.SUPERUSER)
        seen = each_has(clients, sql)
        for change in give, take, give, take:
            for text in change.split("; "):
                owner.query(text)
            seen += each_has(clients, sql)
        found.append(seen)
    assert found[0] == found[1]


@pytest.mark.parametrize("state", ["forward", "keep"])
def test_a_notice_of_parse_behind_a_client_that_wants_none(make_pooler, pg, state):
    sql = "select 1 as " + 70 * "n"
    pooler = make(make_pooler, pg, session_state=state)
    with pooler.connect() as deaf, pooler.connect() as client:
        if state == "keep":
            deaf.query("set client_min_messages = error")
        else:
            deaf.query("begin")
            deaf.query("set local client_min_messages = error")
        prepare(deaf, "s", sql)
        if state == "forward":
            deaf.query("commit")
        for name in "ab":
            client.send(wire.parse(name, sql), wire.sync())
            assert client.finish().kinds() == "N1Z"


def test_long_statements_stay_on_servers_that_move(make_pooler, pg):
    """A worker that gets its server back knows what it has prepared there, also texts that do not go along."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={
        "pool_mode": "transaction", "workers": 2, "max_prepared_statements": 100})
    clients = [pooler.connect() for _ in range(6)]
    for number, client in enumerate(clients):
        client.send(wire.parse("long", "select %d /* %s */" % (number, "x" * 2200000)) + wire.sync())
        client.finish()
    for _ in range(3):
        for number, client in enumerate(clients):
            client.send(wire.bind("", "long") + wire.execute() + wire.sync())
            assert client.finish().value == str(number)
    names = clients[0].query("select name from pg_prepared_statements").rows
    assert len(names) == len(clients)
