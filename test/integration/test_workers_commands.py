"""Commands that concern all workers, while one worker stands still: they are answered, or wait for that
worker while others are served, and nothing is lost when it goes on."""

import time
import urllib.request

import pytest

import tracer
import waiting
import wire
from test_config import long_list
from test_suspend import state
from test_takeover import restart, wait_end  # noqa: F401 (restart is a fixture)
from test_views import TRANSACTION
from test_workers_stopped import answered, connect_all, divide, finish

CLIENTS = 4
SETTINGS = dict(TRANSACTION, workers=2)


@pytest.fixture
def pooler(make_pooler, pg):
    return make_pooler({"db": pg.conn(pool_size=2 * CLIENTS)}, settings=SETTINGS)


@pytest.fixture
def clients(pooler):
    assert pooler.admin.query("SHOW VERSION")
    return connect_all(pooler, CLIENTS)


def go_on(clients):
    """All of them are served."""
    for client in clients:
        assert client.value("select 'on'") == "on"


def error(console):
    return console.finish().errors[0].text()


def test_reload(pooler, pg, clients):
    with tracer.stopped(pooler.pid, "worker 0"):
        served, held = divide(clients)
        pooler.databases["new"] = pg.conn()
        pooler.change(query_timeout=77)
        assert pooler.config()["query_timeout"] == "77"
        with pooler.connect("new") as client:
            go_on([client])
        go_on(served)
    finish(held)
    # Both workers have what was loaded.
    go_on(clients + [pooler.connect("new") for _ in range(CLIENTS)])


def test_reload_of_a_long_list_of_users(make_pooler, pg):
    """RELOAD waits for the worker, which takes over the users when it goes on."""
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, start=False,
                         settings=dict(SETTINGS, auth_type="plain"))
    pooler.userlist = {"admin_user": "admin secret 91c", "stays": "2"}
    pooler.start()
    clients = [pooler.connect(user="stays") for _ in range(CLIENTS)]
    console = pooler.console()
    go_on(clients)
    pooler.write("userlist.txt", long_list(("stays", "2"), ("comes", "5")))
    with tracer.stopped(pooler.pid, "worker 1"):
        served, held = divide(clients)
        console.send(wire.query("RELOAD"))
        pooler.wait_room(user="comes", secret="5")
        assert not console.has_data(0.1)
        go_on(served)
    finish(held)
    assert console.finish().tag == "RELOAD"
    go_on(clients + [pooler.connect(user="comes", secret="5") for _ in range(CLIENTS)])


@pytest.mark.parametrize("command", ["PAUSE", "PAUSE db", "SUSPEND"])
def test_resume_while_a_command_waits(pooler, clients, command):
    """RESUME does not wait for the worker."""
    console, (verb, _, database) = pooler.console(), command.partition(" ")
    with tracer.stopped(pooler.pid, "worker 0"):
        served, held = divide(clients)
        console.send(wire.query(command))
        pooler.wait_log(verb + " .*command issued")
        # What this thread asks the other worker for reaches it after the command.
        waiting.wait_for(lambda: len(pooler.show("WORKERS")) == 2, "the other worker has heard of it")
        for client in served:
            client.send(wire.query("select 'late'"))
        assert not console.has_data(0.1) and not answered(served)
        assert pooler.admin.query("RESUME " + database).tag == "RESUME"
        assert error(console) == verb.lower() + " was interrupted by RESUME"
        finish(served)
        go_on(served)
    finish(held)
    go_on(clients)
    assert state(pooler) == ["active"]


@pytest.mark.parametrize("command", ["PAUSE", "PAUSE db", "SUSPEND"])
def test_the_command_ends_when_the_worker_goes_on(pooler, clients, command):
    """It is in force for clients of all workers then."""
    console, (verb, _, database) = pooler.console(), command.partition(" ")
    with tracer.stopped(pooler.pid, "worker 1"):
        served, held = divide(clients)
        console.send(wire.query(command))
        pooler.wait_log(verb + " .*command issued")
        assert not console.has_data(0.1)
    assert console.finish().tag == verb
    for client in served:
        client.send(wire.query("select 'late'"))
    assert not answered(served)
    assert pooler.admin.query("RESUME " + database).tag == "RESUME"
    finish(served + held)
    go_on(clients)


