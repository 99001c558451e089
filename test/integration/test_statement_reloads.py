"""Settings about statements that change at each moment of an exchange: what a client has prepared goes on
to work, and answers are those of a direct connection."""

import os

import pytest

import wire
from test_prepare_unnamed import plain
from test_takeover import restart, wait_end  # noqa: F401

SYNC, FLUSH = wire.sync(), wire.flush()
USER = "trust_user"
INT4 = 23
USE = wire.execute() + SYNC
ADD = "select $1::int + 1"


def bind(name="", *values, portal=""):
    return wire.bind(portal, name, values)


MANY = wire.parse("", "select $1 + $65535", [INT4] * 65535) + bind("", *["1"] * 65535) + USE
# Steps of exchanges: what is sent, and the type of the message that is waited for; "": nothing is.
# The settings change before each of the steps but the first.
EXCHANGES = {
    "parse, use": [(wire.parse("", ADD) + SYNC, "Z"), (bind("", "1") + wire.describe("P") + USE, "Z")],
    "parse, flush, use": [(wire.parse("", ADD) + FLUSH, "1"), (wire.describe("S") + FLUSH, "T"),
                          (bind("", "1") + FLUSH, "2"), (USE, "Z")],
    "parse, nothing, use": [(wire.parse("", ADD), ""), (bind("", "1"), ""), (wire.execute(), ""), (SYNC, "Z")],
    "parse, describe, use": [(wire.parse("", ADD) + wire.describe("S") + SYNC, "Z"), (wire.describe("S") + SYNC, "Z"),
                             (bind("", "1") + USE, "Z"), (bind("", "2") + USE, "Z"), (bind("", "x") + USE, "Z"),
                             (bind("", "2") + USE, "Z")],
    "all at once": [(wire.parse("", ADD) + bind("", "1") + USE, "Z")] * 4,
    "another text": [(wire.parse("", "select %d" % i) + bind() + USE, "Z") for i in range(4)],
    "named": [(wire.parse("n", ADD) + SYNC, "Z"), (wire.describe("S", "n") + SYNC, "Z"), (bind("n", "1") + USE, "Z"),
              (wire.close("S", "n") + SYNC, "Z"), (bind("n", "1") + USE, "Z")],
    "named, again": [(wire.parse("n", ADD) + SYNC, "Z"), (wire.parse("n", ADD) + SYNC, "Z"), (bind("n", "1") + USE, "Z"),
                     (wire.close("S", "n") + wire.parse("n", "select 5") + SYNC, "Z"), (bind("n") + USE, "Z")],
    "named, flush": [(wire.parse("n", ADD) + FLUSH, "1"), (wire.describe("S", "n") + FLUSH, "T"),
                     (bind("n", "1") + FLUSH, "2"), (wire.execute() + FLUSH, "C"), (wire.close("S", "n") + FLUSH, "3"),
                     (SYNC, "Z")],
    "named in a block": [(wire.query("begin"), "Z"), (wire.parse("n", ADD) + SYNC, "Z"), (bind("n", "1") + USE, "Z"),
                         (wire.query("select 3"), "Z"), (bind("n", "2") + USE, "Z"), (wire.query("rollback"), "Z"),
                         (wire.close("S", "n") + SYNC, "Z")],
    "unnamed in a block": [(wire.query("begin"), "Z"), (wire.parse("", ADD) + SYNC, "Z"), (bind("", "1") + USE, "Z"),
                           (bind("", "2") + USE, "Z"), (wire.query("select 3"), "Z"), (bind("", "2") + USE, "Z"),
                           (wire.query("rollback"), "Z")],
    "unnamed over a block": [(wire.parse("", ADD) + SYNC, "Z"), (wire.parse("b", "begin") + bind("b") + USE, "Z"),
                             (bind("", "1") + USE, "Z"), (wire.parse("c", "commit") + bind("c") + USE, "Z"),
                             (bind("", "1") + USE, "Z"), (wire.close("S", "b") + wire.close("S", "c") + SYNC, "Z")],
    "extended block": [(wire.parse("", "begin") + bind() + USE, "Z"), (bind() + USE, "Z"),
                       (wire.parse("", ADD) + bind("", "1") + USE, "Z"), (bind("", "2") + USE, "Z"),
                       (wire.parse("", "commit") + bind() + USE, "Z"), (bind() + USE, "Z")],
    "closed": [(wire.parse("", ADD) + SYNC, "Z"), (wire.close("S") + SYNC, "Z"), (bind("", "1") + USE, "Z"),
               (wire.describe("S") + SYNC, "Z")],
    "ended by a query": [(wire.parse("", ADD) + SYNC, "Z"), (wire.query("select 1"), "Z"), (bind("", "1") + USE, "Z")],
    "ended by an empty query": [(wire.parse("", ADD) + SYNC, "Z"), (wire.query(""), "Z"), (bind("", "1") + USE, "Z")],
    "failed parse": [(wire.parse("", ADD) + SYNC, "Z"), (wire.parse("", "selec") + SYNC, "Z"),
                     (bind("", "1") + USE, "Z")],
    "skipped parse": [(wire.parse("", ADD) + SYNC, "Z"),
                      (bind("", "x"), ""), (wire.parse("", "select 5") + SYNC, "Z"), (bind("", "1") + USE, "Z")],
    "skipped named parse": [(wire.parse("n", ADD) + SYNC, "Z"),
                            (bind("n", "x"), ""), (wire.close("S", "n") + wire.parse("n", "select 5") + SYNC, "Z"),
                            (bind("n", "1") + USE, "Z"), (wire.close("S", "n") + SYNC, "Z")],
    "portal": [(wire.query("begin"), "Z"), (wire.parse("", "select generate_series(1, 5)") + bind(portal="p")
               + wire.execute("p", 2) + SYNC, "Z"), (wire.execute("p", 2) + SYNC, "Z"),
               (wire.describe("P", "p") + FLUSH, "T"), (wire.execute("p") + SYNC, "Z"),
               (wire.close("P", "p") + SYNC, "Z"), (wire.query("commit"), "Z")],
    "portal of a name": [(wire.parse("n", "select generate_series(1, 5)") + bind("n") + wire.execute("", 2) + FLUSH, "s"),
                         (wire.execute("", 2) + FLUSH, "s"), (bind("n") + wire.execute() + FLUSH, "C"), (SYNC, "Z"),
                         (wire.close("S", "n") + SYNC, "Z")],
    "pipeline": [(wire.parse("", ADD) + bind("", "1") + USE, ""), (wire.parse("", "select 2") + bind() + USE, ""),
                 (bind() + USE, ""), (wire.query("select 4"), "4")],
    "pipeline of names": [(wire.parse("n", ADD) + bind("n", "1") + USE, ""), (bind("n", "x") + USE, ""),
                          (bind("n", "3") + USE, ""), (wire.close("S", "n") + SYNC, "4")],
    "query without sync": [(wire.parse("", ADD) + bind("", "1") + wire.execute(), ""), (wire.query("select 7"), "Z"),
                           (SYNC, "Z")],
    "empty": [(wire.parse("", "") + SYNC, "Z"), (bind() + wire.describe("P") + USE, "Z"), (wire.query(""), "Z")],
    "copy": [(wire.parse("", "copy (select 1) to stdout") + SYNC, "Z"), (bind() + wire.execute() + FLUSH, "C"),
             (SYNC, "Z")],
    "copy in": [(wire.parse("", "copy reloaded from stdin") + SYNC, "Z"), (bind() + wire.execute() + FLUSH, "G"),
                (wire.copy_data("1\n") + wire.copy_done() + SYNC, "Z")],
    "no statement": [(bind() + USE, "Z"), (bind("none") + USE, "Z"), (wire.describe("S") + SYNC, "Z"),
                     (wire.describe("P") + SYNC, "Z"), (wire.execute() + SYNC, "Z"), (wire.close("S", "none") + SYNC, "Z"),
                     (wire.close("P", "none") + SYNC, "Z")],
    "binary": [(wire.parse("", "select $1, $2", [INT4, 25]) + wire.describe("S") + SYNC, "Z"),
               (wire.bind("", "", [b"\0\0\0\7", "x"], [1, 0], [1, 0]) + wire.describe("P") + USE, "Z"),
               (wire.bind("", "", [b"\0\0\0\7"], [1]) + USE, "Z"), (wire.bind("", "", ["7", None], [], [1]) + USE, "Z")],
    "all parameters": [(MANY, "Z"), (MANY, "Z"), (wire.parse("m", "select $1 + $65535", [INT4] * 65535) + SYNC, "Z"),
                       (bind("m", *["1"] * 65535) + USE, "Z"), (wire.close("S", "m") + SYNC, "Z")],
    "deferred": [(wire.query("begin"), "Z"), (wire.query("select 1"), "Z"), (wire.query("commit"), "Z")],
    "deferred twice": [(wire.query("begin"), "Z"), (wire.query("begin"), "Z"), (wire.query("rollback"), "Z"),
                       (wire.query("rollback"), "Z")],
    "deferred with a name": [(wire.parse("n", ADD) + SYNC, "Z"), (wire.query("begin read only"), "Z"),
                             (bind("n", "1") + USE, "Z"), (wire.query("rollback"), "Z"),
                             (wire.close("S", "n") + SYNC, "Z")],
    "deferred and nothing": [(wire.query("begin"), "Z"), (wire.query("commit"), "Z"), (wire.query("commit"), "Z")],
    "deferred and an error": [(wire.query("begin"), "Z"), (wire.parse("", "selec") + SYNC, "Z"),
                              (wire.query("select 1"), "Z"), (wire.query("commit"), "Z")],
}
# The client has a server from the first step to the last one.
OF_ONE_LINK = ["parse, flush, use", "parse, nothing, use", "all at once", "another text", "named, flush", "named in a block",
               "unnamed in a block", "closed", "ended by a query", "portal", "portal of a name", "query without sync",
               "deferred", "deferred twice"]
