"""How query texts change the session state of a server, and when clients share prepared texts
(protocol.md 7, 12)."""

import pytest

import wire

SETTINGS = {"pool_mode": "transaction", "default_pool_size": "1", "max_prepared_statements": "200"}


def make(make_pooler, pg, **more):
    settings = dict(SETTINGS, **{k: str(v) for k, v in more.items()})
    return make_pooler({"db": pg.conn()}, settings=settings)


def send(client, *parts):
    client.send(*parts, wire.sync())
    return client.finish()


def prepare(client, name, sql):
    assert send(client, wire.parse(name, sql)).kinds().lstrip("N") == "1Z"


def value(client, name):
    result = send(client, wire.bind("", name), wire.execute())
    if result.errors:
        raise wire.Refused(result.errors[0])
    return result.rows[0][0]


# parameters decide how a text is parsed

READINGS = [
    ({"DateStyle": "ISO, MDY"}, {"DateStyle": "ISO, DMY"},
     "select extract(month from '01/02/2024'::date)::int", "1", "2"),
    ({"TimeZone": "UTC"}, {"TimeZone": "Asia/Tokyo"},
     "select extract(epoch from '2024-01-01'::timestamptz)::bigint", "1704067200", "1704034800"),
    ({"IntervalStyle": "postgres"}, {"IntervalStyle": "sql_standard"},
     "select extract(hour from interval '-1 2:00:00')::int", "2", "-2"),
    ({"standard_conforming_strings": "on"}, {"standard_conforming_strings": "off"},
     "select length('a\\\\b')", "4", "3"),
    ({"client_encoding": "LATIN1"}, {"client_encoding": "UTF8"},
     "select length('\u00e9')", "2", "1"),
]


@pytest.mark.parametrize("first, second, sql, one, two", READINGS,
                         ids=[list(r[0])[0] for r in READINGS])
def test_a_text_is_shared_only_by_those_who_read_it_alike(
        make_pooler, pg, first, second, sql, one, two):
    pooler = make(make_pooler, pg)
    clients = [pooler.connect(**first), pooler.connect(**second), pooler.connect(**first)]
    for client in clients:
        prepare(client, "s", sql)
    for _ in range(2):
        assert [value(c, "s") for c in clients] == [one, two, one]
    assert pooler.pool()["sv_idle"] == 1


def test_statement_of_a_client_that_changes_its_parameters(make_pooler, pg):
    """A statement may be parsed again after a change, but no other client gets the result."""
    pooler = make(make_pooler, pg, max_prepared_statements=1)
    one, two = pooler.connect(DateStyle="ISO, MDY"), pooler.connect(DateStyle="ISO, MDY")
    for client in (one, two):
        prepare(client, "s", READINGS[0][2])
    one.query("set datestyle = 'ISO, DMY'")
    prepare(one, "other", "select 1")
    assert value(one, "s") in ("1", "2")
    assert value(two, "s") == "1"


def test_parameter_that_is_set_in_the_same_pipeline(make_pooler, pg):
    pooler = make(make_pooler, pg)
    one, two = pooler.connect(DateStyle="ISO, MDY"), pooler.connect(DateStyle="ISO, MDY")
    one.send(wire.query("set datestyle = 'ISO, DMY'"), wire.parse("s", READINGS[0][2]),
             wire.sync())
    one.recv_until("Z")
    one.finish()
    prepare(two, "s", READINGS[0][2])
    assert value(one, "s") == "2"
    assert value(two, "s") == "1"


@pytest.mark.parametrize("block", ["begin; %s", "begin; %s; savepoint a"])
@pytest.mark.parametrize("change, end", [
    ("set datestyle = 'ISO, DMY'", "rollback"), ("set local datestyle = 'ISO, DMY'", "commit"),
    ("select set_config('datestyle', 'ISO, DMY', true)", "commit")])
def test_parameter_that_is_undone_in_the_same_pipeline(make_pooler, pg, block, change, end):
    """The parser must not use the values that are in force when the client sends the text."""
    pooler = make(make_pooler, pg)
    one, two = pooler.connect(DateStyle="ISO, MDY"), pooler.connect(DateStyle="ISO, DMY")
    for sql in (block % change).split("; "):
        one.query(sql)
    one.send(wire.query(end), wire.parse("s", READINGS[0][2]), wire.sync())
    one.finish()
    assert one.finish().kinds() == "1Z"
    prepare(two, "s", READINGS[0][2])
    assert value(two, "s") == "2"
    assert value(one, "s") == "1"


@pytest.mark.parametrize("word", ["now", "tomorrow"])
def test_times_are_read_again_when_a_statement_is_prepared_again(make_pooler, pg, word):
    pooler = make(make_pooler, pg)
    client = pooler.connect()
    sql = "select 'now'::timestamptz::text, '%s'::timestamptz" % word
    seen = set()
    for _ in range(3):
        prepare(client, "s", sql)
        seen.add(value(client, "s"))
        assert value(client, "s") in seen
        assert send(client, wire.close("S", "s")).kinds() == "3Z"
    assert len(seen) == 3


