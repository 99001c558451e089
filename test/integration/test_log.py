"""The log: format, events, destinations (operation.md 7)."""

import contextlib
import json
import os
import re
import resource
import socket
import threading
import time
import urllib.request

import pytest

import waiting
import wire
from test_cli import AS_ROOT

LEVELS = ("FATAL", "ERROR", "WARNING", "LOG", "DEBUG", "NOISE")
LINE = (r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \S+ \[\d+\] "
        r"(FATAL|ERROR|WARNING|LOG|DEBUG|NOISE) \S.*$")


def test_every_line_has_the_shape(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, args=["-v"], settings={"stats_period": 1})
    with pooler.connect() as client:
        client.query("select 1")
    pooler.refusal(user="nobody_known")
    pooler.admin.query("SHOW nonsense", check=False)
    pooler.wait_log(" stats: ")
    for line in pooler.log().splitlines():
        assert re.match(LINE, line) or line.startswith("\t"), line
    stamp = pooler.log()[:23]
    assert abs(time.mktime(time.strptime(stamp[:19], "%Y-%m-%d %H:%M:%S")) - time.timezone
               - time.time()) < 60 or os.environ.get("TZ")
    assert re.match(r".{23} UTC \[%d\] " % pooler.pid, pooler.log())


def test_local_time_zone(make_pooler):
    pooler = make_pooler({"db": ""}, start=False)
    environment = pooler.environment
    pooler.environment = lambda: dict(environment(), TZ="XYZ-3:30")
    pooler.start()
    assert re.match(r".{23} XYZ \[", pooler.log())


def test_startup_lines(pooler):
    log = pooler.log()
    limit = re.search(r" LOG kernel file descriptor limit: (\d+) \(hard: (\d+)\); "
                      r"max_client_conn: 100, max expected fd use: (\d+)$", log, re.M)
    assert limit and int(limit.group(3)) >= 110
    assert re.search(r" LOG listening on 127\.0\.0\.1:%d$" % pooler.port, log, re.M)
    assert re.search(r" LOG listening on unix:%s/\.s\.PGSQL\.%d$" % (pooler.dir, pooler.port), log,
                     re.M)
    engine = re.search(r" LOG process up: PgBouncer \S+, libevent \S+ \((\w+)\), adns: .+, tls: .+$", log, re.M)
    assert engine and engine.group(1) == pooler.show_one("STATE", key="io_engine")["value"]


def test_descriptors_that_are_needed(make_pooler, pg):
    """The log and --explain-config have one number; a limit below it is warned of, and a metric has what is in use."""
    port = waiting.PORTS.take()
    pooler = make_pooler({"db": pg.conn(), "forced": pg.conn(user="trust_user"), "narrow": pg.conn(max_db_connections=3)},
                         settings={"metrics_listen": "127.0.0.1:%d" % port, "max_client_conn": 300}, users={"x": "pool_size=7"}, start=False)
    pooler.preexec = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
    pooler.start()
    needed = re.search(r" max expected fd use: (\d+)$", pooler.log(), re.M).group(1)
    assert re.search(r" WARNING %s file descriptors may be needed, and the limit is 200: raise it" % needed, pooler.log())
    _, out, _ = pooler.run("--explain-config", pooler.ini)
    assert re.search(r"^  needed at most +%s$" % needed, out, re.M), out
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port) as answer:
        text = answer.read().decode()
    # The scrape has a descriptor of its own.
    assert 0 <= int(re.search(r"^process_open_fds (\d+)$", text, re.M).group(1)) - pooler.fds() <= 2


