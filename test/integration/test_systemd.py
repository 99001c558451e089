"""Messages to the service manager, received by a stand-in for systemd (operation.md 6)."""

import os
import re
import socket

import pytest

import waiting


class Manager:
    """Receives the datagrams at NOTIFY_SOCKET."""

    def __init__(self):
        self.dir = waiting.scratch("manager")
        self.path = os.path.join(self.dir, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        os.chmod(self.path, 0o777)
        self.socket.settimeout(waiting.DEADLINE)

    def hear(self):
        return self.socket.recv(4096).decode()

    def hear_until(self, pattern):
        """Returns all messages up to and including the first that matches."""
        heard = []
        while not heard or not re.fullmatch(pattern, heard[-1]):
            heard.append(self.hear())
        return heard

    def close(self):
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


def test_a_reload_that_fails_ends_as_well(make_pooler, pg, manager):
    pooler = managed(make_pooler, pg, manager)
    assert manager.hear() == "READY=1"
    pooler.write("pgbouncer.ini", "[pgbouncer]\nnonsense = 1\n")
    pooler.signal("HUP")
    assert manager.hear_until("READY=1")[0].startswith("RELOADING=1")


def test_signs_of_life(make_pooler, pg, manager):
    managed(make_pooler, pg, manager, WATCHDOG_USEC="100000")
    for _ in range(3):
        manager.hear_until("WATCHDOG=1")


def test_no_signs_of_life_for_another_process(make_pooler, pg, manager):
    pooler = managed(make_pooler, pg, manager, WATCHDOG_USEC="1000", WATCHDOG_PID="1")
    assert manager.hear() == "READY=1"
    pooler.signal("HUP")
    assert "WATCHDOG=1" not in manager.hear_until("READY=1")
