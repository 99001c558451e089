"""PREPARE, EXECUTE and DEALLOCATE in the extended protocol, and statement names that SQL and
protocol share.

Every message also goes to PostgreSQL directly, and the answers have to be the same bytes."""

import asyncio
import random
import re

import pytest

import wire


@pytest.fixture
def table(pg):
    name = "sqlprep%d" % random.SystemRandom().randrange(10 ** 9)
    pg.do("create table %s (a int)" % name, "insert into %s values (1)" % name,
          "grant all on %s to public" % name)
    yield name
    pg.do("drop table if exists %s" % name)


def maker(start, pg):
    def make(**settings):
        entries = {"db": pg.conn(), "one": pg.conn(pool_size=1)}
        return start(entries, settings=dict(
            dict(pool_mode="transaction", track_sql_prepare=1, default_pool_size=2), **settings))
    return make


@pytest.fixture
def make(make_pooler, pg):
    return maker(make_pooler, pg)


def seen(result):
    """Returns the messages without notices, and errors without their position in PostgreSQL's
    source."""
    return [[f for f in m.fields() if f[0] not in "FLR"] if m.kind == "E" else m
            for m in result.messages if m.kind != "N"]


class Pair:
    """A client of the pooler and a direct client of PostgreSQL, which send the same messages."""

    def __init__(self, pooler, pg, database="db"):
        self.pooler, self.database = pooler, database
        self.direct = pg.client(user="trust_user")
        self.client = pooler.connect(database)
        self.busy = None

    def say(self, *parts, rounds=None):
        """Sends all messages and compares one answer for each Sync and Query among them."""
        if rounds is None:
            rounds = sum(p[:1] in (b"S", b"Q") for p in parts)
        answers = []
        for side in (self.direct, self.client):
            side.send(*parts)
            answers.append([side.finish() for _ in range(rounds)])
        wanted, got = ([seen(r) for r in a] for a in answers)
        assert got == wanted, "\n%r\n%r" % (got, wanted)
        return answers[1][-1]

    def say_all(self, parts):
        """Sends messages that end with a Sync. The server may skip a Query together with the
        messages before it."""
        answers = []
        # PostgreSQL answers an empty query also in a failed transaction.
        for side in (self.direct, self.client):
            side.send(*parts, wire.query(""))
            found = [side.finish()]
            while found[-1].kinds() != "IZ":
                found.append(side.finish())
            answers.append(found)
        wanted, got = ([seen(r) for r in a] for a in answers)
        assert got == wanted, "\n%r\n%r" % (got, wanted)

    def query(self, sql):
        return self.say(wire.query(sql))

    def run(self, sql, name="", **bind):
        return self.say(*extended(sql, name, **bind), wire.sync())

    def move(self):
        """Moves the client to another server connection for its next transactions."""
        if self.busy:
            self.busy.query("rollback")
            self.busy.close()
            self.busy = None
            return
        self.busy = self.pooler.connect(self.database)
        self.busy.query("begin")

    def close(self):
        for side in (self.direct, self.client, self.busy):
            if side:
                side.close()


@pytest.fixture
def pair(shared_pooler, pg):
    made = Pair(maker(shared_pooler, pg)(), pg)
    yield made
    made.close()


def extended(sql, name="", describe=False, rows=0, results=()):
    parts = [wire.parse(name, sql)]
    if describe:
        parts += [wire.describe("S", name)]
    parts += [wire.bind("", name, results=results)]
    if describe:
        parts += [wire.describe("P", "")]
    return parts + [wire.execute("", rows)]


def test_across_servers(pair):
    assert pair.run("prepare one (int, text) as select $1 + 1, $2").tag == "PREPARE"
    for _ in range(3):
        pair.move()
        assert pair.run("execute one(4, 'x')", describe=True).rows == [("5", "x")]
        assert pair.query("execute one(5, 'y')").rows == [("6", "y")]
        pair.run("execute one(4, 'x')", results=(1, 0))
    assert pair.run("deallocate one", describe=True).tag == "DEALLOCATE"
    for _ in range(2):
        pair.move()
        assert pair.run("execute one(4, 'x')", describe=True).kinds()[-2:] == "EZ"


