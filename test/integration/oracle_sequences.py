"""Seeded random sequences of protocol messages.

`transaction` sequences keep to what a pooler in transaction mode can keep: prepared
statements of the protocol, tracked parameters, and everything within a transaction block or
a cycle up to Sync. Kept out, because nothing between client and server could make them equal:
session state of other kinds outside transaction blocks; tables that change their shape below
prepared statements; and, in named statements, literals whose meaning hangs on a parameter
(they are read when the text is parsed, and texts are shared). `statement` sequences have no transaction blocks either. `session` sequences have
no such limits. `keep` sequences are those of transaction mode, with what session_state=keep keeps
(oracle_keeping.py). In `schema` sequences clients also change tables, types and the search_path, and
prepare what depends on them anew.
"""

import random
import re

import oracle_keeping
from oracle_ops import SLEEP, STATEMENTS, Watch, freeze

PORTALS = ("", "", "", "p1", "p2")
TABLE = "t%d"
ITS_TABLE = re.compile(r"\bT\b")
REFILL = "delete from t%d; insert into t%d select g, 'row ' || g from generate_series(1, 5) g"

SIMPLE = """
select 1
select 1, 'two', null::text, ''
select g from generate_series(1, 3) g
select g, repeat('ab', g) from generate_series(1, 300) g
select repeat('abc', 30000)

;
select 1; select 2
select 1; select 1/0; select 3
select 1; selec 2
selec
select * from missing_table
select 1/0
select nothing from T
select $1
insert into T values (7, 'seven')
insert into T values (3, 'three again')
insert into T values (8, 'x'), (9, null) returning id, v
insert into T values (10, 'ten'); select 1/0
update T set v = v || '!' where id < 3
with u as (update T set v = v returning *) select * from u order by id
delete from T where id = 4 returning id
delete from T where id = 77
select * from T order by id
select v from T where id = 99
select * from shared order by id
select date '2020-03-04', interval '1 year -2 days 03:04:05', timestamptz '2020-01-02 03:04:05+00'
select 'a\\\\b'
show DateStyle
show application_name
show TimeZone
show client_encoding
set application_name = 'one app'
set application_name = 'it''s \\ another'
set application_name to default
set DateStyle = 'German'
set DateStyle = 'ISO, DMY'
set IntervalStyle = 'iso_8601'
set IntervalStyle = nonsense
set TimeZone = 'America/New_York'
set TimeZone = 'Nowhere/Land'
set client_encoding = 'LATIN1'
set client_encoding = 'UTF8'
set standard_conforming_strings = off
set standard_conforming_strings = on
set local application_name = 'only here'
set local work_mem = '1MB'
reset application_name
reset DateStyle
reset TimeZone
reset all
do $$ begin raise notice 'a notice'; end $$
do $$ begin raise warning 'a warning %', repeat('w', 500); end $$
do $$ begin raise exception 'thrown' using errcode = 'P0123', hint = 'a hint', detail = 'more'; end $$
savepoint a
rollback to savepoint a
release savepoint a
declare c1 cursor for select g from generate_series(1, 10) g
fetch 3 from c1
fetch all from c1
move 2 in c1
close c1
close all
values (1), (2)
select count(*), min(v), max(v) from T
explain (costs off) select 1
create temp table passing (n int) on commit drop
lock table T
discard plans
discard sequences
deallocate nothing
execute nothing
commit
rollback
begin
begin; select 1; commit
begin; select 1/0; commit
begin; insert into T values (11, 'eleven'); rollback
begin isolation level serializable
begin read only
copy (select g, 'x' from generate_series(1, 5) g) to stdout
copy (select 4 / (3 - g) from generate_series(1, 5) g) to stdout
copy (select * from T order by id) to stdout
copy shared to stdout (format binary)
copy missing_table to stdout
copy (select id from T order by 1) to stdout; select 'behind'
""".strip("\n").split("\n")

# Texts with answers of all sizes: many columns, long rows, notices and errors.
WIDE = ["select " + ", ".join('%d as "column %d%s"' % (i, i, " wide" * (i % 9)) for i in range(n))
        for n in (2, 12, 60, 60, 400, 1600)]
