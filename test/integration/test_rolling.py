"""Processes that share one port (so_reuseport) and are peers of each other ([peers]). They are
restarted one after the other under load (doc/peering.md)."""

import threading

import pytest

import waiting
import wire

ROUNDS = 2
CLIENTS = 4


class Load:
    """Clients that connect, prepare statements, run transactions and disconnect, until they are
    stopped. No client connects while `door` is held: when the kernel assigns a connection to a
    listener that is just being closed, the connection is lost, and no pooler can prevent that
    (doc/peering.md describes the remedy)."""

    def __init__(self, connect):
        self.connect = connect
        self.door = threading.Lock()
        self.done = threading.Event()
        self.transactions = 0
        self.pids = set()
        self.failures = []
        self.threads = [threading.Thread(target=self._work) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def _work(self):
        while not self.done.is_set() and not self.failures:
            try:
                with self.door:
                    client = self.connect()
                with client:
                    self._session(client)
            except BaseException as failure:
                self.failures.append(failure)

    def _session(self, client):
        client.send(wire.parse("twice", "select $1::int * 2"), wire.sync())
        assert not client.finish().errors
        for number in range(5):
            client.send(wire.query("begin"))
            assert client.finish().status == "T"
            client.send(wire.bind("", "twice", [b"%d" % number]), wire.execute(), wire.sync())
            assert client.finish().value == str(2 * number)
            assert client.query("commit").tag == "COMMIT"
            self.transactions += 1

    def more(self):
        """Waits until every client has completed some more transactions."""
        before = self.transactions
        waiting.wait_for(lambda: self.failures or self.transactions > before + 10 * CLIENTS, "load")
        assert not self.failures, self.failures[0]

    def end(self):
        self.done.set()
        for thread in self.threads:
            thread.join(waiting.DEADLINE)
        assert not self.failures, self.failures[0]


@pytest.fixture
def shared(make_pooler, pg):
    """Two processes on one port, each with its own folder and unix socket."""
    port = waiting.PORTS.take()
    poolers = []
    for number in ("1", "2"):
        pooler = make_pooler({"db": pg.conn()}, start=False, settings={
            "pool_mode": "transaction", "so_reuseport": 1, "peer_id": number,
            "default_pool_size": 5})
        pooler.port = port
        pooler.settings["listen_port"] = port
        poolers.append(pooler)
    for pooler in poolers:
        pooler.peers = {str(i + 1): "host=%s port=%d" % (other.dir, port)
                        for i, other in enumerate(poolers)}
        pooler.start()
    return poolers


def own(pooler):
    """Returns a client of exactly this process."""
    return pooler.connect("db", unix=True)


def restart(pooler, load, end):
    with load.door:
        mark = pooler.mark()
        end(pooler)
        pooler.wait_log("got SIGTERM|SHUTDOWN", since=mark)
        waiting.wait_for(lambda: not is_listening(pooler), "its listener is closed")
    assert pooler.wait_exit() == 0
    for console in pooler.consoles:
        console.close()
    del pooler.consoles[:]
    load.more()
    pooler.write("stderr", "")
    pooler.start()
    load.more()


def is_listening(pooler):
    """Says whether this process listens on the shared port."""
    inodes = waiting.socket_inodes(pooler.pid)
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return any(row[3] == "0A" and row[9] in inodes and int(row[1].split(":")[1], 16) == pooler.port
               for row in rows)


def by_signal(pooler):
    pooler.signal("TERM")


def by_console(pooler):
    with pooler.client("pgbouncer", "admin_user", unix=True) as console:
        console.login()
        console.send(wire.query("SHUTDOWN WAIT_FOR_CLIENTS"))


def test_rolling_restart_of_processes_on_one_port(shared, pg):
    """No client sees an error, and a cancel request reaches the right process before and after the
    restart."""
    one, two = shared
    load = Load(one.connect)
    try:
        load.more()
        for _ in range(ROUNDS):
            restart(one, load, by_signal)
            restart(two, load, by_console)
        # A cancel request may reach either process, and both can deliver the keys of both.
        for pooler in shared:
            with own(pooler) as client:
                client.send(wire.query("select pg_sleep(60)"))
                waiting.wait_for(lambda: pg.backends(
                    "query = 'select pg_sleep(60)' and state = 'active'"), "it runs")
                for other in shared:
                    with wire.Wire(wire.open_socket(other.dir, other.port)) as raw:
                        raw.send(wire.cancel_request(client.key))
                        raw.expect_closed()
                assert client.finish().errors[0].field("C") == "57014"
    finally:
        load.end()
