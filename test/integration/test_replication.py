"""Replication connections, physical and logical (protocol.md 14)."""

import os
import signal
import struct

import pytest

import fakeserver
import postgres
import programs
import waiting
import wire

USER = "streamer"
TRANSACTION = {"pool_mode": "transaction"}


@pytest.fixture(scope="module")
def source(pg_bin):
    """A cluster that allows physical and logical replication."""
    server = postgres.Postgres(pg_bin)
    try:
        server.create()
        server.do("alter system set wal_level = logical",
                  "alter system set max_wal_senders = 20",
                  "alter system set max_replication_slots = 10",
                  "create role %s login replication" % USER,
                  "create role nobody login",
                  "create table items (n int primary key, v text)",
                  "grant all on items to public",
                  "grant execute on function pg_switch_wal() to public")
        server.write_hba(["local replication all trust",
                          "host replication all 127.0.0.1/32 trust",
                          "host all %s,nobody 127.0.0.1/32 trust" % USER]
                         + postgres.hba_lines())
        server.restart()
        yield server
    finally:
        server.remove()


def users():
    return {USER: "", "nobody": "", "trust_user": "", "admin_user": "admin secret 91c",
            "stats_user": "stats secret 5e0"}


def let_in_others(pooler, database="db"):
    """Connects an ordinary client, so that the pooler caches the server's parameters."""
    pooler.connect(database, USER).close()
    pooler.wait_pool(database, USER, cl_active=0)


@pytest.fixture
def stream_pooler(make_pooler, source):
    """stream_pooler(settings..., **of the database entries) returns a pooler in front of the
    cluster."""
    def make(settings=None, **database):
        text = source.conn(**database)
        pooler = make_pooler({"db": text, "replication": text},
                             settings=dict(TRANSACTION, **settings or {}), userlist=users())
        let_in_others(pooler)
        return pooler
    return make


@pytest.fixture
def fake_pooler(make_pooler, fake):
    """fake_pooler(script, settings...) returns (pooler, fake server). It has to come before other
    clients of the test, so that the replication client is the first one."""
    def make(script=fakeserver.polite, settings=None, first=False, **database):
        server = fake(script)
        pooler = make_pooler({"db": server.conn(**database)},
                             settings=dict(TRANSACTION, **settings or {}), userlist=users())
        if not first:
            let_in_others(pooler)
        return pooler, server
    return make


def physical(pooler, **params):
    return pooler.connect("db", USER, replication="true", **params)


def logical(pooler, **params):
    return pooler.connect("db", USER, replication="database", **params)


def is_replica(session):
    return "replication" in dict(session.startup_params())


def replicas(server):
    return [s for s in server.logged_in() if is_replica(s)]


def answering(for_replica):
    """Returns a script that answers replication connections after their startup packet."""
    def script(session):
        session.recv_startup()
        if is_replica(session):
            for_replica(session)
            return
        session.send(fakeserver.welcome())
        session.serve()
    return script


def until_end(session):
    try:
        while session.recv().kind != "X":
            pass
    except (wire.Closed, OSError):
        pass


def servers(pooler):
    return [s for s in pooler.show("SERVERS") if s["replication"] != "none"]


def senders(source):
    return int(source.value("select count(*) from pg_stat_activity where backend_type='walsender'"))


def is_streaming(source):
    """Whether a walsender has begun to send: what is written from now on is sent."""
    return source.value("select count(*) from pg_stat_replication where state = 'streaming'") == "1"


def wait_no_senders(source):
    waiting.wait_for(lambda: senders(source) == 0, "all walsenders are gone")


# the kind of the client


@pytest.mark.parametrize("value, word, shown", [
    ("database", "database", "logical"),
    ("true", "yes", "physical"), ("T", "yes", "physical"), ("tRu", "yes", "physical"),
    ("1", "yes", "physical"), ("on", "yes", "physical"), ("y", "yes", "physical"),
    ("yes", "yes", "physical"),
    ("false", "no", "none"), ("off", "no", "none"), ("0", "no", "none"), ("n", "no", "none"),
    ("o", "no", "none"), ("Database", "no", "none"), ("nonsense", "no", "none"),
    ("", "no", "none")])
