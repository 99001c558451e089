"""SUSPEND and RESUME, SHOW FDS, and every command in each pause state."""

import os
import socket
import struct

import pytest

import waiting
import wire
from test_views import TRANSACTION

ALREADY = "already suspended/paused"


def answer(console, sql):
    """Returns the tag, or the text of the error."""
    result = console.query(sql, check=False)
    return result.errors[0].text() if result.errors else result.tag


def state(pooler):
    return [row["key"] for row in pooler.show("STATE") if row["value"] == "yes"]


def wait_strangers(pooler, count):
    """Waits until that many connections are accepted that have not sent anything."""
    waiting.wait_for(lambda: pooler.show_one("LISTS", list="login_clients")["items"] == str(count), "accepted")


@pytest.fixture
def shared(make_pooler, pg):
    return make_pooler({"db": pg.conn(), "other": pg.conn()}, settings=TRANSACTION)


def test_suspend_stops_everybody_and_resume_goes_on(shared):
    with shared.connect() as client, shared.connect() as busy:
        client.query("select 1")
        busy.query("begin")
        assert shared.admin.query("SUSPEND").tag == "SUSPEND"
        assert state(shared) == ["suspended"]
        client.send(wire.query("select 2"))
        busy.send(wire.query("select 3"))
        late = shared.client()
        late.send(late.startup_packet())
        for silent in (client, busy, late):
            assert not silent.has_data(0.2)
        assert shared.admin.query("RESUME").tag == "RESUME"
        assert client.finish().value == "2"
        assert busy.finish().value == "3"
        late.authenticate()
        assert late.query("select 4").value == "4"
        late.close()
    assert state(shared) == ["active"]


def test_suspend_waits_for_a_message_in_transit(shared):
    """Half of a message was forwarded, so SUSPEND waits for the other half."""
    text = wire.query("select length('%s')" % ("x" * 100000))
    with shared.connect() as client:
        client.query("select 1")
        client.send(text[:90000])
        shared.wait_pool(sv_active=1)
        shared.admin.send(wire.query("SUSPEND"))
        assert not shared.admin.has_data(0.2)
        client.send(text[90000:])
        assert shared.admin.finish().tag == "SUSPEND"
        assert shared.admin.query("RESUME").tag == "RESUME"
        assert client.finish().value == "100000"


def test_suspend_keeps_a_message_that_did_not_begin_to_leave(shared):
    text = wire.query("select 5")
    with shared.connect() as client:
        client.query("select 1")
        client.send(text[:7])
        assert shared.admin.query("SUSPEND").tag == "SUSPEND"
        client.send(text[7:])
        assert not client.has_data(0.2)
        shared.admin.query("RESUME")
        assert client.finish().value == "5"


def test_suspend_keeps_who_waits_for_a_server(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, default_pool_size=1,
                                                          query_wait_timeout=1))
    with pooler.connect() as holder, pooler.connect() as waiter:
        holder.query("begin")
        waiter.send(wire.query("select 6"))
        pooler.wait_pool(cl_waiting=1)
        assert pooler.admin.query("SUSPEND").tag == "SUSPEND"
        assert not waiter.has_data(1.5)  # timeouts stop during SUSPEND
        pooler.set("query_wait_timeout", 30)
        pooler.admin.query("RESUME")
        holder.query("commit")
        assert waiter.finish().value == "6"


def test_suspend_keeps_a_login_that_waits_for_a_server(make_pooler, pg):
    """SUSPEND is answered at once, although the login cannot go on, and closes nobody."""
    database = waiting.PORTS.take()
    pooler = make_pooler({"db": "host=127.0.0.1 port=%d dbname=postgres" % database},
                         settings=dict(TRANSACTION, suspend_timeout=waiting.DEADLINE * 3, server_login_retry=0.1))
    with pooler.client() as client:
        client.send(client.startup_packet())
        pooler.wait_pool(cl_waiting=1)
        assert pooler.admin.query("SUSPEND").tag == "SUSPEND"
        pooler.databases["db"] = pg.conn()
        pooler.write_files()
        pooler.admin.query("RELOAD")
        assert not client.has_data(0.2)
        pooler.admin.query("RESUME")
        assert client.authenticate().value("select 8") == "8"


def test_suspend_keeps_who_waits_for_auth_query(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(auth_user="trust_user", pool_size=1, auth_query="select $1, 'x'")},
                         settings=dict(TRANSACTION, suspend_timeout=waiting.DEADLINE * 3))
    with pooler.connect() as holder, pooler.client(user="second_user", secret="x") as client:
        holder.query("begin")
        pooler.userlist.pop("second_user")
        pooler.write_files()
        pooler.admin.query("RELOAD")
        client.send(client.startup_packet())
        pooler.wait_pool(cl_waiting=1)
        assert pooler.admin.query("SUSPEND").tag == "SUSPEND"
        assert not client.has_data(0.2)
        pooler.admin.query("RESUME")
        holder.query("commit")
        assert client.authenticate().value("select 9") == "9"