# resets that no CommandComplete shows

HIDDEN = [
    "do $$begin reset timezone; end$$",
    "do $$begin execute 'RESET ALL'; end$$",
    "select set_config('TimeZone', null, false)",
]


@pytest.mark.parametrize("sql", HIDDEN)
@pytest.mark.parametrize("mode", ["transaction", "session"])
@pytest.mark.parametrize("way", ["simple", "extended"])
def test_hidden_reset_brings_back_what_the_client_asked_for(make_pooler, pg, sql, mode, way):
    pooler = make(make_pooler, pg, pool_mode=mode)
    client = pooler.connect(TimeZone="Asia/Tokyo")
    client.query("set timezone = 'America/New_York'")
    if way == "simple":
        result = client.query(sql)
    else:
        result = send(client, wire.parse("", sql), wire.bind(), wire.execute())
    assert not result.errors
    assert client.value("show timezone") == "Asia/Tokyo"


def test_value_that_is_set_is_no_reset(make_pooler, pg):
    pooler = make(make_pooler, pg)
    default = pooler.connect().value("show timezone")
    client = pooler.connect(TimeZone="Asia/Tokyo")
    client.query("do $$begin reset timezone; set timezone = '%s'; end$$" % default)
    assert client.value("show timezone") == default
    client.query("select set_config('TimeZone', '%s', false)" % default)
    assert client.value("show timezone") == default


# statements that are dropped without a trace in the protocol

FORGET = "do $$begin execute 'deallocate all'; end$$"


def test_name_is_free_behind_a_hidden_deallocate(make_pooler, pg):
    pooler = make(make_pooler, pg)
    client, other = pooler.connect(), pooler.connect()
    for c in (client, other):
        prepare(c, "s", "select 1")
    client.query(FORGET)
    prepare(client, "s", "select 2")
    assert value(client, "s") == "2"
    assert value(other, "s") == "1"


def test_name_is_free_behind_a_deallocate_in_a_function(make_pooler, pg):
    """The pooler can notice it only when a Parse of an existing name succeeds."""
    pg.do("create or replace function public.forget_all() returns void language plpgsql as "
          "$f$begin execute 'deallocate all'; end$f$")
    pooler = make(make_pooler, pg)
    client, other = pooler.connect(), pooler.connect()
    for c in (client, other):
        prepare(c, "s", "select 1")
        prepare(c, "t", "select 10")
    client.query("select public.forget_all()")
    prepare(client, "s", "select 2")
    assert value(client, "s") == "2"
    assert value(other, "s") == "1"
    prepare(client, "t", "select 20")
    assert value(client, "t") == "20"
    assert value(other, "t") == "10"
    prepare(other, "new", "select 2")
    assert value(other, "new") == "2"


# skipped messages

@pytest.mark.parametrize("skipped", [
    wire.query("select 1"), wire.close("S", ""), wire.parse("", "select 2")])
def test_skipped_message_leaves_the_unnamed_statement(make_pooler, pg, skipped):
    pooler = make(make_pooler, pg)
    client = pooler.connect()
    assert send(client, wire.parse("", "select 7")).kinds() == "1Z"
    client.send(wire.bind("", "missing"), skipped, wire.sync())
    assert client.finish().kinds() == "EZ"
    assert value(client, "") == "7"
    assert send(pooler.connect(), wire.parse("", "select 8")).kinds() == "1Z"
    assert value(client, "") == "7"


# large messages

def test_many_portals_of_commands(make_pooler, pg):
    client = make(make_pooler, pg, track_sql_prepare=1).connect()
    client.query("prepare e as select 5")
    client.send(wire.query("begin"), wire.parse("c", "execute e"),
                *[wire.bind("p%d" % i, "c") for i in range(15000)],
                wire.execute("p0"), wire.execute("p14999"), wire.sync())
    assert client.recv_until("Z")
    result = client.finish()
    assert not result.errors and result.rows == [("5",), ("5",)]


def test_large_named_parse(make_pooler, pg):
    client = make(make_pooler, pg).connect()
    prepare(client, "s", "select length('%s')" % ("x" * 3000000))
    assert value(client, "s") == "3000000"


def long_text(value, size=3 << 20):
    return "select '%s' /*%s*/" % (value, "x" * size)