def test_words(fake_pooler, value, word, shown):
    pooler, server = fake_pooler()
    with pooler.connect("db", USER, replication=value) as client:
        pooler.wait_log("login attempt: db=db user=%s tls=no replication=%s$" % (USER, word))
        assert pooler.show_one("CLIENTS", user=USER)["replication"] == shown
        # The pooler takes the parameters in the greeting from an ordinary server connection.
        assert not replicas(server)
        client.query("IDENTIFY_SYSTEM")
        if shown == "none":
            assert not replicas(server) and not servers(pooler)
        else:
            session, = replicas(server)
            assert dict(session.startup_params())["replication"] == word
            assert servers(pooler)[0]["replication"] == shown


def test_last_word_counts(fake_pooler):
    pooler, _ = fake_pooler()
    with pooler.raw() as client:
        client.send(wire.special(wire.PROTOCOL_3_0, b"replication\0true\0user\0" + USER.encode()
                                 + b"\0database\0db\0replication\0off\0\0"))
        client.recv_until("Z")
        assert pooler.show_one("CLIENTS", user=USER)["replication"] == "none"


def test_startup_packet_of_the_server(fake_pooler):
    pooler, server = fake_pooler(client_encoding="LATIN1", application_name="entry")
    options = r"-c geqo=off  --work_mem=9MB -d 3 -c search_path=a\ b"
    with physical(pooler, options=options, DateStyle="German", TimeZone="UTC",
                  application_name="receiver") as client:
        client.query("IDENTIFY_SYSTEM")
    params = replicas(server)[0].startup_params()
    names = [name for name, _ in params]
    assert names[:3] == ["database", "client_encoding", "application_name"]
    assert names[3] == "replication" and names[-1] == "user" and names[-2] == "options"
    found = dict(params)
    assert found["options"] == options
    assert found["replication"] == "yes"
    assert found["database"] == "fakedb" and found["user"] == USER
    assert (found["DateStyle"], found["TimeZone"]) == ("German", "UTC")
    assert found["application_name"] == "receiver"
    # The client did not set this parameter, so the server's own value applies.
    assert "IntervalStyle" not in found
    # The pooler has sent only the client's own queries.
    assert replicas(server)[0].queries() == ["IDENTIFY_SYSTEM"]


@pytest.mark.parametrize("kind", ["true", "database"])
def test_first_is_greeted_by_its_own_connection(fake_pooler, kind):
    """The pooler opens no ordinary server connection, so the database need not exist."""
    def replica(session):
        told = dict(fakeserver.PARAMETERS, server_version="99.1", DateStyle="SQL, MDY")
        session.send(fakeserver.welcome(parameters=told.items()))
        session.serve()

    def script(session):
        session.recv_startup()
        if not is_replica(session):
            session.send(wire.error("FATAL", "3D000", "no such database"))
            return
        replica(session)

    pooler, server = fake_pooler(script, first=True)
    with pooler.connect("db", USER, replication=kind) as client:
        told = dict(client.parameters())
        assert told["server_version"] == "99.1" and told["DateStyle"] == "SQL, MDY"
        assert len(server.sessions) == 1 and is_replica(server.sessions[0])
        client.query("IDENTIFY_SYSTEM")
        client.query("IDENTIFY_SYSTEM")
        assert len(server.sessions) == 1
    assert server.sessions[0].ended.wait(10)
    # Parameters that one client set are not cached for others.
    assert pooler.refusal("db", USER) == "no such database"


def test_first_goes_or_fails_within_login(fake_pooler):
    def replica(session):
        if len(replicas(server)) == 1:
            until_end(session)
        session.send(wire.error("FATAL", "42501", "must be a replication role"))

    pooler, server = fake_pooler(answering(replica), first=True)
    with pooler.client("db", USER, replication="database") as client:
        client.send(client.startup_packet())
        waiting.wait_for(lambda: len(replicas(server)) == 1, "the dial")
    assert replicas(server)[0].ended.wait(10)
    pooler.wait_pool("db", USER, sv_login=0)
    with pooler.client("db", USER, replication="database") as client:
        client.send(client.startup_packet())
        assert client.recv().field("M") == "login failed"
        client.expect_closed()
    with pooler.connect("db", USER) as other:
        assert other.value("select 1") == "fake"


@pytest.mark.parametrize("entry", ["*", "replication"])
def test_tools_where_the_database_does_not_exist(make_pooler, source, entry):
    """Both tools request a database named replication, and the entry has no dbname."""
    pooler = make_pooler({entry: "host=%s port=%d" % (source.host, source.port)},
                         settings=TRANSACTION, userlist=users())
    folder = waiting.scratch("backup")
    try:
        target = os.path.join(folder, "data")
        programs.run(pooler, source.program("pg_basebackup"), "-D", target, "-X", "stream",
                     "-c", "fast", user=USER)
        programs.run(pooler, source.program("pg_verifybackup"), target)
        for what in ("--create-slot", "--drop-slot"):
            programs.run(pooler, source.program("pg_receivewal"), "--slot", "w", what, user=USER)
    finally:
        waiting.discard(folder)


