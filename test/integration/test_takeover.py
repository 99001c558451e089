"""Online restart (-R): a new process takes over all connections from the running one."""

import datetime
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time

import psycopg
import pytest

import certs
import fakeserver
import postgres
import programs
import waiting
import wire
from test_authquery import challenge
from test_suspend import owner_console
from test_views import TRANSACTION

TAKEOVERS = int(os.environ.get("TAKEOVERS", "2"))  # The number of consecutive takeovers under load.
FORMAT = 13


class Restarts:
    """Starts processes that take over, and stops all of them at the end of the test."""

    def __init__(self):
        self.old = []

    def __call__(self, pooler, **settings):
        """Starts a takeover and returns the old process, which may still serve some clients."""
        self.begin(pooler, **settings)
        waiting.wait_for(lambda: self.is_up(pooler), "the new process is up")
        return self.old[-1]

    def begin(self, pooler, **settings):
        self.mark = pooler.mark()
        self.old.append(pooler.process)
        pooler.settings.update(settings)
        pooler.args = ["-R"]
        for console in pooler.consoles:
            console.close()
        pooler.consoles.clear()
        pooler.launch()

    def is_up(self, pooler):
        assert pooler.process.poll() is None, pooler.log_since(self.mark)
        return re.search(r'[ "]process up: ', pooler.log_since(self.mark))

    def stop(self):
        for process in self.old:
            if process.poll() is None:
                process.kill()
                process.wait()

    def fail(self, pooler, reason, **settings):
        """Asserts that the new process fails with this reason and the old one goes on."""
        pooler.may_log_fatal = True
        self.begin(pooler, **settings)
        assert pooler.process.wait(waiting.DEADLINE) == 1, pooler.log_since(self.mark)
        pooler.wait_log(r"FATAL .*" + reason, self.mark)
        pooler.process = self.old.pop()
        assert pooler.process.poll() is None


def wait_end(process, pooler):
    assert process.wait(waiting.DEADLINE) == 0, pooler.log()[-3000:]
    pooler.check_sanitizers()


@pytest.fixture
def restart():
    restarts = Restarts()
    yield restarts
    restarts.stop()


@pytest.fixture
def shared(make_pooler, pg):
    return make_pooler({"db": pg.conn()}, settings=TRANSACTION)


# what is taken over


def test_at_rest_and_in_transactions(shared, restart):
    shared.admin.query("SET log_min_duration = '0.000001'")
    with shared.connect() as idle, shared.connect() as busy:
        idle.query("select 1")
        busy.query("begin")
        backend = busy.value("select pg_backend_pid()")
        known = {row["id"] for row in shared.show("CLIENTS") if row["database"] == "db"}
        wait_end(restart(shared, log_min_duration="0.000001"), shared)
        assert {row["id"] for row in shared.show("CLIENTS") if row["database"] == "db"} == known
        assert busy.value("select pg_backend_pid()") == backend
        mark = shared.mark()
        assert busy.query("commit").tag == "COMMIT"
        shared.wait_log(r"slow transaction .* queries=4 .* ended=ready", mark)
        assert idle.value("select 2") == "2"
        with shared.connect() as fresh:
            assert fresh.value("select 3") == "3"
    assert os.path.exists(shared.path(".s.PGSQL.%d" % shared.port))
    # It is the usual way to upgrade.
    assert "deprecated" not in shared.log()


def test_servers_at_rest_are_used_again(shared, restart):
    with shared.connect() as client:
        backend = client.value("select pg_backend_pid()")
        wait_end(restart(shared), shared)
        assert client.value("select pg_backend_pid()") == backend
        assert shared.pool()["sv_idle"] == 1


def test_sessions_keep_what_they_have(make_pooler, pg, restart):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=dict(TRANSACTION, max_prepared_statements=10))
    with pooler.connect(application_name="first") as one, pooler.connect() as two:
        one.query("set datestyle = 'German'")
        one.send(wire.parse("mine", "select $1::int + 1", [23]), wire.sync())
        one.finish()
        two.send(wire.parse("mine", "select $1::int + 2", [23]), wire.sync())
        two.finish()
        one.send(wire.parse("", "select current_date = '1.2.2003'::date, 'unnamed'"), wire.sync())
        one.finish()
        wait_end(restart(pooler), pooler)
        for client, more in ((one, 1), (two, 2)):
            client.send(wire.bind("", "mine", ["40"]), wire.execute(), wire.sync())
            assert client.finish().value == str(40 + more)
        assert one.value("show datestyle").startswith("German")
        assert one.value("show application_name") == "first"
        assert two.value("show datestyle").startswith("ISO")
        one.send(wire.close("S", "mine"), wire.bind("", "mine", ["1"]), wire.sync())
        assert one.finish().errors[0].field("C") == "26000"


