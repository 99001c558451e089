"""Tracked parameters (protocol.md 7)."""

import random
import threading

import pytest

import fakeserver
import postgres
import waiting
import wire

TRANSACTION = {"pool_mode": "transaction"}


def sets(session):
    """Returns the queries at the server that only set parameters."""
    return [q for q in session.queries() if q.startswith("SET ")]


def test_nothing_is_set_when_nothing_differs(make_pooler, fake):
    server = fake()
    pooler = make_pooler({"db": server.conn()}, settings=TRANSACTION)
    client = pooler.connect(client_encoding="utf8", DateStyle="iso, mdy", application_name="")
    client.query("select 1")
    assert server.sessions[0].queries() == ["select 1"]


def test_differences_are_one_query(make_pooler, fake):
    server = fake()
    pooler = make_pooler({"db": server.conn()}, settings=TRANSACTION)
    client = pooler.connect(application_name="mine", TimeZone="Asia/Tokyo", DateStyle="German")
    result = client.query("select 1")
    assert result.kinds() == "TDCZ"
    first, second = server.sessions[0].queries()
    assert second == "select 1"
    assert sorted(first.strip().rstrip(";").split(";")) == [
        "SET DateStyle='German'", "SET TimeZone='Asia/Tokyo'", "SET application_name='mine'"]


@pytest.mark.parametrize("value, literal", [
    ("it's", "'it''s'"), ("back\\slash", "E'back\\\\slash'"), ("both\\'", "E'both\\\\'''"),
    ("; drop table x; --", "'; drop table x; --'"), ("quote\"d", "'quote\"d'"),
])
def test_quoting(make_pooler, fake, value, literal):
    server = fake()
    pooler = make_pooler({"db": server.conn()}, settings=TRANSACTION)
    client = pooler.connect(application_name=value)
    client.query("select 1")
    assert sets(server.sessions[0])[0].rstrip("; ") == "SET application_name=" + literal