def test_options_may_come_before_the_word(fake_pooler):
    pooler, server = fake_pooler()
    with pooler.raw() as client:
        client.send(wire.special(
            wire.PROTOCOL_3_0, b"options\0-d 1 whatever\0user\0" + USER.encode()
            + b"\0database\0db\0replication\0database\0\0"))
        client.recv_until("Z")
        client.send(wire.query("IDENTIFY_SYSTEM"))
        client.recv_until("Z")
    assert dict(replicas(server)[0].startup_params())["options"] == "-d 1 whatever"


def test_options_of_others_are_still_read(fake_pooler):
    pooler, _ = fake_pooler()
    text = pooler.refusal("db", USER, replication="off", options="-d 1")
    assert text.startswith("unsupported options startup parameter")


def test_greeting_is_not_taken_from_a_replica(stream_pooler):
    """Parameters that one client set do not become the default of another."""
    pooler = stream_pooler()
    with logical(pooler, DateStyle="German") as client:
        pooler.admin.query("RECONNECT")
        pooler.wait_pool("db", USER, sv_idle=0)
        # This is the first server connection of the pool since then, and it belongs to this client
        # alone.
        assert client.value("show DateStyle") == "German, DMY"
        with pooler.connect("db", USER) as other:
            assert dict(other.parameters())["DateStyle"] == "ISO, MDY"
            assert other.value("show DateStyle") == "ISO, MDY"
        assert client.value("show DateStyle") == "German, DMY"


# lifetime of the connection


def test_parameters_on_a_real_server(stream_pooler, source):
    pooler = stream_pooler()
    with logical(pooler, DateStyle="German", options="-c work_mem=9MB",
                 application_name="own") as client:
        assert client.value("show DateStyle") == "German, DMY"
        assert client.value("show work_mem") == "9MB"
        assert client.value("show application_name") == "own"
        client.query("set DateStyle = 'SQL'")
        result = client.query("reset DateStyle")
        # The parameter is reported once, by the server itself.
        told = [m.pair() for m in result.messages if m.kind == "S"]
        assert told == [("DateStyle", "German, DMY")]
        assert client.value("show DateStyle") == "German, DMY"


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_own_server_for_its_life(stream_pooler, source, mode):
    pooler = stream_pooler({"pool_mode": mode, "server_reset_query_always": "1"})
    with logical(pooler) as client, pooler.connect("db", USER) as other:
        pid = client.value("select pg_backend_pid()")
        client.query("set work_mem = '7MB'")
        assert client.query("begin").tag == "BEGIN"
        assert client.query("commit").tag == "COMMIT"
        assert client.value("show work_mem") == "7MB"
        assert client.value("select pg_backend_pid()") == pid
        assert other.value("select pg_backend_pid()") != pid
        row, = servers(pooler)
        assert (row["state"], row["remote_pid"], row["replication"]) == ("active", pid, "logical")
        mine = pooler.show_one("CLIENTS", replication="logical")
        assert (mine["state"], mine["link"], row["link"]) == ("active", row["ptr"], mine["ptr"])
        mark = pooler.mark()
        client.send(wire.terminate())
        pooler.wait_log(r"LOG S-0x\S+ db/%s@.* closing because: replication client was closed"
                        % USER, mark)
    wait_no_senders(source)
    assert not servers(pooler)


def test_no_reset_query(fake_pooler):
    pooler, server = fake_pooler(settings={"pool_mode": "session", "server_check_delay": "0"})
    with logical(pooler) as client:
        client.query("IDENTIFY_SYSTEM")
    session, = replicas(server)
    assert session.ended.wait(10)
    assert session.kinds() == "QX"
    assert session.queries() == ["IDENTIFY_SYSTEM"]


def test_statements_pass_as_they_are(fake_pooler):
    """The connection belongs to one client, so the pooler renames and keeps no statements."""
    pooler, server = fake_pooler()
    with logical(pooler) as client:
        client.send(wire.parse("mine", "select 1"), wire.sync())
        client.recv_until("Z")
        client.send(wire.close("S", "mine"), wire.sync())
        assert [m.kind for m in client.recv_until("Z")] == ["3", "Z"]
        session, = replicas(server)
        assert session.kinds() == "PSCS"
        assert session.received[0].body.startswith(b"mine\0")
        assert pooler.show_one("CLIENTS", user=USER)["prepared_statements"] == "0"