def test_unnamed_statement(shared, restart):
    with shared.connect() as client:
        client.send(wire.parse("", "select 'unnamed'"), wire.sync())
        client.finish()
        wait_end(restart(shared), shared)
        client.send(wire.bind(), wire.execute(), wire.sync())
        assert client.finish().value == "unnamed"


def test_unnamed_statement_that_executes_another(make_pooler, pg, restart):
    """Its text was rewritten to the name that servers know, and that name goes along."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=dict(TRANSACTION, track_sql_prepare=1))
    with pooler.connect() as client:
        client.query("prepare p as select 'prepared'")
        client.send(wire.parse("", "execute p"), wire.bind(), wire.execute(), wire.sync())
        assert client.finish().value == "prepared"
        wait_end(restart(pooler), pooler)
        client.send(wire.bind(), wire.execute(), wire.sync())
        assert client.finish().value == "prepared"


@pytest.mark.parametrize("cut", [3, 8, 60000])
def test_half_a_message_is_finished_afterwards(shared, restart, cut):
    text = wire.query("select length('%s')" % ("x" * 100000))
    with shared.connect() as client:
        client.query("begin")
        client.send(text[:cut])
        waiting.wait_read(client.sock)
        wait_end(restart(shared), shared)
        client.send(text[cut:])
        assert client.finish().value == "100000"


def test_queries_that_run(shared, pg, restart):
    """A simple query continues in the new process. An extended query ends in the old one, because
    nobody knows which messages PostgreSQL has processed. Both queries wait for a lock."""
    with shared.connect() as simple, shared.connect() as named, pg.client() as holder:
        holder.query("select pg_advisory_lock(771)")
        named.send(wire.parse("lock", "select 'named', pg_advisory_xact_lock_shared(771)"), wire.sync())
        named.finish()
        simple.send(wire.query("select 'simple', pg_advisory_xact_lock_shared(771)"))
        named.send(wire.bind("", "lock"), wire.execute(), wire.sync())
        shared.wait_pool(sv_active=2)
        old = restart(shared)
        shared.wait_log("has taken over 1 clients and 0 idle servers; 1 clients stay")
        shared.wait_pool(cl_active=1, sv_active=1)
        holder.query("select pg_advisory_unlock(771)")
        assert simple.finish().rows[0][0] == "simple"
        assert named.finish().rows[0][0] == "named"
        wait_end(old, shared)
        shared.wait_pool(cl_active=2, sv_active=0)
        assert named.value("select 1") == "1"


def test_copy_goes_on(shared, pg, restart):
    pg.do("create table if not exists moved_rows (line text)", "grant all on moved_rows to public",
          "truncate moved_rows")
    line = b"x" * 99 + b"\n"
    with shared.connect() as client:
        client.send(wire.query("copy moved_rows from stdin"))
        client.recv_until("G")
        for _ in range(50):
            client.send(wire.copy_data(line))
        half = wire.copy_data(line * 1000)
        client.send(half[:60000])
        wait_end(restart(shared), shared)
        client.send(half[60000:], wire.copy_done())
        assert client.finish().tag == "COPY 1050"
        assert client.value("select count(*) from moved_rows where length(line) = 99") == "1050"


def test_who_waits_goes_on_waiting(make_pooler, pg, restart):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    with pooler.connect() as holder, pooler.connect() as first, pooler.connect() as second:
        holder.query("begin")
        first.send(wire.query("select 1"))
        pooler.wait_pool(cl_waiting=1)
        second.send(wire.query("select 2"))
        pooler.wait_pool(cl_waiting=2)
        wait_end(restart(pooler), pooler)
        pooler.wait_pool(cl_waiting=2)
        holder.query("commit")
        assert first.finish().value == "1"
        assert second.finish().value == "2"


@pytest.mark.parametrize("workers", [1, 4])
def test_a_silent_host_holds_nobody_up(make_pooler, fake, pg, restart, workers):
    """A server answers neither the pooler's SET for one client nor a Parse of another one. Nobody else
    waits for them; the former goes along, and gets another server."""
    def silent(session):
        session.login()
        session.serve([("^set", lambda _, sql: b"" if "held" in sql else fakeserver.plain_answer(sql))])

    def pause(mark):
        """How long the old process held everybody up."""
        def times():
            return [datetime.datetime.fromisoformat(line[:23]) for line in pooler.log_since(mark).splitlines()
                    if re.search(r"LOG process \d+ (takes over$|has taken over)", line)]

        waiting.wait_for(lambda: len(times()) >= 2, "the old process has told both")
        return (times()[1] - times()[0]).total_seconds()

    def deaf(session):
        session.login()
        while session.recv():
            pass

    def entry(server):
        return "host=%s port=%d pool_size=4" % (server.host, server.port)

    server, never = fake(silent), fake(deaf)
    pooler = make_pooler({"db": pg.conn(), "silent": entry(server), "deaf": entry(never)},
                         settings=dict(TRANSACTION, workers=workers))
    with pooler.connect() as other, pooler.connect("deaf") as parsing, \
            pooler.connect("silent", application_name="held") as held:
        parsing.send(wire.parse("", "select 1"), wire.flush())
        waiting.wait_for(lambda: any("P" in s.kinds() for s in never.sessions), "the Parse is sent")
        held.send(wire.query("select 1"))
        pauses = []
        for _ in range(5):  # A busy machine may hold one of them up.
            waiting.wait_for(lambda: [s for s in server.sessions if any("held" in q for q in s.queries())
                                      and not s.ended.is_set()], "the SET is sent")
            restart(pooler)
            pauses.append(pause(restart.mark))
            waiting.wait_for(lambda: [row for row in pooler.show("CLIENTS") if row["database"] == "silent"],
                             "the client has come along")
            assert other.value("select 2") == "2"
            if pauses[-1] < 0.4:
                break
        assert min(pauses) < 0.4, pauses


def test_session_mode(make_pooler, pg, restart):
    pooler = make_pooler({"db": pg.conn()}, settings={"pool_mode": "session"})
    with pooler.connect() as client:
        client.query("create temp table mine as select 5 n")
        client.send(wire.parse("own", "select n from mine"), wire.sync())
        client.finish()
        wait_end(restart(pooler), pooler)
        client.send(wire.bind("", "own"), wire.execute(), wire.sync())
        assert client.finish().value == "5"


def wait_running(pg, text):
    """Waits until PostgreSQL runs the query: an earlier cancel request has no effect."""
    sql = ("select count(*) from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() "
           "and query like '%%%s%%'" % text)
    waiting.wait_for(lambda: pg.value(sql) == "1", "the query runs")


def test_cancel_afterwards(shared, pg, restart):
    with shared.connect() as before, shared.connect() as running:
        running.send(wire.query("select 'before', pg_sleep(60)"))
        wait_running(pg, "before")
        wait_end(restart(shared), shared)
        running.cancel()
        assert running.finish().errors[0].field("C") == "57014"
        before.send(wire.query("select 'after', pg_sleep(60)"))
        wait_running(pg, "after")
        before.cancel()
        assert before.finish().errors[0].field("C") == "57014"


def test_paused_stays_paused(make_pooler, pg, restart):
    pooler = make_pooler({"db": pg.conn(), "other": pg.conn(), "closed": pg.conn()}, settings=TRANSACTION)
    with pooler.connect() as client:
        pooler.admin.query("PAUSE db")
        pooler.admin.query("DISABLE closed")
        client.send(wire.query("select 1"))
        pooler.wait_pool(cl_waiting=1)
        wait_end(restart(pooler), pooler)
        rows = {row["name"]: row for row in pooler.show("DATABASES")}
        assert (rows["db"]["paused"], rows["other"]["paused"], rows["closed"]["disabled"]) == ("1", "0", "1")
        assert not client.has_data(0.2)
        pooler.admin.query("RESUME db")
        assert client.finish().value == "1"
        pooler.admin.query("PAUSE")
        wait_end(restart(pooler), pooler)
        assert [r["key"] for r in pooler.show("STATE") if r["value"] == "yes"] == ["paused"]
        pooler.admin.query("RESUME")
        assert client.value("select 2") == "2"


def test_who_waits_for_a_pause_and_cannot_move_is_sent_away(make_pooler, pg, restart):
    """A login waits for a server, and the database is paused. Only the new process can end that."""
    pooler = make_pooler({"db": pg.conn()}, settings=TRANSACTION)
    pooler.admin.query("KILL db")
    with pooler.client() as client:
        client.send(client.startup_packet())
        pooler.wait_pool(cl_waiting=1)
        wait_end(restart(pooler), pooler)
        assert client.recv_until("E")[-1].text() == "server shutting down"
        client.expect_closed()
    assert pooler.show_one("DATABASES", name="db")["paused"] == "1"
    pooler.admin.query("RESUME db")
    assert pooler.connect().value("select 1") == "1"


def test_secrets_go_along(make_pooler, pg, restart):
    """The new process logs in to the server with the SCRAM keys from the client's login."""
    stored = pg.value("select rolpassword from pg_authid where rolname = 'scram_user'")
    secret = postgres.USERS["scram_user"][0]
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, auth_type="scram-sha-256"),
                         userlist={"scram_user": stored, "admin_user": "admin secret 91c"})
    with pooler.connect(user="scram_user", secret=secret) as client:
        client.query("select 1")
        wait_end(restart(pooler), pooler)
        pooler.admin.query("RECONNECT")
        assert client.value("select 2") == "2"