@pytest.mark.parametrize("name, value, other", [
    ("client_encoding", "LATIN1", "UTF8"), ("datestyle", "SQL, DMY", "ISO, MDY"),
    ("timezone", "America/New_York", "Asia/Tokyo"), ("application_name", "one", "t'w\\o"),
    ("standard_conforming_strings", "off", "on"), ("intervalstyle", "iso_8601", "sql_standard"),
])
def test_each_client_has_its_own(make_pooler, pg, name, value, other):
    """They share one server."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    one, two = pooler.connect(**{name: value}), pooler.connect(**{name: other})
    for _ in range(3):
        assert one.value("show " + name) == value
        assert two.value("show " + name) == other


def test_set_inside_the_session_is_kept(pooler):
    one, two = pooler.connect(), pooler.connect()
    result = one.query("set timezone = 'Asia/Tokyo'")
    assert [m.pair() for m in result.messages if m.kind == "S"] == [("TimeZone", "Asia/Tokyo")]
    assert two.value("show timezone") == "UTC"
    assert one.value("show timezone") == "Asia/Tokyo"
    assert pooler.pool()["sv_idle"] == 1


def test_client_never_sees_the_sets(pooler):
    one, two = pooler.connect(application_name="one"), pooler.connect(application_name="two")
    for client in (one, two, one, two):
        assert client.query("select 1").kinds() == "TDCZ"
        client.send(wire.parse("", "select 1"), wire.bind(), wire.execute(), wire.sync())
        client.recv_kinds("12DCZ")


def test_application_name_is_seen_in_views_and_server(pooler, pg):
    client = pooler.connect(application_name="named")
    client.query("begin")
    assert pg.backends("application_name = 'named'") == 1
    assert pooler.show_one("CLIENTS", user="trust_user")["application_name"] == "named"
    assert pooler.show_one("SERVERS")["application_name"] == "named"


def test_canonical_value_comes_back(pooler):
    client = pooler.connect(datestyle="german")
    client.query("select 1")
    other = pooler.connect()
    other.query("select 1")
    assert client.value("show datestyle").startswith("German")


def test_extra_parameters(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=dict(
        TRANSACTION, track_extra_parameters="default_transaction_read_only, In_Hot_Standby"))
    one, two = pooler.connect(default_transaction_read_only="on"), pooler.connect()
    assert "default_transaction_read_only" in dict(one.parameters())
    assert one.value("show default_transaction_read_only") == "on"
    assert two.value("show default_transaction_read_only") == "off"
    assert pooler.refusal(IntervalStyle="iso_8601") == "unsupported startup parameter: IntervalStyle"


def test_search_path_is_sent_as_reported(make_pooler, fake):
    import fakeserver
    known = fakeserver.PARAMETERS + [("search_path", '"$user", public')]

    def script(session):
        session.login(parameters=known)
        session.serve()

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings=dict(
        TRANSACTION, track_extra_parameters="search_path"))
    long_path = ", ".join("schema_%d" % n for n in range(60))
    for path in ("a, b", "a,b", '""', long_path):
        client = pooler.connect(search_path=path)
        client.query("select 1")
        assert "SELECT pg_catalog.set_config('search_path','%s',false);" % path in server.sessions[0].queries()


def test_values_of_any_length(make_pooler, fake):
    """The reference drops values longer than 127 bytes. This pooler sets them."""
    server = fake()
    pooler = make_pooler({"db": server.conn()}, settings=TRANSACTION)
    for i, zone in enumerate(("x" * 200, "y'" * 5000)):
        client = pooler.connect(TimeZone=zone)
        assert client.value("select 1") == "fake"
        assert sets(server.sessions[0])[i].endswith("SET TimeZone='%s';" % zone.replace("'", "''"))


def test_a_server_is_stopped_while_values_are_set(make_pooler, fake):
    """Another server serves the client, and the log has no error."""
    def script(session):
        session.login()
        if session.number > 0:
            session.serve()
        message = session.recv()
        while not message.body.startswith(b"SET"):
            session.send(fakeserver.plain_answer(message.body[:-1].decode()))
            message = session.recv()
        session.send(wire.error("FATAL", "57P01", "terminating connection due to administrator command"))

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings=dict(TRANSACTION, server_login_retry=0.1))
    pooler.connect().query("select 1")
    client = pooler.connect(application_name="other")
    client.send(wire.query("select 1"))
    assert client.finish().value == "fake"
    pooler.wait_log(r" LOG .*varcache_apply failed: FATAL: terminating connection")
    assert " ERROR " not in pooler.log()


def test_a_server_is_stopped_while_a_value_is_asked_for(make_pooler, fake):
    """A login with a value whose spelling is unknown asks another server, and is not refused."""
    def script(session):
        session.login()
        if session.number > 0:
            session.serve()
        session.recv_until("Q")
        session.send(wire.error("FATAL", "57P01", "terminating connection due to administrator command"))

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings=dict(TRANSACTION, server_login_retry=0.1))
    with pooler.connect(timezone="europe/rome") as client:
        assert client.value("select 1") == "fake"
    pooler.wait_log(r" LOG .*varcache_apply failed: FATAL: terminating connection")
    assert " ERROR " not in pooler.log()


def test_value_the_server_refuses(make_pooler, pg):
    """The login is refused, as PostgreSQL does, and the server connection is kept."""
    pooler = make_pooler({"db": pg.conn()}, settings=TRANSACTION)
    assert pooler.refusal(timezone="No/Such_Zone") == "invalid server parameter"
    pooler.wait_log(r'ERROR .*varcache_apply failed: ERROR: invalid value for parameter "TimeZone"')
    pooler.wait_pool(sv_active=0, sv_idle=1)
    assert pooler.connect().value("select 1") == "1"


def test_value_that_another_server_refuses(make_pooler, fake):
    """What one server has taken may be wrong for the next one, where it is set for a query."""
    def script(session):
        session.login()
        session.serve([("SET application_name", lambda s, q: wire.error(
            "ERROR", "22023", "no such name") + wire.ready())])

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings=TRANSACTION)
    client = pooler.connect(application_name="unfit")
    client.send(wire.query("select 1"))
    client.expect_fatal("invalid server parameter")
    pooler.wait_log(r'ERROR .*varcache_apply failed: ERROR: no such name')
    pooler.wait_pool(sv_active=0, sv_idle=0)
    assert pooler.connect().value("select 1") == "fake"


def test_value_the_server_never_reported(make_pooler, fake):
    def script(session):
        session.login(parameters=[("server_version", "15.0"), ("client_encoding", "UTF8")])
        session.serve()

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings=TRANSACTION)
    client = pooler.connect(application_name="x", TimeZone="UTC")
    client.query("select 1")
    assert server.sessions[0].queries() == ["select 1"]


def test_whatever_servers_report_is_kept_per_client(make_pooler, pg):
    """The pooler tracks all reported parameters, not only the configured ones:
    default_transaction_read_only of one client does not reach another."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    one, other = pooler.connect(), pooler.connect()
    one.query("set default_transaction_read_only = on")
    assert other.value("show default_transaction_read_only") == "off"
    assert one.value("show default_transaction_read_only") == "on"
    assert pooler.refusal(default_transaction_read_only="on") == (
        "unsupported startup parameter: default_transaction_read_only")