def test_connect_query(fake_pooler):
    pooler, server = fake_pooler(connect_query="'select warm'")
    with logical(pooler) as client:
        client.query("IDENTIFY_SYSTEM")
    with physical(pooler) as client:
        client.query("IDENTIFY_SYSTEM")
    by_kind = {dict(s.startup_params())["replication"]: s.queries() for s in replicas(server)}
    assert by_kind == {"database": ["select warm", "IDENTIFY_SYSTEM"], "yes": ["IDENTIFY_SYSTEM"]}


# replication commands


def stream_end(client):
    """Ends the client's side of a stream and returns the types of the messages that follow the
    data."""
    client.send(wire.copy_done())
    return "".join(m.kind for m in client.recv_until("Z") if m.kind != "d")


def test_physical_stream(stream_pooler, source):
    pooler = stream_pooler()
    with physical(pooler) as client:
        system = client.query("IDENTIFY_SYSTEM").dicts()[0]
        assert client.query("SHOW wal_segment_size").value
        client.send(wire.query("START_REPLICATION PHYSICAL %s TIMELINE %s" % (
            system["xlogpos"], system["timeline"])))
        assert client.recv().kind == "W"
        source.do("insert into items values (1, 'physical') on conflict do nothing",
                  "select pg_switch_wal()")
        got = b""
        while b"physical" not in got:
            msg = client.recv()
            assert msg.kind == "d", msg
            got += msg.body
        position = struct.pack("!QQQQB", 1, 1, 1, 0, 1)
        client.send(wire.copy_data(b"r" + position))
        while client.recv().body[:1] != b"k":  # The server answers the query.
            pass
        assert pooler.pool("db", USER)["sv_active"] == 1
        assert stream_end(client) == "cCCZ"
        # The connection is usable afterwards.
        assert client.query("IDENTIFY_SYSTEM").dicts()[0]["systemid"] == system["systemid"]


def test_physical_server_runs_no_sql(stream_pooler):
    with physical(stream_pooler()) as client:
        assert "cannot execute SQL" in client.query("select 1", check=False).errors[0].text()
        assert client.query("IDENTIFY_SYSTEM").dicts()


def test_error_of_a_command_is_no_end(stream_pooler):
    with logical(stream_pooler()) as client:
        for sql in ["START_REPLICATION SLOT nowhere LOGICAL 0/0", "TIMELINE_HISTORY 9", "nonsense"]:
            assert client.query(sql, check=False).errors
        assert client.query("IDENTIFY_SYSTEM").dicts()


def test_logical_stream(stream_pooler, source):
    pooler = stream_pooler()
    with logical(pooler) as client, pooler.connect("db", USER) as writer:
        slot = client.query("CREATE_REPLICATION_SLOT s1 TEMPORARY LOGICAL test_decoding").dicts()[0]
        client.send(wire.query('START_REPLICATION SLOT s1 LOGICAL %s ("include-xids" \'0\')'
                               % slot["consistent_point"]))
        assert client.recv().kind == "W"
        for n in range(100, 120):
            writer.query("insert into items values (%d, 'row %d')" % (n, n))
        got = b""
        while b"row 119" not in got:
            got += client.recv().body
        assert got.count(b"table public.items: INSERT") == 20
        assert stream_end(client).startswith("cC")
        assert client.query("DROP_REPLICATION_SLOT s1").tag


def test_base_backup_by_hand(stream_pooler):
    """One Query has several result sets and COPY OUT as its answer."""
    with physical(stream_pooler()) as client:
        client.send(wire.query("BASE_BACKUP (CHECKPOINT 'fast', WAL false, MANIFEST 'yes')"))
        kinds = "".join(m.kind for m in client.recv_until("Z"))
        assert kinds.replace("d", "").replace("N", "") == "TDCTDCHcTDCCZ", kinds.replace("d", "")
        assert client.query("IDENTIFY_SYSTEM").dicts()


