"""Sequences for session_state=keep: what a client has left in its session is there afterwards, and for nobody
else.

A pool of N servers lets N - 1 stay with their clients, so only as many clients may leave what keeps a server;
the connection that listens for all is one of them."""

import re

# What pins a server, or ends what does; NUMBER is the client's own.
PINNING = """
create temp table kept (n int)
create temp table if not exists kept_too as select g as n from generate_series(1, 3) g
insert into kept values (1)
insert into kept values (2) returning n
select count(*) from kept
select sum(n) from kept_too
drop table kept
drop table if exists kept, kept_too
discard temp
do $$ begin create temp table kept (n int); end $$
declare held cursor with hold for select g from generate_series(1, 6) g
fetch 2 from held
close held
close all
select pg_advisory_lock(NUMBER1)
select pg_advisory_lock(NUMBER2), pg_advisory_lock(NUMBER3)
select pg_advisory_unlock(NUMBER1)
select pg_advisory_unlock(NUMBER3)
select pg_advisory_unlock_all()
select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
prepare q1 as select 'from sql', 7
prepare q2 (int) as select $1 + 1
execute q1
execute q2(2)
deallocate q1
deallocate q2
""".strip("\n").split("\n")

SETTING = """
set work_mem = '2MB'
set session work_mem to '3MB'
set work_mem = 'nonsense'
reset work_mem
set work_mem to default
select set_config('work_mem', '4567kB', false)
select set_config('work_mem', '5MB', true)
update pg_settings set setting = 1234 where name = 'work_mem'
do $$ begin perform set_config('work_mem', '6MB', false); end $$
do $$ begin perform set_config('app.a', 'by a DO', false); end $$
do $$ begin perform set_config('app.a', 'in vain', false); raise exception 'thrown'; end $$
set app.a = 'one'
set "App"."B" to 'quoted'
set app.a = 'it''s \u20ac'
set local app.a = 'only here'
reset app.a
set search_path = other, public
set search_path = public, other
set schema 'other'
reset search_path
set extra_float_digits = -7
set bytea_output = 'escape'
set timezone_abbreviations = 'India'
set local timezone_abbreviations = 'India'
do $$ begin set local bytea_output = 'escape'; end $$
do $$ begin perform set_config('timezone_abbreviations', 'India', true); end $$
set lock_timeout = '7s'
set local role oracle_role
set role oracle_role
set role nobody_is_called_so
set role none
reset role
set session characteristics as transaction isolation level serializable
set session characteristics as transaction isolation level read committed
set default_transaction_deferrable = on
set enable_seqscan = off
set DateStyle = 'German'
set application_name = 'keeps'
reset DateStyle
reset all
discard all
""".strip("\n").split("\n")

SHOWING = """
show work_mem
select current_setting('work_mem'), current_setting('lock_timeout'), current_setting('enable_seqscan')
select coalesce(current_setting('app.a', true), ''), coalesce(current_setting('app.b', true), '')
show search_path
select count(*), min(v) from shared
select current_user, session_user
select current_setting('transaction_isolation'), current_setting('default_transaction_deferrable')
select 1.0::float8 / 3, '\\\\x00ff'::bytea
select current_setting('DateStyle'), current_setting('application_name')
select '2020-01-01 12:00 IST'::timestamptz::text, '\\\\x41'::bytea::text
insert into T values (77, 'by whom'); delete from T where id = 77
""".strip("\n").split("\n")

# (text, the types of its parameters, see VALUES)
EXTENDED = [("select set_config($1, $2, false)", "nv"), ("select set_config($1, $2, true)", "nv")]
VALUES = {"n": ("work_mem", "app.a", "App.B", "search_path", "bytea_output", "app.a"),
          "v": ("1MB", "other", "escape", "", "it's")}

LISTENING = ("listen news", "listen other", 'listen "Other"', "unlisten news", "unlisten *", "unlisten other")
UNLISTENING = tuple(sql for sql in LISTENING if sql.startswith("unlisten"))
NOTIFYING = ("notify news, 'N'", "notify other, 'N'", "select pg_notify('Other', 'N')",
             "notify news, 'N'; notify news, 'N'; notify other, 'N'")

RESETS = re.compile(r"\b(reset|discard)\b")
# What a text in other units may not do here: to pin a server, or to change how notifications are told.
PINS = re.compile(r"\btemp\b|\blisten\b|\bprepare\b|client_encoding", re.I)


class Keeping:
    """The part of a sequence that is about the session. maker: oracle_sequences.Maker."""

    def __init__(self, maker, servers):
        self.maker, self.pick, self.has = maker, maker.pick, maker.has
        self.listens = servers > 1 and self.has(0.3)
        self.pinning = set(maker.random.sample(range(1, 5), max(servers - 1 - self.listens, 0)))
        self.number = 0

    def unit(self):
        for _ in range(self.maker.random.randint(1, 3)):
            if self.listens and self.has(0.4):
                self.talk()
            elif self.has(0.4):
                self.block()
            else:
                self.text()
                self.end()
        self.maker.say("wait")

    def end(self):
        self.maker.end_any_block()

    def block(self):
        self.maker.say("Q", "begin")
        for _ in range(self.maker.random.randint(1, 4)):
            if self.has(0.1):
                self.maker.say("Q", self.pick(("savepoint k", "rollback to k", "release k", "select 1/0")))
            self.text()
        self.maker.say("Q", self.pick(("commit", "commit", "rollback")))
        self.end()

    def text(self):
        maker = self.maker
        if self.has(0.1):
            self.run(*self.pick(EXTENDED))
            return
        texts = self.pick((SETTING, SHOWING, PINNING if maker.client in self.pinning else SHOWING))
        sql = maker.table(self.pick(texts)).replace("NUMBER", str(maker.client * 100))
        if RESETS.search(sql):
            maker.reset(sql)
        elif ";" in sql.replace("; end", "").replace("; raise", "") or self.has(0.6):
            maker.say("Q", sql)
        else:
            self.run(sql, "")
        maker.maybe_wait()

    def run(self, sql, kinds):
        maker = self.maker
        name = self.pick(("", "", "s1"))
        if name:
            maker.say("C", "S", name)
        maker.say("P", name, sql, ())
        maker.say("B", "", name, tuple(self.pick(VALUES[k]) for k in kinds), (), ())
        maker.say("E", "", 0)
        if name:
            maker.say("C", "S", name)
        maker.say("S")

    def talk(self):
        """LISTEN or NOTIFY, outside of a block or within one that may be rolled back."""
        maker = self.maker
        is_block = self.has(0.3)
        # Notifications of the transaction that LISTENs come by two ways, and channels out of order (usage.md).
        channels, listening = NOTIFYING, UNLISTENING if is_block else LISTENING
        if is_block:
            maker.say("Q", "begin")
            if self.has(0.5):
                channels, listening = NOTIFYING[:1], LISTENING
        for _ in range(maker.random.randint(1, 2)):
            self.number += 1
            maker.say("Q", self.pick(channels if self.has(0.6) else listening).replace("N'", "%d'" % self.number))
            # A client's own notification comes a moment later, and an UNLISTEN may overtake it.
            if not is_block:
                maker.say("hear")
        if is_block:
            maker.say("Q", self.pick(("commit", "rollback")))
            self.end()
        maker.say("hear")
