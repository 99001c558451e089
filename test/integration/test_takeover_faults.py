"""Online restarts (-R) in which a step fails, in either process, or in which one of the two is stopped or
killed. Whoever is able to serve serves: before the decision the old process, afterwards the new one."""

import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time

import psycopg
import pytest

import certs
import waiting
import wire
from between import Between, Frame
from test_suspend import owner_console
from test_takeover import restart, wait_end  # noqa: F401 (restart is a fixture)
from test_views import TRANSACTION

WORKERS = [1, 4]
CLIENTS = 6
SERVERS = 2  # As many clients are in transactions, so that no server is at rest.


class Crowd:
    """Clients in transactions, with prepared statements and at rest."""

    def __init__(self, pooler):
        self.pooler = pooler
        self.clients = [pooler.connect() for _ in range(CLIENTS)]
        for number, client in enumerate(self.clients):
            client.send(wire.parse("mine", "select %d" % number), wire.sync())
            client.finish()
        self.begin()

    def begin(self):
        self.backends = []
        for client in self.clients[:SERVERS]:
            client.query("begin")
            self.backends.append(client.value("select pg_backend_pid()"))

    def is_served(self, number):
        client = self.clients[number]
        try:
            client.send(wire.bind("", "mine"), wire.execute(), wire.sync())
            assert client.finish().value == str(number)
            if number < len(self.backends):
                assert client.value("select pg_backend_pid()") == self.backends[number]
                assert client.query("commit").tag == "COMMIT"
            return True
        except (wire.Closed, ConnectionError):
            return False

    def served(self):
        """Returns how many of them are served. Transactions go on where they were, and end."""
        count = sum(self.is_served(number) for number in range(CLIENTS))
        self.backends = []
        return count

    def close(self):
        for client in self.clients:
            client.close()


@pytest.fixture
def crowd():
    made = []

    def make(pooler):
        made.append(Crowd(pooler))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def make(make_pooler, pg):
    """make(workers, **settings) returns a running pooler with a pidfile."""
    def start(workers, **settings):
        pooler = make_pooler({"db": pg.conn(pool_size=SERVERS), "more": pg.conn()}, start=False,
                             settings=dict(TRANSACTION, workers=workers, max_prepared_statements=10, **settings))
        pooler.settings["pidfile"] = pooler.path("pid")
        return pooler.start()

    return start


@pytest.fixture
def pair():
    folder = waiting.scratch("certs")
    yield certs.Authority(folder).issue("server", "localhost", ["localhost", "127.0.0.1"])
    waiting.discard(folder)


# what makes the start of the new process fail


def foreign_pid(pooler):
    """The old process's pidfile has come to name somebody else, who lives."""
    pooler.write("pid", "%d\n" % os.getpid())
    return {}, "pidfile '.*/pid' exists, another instance running"


def directory(pooler):
    os.mkdir(pooler.path("folder"))
    return {"pidfile": pooler.path("folder")}, "could not open pidfile '.*/folder': Is a directory"


def absent_folder(pooler):
    return {"pidfile": pooler.path("absent/pid")}, "could not open pidfile '.*/absent/pid': No such file"


def no_right(pooler):
    if os.getuid() != 0:
        pytest.skip("needs a folder of another account")
    os.mkdir(pooler.path("roots"), 0o755)
    return {"pidfile": pooler.path("roots/pid")}, "could not open pidfile '.*/roots/pid': Permission denied"


def garbage(pooler):
    pooler.write("other", "nonsense\n")
    return {"pidfile": pooler.path("other")}, "pidfile '.*/other' exists, another instance running"


def address(pooler):
    return {"listen_addr": "192.0.2.1"}, "failed to listen on any address"


def descriptors(pooler):
    pooler.preexec = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (90, 90))
    return {}, "(no descriptors are left|a descriptor is missing|Too many open files)"


def threads(pooler):
    pooler.binary = pooler.write("limited", "#!/bin/sh\n# The search for leaks needs a thread.\n"
                                  "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 exec prlimit --nproc=1 -- %s \"$@\"\n" % pooler.binary)
    os.chmod(pooler.binary, 0o755)
    return {"workers": 4}, "cannot start a worker"


def log(pooler):
    return {"logfile": pooler.path("absent/log")}, "Cannot open logfile: '.*/absent/log': No such file"


