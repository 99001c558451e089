"""Parameters that the pooler does not know by name: servers of other versions report others, and clients keep
them, too; and with session_state=keep those that no server reports."""

import re

import fakeserver
import pytest

import waiting
import wire
from test_keep_settings import both_servers
from test_takeover import restart, wait_end  # noqa: F401

TRANSACTION = {"pool_mode": "transaction"}
NAME = "Future.Setting"


def told(session, value, tag):
    """The answer to a command that changes the parameter: from PostgreSQL 14 on the report comes last."""
    session.value = value
    row = wire.data_row(["x"]) if tag.startswith("SELECT") else b""
    return row + wire.command_complete(tag) + wire.parameter_status(NAME, value) + wire.ready()


ANSWERS = [
    (r"set_config\('%s','(\w+)',false\)" % NAME,
     lambda s, sql: told(s, re.search(r"','(\w+)',", sql).group(1), "SELECT 1")),
    (r"^set %s = '(\w+)'" % NAME, lambda s, sql: told(s, re.search(r"'(\w+)'", sql).group(1), "SET")),
    (r"^reset %s" % NAME, lambda s, sql: told(s, "own", "RESET")),
    (r"^show %s" % NAME, lambda s, sql: (
        wire.row_description([("v", 25, -1)]) + wire.data_row([s.value]) + wire.command_complete("SHOW")
        + wire.ready())),
]


def newer(session):
    session.value = "own"
    session.login(parameters=fakeserver.PARAMETERS + [(NAME, "own"), ("server_build", "7")])
    session.serve(ANSWERS)


@pytest.mark.parametrize("state", ["forward", "keep"])
@pytest.mark.parametrize("workers", [1, 3])
def test_reported_parameter_is_kept(make_pooler, fake, workers, state):
    server = fake(newer)
    pooler = make_pooler({"db": server.conn(pool_size=1)},
                         settings=dict(TRANSACTION, workers=workers, session_state=state))
    clients = [pooler.connect() for _ in range(4)]
    assert [dict(c.parameters())[NAME] for c in clients] == ["own"] * 4
    expected = ["own", "one", "two", "own"]
    clients[1].query("set %s = 'one'" % NAME)
    clients[2].query("set %s = 'two'" % NAME)
    for _ in range(3):
        for client, value in zip(clients, expected):
            assert client.value("show %s" % NAME) == value
    clients[1].query("reset %s" % NAME)
    assert [c.value("show %s" % NAME) for c in clients] == ["own", "own", "two", "own"]
    assert dict(pooler.connect().parameters())[NAME] == "own"
    assert len(server.of_pools()) == 1


def test_reported_parameter_is_kept_over_a_takeover(make_pooler, fake, restart):  # noqa: F811
    server = fake(newer)
    pooler = make_pooler({"db": server.conn(pool_size=1)}, settings=TRANSACTION)
    one, other = pooler.connect(), pooler.connect()
    one.query("set %s = 'one'" % NAME)
    wait_end(restart(pooler), pooler)
    assert other.value("show %s" % NAME) == "own"
    assert one.value("show %s" % NAME) == "one"
    assert dict(pooler.connect().parameters())[NAME] == "own"


def test_what_the_server_changes_is_its_own(make_pooler, fake):
    """There may be no SET for it, so that it is sent to nobody."""
    def answer(session, sql):
        return fakeserver.plain_answer(sql)[:-6] + wire.parameter_status("server_build", "8") + wire.ready()

    def script(session):
        session.login(parameters=fakeserver.PARAMETERS + [("server_build", "7")])
        session.serve([("select 1", answer)])

    server = fake(script)
    pooler = make_pooler({"db": server.conn(pool_size=1)}, settings=TRANSACTION)
    one, other = pooler.connect(), pooler.connect()
    for _ in range(2):
        for client in (one, other):
            client.query("select 1")
            client.query("select 2")
    assert dict(pooler.connect().parameters())["server_build"] == "8"
    assert not any("server_build" in sql for sql in server.of_pools()[0].queries())


def test_no_server_fills_the_memory_with_names(make_pooler, fake):
    """Names behind the first few, and what is no name, are told to clients and not kept."""
    more = [("name_%d" % n, str(n)) for n in range(100)]
    strange = [("a'; drop table x", "1"), ("", "2"), ("x" * 100, "3"), ("1a", "4")]

    def script(session):
        session.login(parameters=fakeserver.PARAMETERS + strange + more)
        session.serve()

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings=TRANSACTION)
    for _ in range(2):
        client = pooler.connect()
        assert set(strange + more) <= set(client.parameters())
        assert client.value("select 1") == "fake"


# ---- what no server reports ----

NAMED = dict(TRANSACTION, session_state="keep", track_extra_parameters="search_path, app.tenant, IntervalStyle")


def test_named_parameters_need_no_report(make_pooler, pg):
    """They are in force as a startup packet has them, on each server, and RESET brings them back."""
    pooler = make_pooler({"db": pg.conn(user="owner", pool_size=2)}, settings=NAMED)
    wanted = {"search_path": "pg_catalog, public", "app.tenant": "it's na\u00efve", "IntervalStyle": "iso_8601"}
    one, other = pooler.connect(user="owner", **wanted), pooler.connect(user="owner")
    query = ("select concat_ws('|', current_setting('search_path'), current_setting('app.tenant', true), "
             "current_setting('intervalstyle'))")
    mine = "|".join(wanted.values())
    plain = '"$user", public'
    assert both_servers(pooler, one, query) == [mine] * 2
    assert both_servers(pooler, other, query) in ([plain + "||postgres"] * 2, [plain + "|postgres"] * 2)
    one.query("set search_path = 'other'; set app.tenant = 'x'")
    assert both_servers(pooler, one, query) == ["other|x|iso_8601"] * 2
    one.query("reset search_path")
    one.query("reset app.tenant")
    assert both_servers(pooler, one, query) == [mine] * 2
    one.query("discard all")
    assert both_servers(pooler, one, query) == [mine] * 2
    assert pooler.show("PINS") == []


def test_named_parameter_that_cannot_be_set(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(user="owner", pool_size=2)},
                         settings=dict(NAMED, track_extra_parameters="work_mem"))
    client = pooler.connect(user="owner", work_mem="nonsense")
    client.send(wire.query("select 1"))
    error = dict(client.recv_until("E")[-1].fields())
    assert (error["S"], error["C"]) == ("FATAL", "22023")
    assert 'invalid value for parameter "work_mem": "nonsense"' in error["M"]
    pid = pooler.show_one("SERVERS")["remote_pid"]
    other = pooler.connect(user="owner")
    assert other.query("select pg_backend_pid(), current_setting('work_mem')").rows == [(pid, "4MB")]
