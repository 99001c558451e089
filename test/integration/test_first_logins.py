"""Each limit while many clients come at once to pools that nobody has used, of which no server's parameters are
known yet: no server, and no client, is let in beyond it because of that."""

import threading
import time

import pytest

import fakeserver
import waiting
import wire
from test_workers_limits import open_ports

CLIENTS = 10
STRANGERS_SECRET = "of all strangers 77a"
SIZE = 2
HELD = 8113  # An advisory lock that the lookups wait for.
# Ordinary ones keep their server by an open transaction, replication clients keep theirs anyway.
KINDS = {"ordinary": ({}, "begin"), "physical": ({"replication": "true"}, "IDENTIFY_SYSTEM"),
         "logical": ({"replication": "database"}, "IDENTIFY_SYSTEM")}
MIXED = [KINDS["logical"], KINDS["ordinary"], KINDS["physical"]]
DATABASES = ["a", "b", "c"]
ROLES = ["first_a", "first_b", "first_c"]
# name: (databases, users, what the databases' entries say, settings, how many servers there may be)
LIMITS = {
    "pool_size": (1, 1, {"pool_size": SIZE}, {}, SIZE),
    "reserve_pool_size": (1, 1, {"pool_size": SIZE - 1, "reserve_pool_size": 1},
                          {"reserve_pool_timeout": 0.05}, SIZE),
    "forced_user": (1, 3, {"pool_size": SIZE, "user": ROLES[0]}, {}, SIZE),
    "max_db_connections": (1, 3, {"max_db_connections": SIZE}, {}, SIZE),
    "max_user_connections": (3, 1, {}, {"max_user_connections": SIZE}, SIZE),
    "max_server_connections": (3, 3, {}, {"max_server_connections": SIZE}, SIZE),
    "all": (2, 2, {"pool_size": 1, "max_db_connections": 2},
            {"max_user_connections": 2, "max_server_connections": 3}, 3),
}


@pytest.fixture(scope="module")
def source(cluster):
    """The cluster with roles that may replicate."""
    before = open(cluster.data + "/pg_hba.conf").read().splitlines()
    cluster.set_hba(["host all,replication %s 127.0.0.1/32 trust" % ",".join(ROLES)] + before)
    for role in ROLES:
        cluster.do("create role %s login replication" % role)
    yield cluster
    cluster.set_hba(before)
    for role in ROLES:
        cluster.do("drop role " + role)


class Comer(threading.Thread):
    """A client that logs in, gets a server, and keeps it until it may go."""

    def __init__(self, pooler, database, user, kind):
        super().__init__(daemon=True)
        self.pooler, self.place, (self.params, self.sql) = pooler, (database, user), kind
        self.is_served, self.may_go, self.fault = threading.Event(), threading.Event(), None
        self.start()

    def run(self):
        try:
            with self.pooler.connect(*self.place, **self.params) as client:
                assert not client.query(self.sql).errors
                self.is_served.set()
                self.may_go.wait()
        except BaseException as fault:
            self.fault = fault
            self.is_served.set()


class Watcher:
    """Counts the connections of the roles."""

    def __init__(self, pg, most):
        self.pg, self.most, self.client = pg, most, pg.client()

    def count(self, is_exact=False):
        """The number of those that were open at one moment, or at least as many: PostgreSQL knew of each before, and
        it was not closed afterwards."""
        rows = self.client.query("select client_port from pg_stat_activity where usename in ('%s')"
                                 % "', '".join(ROLES)).rows
        seen = {int(port) for port, in rows}
        if is_exact or len(seen) > self.most:
            seen &= open_ports(self.pg.port)
        assert len(seen) <= self.most, "%d servers" % len(seen)
        return len(seen)


def count_clients(pooler):
    rows = [row for row in pooler.show("POOLS") if row["database"] != "pgbouncer"]
    return sum(int(row[name]) for row in rows for name in ("cl_active", "cl_waiting"))