BEFORE_READY = {f.__name__: f for f in (foreign_pid, directory, absent_folder, no_right, garbage, address, descriptors,
                                        threads, log)}


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("fault", BEFORE_READY)
def test_a_start_that_fails_leaves_the_old_process_serving(make, crowd, pair, restart, fault, workers):  # noqa: F811
    pooler = make(workers, client_tls_sslmode="prefer", client_tls_cert_file=pair.cert_file,
                  client_tls_key_file=pair.key_file)
    everybody = crowd(pooler)
    opened = [pooler.connect() for _ in range(80)] if fault == "descriptors" else []
    with psycopg.connect(host=pooler.host, port=pooler.port, dbname="more", user="trust_user",
                         sslmode="require") as secure:
        backend = secure.execute("select pg_backend_pid()").fetchone()
        own = pooler.read("pid")
        binary = pooler.binary
        changes, reason = BEFORE_READY[fault](pooler)
        was = pooler.read("pid")
        pooler_pid = pooler.pid
        restart.fail(pooler, reason, **changes)
        assert secure.execute("select pg_backend_pid()").fetchone() == backend
        assert everybody.served() == CLIENTS
        with pooler.connect() as fresh, pooler.connect("more", unix=True) as near:
            assert (fresh.value("select 1"), near.value("select 2")) == ("1", "2")
    assert pooler.read("pid") == was and own == "%d\n" % pooler_pid
    assert not os.path.exists(pooler.path("pid.new"))
    for client in opened:
        client.close()
    # Nothing is left over that would hinder the next one.
    if fault == "foreign_pid":
        pooler.write("pid", own)
    pooler.preexec, pooler.binary = None, binary
    wait_end(restart(pooler, pidfile=pooler.path("pid"), listen_addr="127.0.0.1", workers=workers, logfile=None), pooler)
    assert everybody.served() == CLIENTS
    assert pooler.read("pid") == "%d\n" % pooler.pid


def test_the_command_in_the_foreground_tells_the_failure(make, crowd):
    pooler = make(1)
    everybody = crowd(pooler)
    pooler.write("pgbouncer.ini", pooler.ini_text().replace(pooler.path("pid"), pooler.path("absent/pid")))
    code, _, err = pooler.run("-R", "-d", pooler.ini)
    assert code == 1 and "FATAL could not open pidfile" in err
    assert everybody.served() == CLIENTS


# what is no reason to end


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("fault", ["metrics", "socket folder"])
def test_what_is_only_warned_of(make, crowd, restart, fault, workers):  # noqa: F811
    pooler = make(workers)
    everybody = crowd(pooler)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = "127.0.0.1:%d" % taken.getsockname()[1]
        # The socket is handed over, so no file is made in its folder.
        os.chmod(pooler.dir, 0o555 if fault == "socket folder" else 0o755)
        changes, said = {"metrics": ({"metrics_listen": place}, "cannot listen on " + place),
                         "socket folder": ({"pidfile": None}, "process up")}[fault]
        if os.getuid() == 0 and fault == "socket folder":
            pooler.write_files = lambda: pooler.write("pgbouncer.ini", pooler.ini_text())
        old = restart(pooler, **changes)
        wait_end(old, pooler)
        pooler.wait_log(said, restart.mark)
        assert everybody.served() == CLIENTS
    os.chmod(pooler.dir, 0o755)


# who may be taken over


def test_a_squatter_is_not_taken_over(make_pooler, pg):
    """Somebody else's process listens on the socket, as it may in /tmp. Its clients would be logged in to
    PostgreSQL with passwords that they do not know."""
    if os.getuid() != 0:
        pytest.skip("needs a second account")
    pooler = make_pooler({"db": pg.conn()}, settings=TRANSACTION, args=["-R"], start=False)
    os.chmod(pooler.dir, 0o777)
    program = ("import os, socket, sys\n"
               "os.setgid(65534); os.setuid(65534)\n"
               "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777); s.listen()\n"
               "print('listening', flush=True)\n"
               "while True:\n"
               "    c, _ = s.accept()\n"
               "    heard = c.recv(100)\n"
               "    if heard: print('heard', flush=True)\n")
    path = pooler.path(".s.PGSQL.%d" % pooler.port)
    squatter = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True)
    try:
        assert squatter.stdout.readline() == "listening\n"
        pooler.launch()
        pooler.expected_exit, pooler.may_log_fatal = 1, True
        assert pooler.wait_exit() == 1
        pooler.wait_log(r"FATAL takeover refused: account 65534 listens on %s, and not this account \(%d\) or root; "
                        "remove the file and set unix_socket_dir" % (path, pooler.account.pw_uid))
    finally:
        squatter.kill()
        said, _ = squatter.communicate()
    assert said == ""