def test_base_backup_of_old_servers(fake_pooler):
    """Old servers send one COPY OUT for each tablespace, with nothing between them."""
    rows = (wire.row_description([("recptr", 25, -1)]) + wire.data_row(["0/0"])
            + wire.command_complete("SELECT"))
    copy = (wire.message("H", b"\0\0\0") + wire.copy_data("x" * 9000) + wire.copy_done())
    answer = rows + rows + copy * 3 + rows + wire.command_complete("SELECT") + wire.ready()
    history = (wire.row_description([("filename", 25, -1), ("content", 17, -1)])
               + wire.data_row(["a.history", "x"]) + wire.command_complete("SELECT") + wire.ready())

    def script(session):
        session.login()
        session.serve([("BASE_BACKUP", answer), ("TIMELINE_HISTORY", history)])

    pooler, _ = fake_pooler(script)
    with physical(pooler) as client:
        client.send(wire.query("BASE_BACKUP"))
        assert b"".join(m.raw() for m in client.recv_until("Z")) == answer
        client.send(wire.query("TIMELINE_HISTORY 2"))
        assert b"".join(m.raw() for m in client.recv_until("Z")) == history


def test_stream_with_a_result_set_behind_it(fake_pooler):
    """At the end of a timeline the server sends the next timeline as a result set."""
    behind = (wire.row_description([("next_tli", 20, 8), ("next_tli_startpos", 25, -1)])
              + wire.data_row(["2", "0/3000000"]) + wire.command_complete("SELECT")
              + wire.command_complete("START_STREAMING") + wire.ready())

    def replica(session):
        session.send(fakeserver.welcome())
        assert session.recv().kind == "Q"
        session.send(wire.message("W", b"\0\0\0") + wire.copy_data("wal") + wire.copy_done())
        while session.recv().kind != "c":
            pass
        session.send(behind)
        session.serve()

    pooler, _ = fake_pooler(answering(replica))
    with physical(pooler) as client:
        client.send(wire.query("START_REPLICATION 0/0"))
        assert [m.kind for m in client.recv_until("c")] == ["W", "d", "c"]
        client.send(wire.copy_data("late status"), wire.copy_done())
        assert b"".join(m.raw() for m in client.recv_until("Z")) == behind
        assert client.query("IDENTIFY_SYSTEM").tag == "IDENTIFY_SYSTEM"


# programs


def test_pg_basebackup(stream_pooler, source):
    pooler = stream_pooler()
    folder = waiting.scratch("backup")
    try:
        target = os.path.join(folder, "data")
        programs.run(pooler, source.program("pg_basebackup"), "-D", target, "-X", "stream",
                     "-c", "fast", user=USER)
        programs.run(pooler, source.program("pg_verifybackup"), target)
    finally:
        waiting.discard(folder)
    wait_no_senders(source)
    assert pooler.wait_log("closing because: replication client was closed")


def test_pg_basebackup_tar_and_fetch(stream_pooler, source):
    folder = waiting.scratch("backup")
    try:
        target = os.path.join(folder, "data")
        programs.run(stream_pooler(), source.program("pg_basebackup"), "-D", target, "-X", "fetch",
                     "-F", "tar", "-z", "-c", "fast", user=USER)
        assert os.path.getsize(os.path.join(target, "base.tar.gz")) > 100000
        assert os.path.exists(os.path.join(target, "backup_manifest"))
    finally:
        waiting.discard(folder)


def test_pg_receivewal(stream_pooler, source):
    pooler = stream_pooler()
    folder = waiting.scratch("wal")
    env = pooler.env_for(USER)
    tool = source.program("pg_receivewal")
    try:
        programs.run(pooler, tool, "--slot", "wal1", "--create-slot", user=USER)
        # The position is not at the border of two WAL segments.
        source.do("insert into items values (-2, 'before')")
        name = source.value("select pg_walfile_name(pg_current_wal_insert_lsn())")
        with programs.Program([tool, "-D", folder, "--slot", "wal1", "-n", "-v"], env) as run:
            waiting.wait_for(lambda: is_streaming(source), "pg_receivewal is streaming")
            source.do("insert into items select n, 'wal' from generate_series(1000, 3000) n",
                      "select pg_switch_wal()", "insert into items values (-1, 'after')")
            whole = os.path.join(folder, name)
            waiting.wait_for(lambda: os.path.exists(whole), "segment %s is complete" % name, 30)
            assert [c["replication"] for c in pooler.show("CLIENTS") if c["user"] == USER] \
                == ["physical"]
            run.process.send_signal(signal.SIGINT)
            code, _, err = run.finish()
            assert code == 0, err
        with open(whole, "rb") as got, \
                open(os.path.join(source.data, "pg_wal", name), "rb") as wanted:
            assert got.read() == wanted.read()
        wait_no_senders(source)
        programs.run(pooler, tool, "--slot", "wal1", "--drop-slot", user=USER)
    finally:
        waiting.discard(folder)


