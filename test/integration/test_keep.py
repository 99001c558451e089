"""session_state=keep: what a client leaves in its session keeps its server."""

import pytest

import waiting
import wire
from test_takeover import restart  # noqa: F401

FULL = ("%s would keep a server connection, of which no more may be kept "
        "(max_pinned_servers)")

# (name, kind shown, statements that make it, a query that shows it, its value for the owner,
#  its value for everybody else, statements that end it)
STATE = [
    ("temp table", "CREATE TEMP", ["create temp table left_here (a int)"],
     "select to_regclass('pg_temp.left_here') is not null", "t", "f", ["drop table left_here"]),
    ("temp table of another", "CREATE TEMP", ["select 7 as a into temp left_here"],
     "select to_regclass('pg_temp.left_here') is not null", "t", "f", ["discard temp"]),
    ("temp view", "CREATE TEMP", ["create view pg_temp.left_view as select 1"],
     "select to_regclass('pg_temp.left_view') is not null", "t", "f",
     ["drop view pg_temp.left_view"]),
    ("temp table in DO", "CREATE TEMP", ["do $$ begin create temp table left_here (a int); end $$"],
     "select to_regclass('pg_temp.left_here') is not null", "t", "f", ["discard all"]),
    ("held cursor", "DECLARE WITH HOLD", ["declare held cursor with hold for select 5"],
     "select count(*) from pg_cursors where name = 'held'", "1", "0", ["close held"]),
    ("advisory lock", "advisory lock", ["select pg_advisory_lock(99)"],
     "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()", "1", "0",
     ["select pg_advisory_unlock(99)"]),
    ("advisory lock of a failed query", "advisory lock", ["select pg_advisory_lock(99), 1 / length(left(current_user, 0))"],
     "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()", "1", "0",
     ["select pg_advisory_unlock_all()"]),
    ("listen in DO", "LISTEN", ["do $$ begin execute 'listen here'; end $$"],
     "select count(*) from pg_listening_channels()", "1", "0", ["unlisten here"]),
    ("prepare", "PREPARE", ["prepare left_here as select 3"],
     "select count(*) from pg_prepared_statements where from_sql", "1", "0",
     ["deallocate left_here"]),
]

# What leaves nothing behind, and so keeps no server.
HARMLESS = [
    ["set local work_mem = '1234kB'"],
    ["begin", "set local work_mem = '1234kB'", "commit"],
    ["begin", "set work_mem = '1234kB'", "rollback"],
    ["begin", "create temp table left_here (a int) on commit drop", "commit"],
    ["begin", "create temp table left_here (a int)", "rollback"],
    ["begin", "listen here", "rollback"],
    ["begin", "declare held cursor with hold for select 1", "rollback"],
    ["create temp table left_here (a int); drop table left_here"],
    ["select pg_advisory_lock(5), pg_advisory_unlock(5)"],
    ["select pg_advisory_xact_lock(5)"],
    ["set application_name = 'tracked'"],
    ["set timezone = 'UTC'"],
    ["select count(*), max(oid) from pg_class where relname in ('a', 'b')"],
]


def simple(client, sql):
    return client.query(sql, check=False)


def extended(client, sql):
    """Runs the SQL as an unnamed statement of the extended protocol."""
    client.send(wire.parse("", sql), wire.bind(), wire.execute(), wire.sync())
    return wire.Result(client.recv_until("Z"))


def named(client, sql):
    """Runs the SQL as a prepared statement."""
    client.send(wire.parse("made", sql), wire.sync())
    client.recv_until("Z")
    client.send(wire.bind(statement="made"), wire.execute(), wire.sync())
    result = wire.Result(client.recv_until("Z"))
    client.send(wire.close("S", "made"), wire.sync())
    client.recv_until("Z")
    return result


def error_of(result):
    error = next(m for m in result.messages if m.kind == "E")
    return dict(error.fields())


def owner(pooler, **more):
    return pooler.connect(user="owner", **more)


def kinds(pooler):
    return [row["kinds"] for row in pooler.show("PINS")]


def backend(client):
    return client.value("select pg_backend_pid()")