def test_statements_with_a_name(pair):
    """The commands are parsed under names of the protocol and executed repeatedly."""
    pair.say(wire.parse("make", "prepare p as select 'first'"),
             wire.parse("run", "execute p"), wire.parse("drop", "deallocate p"), wire.sync())
    for i in range(3):
        pair.move()
        pair.say(wire.bind("", "make"), wire.execute(), wire.sync())
        pair.say(wire.bind("", "make"), wire.execute(), wire.sync())
        pair.move()
        pair.say(wire.describe("S", "make"), wire.bind("", "run"), wire.describe("P", ""),
                 wire.execute(), wire.sync())
        pair.say(wire.bind("", "drop"), wire.execute(), wire.sync())
        pair.say(wire.bind("", "run"), wire.execute(), wire.sync())
    pair.query("prepare p as select 'second'")
    pair.move()
    assert pair.say(wire.bind("", "run"), wire.execute(), wire.sync()).rows == [("second",)]


def test_a_statement_without_a_name_stays(pair):
    pair.run("prepare p as select 'mine'")
    pair.say(wire.parse("", "execute p"), wire.describe("S", ""), wire.sync())
    for _ in range(3):
        pair.move()
        assert pair.say(wire.bind(), wire.execute(), wire.sync()).rows == [("mine",)]
    pair.run("deallocate p", name="d")
    pair.run("prepare p as select 'other'", name="m")
    assert pair.say(wire.bind(), wire.execute(), wire.sync()).rows == [("other",)]
    pair.move()
    assert pair.say(wire.bind(), wire.execute(), wire.sync()).rows == [("other",)]


def test_long_texts(pair):
    pad = " -- " + "x" * 40000
    pair.run("prepare p as select 1" + pad)
    pair.move()
    pair.run("execute p" + pad)
    pair.say(wire.parse("", "execute p" + pad), wire.sync())
    pair.move()
    assert pair.say(wire.bind(), wire.execute(), wire.sync()).rows == [("1",)]


def test_execute_within_others(pair, table):
    pair.query("prepare p (int) as select a + $1 as b from " + table)
    for sql in ("explain (costs off) execute p(1)", "create temp table t on commit drop as execute p(1)",
                "explain (analyze, costs off, timing off, summary off) create temp table t as execute p(2)",
                "create local temp table if not exists t (c) as execute p(3) with no data",
                "create temp table t as execute p(nothing)", "create temp table t as execute absent",
                "explain verbose execute absent"):
        for run in (pair.query, pair.run):
            pair.move()
            pair.query("begin")
            run(sql)
            pair.query("select count(*) from t")
            pair.query("rollback")
    made = table + "_made"
    for sql in ("create table %s as execute p(1)", "create unlogged table %s as execute p(1)"):
        for parts in ([wire.query(sql % made)], [*extended(sql % made), wire.sync()]):
            pair.move()
            pair.client.send(*parts)
            assert pair.client.finish().tag == "SELECT 1"
            assert pair.client.value("select b from " + made) == "2"
            pair.client.query("drop table " + made)


# SQL and protocol share their statement names


def test_parsed_names_are_executed(pair):
    pair.say(wire.parse("p", "select $1::int + 1"), wire.sync())
    for _ in range(3):
        pair.move()
        assert pair.query("execute p(3)").rows == [("4",)]
        assert pair.run("execute p(4)", describe=True).rows == [("5",)]
    pair.query("prepare p as select 1")
    pair.run("prepare p as select 1")
    assert pair.query("deallocate p").tag == "DEALLOCATE"
    pair.move()
    assert pair.say(wire.bind("", "p", ["1"]), wire.execute(), wire.sync()).kinds() == "EZ"
    pair.say(wire.parse("p", "select 'again'"), wire.sync())
    pair.run("deallocate p")
    pair.query("execute p")


def test_names_like_those_of_the_pooler(pair):
    """A text of the client is what the pooler has made of another one, as behind a second pooler."""
    pair.say(wire.parse("short", "prepare x as select 'like ours'"), wire.sync())
    theirs, = [row["query"] for row in pair.pooler.show("PREPARED_STATEMENTS")
               if re.match("prepare .PGBOUNCER_SQL_.*'like ours'$", row["query"])]
    pair.run(theirs, "same")
    assert pair.query("execute %s" % theirs.split()[1]).rows == [("like ours",)]


