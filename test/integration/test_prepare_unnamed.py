"""prepare_unnamed: clients notice nothing, and servers parse less (protocol.md 12)."""

import os
import random
import struct

import pytest

import postgres
import wire
from test_takeover import restart, wait_end  # noqa: F401

SYNC = wire.sync()
USER = "trust_user"
SELECT = "select id, v from thing where id = $1"
INT4 = 23


def settings(**more):
    return dict({"pool_mode": "transaction", "default_pool_size": "1", "max_prepared_statements": "200",
                 "prepare_unnamed": "2"}, **{k: str(v) for k, v in more.items()})


@pytest.fixture(scope="module")
def bases(cluster):
    cluster.do("create role held", "grant held to %s" % USER)
    for name in BASES:
        cluster.do("create database %s" % name)
        cluster.do("create schema other authorization %s" % USER, database=name)
    yield
    for name in BASES:
        cluster.do("drop database %s with (force)" % name)
    cluster.do("drop role held")


@pytest.fixture
def base(pg, bases):
    """Two databases that begin alike."""
    make_tables(pg)
    return BASES[0]


def make_tables(pg):
    for name in BASES:
        pg.do("grant all on schema public to public", database=name)
        with pg.client(USER, name) as client:
            client.query("; ".join(MAKE))


BASES = ("unnamed_pooled", "unnamed_direct")
MAKE = ["drop table if exists thing, more cascade", "drop type if exists mood cascade",
        "drop domain if exists small cascade", "drop function if exists twice",
        "create type mood as enum ('sad', 'glad')", "create domain small as int check (value < 10)",
        "create table thing (id int primary key, v text, m mood default 'sad')",
        "create table more (id int, w numeric)", "create or replace function twice(i int) returns int "
        "language sql immutable as 'select i * 2'",
        "insert into thing values (1, 'one'), (2, 'two'), (3, null)", "insert into more values (1, 1.5), (2, 2.5)",
        "drop table if exists other.thing", "create table other.thing (id int, v text)",
        "insert into other.thing values (1, 'other')"]


def run(text, *values, types=(), described=False, formats=()):
    """One round trip of a driver, with the unnamed statement."""
    return (wire.parse("", text, types) + (wire.describe("S") if described else b"")
            + wire.bind("", "", values, formats) + wire.describe("P") + wire.execute() + SYNC)


def plain(message):
    """What matters of a message: everything but the oids of tables and of types that are not
    PostgreSQL's own, and the lines of its source."""
    if message.kind == "T":
        return "T", [(c[0], c[2], known(c[3])) + tuple(c[4:]) for c in message.columns()]
    if message.kind == "t":
        return "t", [known(oid) for oid, in struct.iter_unpack("!i", message.body[2:])]
    if message.kind in "EN":
        return message.kind, sorted((k, v) for k, v in message.fields() if k not in "FLR")
    return message.kind, message.body


def known(oid):
    return oid if oid < 16384 else "own"


def say(client, *segments):
    """Sends segments one by one; returns all answers, without reports of parameters."""
    heard = []
    for segment in segments:
        client.send(wire.query(segment) if isinstance(segment, str) else segment)
        heard += [plain(m) for m in client.recv_until("Z") if m.kind != "S"]
    return heard


def stats(pooler):
    rows = pooler.show("stats_totals")
    return tuple(sum(int(r[name]) for r in rows) for name in ("repeated_parse_count", "saved_parse_count"))


def warm(pooler, *texts, database="db", times=3):
    """Other clients send the texts until they are shared."""
    with pooler.connect(database, user=USER) as other:
        for text in texts:
            for _ in range(times):
                say(other, wire.parse("", text) + SYNC)


@pytest.fixture
def pooler(make_pooler, pg, base):
    return make_pooler({"db": pg.conn(base)}, settings=settings())


# ---- what is saved


@pytest.mark.one_worker
def test_the_server_parses_once(pooler):
    with pooler.connect(user=USER) as one, pooler.connect(user=USER) as two:
        for i in range(5):
            for client in (one, two):
                assert ("D", b"\0\2\0\0\0\0011\0\0\0\3one") in say(client, run(SELECT, "1"))
        # The second one is served by the shared statement and has to make it, the other eight find it.
        assert stats(pooler) == (9, 8)
        row, = pooler.show("prepared_statements")
        assert (row["unnamed_parses"], row["saved_parses"]) == ("9", "8")
        assert (row["servers"], row["query"]) == ("1", SELECT)
        names = say(one, "select name from pg_prepared_statements where statement = '%s'" % SELECT)
        assert [kind for kind, _ in names] == ["T", "D", "C", "Z"]