# changes by the administrator


@pytest.fixture(scope="module")
def own_pg(pg_bin):
    """A cluster whose configuration a test may change."""
    server = postgres.Postgres(pg_bin)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.remove()


READ_ONLY = "default_transaction_read_only"


def switch(server, name, value):
    server.do("alter system set %s = %s" % (name, value), "select pg_reload_conf()")


def shows(client, name, value):
    return client.value("show " + name) == value


@pytest.mark.parametrize("name, first, second", [
    (READ_ONLY, "off", "on"), ("TimeZone", "UTC", "Asia/Tokyo")])
def test_switch_by_the_administrator(make_pooler, own_pg, name, first, second):
    """Old and new clients get the new value on every server connection. A client that has set its
    own value keeps it."""
    switch(own_pg, name, "'%s'" % first)
    pooler = make_pooler({"db": own_pg.conn(pool_size=2)}, settings=TRANSACTION)
    clients = [pooler.connect() for _ in range(3)]
    for client in clients:
        client.query("begin") if client is not clients[2] else None
    for client in clients[:2]:
        client.query("commit")
    for value in (second, first, second):
        switch(own_pg, name, "'%s'" % value)
        for client in clients:
            waiting.wait_for(lambda: shows(client, name, value), "%s is %s" % (name, value))
        # The two server connections may be used in either order.
        clients[0].query("begin")
        waiting.wait_for(lambda: shows(clients[1], name, value), "the other server has it")
        clients[0].query("commit")
        for client in clients * 3:
            assert shows(client, name, value)
        with pooler.connect() as new:
            assert shows(new, name, value)
    with pooler.connect() as new:
        assert dict(new.parameters())[name] == second
    own = pooler.connect()
    own.query("set %s = '%s'" % (name, first))
    for _ in range(3):
        assert shows(own, name, first)
        for client in clients:
            assert shows(client, name, second)
    switch(own_pg, name, "'%s'" % first)
    for client in clients:
        waiting.wait_for(lambda: shows(client, name, first), "it is switched back")
    assert shows(own, name, first)