# the steps of the protocol


@pytest.fixture
def steps(make, make_pooler, pg, crowd, request):
    """steps(workers) returns an old process with a crowd, a new one that has begun, and who stands between."""
    made = []

    def start(workers, **settings):
        old = make(workers, **settings)
        everybody = crowd(old)
        new = make_pooler(old.databases, args=["-R"], start=False,
                          settings=dict(old.settings))
        new.settings.update(unix_socket_dir=new.dir, listen_port=old.port, auth_file=new.path("userlist.txt"))
        new.port = old.port
        between = Between(new)
        made.append(between)
        new.launch()
        between.answer_console()
        return old, new, between, everybody

    yield start
    for between in made:
        between.close()


def begin(old, between):
    between.stop_listening()
    between.hand_on(owner_console(old))


def kill_old(old, between):
    old.expected_exit = -signal.SIGKILL
    old.process.kill()
    old.process.wait()
    between.die()


def wait_up(new):
    waiting.wait_for(new.is_up, "the new process is up")


# The frames that are passed on, and whether the last one is; then the new process's, and so on.
OLD_IS_KILLED = {
    "behind the origin": [("O", True)],
    "amid the listeners": [("L", True)],
    "behind the listeners": [("C", False)],
    "between client and server": [("S", False)],
    "behind one client": [("S", True)],
    "before END": [("e", False)],
    "behind END": [("e", True)],
    "behind READY": [("e", True), "r"],
    "before GO": [("e", True), "r", ("g", False)],
    "behind GO": [("e", True), "r", ("g", True)],  # ALIVE is on its way then.
    "behind ALIVE": [("e", True), "r", ("g", True), "a"],
}


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("how", OLD_IS_KILLED)
def test_the_old_process_is_killed(steps, how, workers):
    """The new one goes on with what has come, and listens."""
    old, new, between, everybody = steps(workers)
    begin(old, between)
    passed = ""
    for step in OLD_IS_KILLED[how]:
        if isinstance(step, str):
            between.agree(step)
            continue
        kinds, kept = between.pass_on(*step)
        passed += kinds[:-1] if kept else kinds
    kill_old(old, between)
    wait_up(new)
    half = passed.endswith("C") and how == "between client and server"
    assert everybody.served() == passed.count("C") - half
    with new.connect() as fresh, new.connect(unix=True) as near:
        assert (fresh.value("select 1"), near.value("select 2")) == ("1", "2")
    if how not in ("behind GO", "behind ALIVE"):
        new.wait_log("WARNING process %d ended in the middle of the takeover; going on with what it had" % old.pid)
    assert new.read("pid") == "" and old.read("pid") == "%d\n" % new.pid
    assert not os.path.exists(old.path("pid.new"))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("how", OLD_IS_KILLED)
def test_the_old_process_stands_still(steps, how, workers):
    """For longer than suspend_timeout, and goes on. One of the two serves everybody, and the other one none."""
    old, new, between, everybody = steps(workers, suspend_timeout=0.5)
    new.may_log_fatal = True
    begin(old, between)
    for step in OLD_IS_KILLED[how]:
        between.agree(step) if isinstance(step, str) else between.pass_on(*step)
    old.signal("STOP")
    between.finish()
    time.sleep(1)  # The time matters: it is longer than suspend_timeout.
    old.signal("CONT")
    waiting.wait_for(lambda: new.process.poll() is not None or old.process.poll() is not None, "one of them ends")
    assert everybody.served() == CLIENTS
    serving = new if new.process.poll() is None else old
    with serving.connect() as fresh:
        assert fresh.value("select 1") == "1"
    if serving is old:
        new.expected_exit = 1
        new.wait_log("FATAL the running process has (given up|ended)")
    assert old.read("pid") == "%d\n" % serving.pid


@pytest.mark.parametrize("workers", WORKERS)
def test_the_old_process_is_killed_before_it_answers(steps, workers):
    old, new, between, _ = steps(workers)
    old.expected_exit = -signal.SIGKILL
    old.process.kill()
    old.process.wait()
    between.stop_listening()
    between.console.close()
    wait_up(new)
    new.wait_log("WARNING takeover: the running process does not answer: .*; it has ended, and this process starts as usual")
    with new.connect() as fresh, new.connect(unix=True) as near:
        assert (fresh.value("select 1"), near.value("select 2")) == ("1", "2")


