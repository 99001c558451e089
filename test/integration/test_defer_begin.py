"""defer_begin: BEGIN goes to the server with the first statement, and clients notice nothing."""

import os
import threading

import pytest

import fakeserver
import postgres
import waiting
import wire
from test_takeover import restart, wait_end  # noqa: F401

SYNC = wire.sync()
USER = "trust_user"
ENDS = ["commit", "end", "rollback", "abort work", "commit;", "COMMIT AND NO CHAIN"]
BEGINS = ["begin", "BEGIN;", "  begin work", "Begin Transaction", "start transaction", "/* a */ begin -- b\n",
          "begin isolation level serializable", "begin read only",
          "start transaction isolation level repeatable read, read write, not deferrable",
          "begin isolation level serializable read only deferrable;"]
SHOW = ("select current_setting('transaction_isolation'), current_setting('transaction_read_only'), "
        "current_setting('transaction_deferrable'), pg_current_xact_id_if_assigned() is null")


def run(text, statement="", described=True):
    """One round trip of a driver."""
    return ((wire.parse(statement, text) if text else b"") + wire.bind("", statement)
            + (wire.describe("P") if described else b"") + wire.execute() + SYNC)


def q(*texts):
    return [[wire.query(text)] for text in texts]


# Lists of segments that are sent in one write; what stands between waits for the answers.
SEQUENCES = {
    "modes": [step for text in BEGINS for step in q(text, SHOW, "commit")],
    "modes, extended": [step for text in BEGINS for step in ([run(text)], [run(SHOW)], [run("commit")])],
    "empty": [step for end in ENDS for step in q("begin", end)],
    "empty, extended": [step for end in ENDS for step in ([run("begin")], [run(end, described=False)])],
    "end without a beginning": q("commit", "begin", "rollback", "rollback"),
    "begin twice": q("begin", "begin", "select 1", "commit"),
    "begin twice, extended": [[run("begin")], [run("begin")], [run("commit")]],
    "and chain": q("begin", "commit and chain", "select 1", "rollback"),
    "in one message": q("begin; select 1", "commit", "begin; commit", "begin", "select 1; commit"),
    "in one write": [[wire.query("begin"), wire.query("select 1"), wire.query("commit")]],
    "in one write later": [*q("begin"), [wire.query("select 1"), wire.query("select 2"), wire.query("commit")]],
    "extended in one write": [[run("begin"), run("select 1"), run("commit")]],
    "extended in one write later": [[run("begin")], [run("select 1"), run("select 2"), run("commit")]],
    "syntax error": q("begin", "selec", "select 1", "rollback"),
    "syntax error, extended": [[run("begin")], [run("selec")], [run("select 1")], [run("rollback")]],
    "no portal behind a query that fails": [*q("begin"), [wire.query("select 1/0"), wire.describe("P") + SYNC], *q("rollback")],
    "commit of a failed block": q("begin", "select 1/0", "commit", "select 1"),
    "pipelined behind an error": [*q("begin"), [run("select 1/0"), run("insert into deferred values (1)"),
                                               run("commit")], *q("select count(*) from deferred")],
    "written": q("begin", "insert into deferred values (2)", "commit", "select * from deferred",
                 "begin", "delete from deferred", "rollback", "select * from deferred"),
    "savepoints": q("begin", "savepoint s", "insert into deferred values (3)", "rollback to s",
                    "release s", "commit", "select * from deferred"),
    "savepoint outside": q("savepoint s", "begin", "release s", "rollback"),
    "set transaction": q("begin", "set transaction isolation level serializable, read only", SHOW, "commit"),
    "set transaction too late": q("begin", "select 1 from deferred", "set transaction isolation level serializable",
                                  "rollback"),
    "set local": q("begin", "set local work_mem = '1MB'", "show work_mem", "commit", "show work_mem"),
    "set": q("begin", "set application_name = 'mine'", "show application_name", "rollback",
             "show application_name"),
    "read only": q("begin read only", "insert into deferred values (4)", "rollback"),
    "empty query": q("begin", "", "commit"),
    "empty query, extended": [[run("begin")], [run("")], [run("commit")]],
    "notice": q("begin", "do $$ begin raise notice 'noted'; end $$", "commit"),
    "lone sync": [*q("begin"), [SYNC], *q("commit")],
    "lone flush": [*q("begin"), [wire.flush() + SYNC], *q("commit")],
    "function call": [*q("begin"), [wire.message("F", b"\0\0\x05\x4c\0\0\0\0\0\0")], *q("rollback")],
    "copy": [*q("begin"), [wire.query("copy deferred from stdin") + wire.copy_data("7\n") + wire.copy_done()],
             *q("select * from deferred", "rollback")],
    "copy, extended": [[run("begin")], [wire.parse("", "copy deferred from stdin") + wire.bind() + wire.execute()
                       + wire.copy_data("8\n") + wire.copy_done() + SYNC], *q("select * from deferred", "rollback")],
    "copy out": q("begin", "copy (select 1) to stdout", "commit"),
    "named begin": [[wire.parse("b", "begin") + SYNC], [wire.parse("c", "commit") + SYNC],
                    [run(None, "b")], [run("select 1")], [run(None, "c")], [run(None, "b")], [run(None, "c")]],
    "named begin in a block": [[wire.parse("b", "begin") + SYNC], [run(None, "b")], [run(None, "b")],
                               *q("rollback")],
    "unnamed begin again": [[run("begin")], [run(None)], *q("rollback")],
    "unnamed commit again": [[run("begin")], [run("commit")], [run(None)]],
    "query ends the unnamed statement": [[wire.parse("", "select 1") + SYNC], *q("begin"), [run(None)],
                                         *q("rollback")],
    "statement closed meanwhile": [[wire.parse("s", "select 1") + SYNC], *q("begin"), [wire.close("S", "s") + SYNC],
                                   [run(None, "s")], *q("rollback")],
    "statement used": [[wire.parse("s", "select $1::int") + SYNC], *q("begin"),
                       [wire.bind("", "s", ["5"]) + wire.execute() + SYNC],
                       [wire.bind("", "s", ["x"]) + wire.execute() + SYNC], *q("rollback")],
    "portal": [[run("begin")], [wire.parse("", "select generate_series(1, 3)") + wire.bind("p")
               + wire.execute("p", 2) + SYNC], [wire.execute("p", 2) + SYNC], [run("commit")]],
    "portal of the begin": [[run("begin")], [wire.describe("P") + wire.execute() + SYNC], *q("rollback")],
    "portal closed meanwhile": [[run("begin")], [wire.close("P") + wire.describe("P") + SYNC], *q("rollback")],
    "snapshot": q("begin isolation level repeatable read", "set transaction snapshot '00000003-00000002-1'", "rollback"),
    "begin with a parameter": [[wire.parse("", "begin", [23]) + wire.bind("", "", ["1"]) + wire.execute() + SYNC],
                               *q("rollback")],
    "begin with formats": [[wire.parse("", "begin") + wire.bind(results=[1]) + wire.execute() + SYNC],
                           *q("rollback")],
    "begin in a portal": [[wire.parse("", "begin") + wire.bind("p") + wire.execute("p") + SYNC], *q("rollback")],
    "begin without sync": [[wire.parse("", "begin") + wire.bind() + wire.execute() + wire.flush()
                            + wire.parse("", "select 1") + wire.bind() + wire.execute() + SYNC], *q("rollback")],
    "two phase": q("begin", "insert into deferred values (9)", "prepare transaction 'deferred'",
                   "rollback prepared 'deferred'"),
    "listen": q("begin", "notify deferred", "commit"),
    "create": q("begin", "create temp table t on commit drop as select 1 as a", "select count(*) from t", "commit"),
    "discard": q("begin", "discard all", "rollback"),
    "deallocate": [[wire.parse("s", "select 1") + SYNC], *q("begin", "deallocate all"), [run(None, "s")],
                   *q("rollback")],
    "not a begin": q("begin read", "begin isolation level none", "begin 1", "start", "begin read only,"),
    "open comment": q("begin /* x", "select 1"),
}


