"""The command line and the process (operation.md 6)."""

import fcntl
import os
import pwd
import re
import signal
import socket
import stat
import struct
import subprocess

import pytest

import waiting
import wire

SAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../etc/pgbouncer.ini")
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


def fatals(text):
    return re.findall(r" FATAL (.*)", text)


def errors(text):
    return re.findall(r" ERROR (.*)", text)


# options


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(make_pooler, option):
    pooler = make_pooler(start=False)
    code, out, err = pooler.run(option)
    assert code == 0 and err == ""
    for text in ("-d, --daemon", "-q, --quiet", "-R, --reboot", "-u, --user=", "-v, --verbose",
                 "-V, --version", "-h, --help"):
        assert text in out, text
    assert max(map(len, out.replace(pooler.binary, "pgbouncer").splitlines())) <= 80


@pytest.mark.parametrize("option", ["-V", "--version", "--vers"])
def test_version(make_pooler, option):
    code, out, err = make_pooler(start=False).run(option)
    assert code == 0 and err == ""
    lines = out.splitlines()
    assert re.fullmatch(r"PgBouncer \d+\.\d+\.\d+", lines[0])
    assert re.match(r"libevent \d", lines[1])
    assert lines[2].startswith("adns: ")
    assert lines[3].startswith("tls: ")
    assert lines[4] == "systemd: yes"
    assert [line.split(": ")[0] for line in lines[5:]] == ["pam", "ldap", "gssapi", "oauth", "io_uring", "ncurses"]
    assert all(line.split(": ")[1] in ("yes", "no") for line in lines[5:])


def test_version_is_that_of_the_console(pooler):
    _, out, _ = pooler.run("-V")
    assert pooler.admin.value("SHOW VERSION") == out.splitlines()[0]


@pytest.mark.parametrize("option", ["-z", "--nonsense", "--user", "-u", "--daemon=1", "--ver"])
def test_bad_option(make_pooler, option):
    code, out, err = make_pooler(start=False).run(option)
    assert code == 1 and out == ""
    lines = err.splitlines()
    assert len(lines) == 2
    assert re.fullmatch(r'Try "\S+ --help" for more information\.', lines[1])


@pytest.mark.parametrize("args", [[], ["a.ini", "b.ini"], ["-q"], ["a.ini", "-v", "b.ini"]])
def test_wrong_number_of_files(make_pooler, args):
    code, out, err = make_pooler(start=False).run(*args)
    assert code == 1 and out == ""
    assert re.fullmatch(r'(\S+): no configuration file specified\n'
                        r'Try "\1 --help" for more information\.\n', err)


@pytest.mark.parametrize("args", [["-qv"], ["--qui", "--verb"], ["-v", "-q"]])
def test_options_are_abbreviated_and_bundled(make_pooler, pg, args):
    pooler = make_pooler({"db": pg.conn()}, args=args, start=False)
    logfile = pooler.path("log")
    pooler.settings["logfile"] = logfile
    pooler.launch()
    waiting.wait_for(lambda: "process up" in pooler.read("log"), "up")
    assert " DEBUG " in pooler.read("log")
    assert pooler.read("stderr") == "" and pooler.read("stdout") == ""


def test_options_may_follow_the_file(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, start=False)
    pooler.command = lambda *files: [pooler.binary, *files, "-v"]
    pooler.start()
    assert " DEBUG " in pooler.log()


def test_missing_config_file(make_pooler):
    pooler = make_pooler(start=False)
    code, _, err = pooler.run("absent.ini")
    assert code == 1
    assert errors(err)[0] == 'could not load file "absent.ini": No such file or directory'
    assert fatals(err) == ["cannot load config file"]