def maker(start, pg):
    def make(size=2, entry=(), **more):
        return start({"db": pg.conn(pool_size=size, **dict(entry))},
                     settings=dict({"pool_mode": "transaction", "session_state": "keep"}, **more))

    return make


@pytest.fixture
def make(make_pooler, pg):
    """make(size) returns a pooler with a pool of that many servers, for the superuser."""
    return maker(make_pooler, pg)


@pytest.fixture
def make_shared(shared_pooler, pg):
    """The same, for cases that may have the same pooler one after the other."""
    return maker(shared_pooler, pg)


@pytest.mark.parametrize("run", [simple, extended, named], ids=["simple", "extended", "named"])
@pytest.mark.parametrize("state", STATE, ids=[s[0] for s in STATE])
def test_what_is_left_stays_with_its_client(make_shared, state, run):
    _, kind, making, query, mine, theirs, ending = state
    pooler = make_shared(3, log_pooler_errors=0)
    one, others = owner(pooler), [owner(pooler) for _ in range(3)]
    for sql in making:
        run(one, sql)
    assert kinds(pooler) == [kind]
    assert pooler.pool(user="owner")["sv_pinned"] == 1
    mine_is_at = backend(one)
    for _ in range(2):
        for client in others:
            assert (client.value(query) or None) == theirs
            assert backend(client) != mine_is_at
        assert one.value(query) == mine
        assert backend(one) == mine_is_at
    for sql in ending:
        run(one, sql)
    assert kinds(pooler) == []
    assert pooler.pool(user="owner")["sv_pinned"] == 0
    for client in [one] + others:
        assert (client.value(query) or None) == theirs


@pytest.mark.parametrize("run", [simple, extended, named], ids=["simple", "extended", "named"])
@pytest.mark.parametrize("making", HARMLESS, ids=[m[-2 if len(m) > 2 else 0] for m in HARMLESS])
def test_what_leaves_nothing_keeps_no_server(make_shared, making, run):
    if ";" in making[0] and run is not simple:
        pytest.skip("several statements need the simple protocol")
    pooler = make_shared()
    client = owner(pooler)
    for sql in making:
        assert not run(client, sql).errors
    assert kinds(pooler) == []
    assert client.value("select count(*) from pg_locks where locktype = 'advisory'") == "0"


def test_function_that_makes_something(make, pg):
    """No text tells it; the question after the call does."""
    pg.do("create or replace function makes_temp() returns void language plpgsql as "
           "$$ begin create temp table left_here (a int); perform pg_advisory_lock(4); end $$;"
           "create or replace procedure sets() language plpgsql as "
           "$$ begin perform set_config('work_mem', '1234kB', false); end $$")
    pooler = make()
    client = owner(pooler)
    client.query("select makes_temp()")
    assert kinds(pooler) == ["CREATE TEMP, advisory lock"]
    client.query("drop table left_here")
    assert kinds(pooler) == ["advisory lock"]
    client.query("select pg_advisory_unlock(4)")
    assert kinds(pooler) == []
    client.query("call sets()")
    assert kinds(pooler) == []
    assert client.value("show work_mem") == "1234kB"


def test_one_lock_of_three(make):
    pooler = make()
    client = owner(pooler)
    client.query("select pg_advisory_lock(1), pg_advisory_lock(2), pg_advisory_lock(3)")
    for lock in (1, 2):
        client.query("select pg_advisory_unlock(%d)" % lock)
        assert kinds(pooler) == ["advisory lock"]
    client.query("select pg_advisory_unlock(3)")
    assert kinds(pooler) == []


def test_function_call(make):
    pooler = make()
    client = owner(pooler)
    call = wire.message("F", b"\0\0\x0b\x40" + b"\0\0" + b"\0\1" + b"\0\0\0\2" + b"99" + b"\0\0")
    client.send(call)
    assert not wire.Result(client.recv_until("Z")).errors
    assert kinds(pooler) == ["advisory lock"]