@pytest.mark.one_worker  # Which server the client gets is another one.
def test_long_named_text_on_two_servers(make_pooler, pg):
    pooler = make(make_pooler, pg, default_pool_size=2)
    client, other = pooler.connect(), pooler.connect()
    prepare(client, "s", long_text("one"))
    other.query("begin")
    assert value(client, "s") == "one"
    assert pooler.pool()["sv_active"] == 1 and pooler.pool()["sv_idle"] == 1
    other.query("commit")
    rows = [r for r in pooler.show("PREPARED_STATEMENTS") if r["query"].startswith("select 'one'")]
    assert [(r["servers"], r["clients"]) for r in rows] == [("2", "1")]


def test_long_named_texts_are_evicted_and_closed(make_pooler, pg):
    pooler = make(make_pooler, pg, max_prepared_statements=1)
    client = pooler.connect()
    prepare(client, "s", long_text("one"))
    prepare(client, "t", long_text("two"))
    assert [value(client, name) for name in "stst"] == ["one", "two", "one", "two"]
    assert send(client, wire.close("S", "s")).kinds() == "3Z"
    with pytest.raises(wire.Refused):
        value(client, "s")
    prepare(client, "s", long_text("three"))
    assert value(client, "s") == "three" and value(client, "t") == "two"
    client.query("deallocate all")
    with pytest.raises(wire.Refused):
        value(client, "s")


def test_faults_of_long_named_texts(make_pooler, pg):
    client = make(make_pooler, pg).connect()
    prepare(client, "s", long_text("one"))
    taken = send(client, wire.parse("s", long_text("two")))
    assert taken.errors[0].field("C") == "42P05" and '"s"' in taken.errors[0].field("M")
    assert value(client, "s") == "one"
    wrong = send(client, wire.parse("w", "selekt" + long_text("two")))
    assert wrong.errors[0].field("C") == "42601"
    with pytest.raises(wire.Refused):
        value(client, "w")
    prepare(client, "w", long_text("two"))
    # The server skips this Parse after an error, so the pooler also drops its remaining part.
    assert send(client, wire.bind("", "none"), wire.parse("v", long_text("three"))).kinds() == "EZ"
    prepare(client, "v", long_text("four"))
    assert [value(client, name) for name in "swv"] == ["one", "two", "four"]


@pytest.mark.parametrize("part", [1 << 20, (2 << 20) + 100000])
def test_client_vanishes_in_a_long_named_text(make_pooler, pg, part):
    pooler = make(make_pooler, pg)
    client = pooler.connect()
    client.send(wire.parse("s", long_text("one"))[:part])
    client.close()
    assert pooler.connect().value("select 5") == "5"
    assert pooler.show("PREPARED_STATEMENTS") == []


def test_segment_that_is_sent_again_has_its_own_effects(make_pooler, pg):
    """Of two Parse messages in the segment, each has the effects of its own text."""
    pg.do("create or replace function public.forget_all() returns void language plpgsql as "
          "$f$begin execute 'deallocate all'; end$f$")
    pooler = make(make_pooler, pg)
    client = pooler.connect(TimeZone="Asia/Tokyo")
    prepare(client, "s", "select 1")
    client.query("set timezone = 'America/New_York'")
    pooler.connect().query("select public.forget_all()")
    result = send(client, wire.bind("", "s"), wire.execute(),
                  wire.parse("t", "set datestyle to 'German'"),
                  wire.parse("u", "set timezone to default"))
    assert result.kinds() == "2DC11Z"
    assert not send(client, wire.bind("", "t"), wire.execute()).errors
    assert client.value("show timezone") == "America/New_York"
    assert not send(client, wire.bind("", "u"), wire.execute()).errors
    assert client.value("show timezone") == "Asia/Tokyo"


# the cost of scanning a text

HOSTILE = ("set_config(", "set_config('a',", "pg_advisory_lock/*", "temp into/*", "select $q$", "do $$", "/*", "--\n",
           "'", "e'\\\\", "\"", "U&\"", "(", ";", "prepare x as ", "set a=", "listen x;", "create temp table x();",
           "declare c cursor with hold for select 1;")


@pytest.mark.parametrize("settings", [{}, {"session_state": "clean", "track_sql_prepare": "1"}], ids=["plain", "all"])
def test_hostile_texts_cost_little(make_pooler, fake, settings):
    """The test measures CPU time. All texts together take less than 0.1 s. Each took up to 40 s
    when the scanner went back for each word."""
    server = fake()
    pooler = make_pooler({"db": server.conn()}, settings={"pool_mode": "transaction", **settings})
    client = pooler.connect()
    before = pooler.cpu_time()
    for i, unit in enumerate(HOSTILE):
        text = (unit * (300 * 1024 // len(unit) + 1))[:300 * 1024]
        client.send(wire.query(text))
        client.recv_until("Z")
        client.send(wire.parse("s%d" % i, text), wire.sync())
        client.recv_until("Z")
        client.send(wire.parse("", text), wire.bind(), wire.execute(), wire.sync())
        client.recv_until("Z")
    assert pooler.cpu_time() - before < 5