def test_connection_lines(pooler, pg):
    mark = pooler.mark()
    with pooler.connect() as client:
        port = client.sock.getsockname()[1]
        client.query("select 1")
        row = pooler.show_one("CLIENTS", user="trust_user")
        server = pooler.show_one("SERVERS")
    pooler.wait_log("closing because", mark)
    front = r" LOG C-%s: db/trust_user@127\.0\.0\.1:%d " % (row["ptr"], port)
    log = pooler.log_since(mark)
    assert re.search(front + "login attempt: db=db user=trust_user tls=no replication=no$", log, re.M)
    assert re.search(front + r"closing because: client unexpected eof \(age=\d+s\)$", log, re.M)
    assert re.search(r" LOG S-%s: db/trust_user@127\.0\.0\.1:%d new connection to server "
                     r"\(from 127\.0\.0\.1:%s\)$" % (server["ptr"], pg.port, server["local_port"]),
                     log, re.M)


def test_unix_connection_lines(make_pooler, pg):
    pooler = make_pooler({"db": pg.unix_conn()})
    with pooler.connect(unix=True) as client:
        client.query("select 1")
        client.send(wire.terminate())
        client.expect_closed()
    pooler.wait_log("closing because")
    front = r" LOG C-0x[0-9a-f]+: db/trust_user@unix\(%d\):%d " % (os.getpid(), pooler.port)
    assert re.search(front + r"closing because: client close request \(age=\d+s\)$", pooler.log(), re.M)
    assert re.search(r" LOG S-0x[0-9a-f]+: db/trust_user@unix(\(\d+\))?:%d new connection to server$"
                     % pg.port, pooler.log(), re.M)


def test_nodb_nouser_and_pooler_error(pooler):
    raw = pooler.raw()
    raw.send(wire.special(0x20000))
    raw.expect_fatal("old V2 protocol not supported")
    front = r"C-0x[0-9a-f]+: \(nodb\)/\(nouser\)@127\.0\.0\.1:\d+ "
    pooler.wait_log(r" LOG " + front + r"closing because: old V2 protocol not supported \(age=\d+s\)$")
    pooler.wait_log(r" WARNING " + front + r"pooler error: old V2 protocol not supported$")


def lines_of(pooler, mark):
    """Returns level, tag without its address, and text of the lines that have a tag."""
    tagged = re.findall(r"\] ([A-Z]+) [CS]-0x\S+: (\S+)@\S+ (.*)$", pooler.log_since(mark), re.M)
    return [(level, who, re.sub(r"age=\d+s", "age", text)) for level, who, text in tagged]


@pytest.mark.parametrize("method, told, reasons", [
    ("md5", "password authentication failed", []),
    ("scram-sha-256", "SASL authentication failed", ["password authentication failed"])])
def test_refused_login_names_who_was_asked_for(make_pooler, pg, method, told, reasons):
    """Programs that watch the log ban addresses by these lines, so their word order is fixed."""
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": method})
    mark = pooler.mark()
    assert pooler.refusal(user="nobody", secret="wrong") == told
    pooler.wait_log("pooler error", mark)
    assert lines_of(pooler, mark) == [
        ("LOG", "(nodb)/nobody", "no such user: nobody"),
        ("LOG", "(nodb)/nobody", "login attempt: db=db user=nobody tls=no replication=no"),
        *[("ERROR", "(nodb)/nobody", reason) for reason in reasons],
        ("LOG", "(nodb)/nobody", "closing because: %s (age)" % told),
        ("WARNING", "(nodb)/nobody", "pooler error: " + told)]


def test_log_connections_silences_these_lines_alone(make_pooler, pg):
    pooler = make_pooler({"*": pg.conn()}, settings={"log_connections": 0})
    mark = pooler.mark()
    with pooler.connect("postgres") as client:
        client.query("select 1")
    pooler.refusal(user="nobody")
    pooler.wait_log("pooler error", mark)
    texts = [text for _, _, text in lines_of(pooler, mark)]
    assert texts == ["registered new auto-database: postgres", "closing because: client unexpected eof (age)",
                     "registered new auto-database: db", "no such user: nobody",
                     'closing because: "trust" authentication failed (age)',
                     'pooler error: "trust" authentication failed']


