"""Console commands on several consoles, repeated and in the wrong order, while clients work and
wait."""

import os
import subprocess

import pytest

import waiting
import wire
from test_views import TRANSACTION, VIEWS


def ask(console, sql):
    """Returns the tag of the answer, or the text of the error."""
    result = console.query(sql, check=False)
    return result.errors[0].text() if result.errors else result.tag


def commands(console):
    """Returns every command that SHOW HELP names except SHOW and EXPLAIN, with arguments that do no
    lasting harm."""
    usage = console.query("SHOW HELP").notices[0].field("D").split()
    known = [word for word in usage if word.isupper() and word.replace("_", "").isalpha()]
    words = [word for word in dict.fromkeys(known) if word not in ("SHOW", "EXPLAIN", "LOGIN", *VIEWS)]
    assert {"SET", "RELOAD", "PAUSE", "KILL", "KILL_CLIENT", "SHUTDOWN", "WAIT_CLOSE"} <= set(words)
    more = {"SET": ["SET verbose = 0"], "KILL_CLIENT": ["KILL_CLIENT 99999999"],
            "DISABLE": ["DISABLE db"], "ENABLE": ["ENABLE db"]}
    return [sql for word in words for sql in more.get(word, [word])]


def test_every_command_in_every_hand(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()})
    stats, whoever = pooler.console("stats_user"), pooler.connect()
    for sql in commands(pooler.console()):
        assert ask(stats, sql) == "admin access needed", sql
        assert "syntax error" in ask(whoever, sql) or sql.startswith("SET"), sql
        assert pooler.refusal("pgbouncer", "trust_user") == "not allowed"
    assert ask(stats, "SHOW FDS") == "admin access needed"
    assert whoever.value("select 1") == "1"


def test_every_command_for_the_own_account(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "scram-sha-256"})
    orders = [sql for sql in commands(pooler.console()) if sql not in ("SHUTDOWN", "KILL")]
    done = subprocess.run(
        ["psql", "-XAtq", "-h", pooler.dir, "-p", str(pooler.port), "-U", "pgbouncer", "-w", "pgbouncer"],
        input=";\n".join(orders) + ";\n", capture_output=True, text=True, cwd="/", timeout=90,
        env=dict(os.environ, PGPASSWORD=""), **waiting.run_as(pooler.account))
    assert done.returncode == 0 and "admin access needed" not in done.stderr, done.stderr
    pooler.wait_log(" LOG RELOAD command issued$")


def test_kill_ends_a_pause_that_waits(pooler):
    busy = pooler.connect()
    busy.query("begin")
    other = pooler.console()
    other.send(wire.query("PAUSE db"))
    admin = pooler.console()
    assert ask(admin, "KILL db") == "KILL"
    assert other.finish().tag == "PAUSE"
    busy.expect_fatal("database removed")
    assert ask(admin, "KILL db") == "KILL"
    assert ask(admin, "RESUME") == "pooler is not paused/suspended"
    assert ask(admin, "RESUME db") == "RESUME"
    assert ask(admin, "RESUME db") == "database db is not paused"
    assert pooler.connect().value("select 1") == "1"


def test_killed_console_that_waits(pooler):
    busy = pooler.connect()
    busy.query("begin")
    admin, waiter = pooler.admin, pooler.console()
    waiter.send(wire.query("PAUSE") + wire.query("WAIT_CLOSE"))
    assert waiter.recv_until("Z")[0].tag() == "WAIT_CLOSE"
    number = max(int(r["id"]) for r in pooler.show("CLIENTS") if r["database"] == "pgbouncer")
    assert ask(admin, "KILL_CLIENT %d" % number) == "KILL_CLIENT"
    waiter.expect_fatal("admin forced disconnect")
    assert ask(admin, "KILL") == "already suspended/paused"
    assert ask(admin, "RESUME") == "RESUME"
    assert busy.query("commit").tag == "COMMIT"
    assert busy.value("select 1") == "1"


def test_console_that_kills_itself(pooler):
    console = pooler.console()
    number = max(int(r["id"]) for r in pooler.show("CLIENTS"))
    console.send(wire.query("KILL_CLIENT %d" % number))
    console.expect_fatal("admin forced disconnect")