@pytest.mark.parametrize("name, args", [("'%s'" % READ_ONLY, ()), ("$1", (READ_ONLY,))])
def test_value_that_a_client_sets_by_a_function(make_pooler, pg, name, args):
    """The value belongs to the client, not to the administrator."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    one, two = pooler.connect(), pooler.connect()
    for _ in range(2):
        one.send(wire.parse("", "select set_config(%s, 'on', false)" % name),
                 wire.bind("", "", args), wire.execute(), wire.sync())
        assert not one.finish().errors
        assert two.value("show " + READ_ONLY) == "off"
        assert one.value("show " + READ_ONLY) == "on"
    one.query("select set_config('%s', 'off', false)" % READ_ONLY)
    assert one.value("show " + READ_ONLY) == "off"


def test_servers_of_a_pool_that_differ(make_pooler, fake):
    """Each client is told the values of the server connection that it is assigned."""
    def script(session):
        zone = ["UTC", "Asia/Tokyo"][session.number % 2]
        session.login(parameters=[("server_version", "15.0"), ("client_encoding", "UTF8"),
                                  ("TimeZone", zone)])
        session.serve()

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings=dict(TRANSACTION, server_round_robin=1))
    client = pooler.connect()
    assert dict(client.parameters())["TimeZone"] == "UTC"
    other = pooler.connect()
    other.send(wire.query("select 1"))
    client.query("select 1")
    assert sum(len(sets(s)) for s in server.sessions) == 0


def test_promotion_is_seen(make_pooler, fake):
    """A server reports the end of its standby mode. New clients get the new value at login, and
    connected ones a ParameterStatus."""
    reports = [wire.parameter_status("in_hot_standby", "off")]

    def script(session):
        session.login(parameters=[("server_version", "15.0"), ("client_encoding", "UTF8"),
                                  ("in_hot_standby", "on")])
        session.serve([("promoted", lambda s, q: fakeserver.plain_answer(q)[:-6]
                        + reports[0] + wire.ready())])

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings=TRANSACTION)
    one, two = pooler.connect(), pooler.connect()
    assert dict(one.parameters())["in_hot_standby"] == "on"
    result = one.query("select promoted()")
    assert [m.pair() for m in result.messages if m.kind == "S"] == [("in_hot_standby", "off")]
    with pooler.connect() as new:
        assert dict(new.parameters())["in_hot_standby"] == "off"
    result = two.query("select 1")
    assert [m.pair() for m in result.messages if m.kind == "S"] == [("in_hot_standby", "off")]
    assert server.sessions[0].queries() == ["select promoted()", "select 1"]


def test_what_the_connect_query_has_set_is_kept(make_pooler, pg):
    """The pooler treats a value set by connect_query as the server's own. A RESET would undo it."""
    query = "set datestyle to German"
    pooler = make_pooler({"db": pg.conn(pool_size=1, connect_query=query)},
                         settings=TRANSACTION)
    one, two = pooler.connect(), pooler.connect()
    one.query("set datestyle to SQL")
    assert two.value("show datestyle").startswith("German")
    assert one.value("show datestyle").startswith("SQL")


def test_reset_brings_back_the_startup_values(pooler):
    client = pooler.connect(timezone="Asia/Tokyo", application_name="mine")
    assert client.value("show timezone") == "Asia/Tokyo"
    client.query("set timezone = 'UTC'")
    client.query("reset timezone")
    assert client.value("show timezone") == "Asia/Tokyo"
    client.query("set application_name = 'other'")
    client.query("reset all")
    assert client.value("show application_name") == "mine"
    assert client.value("show timezone") == "Asia/Tokyo"


ASKED = {"timezone": "Asia/Tokyo", "application_name": "mine", "datestyle": "German, DMY"}
WATCHED = ("timezone", "application_name", "datestyle", "client_encoding")


def run_extended(client, sql):
    client.send(wire.parse("", sql), wire.bind(), wire.execute(), wire.sync())
    return client.finish()


def run_named(client, sql):
    """Parses the statement in one round trip and runs it in another."""
    client.send(wire.parse("named", sql), wire.sync())
    client.finish()
    client.send(wire.bind("", "named"), wire.execute(), wire.close("S", "named"), wire.sync())
    return client.finish()


def run_simple(client, sql):
    return client.query(sql, check=False)


def story(client, run, statements):
    """Returns the answer to each statement, the values in force after it, and the ParameterStatus
    messages."""
    told, seen = dict(client.parameters()), []
    for sql in statements:
        result = run(client, sql)
        told.update(m.pair() for m in result.messages if m.kind == "S")
        seen.append((sql, [m.raw() for m in result.messages if m.kind not in "SN12T3"]))
        if result.status == "E":
            continue
        for name in WATCHED:
            shown = run_simple(client, "show " + name)
            told.update(m.pair() for m in shown.messages if m.kind == "S")
            seen.append((sql, name, shown.value))
        named = {k.lower(): v for k, v in told.items()}
        seen.append([named[name] for name in WATCHED])
    return seen