def test_names_that_postgresql_cuts(pair):
    """It tells names apart by their first 63 bytes, those of the protocol as those of commands."""
    one, other, short = "n" * 64, "n" * 200, "n" * 63
    pair.say(wire.parse(one, "select $1::int + 1"), wire.sync())
    for name in (other, short):
        pair.move()
        pair.say(wire.parse(name, "select 2"), wire.sync())
        pair.say(wire.bind("", name, ["1"]), wire.execute(), wire.sync())
        assert pair.query("execute %s(3)" % name).rows == [("4",)]
    pair.say(wire.parse("m" + other, "select 2"), wire.bind("", "", ["x"]), wire.parse("m" + short, "select 3"),
             wire.sync(), wire.bind("", "m" + one), wire.execute(), wire.sync())
    pair.say(wire.close("S", other), wire.bind("", one, ["1"]), wire.sync())
    pair.query("prepare %s as select 5" % other)
    assert pair.say(wire.bind("", one), wire.execute(), wire.sync()).rows == [("5",)]


def test_prepared_names_are_bound(pair):
    pair.query("prepare p (int) as select $1 + 1")
    for _ in range(3):
        pair.move()
        result = pair.say(wire.describe("S", "p"), wire.bind("", "p", ["3"]),
                          wire.describe("P", ""), wire.execute(), wire.sync())
        assert result.rows == [("4",)]
    pair.say(wire.parse("p", "select 1"), wire.sync())
    pair.say(wire.parse("p", "select nonsense"), wire.sync())
    pair.say(wire.close("S", "p"), wire.sync())
    pair.query("execute p(3)")
    pair.say(wire.parse("p", "select 7"), wire.bind("", "p"), wire.execute(), wire.sync())
    pair.query("prepare p as select 8")
    pair.move()
    pair.query("prepare p as select 8")
    assert pair.query("execute p").rows == [("7",)]


def test_all_forgotten(pair):
    for forget in ("deallocate all", "discard all"):
        for run in (pair.query, pair.run):
            pair.query("prepare p as select 1")
            pair.say(wire.parse("q", "select 2"), wire.sync())
            run(forget)
            for name in "pq":
                pair.query("execute " + name)
                pair.say(wire.bind("", name), wire.execute(), wire.sync())
        pair.say(wire.parse("c", "prepare p as select 3"), wire.sync(), wire.parse("", forget), wire.sync())
        pair.move()
        pair.say(wire.bind(), wire.execute(), wire.parse("c", "select 4"), wire.sync())
        assert pair.say(wire.bind("", "c"), wire.execute(), wire.sync()).rows == [("4",)]
        pair.say(wire.close("S", "c"), wire.sync())


# errors


@pytest.mark.parametrize("sql", [
    "prepare broken as select nothing",
    "prepare broken (int) as select $1 +++",
    "/* ü */ prepare \"Ünï\" as select 'ü', nothing",
    "prepare fine as select 1; prepare fine as select nothing",
    "prepare broken (nothing) as select 1",
    "prepare there as select nothing",
    "prepare there as select 3",
    "execute absent",
    "execute absent(nothing, 1)",
    "execute there(1 + nothing)",
    "execute there(1, 2",
    "execute there('x')",
    "deallocate absent",
    "deallocate prepare absent",
    "prepare",
    "execute",
    "deallocate",
    "prepare x as",
    "prepare transaction 'x'",
    "execute \"\"",
    "execute broken x y",
])
@pytest.mark.parametrize("name", ["", "named"])
def test_errors(pair, sql, name):
    pair.query("prepare there (int) as select $1")
    for _ in range(2):
        pair.move()
        pair.run(sql, name=name, describe=True)
        pair.query("execute there(3)")
        pair.say(wire.parse("other", sql), wire.sync(), wire.bind("o", "other"), wire.sync(),
                 wire.close("S", "other"), wire.close("S", "named"), wire.sync())
        if "; " not in sql:  # several commands in one query go to the server unchanged
            pair.query(sql)


def test_parameters_of_the_protocol(pair):
    pair.query("prepare p (int) as select $1")
    pair.say(wire.parse("", "execute p($1)"), wire.describe("S", ""), wire.sync())
    pair.say(wire.parse("", "execute p($1)"), wire.bind(values=["1"]), wire.execute(), wire.sync())
    pair.say(wire.parse("", "execute p($1)", [23]), wire.describe("S", ""),
             wire.bind(values=["1"]), wire.execute(), wire.sync())
    pair.say(wire.parse("n", "prepare w as select $1", [23]), wire.bind("", "n", ["1"]),
             wire.execute(), wire.sync())
    pair.move()
    assert pair.query("execute w(3)").rows == [("3",)]