# In a failed block PostgreSQL prepares what ends it, and nothing else.
for _end in ("rollback", "commit", "rollback to s", "select 1"):
    for _name in ("", "e"):
        SEQUENCES["%s prepared alone in a failed block%s" % (_end, ", named" if _name else "")] = [
            step for _ in range(3) for step in (
                *q("begin", "savepoint s", "select 1/0"), [wire.parse(_name, _end) + SYNC],
                [wire.describe("S", _name) + SYNC], [run(None, _name)], *q("rollback"),
                [wire.close("S", _name) + SYNC])]


def play(client, bursts):
    """Sends each list of segments in one write and returns all messages of the answers."""
    heard = []
    for segments in bursts:
        client.send(*segments)
        for _ in segments:
            heard += [m.raw() for m in client.recv_until("Z")]
    return heard


def settings(**more):
    return dict({"pool_mode": "transaction", "default_pool_size": "1", "defer_begin": "1"},
                **{k: str(v) for k, v in more.items()})


@pytest.fixture(scope="module")
def table(cluster):
    cluster.do("create table deferred (id int)", "grant all on deferred to public")
    yield
    cluster.do("drop table deferred")


KINDS = {"tracked": {}, "one statement": {"max_prepared_statements": 1}, "untracked": {"max_prepared_statements": 0},
         "sql": {"track_sql_prepare": 1}, "shared": {"prepare_unnamed": 1},
         "clean": {"session_state": "clean", "server_reset_query_always": 1}}