@pytest.mark.one_worker
def test_each_server_gets_it_once(make_pooler, pg, base):
    pooler = make_pooler({"db": pg.conn(base)}, settings=settings(default_pool_size=2))
    with pooler.connect(user=USER) as one, pooler.connect(user=USER) as two:
        warm(pooler, SELECT)
        before = stats(pooler)
        one.query("begin")
        for _ in range(3):
            for client in (one, two):
                say(client, run(SELECT, "1"))
        repeated, saved = stats(pooler)
        assert (repeated - before[0], saved - before[1]) == (6, 5)


def test_off_for_a_user_and_with_0(make_pooler, pg, base):
    pooler = make_pooler({"db": pg.conn(base), "off": pg.conn(base, prepare_unnamed=0)},
                         settings=settings(prepare_unnamed=1), users={"md5_user": "prepare_unnamed=0"})
    for database, user, saved in (("db", USER, 2), ("off", USER, 0), ("db", "md5_user", 0)):
        before = stats(pooler)[1]
        with pooler.connect(database, user=user) as client:
            for _ in range(3):
                say(client, run("select 'off' || $1::text", "1"))
        assert stats(pooler)[1] - before == saved, (database, user)
    pooler.set("prepare_unnamed", "0")
    with pooler.connect(user=USER) as client:
        before = stats(pooler)[1]
        say(client, run("select 'off' || $1::text", "1"))
        assert stats(pooler)[1] == before


def test_texts_that_come_once_are_not_kept(pooler):
    with pooler.connect(user=USER) as client:
        for i in range(300):
            say(client, run("select %d" % i))
            say(client, run("select v from thing where v = '%s%d%s'" % ("x" * 300, i, "y" * 300)))
    # Texts of one length that differ only in the middle are told apart when the third one comes.
    assert len(pooler.show("prepared_statements")) <= 3
    assert stats(pooler)[1] == 0
    row = pooler.show_one("mem", name="text_counts")
    assert (row["used"], int(row["memtotal"]) < 100000) == ("1", True)


@pytest.mark.parametrize("text", [
    "show work_mem", "explain select 1", "select timestamptz 'now'", "select date 'tomorrow'", "", "-- nothing",
    "begin", "select 'twice'::regproc", "select E'n\\x6fw'::timestamptz > '2000-01-01'", "set local work_mem = '1MB'",
    "select 1 as %s" % ("long" * 20), "lock table thing", "select * into temp made from thing"])
def test_what_parse_evaluates_or_does_not_plan_is_left_alone(pooler, text):
    with pooler.connect(user=USER) as client:
        for _ in range(4):
            say(client, "begin", wire.parse("", text) + wire.bind() + wire.execute() + SYNC, "rollback")
    assert stats(pooler)[1] == 0
    assert not pooler.show("prepared_statements")


def test_the_notice_about_a_long_name_comes_each_time(pooler):
    with pooler.connect(user=USER) as client:
        for _ in range(4):
            heard = say(client, run("select 1 as %s" % ("long" * 20)))
            assert [kind for kind, _ in heard].count("N") == 1


def test_limit_of_statements(make_pooler, pg, base):
    pooler = make_pooler({"db": pg.conn(base)}, settings=settings(max_prepared_statements=2, prepare_unnamed=1))
    with pooler.connect(user=USER) as client:
        for i in range(12):
            assert ("C", b"SELECT 1\0") in say(client, run("select %d::int" % (i % 4)))
            held = say(client, "select count(*) <= 2 from pg_prepared_statements where name ~ 'PGBOUNCER'")
            assert ("D", b"\0\1\0\0\0\1t") in held


# ---- nothing can be noticed

THEN = wire.bind("", "", ("1",)) + wire.describe("P") + wire.execute() + SYNC
BAD = wire.parse("bad", "select no_such_column")
LATER = wire.parse("", "select 'later'")