@pytest.mark.parametrize("workers", [1, 4])
def test_salts_stay(make_pooler, pg, restart, workers):
    """Otherwise those of users who do not exist would be other ones, and so tell who exists."""
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, userlist={"plain": "secret", "scram": wire.ScramKeys("x").secret()},
                         settings=dict(TRANSACTION, auth_type="scram-sha-256", workers=workers))
    names = ("plain", "scram", "ghost", "other ghost")
    before = [challenge(pooler, "db", name) for name in names]
    assert len(set(before)) == 4
    wait_end(restart(pooler), pooler)
    assert [challenge(pooler, "db", name) for name in names for _ in range(workers)] == \
        [told for told in before for _ in range(workers)]


def test_changed_settings(make_pooler, pg, restart):
    """The new process uses the new settings: it replaces servers of a changed database entry."""
    pooler = make_pooler({"db": pg.conn()}, settings=TRANSACTION)
    with pooler.connect() as client:
        backend = client.value("select pg_backend_pid()")
        pooler.databases["db"] = pg.conn(connect_query="'select 1'")
        wait_end(restart(pooler, track_extra_parameters="extra_float_digits", query_timeout=77), pooler)
        assert client.value("select pg_backend_pid()") != backend
        assert pooler.config()["query_timeout"] == "77"
        client.query("set datestyle = 'SQL, DMY'")
        assert client.value("show datestyle") == "SQL, DMY"