WIDE += ["select %s" % ", ".join("$%d::int" % (i + 1) for i in range(n)) for n in (1, 60, 3000)]
LONG = ("select repeat('x', %d)", "select g, repeat('y', %d / 20) from generate_series(1, 20) g",
        "do $$ begin raise notice '%%', repeat('n', %d); end $$",
        "do $$ begin raise exception '%%', repeat('e', %d); end $$",
        "copy (select repeat('z', %d)) to stdout")

FORGETTING = """
discard all
deallocate all
discard all
deallocate all
deallocate prepare all
select 1; deallocate all
begin; deallocate all; rollback
DISCARD ALL
/* with a comment */ deallocate all
""".strip("\n").split("\n")

SESSION_ONLY = """
create temp table kept (n int)
insert into kept values (1)
select * from kept
drop table kept
discard temp
prepare s1 as select 'from sql', $1::int
prepare s2 (int) as select $1 + 1
execute s1(1)
execute s2(2)
deallocate s1
deallocate s2
deallocate s3
set work_mem = '2MB'
show work_mem
set search_path = pg_catalog
reset search_path
declare held cursor with hold for select g from generate_series(1, 6) g
fetch 2 from held
close held
listen T
unlisten *
notify T, 'payload'
select name, statement from pg_prepared_statements order by 1
set session characteristics as transaction read only
set session characteristics as transaction read write
set role trust_user
reset role
alter table T add column more int
alter table T drop column if exists more
""".strip("\n").split("\n")

# (text, the types of its parameters)
EXTENDED = [
    ("select 1", ""), ("select 1", ""), ("select 'other'", ""),
    ("select $1::int", "i"), ("select $1::int", "i"), ("select $1::text, $2::int + 1", "ti"),
    ("select 10 / $1::int", "i"), ("select $1", "t"), ("select null::int, $1::bool", "b"),
    ("select id, v from T where id >= $1 order by id", "i"),
    ("select id, v from shared where id >= $1 order by id", "i"),
    ("select id, v from shared order by id", ""),
    ("select g from generate_series(1, $1::int) g", "i"),
    ("select repeat($1, 3000)", "t"),
    ("insert into T values ($1, $2)", "it"), ("insert into T values ($1, $2) returning *", "it"),
    ("update T set v = $1 where id = $2", "ti"), ("delete from T where id = $1 returning v", "i"),
    ("select current_setting('application_name')", ""), ("show application_name", ""),
    ("show TimeZone", ""), ("set application_name = 'extended'", ""), ("reset all", ""),
    ("set local DateStyle = 'German'", ""), ("reset application_name", ""),
    ("", ""), ("selec", ""), ("select * from missing_table", ""), ("select 1; select 2", ""),
    ("select nothing from T where id = $1", "i"), ("select $1 + ", "i"),
    ("savepoint e", ""), ("rollback to e", ""), ("fetch 2 from c1", ""),
    ("declare c1 cursor for select g from generate_series(1, 7) g", ""),
    ("begin", ""), ("commit", ""), ("rollback", ""),
    ("discard all", ""), ("deallocate all", ""), ("deallocate nothing", ""),
    ("do $$ begin raise notice 'noted'; end $$", ""),
    ("copy T from stdin", ""), ("copy T (id) from stdin", ""),
    ("copy (select g from generate_series(1, 4) g) to stdout", ""),
    ("copy (select 4 / (3 - g) from generate_series(1, 5) g) to stdout", ""),
]
# Parameters that a transaction sets and rolls back, and texts whose meaning depends on such a
# parameter.
TAKEN_BACK = ("set DateStyle = 'German'", "set DateStyle = 'SQL, DMY'",
              "set TimeZone = 'Asia/Tokyo'", "set local DateStyle = 'German'",
              "set IntervalStyle = 'iso_8601'", "reset DateStyle")
READ_UNDER = ("select date '02-03-2020'", "select timestamptz '2020-06-02 03:04:05'",
              "select interval '1 day 02:00'", "show DateStyle",
              "select current_setting('TimeZone')")
# Changes of the client's own table, and of a table in two schemas and its enum, and what depends
# on them.
CHANGES_OF_OWN = (
    "alter table T add column more int", "alter table T drop column if exists more",
    "alter table T alter column v type varchar(80)", "alter table T alter column v type text",
    "alter table T alter column id type bigint", "alter table T alter column id type int",
    "alter table T rename column v to w; alter table T rename column w to v",
    "do $$ begin alter table T add column more text; end $$")