@pytest.mark.one_worker  # With several, a server may come that has the statement.
def test_statement_that_cannot_be_made_again(pair, pg, table):
    pair.query("prepare p as select a from " + table)
    pair.say(wire.parse("q", "select a from " + table), wire.sync())
    pg.do("alter table %s rename a to b" % table)
    pair.move()
    answers = [side.query("execute " + n, check=False)
               for side in (pair.direct, pair.client) for n in "pq"]
    assert [dict(a.errors[0].fields())["C"] for a in answers] == ["42703"] * 4
    assert [a.kinds() for a in answers] == ["EZ"] * 4
    pair.query("begin")
    result = pair.client.query("execute p", check=False)
    assert (result.kinds(), result.status) == ("EZ", "E")
    pair.direct.query("execute p", check=False)
    pair.query("execute p")
    pair.query("rollback")
    pair.client.send(*extended("execute p"), wire.sync())
    assert pair.client.finish().kinds() == "EZ"
    pg.do("alter table %s rename b to a" % table)
    pair.direct.close()
    assert pair.client.query("execute p").rows == [("1",)]


# order of commands and rollback


def test_transactions(pair):
    pair.query("prepare kept as select 1")
    pair.query("begin")
    pair.run("prepare stays as select 2")
    pair.run("prepare lost as select nothing")
    for sql in ("prepare later as select 1", "deallocate kept", "execute kept"):
        pair.run(sql)
    pair.query("rollback")
    pair.move()
    for sql in ("execute kept", "execute stays", "execute later", "execute lost"):
        pair.run(sql)
    # An error later in the same pipeline does not undo the PREPARE either.
    pair.say(*extended("prepare p as select 3"), wire.parse("", "nonsense"), wire.sync())
    pair.move()
    pair.run("execute p")
    pair.query("begin")
    pair.run("deallocate p")
    pair.query("rollback")
    pair.run("execute p")


def test_pipelines(pair):
    for _ in range(2):
        pair.say(*extended("prepare p as select 1"), *extended("execute p"),
                 *extended("deallocate p"), *extended("execute p"), wire.sync(),
                 *extended("select 5"), wire.sync())
        pair.move()
        pair.say(*extended("prepare p as select 1"), wire.sync(), *extended("execute p"),
                 wire.sync(), *extended("deallocate p"), wire.sync(), *extended("execute p"),
                 wire.sync(), wire.query("select 1"))
        pair.say(wire.parse("", "nonsense"), *extended("prepare p as select 1"), wire.sync(),
                 *extended("execute p"), wire.sync())
        pair.say(wire.parse("a", "prepare p as select 1"), wire.bind("x", "a"),
                 wire.parse("b", "prepare p as select 2"), wire.bind("y", "b"),
                 wire.execute("x"), wire.execute("y"), wire.sync())
        pair.run("execute p")
        pair.say(wire.parse("c", "deallocate p"), wire.bind("x", "c"), wire.bind("y", "c"),
                 wire.execute("x"), wire.execute("y"), wire.sync(),
                 wire.close("S", "a"), wire.close("S", "b"), wire.close("S", "c"), wire.sync())
        pair.say(wire.parse("p", "select 1"), wire.query("execute p"), wire.query("deallocate p"))
        pair.run("execute p")


def test_prepared_takes_effect_at_execute(pair):
    pair.say(wire.parse("make", "prepare p as select 1"), wire.bind("m", "make"), wire.sync())
    pair.run("execute p")
    pair.say(wire.bind("m", "make"), wire.flush(), wire.parse("p", "select 2"), wire.execute("m"),
             wire.sync())
    pair.run("execute p")


def test_query_behind_what_has_no_sync(pair, pg, table):
    """Messages without a Sync and the Query after them form one transaction."""
    pair.query("prepare k as select 7")
    pair.say(wire.parse("q", "select 8"), wire.sync())
    insert = extended("insert into %s values (2)" % table)
    for last, kinds in (("execute k", "TDCZ"), ("execute q", "TDCZ"), ("execute absent", "EZ"),
                        ("prepare k as select 7", "EZ"), ("deallocate q", "CZ"),
                        ("deallocate q", "EZ"), ("prepare q as select 8", "CZ")):
        pair.move()
        for side in (pair.client, pair.direct):
            pg.do("delete from " + table)
            side.send(*insert, wire.flush())
            side.recv_kinds("12C")
            result = side.query(last, check=False)
            assert result.kinds() == kinds, (last, result.messages)
            assert pg.value("select count(*) from " + table) == str(int(kinds != "EZ")), last