def test_pg_recvlogical(stream_pooler, source):
    pooler = stream_pooler()
    folder = waiting.scratch("logical")
    out = os.path.join(folder, "out")
    tool = source.program("pg_recvlogical")

    def text():
        return open(out).read() if os.path.exists(out) else ""

    try:
        programs.run(pooler, tool, "-d", "db", "--slot", "l1", "--create-slot",
                     "-P", "test_decoding", user=USER)
        command = [tool, "-d", "db", "--slot", "l1", "--start", "-f", out, "-n", "-F", "0"]
        with programs.Program(command, pooler.env_for(USER)) as run, \
                pooler.connect("db", USER) as writer:
            for n in range(5000, 5050):
                writer.query("insert into items values (%d, 'logical')" % n)
            waiting.wait_for(lambda: "5049" in text(), "the last row came", 30)
            assert text().count("INSERT: n[integer]:50") == 50
            run.process.send_signal(signal.SIGINT)
            code, _, err = run.finish()
            assert code == 0, err
        wait_no_senders(source)
        programs.run(pooler, tool, "-d", "db", "--slot", "l1", "--drop-slot", user=USER)
    finally:
        waiting.discard(folder)


# the end of the connection


def test_client_killed_in_mid_stream(stream_pooler, source):
    pooler = stream_pooler()
    client = physical(pooler)
    client.send(wire.query("START_REPLICATION PHYSICAL %s" %
                           source.value("select pg_current_wal_lsn()")))
    assert client.recv().kind == "W"
    client.close()
    pooler.wait_log(r"LOG S-0x\S+ .* closing because: replication client disconnected")
    wait_no_senders(source)
    pooler.wait_pool("db", USER, sv_active=0)
    with pooler.connect("db", USER) as other:
        assert other.value("select 1") == "1"


def test_server_killed_in_mid_stream(stream_pooler, source):
    pooler = stream_pooler()
    with physical(pooler) as client:
        client.send(wire.query("START_REPLICATION PHYSICAL %s" %
                               source.value("select pg_current_wal_lsn()")))
        assert client.recv().kind == "W"
        source.do("select pg_terminate_backend(pid) from pg_stat_activity"
                  " where backend_type='walsender'")
        messages = client.recv_until("E")
        assert messages[-1].field("C") == "57P01"


def test_dirty_is_closed_at_once(stream_pooler, source):
    pooler = stream_pooler({"server_fast_close": "0"})
    with physical(pooler) as client, logical(pooler) as idle:
        client.send(wire.query("START_REPLICATION PHYSICAL %s" %
                               source.value("select pg_current_wal_lsn()")))
        assert client.recv().kind == "W"
        assert idle.query("IDENTIFY_SYSTEM").dicts()
        pooler.admin.query("RECONNECT db")
        messages = client.recv_until("E")
        assert messages[-1].text() == "database configuration changed"
        client.expect_closed()
        idle.expect_fatal("database configuration changed")
    pooler.wait_log(r"LOG S-0x\S+ .* closing because: database configuration changed")
    wait_no_senders(source)


def test_login_error_is_its_own(stream_pooler):
    """A role without the right to replicate gets an error, and other clients of its pool are not
    affected."""
    pooler = stream_pooler()
    with pooler.connect("db", "nobody") as other, \
            pooler.connect("db", "nobody", replication="database") as client:
        client.send(wire.query("IDENTIFY_SYSTEM"))
        client.expect_fatal("login failed")
        pooler.wait_log(r"ERROR S-0x\S+ .*S: login failed: FATAL: must be .*replication")
        pooler.wait_log(r"LOG S-0x\S+ .* closing because: login failed")
        pooler.wait_log(r"LOG C-0x\S+ .* closing because: login failed")
        assert other.value("select 1") == "1"
    assert "server login failed" not in pooler.log()