def test_failed_connects_are_tagged(make_pooler):
    pooler = make_pooler({"unknown": "host=absent.invalid", "missing": "host=/absent port=1"},
                         settings={"query_wait_timeout": 1})
    tag = r" WARNING S-0x\S+: %s/trust_user@\S+ "
    with pooler.client("unknown") as one, pooler.client("missing") as other:
        one.send(one.startup_packet())
        other.send(other.startup_packet())
        pooler.wait_log(tag % "unknown" + r"DNS lookup failed: absent.invalid: result=\d+ \(")
        pooler.wait_log(tag % "missing" + "sbuf_connect failed to connect to unix:/absent/.s.PGSQL.1: No such file")


def test_newline_in_a_name(pooler):
    """It is escaped. Only texts of the program's own go on in another line."""
    pooler.refusal(user="line one\nline two")
    assert '/line one\\nline two@' in pooler.log() and 'no such user: "line one\\nline two"' in pooler.log()
    assert not re.search(r"^\s*line two", pooler.log(), re.M)


@pytest.mark.parametrize("setting, pattern", [
    ("log_connections", "login attempt|new connection to server"),
    ("log_disconnections", "closing because"),
    ("log_pooler_errors", "pooler error"),
    ("log_stats", " stats: "),
])
def test_log_switches(make_pooler, pg, setting, pattern):
    pooler = make_pooler({"db": pg.conn()}, settings={setting: 0, "stats_period": 1})
    pooler.connect().close()
    with pooler.raw() as raw:
        raw.send(wire.special(0x20000))
        raw.recv()
    mark = pooler.mark()
    if setting == "log_stats":
        waiting.holds_for(lambda: " stats: " not in pooler.log(), 1.5, "silence")
    else:
        pooler.wait_log(" stats: ", mark)
    assert not re.search(pattern, pooler.log())


def test_stats_line(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"stats_period": 1})
    with pooler.connect() as client:
        for _ in range(20):
            client.query("select 1")
    pooler.wait_log(r" LOG stats: \d+ xacts/s, \d+ queries/s, \d+ client parses/s, "
                    r"\d+ server parses/s, \d+ binds/s, \d+ client logins/s, in \d+ B/s, "
                    r"out \d+ B/s, xact \d+ us, query \d+ us, wait \d+ us$")


def test_logfile_beside_stderr(make_pooler):
    pooler = make_pooler({"db": ""}, start=False)
    pooler.settings["logfile"] = pooler.path("log")
    pooler.start()
    texts = [[line[23:] for line in pooler.read(name).splitlines()] for name in ("log", "stderr")]
    assert texts[0] == texts[1] and texts[0]


def test_logfile_that_cannot_be_opened(make_pooler):
    pooler = make_pooler(start=False)
    pooler.settings["logfile"] = pooler.path("absent/log")
    code, _, err = pooler.run_ini(None)
    assert code == 1 and pooler.path("absent/log") in err


def test_logfile_that_cannot_be_opened_later(make_pooler, pg):
    """A logfile that cannot be opened does not end a running process, and a reload with it changes
    nothing."""
    pooler = make_pooler({"db": pg.conn()}, start=False)
    os.mkdir(pooler.path("logs"), 0o777)
    waiting.give(pooler.path("logs"))
    pooler.settings["logfile"] = pooler.path("logs/log")
    pooler.start()
    for path in (pooler.path("absent/log"), pooler.dir):
        pooler.write("pgbouncer.ini", pooler.ini_text().replace(pooler.path("logs/log"), path))
        assert pooler.admin.query("RELOAD", check=False).errors
        pooler.wait_log(r" ERROR cannot open logfile '%s': " % path)
        assert pooler.admin.query("SET logfile = '%s'" % path, check=False).errors[0].text() == "SET failed"
        assert pooler.config()["logfile"] == pooler.path("logs/log")
    pooler.write_files()
    os.rename(pooler.path("logs"), pooler.path("gone"))
    pooler.signal("HUP")
    pooler.wait_log("config file loading failed$")
    assert pooler.connect().value("select 1") == "1"
    assert "login attempt: db=db" in pooler.read("gone/log")
    os.rename(pooler.path("gone"), pooler.path("logs"))
    pooler.reload()


