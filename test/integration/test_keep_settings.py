"""session_state=keep: what a client sets for its session goes along with it, from server to server,
and nobody else gets it."""

import random
import re

import fakeserver
import pytest

import waiting
import wire
from test_keep import backend, error_of, extended, kinds, make, make_shared, named, owner, simple  # noqa: F401
from test_takeover import restart, wait_end  # noqa: F401

# (name, statements that set it, a query that shows it, its value for the client, its value for everybody
#  else, statements that end it)
SETTINGS = [
    ("set", ["set work_mem = '1234kB'"], "show work_mem", "1234kB", "4MB", ["reset work_mem"]),
    ("set session", ["set session work_mem = '1234kB'"], "show work_mem", "1234kB", "4MB",
     ["set work_mem to default"]),
    ("in a transaction", ["begin", "set work_mem = '1234kB'", "commit"], "show work_mem", "1234kB",
     "4MB", ["set work_mem to default"]),
    ("set_config", ["select set_config('work_mem', '1234kB', false)"], "show work_mem", "1234kB", "4MB",
     ["reset all"]),
    ("update pg_settings", ["update pg_settings set setting = 1234 where name = 'work_mem'"],
     "show work_mem", "1234kB", "4MB", ["reset work_mem"]),
    ("search_path", ["set search_path = \"$user\", pg_catalog, public"], "show search_path",
     '"$user", pg_catalog, public', '"$user", public', ["reset search_path"]),
    ("schema", ["set schema 'pg_catalog'"], "show search_path", "pg_catalog", '"$user", public',
     ["reset search_path"]),
    ("placeholder", ["set app.user_id = 'me'"], "select current_setting('app.user_id', true)", "me", None,
     ["discard all"]),
    ("quoted placeholder", ["set \"App\".\"User_Id\" to 'me'"], "select current_setting('app.user_id', true)",
     "me", None, ["reset app.user_id"]),
    ("placeholder by set_config", ["select set_config('app.user_id', 'me', false)"],
     "select current_setting('app.user_id', true)", "me", None, ["reset all"]),
    ("placeholder in a DO", ["do $$ begin perform set_config('app.user_id', 'me', false); end $$"],
     "select current_setting('app.user_id', true)", "me", None, ["set app.user_id = ''"]),
    ("do", ["do $$ begin perform set_config('work_mem', '1234kB', false); end $$"], "show work_mem",
     "1234kB", "4MB", ["reset all"]),
    ("procedure", ["call sets_work_mem()"], "show work_mem", "1234kB", "4MB", ["reset all"]),
    ("function", ["select sets_app_name('by a function')"], "select current_setting('app.fun', true)",
     "by a function", None, ["select sets_app_name('')"]),
    ("set role", ["set role trust_user"], "select current_user", "trust_user", "owner", ["reset role"]),
    ("set role none", ["set role trust_user"], "select current_user", "trust_user", "owner",
     ["set role none"]),
    ("session authorization", ["set session authorization trust_user"], "select session_user",
     "trust_user", "owner", ["reset session authorization"]),
    ("authorization and role", ["set session authorization trust_user", "set role pg_monitor"],
     "select session_user || ' ' || current_user", "trust_user pg_monitor", "owner owner",
     ["reset role", "reset session authorization"]),
    ("rights of the role before", ["set log_min_duration_statement = 77777", "set role trust_user"],
     "select current_setting('log_min_duration_statement') || current_user", "77777mstrust_user",
     "-1owner", ["reset role", "reset all"]),
    ("characteristics", ["set session characteristics as transaction isolation level serializable"],
     "show transaction_isolation", "serializable", "read committed",
     ["reset default_transaction_isolation"]),
    ("outside of ASCII", ["set app.user_id = 'na\u00efve \u20ac'"],
     "select current_setting('app.user_id', true)", "na\u00efve \u20ac", None, ["discard all"]),
    ("quotes", ["set app.user_id = 'it''s \\ \"$1\"'"], "select current_setting('app.user_id', true)",
     "it's \\ \"$1\"", None, ["discard all"]),
]

FUNCTIONS = """
create or replace procedure sets_work_mem() language plpgsql as
$$ begin perform set_config('work_mem', '1234kB', false); end $$;
create or replace function sets_app_name(text) returns void language plpgsql as
$$ begin perform set_config('app.fun', $1, false); end $$;
grant pg_monitor to trust_user;
"""


@pytest.fixture
def functions(pg):
    pg.do(FUNCTIONS)


def value(client, query):
    return client.value(query) or None


@pytest.mark.parametrize("run", [simple, extended, named], ids=["simple", "extended", "named"])
@pytest.mark.parametrize("setting", SETTINGS, ids=[s[0] for s in SETTINGS])
def test_settings_go_along(make_shared, functions, setting, run):  # noqa: F811
    """The client has two servers in turn, and so has everybody else."""
    _, making, query, mine, theirs, ending = setting
    pooler = make_shared(2)
    one, other = owner(pooler), owner(pooler)
    blocker = owner(pooler)
    for sql in making:
        assert not run(one, sql).errors
    assert kinds(pooler) == []
    for expected in (mine, theirs):
        seen = set()
        for turn in range(4):
            blocker.query("begin")
            if turn % 2:
                other.query("begin")
                assert value(other, query) == theirs
                blocker.query("commit")
            assert value(one, query) == expected
            seen.add(backend(one))
            (other if turn % 2 else blocker).query("commit")
            assert value(other, query) == theirs
        assert len(seen) == 2
        for sql in ending if expected == mine else ():
            assert not run(one, sql).errors
    assert kinds(pooler) == []
    assert pooler.pool(user="owner")["sv_pinned"] == 0