@pytest.fixture(params=KINDS)
def kind(request, shared_pooler, make_pooler, pg, table):
    start = make_pooler if request.param == "untracked" else shared_pooler  # Untracked names stay on the server.
    return start({"db": pg.conn()}, settings=settings(**KINDS[request.param]))


@pytest.fixture
def pooler(make_pooler, pg, table):
    return make_pooler({"db": pg.conn()}, settings=settings())


@pytest.mark.parametrize("name", SEQUENCES)
def test_like_a_direct_connection(kind, pg, name):
    pg.do("truncate deferred")
    with pg.client(USER) as direct:
        wanted = play(direct, SEQUENCES[name])
    # Names that are not tracked stay on the server.
    for _ in range(1 if kind.settings.get("max_prepared_statements") == "0" else 2):
        pg.do("truncate deferred")
        with kind.connect(user=USER) as client:
            assert play(client, SEQUENCES[name]) == wanted
    kind.wait_pool(sv_active=0)


# ---- what is held, and for how long


def code(client, text):
    client.send(wire.query(text))
    return client.finish().errors[0].field("C")


def begun(pooler, text="begin", **params):
    client = pooler.connect(user=USER, **params)
    assert client.query(text).kinds() == "CZ"
    return client


def test_a_client_that_thinks_holds_no_server(pooler):
    with begun(pooler) as one, begun(pooler) as two:
        assert pooler.pool()["sv_active"] == 0 and pooler.pool()["cl_waiting"] == 0
        assert one.value("select 1") == "1"
        assert pooler.pool()["sv_active"] == 1
        one.query("commit")
        assert two.value("select 2") == "2"
        two.query("rollback")
    totals = pooler.show_one("STATS_TOTALS", database="db")
    assert (totals["xact_count"], totals["query_count"]) == ("2", "6")


@pytest.mark.parametrize("how", ["extended", "named"])
def test_extended_begin_holds_no_server(pooler, how):
    with pooler.connect(user=USER) as client:
        if how == "named":
            client.send(wire.parse("b", "begin"), SYNC)
            client.finish()
        client.send(run(None, "b") if how == "named" else run("begin"))
        assert client.finish().kinds() == ("2nCZ" if how == "named" else "12nCZ")
        assert pooler.pool()["sv_active"] == 0
        assert client.value("select 1") == "1"
        assert pooler.pool()["sv_active"] == 1
        client.query("rollback")


def test_now_is_that_of_the_first_statement(pooler, pg):
    with begun(pooler) as client:
        since = pg.value("select clock_timestamp()")
        assert client.value("select now() > '%s'" % since) == "t"


def test_timeouts_begin_with_the_server(make_pooler, pg, table):
    pooler = make_pooler({"db": pg.conn()}, settings=settings(
        idle_transaction_timeout=0.3, transaction_timeout=0.4, query_wait_timeout=0.3))
    with begun(pooler) as client:
        waiting.holds_for(lambda: pooler.pool()["cl_active"] == 1, 0.6, "the client stays")
        assert client.value("select 1") == "1"
        client.expect_error("idle transaction timeout")


def test_settings_of_databases_and_users(make_pooler, pg, table):
    pooler = make_pooler({"db": pg.conn(), "off": pg.conn(defer_begin=0)}, settings=settings(),
                         users={"md5_user": "defer_begin=0"})
    for database, user, is_held in (("db", USER, 0), ("off", USER, 1), ("db", "md5_user", 1)):
        with pooler.connect(database, user=user) as client:
            client.query("begin")
            assert pooler.pool(database, user)["sv_active"] == is_held
    pooler.set("defer_begin", "0")
    with begun(pooler):
        assert pooler.pool()["sv_active"] == 1