# Lists of segments; "SELECT" is shared when they begin.
SEQUENCES = {
    "one round trip": [run(SELECT, "1")],
    "two round trips": [wire.parse("", SELECT) + wire.describe("S") + SYNC, THEN],
    "three round trips": [wire.parse("", SELECT) + SYNC, wire.describe("S") + SYNC, THEN],
    "twice": [run(SELECT, "1") * 1, THEN, THEN],
    "a value that is none": [run(SELECT, "abc"), run(SELECT, "99999999999"), run(SELECT, "1")],
    "too few values": [run(SELECT), run(SELECT, "1", "2")],
    "types given": [run(SELECT, "1", types=(INT4,)), run(SELECT, "1", types=(0,)), run(SELECT, "1", types=(25,))],
    "a format that is none": [wire.parse("", SELECT) + wire.bind("", "", ("1",), (7,)) + SYNC],
    "binary values": [wire.parse("", SELECT) + wire.bind("", "", (b"\0\0\0\1",), (1,)) + wire.execute() + SYNC],
    "broken binary values": [wire.parse("", SELECT) + wire.bind("", "", (b"\0",), (1,)) + wire.execute() + SYNC],
    "closed": [wire.parse("", SELECT) + SYNC, wire.close("S") + SYNC, THEN],
    "closed at once": [wire.parse("", SELECT) + wire.close("S") + THEN],
    "a query ends it": [wire.parse("", SELECT) + SYNC, "select 1", THEN],
    "a query that fails ends it": [wire.parse("", SELECT) + SYNC, "select no_such_column", THEN],
    "another one": [wire.parse("", SELECT) + SYNC, LATER + SYNC, wire.bind() + wire.execute() + SYNC],
    "another one that fails": ["begin", wire.parse("", SELECT) + SYNC, "savepoint s",
                               wire.parse("", "select no_such_column") + SYNC, "rollback to s", THEN, "rollback"],
    "one that fails behind it": [LATER + SYNC, wire.parse("", SELECT) + wire.parse("", "select no") + SYNC,
                                 wire.bind() + wire.execute() + SYNC],
    "behind another one": ["begin", LATER + SYNC, wire.parse("", SELECT) + SYNC, THEN, "rollback"],
    "skipped": [LATER + SYNC, BAD + wire.parse("", SELECT) + SYNC, wire.bind() + wire.execute() + SYNC],
    "skipped in a block": ["begin", LATER + SYNC, "savepoint s", BAD + wire.parse("", SELECT) + SYNC,
                           "rollback to s", wire.bind() + wire.execute() + SYNC, "rollback"],
    "in a block": ["begin", run(SELECT, "1"), THEN, run(SELECT, "2"), "commit"],
    "in a failed block": ["begin", "select no_such_column", run(SELECT, "1"), THEN, "rollback", THEN],
    "fails in a block": ["begin", run(SELECT, "abc"), run(SELECT, "1"), "rollback", run(SELECT, "1")],
    "begin in the same segment": [wire.parse("", "begin") + wire.bind() + wire.execute() + run(SELECT, "1"),
                                  run(SELECT, "1"), "commit"],
    "several in one segment": [run(SELECT, "1")[:-5] + run(SELECT, "2")[:-5] + run("select 7", )],
    "a set in the same segment": [wire.parse("", "set local search_path = other") + wire.bind() + wire.execute()
                                  + run(SELECT, "1"), run(SELECT, "1")],
    "set local": ["begin", "set local search_path = other", run(SELECT, "1"), "commit", run(SELECT, "1")],
    "set_config": ["begin", "select set_config('search_path', 'other', true)", run(SELECT, "1"), "commit",
                   run(SELECT, "1")],
    "set of a form": ["begin", "set local datestyle = 'German'", run("select date '02-03-2020'"), "rollback",
                      run("select date '02-03-2020'"), run("select date '02-03-2020'")],
    "set of nulls": ["begin", "set local transform_null_equals = on", run("select count(*) from thing where v = null"),
                     "rollback", run("select count(*) from thing where v = null")],
    "set of a role": ["begin", "set local role held", run(SELECT, "1"), "rollback", run(SELECT, "1")],
    "made in the block": ["begin", "alter table thing add n int default 7", run("select * from thing where id = $1", "1"),
                          "rollback", run("select * from thing where id = $1", "1")],
    "a temporary table in front": ["begin", "create temp table thing (id int, v text, x int) on commit drop",
                                   run("select * from thing where id = $1", "1"), "commit",
                                   run("select * from thing where id = $1", "1")],
    "a portal": ["begin", wire.parse("", SELECT) + wire.bind("c", "", ("1",)) + SYNC,
                 wire.parse("", "select 5") + wire.execute("c", 1) + SYNC, wire.execute("c", 1) + SYNC,
                 wire.describe("P", "c") + SYNC, "commit"],
    "only a parse": [wire.parse("", SELECT) + SYNC, wire.parse("", SELECT) + wire.parse("", SELECT) + SYNC],
    "two of them and a third": [wire.parse("", SELECT) + LATER + wire.bind() + wire.execute() + SYNC],
    "a query in the segment": [wire.parse("", SELECT) + wire.query("select 5"), wire.bind("", "", ("1",)) + SYNC],
    "a call in the segment": [wire.parse("", SELECT) + wire.message("F", b"\0\0\5\x4c\0\0\0\0\0\0"), THEN],
    "a copy that fails": [wire.parse("", SELECT) + SYNC, wire.parse("", "copy thing from stdin") + wire.bind()
                          + wire.execute() + wire.copy_data("x\n") + wire.copy_done() + SYNC, run(SELECT, "1")],
    "nothing else": [SYNC, wire.bind() + SYNC],
    "an insert": ["begin", run("insert into thing values ($1, $2) returning m", "9", "nine"),
                  run("insert into thing values ($1, $2) returning m", "9", "nine"), "rollback"],
    "an enum": [run("select 'glad'::mood, * from thing where m = 'sad'"), run("select 'mad'::mood")],
    "a domain": [run("select '9'::small"), run("select '10'::small"), run("select 10::small")],
    "no type": [run("select $1 + $2", "1", "2"), run("select $1", "x"), run("select pg_typeof($1)", "x")],
    "an empty text": [run(""), run("-- nothing"), run(";")],
    "two statements": [run("select 1; select 2")],
    "errors": [run("selec 1"), run("select no_such_column from thing"), run("select * from nothing"),
               run("select 1 + 'x'"), run("select $1 + ", "1"), run("select '1' = 1::mood")],
    "named and unnamed": [wire.parse("n", SELECT) + wire.bind("", "n", ("1",)) + wire.execute() + SYNC,
                          run(SELECT, "1"), wire.close("S", "n") + SYNC, run(SELECT, "1"),
                          wire.bind("", "n", ("1",)) + SYNC],
    "deallocate": [wire.parse("", SELECT) + SYNC, "deallocate all", THEN],
    "discard": [run(SELECT, "1"), "discard all", run(SELECT, "1")],
}
TEXTS = [SELECT, "select date '02-03-2020'", "select count(*) from thing where v = null", "select 7",
         "select * from thing where id = $1", "insert into thing values ($1, $2) returning m"]