def test_library_keeps_the_server_to_the_end(make):
    pooler = make()
    client = owner(pooler)
    at = backend(client)
    client.query("load 'plpgsql'")
    client.query("discard all")
    assert kinds(pooler) == ["LOAD"]
    client.close()
    other = owner(pooler)
    waiting.wait_for(lambda: not kinds(pooler), "the pin has ended")
    assert backend(other) != at


def test_sql_prepare_that_is_tracked_keeps_nothing(make):
    pooler = make(track_sql_prepare=1)
    client = owner(pooler)
    client.query("prepare left_here as select 3")
    assert client.value("execute left_here") == "3"
    assert kinds(pooler) == []


def test_sql_prepare_beside_other_statements(make):
    """Nobody follows it, so it keeps the server, and EXECUTE and DEALLOCATE reach it."""
    pooler = make(2, track_sql_prepare=1)
    client, other = owner(pooler), owner(pooler)
    client.query("prepare p as select 1")
    client.query("select 2; prepare q as select 3")
    assert kinds(pooler) == ["PREPARE"]
    for run in (simple, extended):
        assert run(client, "execute q").value == "3"
        assert run(client, "execute p").value == "1"
        assert error_of(run(other, "execute q"))["C"] == "26000"
    assert simple(client, "deallocate q").tag == "DEALLOCATE"
    assert kinds(pooler) == []
    assert error_of(simple(client, "execute q"))["C"] == "26000"


def test_statements_of_the_protocol_that_are_not_tracked(make):
    pooler = make(max_prepared_statements=0)
    one, two = owner(pooler), owner(pooler)
    one.send(wire.parse("s", "select pg_advisory_lock(3)"), wire.sync())
    one.recv_until("Z")
    assert kinds(pooler) == ["PREPARE"]
    for _ in range(2):
        two.value("select 1")
        one.send(wire.bind(statement="s"), wire.execute(), wire.sync())
        assert not wire.Result(one.recv_until("Z")).errors
    assert kinds(pooler) == ["PREPARE, advisory lock"]
    one.send(wire.close("S", "s"), wire.sync())
    one.recv_until("Z")
    one.query("select pg_advisory_unlock_all()")
    assert kinds(pooler) == []


def test_notifications_reach_the_listener_only(make):
    pooler = make(2)
    listener, other = owner(pooler), owner(pooler)
    listener.query("listen here")
    for number in range(20):
        other.query("notify here, '%d'" % number)
    heard = [listener.recv() for _ in range(20)]
    assert [m.kind for m in heard] == ["A"] * 20
    assert [m.body.split(b"\0")[-2] for m in heard] == [b"%d" % n for n in range(20)]
    assert all(m.kind != "A" for m in other.query("select 1").messages)
    listener.query("notify here, 'mine'")
    assert listener.query("unlisten *").errors == []
    assert kinds(pooler) == []


def test_pipeline(make):
    """Several transactions are sent at once; the question comes behind the last of them."""
    pooler = make()
    client, other = owner(pooler), owner(pooler)
    parts = []
    for sql in ("create temp table left_here (a int)", "insert into left_here values (1)",
                "select count(*) from left_here"):
        parts += [wire.parse("", sql), wire.bind(), wire.execute(), wire.sync()]
    client.send(*parts)
    for _ in range(3):
        assert not wire.Result(client.recv_until("Z")).errors
    assert client.value("select count(*) from left_here") == "1"
    assert other.value("select to_regclass('pg_temp.left_here') is null") == "t"


def test_server_is_clean_when_its_client_leaves(make):
    pooler = make(2)
    for _ in range(3):
        client = owner(pooler)
        for _, _, making, *_ in STATE:
            if "in DO" not in _ and "another" not in _:
                for sql in making:
                    client.query(sql, check=False)
            client.query("reset role")
            client.query("reset session authorization")
            client.query("drop table if exists pg_temp.left_here; deallocate all; close all")
        client.query("create temp table left_here (a int)")
        client.close()
        waiting.wait_for(lambda: not kinds(pooler), "the pin has ended")
        others = [owner(pooler) for _ in range(2)]
        for other in others:
            other.query("begin")
        for other in others:
            for _, _, _, query, _, theirs, _ in STATE:
                assert (other.value(query) or None) == theirs, query
            other.query("commit")
            other.close()


