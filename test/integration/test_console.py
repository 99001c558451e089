"""The admin console: syntax, protocol, access, commands (operation.md 1 to 4)."""

import os
import threading

import pytest

import waiting
import wire
from test_views import TRANSACTION, VIEWS, columns


# syntax


INVALID = [
    "", " ", ";", ";;", "SHOW", "SHOW nonsense", "SHOW version()", "SHOW VERSION; SHOW VERSION",
    "SHOW VERSION;;", "SHOW VERSION extra", "select 1", "select version()", "-- comment",
    "/* x */ SHOW VERSION", "nonsense", "BEGIN", "SHUTDOWN NOW", "RELOAD now", "SHOW 'version'",
    "SET", "SET x", "SET x =", "SET query_timeout = 1.5", "SET query_timeout = -1",
    "SET auth_type = scram-sha-256", "PAUSE a b", 'SHOW "version', "SHOW\x0bVERSION",
]


@pytest.mark.parametrize("sql", INVALID)
def test_invalid_commands(pooler, sql):
    result = pooler.admin.query(sql, check=False)
    assert result.kinds() == "EZ" and result.status == "I"
    assert result.errors[0].raw() == wire.error(
        "ERROR", "08P01", "invalid command '%s', use SHOW HELP;" % sql)
    assert pooler.admin.value("SHOW VERSION")


@pytest.mark.parametrize("sql", [
    "X" * 16 + " a", "PAUSE " + "d" * 64, "SET " + "k" * 64 + " = 1",
    "SET server_reset_query = '%s'" % ("v" * 254)])
def test_bad_arguments(pooler, sql):
    assert pooler.admin.query(sql, check=False).errors[0].text() == "bad arguments"


@pytest.mark.parametrize("sql", [
    "show version", "SHOW VERSION;", " \t\r\n SHOW \n VERSION \t;  ", 'SHOW "version"', '"SHOW" VERSION',
    'select "VERSION" ;', "SELECT version"])
def test_accepted_forms(pooler, sql):
    assert pooler.admin.query(sql).tag == "SHOW"


@pytest.mark.parametrize("sql, key, value", [
    ("SET query_timeout=7", "query_timeout", "7"),
    ("set query_timeout TO 7;", "query_timeout", "7"),
    ("SET query_timeout = '7.5'", "query_timeout", "7.5"),
    ("SET server_reset_query = 'select ''x'''", "server_reset_query", "select 'x'"),
    ('SET server_reset_query = "a ""b"""', "server_reset_query", 'a "b"'),
    ("SET server_reset_query = ''", "server_reset_query", ""),
    ("SET auth_type = 'scram-sha-256'", "auth_type", "scram-sha-256"),
    ("SET listen_port = 1", "listen_port", "1"),
])
def test_set(pooler, sql, key, value):
    console, before = pooler.admin, pooler.config()
    result = console.query(sql)
    assert result.tag == "SET %s=%s" % (key, value)
    assert [notice.field("M") for notice in result.notices] == (
        ["listen_port keeps its value until the next start, which reads it from the file"] if key == "listen_port" else [])
    after = pooler.config()
    assert after[key] == (before[key] if key == "listen_port" else value)


@pytest.mark.parametrize("sql", ["SET nonsense = 1", "SET query_timeout = 'x'", "SET pool_mode = fast",
                                 "SET syslog = on", "SET auth_dbname = pgbouncer"])
def test_set_that_fails(pooler, sql):
    before = pooler.config()
    error, = pooler.admin.query(sql, check=False).errors
    assert [error.field(letter) for letter in "SCM"] == ["ERROR", "08P01", "SET failed"]
    assert error.field("D"), "the reason stands in DETAIL"
    assert pooler.config() == before


def test_quoted_database_names(make_pooler, pg):
    pooler = make_pooler({"'odd \"name'": pg.conn(), "CaseD": pg.conn()})
    assert pooler.admin.query('PAUSE "odd ""name"').tag == "PAUSE"
    assert pooler.show_one("DATABASES", name='odd "name')["paused"] == "1"
    assert pooler.admin.query('RESUME "odd ""name"').tag == "RESUME"
    assert pooler.admin.query("DISABLE CaseD").tag == "DISABLE"
    assert pooler.admin.query('ENABLE "CaseD"').tag == "ENABLE"
    assert pooler.admin.query("PAUSE cased", check=False).errors[0].text() == "no such database: cased"


