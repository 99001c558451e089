"""session_state=keep: what happens while the server has been asked what is left in its session, and does not
answer yet. The question reads pg_depend, which somebody else has locked."""

import contextlib

import pytest

import waiting
import wire
from test_keep import error_of, kinds, owner
from test_takeover import restart  # noqa: F401

LOCK = 4712
SQL = "select leaves()"


@pytest.fixture(params=[1, 3], ids=["1 worker", "3 workers"])
def workers(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["nothing left", "pinned"])
def is_left(request):
    return request.param


class Held:
    """client has sent SQL, and its server, with process id pid, waits with the answer to the question."""

    def __init__(self, pooler, pg, is_left, stack):
        self.pooler, self.pg, self.is_left, self.stack = pooler, pg, is_left, stack
        self.client = owner(pooler, application_name="held")
        self.other = owner(pooler)
        self.client.query("set work_mem = '1234kB'")
        assert self.other.value("show work_mem") == "4MB"
        self.holder = stack.enter_context(pg.client())
        self.holder.query("begin")
        self.holder.query("lock table pg_catalog.pg_depend in access exclusive mode")
        self.client.send(wire.query(SQL))
        waiting.wait_for(lambda: self.waiting_pids(), "the question waits")
        self.pid, = self.waiting_pids()

    def waiting_pids(self):
        return (self.pg.value("select string_agg(pid::text, ' ') from pg_stat_activity where wait_event_type = 'Lock' "
                              "and query like '%pg_my_temp_schema%'") or "").split()

    def release(self):
        self.holder.query("rollback")

    def answer(self):
        return wire.Result(self.client.recv_until("Z"))

    def check(self):
        """The client has its session, and nobody else has something of it."""
        for _ in range(2):
            assert self.other.value("show work_mem") == "4MB"
            assert self.client.value("show work_mem") == "1234kB"
        assert kinds(self.pooler) == (["advisory lock"] if self.is_left else [])


@pytest.fixture
def held(make_pooler, pg, workers, is_left):
    """held(**settings) returns what is described above; the database has two hosts, which are the same server."""
    pg.do("create or replace function leaves() returns void language plpgsql as $$ begin %s end $$"
          % ("perform pg_advisory_lock(%d);" % LOCK if is_left else ""))
    with contextlib.ExitStack() as stack:
        def make(**more):
            pooler = make_pooler(
                {"db": pg.conn(pool_size=3, load_balance_hosts="disable").replace(
                    "127.0.0.1", "127.0.0.1,%s" % pg.dir)},
                settings=dict({"pool_mode": "transaction", "session_state": "keep", "workers": workers,
                               "log_connections": 0}, **more))
            return Held(pooler, pg, is_left, stack)

        yield make
    pg.do("drop function leaves()")


def is_paused(pooler):
    return pooler.show_one("DATABASES", name="db")["paused"] == "1"


def end_of(console):
    """Returns the last answer of a command that has been sent."""
    return wire.Result(console.recv_until("Z"))


@pytest.mark.parametrize("command", ["PAUSE db", "SWITCHOVER db TO %s"])
def test_commands_that_wait(held, command):
    """They wait for the answer, and for the pin, and the client has its session at the next host."""
    one = held()
    console = one.pooler.console()
    console.send(wire.query(command.replace("%s", '"%s:%d"' % (one.pg.dir, one.pg.port))))
    waiting.wait_for(lambda: is_paused(one.pooler), "it has begun")
    assert not console.has_data(0.1)
    one.release()
    assert not one.answer().errors
    if one.is_left:
        assert kinds(one.pooler) == ["advisory lock"]
        assert not console.has_data(0.1)
        assert one.client.value("select pg_advisory_unlock(%d)" % LOCK) == "t"
        one.is_left = False
    assert not end_of(console).errors
    if command.startswith("PAUSE"):
        one.pooler.admin.query("RESUME db")
    one.check()
    on_socket = one.client.value("select inet_server_addr() is null") == "t"
    assert on_socket == command.startswith("SWITCHOVER")
    console.close()