@pytest.mark.parametrize("run", [simple, extended, named], ids=["simple", "extended", "named"])
@pytest.mark.parametrize("undoing", [
    ["begin", "set work_mem = '1234kB'", "set app.user_id = 'me'", "set role trust_user", "rollback"],
    ["begin", "set local work_mem = '1234kB'", "set local app.user_id = 'me'", "set local role trust_user",
     "commit"],
    ["begin", "savepoint a", "set work_mem = '1234kB'", "rollback to a", "commit"],
    ["begin", "select set_config('app.user_id', 'me', true)", "commit"],
    ["set work_mem = 'nonsense'", "set role nobody_is_called_so"],
    ["begin", "do $$ begin perform set_config('work_mem', '1234kB', false); raise 'no'; end $$", "rollback"],
], ids=["rollback", "local", "savepoint", "local set_config", "errors", "error in a DO"])
def test_what_is_undone_is_not_kept(make_shared, undoing, run):  # noqa: F811
    pooler = make_shared(2, log_pooler_errors=0)
    one, blocker = owner(pooler), owner(pooler)
    for sql in undoing:
        run(one, sql)
    query = "select current_setting('work_mem') || current_user || coalesce(current_setting('app.user_id', true), '')"
    for _ in range(2):
        assert value(one, query) == "4MBowner"
        blocker.query("begin")
        assert value(one, query) == "4MBowner"
        blocker.query("commit")
    assert kinds(pooler) == []


def both_servers(pooler, client, query):
    """The value of the query on both servers of a pool of two."""
    values, seen = [], set()
    with owner(pooler) as one, owner(pooler) as two:
        one.query("begin")
        two.query("begin")
        for blocker in (one, two):
            blocker.query("commit")
            values.append(value(client, query))
            seen.add(backend(client))
            blocker.query("begin")
    assert len(seen) == 2
    return values


def bound(client, sql, *values, name=""):
    """Runs a statement with these values."""
    client.send(wire.parse(name, sql), wire.bind(statement=name, values=values), wire.execute(), wire.sync())
    return wire.Result(client.recv_until("Z"))


@pytest.mark.parametrize("name", ["", "s"])
@pytest.mark.parametrize("tracked", [0, 200])
def test_names_that_are_values(make, name, tracked):  # noqa: F811
    """The name of the parameter is a value of the statement, as drivers send it."""
    pooler = make(2, max_prepared_statements=tracked)
    client = owner(pooler)
    assert not bound(client, "select set_config($1, $2, false)", "app.user_id", "me", name=name).errors
    if not tracked:
        # The pooler does not look at values there, so that the server stays.
        assert kinds(pooler) == ["SET, PREPARE" if name else "SET"]
        assert client.value("select current_setting('app.user_id', true)") == "me"
        return
    for _ in range(2):
        assert kinds(pooler) == []
        assert both_servers(pooler, client, "select current_setting('app.user_id', true)") == ["me"] * 2
        assert not bound(client, "select set_config($1, $2, false)", "App.Other", "me", name="").errors


def test_value_that_is_a_name_without_a_dot(make):  # noqa: F811
    """Such parameters are listed by PostgreSQL, so that nobody need know the name."""
    pooler = make(2)
    client = owner(pooler)
    assert not bound(client, "select set_config($1, $2, false)", "work_mem", "1234kB").errors
    assert kinds(pooler) == []
    assert both_servers(pooler, client, "show work_mem") == ["1234kB"] * 2
    assert not bound(client, "select set_config($1 || '.b', $2, false)", "app", "x").errors
    assert kinds(pooler) == ["SET"]


@pytest.mark.parametrize("name", ["", "s"])
def test_bind_that_comes_in_pieces(make, name):  # noqa: F811
    pooler = make(2)
    client = owner(pooler)
    bind = wire.bind(statement=name, values=("app.user_id", "me"))
    client.send(wire.parse(name, "select set_config($1, $2, false)"), bind[:-4])
    waiting.wait_for(lambda: pooler.pool(user="owner")["sv_active"] == 1, "it has come")
    client.send(bind[-4:], wire.execute(), wire.sync())
    assert not wire.Result(client.recv_until("Z")).errors
    assert kinds(pooler) == []
    assert both_servers(pooler, client, "select current_setting('app.user_id', true)") == ["me"] * 2


def test_name_that_is_an_expression(make):  # noqa: F811
    """Nobody can tell which parameter it is, so the server stays until everything is reset."""
    pooler = make(2)
    client = owner(pooler)
    client.query("select set_config('app.' || 'user_id', 'me', false)")
    assert kinds(pooler) == ["SET"]
    assert client.value("select current_setting('app.user_id')") == "me"
    client.query("reset all")
    assert kinds(pooler) == []


@pytest.mark.parametrize("name", ["app.user_id", "work_mem"])
@pytest.mark.parametrize("sql", [
    "select U&\"set\\005fconfig\"('%s', '1234', false)", "set U&\"{0}\" = '1234'", "set session u&\"{0}\" to 1234",
    "select u&\"set!005fconfig\" uescape '!' ('%s', '1234', false)", "select set_config(U&'%s', '1234', false)",
    "do $$ begin perform U&\"set\\005fconfig\"('%s', '1234', false); end $$",
])
def test_names_with_escapes(make, sql, name):  # noqa: F811
    """Settings go along, and parameters whose names nobody can read keep the server."""
    pooler = make(2)
    with owner(pooler) as one, owner(pooler) as other, owner(pooler) as blocker:
        query = "select current_setting('%s', true)" % name
        before = value(other, query)
        one.query(sql.format(name.replace(".", '".U&"')).replace("%s", name))
        for _ in range(2):
            assert value(other, query) == before
            assert value(one, query).startswith("1234")
            blocker.query("begin")
            assert value(one, query).startswith("1234")
            blocker.query("commit")


def test_several_at_once(make):  # noqa: F811
    pooler = make(2)
    client = owner(pooler)
    client.query("set work_mem = '1MB'; set app.a = '1'; begin; set app.b = '2'; commit; "
                 "set local app.c = '3'; set app.d = '4'; reset app.d")
    shown = " || ".join(["current_setting('work_mem')"] + [
        "coalesce(current_setting('app.%s', true), '')" % name for name in "abcd"])
    assert both_servers(pooler, client, "select " + shown) == ["1MB12"] * 2