@pytest.mark.parametrize("name, value", [
    ("client_encoding", "UTF-8"), ("default_transaction_isolation", "read committed"),
    ("standard_conforming_strings", "on"), ("datestyle", "ISO"), ("timezone", "GMT")])
@pytest.mark.parametrize("user", ["admin_user", "stats_user"])
def test_parameters_of_drivers(pooler, user, name, value):
    console = pooler.console(user)
    result = console.query("SHOW " + name.upper())
    assert result.columns == columns(name + ":s") and result.rows == [(value,)]
    result = console.query("SET %s = 'anything'" % name)
    assert result.kinds() == "NCZ" and result.tag == "SET"
    assert result.notices[0].raw() == wire.fields(
        "N", [("S", "NOTICE"), ("C", "00000"), ("M", "SET ignored")])


# the protocol


def test_commands_in_a_row(pooler):
    pooler.admin.send(wire.query("SHOW VERSION") * 20)
    for _ in range(20):
        assert pooler.admin.finish().kinds() == "TDCZ"


def test_command_in_pieces(pooler):
    pooler.admin.send_slowly(wire.query("SHOW VERSION"))
    assert pooler.admin.finish().tag == "SHOW"


def test_big_command(make_pooler):
    pooler = make_pooler({"db": ""}, settings={"pkt_buf": 128})
    sql = "SHOW " + "x" * 20000
    error = pooler.admin.query(sql, check=False).errors[0]
    assert error.field("C") == "08P01"
    assert pooler.admin.value("SHOW VERSION")


@pytest.mark.parametrize("data, text", [
    (wire.parse("", "SHOW VERSION"), "extended query protocol not supported by admin console"),
    (wire.bind(), "extended query protocol not supported by admin console"),
    (wire.execute(), "extended query protocol not supported by admin console"),
    (wire.describe("S"), "unsupported packet type for admin console: 68"),
    (wire.sync(), "unsupported packet type for admin console: 83"),
    (wire.flush(), "unsupported packet type for admin console: 72"),
    (wire.close("P"), "unsupported packet type for admin console: 67"),
    (wire.message("F", b"\0" * 10), "unsupported packet type for admin console: 70"),
])
def test_extended_protocol_is_refused(pooler, data, text):
    console = pooler.connect("pgbouncer", "admin_user")
    console.send(data)
    console.expect_error(text, "ERROR")
    assert console.recv().raw() == wire.ready()
    console.expect_fatal("bad packet")


def test_copy_messages_are_ignored(pooler):
    pooler.admin.send(wire.copy_data("x"), wire.copy_done(), wire.copy_fail("y"))
    assert pooler.admin.value("SHOW VERSION")


def test_unknown_message(pooler):
    console = pooler.connect("pgbouncer", "admin_user")
    console.send(wire.message("!", b"x"))
    console.expect_fatal("unknown pkt")


def test_terminate(pooler):
    console = pooler.connect("pgbouncer", "admin_user")
    console.send(wire.terminate())
    console.expect_closed()


# access


def test_stats_user_may_only_look(pooler):
    console = pooler.console("stats_user")
    for view in VIEWS:
        assert console.query("SHOW " + view).tag == "SHOW"
    for sql in ("SET query_timeout = 1", "RELOAD", "PAUSE", "PAUSE db", "RESUME", "RESUME db",
                "DISABLE db", "ENABLE db", "RECONNECT", "RECONNECT db", "KILL", "KILL db",
                "KILL_CLIENT 1", "WAIT_CLOSE", "WAIT_CLOSE db", "SUSPEND", "SWITCHOVER db", "TAKEOVER 2", "SHUTDOWN",
                "SHUTDOWN WAIT_FOR_SERVERS", "SHUTDOWN WAIT_FOR_CLIENTS"):
        result = console.query(sql, check=False)
        assert result.kinds() == "EZ", sql
        assert result.errors[0].raw() == wire.error("ERROR", "08P01", "admin access needed"), sql
    assert pooler.connect().value("select 1") == "1"


def test_others_are_not_let_in(pooler):
    assert pooler.refusal("pgbouncer", "trust_user") == "not allowed"
    assert pooler.refusal("pgbouncer", "unknown") == '"trust" authentication failed'
    assert pooler.refusal("pgbouncer", "pgbouncer") in (
        "not allowed", '"trust" authentication failed')
    assert pooler.refusal("pgbouncer", "") == "no username supplied"