@pytest.mark.parametrize("how, told", [("KILL", None), ("TERM", "takeover was in progress, going down immediately")])
@pytest.mark.parametrize("at", ["before END", "behind END", "behind READY"])
def test_the_new_process_ends(steps, at, how, told):
    """Before ALIVE it has nothing that the old one could not continue."""
    old, new, between, everybody = steps(4)
    new.may_log_fatal, new.expected_exit = True, 1 if told else -signal.SIGKILL
    begin(old, between)
    between.pass_on("e", at != "before END")
    if at == "behind READY":
        between.agree("r")
    new.signal(how)
    new.process.wait(waiting.DEADLINE)
    if told:
        new.wait_log("FATAL " + told)
    between.new.close()
    between.old.close()
    assert everybody.served() == CLIENTS
    with old.connect() as fresh:
        assert fresh.value("select 1") == "1"
    assert old.read("pid") == "%d\n" % old.pid


@pytest.mark.parametrize("at", ["amid the clients", "behind END", "behind READY", "behind GO"])
def test_an_old_process_that_cuts_the_connection_lives(steps, at):
    """It gives up without a word if the new one does not read. Both would serve the same clients if the new
    one took it for dead."""
    old, new, between, everybody = steps(4)
    new.may_log_fatal, new.expected_exit = True, 1
    begin(old, between)
    between.pass_on(*(("S", True) if at == "amid the clients" else ("e", True)))
    if at in ("behind READY", "behind GO"):
        between.agree("r")
    if at == "behind GO":
        new.signal("STOP")
        between.pass_on("g")
    between.cut()
    new.signal("CONT")
    assert new.wait_exit() == 1
    new.wait_log("FATAL the running process has ended before it had handed over everything")
    assert everybody.served() == CLIENTS
    assert old.read("pid") == "%d\n" % old.pid


def test_a_signal_is_no_end_of_the_old_process(steps):
    """The new one waits for what the old one says at the console, which a signal interrupts."""
    old, new, between, everybody = steps(1)
    new.may_log_fatal = True
    begin(old, between)
    between.pass_on("S")
    between.cut()
    while new.process.poll() is None:
        new.signal("HUP")
        assert "in the middle of the takeover" not in new.log()
    new.expected_exit = new.process.returncode
    assert new.expected_exit in (1, -signal.SIGHUP), "the last one may come when it has ended"
    new.wait_log("FATAL the running process has ended before it had handed over everything")
    assert everybody.served() == CLIENTS


def test_an_old_process_that_has_given_up_may_end_before_that_is_noticed(steps):
    """The new one stands still meanwhile. What was handed over is not true any more, because the old one has
    served its clients since."""
    old, new, between, _ = steps(1)
    new.may_log_fatal, new.expected_exit = True, 1
    begin(old, between)
    between.pass_on("S")
    new.signal("STOP")
    between.old.close()
    between.new.close()
    old.wait_log("takeover by process .* failed: .*; this process goes on")
    told = between.asked.recv()
    while told.kind != "N":
        told = between.asked.recv()
    assert told.field("M") == "the takeover was given up"
    between.console.sendall(told.raw())
    kill_old(old, between)
    new.signal("CONT")
    assert new.wait_exit() == 1
    new.wait_log("FATAL the running process has ended before it had handed over everything")


def alive(steps, workers, **settings):
    """Returns what steps() does, with a new process that has sent ALIVE, of which the old one has not heard."""
    old, new, between, everybody = steps(workers, **settings)
    begin(old, between)
    between.pass_on("e")
    between.agree("r")
    between.pass_on("g")
    return old, new, between, everybody, between.new.expect("a")


@pytest.mark.parametrize("workers", WORKERS)
def test_it_is_up_from_alive_on(steps, workers):
    """Although the old process stands still. Signals mean what they always mean."""
    old, new, between, everybody, said = alive(steps, workers, suspend_timeout=60)
    wait_up(new)
    assert everybody.served() == CLIENTS
    assert old.read("pid") == "%d\n" % new.pid
    new.signal("TERM")
    new.wait_log("LOG got SIGTERM, shutting down, waiting for all clients disconnect")
    assert everybody.served() == CLIENTS
    between.old.give(said)
    between.pass_on("d")
    old.wait_log("has taken over %d clients" % CLIENTS)
    assert old.wait_exit() == 0
    everybody.close()
    assert new.wait_exit() == 0
    assert not os.path.exists(old.path("pid"))


