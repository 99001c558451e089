"""Several workers: clients that move meet everything else: proxies, peers, online restarts, cancel requests,
and load that jumps from worker to worker."""

import itertools
import os
import random
import threading

import pytest

import postgres
import waiting
import wire
from test_peers import assert_cancelled, family, send_cancel, sleeping  # noqa: F401 (family is a fixture)
from test_proxy import version_2
from test_takeover import restart, wait_end, wait_running  # noqa: F401 (restart is a fixture)
from test_tls_clients import ca, context, secured, tls_pooler  # noqa: F401 (fixtures)
from test_views import TRANSACTION
from test_workers_spread import (MANY, Users, await_even, check, crowd, is_even, moved, prepare, shown,
                                 spread_pooler, workers_of)

# How often the load jumps; more than a few rounds are for runs by hand.
ROUNDS = int(os.environ.get("POOLER_ROUNDS", "3"))


def test_addresses_of_a_proxy_move(make_pooler, pg):
    """What the proxy has told of a client goes along, and a cancel request finds it."""
    pooler = spread_pooler(make_pooler, pg.conn(pool_size=MANY), 2, proxy_protocol_from="unix")
    ports = {}

    def connect(name):
        client = pooler.client(unix=True, application_name=name)
        ports[name] = str(1000 + len(ports))
        client.send(version_2("192.0.2.%d" % (len(ports) % 250), int(ports[name])))
        return client.login()

    def addresses():
        return {row["application_name"]: (row["addr"], row["port"]) for row in pooler.show("CLIENTS")
                if row["database"] == "db"}

    clients = crowd(pooler, 2, connect=connect)
    before = addresses()
    assert {name: port for name, (_, port) in before.items()} == {c.name: ports[c.name] for c in clients}
    await_even(pooler)
    assert addresses() == before
    for client in clients:
        client.send(wire.query("select '%s', pg_sleep(60)" % client.name))
    for client in clients:
        wait_running(pg, client.name)
        send_cancel(pooler, client.key)
        assert_cancelled(client)
        client.close()
    waiting.wait_for(lambda: not shown(pooler), "all have left")
    for address, port in before.values():
        pooler.wait_log(r"@%s:%s closing because: " % (address.replace(".", r"\."), port))


def test_peers_find_who_has_moved(family, pg):  # noqa: F811
    """Another process gets the cancel request."""
    first, second = family(workers=2, max_client_conn=1000, **TRANSACTION)
    clients = crowd(first, 2)
    await_even(first)
    for client in clients:
        client.send(wire.query("select pg_sleep(60)"))
    waiting.wait_for(lambda: sleeping(pg, MANY), "all run")
    for client in clients:
        send_cancel(second, client.key)
    for client in clients:
        assert_cancelled(client)


def test_keys_of_a_login_move(make_pooler, pg):
    """The pooler knows no password, only a verifier, and logs in to servers with the keys of a client's own login.
    A worker to which such a client comes can do so, although nobody has logged in there."""
    verifier = pg.secret_of("scram_user")
    pooler = make_pooler({"db": pg.conn(pool_size=MANY)}, settings=dict(
        TRANSACTION, workers=2, auth_type="scram-sha-256"))
    pooler.userlist["scram_user"] = verifier
    pooler.write_files()
    pooler.admin.query("RELOAD")
    others = [pooler.connect(user="md5_user", secret=postgres.USERS["md5_user"][0]) for _ in range(2 * MANY)]
    # Those in a transaction stay where they are. New clients come to the other worker, which has fewer.
    places = {row["port"]: (int(row["id"]) - 1) % 3 for row in pooler.show("CLIENTS") if row["database"] == "db"}
    for client in list(others):
        if places[str(client.sock.getsockname()[1])] == 0:
            others.remove(client)
            client.close()
    for client in others:
        client.query("begin")
    waiting.wait_for(lambda: len([1 for row in pooler.show("CLIENTS") if row["database"] == "db"]) == len(others),
                     "the others have left")
    clients = [pooler.connect(user="scram_user", secret=postgres.USERS["scram_user"][0]) for _ in range(24)]
    ids = [int(row["id"]) for row in pooler.show("CLIENTS") if row["user"] == "scram_user"]
    assert {(number - 1) % 3 for number in ids} == {0}
    before = moved(pooler)
    for client in others:
        client.close()
    waiting.wait_for(lambda: moved(pooler) > before, "some move", 60)
    pooler.admin.query("RECONNECT")
    for client in clients:
        client.send(wire.query("begin"))
    for client in clients:
        assert client.finish().tag == "BEGIN"
    # Servers were opened at both.
    assert all(int(row["servers"]) for row in workers_of(pooler))