def test_suspend_timeout_drops_stragglers(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, suspend_timeout=1))
    text = wire.query("select length('%s')" % ("x" * 100000))
    with pooler.connect() as client, pooler.raw() as stranger, pooler.connect() as quiet:
        wait_strangers(pooler, 1)
        client.query("select 1")
        client.send(text[:90000])
        pooler.wait_pool(sv_active=1)
        assert pooler.admin.query("SUSPEND").tag == "SUSPEND"
        stranger.expect_fatal("suspend_timeout")
        pooler.wait_log(r"LOG C-\S+ db/trust_user@\S+ closing because: suspend_timeout")
        pooler.admin.query("RESUME")
        assert quiet.query("select 7").value == "7"


def test_long_query_runs_on_while_suspended(shared):
    with shared.connect() as client:
        client.send(wire.query("select pg_sleep(0.5), 8"))
        shared.wait_pool(sv_active=1)
        assert shared.admin.query("SUSPEND").tag == "SUSPEND"
        assert not client.has_data(1)
        shared.admin.query("RESUME")
        assert client.finish().rows[0][1] == "8"


def test_last_console_takes_suspend_along(shared):
    with shared.connect() as client:
        first, second = shared.console(), shared.console()
        assert first.query("SUSPEND").tag == "SUSPEND"
        first.close()
        client.send(wire.query("select 9"))
        assert not client.has_data(0.2)
        second.close()
        shared.consoles.clear()
        assert client.finish().value == "9"
    shared.wait_log("LOG admin disappeared when suspended, doing RESUME$")


def test_cancel_ends_suspend(shared):
    """A cancel request with a console's key also ends SUSPEND, on a connection that was opened
    before."""
    with shared.raw() as early:
        wait_strangers(shared, 1)
        waiter = shared.console()
        waiter.send(wire.query("SUSPEND"))
        waiting.wait_for(lambda: state(shared) == ["suspended"], "suspended")
        early.send(wire.cancel_request(waiter.key))
        waiting.wait_for(lambda: state(shared) == ["active"], "active again")
        assert waiter.finish().errors[0].text() == "suspend was interrupted by a cancel request"


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_signals_while_suspended(shared, name):
    shared.admin.query("SUSPEND")
    shared.expected_exit, shared.may_log_fatal = 1, True
    shared.signal(name)
    assert shared.wait_exit() == 1
    shared.wait_log("FATAL suspend was in progress, going down immediately$")
    assert os.path.exists(shared.path(".s.PGSQL.%d" % shared.port))


# every command in each pause state

STATES = {
    "none": ["PAUSE", "RESUME"],  # The PAUSE and RESUME leave no pause behind.
    "paused": ["PAUSE"],
    "database paused": ["PAUSE db"],
    "suspended": ["SUSPEND"],
}

ANSWERS = {
    # command: its answers in the states of STATES, in their order
    "PAUSE": ["PAUSE", ALREADY, "PAUSE", ALREADY],
    "PAUSE db": ["PAUSE", ALREADY, "PAUSE", ALREADY],
    "PAUSE other": ["PAUSE", ALREADY, "PAUSE", ALREADY],
    "RESUME": ["pooler is not paused/suspended", "RESUME", "pooler is not paused/suspended", "RESUME"],
    "RESUME db": ["database db is not paused"] * 2 + ["RESUME", "database db is not paused"],
    "SUSPEND": ["SUSPEND", ALREADY, "cannot suspend with paused databases", ALREADY],
    "KILL db": ["KILL", ALREADY, "KILL", ALREADY],
    "KILL": ["KILL", ALREADY, "KILL", ALREADY],
    "DISABLE db": ["DISABLE"] * 4,
    "ENABLE db": ["ENABLE"] * 4,
    "RECONNECT": ["RECONNECT"] * 4,
    "RECONNECT db": ["RECONNECT"] * 4,
    "WAIT_CLOSE": ["WAIT_CLOSE"] * 4,
    "WAIT_CLOSE db": ["WAIT_CLOSE"] * 4,
    "RELOAD": ["RELOAD"] * 4,
    "SET query_timeout = 7": ["SET query_timeout=7"] * 4,
    "KILL_CLIENT 999999": ["client not found"] * 4,
    "SHOW FDS": ["SHOW"] * 4,
    "SHUTDOWN WAIT_FOR_CLIENTS": ["SHUTDOWN"] * 4,
}