@pytest.mark.parametrize("end", ["commit", "KILL db", "killed client"])
def test_wait_close_of_a_server_in_use(pooler, end):
    busy = pooler.connect()
    busy.query("begin")
    waiter, admin = pooler.console(), pooler.console()
    assert ask(admin, "RECONNECT db") == "RECONNECT"
    waiter.send(wire.query("WAIT_CLOSE db") + wire.query("WAIT_CLOSE") + wire.query("SHOW VERSION"))
    assert waiter.finish().tag == "SHOW"
    assert not waiter.has_data(0.3)
    if end == "commit":
        busy.query("commit")
    elif end == "KILL db":
        assert ask(admin, end) == "KILL"
    else:
        number = [r["id"] for r in pooler.show("CLIENTS") if r["database"] == "db"][0]
        assert ask(admin, "KILL_CLIENT " + number) == "KILL_CLIENT"
    assert waiter.finish().tag == waiter.finish().tag == "WAIT_CLOSE"


def test_shutdowns_in_the_wrong_order(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(), "other": pg.conn()}, settings=TRANSACTION)
    busy, admin = pooler.connect(), pooler.connect("pgbouncer", "admin_user")
    busy.query("begin")
    assert [ask(admin, sql) for sql in (
        "PAUSE other", "SHUTDOWN WAIT_FOR_CLIENTS", "SHUTDOWN WAIT_FOR_SERVERS", "SHUTDOWN WAIT_FOR_CLIENTS",
        "PAUSE", "RESUME", "RESUME other", "RELOAD", "RECONNECT", "DISABLE db", "KILL", "SHOW STATE")] == [
        "PAUSE", "SHUTDOWN", "SHUTDOWN", "SHUTDOWN", "already suspended/paused", "pooler is shutting down",
        "RESUME", "RELOAD", "RECONNECT", "DISABLE", "already suspended/paused", "SHOW"]
    assert busy.value("select 1") == "1"
    busy.query("commit")
    for client in (busy, admin):
        client.close()
    assert pooler.wait_exit() == 0


def test_shutdown_tells_whoever_waits(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    busy, queued, idle = pooler.connect(), pooler.connect(), pooler.connect()
    busy.query("begin")
    queued.send(wire.query("select 1"))
    pooler.wait_pool(cl_waiting=1)
    assert pooler.admin.query("SHUTDOWN WAIT_FOR_SERVERS").tag == "SHUTDOWN"
    queued.expect_fatal("server shutting down")
    idle.send(wire.query("select 1"))
    idle.expect_fatal("server shutting down")
    assert busy.value("select 2") == "2"
    busy.query("commit")
    assert pooler.wait_exit() == 0


def test_shutdown_in_a_pause(pooler):
    client = pooler.connect()
    client.query("select 1")
    assert ask(pooler.admin, "PAUSE") == "PAUSE"
    client.send(wire.query("select 2"))
    pooler.wait_pool(cl_waiting=1)
    assert ask(pooler.admin, "SHUTDOWN WAIT_FOR_SERVERS") == "SHUTDOWN"
    client.expect_fatal("server shutting down")
    assert pooler.wait_exit() == 0


def test_disabled_auto_database_outlives_reloads(make_pooler, pg):
    pooler = make_pooler({"*": pg.conn()}, settings={"autodb_idle_timeout": 0.1})
    assert ask(pooler.admin, "DISABLE auto") == "DISABLE"
    for _ in range(3):
        pooler.reload()
        assert pooler.refusal("auto") == 'database "auto" is disabled'
    assert ask(pooler.admin, "ENABLE auto") == "ENABLE"
    pooler.connect("auto").close()


def test_signals_in_a_heap(pooler):
    client = pooler.connect()
    for _ in range(20):
        for name in ("USR1", "USR2", "HUP"):
            pooler.signal(name)
    pooler.wait_log("got SIGHUP")

    def is_active():
        if pooler.show("STATE")[0]["value"] == "yes":
            return True
        pooler.signal("USR2")
        return False

    waiting.wait_for(is_active, "resumed", pause=0.1)
    assert client.value("select 1") == "1"
