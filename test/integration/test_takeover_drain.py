"""Online restart (-R) of a process that does not hand over its clients, such as PgBouncer: this process gets its
listening sockets, and that one serves its clients until they leave."""

import os
import socket
import subprocess

import pytest

import waiting
from draining import Draining
from test_views import TRANSACTION

REFUSALS = {
    "PgBouncer": "invalid command 'COMMAND', use SHOW HELP;",
    "other format": "takeover format 99 is not known here, only 98: the two processes are of different versions",
}


@pytest.fixture
def drain(make_pooler, pg):
    """Starts a scripted process, and a pooler that takes over from it but does not run yet."""
    running = []

    def start(refusal="PgBouncer", drains=True, **settings):
        pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, **settings), args=["-R"], start=False)
        pooler.settings["pidfile"] = pooler.path("pid")
        old = Draining(pooler.dir, pooler.port, REFUSALS[refusal], drains)
        running.append(old)
        return pooler, old

    yield start
    for old in running:
        old.stop()


def pid_in(pooler):
    with open(pooler.path("pid")) as file:
        return int(file.read())


def is_served(pooler, unix):
    with pooler.connect(unix=unix) as client:
        assert client.value("select 1") == "1"


@pytest.mark.parametrize("refusal", REFUSALS)
def test_old_process_keeps_its_clients(drain, refusal):
    pooler, old = drain(refusal)
    with old.client() as client:
        pooler.start()
        pooler.wait_log(r"LOG got pooler socket: 127\.0\.0\.1:%d" % pooler.port)
        pooler.wait_log(r"LOG process %d cannot hand over its clients: it serves them until they leave, and this "
                        "process serves new ones" % old.process.pid)
        old.ask(client)
        is_served(pooler, unix=False)
        is_served(pooler, unix=True)
        assert pid_in(pooler) == pooler.pid
        assert old.process.poll() is None
    assert old.wait() == 0
    pooler.wait_log("LOG process %d has ended" % old.process.pid)
    waiting.wait_for(lambda: os.path.exists(pooler.path("pid")), "the pidfile is there again")
    assert pid_in(pooler) == pooler.pid
    is_served(pooler, unix=True)


def test_it_ends_after_takeover_drain_timeout(drain):
    pooler, old = drain(takeover_drain_timeout="0.2")
    with old.client():
        pooler.start()
        assert old.wait() == 0
        pooler.wait_log("LOG takeover_drain_timeout: ending process %d" % old.process.pid)
        pooler.wait_log("LOG process %d has ended" % old.process.pid)


@pytest.mark.parametrize("unix", [False, True])
def test_a_client_that_connects_at_the_moment(drain, unix):
    """It waits in the queue of the socket that both processes have."""
    pooler, old = drain()
    with old.client():
        pooler.write("hold", "")
        pooler.launch()
        waiting.wait_for(lambda: os.path.exists(pooler.path("held")), "the old process is told to accept nobody")
        with pooler.client(unix=unix) as client:
            os.unlink(pooler.path("held"))
            client.login()
            assert client.value("select 1") == "1"


def test_nobody_takes_over_meanwhile(drain):
    pooler, old = drain()
    with old.client():
        pooler.start()
        pooler.may_log_fatal = True
        third = subprocess.run(pooler.command(pooler.ini), env=pooler.environment(), cwd=pooler.dir,
                               capture_output=True, text=True, timeout=waiting.DEADLINE, **pooler.switch())
        assert third.returncode == 1
        assert "FATAL takeover refused by the running process: this process is still taking over another one" \
            in third.stderr
        is_served(pooler, unix=False)


def test_old_process_that_cannot_drain_goes_on(drain):
    pooler, old = drain(drains=False)
    with old.client() as client:
        pooler.launch()
        pooler.expected_exit, pooler.may_log_fatal = 1, True
        assert pooler.wait_exit() == 1
        pooler.wait_log(r"FATAL takeover refused by the running process: invalid command 'SHUTDOWN WAIT_FOR_CLIENTS', "
                        r"use SHOW HELP;; PgBouncer serves its clients until they leave from 1\.23 on: stop it first")
        old.ask(client)
        old.client().close()
        assert [name for name in os.listdir(pooler.dir) if "PGSQL" in name] == [".s.PGSQL.%d" % pooler.port]
        assert pid_in(pooler) == old.process.pid


def test_the_socket_file_of_another_process(make_pooler, pg):
    """A process that ends leaves it: it is not the one that it has made."""
    pooler = make_pooler({"db": pg.conn()})
    path = pooler.path(".s.PGSQL.%d" % pooler.port)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path + ".other")
        os.rename(path + ".other", path)
        pooler.signal("TERM")
        assert pooler.wait_exit() == 0
        assert os.path.exists(path)
