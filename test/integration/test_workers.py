"""Several workers: clients are spread over threads, limits hold for all of them together, and one
console shows and commands them all."""

import threading

import pytest

import postgres
import waiting
import wire
from test_tls_clients import ca  # noqa: F401 (a fixture that tls_pg needs)
from test_tls_servers import tls_pg  # noqa: F401
from test_workers_stopped import connect_all

WORKERS = 3


def settings(**more):
    return {"pool_mode": "transaction", "workers": WORKERS, **more}


def backend(client):
    return client.value("select pg_backend_pid()")


def test_a_text_exists_once(make_pooler, pg):
    """A server that goes from worker to worker prepares a statement of all clients only once."""
    pooler = make_pooler({"db": pg.conn()}, settings=settings(default_pool_size=1))
    clients = [pooler.connect() for _ in range(2 * WORKERS)]
    for n, client in enumerate(clients):
        client.send(wire.parse("mine%d" % n, "select 'what all of them ask'"), wire.sync())
        client.finish()
    for _ in range(3):
        for n, client in enumerate(clients):
            client.send(wire.bind("", "mine%d" % n), wire.execute(""), wire.sync())
            assert client.finish().value == "what all of them ask"
    names = clients[0].query("select name from pg_prepared_statements").rows
    shown = pooler.show("PREPARED_STATEMENTS")
    assert [(row["name"], row["clients"], row["hits"]) for row in shown] == \
        [(names[0][0], str(len(clients)), str(3 * len(clients)))]
    assert len(names) == 1


@pytest.mark.parametrize("behind", [
    wire.message("A", b"\0\0\0\1channel\0\0"), wire.parameter_status("DateStyle", "German, DMY")])
def test_a_server_that_leaves_amid_its_messages(make_pooler, fake, behind):
    """Behind an answer comes a message that nobody asked for, in the same packet: the server goes to another worker
    meanwhile, and the message along with it."""
    answer = (wire.row_description([("v", 25, -1)]) + wire.data_row(["mine"]) + wire.command_complete("SELECT 1")
              + wire.ready() + 20 * behind)

    def script(session):
        session.login()
        session.serve([("select 'mine'", answer)])

    server = fake(script)
    pooler = make_pooler({"db": "host=127.0.0.1 port=%d" % server.port}, settings=settings(default_pool_size=1))
    clients = [pooler.connect() for _ in range(4 * WORKERS)]
    for _ in range(10):
        for client in clients:
            client.send(wire.query("select 'mine'"))
        for client in clients:
            assert client.finish().value == "mine"
    assert sum(int(row["servers_in"]) for row in pooler.show("WORKERS") if row["servers_in"]) > 0
    for client in clients:
        client.close()


def test_a_server_keeps_its_encryption(make_pooler, tls_pg):  # noqa: F811
    entry = postgres.connstr(host=tls_pg.host, port=tls_pg.port, dbname="postgres")
    pooler = make_pooler({"db": entry}, settings=settings(default_pool_size=1, server_tls_sslmode="require"))
    clients = [pooler.connect() for _ in range(WORKERS)]
    for _ in range(3):
        pids = {backend(client) for client in clients}
        assert len(pids) == 1
        assert clients[0].value("select ssl from pg_stat_ssl where pid = %s" % pids.pop()) == "t"


def test_one_console(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(), "other": pg.conn()}, settings=settings())
    clients = connect_all(pooler, 2 * WORKERS)
    shown = [row for row in pooler.show("CLIENTS") if row["database"] == "db"]
    assert len({row["id"] for row in shown}) == len({row["ptr"] for row in shown}) == len(clients)
    assert pooler.pool()["cl_active"] == len(clients)
    assert pooler.show_one("STATS", database="db")["total_query_count"] == str(len(clients))
    assert pooler.show_one("DATABASES", name="db")["current_client_connections"] == str(len(clients))
    assert pooler.admin.query("PAUSE").tag == "PAUSE"
    clients[0].send(wire.query("select 2"))
    clients[-1].send(wire.query("select 3"))
    pooler.wait_pool(cl_waiting=2, sv_idle=0)
    assert pooler.admin.query("RESUME").tag == "RESUME"
    assert clients[0].finish().value == "2"
    assert clients[-1].finish().value == "3"
    pooler.admin.query("KILL_CLIENT %s" % shown[1]["id"])
    waiting.wait_for(lambda: pooler.pool()["cl_active"] == len(clients) - 1, "one client less")


@pytest.mark.parametrize("count", [1, 2, 8])
def test_clients_are_counted_once(make_pooler, pg, count):
    """Also one that goes from the thread that accepted it to a worker, or to the console."""
    pooler = make_pooler({"db": pg.conn()}, settings=settings(workers=count, max_client_conn=6))
    clients = [pooler.connect("pgbouncer", "stats_user")] + [pooler.connect() for _ in range(5)]
    assert pooler.refusal() == "no more connections allowed (max_client_conn)"
    clients.pop().close()
    pooler.wait_room()


def test_clients_are_served_in_the_order_in_which_they_ask(make_pooler, pg):
    """Whichever workers they are at, and though one server has to serve them all."""
    pooler = make_pooler({"db": pg.conn()}, settings=settings(default_pool_size=1, workers=4))
    clients = [pooler.connect() for _ in range(24)]
    served = [None] * len(clients)

    def ask(number):
        served[number] = float(clients[number].value("select extract(epoch from clock_timestamp())"))

    def waiting_clients():
        return int(pooler.pool()["cl_waiting"])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(clients))]
    with pooler.connect() as holder:
        holder.query("begin")
        for number, thread in enumerate(threads):
            thread.start()
            waiting.wait_for(lambda: waiting_clients() == number + 1, "it waits")
            waiting.holds_for(lambda: waiting_clients() == number + 1, 0.02, "they ask 20 ms apart")
        holder.query("commit")
        for thread in threads:
            thread.join(60)
    assert sorted(range(len(clients)), key=served.__getitem__) == list(range(len(clients)))
    for client in clients:
        client.close()