# ---- limits ----

@pytest.mark.parametrize("size, most, may", [(1, 0, 0), (2, 0, 1), (5, 0, 2), (3, 1, 1), (2, 7, 1)])
def test_limit(make, size, most, may):
    pooler = make(size, max_pinned_servers=most)
    clients = [owner(pooler) for _ in range(may + 2)]
    for client in clients[:may]:
        client.query("create temp table left_here (a int)")
    for client in clients[may:]:
        error = error_of(client.query("create temp table left_here (a int)", check=False))
        assert (error["S"], error["C"], error["M"]) == ("ERROR", "53400", FULL % "CREATE TEMP")
        assert error["D"] == ('Servers of database "db" and user "owner" that are kept: %d, of which %d '
                              "may be." % (may, may))
        assert "max_pinned_servers" in error["H"]
        assert client.value("select to_regclass('pg_temp.left_here') is null") == "t"
    if may:
        clients[0].query("drop table left_here")
        clients[-1].query("create temp table left_here (a int)")
    assert len(kinds(pooler)) == may


@pytest.mark.parametrize("limit", ["max_db_connections", "max_user_connections", "max_server_connections"])
def test_limit_of_connections_that_is_smaller(make, limit):
    """Somebody is always served."""
    pooler = make(8, **{limit: 3, "max_pinned_servers": 5})
    clients = [owner(pooler) for _ in range(4)]
    for client in clients[:2]:
        client.query("create temp table left_here (a int)")
    for client in clients[2:]:
        error = error_of(client.query("create temp table left_here (a int)", check=False))
        assert error["M"] == FULL % "CREATE TEMP" and "2, of which 2 may be" in error["D"]
        assert client.value("select 1") == "1"


def test_limit_is_noticed_at_the_end(make, pg):
    """What no text tells is lost behind its transaction, which stays committed."""
    pg.do("create or replace function locks() returns int language sql as "
           "$$ select pg_advisory_lock(8); select 1 $$; drop table if exists stays; create table stays (a int)")
    pooler = make(1)
    client = owner(pooler)
    client.query("begin")
    client.query("insert into stays values (1)")
    client.query("select locks()")
    result = client.query("commit", check=False)
    assert error_of(result)["M"] == FULL % "advisory lock"
    assert result.messages[-1].kind == "Z"
    assert client.value("select count(*) from stays") == "1"
    assert client.value("select count(*) from pg_locks where locktype = 'advisory'") == "0"
    assert kinds(pooler) == []


def test_claim_that_came_to_nothing_is_given_back(make):
    pooler = make(2)
    one, two = owner(pooler), owner(pooler)
    for _ in range(3):
        one.query("begin")
        one.query("create temp table left_here (a int)")
        assert error_of(two.query("listen here", check=False))["M"] == FULL % "LISTEN"
        one.query("rollback")
        two.query("listen here")
        two.query("unlisten here")
    assert pooler.pool(user="owner")["sv_pinned"] == 0


def test_idle_timeout(make):
    pooler = make(2, pin_idle_timeout=1)
    pinned, free = owner(pooler), owner(pooler)
    pinned.query("create temp table left_here (a int)")
    free.query("select 1")
    error = pinned.recv_until("E")[-1]
    assert dict(error.fields())["M"] == "pin idle timeout"
    assert free.value("select 1") == "1"
    waiting.wait_for(lambda: pooler.pool(user="owner")["sv_pinned"] == 0, "the pin has ended")


# ---- what administrators see and do ----

def test_views(make):
    pooler = make(2, log_connections=0)
    client = owner(pooler, application_name="keeper")
    client.query("create temp table left_here (a int)")
    client.query("select 1")
    row = pooler.show_one("PINS")
    assert (row["database"], row["user"], row["client_user"], row["application_name"]) == (
        "db", "owner", "owner", "keeper")
    assert row["kinds"] == "CREATE TEMP"
    assert row["transactions"] == "2"
    assert row["since"].startswith("20")
    assert row["remote_pid"] == backend(client)
    leak = pooler.show_one("STATE_LEAKS")
    assert (leak["kind"], leak["count"]) == ("CREATE TEMP", "1")
    for _ in range(3):
        client.query("drop table left_here")
        client.query("create temp table left_here (a int)")
    assert pooler.log().count("keeps its server: CREATE TEMP (application_name 'keeper')") == 1