USES_OF_OWN = (("select * from T order by id", ""), ("select id, v from T where v = $1", "t"),
               ("insert into T (id, v) values ($1, $2) returning *", "it"),
               ("update T set v = $1 where id = $2 returning *", "ti"), ("select more from T limit 1", ""))
RESTORE = ("alter table T drop column if exists more; alter table T alter column v type text; "
           "alter table T alter column id type int")
NO_COMMON = "drop table if exists common, other.common; drop type if exists mood, old_mood cascade"
COMMON = ("drop table if exists common; drop table if exists other.common; "
          "drop type if exists mood, old_mood; create type mood as enum ('a', 'b'); "
          "create table common (id int, m mood)")
CHANGES = (
    "alter table common add column more int", "alter table common drop column if exists more",
    "alter table common alter column id type text", "alter table common alter column id type int using id::int",
    "alter type mood rename to old_mood; create type mood as enum ('a', 'b', 'c'); "
    "alter table common alter column m type mood using m::text::mood; drop type old_mood",
    "alter type mood add value if not exists 'd'", "drop table common; create table common (id int, m mood)",
    "drop table if exists common; create table common (id text, m text)",
    "drop type if exists mood cascade; create type mood as enum ('z')",
    "create table other.common as select 1.5 as id, 'x'::text as m", "drop table if exists other.common")
USES = (("select * from common order by 1, 2", ""), ("select id from common where m = $1", "m"),
        ("insert into common values ($1, $2) returning *", "im"), ("select $1::mood", "m"),
        ("select id, m from common where id = $1", "i"))
TYPE_OF = {"i": 23, "t": 25, "b": 16}
VALUES = {"i": ("1", "2", "3", "5", "0", "-7", "41", None), "t": ("text", "", "it's", None),
          "b": ("t", "f"), "m": ("a", "b", "z", None)}
BAD = {"i": ("abc", "99999999999", ""), "t": ("\xff",), "b": ("maybe",), "m": ("nothing",)}

# The OIDs of int4pl, int4div, and an unknown function
FUNCTIONS = [(177, ("40", "2")), (154, ("8", "2")), (154, ("8", "0")), (177, ("x", "2")),
             (177, ("1",)), (999999, ()), (89, ())]

GOOD_ROWS = ("%d\tcopied\n", "%d\t\\N\n", "%d\ta\\tb\n")
BAD_ROWS = ("not a number\tx\n", "3\tagain\n", "12\n", "13\ta\tb\n", "14\tbad \\x\tc\n")