@pytest.mark.parametrize("mode, run", [
    ("transaction", run_simple), ("transaction", run_extended), ("transaction", run_named),
    ("session", run_simple), ("session", run_extended)])
@pytest.mark.parametrize("statements", [
    ["set timezone = 'UTC'", "reset timezone"],
    ["set timezone to 'America/New_York'", "set timezone to default"],
    ["set timezone to default"],
    ["SET /* here */ TimeZone = DEFAULT", "set session application_name to default"],
    ["set time zone 'UTC'", "set time zone default"],
    ["set time zone 'UTC'", "set time zone local"],
    ["set names 'LATIN1'", "set names default", "set names 'LATIN1'", "set names"],
    ["set datestyle = 'ISO'", "reset all"],
    ["set datestyle = 'ISO'", "set application_name = ''", "discard all"],
    ["begin", "set timezone = 'UTC'", "rollback"],
    ["begin", "set timezone = 'UTC'", "commit"],
    ["begin", "set local timezone = 'UTC'", "commit"],
    ["set timezone = 'UTC'", "begin", "set timezone to default", "rollback"],
    ["set timezone = 'UTC'", "begin", "set timezone to default", "commit"],
    ["set timezone = 'UTC'", "begin", "reset timezone", "set transaction read only", "rollback"],
    ["set timezone = 'UTC'", "begin", "set local timezone to default", "commit"],
    ["set timezone = 'UTC'", "begin", "set local timezone to default", "rollback"],
    ["set local timezone to default"],
    ["set timezone = 'UTC'", "begin", "savepoint s", "reset timezone", "rollback to s", "commit"],
    ["set timezone = 'UTC'", "begin", "set timezone to default", "nonsense", "rollback"],
    ["set timezone = 'UTC'", "set timezone to default nonsense"],
], ids="; ".join)
def test_parameters_as_on_a_direct_connection(shared_pooler, pg, mode, run, statements):
    pooler = shared_pooler({"db": pg.conn(pool_size=1)}, settings={"pool_mode": mode})
    with pg.client(user="trust_user", **ASKED) as direct:
        wanted = story(direct, run, statements)
    with pooler.connect(**ASKED) as client:
        assert story(client, run, statements) == wanted


@pytest.mark.parametrize("statements, left", [
    ("set timezone = 'UTC'; set timezone to default", "Asia/Tokyo"),
    ("reset timezone; set timezone = 'UTC'", "UTC"),
    ("set timezone to default; select 1; set timezone = 'UTC'", "UTC"),
])
def test_the_last_of_one_query_counts(pooler, statements, left):
    client = pooler.connect(**ASKED)
    client.query(statements)
    assert client.value("show timezone") == left


def bound(sql, name):
    return wire.parse(name, sql) + wire.bind("", name) + wire.execute()