@pytest.mark.parametrize("log_format", ["plain", "json"])
def test_log_on_a_full_disk(make_pooler, pg, log_format):
    """Clients do not notice it, stderr has the lines, and so has a new file."""
    pooler = make_pooler({"db": pg.conn()}, settings={"logfile": "/dev/full", "log_format": log_format})
    for _ in range(20):
        with pooler.connect() as client:
            assert client.value("select 1") == "1"
    pooler.refusal("nosuchdb")
    pooler.reload()
    pooler.wait_log("login attempt: db=db")
    # It is told once on stderr, and counted.
    pooler.connect().close()
    pooler.wait_log("client unexpected eof|client close request")
    told = "cannot write to logfile '/dev/full': No space left on device; its lines are lost"
    assert 1 <= pooler.log().count(told) <= 3  # again when RELOAD has opened the file anew
    state = dict(r.values() for r in pooler.show("STATE"))
    assert int(state["log_lines_lost"]) > 40
    assert state["log_error"] == "No space left on device"
    # There is room again.
    pooler.admin.query("SET logfile = '%s'" % pooler.path("other"))
    pooler.connect().close()
    waiting.wait_for(lambda: "login attempt: db=db" in pooler.read("other"), "lines in the new file")
    assert dict(r.values() for r in pooler.show("STATE"))["log_error"] == ""


def test_verbose_setting(make_pooler):
    pooler = make_pooler({"db": ""}, settings={"verbose": 2})
    assert " DEBUG " in pooler.log() or " NOISE " in pooler.log()


def test_verbosity_tells_more_and_no_content(make_pooler, pg):
    """Level 1 logs phases of connections, level 2 also decisions of the pool, level 3 also
    messages, and no level logs their content."""
    seen = {1: r" DEBUG [CS]-0x\S+: \S+ phase: \S.* -> relay",
            2: r" NOISE pool db/trust_user: a client gets a server$",
            3: r" NOISE C-0x\S+: db/trust_user@\S+ received 'Q', %d bytes$" % (
                5 + len("select 'private words'") + 1)}
    for verbosity in (0, 1, 2, 3):
        pooler = make_pooler({"db": pg.conn()}, args=["-v"] * verbosity,
                             settings={"pool_mode": "transaction"})
        with pooler.connect() as client:
            assert client.query("select 'private words'").value == "private words"
        pooler.wait_log("closing because")
        found = [level for level, pattern in seen.items() if re.search(pattern, pooler.log(), re.M)]
        assert found == list(range(1, verbosity + 1)), pooler.log()
        assert "private" not in pooler.log()


def test_verbosity_tells_the_steps_of_a_reload(make_pooler):
    pooler = make_pooler({"db": ""}, args=["-v"])
    mark = pooler.mark()
    pooler.reload()
    assert re.findall(r" DEBUG reload: (.*)$", pooler.log_since(mark), re.M) == [
        "everything is read", "databases, users, rules and certificates are in force",
        "derived keys are forgotten"]


def test_no_verbosity_hides_errors(make_pooler):
    pooler = make_pooler({"db": ""}, settings={"verbose": -5})
    pooler.refusal("absent", "admin_user")
    pooler.wait_log("pooler error: no such database: absent")


@AS_ROOT
def test_syslog_takes_the_message_alone(make_pooler):
    if os.path.lexists("/dev/log"):
        pytest.skip("this machine has a syslog of its own")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind("/dev/log")
        os.chmod("/dev/log", 0o666)
        log.settimeout(10)
        try:
            make_pooler({"db": ""}, settings={"syslog": 1, "syslog_ident": "mine",
                                              "syslog_facility": "local3", "verbose": 1})
            seen = b""
            while b"process up" not in seen:
                seen = log.recv(8192)
                if b" mine" not in seen:
                    continue  # Another program's.
                # Facility local3 is 19; priority info is 6.
                assert seen.startswith(b"<%d>" % (19 * 8 + 6)), seen
                assert b" LOG " not in seen, seen
        finally:
            os.unlink("/dev/log")