class Maker:
    """Makes one sequence for several clients."""

    def __init__(self, seed, mode="transaction", named=True, restored=(), is_wide=False,
                 is_migrating=False):
        self.is_migrating = is_migrating
        self.random = random.Random("%s %s" % (mode, seed))
        # This is a separate generator, so that the other units of a seed stay the same.
        self.rare = random.Random("taken back, %s %s" % (mode, seed))
        self.is_free = mode == "session"
        self.is_wide = is_wide  # Some answers are long, or have many columns.
        self.names = ("",) + STATEMENTS if named else ("",)
        self.ops = []
        self.client = 1
        self.watch = Watch(mode, restored)
        self.known = {}  # {(client, statement): the types of the parameters}
        self.number = 20  # The number of the next row.
        self.seed = seed
        # With a pool of so many servers.
        self.keeping = oracle_keeping.Keeping(self, int(mode[-1])) if mode.startswith("keep") else None

    # small building blocks

    def has(self, chance):
        return self.random.random() < chance

    def pick(self, things):
        return self.random.choice(things)

    def say(self, kind, *args):
        op = freeze((self.client, kind) + args)
        if self.watch.allows(op):
            self.ops.append(op)

    def maybe_wait(self, chance=0.3):
        if self.has(chance):
            self.say("wait")

    def table(self, sql):
        return ITS_TABLE.sub(TABLE % self.client, sql)

    def sequence(self):
        clients = self.random.choice((1, 2, 3, 4, 4) if self.keeping else (1, 1, 2, 2, 3))
        is_serial = self.has(0.6) or (self.keeping is not None and self.keeping.listens)
        # Who has sent a notification first is known only if nobody overtakes.
        is_alone = is_serial and (self.is_migrating or (self.keeping is not None and self.keeping.listens))
        for _ in range(self.random.randint(1, 4) + clients):
            self.client = self.random.randint(1, clients)
            self.unit()
            if self.keeping:
                if is_alone:
                    self.leave()
                self.client = self.random.randint(1, clients)
                self.keeping.unit()
            if self.is_migrating:
                self.migration(is_alone)
            if self.rare.random() < 0.15:
                self.taken_back()
            if self.is_wide and self.has(0.6):
                self.pick((self.descriptions, self.descriptions, self.long_answers))()
            if is_alone:
                self.leave()
        self.closing(clients)
        return {"seed": self.seed, "serial": is_serial, "alone": is_alone, "ops": self.ops,
                "split": self.random.randrange(2 ** 32) if self.has(0.3) else None}

    def leave(self):
        """Ends the client's turn outside of any block. What the others do next depends on the common
        objects, so nobody may wait for the server that this client holds."""
        for kind in ("c", "S", "wait"):
            self.say(kind)
        self.reset("rollback")

    def closing(self, clients):
        """Ends with tables and sessions restored, whatever happened before."""
        how = self.pick(("discard all", "deallocate all", "keep"))
        for self.client in range(1, clients + 1):
            if self.keeping:  # Behind a COPY that has no end it would not be sent.
                self.say("c")
            self.say("S")
            self.say("wait")
            self.say("Q", "rollback")
            if self.keeping:
                self.reset("discard all")
                if self.keeping.listens:
                    self.say("hear")
            elif self.is_free:
                self.reset("discard all")
                self.say("Q", "alter table t%d drop column if exists more" % self.client)
            elif self.is_migrating:
                self.forget()
                self.say("Q", self.table(RESTORE))
                self.say("Q", NO_COMMON)
            if self.is_free or self.keeping:
                pass
            elif how == "keep":
                for name in STATEMENTS:
                    if (self.client, name) in self.known:
                        self.say("C", "S", name)
                self.say("S")
                self.reset("reset all")
            else:
                self.reset("reset all")
                self.reset(how)
            self.say("Q", REFILL % (self.client, self.client))

    def reset(self, sql):
        self.say("Q", sql)
        self.say("wait")

    # changes of the schema

    def forget(self):
        """Closes all statements: those that are used behind a change are prepared anew, as the
        pooler heals an old one where PostgreSQL says that its plan must not change (protocol.md 12)."""
        self.say("S")
        for name in STATEMENTS:
            if self.known.pop((self.client, name), None):
                self.say("C", "S", name)
        self.known.pop((self.client, ""), None)
        self.say("S")

    def migration(self, is_alone):
        """Changes the client's own table, or if clients run one after the other a common one, and
        prepares statements that depend on it; within a transaction or not."""
        is_common = is_alone and self.has(0.6)
        changes, uses = (CHANGES, USES) if is_common else (CHANGES_OF_OWN, USES_OF_OWN)
        self.forget()
        if is_common and self.has(0.4):
            self.say("Q", COMMON)
        ending = self.pick(("", "", "commit", "rollback"))
        if ending:
            self.say("Q", "begin")
        for _ in range(self.random.randint(1, 4)):
            if self.has(0.5):
                self.change(self.table(self.pick(changes)))
            if is_common and ending and self.has(0.2):
                self.say("Q", "set local search_path = other, public")
            self.use(*self.pick(uses))
            self.maybe_wait()
        self.say("wait")
        if ending:
            self.say("Q", ending)
        self.end_any_block()
        self.forget()

    def change(self, sql):
        if ";" in sql or self.has(0.6):
            self.say("Q", sql)
            return
        self.say("P", "", sql, ())
        self.say("B", "", "", (), (), ())
        self.say("E", "", 0)
        if self.has(0.7):
            self.say("S")

    def use(self, sql, kinds):
        name = self.pick(self.names)
        if name:
            self.say("C", "S", name)
        self.say("P", name, self.table(sql), ())
        if self.has(0.7):
            self.say("D", "S", name)
        for _ in range(self.random.randint(1, 2)):
            self.say("B", "", name, self.values(kinds), (), ())
            if self.has(0.5):
                self.say("D", "P", "")
            self.say("E", "", 0)
        self.say("S")
        if name:  # Behind the Sync, so that it is not skipped: what is used later would be older than the next change.
            self.say("C", "S", name)
            self.say("S")

    # units: each begins and ends outside a transaction block, after a Sync or Query

    def unit(self):
        self.pick((self.queries, self.queries, self.cycles, self.cycles, self.cycles, self.cycles,
                   self.block, self.block, self.block, self.copy_in, self.call,
                   self.strays, self.slow))()
        if self.has(0.7):
            self.say("wait")

    def end_any_block(self):
        self.say("Q", "rollback")

    def simple_text(self):
        chance = self.random.random()
        if chance < 0.07:
            sql = self.pick(FORGETTING)
        elif chance < 0.09 and not self.keeping:
            sql = "prepare once%s_%d as select 1; execute once%s_%d; deallocate once%s_%d" % (
                (self.seed, len(self.ops)) * 3)
        elif self.is_free and chance < 0.4:
            sql = self.pick(SESSION_ONLY)
        else:
            sql = self.pick(SIMPLE)
        if self.keeping and oracle_keeping.PINS.search(sql):
            return "select 'nothing'"
        return self.table(sql)

    def queries(self):
        for _ in range(self.random.randint(1, 4)):
            self.say("Q", self.simple_text())
            self.maybe_wait()
        self.end_any_block()

    def block(self):
        self.say("Q", self.pick(("begin", "begin", "begin", "begin read only")))
        self.maybe_wait()
        for _ in range(self.random.randint(1, 4)):
            self.pick((self.cycle, self.cycle, self.query, self.copy_in, self.call))()
            self.maybe_wait()
        self.say("Q", self.pick(("commit", "rollback")))
        if not self.is_free:
            self.end_any_block()

    def query(self):
        self.say("Q", self.simple_text())

    def cycles(self):
        for _ in range(self.random.randint(1, 4)):
            self.cycle()
            self.maybe_wait()
        self.end_any_block()

    def taken_back(self):
        """Sends a SET in a block, the ROLLBACK and then a Parse in one pipeline."""
        pick = self.rare.choice
        name, sql = pick(self.names), pick(READ_UNDER)
        if name:
            self.say("C", "S", name)
        is_simple = self.rare.random() < 0.5
        for text in ("begin", pick(TAKEN_BACK), "rollback"):
            if is_simple:
                self.say("Q", text)
            else:
                self.say("P", "", text, ())
                self.say("B", "", "", (), (), ())
                self.say("E", "", 0)
                if self.rare.random() < 0.3:
                    self.say("S")
        self.say("P", name, sql, ())
        self.say("B", "", name, (), (), ())
        self.say("E", "", 0)
        if name:  # A later cycle would use the statement with other parameter values.
            self.say("C", "S", name)
        self.say("S")
        self.end_any_block()

    def descriptions(self):
        """Prepares, describes and closes known texts in one pipeline, so that the pooler answers
        some of these messages and the server the others."""
        texts = [self.pick(WIDE) for _ in range(2)]
        for _ in range(self.random.randint(2, 20)):
            name = self.pick(STATEMENTS)
            self.say("C", "S", name)
            self.say("P", name, self.pick(texts), ())
            self.known.pop((self.client, name), None)
            if self.has(0.9):
                self.say("D", "S", name)
            self.say("C", "S", name)
            if self.has(0.05):
                self.flush()
        self.say("S")

    def long_answers(self):
        for _ in range(self.random.randint(1, 3)):
            size = int(2 ** self.random.uniform(0, 20 if self.has(0.2) else 14))
            sql = self.pick(LONG) % size
            if self.has(0.5):
                self.say("Q", sql)
            else:
                self.say("P", "", sql, ())
                self.say("B", "", "", (), (), ())
                self.say("E", "", 0)
                self.say("S")
            self.maybe_wait()
        if self.has(0.3):
            value = "v" * int(2 ** self.random.uniform(0, 18))
            self.say("P", "", "select $1::text, 'behind'", ())
            self.say("B", "", "", (value,), (), ())
            self.say("E", "", 0)
            self.say("S")

    def call(self):
        self.say("F", *self.pick(FUNCTIONS))

    def strays(self):
        """Sends COPY messages outside a COPY, which PostgreSQL ignores."""
        for _ in range(self.random.randint(1, 3)):
            self.pick((lambda: self.say("d", "stray\n"), lambda: self.say("c"),
                       lambda: self.say("f", "stray"), lambda: self.say("H"),
                       lambda: self.say("S")))()

    def slow(self):
        if self.has(0.25):
            self.say("Q", SLEEP)
            self.say("cancel")
        else:
            self.cycle()
            self.end_any_block()

    # COPY

    def copy_in(self):
        sql = self.pick(("copy T from stdin", "copy T from stdin", "copy T (id, v) from stdin",
                         "copy missing_table from stdin", "copy T from stdin; select 'behind'",
                         "copy T from stdin; copy T from stdin"))
        self.say("Q", self.table(sql))
        self.maybe_wait()
        for _ in range(sql.count("stdin")):
            self.copy_data()
            self.maybe_wait(0.1)

    def copy_data(self, between="SH"):
        for _ in range(self.random.randint(0, 4)):
            self.say("d", self.row())
            if self.has(0.12):
                self.say(self.pick(between))
            self.maybe_wait(0.05)
        if self.has(0.15):
            self.say("f", "the client's own reason")
        else:
            self.say("c")
        if self.has(0.1):
            self.say("d", "too late\n")
        if self.has(0.1):
            self.say("c")

    def row(self):
        if self.has(0.15):
            return self.pick(BAD_ROWS)
        if self.has(0.03):
            return "".join(self.pick(GOOD_ROWS) % self.next_number() for _ in range(1500))
        return self.pick(GOOD_ROWS) % self.next_number()

    def next_number(self):
        self.number += 1
        return self.number

    # extended protocol

    def cycle(self):
        for _ in range(self.random.randint(1, 5)):
            self.pick((self.round, self.round, self.round, self.again, self.again,
                       self.parse, self.close, self.describe, self.execute_only,
                       self.flush))()
        if self.has(0.05):
            self.say("Q", self.simple_text())
        if self.has(0.1):
            self.flush()
        self.say("S")

    def parse(self, name=None):
        name = self.pick(self.names) if name is None else name
        sql, kinds = self.pick(EXTENDED)
        types = ()
        if kinds and self.has(0.3):
            types = tuple(self.pick((TYPE_OF[k], TYPE_OF[k], 0)) for k in kinds)
        elif self.has(0.01):
            types = (987654,)
        if name and (self.client, name) in self.known and self.has(0.85):
            self.say("C", "S", name)
        self.say("P", name, self.table(sql), types)
        self.known[self.client, name] = (kinds, "stdin" in sql)
        return name

    def values(self, kinds):
        made = [self.pick(BAD[k] if self.has(0.04) else VALUES[k]) for k in kinds]
        if self.has(0.03):
            made.append("1")
        return tuple(made)

    def bind(self, name):
        kinds, is_copy = self.known.get((self.client, name), ("", False))
        portal = self.pick(PORTALS)
        if portal and self.has(0.7):
            self.say("C", "P", portal)
        results = (1,) if self.has(0.1) else ()
        formats = (0,) if self.has(0.1) else ()
        self.say("B", portal, name, self.values(kinds), formats, results)
        return portal, is_copy

    def run(self, name):
        portal, is_copy = self.bind(name)
        if self.has(0.6):
            self.say("D", "P", portal)
        self.execute(portal)
        if is_copy:
            self.run_copy()
        elif self.has(0.2):
            self.execute(portal)

    def run_copy(self):
        if self.has(0.5):
            self.say(self.pick("SH"))
        self.maybe_wait()
        self.copy_data()

    def execute(self, portal):
        self.say("E", portal, self.pick((0, 0, 0, 1, 2)))

    def round(self):
        name = self.parse()
        if self.has(0.2):
            self.say("D", "S", name)
        if self.has(0.1):
            self.flush()
        self.run(name)

    def again(self):
        mine = [n for c, n in self.known if c == self.client]
        name = self.pick(mine if mine and self.has(0.93) else self.names)
        if self.has(0.2):
            self.say("D", "S", name)
        self.run(name)

    def describe(self):
        if self.has(0.6):
            self.say("D", "S", self.pick(self.names))
        else:
            self.say("D", "P", self.pick(PORTALS))

    def close(self):
        if self.has(0.6):
            self.say("C", "S", self.pick(self.names))
        else:
            self.say("C", "P", self.pick(PORTALS))

    def execute_only(self):
        self.execute(self.pick(PORTALS))

    def flush(self):
        self.say("H")
        self.maybe_wait(0.6)


def make(seed, mode="transaction", named=True, restored=(), is_wide=False, is_migrating=False):
    """Makes a sequence. `restored` are the clients that set parameters in their startup packets."""
    return Maker(seed, mode, named, restored, is_wide, is_migrating).sequence()