def test_relative_paths_are_relative_to_the_start_folder(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, start=False,
                         settings={"auth_file": "userlist.txt", "auth_type": "plain",
                                   "logfile": "here.log", "pidfile": "here.pid"})
    pooler.command = lambda *_: [pooler.binary, "pgbouncer.ini"]
    pooler.start()
    pooler.connect(user="md5_user").close()
    assert "process up" in pooler.read("here.log")
    assert pooler.read("here.pid") == "%d\n" % pooler.pid


def sample_file(_):
    with open(SAMPLE, encoding="utf-8") as f:
        return f.read()


def sample_file_with_all_entries(_):
    """The sample file, with its examples of databases, users and peers enabled."""
    entries, settings = sample_file(_).split("[pgbouncer]")
    assert len(re.findall(r"^;", entries, re.M)) == 4
    return re.sub(r"^;", "", entries, flags=re.M) + "[pgbouncer]" + settings


@pytest.mark.parametrize("sample", [sample_file, sample_file_with_all_entries])
def test_sample_is_a_config_file(make_pooler, sample):
    pooler = make_pooler(start=False)
    out = sample(pooler)
    assert "[pgbouncer]\n" in out
    for path in ("/var/log/pgbouncer/pgbouncer.", "/run/pgbouncer/pgbouncer.",
                 "/etc/pgbouncer/userlist."):
        out = out.replace(" = " + path, " = " + pooler.path(os.path.basename(path)))
    pooler.write("sample.ini", out)
    pooler.write("userlist.txt", "")
    code, out, err = pooler.run("-t", pooler.path("sample.ini"))
    assert code == 0, out + err


# check-config


@pytest.mark.parametrize("option", ["-t", "--check-config"])
def test_check_config_touches_nothing(make_pooler, option):
    pooler = make_pooler({"db": ""}, start=False)
    pooler.settings.update(logfile=pooler.path("log"), pidfile=pooler.path("pid"))
    pooler.write_files()
    before = sorted(os.listdir(pooler.dir))
    code, out, err = pooler.run(option, pooler.ini)
    assert code == 0, out + err
    assert sorted(os.listdir(pooler.dir)) == before


def test_check_config_beside_a_running_pooler(pooler):
    code, out, err = pooler.run("-t", pooler.ini)
    assert code == 0, out + err
    assert pooler.connect().value("select 1") == "1"


@pytest.mark.parametrize("text, line", [
    ("[databases]\ndb = port=none\n[pgbouncer]\n", 2),
    ("[pgbouncer]\nlisten_port = x\n", 2),
    ("[pgbouncer]\n\nnonsense = 1\n", 3),
    ("[pgbouncer]\npool_mode transaction\n", 2),
    ("[nonsense]\n", 1),
    ("[users]\nu = nonsense=1\n[pgbouncer]\n", 2),
    ("[peers]\n0 = host=a\n[pgbouncer]\n", 2),
])
def test_check_config_names_file_and_line(make_pooler, text, line):
    pooler = make_pooler(start=False)
    code, out, err = pooler.run_ini(text, "-t")
    assert code == 1
    assert re.search(r"^%s:%d: .+" % (re.escape(pooler.ini), line), out + err, re.M), out + err


def test_check_config_looks_into_the_user_list(make_pooler):
    pooler = make_pooler(start=False)
    pooler.write_files()
    pooler.write("userlist.txt", '"good" "one"\nbroken\n')
    code, out, err = pooler.run("--check-config", pooler.ini)
    assert code == 1
    assert re.search(r"^%s:2: .+" % re.escape(pooler.path("userlist.txt")), out + err, re.M)


# the account of the process


@AS_ROOT
def test_root_is_refused(make_pooler):
    pooler = make_pooler(start=False)
    pooler.as_root = True
    code, _, err = pooler.run_ini(None)
    assert code == 1
    assert fatals(err) == ["PgBouncer should not run as root"]


def uid_of(pid):
    with open("/proc/%d/status" % pid) as status:
        return int(re.search(r"^Uid:\s+(\d+)", status.read(), re.M).group(1))