# JSON

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d$"


def objects(text):
    """Returns what a log in JSON says; a parser reads each line."""
    assert text.endswith("\n")
    found = [json.loads(line) for line in text.split("\n")[:-1]]
    for one in found:
        assert re.match(TIME, one["time"]) and one["level"] in LEVELS and one["message"], one
        assert list(one)[:3] == ["time", "level", "pid"]
    return found


def test_json_lines(make_pooler, pg):
    """Every line of a run is an object, whatever strangers send, and what the tag says is in
    members."""
    pooler = make_pooler({"db": pg.conn()}, start=False, settings={
        "log_format": "json", "verbose": 3, "stats_period": 1})
    pooler.settings["logfile"] = pooler.path("log")
    pooler.start()
    with pooler.connect() as client:
        client.query("select 1")
        row = pooler.show_one("CLIENTS", user="trust_user")
        server = pooler.show_one("SERVERS")
    nasty = 'a"b\\c\nd\te\x1b\u2028\u00e4'
    pooler.refusal(user=nasty)
    with pooler.raw() as raw:
        raw.send(wire.startup([("user", b"\xff\xfe"), ("database", "db")]))
        raw.recv()
    pooler.admin.query("SHOW nonsense", check=False)
    pooler.wait_log('"kind":"stats"')
    pooler.stop()
    said = objects(pooler.read("log"))
    assert objects(pooler.log()) == said
    assert [one for one in said if one["message"] == "no such user: " + nasty]
    assert [one for one in said if one.get("user") == "\ufffd\ufffd"]
    ours = [one for one in said if one.get("ptr") == row["ptr"]]
    login = next(one for one in ours if one["message"].startswith("login attempt"))
    assert {name: login.get(name) for name in (
        "level", "kind", "side", "id", "database", "user", "address", "port")} == {
            "level": "LOG", "kind": "connections", "side": "client", "id": int(row["id"]),
            "database": "db", "user": "trust_user", "address": row["addr"], "port": int(row["port"])}
    assert any(one["side"] == "server" and one["port"] == pg.port for one in said
               if one.get("ptr") == server["ptr"])


def test_json_names_workers_and_unix_peers(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"log_format": "json", "workers": 2})
    with pooler.connect(unix=True) as client:
        client.query("select 1")
    pooler.wait_log('"message":"closing because')
    said = objects(pooler.log())
    login = next(one for one in said if one["message"].startswith("login attempt"))
    assert login["worker"] in (0, 1) and login["address"] == "unix"
    assert login["peer_pid"] == os.getpid() and login["port"] == pooler.port
    assert not any("worker" in one for one in said if one["message"].startswith("process up"))


def test_format_changes_while_it_runs(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()})
    for form in ("json", "plain"):
        pooler.set("log_format", form)
        mark = pooler.mark()
        pooler.connect().close()
        pooler.wait_log("closing because", mark)
        if form == "json":
            objects(pooler.log_since(mark))
        else:
            assert all(re.match(LINE, line) for line in pooler.log_since(mark).splitlines())


# kinds of lines

KINDS = {"connections": "login attempt", "disconnections": "closing because",
         "pooler_errors": "pooler error", "stats": "stats: ", "auth": "no such user",
         "servers": "sbuf_connect failed to connect", "protocol": "unsupported startup parameter",
         "tls": "TLS handshake error", "dns": "DNS lookup failed",
         "pools": "registered new auto-database", "reload": "configuration reloaded",
         "takeover": "switchover of database", "console": "RELOAD command issued"}