def test_what_cannot_be_made_behind_what_has_no_sync(pair, pg, table):
    pair.query("prepare k as select a from " + table)
    pair.direct.close()
    pg.do("alter table %s rename a to b" % table)
    pair.move()
    pair.client.send(*extended("insert into %s values (2)" % table), wire.flush())
    pair.client.recv_kinds("12C")
    assert pair.client.query("execute k", check=False).kinds() == "EZ"
    assert pair.client.query("select 1").kinds() == "TDCZ"
    assert pg.value("select count(*) from " + table) == "1"


def test_portals(pair):
    pair.query("prepare many as select generate_series(1, 5)")
    pair.say(wire.parse("", "execute many"), wire.bind(), wire.execute("", 2), wire.execute("", 2),
             wire.execute("", 2), wire.sync())
    pair.query("begin")
    pair.say(wire.parse("e", "execute many"), wire.bind("c", "e"), wire.execute("c", 2), wire.sync())
    pair.query("select 1")
    pair.say(wire.execute("c", 2), wire.describe("P", "c"), wire.sync())
    pair.say(wire.close("P", "c"), wire.execute("c"), wire.sync())
    pair.query("rollback")
    pair.say(wire.bind("c", "e"), wire.sync(), wire.execute("c"), wire.sync())


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_few_are_held(make, pg, limit):
    pooler = make(max_prepared_statements=limit)
    pair = Pair(pooler, pg)
    for i in range(5):
        pair.run("prepare s%d as select %d" % (i, i))
        pair.say(wire.parse("p%d" % i, "select -%d" % i), wire.parse("e%d" % i, "execute s%d" % i),
                 wire.sync())
    for i in range(5):
        pair.move()
        pair.say(wire.bind("a", "p%d" % i), wire.bind("b", "e%d" % i), wire.bind("c", "s%d" % i),
                 wire.bind("d", "p%d" % ((i + 1) % 5)),
                 *[wire.execute(p) for p in "abcd"], wire.sync())
        pair.query("execute p%d" % i)
        pair.query("execute s%d" % i)
    for row in pooler.show("SERVERS"):
        assert int(row["prepared_statements"]) <= max(limit, 2)
    pair.close()


def test_clients_share_texts(make, pg):
    pooler = make()
    pairs = [Pair(pooler, pg, "one") for _ in range(3)]
    for i, pair in enumerate(pairs):
        assert pair.run("prepare same as select 'shared'").tag == "PREPARE"
        pair.query("prepare own as select 'own %d'" % i)
    for i, pair in enumerate(pairs):
        assert pair.run("execute same").rows == [("shared",)]
        assert pair.run("execute own").rows == [("own %d" % i,)]
        pair.run("deallocate same")
        pair.run("execute same")
    count = "select count(*) from pg_prepared_statements where name like 'PGBOUNCER_SQL%'"
    assert pairs[0].client.value(count) == "4"
    for pair in pairs:
        pair.close()
    assert pooler.show("SERVERS")[0]["state"] == "idle"


def test_statement_is_lost(make, pg):
    pooler = make()
    pair = Pair(pooler, pg, "one")
    pair.query("prepare p as select 'back'")
    pair.say(wire.parse("q", "select 'too'"), wire.sync())
    pair.client.query("do $$ begin execute 'deallocate all'; end $$")
    pair.query("execute p")
    pair.client.query("do $$ begin execute 'deallocate all'; end $$")
    pair.query("execute q")
    pair.client.query("do $$ begin execute 'deallocate all'; end $$")
    pair.say(wire.bind("", "q"), wire.execute(), wire.sync())
    # After BindComplete the pooler cannot repeat the command. The next time the statement exists
    # again.
    pair.client.query("do $$ begin execute 'deallocate all'; end $$")
    pair.client.send(*extended("execute p"), wire.sync())
    pair.client.finish()
    pair.run("execute p")
    pair.close()


def test_off(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={"pool_mode": "transaction"})
    one, two = pooler.connect(), pooler.connect()
    one.send(*extended("prepare off as select 1"), wire.sync())
    one.finish()
    assert two.value("execute off") == "1"


# drivers