@pytest.mark.parametrize("parts, left", [
    # A statement that is only parsed or bound sets nothing.
    ([wire.parse("r", "reset all"), bound("set timezone = 'America/New_York'", "s")],
     "America/New_York"),
    ([wire.parse("r", "set timezone to default"), bound("set timezone = 'UTC'", "s")], "UTC"),
    ([wire.parse("r", "reset all"), wire.bind("x", "r"), bound("set timezone = 'UTC'", "s")], "UTC"),
    # The last statement decides.
    ([bound("reset all", "r"), bound("set timezone = 'UTC'", "s")], "UTC"),
    ([bound("set timezone = 'UTC'", "s"), bound("reset all", "r")], "Asia/Tokyo"),
    # A statement that is rolled back sets nothing.
    ([bound("reset all", "r"), wire.describe("P", "missing")], "Europe/Rome"),
    ([bound("set timezone to default", "r"), bound("select 1/0", "s")], "Europe/Rome"),
    ([wire.query("reset all; select 1/0")], "Europe/Rome"),
    ([wire.query("begin; reset timezone; rollback")], "Europe/Rome"),
    ([wire.query("begin; reset timezone; rollback; reset timezone")], "Asia/Tokyo"),
    ([wire.query("begin; reset timezone; commit; select 1/0")], "Asia/Tokyo"),
    ([bound("discard all", "d"), bound("select 1/0", "s")], "Asia/Tokyo"),
    ([bound("set timezone = 'UTC'", ""), bound("set timezone to default", "")], "Asia/Tokyo"),
    ([wire.parse("", "set timezone to default"), wire.sync(), wire.bind(), wire.execute()],
     "Asia/Tokyo"),
])
def test_what_runs_counts(pooler, pg, parts, left):
    for make in (lambda: pg.client(user="trust_user", **ASKED), lambda: pooler.connect(**ASKED)):
        with make() as client:
            client.query("set timezone = 'Europe/Rome'")
            client.send(*parts, wire.sync(), wire.query(""))
            while client.finish().kinds() != "IZ":
                pass
            assert client.value("show timezone") == left


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_reset_in_two_parts(make_pooler, pg, mode):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={"pool_mode": mode})
    client = pooler.connect(**ASKED)
    for cut in (7, 14, 18):
        client.query("set timezone = 'UTC'")
        data = wire.query("reset timezone")
        client.send(data[:cut])
        pooler.show("CLIENTS")  # The answer shows that the first part has arrived.
        client.send(data[cut:])
        assert client.finish().tag == "RESET"
        assert client.value("show timezone") == "Asia/Tokyo"


@pytest.mark.parametrize("sql", ["reset timezone", "set timezone to default", "discard all"])
def test_reset_spares_what_has_no_name(make_pooler, pg, sql):
    """In session mode the pooler's own SET after a RESET does not replace the client's unnamed
    statement."""
    pooler = make_pooler({"db": pg.conn()}, settings={"pool_mode": "session"})
    outcomes = []
    for make in (lambda: pg.client(user="trust_user", **ASKED), lambda: pooler.connect(**ASKED)):
        with make() as client:
            client.query("set timezone = 'UTC'")
            client.send(wire.parse("r", sql), wire.parse("", "select 'spared'"), wire.sync())
            client.finish()
            client.send(wire.bind("", "r"), wire.execute(), wire.sync())
            client.finish()
            client.send(wire.bind(), wire.execute(), wire.sync())
            outcomes.append([m.raw() for m in client.finish().messages])
    assert outcomes[0] == outcomes[1]


def test_reset_spares_portals_of_the_transaction(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"pool_mode": "transaction"})
    client = pooler.connect(**ASKED)
    client.query("set timezone = 'UTC'")
    client.query("begin")
    client.send(wire.parse("r", "reset timezone"), wire.parse("", "select generate_series(1, 4)"),
                wire.bind("p"), wire.execute("p", 2), wire.sync())
    assert client.finish().rows == [("1",), ("2",)]
    client.send(wire.bind("q", "r"), wire.execute("q"), wire.sync())
    assert client.finish().tag == "RESET"
    client.send(wire.execute("p"), wire.sync())
    assert client.finish().rows == [("3",), ("4",)]
    client.send(wire.bind(), wire.execute("", 1), wire.sync())
    assert client.finish().rows == [("1",)]
    assert client.value("show timezone") == "Asia/Tokyo"
    client.query("commit")
    assert client.value("show timezone") == "Asia/Tokyo"


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_reset_within_a_transaction(make_pooler, pg, mode):
    """The next statement sees the restored values, and the pooler's SET does not count as a
    query."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={"pool_mode": mode})
    client = pooler.connect(application_name="mine")
    client.query("begin")
    client.query("set application_name = 'other'")
    client.query("reset application_name")
    assert not client.query("set transaction isolation level serializable").errors
    assert client.value("show application_name") == "mine"
    client.query("rollback")
    assert client.value("show application_name") == "mine"


def test_reset_leaves_the_unnamed_statement_alone(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"pool_mode": "session"})
    client = pooler.connect(application_name="mine")
    client.send(wire.parse("", "reset application_name"), wire.bind(), wire.execute(), wire.sync())
    assert "E" not in client.finish().kinds()
    client.send(wire.bind(), wire.execute(), wire.sync())
    assert "E" not in client.finish().kinds()
    assert client.value("show application_name") == "mine"


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_application_name_is_that_of_the_client(make_pooler, pg, mode):
    """Whoever looks at the server sees which application has it, also when it was another's before."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={"pool_mode": mode})
    for name in "one", "two":
        with pooler.connect(application_name=name) as client:
            assert client.value("select application_name from pg_stat_activity where pid = pg_backend_pid()") == name
            assert pooler.show_one("SERVERS")["application_name"] == name


