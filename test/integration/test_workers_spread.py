"""Several workers: clients that rest go to workers with less to do, and notice nothing."""

import itertools
import os
import threading

import pytest

import waiting
import wire
from programs import Program
from test_takeover import wait_running
from test_views import TRANSACTION

# Differences of fewer clients are left alone.
MANY = 48
DEADLINE = 300


def workers_of(pooler):
    """Returns the rows of SHOW WORKERS for the workers that have clients. One that does not answer in time has
    no row, which happens on a machine that has much else to do."""
    count = int(pooler.show_one("CONFIG", key="workers")["value"])

    def all_rows():
        rows = [row for row in pooler.show("WORKERS") if row["worker"] != "control"]
        return rows if len(rows) == count else None
    return waiting.wait_for(all_rows, "every worker answers")


def moved(pooler):
    """Returns how many clients have come from other workers. None is lost on its way."""
    rows = workers_of(pooler)
    came = sum(int(row["clients_in"]) for row in rows)
    assert came == sum(int(row["clients_out"]) for row in rows)
    return came


def is_even(pooler):
    numbers = [int(row["clients"]) for row in workers_of(pooler)]
    return max(numbers) <= 2 * min(numbers) or max(numbers) - min(numbers) < 16


def shown(pooler, database="db"):
    """Returns {application_name: id} of SHOW CLIENTS, which shows each client once."""
    rows = [row for row in pooler.show("CLIENTS") if row["database"] == database]
    assert len({row["id"] for row in rows}) == len({row["ptr"] for row in rows}) == len(rows)
    return {row["application_name"]: row["id"] for row in rows}


def crowd(pooler, workers, count=MANY, connect=None):
    """Returns so many clients, each with its own application_name, that are all at the first worker."""
    connect = connect or (lambda name: pooler.connect(application_name=name))
    clients, here = {}, []
    # On a busy machine logins are not shared out evenly.
    while len(here) < count:
        for number in range(len(clients), len(clients) + (count - len(here)) * workers):
            name = "client %03d" % number
            clients[name] = connect(name)
            clients[name].name = name
        # Each thread numbers its clients in steps, so that a number tells where the client has logged in.
        here = [name for name, number in shown(pooler).items() if (int(number) - 1) % (workers + 1) == 0]
    for name in clients.keys() - set(here[:count]):
        clients.pop(name).close()
    waiting.wait_for(lambda: len(shown(pooler)) == count, "the others have left")
    return list(clients.values())


def prepare(clients):
    for client in clients:
        client.send(wire.parse("mine", "select '%s', $1::text" % client.name), wire.sync())
        client.finish()
        client.query("set timezone to 'Asia/Tokyo'")
    return clients


def check(client, what):
    """Everything that belongs to the client is as it has left it."""
    client.send(wire.bind("", "mine", [what]), wire.execute(), wire.sync())
    assert client.finish().rows == [(client.name, what)]
    assert client.value("show timezone") == "Asia/Tokyo"
    assert client.value("show application_name") == client.name


class Users:
    """Threads that use clients until the end, and check all answers."""

    def __init__(self, clients, threads=4, use=check):
        self.failures = []
        self.is_over = False
        self.rounds = itertools.count()
        self.use = use
        self.threads = [threading.Thread(target=self.run, args=(clients[n::threads],)) for n in range(threads)]

    def run(self, clients):
        try:
            while not self.is_over:
                for client in clients:
                    self.use(client, "round %d" % next(self.rounds))
        except BaseException as fault:
            self.failures.append(fault)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join()
        assert not self.failures, self.failures


def spread_pooler(make_pooler, entry, workers, **settings):
    return make_pooler({"db": entry}, settings=dict(
        TRANSACTION, workers=workers, max_prepared_statements=20, max_client_conn=1000, **settings))


def await_even(pooler):
    waiting.wait_for(lambda: is_even(pooler), "the workers have about as many clients", DEADLINE, 0.05)
    assert moved(pooler) > 0


@pytest.mark.parametrize("workers", [2, 4])
def test_clients_are_levelled(make_pooler, pg, workers):
    """They keep what they have, while they are used, and every count holds all the time."""
    pooler = spread_pooler(make_pooler, pg.conn(pool_size=5), workers)
    clients = prepare(crowd(pooler, workers))
    before = shown(pooler)
    with Users(clients):
        def is_right():
            assert shown(pooler) == before
            assert pooler.show_one("DATABASES", name="db")["current_client_connections"] == str(MANY)
            return is_even(pooler)
        waiting.wait_for(is_right, "the workers have about as many clients", DEADLINE, 0)
    assert moved(pooler) > 0
    for client in clients:
        check(client, "after all")