def test_names_between_comments(make):  # noqa: F811
    """A name is read, or keeps the server; one that is read beside it must not hide it."""
    pooler = make(2)
    client = owner(pooler)
    client.query("set /* who */ app.a = '1'; set session -- who\n app.b/**/= '2'; set app.c = '3'")
    query = "select " + " || ".join("current_setting('app.%s', true)" % name for name in "abc")
    assert kinds(pooler) == []
    assert both_servers(pooler, client, query) == ["123"] * 2
    client.query("set app . a = '4'; set app.b = '5'")
    assert kinds(pooler) == ["SET"]
    assert client.value(query) == "453"


def test_name_in_a_function_call(make):  # noqa: F811
    """A FunctionCall of set_config()."""
    pooler = make(2)
    client = owner(pooler)
    values = b"".join(len(v).to_bytes(4, "big") + v for v in (b"app.user_id", b"me", b"f"))
    client.send(wire.message("F", (2078).to_bytes(4, "big") + bytes((0, 1, 0, 0, 0, 3)) + values + bytes(2)))
    assert not wire.Result(client.recv_until("Z")).errors
    assert kinds(pooler) == ["SET"]
    assert client.value("select current_setting('app.user_id', true)") == "me"


@pytest.mark.parametrize("tracked", [0, 1])
def test_name_in_a_prepared_statement(make, tracked):  # noqa: F811
    """Only PREPARE has the name, and only EXECUTE sets it."""
    pooler = make(2, track_sql_prepare=tracked)
    client = owner(pooler)
    client.query("prepare p as select set_config('app.user_id', 'me', false)")
    client.query("select 1")
    client.query("execute p")
    client.query("deallocate p")
    assert kinds(pooler) == []
    assert both_servers(pooler, client, "select current_setting('app.user_id', true)") == ["me"] * 2


def test_one_message_for_each_change_of_client(make):  # noqa: F811
    """Whoever goes on where it was sends nothing; whoever comes to another client's server sends one
    message, which takes back and sets."""
    pooler = make(1, verbose=2)
    one, two, plain = owner(pooler), owner(pooler), owner(pooler)
    one.query("set work_mem = '1MB'; set app.a = 'one'; set role trust_user")
    two.query("set work_mem = '2MB'; set lock_timeout = '7s'; set app.a = 'two'")
    query = ("select concat_ws('|', current_setting('work_mem'), current_setting('lock_timeout'), "
             "current_setting('app.a', true), current_user)")
    expected = {one: "1MB|0|one|trust_user", two: "2MB|7s|two|owner", plain: "4MB|0||owner"}
    last = two
    for client in [one, two, one, plain, plain, one, one, plain, two, two, plain]:
        since = pooler.mark()
        assert client.value(query) == expected[client]
        applied = [line for line in pooler.log_since(since).splitlines() if "varcache_apply: " in line]
        assert len(applied) == (client is not last), applied
        last = client


def test_settings_of_connect_query(make):  # noqa: F811
    """What is reset comes back as connect_query had set it for others, and stays reset for this one."""
    pooler = make(2, entry={"connect_query": "set work_mem = '2MB'; set app.own = 'own'; set role trust_user"})
    client, other = owner(pooler), owner(pooler)
    query = ("select concat_ws('|', current_setting('work_mem'), current_setting('app.own', true), "
             "current_user)")
    assert client.value(query) == "2MB|own|trust_user"
    client.query("set work_mem = '3MB'; set app.own = 'mine'; reset role")
    assert both_servers(pooler, client, query) == ["3MB|mine|owner"] * 2
    assert both_servers(pooler, other, query) == ["2MB|own|trust_user"] * 2
    client.query("reset work_mem; set app.own = 'own'")
    assert both_servers(pooler, client, query) == ["4MB|own|owner"] * 2
    assert both_servers(pooler, other, query) == ["2MB|own|trust_user"] * 2
    client.query("set work_mem = '2MB'; set role trust_user")
    assert both_servers(pooler, client, query) == ["2MB|own|trust_user"] * 2
    assert kinds(pooler) == []


@pytest.mark.parametrize("named", ["IntervalStyle", "work_mem"])
def test_a_setting_leaves_those_of_connect_query(make, named):  # noqa: F811
    """No reset query runs for settings, which go along: it would end those of connect_query for everybody."""
    pooler = make(2, entry={"connect_query": "set app.own = 'own'; set work_mem = '2MB'"}, track_extra_parameters=named)
    client, other = owner(pooler), owner(pooler)
    query = "select concat_ws('|', current_setting('app.own', true), current_setting('work_mem'))"
    client.query("set search_path = pg_catalog")
    assert both_servers(pooler, client, query) == ["own|2MB"] * 2
    client.query("set work_mem = '3MB'")
    assert both_servers(pooler, client, query) == ["own|3MB"] * 2
    assert both_servers(pooler, other, query) == ["own|2MB"] * 2


def test_settings_of_alter_database(make, pg):  # noqa: F811
    """Values that a session begins with belong to nobody, and an empty one is a value."""
    pg.do("alter database postgres set app.tenant = 'nobody'")
    try:
        pooler = make(2)
        client, other = owner(pooler), owner(pooler)
        query = "select '<' || current_setting('app.tenant') || '>'"
        client.query("set app.tenant = ''")
        assert both_servers(pooler, client, query) == ["<>"] * 2
        assert both_servers(pooler, other, query) == ["<nobody>"] * 2
        client.query("reset app.tenant")
        assert both_servers(pooler, client, query) == ["<nobody>"] * 2
    finally:
        pg.do("alter database postgres reset app.tenant")