def test_password_of_the_console(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "scram-sha-256"})
    assert pooler.refusal("pgbouncer", "admin_user", "wrong") == "SASL authentication failed"
    assert pooler.refusal("pgbouncer", "trust_user", "wrong") == "SASL authentication failed"
    assert pooler.refusal("pgbouncer", "plain_user") == "not allowed"
    assert pooler.refusal("pgbouncer", "unknown", "wrong") == "SASL authentication failed"
    assert pooler.admin.value("SHOW VERSION")


def own_console(pooler, user="pgbouncer"):
    """Runs psql as the account of the pooler over its unix socket."""

    import subprocess
    return subprocess.run(
        ["psql", "-XAtq", "-h", pooler.dir, "-p", str(pooler.port), "-U", user, "-w", "pgbouncer",
         "-c", "PAUSE", "-c", "RESUME", "-c", "SHOW VERSION"], capture_output=True, text=True,
        env=dict(os.environ, PGPASSWORD=""), cwd="/", timeout=90, **waiting.run_as(pooler.account))


def test_own_account_needs_no_password(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "scram-sha-256"})
    done = own_console(pooler)
    assert done.returncode == 0, done.stderr
    assert "PgBouncer" in done.stdout
    pooler.wait_log(r" LOG C-0x\S+ \S+/pgbouncer@unix\(\d+\):%d pgbouncer access from unix socket$"
                    % pooler.port)
    pooler.wait_log(r" LOG C-0x\S+ pgbouncer/pgbouncer@unix\(\d+\):%d login attempt: db=pgbouncer user=pgbouncer "
                    "tls=no replication=no$" % pooler.port)
    assert own_console(pooler, "admin_user").returncode != 0


@pytest.mark.skipif(os.getuid() != 0, reason="needs a second account")
def test_other_accounts_need_one(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()})
    assert pooler.refusal("pgbouncer", "pgbouncer", unix=True) in (
        "not allowed", '"trust" authentication failed')


def test_auth_any(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, settings={"auth_type": "any"})
    assert pooler.admin.query("RELOAD").tag == "RELOAD"
    other = pooler.connect("pgbouncer", "whoever")
    assert other.query("SHOW POOLS").tag == "SHOW"
    assert other.query("RELOAD", check=False).errors[0].text() == "admin access needed"
    assert {r["user"] for r in pooler.show("CLIENTS")} == {"pgbouncer"}


def test_console_is_exempt_from_max_client_conn(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"max_client_conn": 1})
    held = pooler.connect()
    assert pooler.refusal() == "no more connections allowed (max_client_conn)"
    assert pooler.admin.value("SHOW VERSION")
    held.close()


def test_console_is_exempt_from_timeouts(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={
        "client_idle_timeout": 0.3, "query_timeout": 0.3, "server_lifetime": 0.3})
    pooler.admin.value("SHOW VERSION")
    assert not pooler.admin.has_data(1)
    assert pooler.admin.value("SHOW VERSION")


def test_errors_are_logged_twice(pooler):
    pooler.admin.query("PAUSE absent", check=False)
    pooler.wait_log(r" ERROR no such database: absent$")
    pooler.wait_log(r" WARNING C-0x\S+ pgbouncer/\S+ pooler error: no such database: absent$")


# commands


NEEDED = [
    ("PAUSE absent", "no such database: absent"), ("RESUME absent", "no such database: absent"),
    ("DISABLE absent", "no such database: absent"), ("ENABLE absent", "no such database: absent"),
    ("RECONNECT absent", "no such database: absent"), ("KILL absent", "no such database: absent"),
    ("WAIT_CLOSE absent", "no such database: absent"),
    ("PAUSE pgbouncer", "cannot pause admin db: pgbouncer"),
    ("DISABLE pgbouncer", "cannot disable admin db: pgbouncer"),
    ("ENABLE pgbouncer", "cannot enable admin db: pgbouncer"),
    ("RECONNECT pgbouncer", "cannot reconnect admin db: pgbouncer"),
    ("KILL pgbouncer", "cannot kill admin db: pgbouncer"),
    ("WAIT_CLOSE pgbouncer", "cannot wait in admin db: pgbouncer"),
    ("DISABLE", "a database is required"), ("ENABLE", "a database is required"),
    ("RESUME", "pooler is not paused/suspended"), ("RESUME db", "database db is not paused"),
    ("KILL_CLIENT", "invalid client pointer supplied"),
    ("KILL_CLIENT abc", "invalid client pointer supplied"),
    ("KILL_CLIENT 99999999", "client not found"),
]