def test_addresses_may_change(make_pooler, pg, restart):
    pooler = make_pooler({"db": pg.conn()}, settings=TRANSACTION)
    with pooler.connect() as client:
        wait_end(restart(pooler, listen_addr="127.0.0.1, 127.0.0.2"), pooler)
        assert client.value("select 1") == "1"
        with wire.Client("127.0.0.2", pooler.port, "trust_user", "db").login() as other:
            assert other.value("select 2") == "2"
        wait_end(restart(pooler, listen_addr="127.0.0.1"), pooler)
        with pytest.raises(ConnectionRefusedError):
            wire.open_socket("127.0.0.2", pooler.port)
        assert client.value("select 3") == "3"


@pytest.mark.parametrize("first, second", [("epoll", "io_uring"), ("io_uring", "epoll")])
def test_from_one_engine_to_the_other(make_pooler, pg, restart, first, second):
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, io_engine="auto"))
    if "io_uring is not available" in pooler.log():
        pytest.skip("no io_uring here")
    with pooler.connect() as idle, pooler.connect() as busy:
        for engine in (first, second, first):
            busy.query("begin")
            busy.send(wire.query("select 1")[:7])
            wait_end(restart(pooler, io_engine=engine), pooler)
            busy.send(wire.query("select 1")[7:])
            assert busy.finish().value == "1"
            busy.query("commit")
            assert idle.value("select 2") == "2"