def test_client_leaves(make):  # noqa: F811
    pooler = make(1)
    for leave in (lambda c: c.close(), lambda c: c.sock.close()):
        client = owner(pooler)
        client.query("set work_mem = '1234kB'; set role trust_user")
        leave(client)
        with owner(pooler) as other:
            assert other.value("select current_user || current_setting('work_mem')") == "owner4MB"


def test_client_leaves_within_its_query(make):  # noqa: F811
    """Nobody has asked the server then."""
    pooler = make(1)
    client = owner(pooler)
    client.send(wire.query("select set_config('work_mem', '1234kB', false), pg_sleep(0.3)"))
    waiting.wait_for(lambda: pooler.pool(user="owner")["sv_active"] == 1, "it runs")
    client.close()
    with owner(pooler) as other:
        assert other.value("show work_mem") == "4MB"


@pytest.mark.parametrize("reset", ["DISCARD ALL", ""])
def test_reset_query(make, reset):  # noqa: F811
    """After the server's reset the client's settings are put in force again."""
    pooler = make(1, server_reset_query=reset, server_reset_query_always=1)
    client, other = owner(pooler), owner(pooler)
    client.query("set work_mem = '1234kB'; set app.a = 'b'")
    for _ in range(2):
        assert client.value("select current_setting('work_mem') || current_setting('app.a')") == "1234kBb"
        assert other.value("select current_setting('work_mem') || coalesce(current_setting('app.a', true), '')") == "4MB"


def test_discard_all(make):  # noqa: F811
    pooler = make(2)
    client = owner(pooler)
    client.query("set work_mem = '1234kB'; set app.a = 'b'; set role trust_user")
    client.query("discard all")
    assert both_servers(pooler, client, "select current_setting('work_mem') || current_user") == ["4MBowner"] * 2


def test_encodings(make):  # noqa: F811
    """A value is the same whatever encodings the client and the server's last client have."""
    pooler = make(2)
    client, other = owner(pooler), owner(pooler, client_encoding="LATIN1")
    client.query("set app.a = 'na\u00efve \u20ac'")
    client.query("set client_encoding = 'LATIN1'")
    query = "select encode(convert_to(current_setting('app.a'), 'UTF8'), 'hex')"
    hexed = "na\u00efve \u20ac".encode().hex()
    assert both_servers(pooler, client, query) == [hexed] * 2
    other.value("select 1")
    assert both_servers(pooler, client, query) == [hexed] * 2


def test_operators_of_a_client(make, pg):  # noqa: F811
    """A client that has put operators of its own in front of PostgreSQL's hides nothing."""
    pg.do("drop schema if exists evil cascade; create schema evil; "
          "create function evil.no(text, text) returns boolean language sql as 'select false'; "
          "create operator evil.= (leftarg = text, rightarg = text, function = evil.no); "
          "create function evil.no(oid, oid) returns boolean language sql as 'select false'; "
          "create operator evil.= (leftarg = oid, rightarg = oid, function = evil.no); "
          "create function evil.yes(text, text) returns boolean language sql as 'select true'; "
          "create operator evil.<> (leftarg = text, rightarg = text, function = evil.yes); "
          "create domain evil.text as int; grant usage on schema evil to public")
    pooler = make(2)
    client, other = owner(pooler), owner(pooler)
    client.query("set search_path = evil, pg_catalog; set role trust_user")
    assert kinds(pooler) == []
    assert both_servers(pooler, other, "show search_path") == ['"$user", public'] * 2
    assert both_servers(pooler, client, "show search_path") == ["evil, pg_catalog"] * 2
    client.query("create temp table users (a int)")
    assert kinds(pooler) == ["CREATE TEMP"]
    client.query("drop table users; reset all; reset role")
    pg.do("drop schema evil cascade")


# parameters of the startup packet

ASKED = ("select concat_ws('|', current_setting('statement_timeout'), current_setting('work_mem'), "
         "current_setting('app.tenant', true))")
PACKETS = {
    "parameters": {"statement_timeout": "5min", "Work_Mem": "1234kB", "app.tenant": "\u00fc'"},
    "options": {"options": "-c statement_timeout=5min --work-mem=1234kB -c app.tenant=\u00fc'"},
    "both": {"options": "-c statement_timeout=7 -c work_mem=1234kB", "statement_timeout": "5min",
             "app.tenant": "\u00fc'"},
}


@pytest.mark.parametrize("asked", PACKETS.values(), ids=PACKETS)
def test_startup_parameters_that_no_server_reports(make, restart, asked):  # noqa: F811
    """They are in force on each server that the client gets, whatever they are called, and RESET brings
    them back; a takeover takes them along."""
    pooler = make(2, log_connections=0)
    client, other = owner(pooler, **asked), owner(pooler)
    mine, others = "5min|1234kB|\u00fc'", "0|4MB"
    assert both_servers(pooler, client, ASKED) == [mine] * 2
    assert [value.rstrip("|") for value in both_servers(pooler, other, ASKED)] == [others] * 2
    client.query("set work_mem = '77kB'; set app.tenant = 'b'")
    assert both_servers(pooler, client, ASKED) == ["5min|77kB|b"] * 2
    client.query("reset all; reset app.tenant")
    client.query("select 1")
    wait_end(restart(pooler), pooler)
    assert both_servers(pooler, client, ASKED) == [mine] * 2
    assert [value.rstrip("|") for value in both_servers(pooler, other, ASKED)] == [others] * 2
    assert kinds(pooler) == []


