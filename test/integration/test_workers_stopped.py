"""A worker that stands still, as under a debugger, holds up its own clients and nobody else."""

import threading

import pytest

import tracer
import waiting
import wire
from test_roles import ask
from test_switchover import DEADLINE, await_end, await_notice, make, swap, two  # noqa: F401
from test_views import TRANSACTION

CLIENTS = 6


@pytest.fixture
def pooler(make_pooler, pg):
    return make_pooler({"db": pg.conn(pool_size=2 * CLIENTS)}, settings=dict(TRANSACTION, workers=2))


def connect_all(pooler, count, *where):
    """Returns so many clients, each of which has run a query."""
    clients = [pooler.connect(*where) for _ in range(count)]
    assert [client.value("select 1") for client in clients] == ["1"] * count
    return clients


def answered(clients, timeout=0.05):
    return [client for client in clients if client.has_data(timeout)]


def divide(clients):
    """Sends a query of each client, and returns those that are served and those whose worker stands
    still."""
    for client in clients:
        client.send(wire.query("select 'late'"))
    waiting.wait_for(lambda: len(answered(clients)) == len(clients) // 2, "half of them are served")
    served = answered(clients)
    finish(served)
    return served, [client for client in clients if client not in served]


def finish(held):
    """What they have sent meanwhile is answered."""
    for client in held:
        assert client.finish().value == "late"


def test_others_are_served(pooler):
    clients, console = connect_all(pooler, CLIENTS), pooler.console()
    with tracer.stopped(pooler.pid, "worker 0"):
        served, held = divide(clients)
        # Both the console and the clients of the other worker go on.
        for view in ("POOLS", "CLIENTS", "STATS"):
            console.query("SHOW " + view)
        for sql in ("DISABLE db", "ENABLE db", "RECONNECT"):
            console.query(sql)
        for client in served * 20:
            assert client.value("select 3") == "3"
        # New clients go to the worker that answers.
        for _ in range(CLIENTS):
            with pooler.connect() as fresh:
                assert fresh.value("select 4") == "4"
        pooler.admin.query("RELOAD")
    finish(held)
    assert [client.value("select 5") for client in clients] == ["5"] * CLIENTS
    # What the console said reaches the worker when it goes on.
    waiting.wait_for(lambda: len(pooler.show("WORKERS")) == 3, "all workers answer")


def test_new_clients_are_given_to_others(pooler):
    """Also those that were given to the worker before it was known to stand still."""
    clients = connect_all(pooler, 2)
    with tracer.stopped(pooler.pid, "worker 1"):
        for number in range(CLIENTS):
            with pooler.connect() as client:
                assert client.value("select %d" % number) == str(number)
    assert [client.value("select 2") for client in clients] == ["2"] * 2
    # Each is counted where it is.
    waiting.wait_for(lambda: [row["clients"] for row in pooler.show("WORKERS")] == ["1", "1", "1"], "counted")
    clients += [pooler.connect() for _ in range(CLIENTS)]
    assert [row["clients"] for row in pooler.show("WORKERS")] == [str(len(clients) // 2)] * 2 + ["1"]


def only_worker(pooler):
    """Returns the name of the only worker that has clients."""
    return "worker " + [row["worker"] for row in pooler.show("WORKERS")
                        if row["worker"] != "control" and row["clients"] != "0"][0]


def test_kill_means_the_same_later(make_pooler, pg):
    """KILL of everything pauses a database that only a worker that stands still uses, at all workers,
    and KILL_CLIENT finds a client there."""
    pooler = make_pooler({"db": pg.conn(), "idle": pg.conn()}, settings=dict(TRANSACTION, workers=2))
    first, = connect_all(pooler, 1)
    worker, number = only_worker(pooler), pooler.show_one("CLIENTS", database="db")["id"]
    second = pooler.console()
    with tracer.stopped(pooler.pid, worker):
        reply = second.query("KILL_CLIENT " + number)
        assert reply.tag == "KILL_CLIENT" and "does not answer" in reply.notices[0].text()
    assert first.recv_until("E")[-1].text() == "admin forced disconnect"
    assert second.query("KILL_CLIENT " + number, check=False).errors

    first, = connect_all(pooler, 1)
    with tracer.stopped(pooler.pid, only_worker(pooler)):
        pooler.admin.query("KILL")
        paused = {row["name"]: row["paused"] for row in pooler.show("DATABASES")}
        assert (paused["db"], paused["idle"]) == ("1", "0")
        pooler.admin.query("RESUME db")
    assert first.recv_until("E")[-1].text() == "database removed"
    connect_all(pooler, 4)


def test_switchover_waits_for_all(make_pooler, two):  # noqa: F811
    pooler = make(make_pooler, two, workers=2)
    clients = [pooler.connect() for _ in range(2)]
    for client in clients:
        ask(client)
    watcher, console = pooler.admin, pooler.console()
    with tracer.stopped(pooler.pid, "worker 1"):
        console.send(wire.query("SWITCHOVER db"))
        waiting.wait_for(lambda: watcher.query("SHOW DATABASES").dicts()[0]["paused"] == "1", "it has begun",
                         DEADLINE)
        assert not console.has_data(0.1)
    await_notice(console)
    swap(two)
    assert await_end(console) == "SWITCHOVER"
    for client in clients:
        ask(client)
        client.close()
    assert two[1].queries() == 2


def test_who_waits_there_for_room_holds_up_nobody(make_pooler, pg):
    """The client that has waited longest for room under a limit is one of the worker that stands
    still."""
    pooler = make_pooler({"one": pg.conn(), "two": pg.conn()}, settings=dict(TRANSACTION, workers=2))
    clients = {name: connect_all(pooler, 4, name) for name in ("one", "two")}
    watcher = pooler.admin
    with tracer.stopped(pooler.pid, "worker 0"):
        (holders, others), (two, rest) = divide(clients["one"]), divide(clients["two"])
    finish(others + rest)
    late, early = two[0], rest[0]
    watcher.query("RECONNECT")
    waiting.wait_for(lambda: not pooler.show("SERVERS"), "no servers")
    watcher.query("SET max_server_connections = 2")
    for client in holders:
        client.query("begin")
    for count, client in enumerate((early, late)):
        client.send(wire.query("select 'late'"))
        pooler.wait_pool("two", cl_waiting=count + 1)
    with tracer.stopped(pooler.pid, "worker 0"):
        for client in holders:
            client.query("commit")
        finish([late])
    finish([early])


def clients_of_workers(pooler, clients, workers):
    """Returns the clients of each worker."""
    found = []
    for number in range(workers):
        with tracer.stopped(pooler.pid, "worker %d" % number):
            for client in clients:
                client.send(wire.query("select 'late'"))
            waiting.wait_for(lambda: len(answered(clients)) == len(clients) * (workers - 1) // workers,
                             "the others are served")
            found.append([client for client in clients if not client.has_data(0.05)])
        finish(clients)
    return found


@pytest.mark.parametrize("name", ["one", "two"])
def test_servers_that_rest_elsewhere_are_found(make_pooler, pg, name):
    """Most servers rest at the worker that stands still. One of another worker is used, or closed for a
    pool that has no server."""
    pooler = make_pooler({"one": pg.conn(), "two": pg.conn()}, settings=dict(TRANSACTION, workers=3))
    clients = {name: connect_all(pooler, 6, name) for name in ("one", "two")}
    workers = clients_of_workers(pooler, clients["one"], 3)
    seekers = clients_of_workers(pooler, clients[name], 3)[2]
    pooler.admin.query("RECONNECT")
    waiting.wait_for(lambda: not pooler.show("SERVERS"), "no servers")
    pooler.admin.query("SET max_server_connections = 3")
    users = workers[0] + workers[1][:1]
    for sql in ("begin", "commit"):
        for client in users:
            client.query(sql)
    with tracer.stopped(pooler.pid, "worker 0"):
        assert seekers[0].value("select 2") == "2"
    assert seekers[1].value("select 3") == "3"


@pytest.mark.parametrize("is_known", [True, False])
def test_cancel_requests_pass_it_by(make_pooler, pg, is_known):
    """A request goes from worker to worker, and not through the one that stands still, unless that one has the
    client; also before anybody knows that it stands still."""
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, workers=3))
    clients = connect_all(pooler, 6)
    here, *others = clients_of_workers(pooler, clients, 3)
    others = others[0] + others[1]
    watcher = pooler.admin
    for client in clients:
        client.send(wire.query("select pg_sleep(60)"))
    waiting.wait_for(lambda: pg.backends("query like '%sleep(60)%' and state='active'") == 6, "all run")
    with tracer.stopped(pooler.pid, "worker 0"):
        if is_known:
            assert watcher.query("SHOW POOLS")
        sent = [threading.Thread(target=client.cancel) for client in others + here]
        for thread in sent:
            thread.start()
        for client in others:
            assert client.finish().errors[0].field("C") == "57014"
    for client in here:
        assert client.finish().errors[0].field("C") == "57014"
    for thread in sent:
        thread.join()