SQL_EXCHANGES = {
    "sql": [(wire.query("prepare n as select 1"), "Z"), (wire.query("execute n"), "Z"),
            (wire.query("deallocate n"), "Z"), (wire.query("execute n"), "Z")],
    "sql, extended": [(wire.parse("", "prepare n(int) as select $1") + bind() + USE, "Z"),
                      (wire.parse("e", "execute n(2)") + SYNC, "Z"), (bind("e") + wire.describe("P") + USE, "Z"),
                      (bind("e") + USE, "Z"), (wire.parse("", "deallocate n") + bind() + USE, "Z"),
                      (wire.close("S", "e") + SYNC, "Z")],
    "sql, then the protocol": [(wire.query("prepare n as select 1"), "Z"), (bind("n") + USE, "Z"),
                               (wire.close("S", "n") + SYNC, "Z"), (wire.query("execute n"), "Z")],
    "sql in a block": [(wire.query("begin"), "Z"), (wire.query("prepare n as select 1"), "Z"),
                       (wire.query("execute n"), "Z"), (wire.query("commit"), "Z"), (wire.query("execute n"), "Z"),
                       (wire.query("deallocate n"), "Z")],
}
CHANGES = {
    "unnamed on": ({"prepare_unnamed": "0"}, {"prepare_unnamed": "1"}),
    "unnamed off": ({"prepare_unnamed": "1"}, {"prepare_unnamed": "0"}),
    "statements off": ({}, {"max_prepared_statements": "0"}),
    "statements and unnamed off": ({"prepare_unnamed": "1"}, {"max_prepared_statements": "0", "prepare_unnamed": "0"}),
    "statements off with unnamed": ({"prepare_unnamed": "1"}, {"max_prepared_statements": "0"}),
    "statements on": ({"max_prepared_statements": "0"}, {"max_prepared_statements": "100"}),
    "statements on with unnamed": ({"max_prepared_statements": "0", "prepare_unnamed": "1"},
                                   {"max_prepared_statements": "100"}),
    "one statement": ({"prepare_unnamed": "1"}, {"max_prepared_statements": "1"}),
    "defer off": ({"defer_begin": "1"}, {"defer_begin": "0"}),
    "defer on": ({}, {"defer_begin": "1"}),
    "all off": ({"defer_begin": "1", "prepare_unnamed": "1"},
                {"defer_begin": "0", "prepare_unnamed": "0", "max_prepared_statements": "0"}),
    "session": ({"defer_begin": "1", "prepare_unnamed": "1"}, {"pool_mode": "session"}),
    "from session": ({"pool_mode": "session"}, {"pool_mode": "transaction", "prepare_unnamed": "1", "defer_begin": "1"}),
    "keep": ({"prepare_unnamed": "1"}, {"session_state": "keep"}),
    "from keep": ({"prepare_unnamed": "1", "session_state": "keep"}, {"session_state": "forward"}),
    "clean": ({"prepare_unnamed": "1"}, {"session_state": "clean"}),
    "sql on": ({}, {"track_sql_prepare": "1"}),
    "replaced": ({"prepare_unnamed": "1", "defer_begin": "1"}, None),
}
SQL_CHANGES = {
    "sql off": {"track_sql_prepare": "0"},
    "one statement, sql off": {"track_sql_prepare": "0", "max_prepared_statements": "1"},
    "statements off": {"max_prepared_statements": "0"},
    "sql and statements off": {"track_sql_prepare": "0", "max_prepared_statements": "0"},
    "session": {"pool_mode": "session"},
    "keep": {"session_state": "keep"},
    "keep, sql off": {"session_state": "keep", "track_sql_prepare": "0"},
}
ALL = {"pool_mode": "transaction", "default_pool_size": "2", "max_prepared_statements": "100", "prepare_unnamed": "0",
       "defer_begin": "0", "session_state": "forward", "track_sql_prepare": "0"}