def test_startup_parameter_that_servers_report(make, restart):  # noqa: F811
    """Nobody has named it, but the client may change it, and RESET brings it back."""
    pooler = make(2, log_connections=0)
    asked = {"options": "-c default_transaction_read_only=true"}
    client, other = owner(pooler, **asked), owner(pooler)
    told = [dict(one.parameters())["default_transaction_read_only"] for one in (client, other)]
    assert told == ["on", "off"]
    show = "show default_transaction_read_only"
    assert both_servers(pooler, client, show) == ["on"] * 2
    for sql, value in (("set default_transaction_read_only = off", "off"),
                       ("set default_transaction_read_only = on", "on"),
                       ("begin; set default_transaction_read_only = off; commit", "off"),
                       ("reset default_transaction_read_only", "on"), ("set work_mem = '1MB'", "on"),
                       ("set default_transaction_read_only = off", "off"), ("reset all", "on"),
                       ("set default_transaction_read_only = off", "off"), ("discard all", "on"),
                       ("set default_transaction_read_only = off", "off")):
        client.query(sql)
        client.query("select 1")
        assert both_servers(pooler, client, show) == [value] * 2, sql
        assert both_servers(pooler, other, show) == ["off"] * 2
    wait_end(restart(pooler), pooler)
    assert both_servers(pooler, client, show) == ["off"] * 2
    client.query("reset default_transaction_read_only")
    client.query("select 1")
    assert both_servers(pooler, client, show) == ["on"] * 2
    assert both_servers(pooler, other, show) == ["off"] * 2


@pytest.mark.parametrize("asked, message", [
    ({"nonsense": "1"}, 'unrecognized configuration parameter "nonsense"'),
    ({"options": "-c work_mem=nonsense"}, 'invalid value for parameter "work_mem": "nonsense"'),
    ({"shared_buffers": "1GB"}, 'parameter "shared_buffers" cannot be changed without restarting the server'),
])
def test_startup_parameters_that_postgresql_refuses(make, asked, message):  # noqa: F811
    """The first query tells PostgreSQL's own error; nobody else notices, and the server goes on."""
    pooler = make(1, log_connections=0)
    other = owner(pooler)
    server = backend(other)
    with owner(pooler, **asked) as client:
        client.send(wire.query("select 1"))
        error = dict(client.recv_until("E")[-1].fields())
        assert (error["S"], error["C"]) == ("FATAL", "22023") and message in error["M"]
        client.expect_closed()
    assert other.value(ASKED).rstrip("|") == "0|4MB"
    assert backend(other) == server


def test_startup_parameters_that_are_ignored_or_refused(make, make_pooler, pg):  # noqa: F811
    pooler = make(1, ignore_startup_parameters="extra_float_digits")
    with owner(pooler, extra_float_digits="-5") as client:
        assert client.value("show extra_float_digits") == "1"
    for settings in ({"session_state": "forward"}, {"session_state": "keep", "pool_mode": "session"}):
        pooler = make_pooler({"db": pg.conn()}, settings=dict({"pool_mode": "transaction"}, **settings))
        assert pooler.refusal(work_mem="1MB") == "unsupported startup parameter: work_mem"
    # a user's own setting is told to those who have proven that they are this user
    pooler = make_pooler({"db": pg.conn()}, users={"trust_user": "session_state=forward"}, settings={
        "pool_mode": "transaction", "session_state": "keep"})
    assert pooler.refusal(work_mem="1MB") == "unsupported startup parameter: work_mem"


# takeover, and several workers


def test_takeover(make, restart):  # noqa: F811
    pooler = make(2, log_connections=0)
    one, two, busy = owner(pooler), owner(pooler), owner(pooler)
    one.query("set work_mem = '1234kB'; set app.a = 'one'")
    busy.query("begin")
    busy.query("set work_mem = '77kB'")
    busy.query("set app.a = 'busy'")
    query = "select current_setting('work_mem') || coalesce(current_setting('app.a', true), '')"
    wait_end(restart(pooler), pooler)
    for _ in range(2):
        busy.query("commit")
        assert one.value(query) == "1234kBone"
        assert two.value(query) == "4MB"
        assert busy.value(query) == "77kBbusy"
        busy.query("begin")
        assert one.value(query) == "1234kBone"
        assert two.value(query) == "4MB"
    busy.query("rollback")
    assert kinds(pooler) == []


VALUES = {"work_mem": ("64kB", "77kB", "5MB"), "app.x": ("one", "two words", "\u00fc"),
          "lock_timeout": ("1min", "7s"), "search_path": ("pg_catalog", "public, pg_temp"),
          "role": ("trust_user", "pg_monitor"), "default_transaction_isolation": ("serializable",)}
SHOWN = "select " + " || '|' || ".join(
    "current_user" if name == "role" else "coalesce(current_setting('%s', true), '')" % name for name in VALUES)
BEGUN = {"work_mem": "4MB", "app.x": "", "lock_timeout": "0", "search_path": '"$user", public',
         "role": "owner", "default_transaction_isolation": "read committed"}


def change(chance, client, has):
    """Sends one random change, and notes in `has` what it sets."""
    name = chance.choice(list(VALUES))
    new = chance.choice(VALUES[name] + (None,))
    ends = chance.choice(["", "", "commit", "rollback"])
    if new is None:
        how = "reset " + name
    elif name == "search_path" or chance.random() < 0.5:
        how = "select set_config('%s', '%s', false)" % (name, new)
    else:
        how = "set %s = '%s'" % (name, new)
    client.query("begin" if ends else "select 1")
    client.query(how)
    client.query(ends or "select 1")
    if ends != "rollback":
        has[name] = BEGUN[name] if new is None else new


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("engine", ["epoll", "io_uring"])
def test_random_changes(make, size, workers, engine):  # noqa: F811
    """Six clients on few servers: each sees its own settings at any time, and no others."""
    chance = random.Random(size * 10 + workers)
    pooler = make(size, workers=workers, io_engine=engine, log_connections=0)
    clients = [(owner(pooler), dict(BEGUN)) for _ in range(6)]
    for _ in range(150):
        client, has = chance.choice(clients)
        if chance.random() < 0.4:
            change(chance, client, has)
        busy = [c for c, _ in chance.sample(clients, size - 1) if c is not client]
        for other in busy:
            other.query("begin")
        assert client.value(SHOWN) == "|".join(has[name] for name in VALUES)
        for other in busy:
            other.query("commit")
    assert kinds(pooler) == []