@pytest.fixture
def liar():
    """The port of a server that agrees to TLS and does not speak it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            with contextlib.suppress(OSError):
                while True:
                    with listener.accept()[0] as sock:
                        sock.recv(8)
                        sock.sendall(b"S")
                        sock.recv(8)
                        sock.sendall(b"nonsense" * 8)
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def provoke(pooler, database):
    """Does something that each kind has a line about."""
    pooler.connect().close()
    pooler.refusal(user="nobody")
    pooler.refusal(no_such_parameter="1")
    pooler.connect(database).close()
    with contextlib.ExitStack() as open_now:
        broken = [open_now.enter_context(pooler.client(name)) for name in ("unknown", "missing", "lying")]
        for client in broken:
            client.send(client.startup_packet())
        for client in broken:
            client.expect_fatal("query_wait_timeout")
    pooler.reload()
    pooler.admin.query("SWITCHOVER two")


def test_kinds_have_levels_of_their_own(make_pooler, pg, liar):
    """A line of each kind is written, and is not when the level of its kind is off."""
    pooler = make_pooler({
        "db": pg.conn(), "*": pg.conn(), "unknown": "host=absent.invalid",
        "two": "host=127.0.0.1,127.0.0.2 port=%d load_balance_hosts=disable" % pg.port,
        "missing": "host=/absent port=1",
        "lying": "host=127.0.0.1 port=%d sslmode=require" % liar},
        settings={"log_format": "json", "stats_period": 1, "query_wait_timeout": 0.3,
                  "server_login_retry": 0.1})
    provoke(pooler, "postgres")
    for kind, text in KINDS.items():
        pooler.wait_log('"kind":"%s",.*"message":"%s' % (kind, text))
    pooler.change(log_levels=", ".join(kind + ":off" for kind in KINDS))
    mark = pooler.mark()
    provoke(pooler, "template1")
    pooler.set("log_levels", "stats:log")
    pooler.wait_log('"kind":"stats"', mark)
    kinds = {one["kind"] for one in objects(pooler.log_since(mark))}
    assert kinds <= {"stats", "general", "connections", "disconnections", "console"}, kinds


def test_debugging_lines_of_single_kinds(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={
        "log_connections": 0, "log_levels": "pools:noise, connections:debug, protocol:trace"})
    pooler.connect().close()
    pooler.wait_log(" DEBUG C-.* phase: ")
    pooler.wait_log(" LOG C-.* login attempt: ")
    pooler.wait_log(" NOISE pool db/trust_user: ")
    pooler.wait_log(" NOISE C-.* received a startup packet")
    pooler.reload()
    assert " DEBUG reload: " not in pooler.log()


def test_levels_that_are_not_known(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()})
    refused = pooler.admin.query("SET log_levels = 'dsn:debug'", check=False).errors[0]
    assert "for parameter log_levels: kind 'dsn' is unknown; known are: general, " in refused.field("D")
    pooler.settings["log_levels"] = "dns:loud"
    pooler.write_files()
    refused = pooler.admin.query("RELOAD", check=False).errors[0]
    assert "level 'loud' is unknown; known are: off, error, " in refused.field("D")


# when lines are written

def test_the_end_of_a_process_loses_no_line(make_pooler, pg):
    """A fault ends the process in the middle of a turn, and TERM in an orderly way."""
    pooler = make_pooler({"db": pg.conn()}, start=False)
    pooler.settings["logfile"] = pooler.path("log")
    pooler.start()
    clients = [pooler.connect() for _ in range(5)]
    pooler.signal("TERM")
    for client in clients:
        client.close()
    pooler.wait_exit()
    assert len(re.findall(" C-.*closing because", pooler.read("log"))) == 5
    assert pooler.read("log") == pooler.log()


def test_a_console_moves_when_phases_are_logged(make_pooler, pg):
    """The line about the phase in which a client goes to the control thread read beyond what it has there."""
    pooler = make_pooler({"db": pg.conn()}, settings={"workers": 2, "verbose": 1})
    for _ in range(3):
        with pooler.console() as console:
            assert console.value("SHOW VERSION")
    assert "phase: login -> leaving" in pooler.log()