def test_suspend_timeout_begins_when_all_have_heard(make_pooler, pg):
    """Clients of a worker that stood still have the time of suspend_timeout after that, too."""
    pooler = make_pooler({"db": pg.conn()}, settings=dict(SETTINGS, suspend_timeout=1))
    text = wire.query("select length('%s')" % ("x" * 100000))
    clients = connect_all(pooler, 2)
    watcher, console = pooler.admin, pooler.console()
    for client in clients:
        client.send(text[:90000])
    pooler.wait_pool(sv_active=2)
    with tracer.stopped(pooler.pid, "worker 0"):
        console.send(wire.query("SUSPEND"))
        assert not console.has_data(1.2)
        watcher.query("SET suspend_timeout = 60")
    waiting.wait_for(lambda: len(pooler.show("WORKERS")) == 3, "all workers answer")
    assert not console.has_data(0.1)
    for client in clients:
        client.send(text[90000:])
    assert console.finish().tag == "SUSPEND"
    assert pooler.admin.query("RESUME").tag == "RESUME"
    for client in clients:
        assert client.finish().value == "100000"


@pytest.mark.parametrize("database", ["", " db"])
def test_wait_close(pooler, clients, database):
    console = pooler.console()
    with tracer.stopped(pooler.pid, "worker 0"):
        served, held = divide(clients)
        assert pooler.admin.query("RECONNECT" + database).tag == "RECONNECT"
        console.send(wire.query("WAIT_CLOSE" + database))
        go_on(served)
        assert not console.has_data(0.1)
        go_on(served)
    assert console.finish().tag == "WAIT_CLOSE"
    finish(held)
    go_on(clients)


def test_shutdown_waits_for_clients(pooler, clients):
    with tracer.stopped(pooler.pid, "worker 0"):
        served, held = divide(clients)
        assert pooler.admin.query("SHUTDOWN WAIT_FOR_CLIENTS").tag == "SHUTDOWN"
        go_on(served)
        for client in served + pooler.consoles:
            client.close()
        pooler.consoles.clear()
    finish(held)
    go_on(held)
    assert pooler.is_running()
    for client in held:
        client.close()
    assert pooler.wait_exit() == 0


def test_shutdown_waits_for_servers(pooler, clients):
    for client in clients:
        client.query("begin")
    with tracer.stopped(pooler.pid, "worker 0"):
        served, held = divide(clients)
        assert pooler.admin.query("SHUTDOWN WAIT_FOR_SERVERS").tag == "SHUTDOWN"
        for client in served:
            assert client.query("commit").tag == "COMMIT"
            client.send(wire.query("select 1"))
            client.expect_fatal("server shutting down")
    finish(held)
    for client in held:
        assert client.query("commit").tag == "COMMIT"
    assert pooler.wait_exit() == 0


def test_shutdown_at_once(pooler, clients):
    """The process ends, although one of its threads does not go on."""
    with tracer.stopped(pooler.pid, "worker 0") as thread:
        served, held = divide(clients)
        pooler.admin.send(wire.query("SHUTDOWN"))
        for client in served:
            client.expect_closed()
        tracer.await_death(thread)
    assert pooler.wait_exit() == 0
    for client in held:
        client.expect_closed()


def test_shutdown_waits_for_all_workers_together(make_pooler, pg):
    """The workers that have ended wait for the one that stands still, and the process for all of them: not
    for one after the other."""
    pooler = make_pooler({"db": pg.conn()}, settings=dict(SETTINGS, workers=4))
    admin = pooler.admin
    with tracer.stopped(pooler.pid, "worker 0") as thread:
        begin = time.monotonic()
        admin.send(wire.query("SHUTDOWN"))
        tracer.await_death(thread)
        assert time.monotonic() - begin < 10
    assert pooler.wait_exit() == 0


def test_a_takeover_needs_all_workers(pooler, clients, restart):  # noqa: F811
    with tracer.stopped(pooler.pid, "worker 0"):
        served, held = divide(clients)
        restart.fail(pooler, "a worker does not answer")
        go_on(served)
    finish(held)
    go_on(clients)
    wait_end(restart(pooler), pooler)
    go_on(clients)


def test_metrics(make_pooler, pg):
    port = waiting.PORTS.take()
    pooler = make_pooler({"db": pg.conn()}, settings=dict(SETTINGS, metrics_listen="127.0.0.1:%d" % port))
    clients = connect_all(pooler, CLIENTS)

    def get(path):
        with urllib.request.urlopen("http://127.0.0.1:%d%s" % (port, path), timeout=waiting.DEADLINE) as answer:
            return answer.status, answer.read()

    with tracer.stopped(pooler.pid, "worker 0"):
        served, held = divide(clients)
        begun = time.monotonic()
        assert b"pgbouncer_up 1" in get("/metrics")[1]
        assert time.monotonic() - begun < 5  # Half of what Prometheus waits for.
        assert get("/readyz")[0] == 200
        go_on(served)
    finish(held)
    go_on(clients)