@pytest.mark.parametrize("before", STATES)
def test_commands_in_each_state(make_pooler, pg, before):
    """One console sets the state, and another console sends the command."""
    position = list(STATES).index(before)
    for sql, answers in ANSWERS.items():
        pooler = make_pooler({"db": pg.conn(), "other": pg.conn()}, settings=TRANSACTION)
        with pooler.connect() as client:
            client.query("select 1")
            assert pooler.admin
            second = pooler.console()
            for step in STATES[before]:
                assert answer(pooler.admin, step) == step.split()[0]
            assert answer(second, sql) == answers[position], (before, sql)
            # A suspended pooler accepts nobody, and its end looks at all views.
            second.query("RESUME", check=False)
        pooler.stop()
        pooler.remove()


def test_two_consoles_suspend_at_once(shared):
    text = wire.query("select length('%s')" % ("x" * 100000))
    first, second = shared.console(), shared.console()
    with shared.connect() as client:
        client.query("select 1")
        client.send(text[:90000])
        shared.wait_pool(sv_active=1)
        first.send(wire.query("SUSPEND"))
        assert not first.has_data(0.1)
        assert answer(second, "SUSPEND") == ALREADY
        assert answer(second, "PAUSE") == ALREADY
        assert answer(second, "RESUME") == "RESUME"
        assert first.finish().errors[0].text() == "suspend was interrupted by RESUME"
        client.send(text[90000:])
        assert client.finish().value == "100000"


# SHOW FDS


def test_fds_are_listed(shared):
    with shared.connect(application_name="me") as client, shared.connect() as idle, shared.raw() as stranger:
        wait_strangers(shared, 1)
        idle.query("select 1")
        client.query("begin")
        # Each worker shows its own connections in this order.
        order = [("pooler", None), ("client", None), ("client", "trust_user"), ("server", "trust_user")]
        rows = sorted(shared.show("FDS"), key=lambda r: order.index((r["task"], r["user"])))
        assert [(r["task"], r["user"], r["database"]) for r in rows] == [
            ("pooler", None, None), ("pooler", None, None), ("client", None, None),
            ("client", "trust_user", "db"), ("client", "trust_user", "db"), ("server", "trust_user", "db")]
        linked = [r for r in rows if r["link"] != "0"]
        assert [linked[0]["fd"], linked[1]["fd"]] == [linked[1]["link"], linked[0]["link"]]
        keys = {str(struct.unpack(">q", c.key)[0]) for c in (client, idle)}
        assert {r["cancel"] for r in rows if r["database"] and r["task"] == "client"} == keys
        assert (rows[0]["addr"], rows[0]["port"]) == ("127.0.0.1", str(shared.port))
        assert rows[1]["addr"] == "unix"
        assert rows[3]["client_encoding"] == "UTF8" and rows[3]["std_strings"] == "on"
        assert {r["password"] for r in rows} == {None}
        own = [r for r in rows if r["port"] == str(client.sock.getsockname()[1])]
        assert len(own) == 1
        stranger.close()
    assert answer(shared.console("stats_user"), "SHOW FDS") == "admin access needed"


def owner_console(pooler):
    """Logs in as the account of the process, which the pooler learns from the kernel."""
    if os.getuid() == 0:
        os.seteuid(pooler.account.pw_uid)
    try:
        console = pooler.client("pgbouncer", "pgbouncer", unix=True)
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
    return console.login()


def receive_rows(console):
    """Returns the rows of SHOW FDS as lists, each with the socket that was passed with it."""
    data, passed = b"", []
    while not data.endswith(wire.ready()):
        more, control, _, _ = console.sock.recvmsg(65536, socket.CMSG_SPACE(64))
        data += more
        for _, _, raw in control:
            passed += [socket.socket(fileno=fd) for fd, in struct.iter_unpack("i", raw)]
    console.pending = data
    return list(zip(console.finish().dicts(), passed, strict=True))


def test_owner_gets_the_descriptors(shared):
    with shared.connect() as client, owner_console(shared) as console:
        client.query("select 1")
        console.query("SUSPEND")
        console.send(wire.query("SHOW FDS"))
        rows = receive_rows(console)
        assert [row["task"] for row, _ in rows] == ["pooler", "pooler", "client", "server"]
        assert rows[0][1].getsockname() == ("127.0.0.1", shared.port)
        assert rows[1][1].getsockname() == shared.path(".s.PGSQL.%d" % shared.port)
        assert rows[2][1].getpeername() == client.sock.getsockname()
        assert rows[3][1].getpeername()[1] == int(rows[3][0]["port"])
        for _, passed in rows:
            passed.close()
        console.query("RESUME")
        assert client.query("select 2").value == "2"