def test_commands_find_who_has_moved(make_pooler, pg):
    """Cancel requests by the key of the login, KILL_CLIENT by the id."""
    pooler = spread_pooler(make_pooler, pg.conn(pool_size=MANY), 2)
    clients = crowd(pooler, 2)
    await_even(pooler)
    for client in clients:
        client.send(wire.query("select '%s', pg_sleep(600)" % client.name))
    for client in clients:
        wait_running(pg, client.name)
        client.cancel()
        assert client.finish().errors[0].field("C") == "57014"
    for client in clients[:10]:
        assert pooler.admin.query("KILL_CLIENT " + shown(pooler)[client.name]).tag == "KILL_CLIENT"
        assert client.recv_until("E")[-1].text() == "admin forced disconnect"
    for client in clients[10:]:
        assert client.value("select 1") == "1"


def test_cancel_finds_who_is_on_the_way(make_pooler, pg):
    """A cancel request that comes while clients move hits a query that runs."""
    pooler = spread_pooler(make_pooler, pg.conn(pool_size=2), 3)
    clients = crowd(pooler, 3)
    victim = clients.pop()
    for number in itertools.count():
        if is_even(pooler):
            break
        text = "number %04d of the victim" % number
        victim.send(wire.query("select '%s', pg_sleep(600)" % text))
        wait_running(pg, text)
        victim.cancel()
        assert victim.finish().errors[0].field("C") == "57014"
        # it rests for a moment and may go
        assert [client.value("select 1") for client in clients[:5]] == ["1"] * 5
    assert moved(pooler) > 0


def test_administration_meets_clients_on_the_way(make_pooler, pg):
    """PAUSE, SUSPEND, RELOAD and RECONNECT, again and again while clients move."""
    pooler = spread_pooler(make_pooler, pg.conn(pool_size=5), 2)
    clients = prepare(crowd(pooler, 2))
    with Users(clients):
        while not is_even(pooler):
            for command in ("PAUSE", "RESUME", "SUSPEND", "RESUME", "RECONNECT", "RELOAD"):
                pooler.admin.query(command)
    assert moved(pooler) > 0
    assert pooler.admin.query("KILL db").tag == "KILL"
    for client in clients:
        client.expect_fatal("database removed")
    assert pooler.admin.query("RESUME db").tag == "RESUME"
    assert not shown(pooler)


def test_clients_of_unix_sockets_move(make_pooler, pg):
    pooler = spread_pooler(make_pooler, pg.conn(), 2)
    clients = crowd(pooler, 2, connect=lambda name: pooler.connect(unix=True, application_name=name))
    await_even(pooler)
    assert [client.value("select 1") for client in clients] == ["1"] * MANY
    assert {row["addr"] for row in pooler.show("CLIENTS") if row["database"] == "db"} == {"unix"}


def test_sessions_stay(make_pooler, pg):
    """A client with a server of its own does not rest; those without one go."""
    pooler = make_pooler({"db": pg.conn(pool_size=MANY)},
                         settings={"pool_mode": "session", "workers": 2, "max_client_conn": 1000})
    clients = crowd(pooler, 2)
    holders = clients[::2]
    backends = [client.value("select pg_backend_pid()") for client in holders]
    await_even(pooler)
    assert [client.value("select pg_backend_pid()") for client in holders] == backends


def test_busy_clients_spread(request, make_pooler):
    """Two workers have as many clients, but only those of the first do something, more than a thread can: some
    of them go to the other worker."""
    program = os.path.join(os.path.dirname(request.config.getoption("--pooler")), "test/bench/canned")
    if not os.path.exists(program):
        pytest.skip("there are no programs of the benchmark beside the pooler: make bench-programs")
    port = waiting.PORTS.take()
    with Program([program, "--port", str(port)], dict(os.environ)):
        waiting.wait_for(lambda: waiting.can_connect(port), "the server listens")
        pooler = spread_pooler(make_pooler, "host=127.0.0.1 port=%d" % port, 2, session_state="clean")
        clients = {"client %03d" % number: None for number in range(MANY)}
        for name in clients:
            clients[name] = pooler.connect(application_name=name)
        busy = [clients[name] for name, number in shown(pooler).items() if (int(number) - 1) % 3 == 0]
        # A long text that has to be read costs the pooler far more than the two others, so that it is what
        # everybody waits for, also while other programs run.
        query = wire.query("select /* set_config */ 1" + 300000 * ", 1")

        def use(client, _):
            client.send(query)
            client.finish()
        with Users(busy, use=use):
            waiting.wait_for(lambda: moved(pooler) > 0, "busy clients have moved", DEADLINE, 0.1)