def test_blockers(make):
    pooler = make(2)
    pinned, other, waiter = owner(pooler), owner(pooler), owner(pooler)
    pinned.query("create temp table left_here (a int)")
    other.query("begin")
    waiter.send(wire.query("select 1"))
    waiting.wait_for(lambda: [r["state"] for r in pooler.show("BLOCKERS")
                              if r["state"] == "pinned"], "the pinned client is shown")
    other.query("commit")
    waiter.recv_until("Z")


def test_connect_query_keeps_nobody(make):
    pooler = make(2, entry={"connect_query": "set work_mem = '2MB'; set role trust_user"})
    client = owner(pooler)
    for _ in range(2):
        client.query("set statement_timeout = 0")
        client.query("reset statement_timeout")
        assert kinds(pooler) == []
        assert client.value("show work_mem") == "2MB"
    client.query("set work_mem = '3MB'")
    client.query("set work_mem = '2MB'")
    assert kinds(pooler) == []


@pytest.mark.parametrize("other", ["forward", "clean"])
def test_setting_is_changed(make, other):
    """A pin and what goes along end with the client's next transaction."""
    pooler = make(2)
    client = owner(pooler)
    client.query("create temp table left_here (a int)")
    client.query("set work_mem = '1234kB'")
    pooler.set("session_state", other)
    client.query("select 1")
    assert kinds(pooler) == []
    assert pooler.pool(user="owner")["sv_pinned"] == 0
    if other == "clean":
        assert client.value("show work_mem") == "4MB"
    client.query("begin")
    owner(pooler).query("select 1")
    with owner(pooler) as third:
        assert third.value("show work_mem") == "4MB"


def test_kill_and_reconnect(make):
    pooler = make(2)
    client, other = owner(pooler), owner(pooler)
    client.query("create temp table left_here (a int)")
    pooler.admin.query("RECONNECT db")
    assert client.value("select count(*) from left_here") == "0"
    client.query("drop table left_here")
    client.query("create temp table left_here (a int)")
    assert other.value("select 1") == "1"
    row = pooler.show_one("PINS")
    pooler.admin.query("KILL_CLIENT %s" % row["id"])
    waiting.wait_for(lambda: not kinds(pooler), "the pin has ended")
    assert pooler.pool(user="owner")["sv_pinned"] == 0
    assert other.value("select to_regclass('pg_temp.left_here') is null") == "t"


def test_pause_waits_for_the_pin(make):
    pooler = make(2)
    client = owner(pooler)
    client.query("create temp table left_here (a int)")
    console = pooler.console()
    console.send(wire.query("PAUSE db"))
    waiting.wait_for(lambda: pooler.show_one("DATABASES", name="db")["paused"] == "1", "it is paused")
    assert client.value("select count(*) from left_here") == "0"
    client.query("drop table left_here")
    assert not wire.Result(console.recv_until("Z")).errors
    pooler.admin.query("RESUME db")
    assert client.value("select 1") == "1"


def test_takeover(make, restart):  # noqa: F811
    pooler = make(3, log_connections=0)
    one, two, other = owner(pooler), owner(pooler), owner(pooler)
    one.query("create temp table left_here as select 11 as a")
    two.query("begin")
    two.query("select 1")
    restart(pooler)
    assert one.value("select a from left_here") == "11"
    two.query("rollback")
    assert kinds(pooler) == ["CREATE TEMP"]
    assert pooler.pool(user="owner")["sv_pinned"] == 1
    assert other.value("select to_regclass('pg_temp.left_here') is null") == "t"
    error = error_of(two.query("listen here", check=False))
    assert error["M"] == FULL % "LISTEN"
    one.query("drop table left_here")
    assert kinds(pooler) == []
    two.query("listen here")