@pytest.mark.parametrize("workers", WORKERS)
def test_the_next_one_takes_over_while_the_oldest_stands_still(steps, restart, workers):  # noqa: F811
    old, new, between, everybody, said = alive(steps, workers, suspend_timeout=60)
    wait_up(new)
    second = restart(new)
    assert everybody.served() == CLIENTS
    assert old.read("pid") == "%d\n" % new.pid
    between.old.give(said)
    between.pass_on("d")
    assert old.wait_exit() == 0
    between.new.close()
    wait_end(second, new)
    assert everybody.served() == CLIENTS
    assert old.read("pid") == "%d\n" % new.pid


def later_round(steps, workers):
    """The first round is over, and a client that was logging in meanwhile is about to follow."""
    old, new, between, everybody = steps(workers, client_login_timeout=60)
    late = old.client()
    packet = late.startup_packet()
    late.send(packet[:10])
    waiting.wait_read(late.sock)
    begin(old, between)
    between.pass_on("e")
    between.agree("r")
    between.pass_on("g")
    between.agree("a")
    between.pass_on("d")
    wait_up(new)
    assert everybody.served() == CLIENTS
    late.send(packet[10:])
    late.authenticate()
    return old, new, between, everybody, late


LATER = {name: passed for name, passed in OLD_IS_KILLED.items() if passed[0][0] == "e"}
LATER["behind the client"] = [("C", True)]
# The new process reads END or GO when the old one has ended, and cannot answer.
UNREAD = {"END, not answered": LATER["behind END"], "GO, not answered": LATER["behind GO"]}
LATER.update(UNREAD)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("how", LATER)
def test_the_old_process_is_killed_in_a_later_round(steps, how, workers):
    old, new, between, everybody, late = later_round(steps, workers)
    for step in LATER[how]:
        if how in UNREAD and step == LATER[how][-1]:
            new.signal("STOP")
        between.agree(step) if isinstance(step, str) else between.pass_on(*step)
    kill_old(old, between)
    new.signal("CONT")
    assert late.value("select 5") == "5"
    assert everybody.served() == CLIENTS
    late.close()


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("how", ["behind the client", "before END", "behind END", "behind READY", "before GO"])
def test_an_old_process_that_cuts_a_later_round_goes_on(steps, how, workers):
    """Its clients are served by one of the two."""
    old, new, between, everybody, late = later_round(steps, workers)
    for step in LATER[how]:
        between.agree(step) if isinstance(step, str) else between.pass_on(*step)
    between.cut()
    old.wait_log("takes no more clients")
    assert late.value("select 5") == "5"
    assert "in the middle of the takeover" not in new.log()
    assert everybody.served() == CLIENTS
    late.close()
    assert old.wait_exit() == 0


def test_an_old_process_that_gives_up_a_later_round_may_end_soon_after(steps):
    """It cannot read, and so the new one cannot answer, but waits for what the old one says. What was handed
    over is not true any more, because the old one has served its clients since."""
    old, new, between, everybody, _ = later_round(steps, 1)
    between.pass_on("e")
    between.agree("r")
    _, decision = between.pass_on("g", False)
    between.old.close()
    old.wait_log("takes no more clients")
    old.expected_exit = -signal.SIGKILL
    old.process.kill()
    old.process.wait()
    between.new.sock.shutdown(socket.SHUT_RD)
    between.new.give(decision)
    time.sleep(0.3)  # The time matters: the new process could end the connection.
    between.new.give(Frame("x", b"a reason"))
    gone = select.poll()
    gone.register(between.new.sock, 0)
    waiting.wait_for(lambda: gone.poll(0), "the new process has closed the connection")
    assert everybody.served() == CLIENTS
    assert "in the middle of the takeover" not in new.log()


def test_an_older_process_removes_the_pidfile_without_looking(steps):
    old, new, between, everybody, said = alive(steps, 1)
    wait_up(new)
    between.old.give(said)
    _, done = between.pass_on("d", False)
    os.unlink(old.path("pid"))
    between.new.give(done)
    waiting.wait_for(lambda: old.read("pid") == "%d\n" % new.pid, "the pidfile is there again")
    assert everybody.served() == CLIENTS
    assert old.wait_exit() == 0


