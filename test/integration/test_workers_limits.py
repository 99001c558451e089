"""Limits on servers as PostgreSQL sees them while clients of several workers come and go."""

import random
import threading
from collections import Counter

import waiting
import wire
from test_views import TRANSACTION

ROUNDS = 20
CLIENTS = 12
USERS = ["trust_user", "second_user"]
# pool_size, reserve_pool_size and max_db_connections of each database of PostgreSQL
DATABASES = {"postgres": (2, 1, 5), "other": (4, 0, 4), "template1": (3, 0, 5)}
USER_LIMITS = {"trust_user": 7, "second_user": 5}
PROCESS_LIMIT = 10


def come_and_go(pooler, seed, failures):
    draw = random.Random(seed)
    try:
        for _ in range(ROUNDS):
            with pooler.connect(draw.choice(list(DATABASES)), draw.choice(USERS)) as client:
                for _ in range(draw.randint(1, 4)):
                    assert client.value("select 1 from pg_sleep(%f)" % draw.uniform(0, 0.01)) == "1"
    except BaseException as fault:
        failures.append(fault)


def open_ports(port):
    """Local ports of the TCP connections to this one that nobody has closed."""
    there = ":%04X 01 " % port
    with open("/proc/net/tcp") as table:
        return {int(line.split(None, 2)[1].split(":")[1], 16) for line in table if there in line}


def sample(watcher, port):
    """Returns (database, user) of each connection that was open at one moment: PostgreSQL knew of it
    before, and it was not closed afterwards. One that is closed may be seen a little longer."""
    seen = watcher.query("select datname, usename, client_port from pg_stat_activity"
                         " where usename in ('%s')" % "', '".join(USERS)).rows
    still_open = open_ports(port)
    return [(database, user) for database, user, client in seen if int(client) in still_open]


def check(found):
    pools, databases, users = (Counter(key(row) for row in found) for key in (
        lambda row: row, lambda row: row[0], lambda row: row[1]))
    for (database, user), count in pools.items():
        size, reserve, _ = DATABASES[database]
        assert count <= size + reserve, (database, user, pools)
    for database, count in databases.items():
        assert count <= DATABASES[database][2], pools
    for user, count in users.items():
        assert count <= USER_LIMITS[user], pools
    assert len(found) <= PROCESS_LIMIT, pools


def test_postgresql_never_sees_more_than_the_limits(make_pooler, pg):
    """Nor in a moment in which servers change workers, are replaced, or give way to others."""
    entries = {name: pg.conn(name) + " pool_size=%d reserve_pool_size=%d max_db_connections=%d" % limits
               for name, limits in DATABASES.items()}
    pooler = make_pooler(entries, settings={
        "pool_mode": "transaction", "workers": 4, "max_server_connections": PROCESS_LIMIT,
        "max_user_connections": USER_LIMITS["trust_user"], "reserve_pool_timeout": 0.02,
        "server_lifetime": 1, "query_wait_timeout": 60}, users={
        "second_user": "max_user_connections=%d" % USER_LIMITS["second_user"]})
    failures, most = [], 0
    threads = [threading.Thread(target=come_and_go, args=(pooler, seed, failures))
               for seed in range(CLIENTS)]

    for thread in threads:
        thread.start()
    try:
        with pg.client() as watcher, pooler.console() as console:
            while any(thread.is_alive() for thread in threads):
                for _ in range(5):
                    found = sample(watcher, pg.port)
                    most = max(most, len(found))
                    check(found)
                # Its pools forget what their servers have reported, which makes no exception.
                console.query("RECONNECT")
    finally:
        for thread in threads:
            thread.join(60)
    assert not failures
    assert most > PROCESS_LIMIT // 2, "there was contention"


def test_min_pool_size_for_clients_of_another_worker(make_pooler, pg):
    """A server that ends at a worker without clients of its pool is replaced by a worker with some."""
    pooler = make_pooler({"db": pg.conn(min_pool_size=1)}, settings={"pool_mode": "transaction", "workers": 2})
    with pooler.connect() as first:
        pid = first.value("select pg_backend_pid()")
        second = pooler.connect()
    waiting.wait_for(lambda: len(pooler.show("CLIENTS")) == 2, "the first client has left")
    pg.do("select pg_terminate_backend(%s)" % pid)
    waiting.wait_for(lambda: pg.backends("usename = 'trust_user' and pid <> %s" % pid) == 1, "min_pool_size")
    assert second.value("select 1") == "1"


def test_fewer_connections_than_the_limits_allow(make_pooler, pg):
    """PostgreSQL refuses a login of one worker while another one has a server of the pool: clients wait for that
    one, as they do with one worker."""
    pg.do("drop role if exists scarce")
    pg.do("create role scarce login connection limit 1")
    pooler = make_pooler({"db": pg.unix_conn(user="scarce", pool_size=5)}, settings=dict(
        TRANSACTION, workers=2, server_login_retry=0.05))
    holder, *others = [pooler.connect() for _ in range(6)]
    holder.query("begin")
    for count in range(1, 3):
        mark = pooler.mark()
        for client in others:
            client.send(wire.query("select %d" % count))
        pooler.wait_log("too many connections for role", mark)
        # Nor are those refused who come after that.
        with pooler.connect() as late:
            late.send(wire.query("select %d" % count))
            pooler.wait_pool(user="scarce", cl_waiting=len(others) + 1)
            assert holder.query("commit").tag == "COMMIT"
            for client in [late, *others]:
                assert client.finish().value == str(count)
        holder.query("begin")
    holder.query("commit")
    waiting.wait_for(lambda: len(pooler.show("SERVERS")) == 1, "one server")