@pytest.mark.parametrize("unix", [False, True])
def test_application_name_add_host(make_pooler, pg, unix):
    import os
    import socket
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, application_name_add_host=1))
    for given, shown in (({"application_name": "me"}, "me"), ({}, "app")):
        client = pooler.connect(unix=unix, **given)
        if unix:
            place = "unix(%d@%s):%d" % (os.getpid(), socket.gethostname(), pooler.port)
        else:
            place = "%s:%d" % client.sock.getsockname()
        assert client.value("show application_name") == ("%s - %s" % (shown, place))[:63]


def test_debug_line(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=TRANSACTION, args=["-v"])
    client = pooler.connect(application_name="seen")
    client.query("select 1")
    pooler.wait_log(r"DEBUG S-0x\S+ db/trust_user@\S+ varcache_apply: SET application_name='seen';?$")


def test_defaults_of_the_database(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(timezone="Asia/Tokyo", application_name="of the database",
                                        datestyle="German")}, settings=TRANSACTION)
    client, other = pooler.connect(), pooler.connect(timezone="UTC")
    assert dict(client.parameters())["TimeZone"] == "Asia/Tokyo"
    assert client.value("show application_name") == "of the database"
    assert other.value("show timezone") == "UTC"
    assert client.value("show timezone") == "Asia/Tokyo"


# sequences of SET and RESET, sent at once or one by one

CHANGES = [
    "set timezone = 'UTC'", "set timezone = 'Europe/Rome'", "set timezone to default", "reset timezone",
    "set datestyle = 'ISO, MDY'", "set datestyle = 'SQL, MDY'", "set datestyle to default",
    "reset datestyle", "set application_name = ''", "set application_name = 'x'",
    "reset application_name", "set application_name to default", "reset all", "select 1", "select 1/0",
    "begin", "commit", "rollback", "select set_config('timezone', 'UTC', false)",
    "select set_config('datestyle', null, false)"]


def segment(random_):
    """Returns the messages of one to three statements up to ReadyForQuery, and the statements."""
    chosen = [random_.randrange(len(CHANGES)) for _ in range(random_.randint(1, 3))]
    way = random_.choice(["simple", "extended", "prepared"])
    texts = [CHANGES[i] for i in chosen]
    if way == "simple":
        return wire.query("; ".join(texts)), texts
    if way == "prepared":
        parts = [wire.bind("", "p%d" % i) + wire.execute() for i in chosen]
    else:
        parts = [bound(text, "") for text in texts]
    return b"".join(parts) + wire.sync(), texts


