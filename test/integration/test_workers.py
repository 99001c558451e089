"""Several workers: clients are spread over threads, limits hold for all of them together, and one
console shows and commands them all."""

import threading

import pytest

import postgres
import waiting
import wire
from test_tls_clients import ca, context, secured, tls_pooler  # noqa: F401
from test_tls_servers import tls_pg  # noqa: F401

WORKERS = 3


def settings(**more):
    return {"pool_mode": "transaction", "workers": WORKERS, **more}


def backend(client):
    return client.value("select pg_backend_pid()")


def churn(pooler, names, rounds, failures):
    """Short connections to these databases, and transactions on each."""
    try:
        for n in range(rounds):
            with pooler.connect(names[n % len(names)]) as client:
                for _ in range(5):
                    assert client.value("select 1 from pg_sleep(0.001)") == "1"
    except BaseException as fault:
        failures.append(fault)


def test_limits_hold_at_every_moment(make_pooler, pg):
    """SHOW POOLS never has more servers than pool_size allows, though many clients come and go."""
    names = ["one", "two"]
    pooler = make_pooler({name: pg.conn() for name in names},
                         settings=settings(default_pool_size=4, max_user_connections=6,
                                           server_lifetime=1, query_wait_timeout=60))
    failures, most = [], 0
    threads = [threading.Thread(target=churn, args=(pooler, names, 20, failures)) for _ in range(9)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        rows = pooler.show("POOLS")
        used = [sum(int(row[state]) for state in row if state.startswith("sv_"))
                for row in rows if row["user"] == "trust_user"]
        most = max([most, sum(used)])
        assert max(used, default=0) <= 4
    for thread in threads:
        thread.join(60)
    assert not failures
    assert 0 < most <= 6


def test_a_server_serves_clients_of_all_workers(make_pooler, pg):
    """With one server connection, whoever waits gets it, wherever it rests."""
    pooler = make_pooler({"db": pg.conn()}, settings=settings(default_pool_size=1))
    clients = [pooler.connect() for _ in range(2 * WORKERS)]
    for _ in range(3):
        assert len({backend(client) for client in clients}) == 1
    holder = clients[0]
    holder.query("begin")
    for client in clients[1:]:
        client.send(wire.query("select 7"))
    pooler.wait_pool(cl_waiting=len(clients) - 1)
    holder.query("commit")
    for client in clients[1:]:
        assert client.finish().value == "7"


def test_what_a_server_holds_goes_with_it(make_pooler, pg):
    """Prepared statements and parameters are right on a server that another worker has used."""
    pooler = make_pooler({"db": pg.conn()}, settings=settings(default_pool_size=1))
    clients = [pooler.connect(TimeZone=zone) for zone in ("Asia/Tokyo", "America/New_York", "UTC")]
    for n, client in enumerate(clients):
        client.send(wire.parse("mine", "select $1::int + %d" % n), wire.sync())
        client.finish()
    for _ in range(3):
        for n, client in enumerate(clients):
            client.send(wire.bind("", "mine", [b"1"]), wire.execute(""), wire.sync())
            assert client.finish().value == str(1 + n)
        zones = [client.value("show timezone") for client in clients]
        assert zones == ["Asia/Tokyo", "America/New_York", "UTC"]


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


def test_a_cancel_request_finds_its_client(make_pooler, pg):
    """A request may be accepted by any worker."""
    pooler = make_pooler({"db": pg.conn()}, settings=settings())
    clients = [pooler.connect() for _ in range(WORKERS)]
    for client in clients:
        client.send(wire.query("select pg_sleep(60)"))
    # A cancel request that comes before the query has no effect.
    waiting.wait_for(lambda: pg.backends("query like '%sleep(60)%' and state='active'") == WORKERS, "all run")
    for client in clients:
        client.cancel()
    for client in clients:
        assert client.finish().errors[0].field("C") == "57014"


def test_one_console(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(), "other": pg.conn()}, settings=settings())
    clients = [pooler.connect() for _ in range(2 * WORKERS)]
    for client in clients:
        client.query("select 1")
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


def test_reload_is_adopted_by_all(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=settings())
    clients = [pooler.connect() for _ in range(WORKERS)]
    pooler.change(query_timeout=17)
    pooler.databases["late"] = pg.conn()
    pooler.write_files()
    assert pooler.admin.query("RELOAD").tag == "RELOAD"
    for _ in range(WORKERS):
        with pooler.connect("late") as client:
            assert client.value("select 4") == "4"
    for client in clients:
        assert client.value("select 5") == "5"


@pytest.mark.parametrize("count", [1, 2, 8])
def test_clients_are_counted_once(make_pooler, pg, count):
    pooler = make_pooler({"db": pg.conn()}, settings=settings(workers=count, max_client_conn=6))
    clients = [pooler.connect() for _ in range(6)]
    assert pooler.refusal().startswith("no more connections allowed")
    clients.pop().close()

    def is_free():
        try:
            pooler.connect().close()
            return True
        except wire.Refused:
            return False

    waiting.wait_for(is_free, "room for a client")


def test_console_over_tls(tls_pooler, ca):  # noqa: F811
    """The console's client is accepted by a worker, and goes on elsewhere with its encryption."""
    pooler = tls_pooler(workers=WORKERS)
    for _ in range(3):
        with secured(pooler, context(ca), "admin_user", "pgbouncer") as console:
            console.login()
            assert console.query("SHOW VERSION").value.startswith("PgBouncer")


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