def wait_for(client, kinds):
    heard = []
    if kinds == "4":
        for _ in range(4):
            heard += wait_for(client, "Z")
        return heard
    while True:
        m = client.recv()
        if m.kind != "S":
            heard.append(plain(m))
        if m.kind == kinds or (m.kind == "E" and kinds != "Z"):
            return heard


def play(client, steps, change=None, at=0):
    heard = []
    for i, (segment, kinds) in enumerate(steps):
        if change and i == at:
            change()
        try:
            client.send(segment)
            if kinds:
                heard += wait_for(client, kinds)
        except EOFError:
            heard.append("closed")
            break
    return heard


@pytest.fixture(scope="module", autouse=True)
def table(cluster):
    cluster.do("create table reloaded (id int)", "grant all on reloaded to public")
    yield
    cluster.do("drop table reloaded")


def like_a_direct_connection(pooler, pg, before, after, steps):
    with pg.client(USER) as client:
        wanted = play(client, steps)

    def change():
        if after is None:
            pooler.admin.query("RECONNECT")
        for key, value in (after or {}).items():
            pooler.set(key, value)

    for at in range(1, len(steps)):
        for key, value in before.items():
            pooler.set(key, value)
        # No server has anything of the clients before.
        pooler.admin.query("RECONNECT")
        with pooler.connect(user=USER) as client:
            assert play(client, steps, change, at) == wanted, at