@pytest.mark.parametrize("often", [1, 2])
@pytest.mark.parametrize("name", SEQUENCES)
def test_like_a_direct_connection(make_pooler, pg, base, name, often):
    pooler = make_pooler({"db": pg.conn(base)}, settings=settings(prepare_unnamed=often))
    warm(pooler, *TEXTS)
    with pg.client(USER, BASES[1]) as direct:
        wanted = say(direct, *SEQUENCES[name])
    for _ in range(3):
        with pooler.connect(user=USER) as client:
            assert say(client, *SEQUENCES[name]) == wanted
    if name in ("one round trip", "in a block", "two round trips"):
        assert stats(pooler)[1] > 3
    assert pooler.pool()["sv_idle"] + pooler.pool()["sv_used"] == 1


@pytest.mark.parametrize("name", SEQUENCES)
def test_all_at_once(shared_pooler, pg, base, name):
    pooler = shared_pooler({"db": pg.conn(base)}, settings=settings(prepare_unnamed=1))
    warm(pooler, *TEXTS)
    segments = [wire.query(s) if isinstance(s, str) else s for s in SEQUENCES[name]]
    heard = []
    for client in (pg.client(USER, BASES[1]), pooler.connect(user=USER), pooler.connect(user=USER)):
        with client:
            client.send(b"".join(segments))
            heard.append([plain(m) for _ in segments for m in client.recv_until("Z") if m.kind != "S"])
    assert heard[0] == heard[1] == heard[2]


def test_flush_brings_the_answers_that_there_are(pooler):
    warm(pooler, SELECT)
    with pooler.connect(user=USER) as client:
        client.send(wire.parse("", SELECT) + wire.flush())
        assert client.recv().kind == "1"
        client.send(wire.describe("S") + wire.flush())
        assert [client.recv().kind for _ in range(2)] == ["t", "T"]
        client.send(wire.bind("", "", ("1",)) + wire.flush())
        assert client.recv().kind == "2"
        client.send(wire.execute() + wire.flush())
        assert [client.recv().kind for _ in range(2)] == ["D", "C"]
        client.send(SYNC)
        assert client.recv().kind == "Z"