@pytest.mark.parametrize("sql, text", NEEDED)
def test_command_errors(pooler, sql, text):
    result = pooler.admin.query(sql, check=False)
    assert result.kinds() == "EZ"
    assert result.errors[0].raw() == wire.error("ERROR", "08P01", text)


@pytest.mark.parametrize("sql", ["RELOAD", "PAUSE", "PAUSE db", "RECONNECT", "RECONNECT db",
                                 "DISABLE db", "ENABLE db", "WAIT_CLOSE", "KILL", "KILL db"])
def test_tags_and_log(pooler, sql):
    result = pooler.admin.query(sql.lower() if " " not in sql else sql)
    assert result.kinds() == "CZ" and result.tag == sql.split()[0]
    words = sql.split()
    shown = words[0] if len(words) == 1 else "%s '%s'" % (words[0], words[1])
    pooler.wait_log(r" LOG %s command issued$" % shown)


def test_pause_waits_for_transactions(pooler):
    busy, idle = pooler.connect(), pooler.connect()
    busy.query("begin")
    idle.query("select 1")
    pooler.admin.send(wire.query("PAUSE"))
    assert not pooler.admin.has_data(0.4)
    other = pooler.console()
    assert other.query("PAUSE", check=False).errors[0].text() == "already suspended/paused"
    idle.send(wire.query("select 2"))
    assert busy.value("select 3") == "3"
    assert not idle.has_data(0.2)
    busy.query("commit")
    assert pooler.admin.finish().tag == "PAUSE"
    assert pooler.pool()["sv_idle"] == 0 and pooler.pool()["cl_waiting"] == 1
    assert not idle.has_data(0.2)
    assert other.query("RESUME").tag == "RESUME"
    assert idle.finish().value == "2"


def test_pause_and_later_commands_on_one_connection(pooler):
    busy = pooler.connect()
    busy.query("begin")
    pooler.admin.send(wire.query("PAUSE") + wire.query("SHOW VERSION"))
    assert pooler.admin.finish().tag == "SHOW"
    busy.query("commit")
    assert pooler.admin.finish().tag == "PAUSE"
    pooler.admin.query("RESUME")


def test_pause_of_one_database(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(), "other": pg.conn()}, settings=TRANSACTION)
    one, two = pooler.connect("db"), pooler.connect("other")
    one.query("select 1")
    one.query("begin")
    pooler.admin.send(wire.query("PAUSE db"))
    assert not pooler.admin.has_data(0.4)
    assert two.value("select 1") == "1"
    one.query("commit")
    assert pooler.admin.finish().tag == "PAUSE"
    assert pooler.show_one("DATABASES", name="db")["paused"] == "1"
    assert pooler.admin.query("PAUSE db").tag == "PAUSE"
    one.send(wire.query("select 5"))
    assert not one.has_data(0.3) and two.value("select 2") == "2"
    assert pooler.admin.query("RESUME", check=False).errors
    assert pooler.admin.query("RESUME db").tag == "RESUME"
    assert one.finish().value == "5"


def test_login_while_paused(pooler):
    first = pooler.connect()
    first.query("select 1")
    pooler.admin.query("PAUSE")
    later = pooler.connect()
    later.send(wire.query("select 7"))
    new = pooler.client(user="second_user")
    new.send(new.startup_packet())
    assert not later.has_data(0.3) and not new.has_data(0.1)
    pooler.admin.query("RESUME")
    assert later.finish().value == "7"
    new.authenticate()


def test_pause_of_a_database_before_its_first_login(make_pooler, pg):
    """PAUSE before the first login connects no server only to close it, so RESUME serves clients at
    once."""
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, server_login_retry=600))
    pooler.admin.query("PAUSE db")
    client = pooler.client()
    client.send(client.startup_packet())
    assert not client.has_data(0.6)
    pooler.admin.query("RESUME db")
    client.authenticate()


def test_pause_waits_for_the_reset_query(make_pooler, fake):
    go = threading.Event()

    def slow(session, sql):
        go.wait(10)
        return wire.command_complete("DISCARD ALL") + wire.ready()

    server = fake(lambda s: (s.login(), s.serve([("DISCARD", slow)])))
    pooler = make_pooler({"db": server.conn()})
    client = pooler.connect()
    client.query("select 1")
    client.close()
    pooler.wait_pool(sv_tested=1)
    pooler.admin.send(wire.query("PAUSE"))
    assert not pooler.admin.has_data(0.4)
    go.set()
    assert pooler.admin.finish().tag == "PAUSE"