def test_background(make_pooler, pg, restart):
    """With -d the exit code tells the result, and the pidfile names the new process."""
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, pidfile="{pid}", logfile="{log}"),
                         start=False)
    pooler.settings.update(pidfile=pooler.path("pid"), logfile=pooler.path("log"))
    pooler.start()
    with pooler.connect() as client:
        client.query("select 1")
        for console in pooler.consoles:
            console.close()
        pooler.consoles.clear()
        code, _, err = pooler.run("-R", "-d", pooler.ini, timeout=waiting.DEADLINE)
        assert (code, err.count("FATAL")) == (0, 0), err
        pid = int(pooler.read("pid"))
        assert pid != pooler.pid
        wait_end(pooler.process, pooler)
        assert client.value("select 2") == "2"
        try:
            pooler.write("pgbouncer.ini", pooler.ini_text() + "nonsense = 1\n")
            assert pooler.run("-R", "-d", pooler.ini, timeout=waiting.DEADLINE)[0] == 1
            assert int(pooler.read("pid")) == pid
            assert client.value("select 3") == "3"
        finally:
            os.kill(pid, signal.SIGQUIT)
            waiting.wait_for(lambda: not os.path.exists("/proc/%d" % pid), "it has ended")
    pooler.process = None


# under load


def test_under_load(make_pooler, bench, restart):
    """Clients with prepared statements and open transactions see no error."""
    take_over_under_load(make_pooler({"db": bench.conn("moved")}, settings=TRANSACTION), bench, restart,
                         [{}] * TAKEOVERS)


def take_over_under_load(pooler, bench, restart, changes):
    """Each takeover changes these settings. (pgbench waits for each PREPARE with all its clients, so
    every client needs a server connection.)"""
    def done():
        return sum(int(row["total_xact_count"]) for row in pooler.show("STATS") if row["database"] == "db")

    command = [bench.program("pgbench"), "-n", "-M", "prepared", "-c", "8", "-j", "2", "-T", "600", "db"]
    with programs.Program(command, pooler.env_for()) as load:
        for settings in changes:
            before = done()
            waiting.wait_for(lambda: done() > before + 100, "load")
            with pooler.connect() as held:
                held.query("begin")
                backend = held.value("select pg_backend_pid()")
                wait_end(restart(pooler, **settings), pooler)
                assert held.value("select pg_backend_pid()") == backend
                held.query("rollback")
            assert load.process.poll() is None, load.finish()
        before = done()
        waiting.wait_for(lambda: done() > before + 100, "load goes on")
        load.process.send_signal(signal.SIGINT)
        _, _, err = load.finish()
    assert "error" not in err.lower() and "aborted" not in err, err


# clients that stay with the old process


@pytest.fixture
def tls_pooler(make_pooler, pg):
    folder = waiting.scratch("certs")
    authority = certs.Authority(folder)
    pair = authority.issue("server", "localhost", ["localhost", "127.0.0.1"])

    def make(**settings):
        pooler = make_pooler({"db": pg.conn()}, settings=dict(
            TRANSACTION, client_tls_sslmode="prefer", client_tls_cert_file=pair.cert_file,
            client_tls_key_file=pair.key_file, **settings))
        return pooler

    yield make
    waiting.discard(folder)


@pytest.mark.parametrize("workers", [1, 4])
def test_salts_stay_after_a_start(tls_pooler, workers):
    """They depend on the private key, where there is one."""
    pooler = tls_pooler(workers=workers, auth_type="scram-sha-256")
    before = [challenge(pooler, "db", name) for name in ("ghost", "other ghost")]
    pooler.stop()
    mark = pooler.mark()
    pooler.launch()
    pooler.wait_log("process up: ", mark)
    assert [challenge(pooler, "db", name) for name in ("ghost", "other ghost")] == before


def tls_connect(pooler):
    return psycopg.connect(host=pooler.host, port=pooler.port, dbname="db", user="trust_user",
                           sslmode="require", autocommit=True)