def test_a_statement_follows_its_client_to_another_server(make_pooler, pg, base):
    pooler = make_pooler({"db": pg.conn(base)}, settings=settings(default_pool_size=2))
    warm(pooler, SELECT)
    with pooler.connect(user=USER) as one, pooler.connect(user=USER) as two:
        say(one, wire.parse("", SELECT) + SYNC)
        two.query("begin")  # It has the server that knows the statement.
        assert ("C", b"SELECT 1\0") in say(one, THEN)
        two.query("commit")


# ---- changes of the schema

ALTER = {
    "a column more": ["alter table thing add n int default 5"],
    "a column less": ["alter table thing drop column m"],
    "another type": ["alter table thing alter id type bigint"],
    "text": ["alter table thing alter id type text"],
    "another table": ["drop table thing", "create table thing (v text, id int)", "insert into thing values ('new', 1)"],
    "no table": ["drop table thing"],
    "renamed": ["alter table thing rename v to w"],
    "no right": ["revoke all on schema public from public"],
}
READERS = ["select * from thing where id = $1", SELECT]


@pytest.mark.parametrize("is_seen", [True, False], ids=["through the pooler", "beside it"])
@pytest.mark.parametrize("name", ALTER)
def test_after_a_change(make_pooler, pg, base, name, is_seen):
    """Outside of a block everything is as without a pooler, even where it cannot see the change; but
    types of parameters that a statement had before may be told then."""
    pooler = make_pooler(doors(pg), settings=settings())
    warm(pooler, *READERS)
    with pooler.connect(user=USER) as client, pg.client(USER, BASES[1]) as direct:
        def both(*segments):
            assert say(client, *segments) == say(direct, *segments)

        for text in READERS:
            both(run(text, "1"))
        change(pooler, pg, ALTER[name], is_seen)
        for text in READERS:
            both(run(text, "1"), run(text, "3000000000"), run(text, "abc"), run(text, "1", described=is_seen))
        if is_seen:
            both("begin", run(READERS[0], "1", described=True), "rollback",
                 "begin", run(READERS[1], "1", described=True), "rollback")


def doors(pg):
    """One for clients, one for the owner of the tables, one for whoever may revoke rights."""
    return {"db": pg.conn(BASES[0]), "owner": pg.conn(BASES[0]),
            "super": pg.unix_conn(BASES[0], user=postgres.SUPERUSER)}


def change(pooler, pg, statements, is_seen):
    for sql in statements:
        door, user = ("super", postgres.SUPERUSER) if sql.startswith("revoke") else ("owner", USER)
        for client in (pg.client(user, BASES[1]),
                       pooler.connect(door, user=USER) if is_seen else pg.client(user, BASES[0])):
            with client:
                client.query(sql, check=False)


# ---- random sequences

SHARE = float(os.environ.get("ORACLE_SHARE", "1"))
COUNT = max(int(60 * SHARE), 6)
VALUES = ["1", "2", "3", "7", "abc", None, "3000000000"]
ROUNDS = [(SELECT, 1), ("select * from thing where id = $1", 1), ("select v, m from thing order by id", 0),
          ("select t.v, w from thing t join more using (id) where id = $1", 1),
          ("update thing set v = $2 where id = $1 returning v", 2), ("select twice($1)", 1),
          ("insert into thing (id, v) values ($1, $2)", 2), ("delete from thing where id = $1", 1),
          ("select 'glad'::mood > $1", 1), ("select 'thing'::regclass", 0), ("select $1::small", 1),
          ("select date '02-03-2020' + $1::int", 1), ("select * from missing where id = $1", 1),
          ("select timestamptz 'today' = current_date", 0), ("show search_path", 0), ("select 1 / $1::int", 1)]
BETWEEN = ["begin", "begin", "commit", "rollback", "savepoint s", "rollback to s", "set local datestyle = 'German'",
           "set local search_path = other, public", "select set_config('search_path', 'other', true)",
           "set local transform_null_equals = on", "select 1", "select no_such_column", "deallocate all",
           "set datestyle = 'SQL, DMY'", "reset datestyle", "create temp table thing (id int, v text) on commit drop"]
CHANGES = ["alter table thing add n int default 5", "alter table thing drop column if exists n",
           "alter table thing alter id type bigint", "alter table thing alter id type int",
           "alter type mood rename value 'glad' to 'mad'", "alter type mood rename value 'mad' to 'glad'",
           "drop table if exists thing; create table thing (id int primary key, v text, m mood default 'sad'); "
           "insert into thing values (1, 'new')", "create or replace function twice(i int) returns int language sql "
           "immutable as 'select i * 3'", "alter table more rename w to x", "alter table more rename x to w",
           "drop domain if exists small; create domain small as int check (value < 3)"]