def test_waiting_times_out_while_paused(pooler):
    client = pooler.connect()
    client.query("select 1")
    pooler.set("query_wait_timeout", 1)
    pooler.admin.query("PAUSE")
    client.send(wire.query("select 1"))
    client.expect_fatal("query_wait_timeout")


def test_disable_and_enable(pooler):
    client = pooler.connect()
    pooler.admin.query("DISABLE db")
    assert pooler.show_one("DATABASES", name="db")["disabled"] == "1"
    assert pooler.refusal() == 'database "db" is disabled'
    assert client.value("select 1") == "1"
    pooler.reload()
    assert pooler.refusal() == 'database "db" is disabled'
    pooler.admin.query("ENABLE db")
    pooler.connect().close()


def test_kill(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1), "other": pg.conn()}, settings=TRANSACTION)
    active, waiter, idle, other = (pooler.connect(d) for d in ("db", "db", "db", "other"))
    active.query("begin")
    waiter.send(wire.query("select 1"))
    pooler.wait_pool(cl_waiting=1)
    assert pooler.admin.query("KILL db").tag == "KILL"
    for client in (active, waiter, idle):
        client.expect_fatal("database removed")
    assert other.value("select 1") == "1"
    assert pooler.show_one("DATABASES", name="db")["paused"] == "1"
    waiting.wait_for(lambda: pooler.pool() == {} or pooler.pool()["sv_active"] == 0, "killed")
    pooler.admin.query("RESUME db")
    assert pooler.connect().value("select 1") == "1"


@pytest.mark.parametrize("workers", [1, 2])
def test_kill_everything(make_pooler, pg, workers):
    """A database that only one worker has clients of is paused at all of them."""
    pooler = make_pooler({"db": pg.conn(), "other": pg.conn(), "unused": pg.conn()}, settings={"workers": workers})
    one, two = pooler.connect("db"), pooler.connect("other")
    assert pooler.admin.query("KILL").tag == "KILL"
    one.expect_fatal("database removed")
    two.expect_fatal("database removed")
    paused = {r["name"]: r["paused"] for r in pooler.show("DATABASES")}
    assert paused == {"db": "1", "other": "1", "unused": "0", "pgbouncer": "0"}
    assert pooler.admin.query("RESUME", check=False).errors
    for name in ("db", "other"):
        pooler.admin.query("RESUME " + name)
        for client in [pooler.connect(name) for _ in range(2 * workers)]:
            client.close()


