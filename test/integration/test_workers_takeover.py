"""Online restart between processes with different numbers of workers."""

import pytest

import waiting
import wire
from test_suspend import owner_console, receive_rows
from test_takeover import restart, take_over_under_load, wait_end  # noqa: F401 (restart is a fixture)
from test_views import TRANSACTION
from test_workers_stopped import connect_all

CLIENTS = 6


def clients_of(pooler):
    return {row["id"] for row in pooler.show("CLIENTS") if row["database"] == "db"}


def prepare(client, number):
    client.send(wire.parse("mine", "select $1::int + %d" % number, [23]), wire.sync())
    client.finish()


def call(client, argument):
    client.send(wire.bind("", "mine", [str(argument)]), wire.execute(), wire.sync())
    return client.finish().value


@pytest.fixture
def clients(make_pooler, pg):
    """Returns a function that starts a pooler with so many workers, and connects clients to it."""
    opened = []

    def start(workers):
        pooler = make_pooler({"db": pg.conn(pool_size=CLIENTS)},
                             settings=dict(TRANSACTION, workers=workers, max_prepared_statements=10))
        opened.extend(connect_all(pooler, CLIENTS))
        return pooler, opened

    yield start
    for client in opened:
        client.close()


@pytest.mark.parametrize("old, new", [(2, 1), (1, 3), (2, 2), (3, 2)])
def test_all_go_on(clients, restart, old, new):  # noqa: F811
    pooler, everybody = clients(old)
    for number, client in enumerate(everybody):
        prepare(client, number)
    busy = everybody[:2]
    for client in busy:
        client.query("begin")
    backends = [client.value("select pg_backend_pid()") for client in busy]
    known, servers = clients_of(pooler), len(pooler.show("SERVERS"))
    process = restart(pooler, workers=new)
    pooler.wait_log(r"\[%d\] LOG process \d+ has taken over %d clients and %d idle servers; 0 clients stay"
                    % (process.pid, CLIENTS, servers - 2))
    wait_end(process, pooler)
    assert clients_of(pooler) == known
    assert len(pooler.show("SERVERS")) == servers
    for client, backend in zip(busy, backends):
        assert client.value("select pg_backend_pid()") == backend
        assert client.query("commit").tag == "COMMIT"
    for number, client in enumerate(everybody):
        assert call(client, 10) == str(10 + number)
    # New texts get names that no server knows yet, whoever uses it afterwards.
    with pooler.connect() as fresh:
        for number, client in enumerate([fresh] + everybody):
            client.send(wire.parse("new", "select 'new', %d" % number), wire.bind("", "new"), wire.execute(), wire.sync())
            assert client.finish().rows == [("new", str(number))]
    pooler.wait_pool(cl_active=CLIENTS, cl_waiting=0)
    assert len(pooler.show("SERVERS")) <= CLIENTS


def test_there_and_back(clients, restart):  # noqa: F811
    pooler, everybody = clients(2)
    for workers in (3, 1, 2):
        for number, client in enumerate(everybody):
            prepare(client, number + workers)
        wait_end(restart(pooler, workers=workers), pooler)
        for number, client in enumerate(everybody):
            assert call(client, 1) == str(1 + number + workers)
            client.send(wire.close("S", "mine"), wire.sync())
            client.finish()


def test_paused_stays_paused(clients, restart):  # noqa: F811
    pooler, everybody = clients(2)
    pooler.admin.query("PAUSE db")
    wait_end(restart(pooler, workers=3), pooler)
    for client in everybody:
        client.send(wire.query("select 'resumed'"))
    waiting.wait_for(lambda: int(pooler.pool()["cl_waiting"]) == CLIENTS, "all wait")
    assert pooler.admin.query("RESUME db").tag == "RESUME"
    for client in everybody:
        assert client.finish().value == "resumed"


def test_descriptors_of_all_workers(clients):
    pooler, everybody = clients(2)
    with owner_console(pooler) as console:
        assert console.query("SUSPEND").tag == "SUSPEND"
        console.send(wire.query("SHOW FDS"))
        rows = receive_rows(console)
        tasks = [row["task"] for row, _ in rows]
        assert (tasks[:2], tasks.count("client")) == (["pooler", "pooler"], CLIENTS)
        assert ({passed.getpeername() for row, passed in rows if row["task"] == "client"}
                == {client.sock.getsockname() for client in everybody})
        for _, passed in rows:
            passed.close()
        assert console.query("RESUME").tag == "RESUME"
    for client in everybody:
        assert client.value("select 2") == "2"


def test_under_load(make_pooler, bench, restart):  # noqa: F811
    pooler = make_pooler({"db": bench.conn("moved")}, settings=dict(TRANSACTION, workers=2))
    take_over_under_load(pooler, bench, restart, [{"workers": 3}])