@pytest.mark.parametrize("workers", [1, 4])
def test_random_changes_with_takeovers(make, restart, workers):  # noqa: F811
    chance = random.Random(workers)
    pooler = make(2, workers=workers, log_connections=0)
    clients = [(owner(pooler), dict(BEGUN)) for _ in range(6)]
    for turn in range(60):
        client, has = chance.choice(clients)
        change(chance, client, has)
        if turn % 20 == 10:
            restart(pooler)
        client, has = chance.choice(clients)
        assert client.value(SHOWN) == "|".join(has[name] for name in VALUES)


# what cannot be carried


@pytest.mark.parametrize("sql", [
    "set app.a = '%s'" % ("x" * 10_000_000),
    "select set_config('app.a', repeat('x', 10000000), false)",
    "select set_config('app.a', repeat('x', 33000), false)",
    "select set_config('app.' || 'a', '', false), set_config('app.a', repeat('x', 33000), false)",
], ids=["10 MB in the text", "10 MB", "33 kB", "with an unknown name"])
def test_value_that_is_too_large(make, sql):  # noqa: F811
    """It stays where it is, with its client, until it is gone."""
    pooler = make(2)
    client, other = owner(pooler), owner(pooler)
    client.query(sql)
    assert kinds(pooler) == ["SET"]
    size = client.value("select length(current_setting('app.a'))")
    assert size in ("10000000", "33000")
    assert not other.value("select current_setting('app.a', true)")
    assert client.value("select length(current_setting('app.a'))") == size
    client.query("reset all")
    assert kinds(pooler) == []
    assert both_servers(pooler, other, "select current_setting('app.a', true)") == [None] * 2


def test_bound_of_what_is_kept(make):  # noqa: F811
    """64 kB of names and values, which have two digits for each byte."""
    pooler = make(2)
    client = owner(pooler)
    client.query("select set_config('app.a', repeat('x', 16000), false), set_config('app.b', repeat('x', 16000), false)")
    assert kinds(pooler) == []
    assert both_servers(pooler, client, "select length(current_setting('app.a') || current_setting('app.b'))"
                        ) == ["32000"] * 2
    client.query("set app.c = '%s'" % ("x" * 1000))
    assert kinds(pooler) == ["SET"]
    client.query("reset app.b")
    assert kinds(pooler) == []
    assert both_servers(pooler, client, "select length(current_setting('app.a') || current_setting('app.c'))"
                        ) == ["17000"] * 2


@pytest.mark.parametrize("names", [1, 2_000])  # PostgreSQL is slow with more
def test_many_sets_in_a_transaction(make, names):  # noqa: F811
    pooler = make(2)
    client, other = owner(pooler), owner(pooler)
    client.query("begin")
    for start in range(0, 10_000, 500):
        client.query("; ".join("set app.n%d = '%d'" % (n % names, n) for n in range(start, start + 500)))
    client.query("commit")
    assert kinds(pooler) == ([] if names == 1 else ["SET"])
    assert client.value("select current_setting('app.n%d')" % (9999 % names)) == "9999"
    assert not other.value("select current_setting('app.n0', true)")
    client.query("discard all")
    assert kinds(pooler) == []


@pytest.mark.parametrize("names, kept", [(5, []), (2_000, ["SET"])])
@pytest.mark.parametrize("cut", [0, 9, 13])
def test_many_sets_in_a_text(make, names, kept, cut):  # noqa: F811
    """A long text comes in parts, which may end within a name."""
    pooler = make(2)
    client, other = owner(pooler), owner(pooler)
    sql = "begin; " + "".join("set app.n%d = '%d'; select '%s'; " % (n % names, n, "x" * (n % 40))
                              for n in range(2_000)) + "set app.last = 'z'; commit"
    end = sql.index("set app.last") + cut - len(sql)
    sent = wire.query(sql)
    client.send(sent[:end])
    waiting.wait_for(lambda: pooler.pool(user="owner")["sv_active"] == 1, "it has come")
    client.send(sent[end:])
    assert not wire.Result(client.recv_until("Z")).errors
    assert kinds(pooler) == kept
    query = "select current_setting('app.last', true) || current_setting('app.n%d', true)" % (names - 1)
    if not kept:
        assert both_servers(pooler, client, query) == ["z1999"] * 2
    assert client.value(query) == "z1999"
    assert not other.value("select current_setting('app.n0', true)")


def test_role_that_is_dropped(make, pg):  # noqa: F811
    """The client is told so where its role cannot be set; nobody else notices."""
    pg.do("drop role if exists goes_away; create role goes_away")
    pooler = make(2, log_connections=0)
    client, other, blocker = (owner(pooler) for _ in range(3))
    client.query("set work_mem = '1234kB'; set role goes_away")
    at = backend(client)
    other.query("begin")
    pg.do("drop role goes_away")
    assert backend(other) == at  # so that the client has to go to another server
    client.send(wire.query("select 1"))
    error = dict(client.recv_until("E")[-1].fields())
    assert (error["S"], error["C"]) == ("FATAL", "22023")
    assert error["M"] == ('a setting of this session cannot be put in force on another server connection: '
                          'role "goes_away" does not exist')
    other.query("commit")
    blocker.query("begin")
    assert other.value("select current_user || current_setting('work_mem')") == "owner4MB"
    blocker.query("commit")
    for one in (other, blocker):
        assert one.value("select current_user || current_setting('work_mem')") == "owner4MB"
    waiting.wait_for(lambda: pooler.pool(user="owner")["sv_active"] == 0, "the servers are idle")