def test_kill_client(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    active, waiter = pooler.connect(), pooler.connect()
    active.query("begin")
    waiter.send(wire.query("select 1"))
    pooler.wait_pool(cl_waiting=1)
    for state, client in (("waiting", waiter), ("active", active)):
        number = pooler.show_one("CLIENTS", state=state)["id"]
        assert pooler.admin.query("KILL_CLIENT " + number).tag == "KILL_CLIENT"
        client.expect_fatal("admin forced disconnect")
    console = pooler.connect("pgbouncer", "stats_user")
    number = pooler.show_one("CLIENTS", user="stats_user")["id"]
    pooler.admin.query("KILL_CLIENT " + number)
    console.expect_fatal("admin forced disconnect")


def test_wait_close(pooler):
    client = pooler.connect()
    client.query("begin")
    pooler.admin.query("RECONNECT db")
    pooler.admin.send(wire.query("WAIT_CLOSE db"))
    second = pooler.console()
    second.send(wire.query("WAIT_CLOSE"))
    assert not pooler.admin.has_data(0.4) and not second.has_data(0.1)
    client.query("commit")
    assert pooler.admin.finish().tag == "WAIT_CLOSE"
    assert second.finish().tag == "WAIT_CLOSE"


def test_each_waiting_command_has_its_own_end(pooler):
    """The event that ends WAIT_CLOSE does not end PAUSE."""
    client = pooler.connect()
    client.query("begin")
    pooler.admin.query("RECONNECT db")
    waiter, pauser = pooler.console(), pooler.console()
    waiter.send(wire.query("WAIT_CLOSE db"))
    assert not waiter.has_data(0.2)
    client.query("commit")
    assert waiter.finish().tag == "WAIT_CLOSE"
    client.query("begin")
    pauser.send(wire.query("PAUSE"))
    assert not pauser.has_data(0.6)
    client.query("commit")
    assert pauser.finish().tag == "PAUSE"


def test_resume_by_another_console(pooler):
    """After RESUME on another console, the waiting PAUSE is unanswered or fails, but never reports
    success."""
    client = pooler.connect()
    client.query("begin")
    other, pauser = pooler.console(), pooler.console()
    pauser.send(wire.query("PAUSE"))
    assert not pauser.has_data(0.2)
    other.query("RESUME")
    client.query("commit")
    if pauser.has_data(0.4):
        assert pauser.finish().kinds() == "EZ"
    assert client.value("select 1") == "1"


def test_cancel_of_pause(pooler):
    client = pooler.connect()
    client.query("begin")
    pooler.admin.query("SHOW STATE")
    pauser = pooler.console()
    pauser.send(wire.query("PAUSE"))
    assert not pauser.has_data(0.2)
    pauser.cancel()
    waiting.wait_for(lambda: pooler.show("STATE")[0]["value"] == "yes", "resumed")
    assert pauser.finish().errors[0].text() == "pause was interrupted by a cancel request"
    client.query("commit")
    assert client.value("select 1") == "1"


def test_console_that_waits_and_goes(pooler):
    client = pooler.connect()
    client.query("begin")
    pooler.admin.query("SHOW STATE")
    pauser = pooler.console()
    pauser.send(wire.query("PAUSE"))
    assert not pauser.has_data(0.1)
    pauser.close()
    pooler.consoles.remove(pauser)
    client.query("commit")
    waiting.wait_for(lambda: pooler.pool()["sv_idle"] == 0, "paused")
    pooler.admin.query("RESUME")
    assert client.value("select 1") == "1"


def test_shutdown(pooler):
    client = pooler.connect()
    pooler.admin.send(wire.query("SHUTDOWN"))
    pooler.admin.expect_closed()
    assert pooler.wait_exit() == 0
    client.expect_closed()
    pooler.wait_log(" LOG SHUTDOWN command issued$")


def test_shutdown_wait_for_clients(pooler):
    client = pooler.connect()
    console = pooler.connect("pgbouncer", "admin_user")
    assert console.query("SHUTDOWN WAIT_FOR_CLIENTS").tag == "SHUTDOWN"
    pooler.wait_log(" LOG SHUTDOWN WAIT_FOR_CLIENTS command issued$")
    assert pooler.refusal(unix=True) == "pooler is shutting down"
    assert client.value("select 1") == "1"
    client.close()
    console.close()
    assert pooler.wait_exit() == 0


def test_shutdown_wait_for_servers(pooler):
    client = pooler.connect()
    client.query("begin")
    console = pooler.connect("pgbouncer", "admin_user")
    assert console.query("SHUTDOWN WAIT_FOR_SERVERS").tag == "SHUTDOWN"
    pooler.wait_log(" LOG SHUTDOWN WAIT_FOR_SERVERS command issued$")
    assert console.query("RESUME", check=False).errors[0].text() == "pooler is shutting down"
    client.query("commit")
    assert pooler.wait_exit() == 0


def test_auto_databases_from_the_console(make_pooler, pg):
    pooler = make_pooler({"*": pg.conn()})
    assert pooler.admin.query("RESUME auto", check=False).errors[0].text() == "no such database: auto"
    assert pooler.admin.query("ENABLE auto", check=False).errors[0].text() == "no such database: auto"
    assert pooler.admin.query("DISABLE auto").tag == "DISABLE"
    assert pooler.refusal("auto") == 'database "auto" is disabled'
    pooler.admin.query("PAUSE stopped")
    assert {r["name"]: r["paused"] + r["disabled"] for r in pooler.show("DATABASES")} == {
        "auto": "01", "stopped": "10", "pgbouncer": "00"}
    pooler.admin.query("ENABLE auto")
    pooler.admin.query("RESUME stopped")
    assert [r["name"] for r in pooler.show("DATABASES")] == ["pgbouncer"]


def test_psql_on_the_console(pooler):
    import subprocess
    done = subprocess.run(["psql", "-XAt", "-c", "SHOW VERSION;", "pgbouncer"], capture_output=True,
                          text=True, env=pooler.env_for("admin_user"), timeout=90)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("PgBouncer ")