class Game:
    """Clients that send segments at random, through a pooler and without one."""

    def __init__(self, seed, pooler, pg, is_seen):
        self.random, self.is_seen = random.Random("%s %s" % (seed, is_seen)), is_seen
        self.pooler, self.pg = pooler, pg
        self.clients, self.status, self.done = {}, {}, []
        self.is_old = set()  # Clients that have parsed nothing since the last change.

    def segment(self, who):
        text, count = self.random.choice(ROUNDS)
        values = [self.random.choice(VALUES) for _ in range(count)]
        bind, more = wire.bind("", "", values), wire.describe("P") + wire.execute() + SYNC
        described = wire.describe("S") if self.is_seen else b""
        types = self.random.choice([(), (), (0,) * count, (INT4,) * count])
        # What was parsed before a change may work behind a pooler where it fails without one.
        again = b"" if who not in self.is_old else wire.parse("", text)
        self.is_old.discard(who)
        ways = [
            [wire.parse("", text, types) + bind + more], [wire.parse("", text) + bind + more],
            [wire.parse("", text) + bind + more], [wire.parse("", text) + described + SYNC, bind + more],
            [wire.parse("", text) + wire.flush() + bind + more], [again + bind + more],
            [wire.parse("", text) + bind + wire.execute() + wire.parse("", text) + bind + more],
            [wire.close("S") + wire.parse("", text) + described + bind + more],
            [again + wire.parse("n", text) + wire.bind("", "n", values) + wire.close("S", "n") + more]]
        return self.random.choice(ways if self.is_seen else ways[:-1])

    def both(self, who, what):
        if who not in self.clients:
            self.clients[who] = (self.pooler.connect(user=USER), self.pg.client(USER, BASES[1]))
        self.done.append((who, what))
        through, direct = (say(c, *what) for c in self.clients[who])
        assert through == direct, self.done
        self.status[who] = direct[-1][1]

    def step(self):
        who = self.random.choice("abc")
        if self.random.random() < 0.15 and set(self.status.values()) <= {b"I"}:
            sql = self.random.choice(CHANGES)
            if "rename value" in sql and not self.is_seen:
                return  # A constant of the enum is still what it was: see usage.md.
            self.done.append(sql)
            self.is_old = set("abc")
            for step in sql.split("; "):
                change(self.pooler, self.pg, [step], self.is_seen)
        elif self.random.random() < 0.3 and self.is_seen:
            self.both(who, [self.random.choice(BETWEEN)])
        else:
            self.both(who, self.segment(who))
        if any(s != b"I" for s in self.status.values()) and self.random.random() < 0.4:
            for one in [w for w, s in self.status.items() if s != b"I"]:
                self.both(one, [self.random.choice(["commit", "rollback"])])


@pytest.mark.parametrize("is_seen", [True, False], ids=["through the pooler", "beside it"])
@pytest.mark.parametrize("often", [1, 2])
def test_random_sequences(make_pooler, pg, base, often, is_seen):
    pooler = make_pooler(doors(pg), settings=settings(prepare_unnamed=often, default_pool_size=3))
    first = int(os.environ.get("UNNAMED_SEED", "1"))
    for seed in range(first, first + int(os.environ.get("UNNAMED_COUNT", COUNT))):
        game = Game(seed, pooler, pg, is_seen)
        for _ in range(12):
            game.step()
        for pair in game.clients.values():
            for client in pair:
                client.close()
        make_tables(pg)
        pooler.admin.query("RECONNECT")
    assert stats(pooler)[1] > 0


def test_takeover_within_an_unusual_transaction(make_pooler, pg, base, restart):  # noqa: F811
    """What a transaction has set that changes how texts are understood is known afterwards."""
    pooler = make_pooler({"db": pg.conn(base)}, settings=settings(prepare_unnamed=1))
    use = wire.bind() + wire.execute() + SYNC
    with pooler.connect("db", user=USER) as client:
        for first, is_shared in (("select 1", True), ("set local search_path = other", False)):
            say(client, "begin", first)
            wait_end(restart(pooler), pooler)
            before = stats(pooler)[0]
            heard = dict(say(client, wire.parse("", "select v from thing where id = 1") + SYNC, use))
            assert heard["D"].endswith(b"one" if is_shared else b"other")
            assert stats(pooler)[0] == before + is_shared
            say(client, "commit")