def test_role_that_is_dropped_everywhere(make, pg):  # noqa: F811
    pg.do("drop role if exists goes_away; create role goes_away")
    pooler = make(1, log_connections=0)
    client, other = owner(pooler), owner(pooler)
    client.query("set role goes_away")
    assert other.value("select current_user") == "owner"
    pg.do("drop role goes_away")
    client.send(wire.query("select 1"))
    error = dict(client.recv_until("E")[-1].fields())
    assert error["M"].endswith('role "goes_away" does not exist')
    for _ in range(2):
        assert other.value("select current_user") == "owner"


def test_temp_buffers(make):  # noqa: F811
    """A session that has used a temporary table takes no other value: the client gets another server."""
    pooler = make(2, log_connections=0)
    client, other, blocker = (owner(pooler) for _ in range(3))
    blocker.query("begin")
    client.query("set temp_buffers = '1MB'")
    other.query("begin")
    blocker.query("commit")
    with owner(pooler) as former:
        used = backend(former)
        former.query("create temp table t (n int); insert into t values (1); drop table t")
    assert client.value("show temp_buffers") == "1MB"
    assert backend(client) != used
    other.query("commit")
    assert both_servers(pooler, client, "show temp_buffers") == ["1MB"] * 2
    assert both_servers(pooler, other, "show temp_buffers") == ["8MB"] * 2


def test_right_that_is_lost(make, pg):  # noqa: F811
    """The client was a superuser when it set it, by a role that it is no member of any more."""
    pg.do("drop role if exists was_super; create role was_super superuser; grant was_super to trust_user")
    pooler = make(1, log_connections=0)
    client, other = pooler.connect(user="trust_user"), pooler.connect(user="trust_user")
    client.query("set role was_super")
    client.query("set log_min_duration_statement = 77777")
    client.query("reset role")
    assert other.value("select 1") == "1"
    client.send(wire.query("select 1"))
    error = dict(client.recv_until("E")[-1].fields())
    assert (error["S"], error["C"]) == ("FATAL", "22023")
    assert 'permission denied to set parameter "log_min_duration_statement"' in error["M"]
    assert other.value("show log_min_duration_statement") == "-1"
    pg.do("drop role was_super")


def load_plpgsql(client):
    """From then on PostgreSQL 15 refuses names that begin with plpgsql and that it does not have."""
    if not client.query("do $$ begin end $$; set plpgsql.nothing = 'x'", check=False).errors:
        pytest.skip("before PostgreSQL 15 every name is taken")


# A parameter of an extension that is there where it is set, and not (or another one) where it is put in force.
@pytest.mark.parametrize("sql, message", [
    ("set plpgsql.nothing = 'x'", 'invalid configuration parameter name "plpgsql.nothing"'),
    ("set plpgsql.variable_conflict = 'x'", 'invalid value for parameter "plpgsql.variable_conflict": "x"'),
])
def test_extension_that_does_not_take_it(make, sql, message):  # noqa: F811
    pooler = make(2, log_connections=0)
    client, other, blocker = (owner(pooler) for _ in range(3))
    blocker.query("begin")
    client.query(sql)
    other.query("begin")
    blocker.query("commit")
    load_plpgsql(blocker)
    client.send(wire.query("select 1"))
    error = dict(client.recv_until("E")[-1].fields())
    assert (error["S"], error["C"]) == ("FATAL", "22023")
    assert message in error["M"]
    other.query("commit")
    name = sql.split()[1]
    for _ in range(2):
        assert "x" not in both_servers(pooler, other, "select current_setting('%s', true)" % name)


def test_setting_that_an_extension_removes_unseen(make, pg):  # noqa: F811
    """A trigger loads the extension, which removes the setting; nobody asks behind an INSERT. So it cannot be
    taken back: the server is closed, and the next client gets another one."""
    pg.do("create or replace function does_nothing() returns trigger language plpgsql as "
          "$$ begin return new; end $$; drop table if exists with_trigger; create table with_trigger (n int); "
          "create trigger t before insert on with_trigger for each row execute function does_nothing()")
    pooler = make(1, log_connections=0)
    with owner(pooler) as first:
        load_plpgsql(first)
    pooler.admin.query("RECONNECT")
    client, other = owner(pooler), owner(pooler)
    client.query("set plpgsql.nothing = 'x'")
    at = backend(client)
    client.query("insert into with_trigger values (1)")
    assert other.value("select 1") == "1"
    assert backend(other) != at
    assert client.value("select current_setting('plpgsql.nothing')") == "x"
    assert not other.value("select current_setting('plpgsql.nothing', true)")


def test_no_setting_makes_the_question_expensive(make_pooler, fake, pg):
    """PostgreSQL would compile a query that it takes for expensive, which takes longer than everything else."""
    server = fake()
    pooler = make_pooler({"db": server.conn(user="owner", pool_size=1)}, settings={
        "pool_mode": "transaction", "session_state": "keep"})
    client = owner(pooler)
    for sql in ("set work_mem = '1MB'", "set app.a = 'b'", "select f()"):
        client.query(sql)
    questions = [m.body.split(b"\0")[1].decode() for m in server.of_pools()[0].received if m.kind == "P"]
    assert len(questions) == 3
    with pg.client() as direct:
        for name in ("seqscan", "indexscan", "nestloop", "hashjoin", "mergejoin", "sort"):
            direct.query("set enable_%s = off" % name)
        for sql in questions:
            cost = re.search(r"cost=[\d.]+\.\.([\d.]+)", direct.query("explain " + sql).rows[0][0])
            assert float(cost.group(1)) < 1000, sql


def test_short_statement_timeout(make):  # noqa: F811
    """A client that leaves a timeout behind does not disturb the next one."""
    pooler = make(1, log_connections=0)
    client, other = owner(pooler), owner(pooler)
    for timeout in (20, 50, 200):
        client.query("set statement_timeout = %d" % timeout)
        assert other.value("show statement_timeout") == "0"
        assert client.value("show statement_timeout") == "%dms" % timeout
        assert client.query("select pg_sleep(1)", check=False).errors
    assert other.value("select 1 from pg_sleep(0.3)") == "1"