@pytest.mark.parametrize("workers", [1, 3])
def test_a_database_without_clients_can_be_dropped_renamed_and_copied(make_pooler, pg, workers):
    """PostgreSQL waits for 5 s until nobody is connected: servers at rest leave by themselves."""
    pooler = make_pooler({"*": "host=127.0.0.1 port=%d auth_user=owner" % pg.port},
                         settings={"pool_mode": "transaction", "session_state": "keep", "workers": workers,
                                   "auth_query": "select rolname, '' from pg_roles where rolname = $1"})
    admin = pooler.connect(user="owner", database="postgres")
    admin.query("create database vacated")

    def used(database, sql="select 1"):
        clients = [pooler.connect(user="owner", database=database) for _ in range(2 * workers)]
        for client in clients:
            client.query("begin")
            client.query(sql)
        return clients

    def leave(clients):
        for client in clients:
            client.close()

    # servers that rest, and one that is being reset while the statement runs
    leave(used("vacated", "create temp table left_here (a int)"))
    admin.query('alter database vacated rename to "Vacated 2"')
    leave(used("Vacated 2"))
    admin.query('create database vacated template "Vacated 2"')
    leave(used("vacated"))
    extended(admin, "drop database vacated")
    # its own connection does not count
    own = pooler.connect(user="owner", database="Vacated 2")
    leave(used("Vacated 2"))
    own.query('create database vacated template "Vacated 2"')
    own.close()
    admin.query("drop database vacated")
    # that of another client does, as without a pooler
    other = pooler.connect(user="owner", database="Vacated 2")
    at = backend(other)
    assert error_of(simple(admin, 'drop database "Vacated 2"'))["C"] == "55006"
    assert backend(other) == at
    other.close()
    admin.query('drop database "Vacated 2"')


def test_without_keep_nobody_leaves_a_database(make_pooler, pg):
    pooler = make_pooler({"*": "host=127.0.0.1 port=%d auth_user=owner" % pg.port},
                         settings={"pool_mode": "transaction",
                                   "auth_query": "select rolname, '' from pg_roles where rolname = $1"})
    admin = pooler.connect(user="owner", database="postgres")
    admin.query("create database vacated")
    with pooler.connect(user="owner", database="vacated") as client:
        client.query("select 1")
    admin.query("drop database vacated with (force)")
    admin.query("create database vacated")
    with pooler.connect(user="owner", database="vacated") as client:
        client.query("select 1")
    assert error_of(simple(admin, "drop database vacated"))["C"] == "55006"
    admin.query("drop database vacated with (force)")


@pytest.mark.parametrize("run", [simple, extended, named], ids=["simple", "extended", "named"])
def test_sql_commands_reach_statements_of_the_protocol(make, run):
    """As in PostgreSQL, EXECUTE and DEALLOCATE know the names that Parse has made, whichever server runs them."""
    pooler = make(4)
    one, two = owner(pooler), owner(pooler)
    for client, result in ((one, 1), (two, 2)):
        client.send(wire.parse("shared name", "select %d + $1::int" % result), wire.sync())
        client.recv_until("Z")
    other = owner(pooler)
    for _ in range(2):
        other.query("begin")  # takes the server that was used last
        other.query("select 1")
        for client, result in ((one, 1), (two, 2)):
            assert run(client, 'execute "shared name"(10)').rows == [(str(10 + result),)]
        other.query("commit")
    # PREPARE is the server's own, which stays
    one.query("prepare own as select 5")
    assert run(one, "execute own").rows == [("5",)]
    assert run(one, 'execute "shared name"(20)').rows == [("21",)]
    run(one, "deallocate own")
    assert pooler.show("PINS") == []
    assert not run(one, 'deallocate "shared name"').errors
    assert error_of(run(one, 'execute "shared name"(10)'))["C"] == "26000"
    assert error_of(run(one, 'deallocate "shared name"'))["C"] == "26000"
    assert run(two, 'execute "shared name"(10)').rows == [("12",)]
    one.send(wire.parse("shared name", "select 7"), wire.sync())
    one.recv_until("Z")
    assert run(one, 'execute "shared name"').rows == [("7",)]