def everybody_is_served(comers, look=lambda: None):
    """Lets those who have been served go, one by one, until each has been, and calls look() meanwhile."""
    def has_served(count):
        look()
        return sum(comer.is_served.is_set() for comer in comers) >= count

    for gone in range(len(comers)):
        waiting.wait_for(lambda: has_served(gone + 1), "client %d of %d is served" % (gone + 1, len(comers)))
        leaver = next(comer for comer in comers if comer.is_served.is_set() and comer.is_alive()
                      and not comer.may_go.is_set())
        leaver.may_go.set()
    for comer in comers:
        comer.join(waiting.DEADLINE)
        assert not comer.fault, comer.fault


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("kind", [*KINDS, "mixed"])
@pytest.mark.parametrize("limit", LIMITS)
def test_limits_of_servers(make_pooler, source, limit, kind, workers):
    databases, users, entry, settings, most = LIMITS[limit]
    pooler = make_pooler({name: source.conn(**entry) for name in DATABASES[:databases]}, settings={
        "pool_mode": "transaction", "workers": workers, **settings}, userlist=dict.fromkeys(ROLES, "") | {
            "admin_user": "admin secret 91c"})
    watcher = Watcher(source, most)
    comers = [Comer(pooler, DATABASES[i % databases], ROLES[i // databases % users],
                    MIXED[i % 3] if kind == "mixed" else KINDS[kind]) for i in range(CLIENTS)]
    waiting.wait_for(lambda: count_clients(pooler) == CLIENTS, "all have come")
    # Replication clients get nothing of the reserve.
    least = most - (limit == "reserve_pool_size" and kind != "ordinary")
    waiting.wait_for(lambda: watcher.count(is_exact=True) >= least, "the limit is used up")
    waiting.holds_for(watcher.count, 0.3, "the limit")
    everybody_is_served(comers, watcher.count)


@pytest.mark.parametrize("workers", [1, 4])
def test_pool_size_while_the_parameters_are_forgotten(make_pooler, source, workers):
    """RECONNECT makes a pool forget its servers' parameters. Those that are in use still count."""
    pooler = make_pooler({"a": source.conn(pool_size=SIZE)}, settings={
        "pool_mode": "transaction", "workers": workers}, userlist={ROLES[0]: "", "admin_user": "admin secret 91c"})
    watcher = Watcher(source, SIZE)
    comers = [Comer(pooler, "a", ROLES[0], KINDS["ordinary"]) for _ in range(SIZE)]
    for comer in comers:
        assert comer.is_served.wait(waiting.DEADLINE) and not comer.fault
    for _ in range(3):
        assert pooler.admin.query("RECONNECT").tag == "RECONNECT"
        comers.append(Comer(pooler, "a", ROLES[0], KINDS["ordinary"]))
        waiting.wait_for(lambda: count_clients(pooler) == len(comers), "it has come")
        waiting.holds_for(watcher.count, 0.3, "pool_size")
    everybody_is_served(comers, watcher.count)


@pytest.mark.parametrize("workers", [1, 4])
def test_pool_size_for_auth_query(make_pooler, source, workers):
    query = "select $1::text, '%s' from pg_advisory_xact_lock_shared(%d)" % (STRANGERS_SECRET, HELD)
    pooler = make_pooler({"a": source.conn(pool_size=SIZE, user=ROLES[0], auth_user=ROLES[1], auth_query=query)},
                         settings={"pool_mode": "transaction", "workers": workers, "auth_type": "plain"},
                         userlist={ROLES[1]: "", "admin_user": "admin secret 91c"})
    with source.client() as watcher:
        watcher.query("select pg_advisory_lock(%d)" % HELD)

        def counts():
            rows = watcher.query("select usename, client_port from pg_stat_activity"
                                 " where usename in ('%s', '%s')" % tuple(ROLES[:2])).rows
            found = open_ports(source.port)
            return [sum(name == role and int(port) in found for name, port in rows) for role in ROLES[:2]]

        clients = [pooler.client("a", "stranger_%d" % i, STRANGERS_SECRET) for i in range(CLIENTS)]
        logins = [threading.Thread(target=client.login, daemon=True) for client in clients]
        for login in logins:
            login.start()
        waiting.wait_for(lambda: counts() == [0, SIZE], "servers for auth_query")
        waiting.holds_for(lambda: counts() == [0, SIZE], 0.3, "pool_size")
        watcher.query("select pg_advisory_unlock(%d)" % HELD)
        most = [0, 0]
        while any(login.is_alive() for login in logins):
            most = [max(pair) for pair in zip(most, counts())]
        assert max(most) <= SIZE
        for client in clients:
            client.close()


@pytest.mark.parametrize("workers", [1, 4])
def test_server_connect_rate(make_pooler, fake, workers):
    rate, begun = 10, []

    def script(session):
        begun.append(time.monotonic())
        fakeserver.polite(session)

    server = fake(script)
    pooler = make_pooler({name: server.conn() for name in DATABASES}, settings={
        "pool_mode": "transaction", "workers": workers, "server_connect_rate": rate})
    start = time.monotonic()
    comers = [Comer(pooler, DATABASES[i % 3], "trust_user", (KINDS["logical"][0] if i % 2 else {}, "select 1"))
              for i in range(CLIENTS)]
    for comer in comers:
        assert comer.is_served.wait(waiting.DEADLINE)
        comer.may_go.set()
        comer.join(waiting.DEADLINE)
        assert not comer.fault, comer.fault
    assert len(begun) >= len(DATABASES) + CLIENTS // 2
    for number, moment in enumerate(begun):
        assert moment - start >= number / rate, begun


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("settings, entry, text", [
    ({"max_client_conn": 4}, {}, "no more connections allowed"),
    ({}, {"max_db_client_connections": 4}, "client connections exceeded"),
    ({"max_user_client_connections": 4}, {}, "client connections exceeded"),
    ({"max_waiting_clients": 4}, {}, "waiting"),
], ids=["max_client_conn", "max_db_client_connections", "max_user_client_connections", "max_waiting_clients"])
@pytest.mark.parametrize("kind", ["ordinary", "logical"])
def test_limits_of_clients(make_pooler, fake, settings, entry, text, kind, workers):
    """All wait for the first login to a server, which does not end before they have come."""
    gate = threading.Event()

    def script(session):
        session.recv_startup()
        gate.wait()
        session.send(fakeserver.welcome())
        session.serve()

    pooler = make_pooler({"a": fake(script).conn(pool_size=1, **entry)}, settings={
        "pool_mode": "transaction", "workers": workers, **settings})
    try:
        comers = [Comer(pooler, "a", "trust_user", (KINDS[kind][0], "select 1")) for _ in range(CLIENTS)]

        def refused():
            return [comer for comer in comers if comer.fault]

        # The one for whom the connection is opened does not wait for it if it is a replication client.
        least = 4 + ("max_waiting_clients" in settings and kind == "logical")
        # max_client_conn counts sockets, also of those who are about to be refused.
        waiting.wait_for(lambda: len(refused()) >= CLIENTS - least, "the others are refused")
        assert all(isinstance(comer.fault, wire.Refused) and text in comer.fault.text for comer in refused())
        if "max_client_conn" in settings:
            waiting.wait_for(lambda: pooler.log().count(" login attempt: ") + len(refused()) == CLIENTS, "all have come")
        else:
            waiting.holds_for(lambda: len(refused()) == CLIENTS - least, 0.2, "the others wait")
    finally:
        gate.set()
    everybody_is_served([comer for comer in comers if not comer.fault])
