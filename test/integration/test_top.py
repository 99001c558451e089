"""The live view, pgbouncer --top (operation.md 8)."""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest

import waiting


def command(pooler, conninfo=None):
    return [pooler.binary, "--top",
            conninfo or "host=%s port=%d user=admin_user" % (pooler.host, pooler.port)]


def environment(pooler):
    return dict(os.environ, PGPASSWORD=pooler.userlist["admin_user"], TERM="xterm", LC_ALL="C.UTF-8")


class Terminal:
    """A person at a terminal, who sees what was written there so far."""

    def __init__(self, pooler, lines=24, columns=80):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(pooler.binary, command(pooler), environment(pooler))
        self.seen = ""
        self.resize(lines, columns)

    def resize(self, lines, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def wait(self, pattern):
        """Waits until the pattern is drawn, and forgets what came up to its end."""
        end = time.monotonic() + waiting.DEADLINE
        while not (found := re.search(pattern, self.seen, re.S)):
            assert time.monotonic() < end, "no %r in %r" % (pattern, self.seen[-3000:])
            if select.select([self.fd], [], [], 0.1)[0]:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
        self.seen = self.seen[found.end():]

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def end(self):
        """Waits for the end of the program and returns its exit code."""
        try:
            while os.read(self.fd, 65536):
                pass
        except OSError:
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_panels_and_keys_on_a_terminal(make_pooler, pg):
    """Keys choose panels; the connection is opened again when the pooler comes back."""
    pooler = make_pooler({"db": pg.conn()})
    with pooler.connect() as client:
        client.query("select 1")
        terminal = Terminal(pooler)
        terminal.wait(r"clients: 1 active, 0 waiting")
        terminal.wait(r"pools: 2.*CL_WAIT.*trust_user")
        terminal.press("2")
        terminal.wait(r"databases.*QUERY/S")
        terminal.press("3")
        terminal.wait(r"latency.*P99")
        terminal.press("5")
        terminal.wait(r"hosts.*127\.0\.0\.1")
        terminal.press("7")
        terminal.wait("since their query began")
        terminal.press("h")
        terminal.wait("this help")
        terminal.resize(40, 120)
        os.kill(terminal.pid, signal.SIGWINCH)
        terminal.wait("this help")
        terminal.press("x1")
        terminal.wait("SV_LOGIN")
    pooler.stop()
    terminal.wait("trying again: ")
    pooler.start()
    terminal.wait(r"PgBouncer \S+ +active")
    terminal.press("q")
    assert terminal.end() == 0


def test_text_where_there_is_no_terminal(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()})
    texts = first_texts(command(pooler), environment(pooler))
    assert re.match(r"\d\d:\d\d:\d\d   PgBouncer \S+   active   up 00:\d\d:\d\d\n$", texts[0]), texts
    assert re.match(r"clients: 0 active, 0 waiting   servers: 0 active", texts[1]), texts
    assert texts[4].startswith("pools: 1") and texts[5].startswith("DATABASE "), texts


def test_servers_that_stay_with_their_clients(make_pooler, pg):
    """SV_PIN and LISTEN, with max_pinned_servers reached."""
    pooler = make_pooler({"db": pg.conn(pool_size=5)}, settings={
        "pool_mode": "transaction", "session_state": "keep", "max_pinned_servers": 2})
    with pooler.connect() as one, pooler.connect() as two, pooler.connect() as three:
        one.query("create temp table kept (n int)")
        two.query("listen news")
        refused = three.query("create temp table kept (n int)", check=False)
        assert dict(refused.errors[0].fields())["C"] == "53400"
        texts = first_texts(command(pooler), environment(pooler))
        head = next(n for n, line in enumerate(texts) if line.startswith("DATABASE "))
        row = next(line for line in texts[head:] if line.startswith("db "))
        assert texts[head].split()[-2:] == ["SV_PIN", "LISTEN"], texts
        assert row.split()[-2:] == ["2", "1"], texts


def test_text_says_that_there_is_no_answer(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()})
    with subprocess.Popen(command(pooler), stdout=subprocess.PIPE, text=True, env=environment(pooler)) as view:
        lines = iter(view.stdout.readline, "")
        assert any(line.startswith("pools: ") for line in lines)
        pooler.signal("STOP")
        try:
            told = [next(line for line in lines if line.startswith("no answer for ")) for _ in range(2)]
            seconds = [int(re.fullmatch(r"no answer for (\d+) s\n", line).group(1)) for line in told]
            assert 1 <= seconds[0] < seconds[1]
        finally:
            pooler.signal("CONT")
        # Its figures come again: a line without a message stands above the panel.
        assert any(line == "\n" and next(lines).startswith("pools: ") for line in lines)
        view.stdout.close()
        assert view.wait(waiting.DEADLINE) == 0