NAMED_EXCHANGES = [(kind, name) for kind in CHANGES for name in EXCHANGES
                   if kind not in ("statements on", "statements on with unnamed", "from session") or name in OF_ONE_LINK]


@pytest.mark.parametrize("kind, name", NAMED_EXCHANGES)
def test_like_a_direct_connection(shared_pooler, pg, kind, name):
    before, after = CHANGES[kind]
    pooler = shared_pooler({"db": pg.conn()}, settings=ALL)
    like_a_direct_connection(pooler, pg, dict(ALL, **before), after, EXCHANGES[name])


@pytest.mark.parametrize("kind", SQL_CHANGES)
@pytest.mark.parametrize("name", SQL_EXCHANGES)
def test_sql_like_a_direct_connection(shared_pooler, pg, kind, name):
    pooler = shared_pooler({"db": pg.conn()}, settings=ALL)
    like_a_direct_connection(pooler, pg, dict(ALL, track_sql_prepare="1"), SQL_CHANGES[kind], SQL_EXCHANGES[name])


OFF = {"max_prepared_statements": "0", "prepare_unnamed": "0", "defer_begin": "0"}
ON = {"max_prepared_statements": "100", "prepare_unnamed": "1", "defer_begin": "1"}
# What a process has and what its successor has.
RESTARTS = {"as before": (ON, ON), "off": (ON, OFF), "on": (OFF, ON), "session": (ON, {"pool_mode": "session"})}
RESTARTED = ["parse, describe, use", "parse, nothing, use", "named in a block", "unnamed over a block", "portal of a name",
             "pipeline of names", "deferred with a name", "all parameters"]


@pytest.mark.parametrize("kind, name", [(kind, name) for kind in RESTARTS for name in RESTARTED
                                        if kind != "on" or name in OF_ONE_LINK])
def test_takeover(make_pooler, pg, restart, kind, name):  # noqa: F811
    before, after = RESTARTS[kind]
    steps = EXCHANGES[name]
    pooler = make_pooler({"db": pg.conn()}, settings=dict(ALL, **before))
    with pg.client(USER) as client:
        wanted = play(client, steps)
    for at in range(1, len(steps)):
        pooler.change(**dict(ALL, **before))
        pooler.admin.query("RECONNECT")
        with pooler.connect(user=USER) as client:
            assert play(client, steps, lambda: restart(pooler, **after), at) == wanted, at
        # It serves a client itself whose messages have no Sync or Flush behind them.
        wait_end(restart.old[-1], pooler)


# What happens between two steps, to which the client has nothing to do.


def paused(pooler):
    pooler.admin.send(wire.query("PAUSE"))
    with pooler.console() as second:
        second.query("RESUME")
    pooler.admin.recv_until("Z")


def suspended(pooler):
    pooler.admin.query("SUSPEND")
    pooler.admin.query("RESUME")


def used_by_another(pooler):
    with pooler.connect(user=USER) as other:
        for segment in (wire.parse("", "select 'other'") + SYNC, wire.parse("n", "select 'theirs'") + SYNC,
                        wire.parse("", ADD) + bind("", "9") + USE, wire.query("deallocate all")):
            other.send(segment)
            other.finish()


@pytest.mark.parametrize("name", EXCHANGES)
@pytest.mark.parametrize("happens", [paused, suspended, used_by_another])
def test_in_between(shared_pooler, pg, happens, name):
    steps = EXCHANGES[name]
    pooler = shared_pooler({"db": pg.conn()}, settings=dict(ALL, **ON))
    with pg.client(USER) as client:
        wanted = play(client, steps)
    for at in range(1, len(steps)):
        with pooler.connect(user=USER) as client:
            assert play(client, steps, lambda: happens(pooler), at) == wanted, at