def groups_of(pid):
    with open("/proc/%d/status" % pid) as status:
        return re.search(r"^Groups:\s*(.*)$", status.read(), re.M).group(1).split()


@AS_ROOT
@pytest.mark.parametrize("how", ["option", "setting", "both"])
def test_user_switch(make_pooler, how):
    name = waiting.unprivileged().pw_name
    pooler = make_pooler({"db": ""}, start=False, as_root=True)
    if how != "option":
        pooler.settings["user"] = name if how == "setting" else "nosuchaccount"
    if how != "setting":
        pooler.args = ["-u", name]
    pooler.start()
    account = pwd.getpwnam(name)
    assert uid_of(pooler.pid) == account.pw_uid
    assert groups_of(pooler.pid) in ([], [str(account.pw_gid)])


def test_user_switch_to_nobody_known(make_pooler):
    pooler = make_pooler(start=False)
    code, _, err = pooler.run_ini(None, "--user=nosuchaccount")
    assert code == 1
    assert fatals(err) == ["could not find user 'nosuchaccount' to switch to"]


def test_user_switch_without_the_right(make_pooler):
    pooler = make_pooler(start=False)
    code, _, err = pooler.run_ini(None, "-uroot")
    assert code == 1
    assert fatals(err)[0].startswith("failed to assume identity of user 'root': ")


# pidfile


def test_pidfile(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, start=False)
    path = pooler.settings["pidfile"] = pooler.path("pid")
    pooler.start()
    waiting.wait_for(lambda: os.path.exists(path), "pidfile")
    assert pooler.read("pid") == "%d\n" % pooler.pid
    assert stat.S_IMODE(os.stat(path).st_mode) & 0o133 == 0
    pooler.stop()
    assert not os.path.exists(path)


@pytest.mark.parametrize("content", ["", "nonsense\n", "own"])
def test_pidfile_of_another(make_pooler, content):
    pooler = make_pooler(start=False)
    path = pooler.settings["pidfile"] = pooler.path("pid")
    pooler.write("pid", content if content != "own" else "%d\n" % os.getpid())
    code, _, err = pooler.run_ini(None)
    assert code == 1
    assert fatals(err) == ["pidfile '%s' exists, another instance running?" % path]
    assert os.path.exists(path)


def test_stale_pidfile(make_pooler):
    gone = subprocess.Popen(["true"])
    gone.wait()
    pooler = make_pooler(start=False)
    pooler.settings["pidfile"] = pooler.path("pid")
    pooler.write("pid", "%d\n" % gone.pid)
    pooler.start()
    assert " LOG stale pidfile, removing\n" in pooler.log()
    assert pooler.read("pid") == "%d\n" % pooler.pid


def test_pidfile_that_cannot_be_written(make_pooler):
    pooler = make_pooler(start=False)
    path = pooler.settings["pidfile"] = pooler.path("absent/pid")
    code, _, err = pooler.run_ini(None)
    assert code == 1
    assert fatals(err) == ["could not open pidfile '%s': No such file or directory" % path]


# daemonize


def test_daemon_needs_a_pidfile(make_pooler):
    code, _, err = make_pooler(start=False).run_ini(None, "-d")
    assert code == 1
    assert fatals(err) == ["daemon needs pidfile configured"]


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open("/proc/%d/stat" % pid) as status:
        return status.read().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.parametrize("options", [["-d"], ["-d", "-q"]])
def test_daemon_that_cannot_start(make_pooler, options):
    """Whoever has started it is told, unless they asked for silence."""
    pooler = make_pooler(start=False)
    pooler.settings.update(pidfile=pooler.path("pid"), logfile=pooler.path("log"))
    with socket.create_server(("127.0.0.1", pooler.port)):
        code, out, err = pooler.run_ini(None, *options)
    assert (code, out) == (1, "")
    told = ["failed to listen on any address in listen_addr list: 127.0.0.1"]
    why = "\n\t127.0.0.1:%d: bind(): Address already in use\n" % pooler.port
    assert fatals(pooler.read("log")) == told and why in pooler.read("log")
    assert fatals(err) == ([] if "-q" in options else told) and (why in err) == ("-q" not in options)
    assert not os.path.exists(pooler.path("pid"))