def test_tls_is_served_until_it_leaves(tls_pooler, restart):
    pooler = tls_pooler()
    with tls_connect(pooler) as secure, pooler.connect() as clear:
        secure.execute("select 1")
        old = restart(pooler)
        pooler.wait_log(r"\[%d\] LOG process \d+ has taken over 1 clients .* 1 clients stay" % old.pid)
        assert secure.execute("select 2").fetchone() == (2,)
        assert clear.value("select 3") == "3"
        assert old.poll() is None
    wait_end(old, pooler)


def test_cancel_of_a_client_that_stayed(tls_pooler, restart):
    """The new process forwards the cancel request to the old one, even across two restarts."""
    pooler = tls_pooler()
    with tls_connect(pooler) as secure:
        secure.execute("select 1")
        first = restart(pooler)
        second = restart(pooler)
        assert (first.poll(), second.poll()) == (None, None)
        asked = threading.Thread(target=cancel_when_it_runs, args=(pooler, secure))
        asked.start()
        try:
            with pytest.raises(psycopg.errors.QueryCanceled):
                secure.execute("select pg_sleep(60)")
        finally:
            asked.join()
    wait_end(first, pooler)
    wait_end(second, pooler)


def cancel_when_it_runs(pooler, connection):
    """Sends the cancel request repeatedly: one that arrives before the query has no effect."""
    for _ in range(600):
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.ACTIVE:
            time.sleep(0.05)
            continue
        connection.pgconn.get_cancel().cancel()
        time.sleep(0.05)
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.ACTIVE:
            return


def test_drain_timeout(tls_pooler, restart):
    pooler = tls_pooler(takeover_drain_timeout=1)
    with tls_connect(pooler) as secure:
        secure.execute("select 1")
        old = restart(pooler)
        wait_end(old, pooler)
        with pytest.raises(psycopg.OperationalError) as caught:
            secure.execute("select 2")
    assert "takeover_drain_timeout" in str(caught.value)
    pooler.wait_log("LOG takeover_drain_timeout: closing 1 clients$")


def test_login_is_finished_by_the_old_process(make_pooler, pg, restart):
    """The old process finishes the login, and then the client is moved."""
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, auth_type="plain"),
                         userlist={"trust_user": "plain secret 3c7", "admin_user": "admin secret 91c"})
    with pooler.client() as late:
        late.send(late.startup_packet())
        assert late.recv().kind == "R"
        old = restart(pooler)
        assert old.poll() is None
        late.send(wire.password("plain secret 3c7"))
        late.recv_until("Z")
        wait_end(old, pooler)
        assert late.value("select 1") == "1"
        assert pooler.pool()["cl_active"] == 1


def test_console_ends_with_its_process(shared, restart):
    console = shared.console()
    shared.consoles.clear()
    old = restart(shared)
    console.expect_fatal("pooler was taken over by a new process", "57P01")
    console.close()
    wait_end(old, shared)


# failures


def test_broken_configuration(shared, restart):
    with shared.connect() as client:
        client.query("begin")
        restart.fail(shared, "cannot load config file", pool_mode="nonsense")
        assert client.query("commit").tag == "COMMIT"


def test_database_that_is_missing(make_pooler, pg, restart):
    pooler = make_pooler({"db": pg.conn(), "other": pg.conn()}, settings=TRANSACTION)
    with pooler.connect() as client, pooler.connect("other") as gone:
        client.query("begin")
        del pooler.databases["other"]
        restart.fail(pooler, 'the configuration has no database "other"')
        pooler.wait_log(r'ERROR takeover by process \d+ failed: it says: .*"other".*; this process goes on$')
        assert client.query("commit").tag == "COMMIT"
        assert gone.value("select 1") == "1"


def test_address_that_is_taken(make_pooler, pg, restart):
    pooler = make_pooler({"db": pg.conn()}, settings=TRANSACTION)
    with pooler.connect() as client, socket.socket() as taken:
        taken.bind(("127.0.0.2", pooler.port))
        taken.listen()
        restart.fail(pooler, "failed to listen on any address", listen_addr="127.0.0.2")
        assert client.value("select 1") == "1"
        with pooler.connect() as other:
            assert other.value("select 2") == "2"


def take_socket(console):
    console.send(wire.query("TAKEOVER %d" % FORMAT))
    data, control, _, _ = console.sock.recvmsg(65536, socket.CMSG_SPACE(64))
    (fd,), = [struct.unpack("i", raw[:4]) for _, _, raw in control]
    sock = socket.socket(fileno=fd)
    sock.setblocking(True)
    sock.settimeout(waiting.DEADLINE)
    return sock