@pytest.mark.parametrize("old, new", [(2, 3), (3, 1), (4, 2)])
def test_takeover_while_clients_move(make_pooler, pg, restart, old, new):  # noqa: F811
    """To a process with another number of workers. Some wait for a query to end meanwhile, and cancel it."""
    pooler = spread_pooler(make_pooler, pg.conn(pool_size=5), old)
    clients = prepare(crowd(pooler, old))
    before, victims = shown(pooler), clients[:2]
    with Users(clients[2:]):
        for victim in victims:
            victim.send(wire.query("select '%s', pg_sleep(600)" % victim.name))
            wait_running(pg, victim.name)
        waiting.wait_for(lambda: moved(pooler) > 0, "some have moved")
        wait_end(restart(pooler, workers=new), pooler)
        assert shown(pooler) == before
        for victim in victims:
            send_cancel(pooler, victim.key)
            assert_cancelled(victim)
    for client in clients:
        check(client, "after all")


class Jumper(Users):
    """Users of clients, each of which has a statement, a parameter, transactions and queries that are
    cancelled."""

    def __init__(self, clients, threads=4):
        self.random = random.Random(1)
        self.cancelled = itertools.count()
        super().__init__(clients, threads)

    def use(self, clients):
        try:
            for number in itertools.count():
                if self.is_over:
                    return
                for client in list(clients):
                    check(client, "round %d" % number)
                    self.transact(client, number)
                self.cancel(self.random.choice(clients))
        except BaseException as fault:
            self.failures.append((client.name, fault))

    @staticmethod
    def transact(client, number):
        client.query("begin")
        client.query("set local geqo_threshold to %d" % (1000 + number))
        client.send(wire.parse("", "select n, '%s' from generate_series(1, 20) n" % client.name), wire.bind(),
                    wire.execute(), wire.sync())
        assert client.finish().rows == [(str(n), client.name) for n in range(1, 21)]
        assert client.value("show geqo_threshold") == str(1000 + number)
        client.query("commit")

    def cancel(self, client):
        """A cancel request that comes while the query runs, or just before or after it."""
        client.send(wire.query("select '%s', pg_sleep(0.02)" % client.name))
        sender = threading.Thread(target=client.cancel)
        sender.start()
        result = client.finish()
        sender.join()
        if result.errors:
            assert result.errors[0].field("C") == "57014", result.errors
            next(self.cancelled)
        else:
            assert result.rows == [(client.name, "")]


@pytest.mark.parametrize("workers", [2, 4])
def test_load_that_jumps(tls_pooler, ca, workers):  # noqa: F811
    """In each round the clients of one worker leave, and others come, so that clients move. All of them are used
    all the time, half of them with TLS."""
    pooler = tls_pooler("allow", workers=workers, max_prepared_statements=20, max_client_conn=1000,
                        default_pool_size=6)
    made, names = context(ca), itertools.count()

    def connect():
        name = "client %05d" % next(names)
        client = pooler.client() if hash(name) % 2 else secured(pooler, made)
        client.params["application_name"] = name
        client.login().name = name
        prepare([client])
        return client

    clients = [connect() for _ in range(MANY)]
    rounds = 0
    while rounds < ROUNDS:
        clients += [connect() for _ in range(MANY)]
        before = moved(pooler)
        numbers = shown(pooler)
        assert set(numbers) == {client.name for client in clients}
        left = rounds % workers
        for client in list(clients):
            # Each thread numbers its clients in steps.
            if (int(numbers[client.name]) - 1) % (workers + 1) != left:
                clients.remove(client)
                client.close()
        waiting.wait_for(lambda: len(shown(pooler)) == len(clients), "the others have left")
        expected = shown(pooler)
        with Jumper(clients):
            waiting.wait_for(lambda: is_even(pooler) or moved(pooler) > before, "clients move", 300, 0.05)
            waiting.wait_for(lambda: is_even(pooler), "the workers have about as many", 300, 0.05)
        assert shown(pooler) == expected
        rounds += 1
    assert moved(pooler) > 0
    for client in clients:
        check(client, "after all")