@pytest.mark.parametrize("option", ["-d", "--daemon"])
def test_daemon(make_pooler, pg, option):
    pooler = make_pooler({"db": pg.conn()}, start=False)
    pooler.settings.update(pidfile=pooler.path("pid"), logfile=pooler.path("log"))
    code, out, err = pooler.run_ini(None, option)
    assert (code, out) == (0, "")
    # it serves as soon as the command has ended
    pid = int(pooler.read("pid"))
    try:
        assert "process up" in pooler.read("log") and "process up" not in err
        assert os.getsid(pid) != os.getsid(0) and os.getsid(pid) != pid
        assert os.readlink("/proc/%d/cwd" % pid) == pooler.dir
        assert {os.readlink("/proc/%d/fd/%d" % (pid, fd)) for fd in (0, 1, 2)} == {"/dev/null"}
        with pooler.connect() as client:
            assert client.value("select 42") == "42"
    finally:
        os.kill(pid, signal.SIGTERM)
        waiting.wait_for(lambda: not is_alive(pid), "daemon ends")
    assert not os.path.exists(pooler.path("pid"))
    assert not os.path.exists(pooler.path(".s.PGSQL.%d" % pooler.port))


# listening


def test_second_process_on_the_same_socket(pooler):
    code, _, err = pooler.run(pooler.ini)
    assert code == 1
    assert fatals(err) == ["unix socket is in use, cannot continue"]
    assert pooler.connect(unix=True).value("select 1") == "1"


def test_full_queue_is_no_stale_socket(make_pooler):
    """The socket file of a process that is too busy to accept is not removed as stale."""
    pooler = make_pooler(settings={"listen_backlog": 1})
    held = []
    os.kill(pooler.pid, signal.SIGSTOP)
    try:
        with pytest.raises(BlockingIOError):
            while True:
                held.append(socket.socket(socket.AF_UNIX))
                held[-1].setblocking(False)
                held[-1].connect(pooler.path(".s.PGSQL.%d" % pooler.port))
        code, _, err = pooler.run(pooler.ini)
    finally:
        os.kill(pooler.pid, signal.SIGCONT)
        for sock in held:
            sock.close()
    assert code == 1
    assert fatals(err) == ["unix socket is in use, cannot continue"]

    def has_room():
        try:
            return pooler.client("pgbouncer", "admin_user", unix=True)
        except BlockingIOError:
            return None

    with waiting.wait_for(has_room) as console:
        assert console.login().query("SHOW VERSION").tag == "SHOW"


def is_refused(path):
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(path) != 0