@pytest.mark.parametrize("conninfo, code, pattern", [
    ("host=127.0.0.1 port=1 user=x", 1, "could not connect"),
    ("host=127.0.0.1 nonsense=1", 1, "nonsense"),
])
def test_what_cannot_be_reached(make_pooler, conninfo, code, pattern):
    pooler = make_pooler({"db": ""})
    done = subprocess.run(command(pooler, conninfo), capture_output=True, text=True,
                          env=environment(pooler), timeout=waiting.DEADLINE)
    assert done.returncode == code and pattern in done.stderr and not done.stdout


def first_texts(arguments, env, **more):
    """The first twelve lines of the view as text."""
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=env, **more) as view:
        texts = [view.stdout.readline() for _ in range(12)]
        view.stdout.close()
        assert view.wait(waiting.DEADLINE) == 0
    return texts


def test_what_other_programs_take_from_the_environment(make_pooler, pg):
    """PGHOST, PGPORT, PGUSER and the password file; PGDATABASE names another database than the console's."""
    pooler = make_pooler({"db": pg.conn()}, settings={"auth_type": "scram-sha-256"})
    path = pooler.write("pgpass", "*:*:pgbouncer:admin_user:%s\n" % pooler.userlist["admin_user"])
    os.chmod(path, 0o600)
    env = dict(os.environ, PGHOST=pooler.host, PGPORT=str(pooler.port), PGUSER="admin_user", PGDATABASE="db",
               PGPASSFILE=path)
    env.pop("PGPASSWORD", None)
    mine = waiting.run_as(pooler.account)
    assert "pools: 1" in first_texts([pooler.binary, "--top"], env, **mine)[4]
    assert "pools: 1" in first_texts([pooler.binary, "--top", "postgresql://%s" % pooler.host], env, **mine)[4]
    pooler.write("pgpass", "*:*:pgbouncer:admin_user:not this one\n")
    done = subprocess.run([pooler.binary, "--top"], capture_output=True, text=True, env=env,
                          timeout=waiting.DEADLINE, **mine)
    assert done.returncode == 1
    assert "authentication failed\nthe password was taken from the file " + path in done.stderr
    os.chmod(path, 0o644)
    done = subprocess.run([pooler.binary, "--top"], capture_output=True, text=True, env=env, start_new_session=True,
                          timeout=waiting.DEADLINE, **mine)
    assert done.returncode == 1 and "WARNING: the password file %s is not used" % path in done.stderr
    assert "a password file can hold it" in done.stderr and "not this" not in done.stderr


OTHER = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin")


@pytest.mark.skipif(not OTHER, reason="no other pgbouncer is installed")
def test_view_of_another_pooler(make_pooler, pg):
    """PgBouncer of the distribution lacks some views."""
    pooler = make_pooler({"db": pg.conn()}, start=False)
    ours, pooler.binary = pooler.binary, OTHER
    for unknown in ("io_engine", "workers"):
        pooler.settings.pop(unknown, None)
    pooler.start()
    with pooler.connect() as client:
        client.query("select 1")
        texts = first_texts([ours] + command(pooler)[1:], environment(pooler))
    assert re.match(r"\d\d:\d\d:\d\d   PgBouncer 1\.\S+ ", texts[0]), texts
    assert "clients: 1 active" in texts[1] and texts[4] == "pools: 2\n", texts


def test_one_connection_string_at_most(make_pooler):
    pooler = make_pooler({"db": ""})
    done = subprocess.run([pooler.binary, "--top", "a", "b"], capture_output=True, text=True)
    assert done.returncode == 1 and "quote it" in done.stderr


def test_what_is_no_console(make_pooler, pg):
    """It is told apart from a pooler that lacks a view."""
    pooler = make_pooler({"db": pg.conn(user="trust_user")})
    env = dict(os.environ, LC_ALL="C.UTF-8")
    for conninfo, text in (
            ("host=%s port=%d user=trust_user dbname=db" % (pooler.host, pooler.port),
             "this is no console of a pooler ("),
            ("host=%s port=%d user=trust_user" % (pooler.host, pooler.port),
             "not allowed: the console is for the users in admin_users and stats_users\n"),
            ("host=%s port=%d sslmode=verify-full sslrootcert=/nonexistent" % (pooler.host, pooler.port),
             "pgbouncer: TLS setup failed: ")):
        done = subprocess.run(command(pooler, conninfo), capture_output=True, text=True, env=env,
                              stdin=subprocess.DEVNULL, timeout=waiting.DEADLINE)
        assert done.returncode == 1 and text in done.stderr and done.stdout == "", done
