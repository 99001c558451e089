"""Several hosts of one database: which host the next client gets, which hosts are skipped, and when
they return."""

import threading
import time

import pytest

import fakeserver
import waiting
import wire

pytestmark = pytest.mark.one_worker  # Each worker has its own records of hosts.


def entry(servers, more=""):
    return "host=%s port=%s %s" % (",".join(s.host for s in servers),
                                   ",".join(str(s.port) for s in servers), more)


def three(fake):
    return [fake(host="127.0.0.%d" % i) for i in (3, 4, 5)]


def hosts(pooler):
    return [row for row in pooler.show("HOSTS") if row["database"] == "db"]


def await_states(pooler, *states):
    """The monitor has told so about each host."""
    waiting.wait_for(lambda: [(row["state"], bool(row["reason"])) for row in hosts(pooler)] ==
                     [(state, state != "up") for state in states], "states " + " ".join(states))


def ask(pooler):
    with pooler.connect() as client:
        assert client.value("select 1") == "fake"


@pytest.mark.parametrize("mode, balance", [
    ("session", "round-robin"), ("transaction", "round-robin"), ("statement", "round-robin"),
    ("transaction", "least-connections")])
def test_short_lived_clients_are_shared_by_weight(make_pooler, fake, mode, balance):
    servers = three(fake)
    pooler = make_pooler(
        {"db": entry(servers, "weight=3,1,1 load_balance_hosts=%s" % balance)},
        # Nothing is asked of a server between two clients, so that it is free when the next one comes.
        settings={"pool_mode": mode, "server_reset_query": ""})
    for _ in range(1000):
        ask(pooler)
    rows = hosts(pooler)
    assert [row["host"] for row in rows] == [s.host for s in servers]
    assert [row["port"] for row in rows] == [str(s.port) for s in servers]
    assert [row["weight"] for row in rows] == ["3", "1", "1"]
    for row, server, expected in zip(rows, servers, (600, 200, 200)):
        queries = sum(s.queries().count("select 1") for s in server.sessions)
        assert int(row["assignments"]) == queries
        assert abs(queries - expected) <= 20
        assert row["state"] == "up"
        assert int(row["connections"]) == len(server.of_pools()) <= 3


def test_the_monitors_connections_are_not_counted(make_pooler, fake):
    servers = three(fake)
    pooler = make_pooler({"db": entry(servers)}, settings={"pool_mode": "session"})
    with pooler.connect() as client:
        assert client.value("select 1") == "fake"
        waiting.wait_for(lambda: all(len(s.sessions) > len(s.of_pools()) for s in servers), "the monitor has asked")
        assert pooler.show_one("LISTS", list="used_servers")["items"] == str(len(pooler.show("SERVERS"))) == "1"


@pytest.mark.parametrize("workers", [1, 4])
def test_a_cold_pool_shares_by_weight(make_pooler, fake, workers):
    """Twenty clients come at once: also their first transactions are shared by weight, and also between
    the connections of several workers."""
    def slow(_, sql):
        time.sleep(0.002)
        return fakeserver.plain_answer(sql)

    def script(session):
        session.login()
        session.serve([("select 1", slow)])

    def run():
        begin.wait()
        with pooler.connect() as client:
            for _ in range(50):
                client.query("select 1")

    servers = [fake(script, host="127.0.0.%d" % i) for i in (3, 4, 5)]
    pooler = make_pooler({"db": entry(servers, "weight=3,1,1 pool_size=5")},
                         settings={"pool_mode": "transaction", "workers": workers})
    begin = threading.Barrier(20)
    threads = [threading.Thread(target=run) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sum(not session.ended.is_set() for session in server.of_pools()) for server in servers] == [3, 1, 1]
    shares = [sum(session.queries().count("select 1") for session in server.sessions) for server in servers]
    assert sum(shares) == 1000
    assert all(abs(share - expected) < 100 for share, expected in zip(shares, (600, 200, 200))), shares