@pytest.mark.one_worker  # Another worker would connect meanwhile.
def test_login_error_while_others_wait(fake_pooler):
    def replica(session):
        pooler.wait_pool("db", USER, cl_waiting=1)
        session.send(wire.error("FATAL", "42501", "no role for you"))
        until_end(session)

    def busy(session):
        session.login()
        session.serve([("slow", b"")])

    def script(session):
        (answering(replica) if server.sessions.index(session) == 1 else busy)(session)

    pooler, server = fake_pooler(script, first=True, pool_size=3)
    with pooler.connect("db", USER) as first, logical(pooler) as client, \
            pooler.connect("db", USER) as waiter:
        first.send(wire.query("slow"))
        waiting.wait_for(lambda: "slow" in server.sessions[0].queries(), "it runs")
        client.send(wire.query("IDENTIFY_SYSTEM"))
        server.wait_sessions(2)
        waiter.send(wire.query("select 1"))
        client.expect_fatal("login failed")
        assert [m.kind for m in waiter.recv_until("Z")] == ["T", "D", "C", "Z"]


def test_lost_within_login(fake_pooler):
    pooler, server = fake_pooler(answering(lambda session: None))
    with logical(pooler) as client:
        client.send(wire.query("IDENTIFY_SYSTEM"))
        client.expect_fatal("server conn crashed?")
    pooler.wait_pool("db", USER, sv_login=0, cl_active=0)


def test_nonsense_within_login(fake_pooler):
    def replica(session):
        session.send(wire.auth(0) + wire.message("S", b"no zero"))
        until_end(session)

    pooler, server = fake_pooler(answering(replica))
    with logical(pooler) as client:
        client.send(wire.query("IDENTIFY_SYSTEM"))
        client.expect_fatal("broken ParameterStatus packet")


def test_slow_login_is_given_up(fake_pooler):
    """The limit also ends the login when settings changed meanwhile."""
    pooler, server = fake_pooler(answering(until_end), settings={"server_connect_timeout": "1"})
    with logical(pooler) as client:
        client.send(wire.query("IDENTIFY_SYSTEM"))
        waiting.wait_for(lambda: len(replicas(server)) == 1, "the dial")
        pooler.set("query_timeout", "300")
        client.expect_fatal("connect timeout", "08006")


def test_client_goes_within_login(fake_pooler):
    pooler, server = fake_pooler(answering(until_end))
    with logical(pooler) as client:
        client.send(wire.query("IDENTIFY_SYSTEM"))
        waiting.wait_for(lambda: len(replicas(server)) == 1, "the dial")
        pooler.wait_pool("db", USER, sv_login=1)
    pooler.wait_log(r"LOG S-0x\S+ .* closing because: replication client disconnected")
    assert replicas(server)[0].ended.wait(10)
    pooler.wait_pool("db", USER, sv_login=0)
    with pooler.connect("db", USER) as other:
        assert other.value("select 1") == "fake"


def test_server_gets_dirty_within_login(fake_pooler):
    pooler, server = fake_pooler(answering(until_end))
    with logical(pooler) as client:
        client.send(wire.query("IDENTIFY_SYSTEM"))
        waiting.wait_for(lambda: len(replicas(server)) == 1, "the dial")
        pooler.admin.query("RECONNECT")
        client.expect_fatal("connect string changed", "08006")


def test_killed_within_login(fake_pooler):
    pooler, server = fake_pooler(answering(until_end))
    with logical(pooler) as client:
        client.send(wire.query("IDENTIFY_SYSTEM"))
        waiting.wait_for(lambda: len(replicas(server)) == 1, "the dial")
        pooler.admin.query("KILL db")
        assert client.recv().kind == "E"
        client.expect_closed()
    pooler.admin.query("RESUME db")


def test_cancel_within_login(fake_pooler):
    """No command runs yet, so the pooler answers the cancel request at once, and the connection
    stays usable."""
    go, early = [], []

    def replica(session):
        waiting.wait_for(lambda: go, "the test lets the login go on")
        early.append(session.has_data(0.3))
        session.send(fakeserver.welcome())
        session.serve()

    pooler, server = fake_pooler(answering(replica))
    with logical(pooler) as client:
        client.send(wire.query("IDENTIFY_SYSTEM"))
        waiting.wait_for(lambda: len(replicas(server)) == 1, "the dial")
        client.cancel()
        messages = client.recv_until("Z")
        assert [m.kind for m in messages] == ["E", "Z"] and messages[0].field("C") == "57014"
        client.send(wire.query("READ_REPLICATION_SLOT s"))
        go.append(True)
        client.recv_until("Z")
        assert replicas(server)[0].queries() == ["READ_REPLICATION_SLOT s"]
        assert early == [False]