def test_starts_at_once(make_pooler):
    """Several processes start at once. One of them gets the socket and keeps it."""
    pooler = make_pooler(start=False, settings={"listen_addr": None, "logfile": None, "pidfile": None})
    pooler.write_files()
    path = pooler.path(".s.PGSQL.%d" % pooler.port)
    for _ in range(8):
        started = [subprocess.Popen([pooler.binary, pooler.ini], cwd=pooler.dir, stderr=subprocess.PIPE, text=True,
                                    env=pooler.environment(), **pooler.switch()) for _ in range(4)]
        try:
            waiting.wait_for(lambda: len([p for p in started if p.poll() is not None]) == 3, "three give up")
            winner = [p for p in started if p.poll() is None][0]
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(path)
                assert struct.unpack("3i", sock.getsockopt(
                    socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0] == winner.pid
        finally:
            for process in started:
                process.kill()
                text = process.communicate()[1]
                assert process is winner or "in use" in text or "another process listens" in text, text
        # The kernel may close the socket a moment after the end of the process.
        waiting.wait_for(lambda: is_refused(path), "nobody listens")


def test_a_start_waits_for_one_in_the_same_folder(make_pooler):
    """Only one process at a time checks whether a socket file is stale."""
    pooler = make_pooler(start=False, settings={"listen_addr": None})
    folder = os.open(pooler.dir, os.O_RDONLY)

    def has_folder_open():
        fds = "/proc/%d/fd" % pooler.process.pid
        try:
            return pooler.dir in [os.readlink(os.path.join(fds, fd)) for fd in os.listdir(fds)]
        except FileNotFoundError:
            return False  # One was closed meanwhile.

    def is_listening():
        return os.path.exists(pooler.path(".s.PGSQL.%d" % pooler.port))

    fcntl.flock(folder, fcntl.LOCK_EX)
    pooler.launch()
    waiting.wait_for(lambda: is_listening() or has_folder_open(), "it waits or listens")
    assert has_folder_open()
    os.close(folder)
    waiting.wait_for(is_listening, "it listens")
    waiting.wait_for(pooler.is_up, "it is up")


def test_passed_sockets_of_a_daemon(make_pooler, pg):
    """systemd passes the sockets to a process id, and a process that becomes a daemon changes its
    id."""
    pooler = make_pooler({"db": pg.conn()}, start=False, settings={"listen_addr": None})
    pooler.settings["pidfile"] = pooler.path("pid")
    pooler.write_files()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def pass_on():
            if listener.fileno() != 3:
                os.dup2(listener.fileno(), 3)
            os.set_inheritable(3, True)
        done = subprocess.run(
            ["sh", "-c", 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" -d "$1"', pooler.binary, pooler.ini],
            cwd=pooler.dir, env=pooler.environment(), preexec_fn=pass_on, close_fds=False, timeout=90,
            capture_output=True, text=True, **pooler.switch())
        assert done.returncode == 0, done.stderr
        waiting.wait_for(lambda: os.path.exists(pooler.path("pid")) and pooler.read("pid").strip(), "daemon")
        pid = int(pooler.read("pid"))
        try:
            pooler.port = listener.getsockname()[1]
            with pooler.connect() as client:
                assert client.value("select 1") == "1"
        finally:
            os.kill(pid, signal.SIGTERM)
            waiting.wait_for(lambda: not is_alive(pid), "daemon ends")


def test_socket_lock_file(make_pooler):
    pooler = make_pooler(start=False)
    pooler.write(".s.PGSQL.%d.lock" % pooler.port, "")
    code, _, err = pooler.run_ini(None)
    assert code == 1
    assert fatals(err)[-1] == "unix port %d is in use" % pooler.port


def test_stale_socket_file_is_replaced(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, start=False)
    path = pooler.path(".s.PGSQL.%d" % pooler.port)
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(path)
    waiting.give(path)
    pooler.start()
    pooler.connect(unix=True).close()


def test_no_address_to_listen_on(make_pooler):
    pooler = make_pooler(start=False)
    with socket.create_server(("127.0.0.1", pooler.port)):
        code, _, err = pooler.run_ini(None)
    assert code == 1
    why = "127.0.0.1:%d: bind(): Address already in use" % pooler.port
    assert "WARNING cannot listen on " + why in err
    assert fatals(err) == ["failed to listen on any address in listen_addr list: 127.0.0.1"]
    assert err.endswith("\n\t%s\n" % why)


def test_unresolvable_listen_addr(make_pooler):
    pooler = make_pooler(start=False)
    pooler.settings["listen_addr"] = "no.such.host.invalid"
    code, _, err = pooler.run_ini(None)
    assert code == 1
    assert re.fullmatch(r"getaddrinfo\('no.such.host.invalid', '%d'\) = .+ \[-?\d+\]" % pooler.port,
                        fatals(err)[0])


def test_unix_socket_folder_that_is_absent(make_pooler):
    pooler = make_pooler(start=False)
    pooler.settings["unix_socket_dir"] = pooler.path("absent")
    code, _, err = pooler.run_ini(None)
    assert code == 1
    assert fatals(err)[-1].startswith("failed to create unix socket")


def test_abstract_unix_socket(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, start=False)
    name = "@pooler-test-%d" % pooler.port
    pooler.settings["unix_socket_dir"] = name
    pooler.start()
    assert re.search(r" LOG listening on unix:%s" % name, pooler.log())
    with wire.Client(name, pooler.port, "trust_user", "db").login() as client:
        assert client.value("select 1") == "1"


@pytest.mark.parametrize("mode", ["0777", "0700", "0750"])
def test_unix_socket_mode(make_pooler, mode):
    pooler = make_pooler({"db": ""}, settings={"unix_socket_mode": mode})
    path = pooler.path(".s.PGSQL.%d" % pooler.port)
    assert stat.S_IMODE(os.stat(path).st_mode) == int(mode, 8)
    assert pooler.config()["unix_socket_mode"] == str(int(mode, 8))


def test_unknown_unix_socket_group(make_pooler):
    pooler = make_pooler(start=False, settings={"unix_socket_group": "nosuchgroup"})
    code, _, err = pooler.run_ini(None)
    assert code == 1 and fatals(err)


def test_only_tcp_or_only_unix(make_pooler, pg):
    tcp = make_pooler({"db": pg.conn()}, settings={"unix_socket_dir": ""})
    tcp.connect().close()
    assert "unix:" not in tcp.log()
    unix = make_pooler({"db": pg.conn()}, settings={"listen_addr": None})
    unix.connect(unix=True).close()
    with pytest.raises(ConnectionRefusedError):
        unix.raw()


@pytest.mark.parametrize("env", [{}, {"LISTEN_FDS": "0"}, {"LISTEN_FDS": "1", "LISTEN_PID": "1"}],
                         ids=["alone", "no sockets", "sockets of another process"])
def test_reboot_without_an_old_process(make_pooler, pg, env):
    pooler = make_pooler({"db": pg.conn()}, args=["-R"], env=env)
    assert "WARNING" not in pooler.log()
    assert " LOG old process not found, try to continue normally\n" in pooler.log()
    pooler.connect().close()


# signals


def test_hup_reads_the_config_again(pooler, pg):
    pooler.databases["new"] = pg.conn()
    pooler.write_files()
    pooler.signal("HUP")
    pooler.wait_log(r" LOG got SIGHUP, re-reading config$")
    waiting.wait_for(lambda: [r for r in pooler.show("DATABASES") if r["name"] == "new"], "reload")
    assert pooler.connect("new").value("select 1") == "1"


def test_hup_reopens_the_log(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, start=False)
    pooler.settings["logfile"] = pooler.path("log")
    pooler.start()
    os.rename(pooler.path("log"), pooler.path("log.1"))
    pooler.signal("HUP")
    pooler.wait_log("got SIGHUP")

    def has_moved():
        pooler.connect().close()
        return "login attempt" in pooler.read("log")

    waiting.wait_for(has_moved, "new log file")


def test_hup_with_a_broken_file(pooler):
    before = pooler.config()
    pooler.write("pgbouncer.ini", "[pgbouncer]\npool_mode = nonsense\n")
    pooler.signal("HUP")
    pooler.wait_log(r" WARNING config file loading failed$")
    assert pooler.config() == before


def test_term_waits_for_clients(pooler):
    client = pooler.connect()
    client.query("select 1")
    pooler.signal("TERM")
    pooler.wait_log(r" LOG got SIGTERM, shutting down, waiting for all clients disconnect$")
    with pytest.raises(ConnectionRefusedError):
        pooler.raw()
    assert pooler.refusal(unix=True) == "pooler is shutting down"
    assert client.value("select 2") == "2"
    client.query("begin")
    assert client.value("select 3") == "3"
    client.query("commit")
    assert pooler.is_running()
    client.close()
    assert pooler.wait_exit() == 0
    pooler.wait_log(r" LOG client connections dropped, exiting$")
    assert not os.path.exists(pooler.path(".s.PGSQL.%d" % pooler.port))


def test_console_is_reachable_in_shutdown(pooler):
    client = pooler.connect()
    pooler.signal("TERM")
    pooler.wait_log("got SIGTERM")
    with pooler.connect("pgbouncer", "admin_user", unix=True) as console:
        assert console.query("SHOW STATE").rows
        client.close()
        waiting.holds_for(pooler.is_running, 0.8, "a console keeps the pooler up")
    assert pooler.wait_exit() == 0


def test_term_without_clients(pooler):
    pooler.signal("TERM")
    assert pooler.wait_exit() == 0


def test_term_twice(pooler):
    client = pooler.connect()
    pooler.signal("TERM")
    pooler.wait_log("got SIGTERM")
    pooler.signal("TERM")
    assert pooler.wait_exit() == 0
    pooler.wait_log(r" LOG got SIGTERM while shutting down, fast exit$")
    client.expect_closed()


def test_int_waits_for_servers(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()},
                         settings={"pool_mode": "transaction", "default_pool_size": 1})
    busy, waiter, idle = pooler.connect(), pooler.connect(), pooler.connect()
    busy.query("begin")
    waiter.send(wire.query("select 1"))
    pooler.wait_pool(cl_waiting=1)
    pooler.signal("INT")
    pooler.wait_log(
        r" LOG got SIGINT, shutting down, waiting for all servers connections to be released$")
    waiter.expect_fatal("server shutting down")
    idle.send(wire.query("select 1"))
    idle.expect_fatal("server shutting down")
    assert busy.value("select 7") == "7"
    assert pooler.is_running()
    assert busy.query("commit").tag == "COMMIT"
    assert pooler.wait_exit() == 0
    pooler.wait_log(r" LOG server connections dropped, exiting$")
    busy.expect_closed()


def test_int_twice(pooler):
    client = pooler.connect()
    client.query("begin")
    pooler.signal("INT")
    pooler.wait_log("got SIGINT")
    pooler.signal("INT")
    assert pooler.wait_exit() == 0
    pooler.wait_log(r" LOG got SIGINT while shutting down, fast exit$")
    client.expect_closed()


def test_quit_is_fast(pooler):
    client = pooler.connect()
    client.query("begin")
    pooler.signal("QUIT")
    assert pooler.wait_exit() == 0
    pooler.wait_log(r" LOG got SIGQUIT, fast exit$")
    client.expect_closed()


def test_usr1_and_usr2(pooler):
    client = pooler.connect()
    client.query("select 1")
    pooler.signal("USR2")
    pooler.wait_log(r" LOG got SIGUSR2, but not paused/suspended$")
    pooler.signal("USR1")
    pooler.wait_log(r" LOG got SIGUSR1, pausing all activity$")
    assert pooler.show("STATE")[1] == {"key": "paused", "value": "yes"}
    pooler.signal("USR1")
    pooler.wait_log(r" LOG got SIGUSR1, but already paused/suspended$")
    client.send(wire.query("select 2"))
    pooler.wait_pool(cl_waiting=1, sv_idle=0)
    assert not client.has_data(0.1)
    pooler.signal("USR2")
    pooler.wait_log(r" LOG got SIGUSR2, continuing from PAUSE$")
    assert client.finish().rows == [("2",)]


def test_usr2_while_shutting_down(pooler):
    client = pooler.connect()
    pooler.signal("TERM")
    pooler.wait_log("got SIGTERM")
    pooler.signal("USR2")
    pooler.wait_log(r" LOG got SIGUSR2 while shutting down, ignoring$")
    client.close()
    assert pooler.wait_exit() == 0


def test_pipe_is_harmless(pooler):
    pooler.signal("PIPE")
    assert pooler.connect().value("select 1") == "1"