def test_commands_of_the_console(pooler):
    with begun(pooler) as one, begun(pooler, "begin isolation level serializable") as two:
        pooler.admin.query("PAUSE db")  # A block that no server knows does not keep it from ending.
        assert two.query("commit").tag == "COMMIT"
        one.send(wire.query("show transaction_isolation"))
        pooler.wait_pool(cl_waiting=1)
        pooler.admin.query("RESUME db")
        assert one.finish().value == "read committed"
        one.query("commit")
        assert two.query("begin isolation level serializable").tag == "BEGIN"
        pooler.admin.query("RECONNECT db")
        pooler.admin.query("SUSPEND")
        pooler.admin.query("RESUME")
        assert two.value("show transaction_isolation") == "serializable"
        two.query("rollback")
        two.query("begin")
        pooler.admin.query("KILL db")
        two.expect_fatal("database removed", "57P04")
        pooler.admin.query("RESUME db")


def test_cancel_while_it_waits_for_a_server(pooler):
    """The first statement fails, and so does the block."""
    with pooler.connect(user=USER) as holder, begun(pooler) as client:
        holder.query("begin")
        holder.query("select 1")
        client.send(wire.query("select 2"))
        pooler.wait_pool(cl_waiting=1)
        pooler.raw().send(wire.cancel_request(client.key))
        failed = client.finish()
        assert failed.errors[0].field("C") == "57014"
        assert code(client, "select 3") == "25P02"
        client.send(run("select 4"))
        assert client.finish().errors[0].field("C") == "25P02"
        assert client.query("commit").tag == "ROLLBACK"
        holder.query("commit")
        assert client.value("select 5") == "5"


def test_a_failed_block_needs_a_server_that_is_prepared_for_it(make_pooler, pg):
    """PostgreSQL itself prepares what ends the block. The server has lost the client's parameters each time."""
    pooler = make_pooler({"db": pg.conn()}, settings=settings(server_reset_query_always=1))
    with pooler.connect(user=USER) as holder, begun(pooler, application_name="mine") as client:
        holder.query("begin")
        holder.query("select 1")
        client.send(wire.query("select 2"))
        pooler.wait_pool(cl_waiting=1)
        pooler.raw().send(wire.cancel_request(client.key))
        assert client.finish().errors[0].field("C") == "57014"
        holder.query("commit")
        client.send(wire.parse("end", "rollback"), SYNC)
        answer = client.finish()
        assert (answer.kinds(), answer.status) == ("1Z", "E")
        client.send(run(None, "end"))
        assert client.finish().tag == "ROLLBACK"
        assert client.value("show application_name") == "mine"


def test_cancel_while_the_server_is_prepared_for_it(make_pooler, fake):
    """What the client sends until its failed block ends is not for the server, to which it is still linked."""
    asked, go_on = threading.Event(), threading.Event()

    def hold(session, sql):
        asked.set()
        assert go_on.wait(waiting.DEADLINE)
        return fakeserver.plain_answer(sql)

    def script(session):
        session.login()
        session.serve([("SET ", hold)])

    pooler = make_pooler({"db": fake(script).conn()}, settings=settings())
    with pooler.connect(user=USER, application_name="other") as client:
        client.query("begin")
        client.send(wire.query("select 2"))
        assert asked.wait(waiting.DEADLINE)
        pooler.raw().send(wire.cancel_request(client.key))
        assert client.finish().errors[0].field("C") == "57014"
        client.send(wire.query("rollback"))
        go_on.set()
        assert client.finish().tag == "ROLLBACK"
        assert client.value("select 3") == "fake"


def test_full_queue(make_pooler, pg, table):
    pooler = make_pooler({"db": pg.conn()}, settings=settings(max_waiting_clients=1))
    with pooler.connect(user=USER) as holder, pooler.connect(user=USER) as first, begun(pooler) as client:
        holder.query("begin")
        holder.query("select 1")
        first.send(wire.query("select 1"))
        pooler.wait_pool(cl_waiting=1)
        assert code(client, "select 2") == "53300"
        assert code(client, "select 2") == "25P02"
        assert client.query("rollback").tag == "ROLLBACK"
        holder.query("commit")
        first.finish()


# ---- a BEGIN that the server refuses