def test_cancel_reaches_its_server(stream_pooler, source):
    with logical(stream_pooler()) as client:
        client.send(wire.query("select pg_sleep(30)"))
        waiting.wait_for(lambda: source.value(
            "select count(*) from pg_stat_activity where wait_event = 'PgSleep'") == "1", "it runs")
        client.cancel()
        assert "57014" in [m.field("C") for m in client.recv_until("Z") if m.kind == "E"]


# limits


def test_counts_in_pool_size_and_evicts(stream_pooler):
    pooler = stream_pooler(pool_size=2)
    with pooler.connect("db", USER) as one, pooler.connect("db", USER) as two, \
            logical(pooler) as client:
        one.query("begin")
        two.query("begin")
        one.query("commit")
        two.query("commit")
        pooler.wait_pool("db", USER, sv_idle=2)
        assert client.query("IDENTIFY_SYSTEM").dicts()
        pooler.wait_pool("db", USER, sv_idle=1, sv_active=1)  # Exactly one connection was evicted.
        assert pooler.log().count("closing because: evicted") == 1
        # The other clients share the remaining connection.
        one.query("begin")
        two.send(wire.query("select 1"))
        pooler.wait_pool("db", USER, cl_waiting=1)
        one.query("commit")
        two.recv_until("Z")


def test_waits_for_room(stream_pooler):
    pooler = stream_pooler(pool_size=1)
    with pooler.connect("db", USER) as one, logical(pooler) as client:
        one.query("begin")
        client.send(wire.query("IDENTIFY_SYSTEM"))
        pooler.wait_pool("db", USER, cl_waiting=1)
        one.query("commit")
        client.recv_until("Z")
        pooler.wait_pool("db", USER, sv_active=1, sv_idle=0)


def test_waits_not_for_ever(stream_pooler):
    pooler = stream_pooler({"query_wait_timeout": "1"}, pool_size=1)
    with pooler.connect("db", USER) as one, logical(pooler) as client:
        one.query("begin")
        client.send(wire.query("IDENTIFY_SYSTEM"))
        client.expect_fatal("query_wait_timeout")
        one.query("commit")


def test_many_come_and_go(stream_pooler, source):
    pooler = stream_pooler(pool_size=5)
    for _ in range(4):
        clients = [logical(pooler) for _ in range(4)]
        for client in clients:
            client.send(wire.query("IDENTIFY_SYSTEM"))
        for client in clients:
            client.recv_until("Z")
        assert len(servers(pooler)) == 4
        for client in clients:
            client.close()
        wait_no_senders(source)


# servers without protocol 3.2


@pytest.mark.parametrize("kind", ["true", "database"])
def test_replication_is_dialed_again_with_an_older_version(make_pooler, fake, kind):
    """Only the replication connection is refused: a component in front of the server treats it
    differently."""
    def script(session):
        code = session.recv_startup()
        if is_replica(session) and code != wire.PROTOCOL_3_0:
            session.send(wire.error("FATAL", "0A000", "unsupported frontend protocol 3.2"))
            return
        session.send(fakeserver.welcome())
        session.serve([("IDENTIFY_SYSTEM", fakeserver.plain_answer("SELECT"))])

    server = fake(script)
    pooler = make_pooler({"db": server.conn(pool_size=1)}, settings=dict(
        TRANSACTION, server_login_retry=60), userlist=users())
    with pooler.connect("db", USER, replication=kind) as client:
        assert client.query("IDENTIFY_SYSTEM").rows == [("fake",)]
        assert client.query("IDENTIFY_SYSTEM").rows == [("fake",)]
    assert [s.startup_code for s in replicas(server)] == [wire.PROTOCOL_3_2, wire.PROTOCOL_3_0]
    assert "login failed" not in pooler.log()


@pytest.mark.one_worker  # Each worker finds out by itself what version the server speaks.
def test_replication_that_is_refused_for_good(make_pooler, fake):
    def script(session):
        session.recv_startup()
        if is_replica(session):
            session.send(wire.error("FATAL", "08P01", "no replication here"))
            return
        session.send(fakeserver.welcome())
        session.serve()

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings=TRANSACTION, userlist=users())
    assert pooler.refusal("db", USER, replication="true") == "login failed"
    assert len(replicas(server)) == 2
    let_in_others(pooler)
    client = pooler.connect("db", USER, replication="true")
    client.send(wire.query("IDENTIFY_SYSTEM"))
    client.expect_fatal("login failed")
    assert len(replicas(server)) == 3
