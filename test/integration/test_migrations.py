"""Changes of the schema beside clients that prepare the same texts (protocol.md 12): each gets what
it would get on a connection of its own."""

import struct

import pytest

import postgres
import wire

SETTINGS = {"pool_mode": "transaction", "default_pool_size": "1", "max_prepared_statements": "200"}
OWNER = "trust_user"
READ = "select * from thing"
WRITE = "insert into thing (v) values ($1)"
BEGIN, COMMIT, ROLLBACK = (wire.query(sql) for sql in ("begin", "commit", "rollback"))

TABLE = ["drop table if exists thing", "create table thing (v int)", "insert into thing values (7)"]
ENUM = ["drop table if exists thing", "drop type if exists mood, mood_old",
        "create type mood as enum ('sad', 'glad')", "create table thing (v mood)"]
# The usual way to take a value out of an enum.
NEW_ENUM = ["alter type mood rename to mood_old", "create type mood as enum ('glad', 'mad')",
            "alter table thing alter v type mood using v::text::mood", "drop type mood_old"]
NEW_TABLE = ["drop table thing", "create table thing (v text)", "insert into thing values ('new')"]


@pytest.fixture
def base(pg):
    """A database of its own for what is changed."""
    pg.do("create database migrated owner %s" % OWNER)
    yield "migrated"
    pg.do("drop database migrated with (force)")


def prepare(name, sql):
    return wire.parse(name, sql) + wire.describe("S", name) + wire.sync()


def run(name, *values, **formats):
    return wire.bind("", name, values, **formats) + wire.describe("P") + wire.execute() + wire.sync()


def told(messages):
    """Returns what matters of an answer: types of parameters, names of columns, rows, errors."""
    found = []
    for m in messages:
        if m.kind == "E":
            found.append(("E", m.field("C"), m.field("M").rstrip("0123456789")))
        elif m.kind == "t":
            count, = struct.unpack_from("!h", m.body)
            oids = struct.unpack_from("!%di" % count, m.body, 2)
            found.append(("t",) + tuple(oid if oid < 10000 else "own" for oid in oids))
        elif m.kind == "T":
            found.append(("T",) + tuple((c[0], c[3] if c[3] < 10000 else "own") for c in m.columns()))
        elif m.kind == "D":
            found.append(("D",) + m.values())
        elif m.kind not in "SNK":
            found.append((m.kind, m.body))
    return found


def play(connect, steps):
    """Lets clients send one segment after the other and returns [(client, answer)]."""
    clients, heard = {}, []
    for who, segment in steps:
        if who not in clients:
            clients[who] = connect(who)
        for part in segment if isinstance(segment, list) else [segment]:
            clients[who].send(wire.query(part) if isinstance(part, str) else part)
            heard.append((who, part if isinstance(part, str) else "", told(clients[who].recv_until("Z"))))
    for client in clients.values():
        client.close()
    return heard