def test_random_reaches_every_host(make_pooler, fake):
    servers = three(fake)
    pooler = make_pooler({"db": entry(servers, "load_balance_hosts=random")},
                         settings={"pool_mode": "session"})
    clients = [pooler.connect() for _ in range(12)]
    for client in clients:
        client.query("select 1")
    assert all(s.sessions for s in servers)
    assert pooler.show_one("DATABASES", name="db")["load_balance_hosts"] == "random"


def test_host_that_is_down_costs_no_retry(make_pooler, fake):
    up = fake(host="127.0.0.4")
    closed = waiting.PORTS.take()
    pooler = make_pooler({"db": "host=127.0.0.3,127.0.0.4 port=%d,%d" % (closed, up.port)},
                         settings={"server_login_retry": 3600, "pool_mode": "session"})
    clients = [pooler.connect() for _ in range(5)]
    for client in clients:
        assert client.value("select 1") == "fake"
    await_states(pooler, "down", "up")
    assert hosts(pooler)[0]["last_error"] == "Connection refused"
    down, other = hosts(pooler)
    assert (down["state"], down["failures"], down["connections"], down["retry_in"]) == ("down", "1", "0", "0")
    assert (other["state"], other["failures"], other["last_error"], other["retry_in"]) == (
        "up", "0", None, "0")
    assert (other["connections"], other["active"]) == ("5", "5")


@pytest.mark.parametrize("code", ["57P01", "57P02", "57P03"])
@pytest.mark.parametrize("client", ["ordinary", "replication"])
def test_host_that_stops_during_a_login(make_pooler, fake, code, client):
    """It is not used, as one that cannot be reached."""
    def stop(session):
        session.recv_startup()
        session.send(wire.error("FATAL", code, "not now"))

    stopping, up = fake(stop, host="127.0.0.3"), fake(host="127.0.0.4")
    pooler = make_pooler({"db": entry([stopping, up])}, settings={
        "server_login_retry": 3600, "pool_mode": "session"})
    params = {"replication": "database"} if client == "replication" else {}
    with pooler.connect(**params) as made:
        assert made.value("select 1") == "fake"
        await_states(pooler, "refuses", "up")
        row = hosts(pooler)[0]
        assert (row["failures"], row["last_error"]) == ("1", "not now")


def test_host_is_taken_back(make_pooler, fake):
    up = fake(host="127.0.0.4")
    closed = waiting.PORTS.take()
    pooler = make_pooler({"db": "host=127.0.0.3,127.0.0.4 port=%d,%d" % (closed, up.port)},
                         settings={"server_login_retry": 0.2, "pool_mode": "transaction"})
    ask(pooler)
    assert hosts(pooler)[0]["state"] == "down"
    back = fake(host="127.0.0.3", port=closed)

    def is_back():
        ask(pooler)
        return hosts(pooler)[0]["state"] == "up"

    waiting.wait_for(is_back)
    waiting.wait_for(lambda: ask(pooler) or any(s.queries() for s in back.sessions))


def test_host_that_hangs_keeps_nobody_waiting(make_pooler, fake):
    """It was up. Now it accepts connections but does not answer, and no client is sent there."""
    is_silent = threading.Event()

    def script(session):
        session.recv_startup()
        if is_silent.is_set():
            session.recv()
        session.send(fakeserver.welcome())
        session.serve([(".", lambda _, sql: b"" if is_silent.is_set() else fakeserver.plain_answer(sql))])

    silent, up = fake(script, host="127.0.0.3"), fake(host="127.0.0.4")
    pooler = make_pooler({"db": entry([silent, up])}, settings={
        "host_hung_timeout": 0.3, "role_check_period": 0.2, "server_connect_timeout": 3600,
        "pool_mode": "session"})
    with pooler.connect() as client:
        client.query("select 1")
        waiting.wait_for(lambda: hosts(pooler)[0]["state"] == "up", "it is up")
        is_silent.set()
        waiting.wait_for(lambda: hosts(pooler)[0]["state"] == "hangs", "it hangs")
        clients = [pooler.connect() for _ in range(4)]
        for other in clients:
            assert other.value("select 1") == "fake"
    assert len(up.of_pools()) >= 4