def frames_until(sock, wanted):
    """Returns the types of the frames up to the wanted one, and closes the passed descriptors."""
    kinds, data = "", b""
    while True:
        while len(data) >= 6:
            size = 6 + struct.unpack(">I", data[2:6])[0]
            if len(data) < size:
                break
            kinds += chr(data[0])
            data = data[size:]
            if kinds[-1] == wanted:
                return kinds
        more, control, _, _ = sock.recvmsg(65536, socket.CMSG_SPACE(64))
        assert more, "closed after " + kinds
        for _, _, raw in control:
            for fd, in struct.iter_unpack("i", raw):
                os.close(fd)
        data += more


def frame(kind, body=b""):
    return struct.pack(">cBI", kind.encode(), 0, len(body)) + body


STEPS = {
    "at once": ([], r"(it has ended|Broken pipe)"),
    "behind END": (["e"], r"it has ended"),
    "with FAILED": (["e", frame("f", b"no room")], r"it says: no room"),
    "with nonsense": (["e", frame("z")], r"it sent an unexpected message"),
    "behind GO": (["e", frame("r"), "g"], r"it has ended"),
    "with no frame": ([b"\xff" * 20], r"what came is no frame"),
    "by silence": (["e", "x"], r"it took longer than suspend_timeout"),
    "by silence behind GO": (["e", frame("r"), "g", None], r"it took longer than suspend_timeout"),
}


@pytest.mark.parametrize("how", STEPS)
def test_new_process_fails(make_pooler, pg, how):
    """The new process fails at some step, and the old one goes on with all its connections."""
    steps, reason = STEPS[how]
    limit = 1 if how.startswith("by silence") else 60
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, suspend_timeout=limit))
    with pooler.connect() as idle, pooler.connect() as busy, owner_console(pooler) as console:
        idle.query("select 1")
        busy.query("begin")
        backend = busy.value("select pg_backend_pid()")
        sock = take_socket(console)
        for step in steps:
            if isinstance(step, bytes):
                sock.sendall(step)
            elif step:
                frames_until(sock, step)
        if not how.startswith("by silence"):
            sock.close()
        pooler.wait_log(r"ERROR takeover by process \d+ failed: .*%s.*; this process goes on$" % reason)
        sock.close()
        assert busy.value("select pg_backend_pid()") == backend
        assert busy.query("commit").tag == "COMMIT"
        assert idle.value("select 2") == "2"
        with pooler.connect() as fresh:
            assert fresh.value("select 3") == "3"


def test_signals_to_the_old_process_amid_it(make_pooler, pg):
    """The signal aborts the takeover and then has its usual effect."""
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, suspend_timeout=60))
    with pooler.connect() as client, owner_console(pooler) as console:
        client.query("begin")
        with take_socket(console) as sock:
            frames_until(sock, "e")
            pooler.signal("HUP")
            assert frames_until(sock, "x")
        pooler.wait_log("failed: got SIGHUP; this process goes on$")
        pooler.wait_log("LOG got SIGHUP, re-reading config$")
        assert client.query("commit").tag == "COMMIT"


def test_signal_behind_go(make_pooler, pg):
    """The new process may say ALIVE at any time then. It learns from its socket, which has no other
    side any more, that this comes too late."""
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, suspend_timeout=60))
    with pooler.connect() as client, owner_console(pooler) as console:
        client.query("begin")
        with take_socket(console) as sock:
            frames_until(sock, "e")
            sock.sendall(frame("r"))
            frames_until(sock, "g")
            pooler.signal("HUP")
            pooler.wait_log("failed: got SIGHUP; this process goes on$")
            assert sock.recv(4096) == b""
            with pytest.raises(BrokenPipeError):
                sock.sendall(frame("a"))
        pooler.wait_log("LOG got SIGHUP, re-reading config$")
        assert client.query("commit").tag == "COMMIT"