QUESTION = re.compile("pg_show_all_settings")

# rows of an answer that says nothing, with the error that the client gets
NONSENSE = {
    "no columns": ([[]], "08006"),
    "one column": ([["s"]], "08006"),
    "null": ([[None, None]], "08006"),
    "other letter": ([["y", None]], "08006"),
    "not asked": ([["t", None]], "08006"),
    "three columns": ([["sa.b", "61", "61"]], "08006"),
    "a row of a megabyte": ([["sapp.a", "61" * 700_000]], "08P01"),
}
# rows of an answer that cannot be kept: the server stays with its client
STRANGE = {
    "no name": [["s", "61"]],
    "a name with a quote": [["sa'b", "61"]],
    "no digits": [["sa.b", "zz"]],
    "half a digit": [["sa.b", "616"]],
    "no value": [["sa.b", None]],
    "thousands of rows": [["sapp.n%d" % n, "61" * 30] for n in range(3000)],
    "a large value": [["sapp.a", "61" * 400_000]],
}


class Liar:
    """A server that answers the question with nonsense, and everything else politely."""

    def __init__(self, rows):
        self.rows = rows

    def __call__(self, session):
        session.login()
        is_asked = False
        while True:
            msg = session.recv()
            if msg.kind == "X":
                return
            if msg.kind == "P":
                is_asked = bool(QUESTION.search(msg.body.decode("latin-1")))
            if msg.kind == "E" and is_asked:
                session.send(b"".join(wire.data_row(row) for row in self.rows) + wire.command_complete("SELECT"))
                continue
            if msg.kind == "Q" and b"set work_mem" in msg.body:
                session.send(wire.command_complete("SET") + wire.ready())
                continue
            reply = session.reply_to(msg, ())
            if reply:
                session.send(reply)


def liars(make_pooler, fake, rows):
    pooler = make_pooler({"db": fake(Liar(rows)).conn(user="owner", pool_size=2)},
                         settings={"pool_mode": "transaction", "session_state": "keep"})
    client, other = owner(pooler), owner(pooler)
    assert other.value("select 1") == "fake"
    client.send(wire.query("set work_mem = '1MB'"))
    return pooler, client, other


@pytest.mark.parametrize("case", NONSENSE.values(), ids=NONSENSE)
def test_server_that_answers_with_nonsense(make_pooler, fake, case):
    """Its client gets an error, the server is closed, and everybody else goes on."""
    pooler, client, other = liars(make_pooler, fake, case[0])
    error = dict(client.recv_until("E")[-1].fields())
    assert (error["S"], error["C"]) == ("FATAL", case[1])
    assert other.value("select 1") == "fake"
    assert pooler.pool(user="owner")["sv_active"] == 0


@pytest.mark.parametrize("rows", STRANGE.values(), ids=STRANGE)
def test_server_that_tells_what_cannot_be_kept(make_pooler, fake, rows):
    pooler, client, other = liars(make_pooler, fake, rows)
    client.recv_until("Z")
    assert kinds(pooler) == ["SET"]
    assert other.value("select 1") == "fake"


class Canceled:
    """A server on which a late cancel request meets the first text that has `meets`."""

    def __init__(self):
        self.meets, self.count = None, 0

    def __call__(self, session):
        session.own = {"TimeZone": "UTC"}
        session.login()
        status, is_asked = "I", False
        while True:
            msg = session.recv()
            text = msg.body.decode("latin-1")
            if msg.kind == "X":
                return
            if msg.kind == "P":
                is_asked = bool(QUESTION.search(text))
            reply = session.reply_to(msg, ())
            if msg.kind == "E" and is_asked:
                reply = wire.data_row(["swork_mem", "31323334"]) + wire.command_complete("SELECT 1")
            is_met = self.meets and self.meets in text and msg.kind in "QP"
            if is_met:
                self.meets, self.count = None, self.count + 1
                status = "E" if status == "T" else "I"
                reply = wire.error("ERROR", "57014", "canceling statement due to user request")
                if msg.kind == "P":
                    session.send(reply)
                    while session.recv().kind != "S":
                        pass
                    reply = b""
                reply += wire.ready(status)
            elif msg.kind == "Q":
                status = {"begin": "T", "commit": "I", "rollback": "I"}.get(text.split()[0].strip("\0"), status)
            if msg.kind in "QS":
                reply = reply[:-1] + status.encode()
            session.send(reply)


@pytest.fixture
def canceled(make_pooler, fake):
    script = Canceled()
    pooler = make_pooler({"db": fake(script).conn(user="owner", pool_size=1)},
                         settings={"pool_mode": "transaction", "session_state": "keep"})
    yield script, pooler, owner(pooler), owner(pooler)
    assert script.count == 1 and script.meets is None


def test_late_cancel_meets_a_tracked_parameter(canceled):
    """The next client gets another server, and notices nothing."""
    script, _, client, other = canceled
    client.query("SET TimeZone = 'Asia/Tokyo'")
    other.query("select 1")
    script.meets = "SET TimeZone="
    assert client.value("select 1") == "fake"


@pytest.mark.parametrize("is_back", [False, True])
def test_late_cancel_meets_kept_settings(canceled, is_back):
    script, _, client, other = canceled
    client.query("set work_mem = '1234'")
    if not is_back:
        other.query("select 1")
    script.meets = "set_config"
    assert (other if is_back else client).value("select 1") == "fake"


def test_cancel_meets_what_is_sent_behind_begin(canceled):
    """The client's first statement fails, and its block with it."""
    script, _, client, other = canceled
    other.query("select 1")
    client.query("begin")
    script.meets = "DISCARD SEQUENCES"
    result = client.query("select lastval()", check=False)
    assert (result.errors[0].field("C"), result.status) == ("57014", "E")
    assert client.query("rollback").status == "I"
    assert client.value("select 1") == "fake"
