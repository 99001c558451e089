"""Messages to the service manager, received by a stand-in for systemd (operation.md 6); the unit
files, and what they run at `systemctl reload`."""

import contextlib
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import threading

import pytest

import waiting

ETC = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../etc"))


class Manager:
    """Receives the datagrams at NOTIFY_SOCKET."""

    def __init__(self):
        self.dir = waiting.scratch("manager")
        self.path = os.path.join(self.dir, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        os.chmod(self.path, 0o777)
        self.socket.settimeout(waiting.DEADLINE)
        self.heard = None

    def listen(self):
        """Reads all along, as a real one does: what does not fit into the short queue of the socket is lost."""
        self.heard = queue.Queue()
        threading.Thread(target=self.read_all, daemon=True).start()

    def read_all(self):
        self.socket.settimeout(None)
        with contextlib.suppress(OSError):
            while True:
                self.heard.put(self.socket.recv(4096).decode())

    def hear(self):
        if self.heard:
            return self.heard.get(timeout=waiting.DEADLINE)
        return self.socket.recv(4096).decode()

    def hear_until(self, pattern):
        """Returns all messages up to and including the first that matches."""
        heard = []
        while not heard or not re.fullmatch(pattern, heard[-1]):
            heard.append(self.hear())
        return heard

    def close(self):
        if self.heard:
            self.socket.shutdown(socket.SHUT_RD)  # Ends the thread.
        self.socket.close()
        waiting.discard(self.dir)


@pytest.fixture
def manager():
    made = Manager()
    yield made
    made.close()


def managed(make_pooler, pg, manager, **env):
    pooler = make_pooler({"db": pg.conn()}, start=False)
    pooler.env.update(NOTIFY_SOCKET=manager.path, **env)
    return pooler.start()


def test_ready_reload_stop(make_pooler, pg, manager):
    pooler = managed(make_pooler, pg, manager)
    assert manager.hear() == "READY=1"
    pooler.signal("HUP")
    assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", manager.hear())
    assert manager.hear() == "READY=1"
    pooler.signal("TERM")
    assert manager.hear_until("STOPPING=1")
    pooler.wait_exit()


def test_a_shutdown_by_the_console(make_pooler, pg, manager):
    """A process that takes its listening sockets may have given it, and the service goes on."""
    pooler = managed(make_pooler, pg, manager)
    assert manager.hear() == "READY=1"
    pooler.admin.query("SHUTDOWN WAIT_FOR_CLIENTS")
    pooler.signal("HUP")
    assert manager.hear().startswith("RELOADING=1")


def test_a_reload_that_fails_ends_as_well(make_pooler, pg, manager):
    pooler = managed(make_pooler, pg, manager)
    assert manager.hear() == "READY=1"
    pooler.write("pgbouncer.ini", "[pgbouncer]\nnonsense = 1\n")
    pooler.signal("HUP")
    assert manager.hear_until("READY=1")[0].startswith("RELOADING=1")


def waits_to_send(pid):
    """Says whether a process is within sendto()."""
    number = {"x86_64": "44", "aarch64": "206"}.get(os.uname().machine)
    if not number:
        pytest.skip("the number of the system call is not known")
    with open("/proc/%d/syscall" % pid) as call:
        return call.read().split()[0] == number


def test_a_manager_that_is_behind(make_pooler, pg, manager):
    """Its socket has room for few messages. What it must hear comes when it reads."""
    pooler = managed(make_pooler, pg, manager)
    assert manager.hear() == "READY=1"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                other.sendto(b"STATUS=something", manager.path)
    pooler.signal("HUP")
    waiting.wait_for(lambda: waits_to_send(pooler.pid), "it waits for room")
    assert any(text.startswith("RELOADING=1") for text in manager.hear_until("READY=1"))


def test_signs_of_life(make_pooler, pg, manager):
    managed(make_pooler, pg, manager, WATCHDOG_USEC="100000")
    for _ in range(3):
        manager.hear_until("WATCHDOG=1")


def test_no_signs_of_life_for_another_process(make_pooler, pg, manager):
    pooler = managed(make_pooler, pg, manager, WATCHDOG_USEC="1000", WATCHDOG_PID="1")
    assert manager.hear() == "READY=1"
    pooler.signal("HUP")
    assert "WATCHDOG=1" not in manager.hear_until("READY=1")


# systemctl reload


class Service:
    """A pooler as a service: its program file can be replaced, and its log is the journal."""

    def __init__(self, pooler, manager):
        self.pooler, self.manager = pooler, manager
        self.program = pooler.path("program")
        shutil.copy(pooler.binary, self.program)
        pooler.binary = self.program
        pooler.settings.update(pidfile=pooler.path("pid"))
        pooler.env.update(NOTIFY_SOCKET=manager.path, WATCHDOG_USEC="200000")
        manager.listen()
        pooler.start()

    def replace_program(self):
        shutil.copy(self.program, self.program + ".new")
        os.rename(self.program + ".new", self.program)

    def reload(self):
        """Runs what the unit runs, with the journal as its stderr, and returns the exit code."""
        with open(self.pooler.path("stderr"), "ab") as journal:
            place = os.fstat(journal.fileno())
            env = dict(self.pooler.environment(), JOURNAL_STREAM="%d:%d" % (place.st_dev, place.st_ino))
            env.pop("WATCHDOG_USEC")
            return subprocess.run([os.path.join(ETC, "pgbouncer-reload"), str(self.pid())], stderr=journal, env=env,
                                  stdin=subprocess.DEVNULL, timeout=waiting.DEADLINE, cwd="/",
                                  **waiting.run_as(self.pooler.account)).returncode

    def pid(self):
        return int(self.pooler.read("pid") or 0)

    def end(self):
        pid = self.pid()
        if pid and pid != self.pooler.pid:
            os.kill(pid, signal.SIGQUIT)
            waiting.wait_for(lambda: not self.pid(), "the process that took over ends")


@pytest.fixture
def service(make_pooler, pg, manager):
    made = Service(make_pooler({"db": pg.conn()}, start=False), manager)
    yield made
    made.end()


def test_reload_of_the_same_program(service):
    mark = service.pooler.mark()
    service.pooler.settings["query_timeout"] = 77
    service.pooler.write_files()
    assert service.reload() == 0
    assert service.pooler.show_one("CONFIG", key="query_timeout")["value"] == "77"
    assert service.pid() == service.pooler.pid and "WARNING" not in service.pooler.log_since(mark)


def test_reload_that_is_refused_fails(service):
    """It waits for the outcome and says everything that is wrong."""
    pooler = service.pooler
    good = pooler.ini_text()
    pooler.write("pgbouncer.ini", good + "[pgbouncer]\npol_mode = session\nlisten_port = x\n")
    mark, line = pooler.mark(), good.count("\n") + 2
    assert service.reload() == 1
    told = [text for text in pooler.log_since(mark).splitlines() if not text.startswith("<")]
    for part in ("(%s:%d)" % (pooler.ini, line), "did you mean pool_mode?", "%s:%d: " % (pooler.ini, line + 1)):
        assert part in "\n".join(told), told
    pooler.write("pgbouncer.ini", good)
    assert service.reload() == 0


def test_reload_of_a_process_without_a_unix_socket(make_pooler, pg, manager):
    pooler = make_pooler({"db": pg.conn()}, settings={"unix_socket_dir": ""}, start=False)
    service = Service(pooler, manager)
    mark = pooler.mark()
    assert service.reload() == 0
    pooler.wait_log("the outcome of the reload is in the log", mark)
    pooler.wait_log("got SIGHUP, re-reading config", mark)


def test_reload_of_a_new_program(service):
    """It takes over the connections, is the main process and is watched, and logs to the journal."""
    service.replace_program()
    mark = service.pooler.mark()
    with service.pooler.connect() as client:
        client.query("begin")
        backend = client.value("select pg_backend_pid()")
        assert service.reload() == 0
        assert service.pid() not in (0, service.pooler.pid)
        service.manager.hear_until(r"MAINPID=%d\nREADY=1" % service.pid())
        assert client.value("select pg_backend_pid()") == backend
    assert service.pooler.wait_exit() == 0
    service.pooler.wait_log("^<6>process up: ", mark)
    first = service.pid()
    service.replace_program()
    assert service.reload() == 0
    service.manager.hear_until(r"MAINPID=%d\nREADY=1" % service.pid())
    waiting.wait_for(lambda: not os.path.exists("/proc/%d" % first), "the second process ends")
    with open("/proc/%d/cmdline" % service.pid()) as line:
        assert line.read().split("\0") == [service.program, service.pooler.ini, "-R", "-d", ""]
    # Those of the other processes are heard first.
    for _ in range(10):
        service.manager.hear_until("WATCHDOG=1")


def test_reload_of_a_new_program_that_cannot_start(service):
    service.replace_program()
    service.pooler.write("pgbouncer.ini", "[pgbouncer]\nnonsense = 1\n")
    service.pooler.may_log_fatal = True
    assert service.reload() != 0
    assert service.pid() == service.pooler.pid
    with service.pooler.connect() as client:
        assert client.value("select 1") == "1"


def test_units_are_correct(tmp_path):
    verify = shutil.which("systemd-analyze")
    if not verify:
        pytest.skip("systemd-analyze is not installed")
    for name in ("pgbouncer.service", "pgbouncer.socket"):
        with open(os.path.join(ETC, name)) as unit:
            text = re.sub(r"/usr/local/\S+", "/bin/true", unit.read())
        (tmp_path / name).write_text(text)
    done = subprocess.run([verify, "verify", "--man=no", tmp_path / "pgbouncer.service", tmp_path / "pgbouncer.socket"],
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