def test_who_was_taken_gets_no_server(make_pooler, pg):
    """A busy client stays, and its server is at rest when the client that waits for one is taken."""
    pooler = make_pooler({"db": pg.conn(pool_size=2)}, settings=dict(TRANSACTION, suspend_timeout=60))
    with pooler.connect() as holder, pooler.connect() as busy, pooler.connect() as waiter, \
            pg.client() as locker, owner_console(pooler) as console:
        locker.query("select pg_advisory_lock(772)")
        holder.query("begin")
        busy.send(wire.parse("lock", "select 1, pg_advisory_xact_lock_shared(772)"), wire.bind("", "lock"),
                  wire.execute(), wire.sync())
        pooler.wait_pool(sv_active=2)
        waiter.send(wire.query("select 1"))
        pooler.wait_pool(cl_waiting=1)
        with take_socket(console) as sock:
            frames_until(sock, "e")
            locker.query("select pg_advisory_unlock(772)")
            assert busy.finish().rows[0][0] == "1"
            sock.sendall(frame("r"))
            frames_until(sock, "g")
            sock.sendall(frame("a"))
            pooler.wait_log(r"has taken over 2 clients and 0 idle servers; 1 clients stay")
            holder.expect_closed()
            waiter.expect_closed()
        assert busy.value("select 2") == "2"
    assert pooler.wait_exit() == 0  # Its last client has left.


def test_whom_it_is_refused(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=TRANSACTION)
    assert pooler.admin.query("TAKEOVER %d" % FORMAT, check=False).errors[0].text() == "admin access needed"
    with owner_console(pooler) as console:
        for number, text in (("99", "takeover format 99 is not known here, only 13: the two processes are "
                                    "of different versions"), ("x", "TAKEOVER needs the number of a format")):
            assert console.query("TAKEOVER " + number, check=False).errors[0].text() == text
        console.query("SUSPEND")
        assert console.query("TAKEOVER %d" % FORMAT, check=False).errors[0].text() == "already suspended/paused"
        console.query("RESUME")


class OldProcess:
    """A scripted old process with a console, which answers TAKEOVER as the test says."""

    def __init__(self, path, answer):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(path)
        waiting.give(path)
        self.sock.listen()
        self.answer = answer
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            with conn:
                if not conn.recv(4):
                    continue  # The new process only checked whether the socket is in use.
                conn.recv(4096)
                conn.sendall(wire.auth(0) + wire.ready())
                conn.recv(4096)
                self.answer(conn)

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.thread.join()


def pass_socket(conn, say):
    """Answers TAKEOVER with a socket, and sends a message through it."""
    ours, theirs = socket.socketpair()
    with ours:
        theirs.setblocking(False)
        socket.send_fds(conn, [wire.command_complete("TAKEOVER") + wire.ready()], [theirs.fileno()])
        theirs.close()
        ours.sendall(say)
        ours.shutdown(socket.SHUT_WR)
        while ours.recv(4096):
            pass


FAULTS = {
    "error": (lambda conn: conn.sendall(wire.error("ERROR", "08P01", "not me") + wire.ready()),
              "takeover refused by the running process: not me"),
    "end": (lambda conn: None, "takeover: the running process does not answer"),
    "no socket": (lambda conn: conn.sendall(wire.command_complete("TAKEOVER") + wire.ready()),
                  "takeover: the running process sent no socket"),
    "killed": (lambda conn: pass_socket(conn, frame("e")[:3]), "the running process has ended before it had "
                                                               "handed over everything"),
    "nothing": (lambda conn: pass_socket(conn, frame("e")), "what came was not whole"),
    "garbage": (lambda conn: pass_socket(conn, frame("O", b"abc")), "what came cannot be read"),
    "given up": (lambda conn: pass_socket(conn, frame("x", b"reasons")),
                 "the running process has given up: reasons"),
}


@pytest.mark.parametrize("how", FAULTS)
def test_old_process_fails(make_pooler, pg, how):
    answer, reason = FAULTS[how]
    pooler = make_pooler({"db": pg.conn()}, settings=TRANSACTION, args=["-R"], start=False)
    old = OldProcess(pooler.path(".s.PGSQL.%d" % pooler.port), answer)
    try:
        pooler.launch()
        pooler.expected_exit, pooler.may_log_fatal = 1, True
        assert pooler.process.wait(waiting.DEADLINE) == 1
        pooler.wait_log("FATAL " + reason)
    finally:
        old.close()
    assert os.path.exists(pooler.path(".s.PGSQL.%d" % pooler.port))