def test_asyncpg(make):
    """asyncpg prepares every query under its own names and keeps the statements."""
    asyncpg = pytest.importorskip("asyncpg")
    pooler = make(default_pool_size=3)

    async def work(number):
        client = await asyncpg.connect(host=pooler.host, port=pooler.port, user="trust_user",
                                       database="db")
        try:
            for i in range(10):
                assert await client.fetch("prepare p (int) as select $1 * %d" % number) == []
                for _ in range(3):
                    assert await client.fetchval("execute p(7)") == 7 * number
                async with client.transaction():
                    assert [r[0] for r in await client.fetch("execute p(3)")] == [3 * number]
                await client.execute("deallocate p")
                with pytest.raises(asyncpg.InvalidSQLStatementNameError):
                    await client.fetch("execute p(8)")
        finally:
            await client.close()

    async def all_of_them():
        await asyncio.gather(*[work(n) for n in range(1, 7)])

    asyncio.run(all_of_them())


def test_psycopg(make):
    psycopg = pytest.importorskip("psycopg")
    pooler = make()
    with psycopg.connect("host=%s port=%d user=trust_user dbname=db" % (pooler.host, pooler.port),
                         autocommit=True) as client, client.pipeline():
        for number in (5, 6):
            client.execute("prepare p as select %d" % number, prepare=True)
            found = [client.execute("execute p", prepare=i % 2 == 0) for i in range(4)]
            client.execute("deallocate p", prepare=True)
            assert [cursor.fetchone() for cursor in found] == [(number,)] * 4


# random sequences


TEXTS = ["select 1", "select 'b'", "select nothing", "values (3), (4)"]


def random_step(rng):
    """Returns (messages, whether they end with a Sync or Query)."""
    sql_name, name = rng.choice("pq"), rng.choice(["", "p", "q", "r"])
    command = rng.choice([
        "prepare %s as %s" % (sql_name, rng.choice(TEXTS)), "execute " + sql_name,
        "execute " + sql_name, "deallocate " + sql_name, rng.choice(TEXTS)])
    portal = rng.choice(["", "x"])
    # These names are also used by EXECUTE, which cannot execute another EXECUTE.
    if name in ("p", "q"):
        text = rng.choice(TEXTS)
    else:
        text = command
    return rng.choice([
        [wire.query(command)],
        [wire.parse(name, text)],
        [wire.parse("", command), wire.bind(), wire.execute()],
        [wire.parse("", command), wire.describe("S"), wire.bind(), wire.describe("P"),
         wire.execute()],
        [wire.bind(portal, name)],
        [wire.bind("", name), wire.execute()],
        [wire.describe("S", sql_name)],
        [wire.execute(portal)],
        [wire.close("S", name)],
        [wire.close("P", portal)],
        [wire.query(rng.choice(["begin", "commit", "rollback", "deallocate all"]))],
        [wire.sync()], [wire.sync()],
    ])


@pytest.mark.parametrize("limit", [1, 2, 200])
def test_random_sequences(make, pg, limit):
    pooler = make(max_prepared_statements=limit)
    for seed in range(200):
        rng = random.Random(seed * 1000 + limit)
        pair = Pair(pooler, pg)
        said = []
        try:
            for _ in range(rng.randrange(3, 14)):
                parts = [p for _ in range(rng.randrange(1, 5)) for p in random_step(rng)]
                # The Sync gives every part an answer, so that nothing is left after a Query.
                parts.append(wire.sync())
                said.append(parts)
                if rng.random() < 0.3:
                    pair.move()
                pair.say_all(parts)
        except AssertionError as failure:
            raise AssertionError("seed %d: %r\n%s" % (seed, said, failure)) from None
        finally:
            pair.close()


@pytest.mark.parametrize("block", [True, False])
def test_deallocate_among_others(pair, block):
    """As psqlODBC does it, where a SAVEPOINT stands before it."""
    before, behind = ("savepoint _per_query_svp_", "release _per_query_svp_") if block else ("select 1", "select 2")
    pair.query("begin" if block else "select 0")
    for sql in ("select 7", "select 8", "select 9"):
        pair.run(sql, name='"A b')
        pair.query('%s;DEALLOCATE """A b";%s' % (before, behind))
        pair.query('select 1; deallocate """A b"')
        if block:
            pair.query("rollback")
            pair.query("begin")
    pair.run("select 10", name="x")
    pair.query("select 1; deallocate x; select 1/0; select 3")
    if block:
        pair.query("rollback")
    pair.run("select 11", name="x")
    pair.query("select 1/0; deallocate x")
    if block:
        pair.query("rollback")
    assert pair.run("", name="x") is not None
    pair.query("deallocate x; select 12")
    pair.query("deallocate x; select 13")