MIGRATIONS = {
    "a column more": (TABLE, ["alter table thing add column more text default 'm'"]),
    "a column of another type": (TABLE, ["alter table thing alter v type text"]),
    "another table": (TABLE, NEW_TABLE),
    "another table at once": (TABLE, ["begin; %s; commit" % "; ".join(NEW_TABLE)]),
    "a migration in steps": (TABLE, ["begin", *NEW_TABLE, "commit"]),
    "hidden in a block of code": (TABLE, ["do $$ begin execute 'alter table thing alter v type text'; end $$"]),
    "one that is undone": (TABLE, ["begin", *NEW_TABLE, "rollback"]),
    "another enum": (ENUM, NEW_ENUM),
    "as a new table with rows": (TABLE, [
        "alter table thing rename to thing_old; create table thing as select v::text from thing_old; "
        "drop table thing_old"]),
}
PLACES = {"outside": ([], []), "in a block": ([BEGIN], [COMMIT])}
VALUE = {True: "glad", False: "12"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", MIGRATIONS)
@pytest.mark.parametrize("by", ["db", "owner", "session"])
def test_a_new_client_after_a_migration(make_pooler, pg, base, name, place, by):
    setup, migration = MIGRATIONS[name]
    begin, end = PLACES[place]
    value = VALUE[setup is ENUM]

    def steps():
        yield "old", [prepare("r", READ), prepare("w", WRITE), run("r"), run("w", value)]
        yield "migration", migration
        yield "new", [*begin, prepare("a", READ), run("a"), prepare("b", WRITE), run("b", value), *end]
        yield "new", [*begin, run("a"), run("b", value), *end]
        yield "newer", [*begin, prepare("b", WRITE), run("b", value), prepare("a", READ), run("a"), *end]

    pooler = make_pooler({"db": pg.conn(base), "session": pg.conn(base, pool_mode="session"),
                          "owner": pg.unix_conn(base, user=postgres.SUPERUSER,
                                                connect_query="set role %s" % OWNER)}, settings=SETTINGS)

    pg.do(*setup, *grants(setup), database=base)
    wanted = play(lambda who: pg.client(OWNER, base), steps())
    assert not [e for _, _, answer in wanted for e in answer if e[0] == "E"]
    pg.do(*setup, *grants(setup), database=base)
    assert play(lambda who: pooler.connect(user=OWNER, database=by if who == "migration" else "db"),
                steps()) == wanted


def grants(setup):
    owned = ["alter table thing owner to %s" % OWNER]
    return owned + ["alter type mood owner to %s" % OWNER] * (setup is ENUM)


# what follows is about more servers, threads, and other ways to change something


def make(make_pooler, pg, base, setup=TABLE, **more):
    pg.do(*setup, *grants(setup), database=base)
    return make_pooler({"db": pg.conn(base)}, settings=dict(SETTINGS, **{k: str(v) for k, v in more.items()}))


def send(client, *segments):
    """Sends segments one after the other and returns what was told, without errors."""
    heard = []
    for segment in segments:
        client.send(segment)
        heard += told(client.recv_until("Z"))
    assert not [e for e in heard if e[0] == "E"], heard
    return heard


def rows(heard):
    return [e[1:] for e in heard if e[0] == "D"]


def use_every_server(pooler, count, *segments):
    """A client for each server of the pool sends the segments at the same time as the others."""
    clients = [pooler.connect(user=OWNER) for _ in range(count)]
    for client in clients:
        send(client, BEGIN)
    heard = [send(client, *segments) for client in clients]
    for client in clients:
        send(client, COMMIT)
    return clients, heard


@pytest.mark.parametrize("setup, migration", [(TABLE, NEW_TABLE), (ENUM, NEW_ENUM)])
@pytest.mark.parametrize("workers", [1, 4])
def test_a_new_client_meets_other_servers(make_pooler, pg, base, setup, migration, workers):
    """Where the client has prepared its statement does not matter: no server runs an older one."""
    count = 4
    pooler = make(make_pooler, pg, base, setup, default_pool_size=count, workers=workers)
    value = VALUE[setup is ENUM]
    use_every_server(pooler, count, prepare("r", READ), run("r"), prepare("w", WRITE), run("w", value))
    with pooler.connect(user=OWNER) as owner:
        send(owner, *[wire.query(sql) for sql in migration])
    clients = [pooler.connect(user=OWNER) for _ in range(count)]
    for client in clients:
        send(client, BEGIN, prepare("r", READ), prepare("w", WRITE), COMMIT)
    for _ in range(3):
        for client in clients:
            send(client, BEGIN)
        for client in clients:
            send(client, run("r"), run("w", value))
        for client in reversed(clients):
            send(client, COMMIT)


@pytest.mark.parametrize("setup, migration", [(TABLE, NEW_TABLE), (ENUM, NEW_ENUM)])
def test_a_change_from_elsewhere(make_pooler, pg, base, setup, migration):
    """The pooler has not seen the change. In a block a Parse looks anew all the same, and outside of one
    the error of an old statement is healed."""
    pooler = make(make_pooler, pg, base, setup)
    value = VALUE[setup is ENUM]
    old, new = pooler.connect(user=OWNER), pooler.connect(user=OWNER)
    send(old, prepare("r", READ), run("r"), prepare("w", WRITE), run("w", value))
    pg.do("set role %s" % OWNER, *migration, database=base)
    send(new, BEGIN, prepare("r", READ), run("r"), prepare("w", WRITE), run("w", value), COMMIT)
    pg.do(*setup, *grants(setup), database=base)
    send(old, run("r"), run("w", value))


def test_an_old_client_goes_on(make_pooler, pg, base):
    """A driver that has been told int4 sends four bytes also after the column has become int8. On its
    server that stays right, as on a direct connection, although new clients prepare the same text."""
    pooler = make(make_pooler, pg, base)
    sql = "select count(*) from thing where v = $1"
    old, owner = pooler.connect(user=OWNER), pooler.connect(user=OWNER)
    heard = send(old, prepare("s", sql), run("s", struct.pack("!i", 7), formats=[1]))
    assert heard[1] == ("t", 23) and rows(heard) == [("1",)]
    send(owner, wire.query("alter table thing alter v type bigint"))
    assert rows(send(old, BEGIN, run("s", struct.pack("!i", 7), formats=[1]), COMMIT)) == [("1",)]
    new = pooler.connect(user=OWNER)
    heard = send(new, prepare("s", sql), run("s", struct.pack("!q", 7), formats=[1]))
    assert heard[1] == ("t", 20) and rows(heard) == [("1",)]
    for _ in range(2):
        assert rows(send(old, run("s", struct.pack("!i", 7), formats=[1]))) == [("1",)]
        assert rows(send(new, BEGIN, run("s", struct.pack("!q", 7), formats=[1]), COMMIT)) == [("1",)]


def test_a_change_and_a_parse_in_one_pipeline(make_pooler, pg, base):
    pooler = make(make_pooler, pg, base)
    client = pooler.connect(user=OWNER)
    send(client, prepare("old", READ), run("old"))
    change = wire.parse("", "alter table thing add column more text") + wire.bind() + wire.execute()
    heard = send(client, change + wire.parse("new", READ) + run("new"))
    assert rows(heard) == [("7", None)]


def test_changes_in_a_transaction_of_the_own(make_pooler, pg, base):
    pooler = make(make_pooler, pg, base)
    client, other = pooler.connect(user=OWNER), pooler.connect(user=OWNER)
    send(other, prepare("s", READ), run("s"))
    assert rows(send(client, BEGIN, prepare("a", READ), run("a"))) == [("7",)]
    send(client, *[wire.query(sql) for sql in NEW_TABLE])
    assert rows(send(client, prepare("b", READ), run("b"))) == [("new",)]
    send(client, wire.query("drop table thing"), wire.query("create table thing as select true as v"))
    assert rows(send(client, prepare("c", READ), run("c"))) == [("t",)]
    send(client, ROLLBACK)
    new = pooler.connect(user=OWNER)
    assert rows(send(new, BEGIN, prepare("s", READ), run("s"), COMMIT)) == [("7",)]
    assert rows(send(other, BEGIN, run("s"), COMMIT)) == [("7",)]


def parses(pooler):
    return int(pooler.admin.query("show stats_totals").dicts()[0]["server_parse_count"])


def test_temporary_tables(make_pooler, pg, base):
    """They hide a table in their own transaction, and make nothing out of date for others."""
    pooler = make(make_pooler, pg, base, default_pool_size=2)
    client = pooler.connect(user=OWNER)
    for _ in range(2):
        use_every_server(pooler, 2, prepare("s", READ), run("s"))
    send(client, BEGIN, wire.query("create temp table thing (x text) on commit drop"))
    heard = send(client, prepare("mine", READ), run("mine"), COMMIT)
    assert ("T", ("x", 25)) in heard
    send(client, BEGIN, wire.query("create temp table other (x text)"), wire.query("drop table other"), COMMIT)
    # both servers have the statement of the text again
    use_every_server(pooler, 2, prepare("s", READ), run("s"))
    before = parses(pooler)
    for _ in range(3):
        send(client, wire.query("begin; create temp table other (x text) on commit drop; commit"))
        new = pooler.connect(user=OWNER)
        send(new, prepare("s", READ), run("s"))
    assert parses(pooler) == before
    send(client, wire.query("create table lasting (x text)"))
    send(pooler.connect(user=OWNER), prepare("s", READ), run("s"))
    assert parses(pooler) == before + 1


PATHS = {
    "for the session": [["set search_path to one"], [], ["set search_path to two"], []],
    "by a function": [["select set_config('search_path', 'one', false)"], [],
                      ["select set_config('search_path', 'two', false)"], []],
    "for the transaction": [["begin", "set local search_path to one"], ["commit"],
                            ["begin", "set local search_path to two"], ["commit"]],
    "in one query": [["begin; set local search_path to one"], ["commit"],
                     ["begin; set local search_path to two"], ["commit"]],
}


@pytest.mark.parametrize("name", PATHS)
def test_a_table_of_the_same_name(make_pooler, pg, base, name):
    """With another search_path a text is about another table, also where the server does not report it."""
    pg.do("create schema one authorization %s" % OWNER, "create schema two authorization %s" % OWNER,
          "set role %s" % OWNER, "create table one.thing (v int)", "create table two.thing (v text, w int)",
          database=base)
    first, first_end, second, second_end = PATHS[name]
    uses = [prepare("r", READ), prepare("w", WRITE), run("r")]
    steps = [("a", [*first, *uses, *first_end]), ("b", [*second, *uses, *second_end])]
    wanted = play(lambda who: pg.client(OWNER, base), steps)
    pooler = make_pooler({"db": pg.conn(base)}, settings=SETTINGS)
    assert play(lambda who: pooler.connect(user=OWNER), steps) == wanted