def changed(client, segments, at_once):
    """Returns the values that are in force after the segments, and those that were told."""
    told = dict(client.parameters())
    for i, text in enumerate(CHANGES):
        client.send(wire.parse("p%d" % i, text))
    client.send(wire.sync())
    client.finish()
    results = []
    for group in [segments] if at_once else [[s] for s in segments]:
        client.send(*group)
        results += [client.finish() for _ in group]
    results.append(client.query("rollback"))
    shown = {}
    for name in ("TimeZone", "DateStyle", "application_name"):
        results.append(client.query("show " + name))
        shown[name] = results[-1].value
    for result in results:
        told.update(m.pair() for m in result.messages if m.kind == "S")
    return shown, {name: told[name] for name in shown}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_sequences_of_resets_as_on_a_direct_connection(make_pooler, pg, mode):
    """An error or ROLLBACK undoes a RESET, and what is behind it in a pipeline changes nothing."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={
        "pool_mode": mode, "max_prepared_statements": 100})
    for number in range(150):
        random_ = random.Random(number)
        parts = [segment(random_) for _ in range(random_.randint(1, 4))]
        segments, at_once = [p[0] for p in parts], random_.random() < 0.7
        with pg.client(user="trust_user", **ASKED) as direct:
            wanted = changed(direct, segments, at_once)
        with pooler.connect(**ASKED) as client:
            assert changed(client, segments, at_once) == wanted, (number, at_once, parts)


@pytest.mark.parametrize("mode", ["session", "transaction"])
@pytest.mark.parametrize("behind", ["select 1/0", "select 1"])
def test_reset_with_a_failure_behind(make_pooler, pg, mode, behind):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={"pool_mode": mode})
    for make in (lambda: pg.client(user="trust_user", **ASKED), lambda: pooler.connect(**ASKED)):
        with make() as client:
            client.query("set datestyle = 'ISO, MDY'")
            client.send(bound("reset datestyle", "") + bound(behind, "") + wire.sync(),
                        bound("set timezone to default", "") + wire.sync())
            client.finish()
            client.finish()
            assert client.value("show datestyle") == (
                "ISO, MDY" if "0" in behind else "German, DMY")
            assert client.value("show timezone") == "Asia/Tokyo"


@pytest.mark.parametrize("session_state", ["forward", "keep"])
def test_error_undoes_a_reset_of_a_block(make_pooler, pg, session_state):
    """The server reports the client's value again, which is not taken for the administrator's."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)},
                         settings={"pool_mode": "transaction", "session_state": session_state})
    client, other = pooler.connect(), pooler.connect()
    client.query("set default_transaction_read_only = on")
    other.query("select 1")
    client.query("begin")
    client.send(wire.parse("r", "reset default_transaction_read_only"), wire.bind("", "r"), wire.execute(), wire.sync())
    client.finish()
    assert client.query("select 1/0", check=False).status == "E"
    client.query("rollback")
    assert other.value("show default_transaction_read_only") == "off"
    assert client.value("show default_transaction_read_only") == "on"


class Questioned:
    """A server that answers the pooler's question for the sources of values when it is told to."""

    def __init__(self):
        self.is_asked, self.may_answer = threading.Event(), threading.Event()

    def __call__(self, session):
        session.own = {"TimeZone": "UTC"}
        session.login()
        is_question = False
        while True:
            msg = session.recv()
            if msg.kind == "P":
                is_question = b"pg_settings" in msg.body
            if is_question and msg.kind == "E":
                self.is_asked.set()
                self.may_answer.wait(waiting.DEADLINE)
                session.send(wire.data_row(["TimeZone"]), wire.command_complete("SELECT 1"))
            elif msg.kind != "X":
                session.send(session.reply_to(msg, ()))


@pytest.mark.parametrize("behind", ["", "select 1"])
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_cancel_while_a_reset_is_settled(make_pooler, fake, mode, behind):
    """The RESET has ended: its ReadyForQuery comes first, and its startup value is back."""
    script = Questioned()
    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings={"pool_mode": mode})
    client = pooler.connect(TimeZone="Asia/Tokyo")
    client.query("SET TimeZone = 'Europe/Berlin'")
    client.send(wire.query("RESET TimeZone"))
    assert script.is_asked.wait(waiting.DEADLINE)
    if behind:
        client.send(wire.query(behind))
        waiting.wait_read(client.sock)
    mark = pooler.mark()
    client.cancel()
    pooler.wait_log("cancel request for", mark)
    script.may_answer.set()
    told = client.recv_until("Z")
    assert "".join(m.kind for m in told) == "SCSZ"
    assert told[2].pair() == ("TimeZone", "Asia/Tokyo")
    if behind:
        client.recv_kinds("EZ")
    assert client.query("select 1").kinds() == "TDCZ"
    assert not server.cancels()