def test_reconnect(held):
    one = held()
    one.pooler.admin.query("RECONNECT db")
    one.release()
    assert not one.answer().errors
    one.check()
    assert (one.client.value("select pg_backend_pid()") == one.pid) == one.is_left


def test_cancel(held):
    """There is no query of the client any more."""
    one = held()
    one.client.cancel()
    one.release()
    assert not one.answer().errors
    one.check()


def test_cancel_of_what_was_sent_behind_it(held):
    one = held()
    one.client.send(wire.query("select 'next'"))
    one.client.cancel()
    one.release()
    assert not one.answer().errors
    result = one.answer()
    assert error_of(result)["C"] == "57014" if result.errors else result.value == "next"
    one.check()


def test_postgresql_cancels_the_question(held):
    """It is asked once more."""
    one = held()
    assert one.pg.value("select pg_cancel_backend(%s)" % one.pid) == "t"
    waiting.wait_for(lambda: one.waiting_pids(), "the question waits again")
    one.release()
    assert not one.answer().errors
    one.check()


def test_server_ends(held):
    """Only its client notices."""
    one = held()
    one.pg.value("select pg_terminate_backend(%s)" % one.pid)
    with pytest.raises((wire.Closed, ConnectionError)):
        while True:
            one.client.recv()
    one.release()
    assert one.other.value("show work_mem") == "4MB"
    assert kinds(one.pooler) == [] and one.pooler.pool(user="owner")["sv_pinned"] == 0


@pytest.mark.parametrize("how", ["it leaves", "it vanishes", "KILL_CLIENT", "KILL", "query_timeout"])
def test_client_ends(held, how):
    one = held(query_timeout=0.5) if how == "query_timeout" else held()
    if how == "it leaves":
        one.client.send(wire.terminate())
    if how in ("it leaves", "it vanishes"):
        one.client.close()
    elif how == "KILL":
        one.pooler.admin.query("KILL db")
        one.pooler.admin.query("RESUME db")
        one.other = None
    elif how == "KILL_CLIENT":
        one.pooler.admin.query("KILL_CLIENT %s" % one.pooler.show_one("CLIENTS", application_name="held")["id"])
    if how not in ("it leaves", "it vanishes"):
        one.client.sock.settimeout(waiting.DEADLINE)
        with pytest.raises((wire.Closed, ConnectionError)):
            while True:
                one.client.recv()
    one.release()
    one.other = one.other or owner(one.pooler)
    waiting.wait_for(lambda: one.pooler.pool(user="owner")["sv_active"] == 0, "no server is in use")
    assert kinds(one.pooler) == [] and one.pooler.pool(user="owner")["sv_pinned"] == 0
    for client in (one.other, owner(one.pooler)):
        assert client.value("show work_mem") == "4MB"
        assert client.value("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()") == "0"


def test_takeover(held, restart):  # noqa: F811
    one = held()
    restart.begin(one.pooler)
    one.pooler.wait_log("takeover")
    one.release()
    assert not one.answer().errors
    waiting.wait_for(lambda: restart.is_up(one.pooler), "the new process is up")
    waiting.wait_for(lambda: bool(kinds(one.pooler)) == one.is_left, "the client has followed")
    one.check()


def test_setting_is_changed(held):
    """The answer counts no more."""
    one = held()
    one.pooler.set("session_state", "forward")
    one.release()
    assert not one.answer().errors
    assert one.other.value("select 1") == "1"
    assert not one.client.query("select 1", check=False).errors
    assert kinds(one.pooler) == [] and one.pooler.pool(user="owner")["sv_pinned"] == 0


def test_pipeline(held):
    """What was sent behind it is answered behind it, also behind an error."""
    one = held()
    one.client.send(wire.query("select 1/0"), wire.parse("", "select 'last'"), wire.bind(), wire.execute(), wire.sync())
    one.release()
    assert not one.answer().errors
    assert error_of(one.answer())["C"] == "22012"
    assert one.answer().value == "last"
    one.check()