def test_no_client_waits_for_a_silent_host(make_pooler, fake):
    """One host accepts connections but does not answer, and the pooler does not know it yet. The
    other host serves all clients, long before server_connect_timeout."""
    def silence(session):
        session.recv_startup()
        session.recv()

    silent, up = fake(silence, host="127.0.0.3"), fake(host="127.0.0.4")
    pooler = make_pooler({"db": entry([silent, up])}, settings={
        "server_connect_timeout": 3600, "query_wait_timeout": 3600, "pool_mode": "session",
        "host_hung_timeout": 2})
    with pooler.connect() as client:
        client.query("select 1")
        for _ in range(20):
            ask(pooler)
        assert (len(silent.of_pools()), sum(len(s.queries()) for s in silent.sessions)) == (1, 0)
        assert sum(s.queries().count("select 1") for s in up.sessions) == 21
        await_states(pooler, "hangs", "up")


@pytest.mark.parametrize("workers", [1, 8])
def test_a_silent_host_leaves_room_in_the_pool(make_pooler, fake, workers):
    """Clients of all workers come at once, more than the pool has servers. Logins that hang at one host do not
    fill it: the other host serves everybody, long before server_connect_timeout."""
    def silence(session):
        session.recv_startup()
        session.recv()

    silent, up = fake(silence, host="127.0.0.3"), fake(host="127.0.0.4")
    pooler = make_pooler({"db": entry([silent, up], "pool_size=6")}, settings={
        "server_connect_timeout": 3600, "query_wait_timeout": 3600, "pool_mode": "transaction",
        "host_hung_timeout": 1, "workers": workers})
    clients = [pooler.client("db", "trust_user") for _ in range(32)]
    for client in clients:
        client.send(client.startup_packet() + wire.query("select 1"))
    for client in clients:
        client.authenticate()
        client.finish()
    for _ in range(3):
        for client in clients:
            client.send(wire.query("select 1"))
        for client in clients:
            client.finish()
    assert sum(s.queries().count("select 1") for s in up.sessions) == 4 * len(clients)
    assert len(up.of_pools()) + len(silent.of_pools()) <= 6 + workers
    for client in clients:
        client.close()


def test_all_hosts_down_keeps_clients_waiting(make_pooler, fake):
    ports = [waiting.PORTS.take(), waiting.PORTS.take()]
    pooler = make_pooler({"db": "host=127.0.0.3,127.0.0.4 port=%d,%d" % tuple(ports)},
                         settings={"server_login_retry": 0.2})
    client = pooler.client()
    client.send(client.startup_packet())
    waiting.wait_for(lambda: [row["state"] for row in hosts(pooler)] == ["down", "down"])
    fake(fakeserver.polite, host="127.0.0.4", port=ports[1])
    client.authenticate()
    assert client.value("select 1") == "fake"


@pytest.mark.parametrize("is_monitor_refused", [True, False], ids=["everybody", "the user"])
def test_all_hosts_refuse(make_pooler, fake, is_monitor_refused):
    """The client is told what each of them says, whether they refuse everybody or its user."""
    def refuse(session):
        session.recv_startup()
        if session.is_monitors() and not is_monitor_refused:
            session.send(fakeserver.welcome())
            session.serve()
        session.send(wire.error("FATAL", "28000", "%s says no" % session.sock.getsockname()[0]))

    servers = [fake(refuse, host="127.0.0.%d" % i) for i in (3, 4)]
    pooler = make_pooler({"db": entry(servers)}, settings={"pool_mode": "session"})
    with pooler.client() as client:
        client.send(client.startup_packet())
        error = client.recv_until("E")[-1]
    assert error.field("C") == "28000" and "says no" in error.text()
    assert error.field("D").startswith('no host of database "db" serves: 127.0.0.3:%d ' % servers[0].port)
    for server in servers:
        assert '127.0.0.%s:%d refuses user "trust_user" (%s says no)' % (
            server.host[-1], server.port, server.host) in error.field("D") or is_monitor_refused and \
            "127.0.0.%s:%d refuses (%s says no)" % (server.host[-1], server.port, server.host) in error.field("D")