@pytest.mark.parametrize("workers", WORKERS)
def test_metrics_go_over(steps, restart, workers):  # noqa: F811
    """The new process opens the address when the old one has closed it, and warns of nothing."""
    place = "127.0.0.1:%d" % waiting.PORTS.take()
    old, new, between, _, said = alive(steps, workers, metrics_listen=place)
    wait_up(new)
    between.old.give(said)
    between.pass_on("d")
    new.wait_log("metrics are served on " + place)
    assert "cannot listen" not in new.log()
    assert old.wait_exit() == 0


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("stands_still", [False, True])
def test_three_at_once(make, crowd, workers, stands_still):
    """Several new processes are started at the same time, also while the old one stands still. Those that are
    refused end, and everybody is served."""
    pooler = make(workers)
    everybody = crowd(pooler)
    pooler.may_log_fatal = True
    for console in pooler.consoles:
        console.close()
    pooler.consoles.clear()
    pooler.args = ["-R"]
    # The files are there; a process would read one that is just being written for the next.
    pooler.write_files = lambda: None
    older = []
    for _ in range(3):
        mark = pooler.mark()
        begun = [pooler.process]
        if stands_still:
            pooler.signal("STOP")
        for _ in range(3):
            begun.append(pooler.launch().process)
        if stands_still:
            waiting.wait_for(lambda: all("[%d]" % p.pid in pooler.log_since(mark) for p in begun[1:]), "all have begun")
            begun[0].send_signal(signal.SIGCONT)
        # One is left, which serves.
        waiting.wait_for(lambda: sum(p.poll() is None for p in begun) == 1, "one is left:\n" + pooler.log_since(mark))
        pooler.process, = [p for p in begun if p.poll() is None]
        older += [p for p in begun if p is not pooler.process]
        waiting.wait_for(lambda: pooler.read("pid") == "%d\n" % pooler.pid, "it has the pidfile")
        assert everybody.served() == CLIENTS, pooler.log_since(mark)
        with pooler.connect() as fresh:
            assert fresh.value("select 1") == "1"
    assert {p.returncode for p in older} <= {0, 1}


# what the new configuration lacks


@pytest.mark.parametrize("workers", WORKERS)
def test_a_database_that_only_resting_servers_use(make, restart, pg, workers):  # noqa: F811
    pooler = make(workers)
    pooler.databases["gone"] = pg.conn()
    pooler.write_files()
    pooler.reload()
    with pooler.connect() as client:
        client.query("begin")
        with pooler.connect("gone") as other:
            backend = other.value("select pg_backend_pid()")
        del pooler.databases["gone"]
        wait_end(restart(pooler), pooler)
        pooler.wait_log('LOG closed a server connection of database "gone", which the configuration does not have')
        assert client.query("commit").tag == "COMMIT"
        waiting.wait_for(lambda: pg.value("select count(*) from pg_stat_activity where pid = " + backend) == "0", "closed")


# pools that are filled by themselves


@pytest.mark.parametrize("workers", WORKERS)
def test_min_pool_size_over_several_takeovers(make_pooler, pg, restart, workers):  # noqa: F811
    """The new process opens no servers before it has those of the old one."""
    def connected():
        return pg.value("select count(*) from pg_stat_activity where application_name = 'filled'")

    pooler = make_pooler({"db": pg.conn(application_name="filled", user="trust_user", min_pool_size=3)}, settings=dict(TRANSACTION, workers=workers))
    waiting.wait_for(lambda: pooler.pool()["sv_idle"] == 3, "the pool is filled")
    known = {row["remote_pid"] for row in pooler.show("SERVERS")}
    for _ in range(3):
        wait_end(restart(pooler), pooler)
        assert {row["remote_pid"] for row in pooler.show("SERVERS")} == known
        assert connected() == "3"


# what outlives a killed process for a moment


def test_a_start_waits_for_a_unix_socket(make_pooler, pg):
    """With io_uring the sockets of a killed process remain until its requests have ended."""
    pooler = make_pooler({"db": pg.conn()}, settings=TRANSACTION, start=False)
    with socket.socket(socket.AF_UNIX) as late:
        late.bind(pooler.path(".s.PGSQL.%d" % pooler.port))
        waiting.give(pooler.path(".s.PGSQL.%d" % pooler.port))
        late.listen()
        pooler.launch()
        late.accept()[0].close()
    waiting.wait_for(pooler.is_up, "it is up")


def test_a_start_waits_for_a_tcp_port(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=TRANSACTION, start=False)
    with socket.socket() as late:
        late.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        late.bind(("127.0.0.1", pooler.port))
        late.listen()
        pooler.launch()
        pooler.wait_log("kernel file descriptor limit")
    waiting.wait_for(pooler.is_up, "it is up")
    assert pooler.connect().value("select 1") == "1"
    assert "cannot listen" not in pooler.log()