@pytest.fixture(scope="module")
def standby(pg_bin):
    """A server that is a standby of nobody."""
    server = postgres.Postgres(pg_bin)
    try:
        server.create()
        server.stop()
        open(os.path.join(server.data, "standby.signal"), "w").close()
        server.start()
        yield server
    finally:
        server.stop()
        server.remove()


REFUSED = "begin isolation level serializable"


@pytest.mark.parametrize("how", ["query", "extended", "pipelined", "long"])
def test_refused_begin(make_pooler, standby, how):
    pooler = make_pooler({"db": standby.conn()}, settings=settings())
    with begun(pooler, REFUSED) as client:
        if how == "query":
            client.send(wire.query("select 1"))
        elif how == "long":
            client.send_slowly(wire.query("select '%s'" % ("x" * 40000)), 7000)
        else:
            client.send(*[run("select %d" % i) for i in range(1 if how == "extended" else 3)])
        heard = client.recv_until("Z")
        assert [m.kind for m in heard] == ["E", "Z"] and heard[-1].body == b"E"
        assert heard[0].field("C") == "0A000" and "serializable" in heard[0].field("M")
        for _ in range(2 if how == "pipelined" else 0):
            heard = client.recv_until("Z")
            assert [m.kind for m in heard] == ["E", "Z"] and heard[0].field("C") == "25P02"
        assert client.query("rollback").tag == "ROLLBACK"
        assert client.value("select 5") == "5"
    assert pooler.pool()["sv_idle"] == 1


def in_failed_block(client, steps):
    """Returns the messages behind the first error, errors as their codes."""
    heard = []
    for segments in [[wire.query("select 1/0")], *steps]:
        client.send(*segments)
        for _ in segments:
            heard += [m.field("C") if m.kind == "E" else m.raw() for m in client.recv_until("Z")]
    return heard[1:]


IN_FAILED = {
    "prepared alone": [step for end in ("rollback", "commit", "end", "rollback to s", "prepare transaction 'x'", "select 1",
                                        "committed", "")
                       for name in ("", "e") for step in (
                           [wire.parse(name, end) + SYNC], [wire.describe("S", name) + SYNC],
                           [wire.close("S", name) + SYNC])],
    "in steps": [[wire.parse("", "rollback") + wire.flush() + SYNC], [wire.describe("S") + wire.bind() + SYNC],
                 [run(None)], [run("select 1")]],
    "named": [[wire.parse("e", "rollback") + wire.bind("", "e") + wire.execute() + SYNC], [run(None, "e")]],
    "rollback to": q("rollback to s", "rollback", "select 1"),
    "and chain": q("rollback and chain", "select 1", "rollback"),
    "in one query": q("rollback; select 1", "rollback"),
    "empty": q("", "select 2", "rollback"),
    "unnamed statement": [*q("select 1"), [run(None)], *q("rollback")],
    "portal": [[wire.describe("P") + SYNC], [wire.execute() + SYNC], [wire.close("P", "") + SYNC], *q("commit")],
}


@pytest.mark.parametrize("name", IN_FAILED)
def test_block_of_a_refused_begin_is_a_failed_one(make_pooler, standby, name):
    with standby.client() as direct:
        direct.query("begin")
        wanted = in_failed_block(direct, IN_FAILED[name])
    pooler = make_pooler({"db": standby.conn()}, settings=settings())
    with begun(pooler, REFUSED) as client:
        assert in_failed_block(client, IN_FAILED[name]) == wanted
    pooler.wait_pool(sv_active=0)


# ---- elsewhere


def test_takeover(pooler, restart):  # noqa: F811
    with begun(pooler) as one, begun(pooler, "begin isolation level repeatable read, read only") as two:
        one.send(wire.parse("", "select 'unnamed'"), SYNC)
        one.finish()
        one.query("commit")
        one.query("begin")
        wait_end(restart(pooler), pooler)
        assert one.query("commit").tag == "COMMIT"
        assert two.value(SHOW.replace("select", "select concat(").replace(" is null", " is null)")) \
            == "repeatable readonofft"
        assert two.query("commit").tag == "COMMIT"
        assert pooler.pool()["sv_active"] == 0


def test_clients_change_workers(make_pooler, pg, table):
    pooler = make_pooler({"db": pg.conn()}, settings=settings(workers=3, default_pool_size=3))
    clients = [begun(pooler, "begin read only") for _ in range(9)]
    for client in clients:
        assert client.value("show transaction_read_only") == "on"
        client.query("commit")
        client.close()
