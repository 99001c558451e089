"""The only host of a database, without a role: SHOW HOSTS, the log and metrics know how it is, and
clients are treated as if nobody looked."""

import re

import pytest

import fakeserver
import postgres
import waiting
import wire

HUNG = 1
DEADLINE = 12
SETTINGS = {"pool_mode": "transaction", "host_hung_timeout": HUNG, "role_check_period": 0.5, "server_connect_timeout": 60,
            "query_wait_timeout": 100, "client_login_timeout": 100}


@pytest.fixture
def node(pg_bin):
    made = postgres.Postgres(pg_bin)
    try:
        made.create()
        yield made
    finally:
        if made.process:
            made.thaw()
        made.remove()


@pytest.fixture(params=[1, 4], ids=["1-worker", "4-workers"])
def make(request, make_pooler):
    def make(databases, **settings):
        return make_pooler(databases, settings=dict(SETTINGS, workers=request.param, **settings))
    return make


def row(pooler, name="db"):
    return next(row for row in pooler.show("HOSTS") if row["database"] == name)


def becomes(pooler, state, name="db"):
    waiting.wait_for(lambda: row(pooler, name)["state"] == state, "the host is " + state, DEADLINE)
    return row(pooler, name)


def test_a_host_that_stops_answering_is_noticed(make, node):
    """While a query runs, and while none does; the query goes on when the host does."""
    pooler = make({"db": node.conn(), "other": node.conn(), "unused": node.conn(pool_size=3)})
    assert row(pooler)["state"] == "not tried"
    with pooler.connect() as busy, pooler.connect() as idle, pooler.connect("other") as other:
        for client in (busy, idle, other):
            client.query("select 1")
        assert becomes(pooler, "up")["last_error"] is None
        busy.send(wire.query("select pg_sleep(3)"))
        node.freeze()
        told = becomes(pooler, "hangs")
        assert told["reason"] == told["last_error"] == "no answer for 1 seconds"
        answers = {each["item"]: each["value"] for each in pooler.admin.query("EXPLAIN LOGIN trust_user db").dicts()}
        assert answers["hosts"] == "127.0.0.1:%d hangs (no answer for 1 seconds)" % node.port
        # a host has one state, whoever uses it
        assert {each["state"] for each in pooler.show("HOSTS")} == {"hangs"}
        node.thaw()
        assert busy.finish().tag == "SELECT 1"
        assert becomes(pooler, "up")["reason"] is None
        # at rest; who asks now waits for the answer, as with PgBouncer
        node.freeze()
        becomes(pooler, "hangs", "other")
        idle.send(wire.query("select 7"))
        node.thaw()
        assert idle.finish().value == "7"
        becomes(pooler, "up")
    told = re.findall(r"host 127.0.0.1:%d: (.*)" % node.port, pooler.log())
    assert told == ["hangs: no answer for 1 seconds", "up"] * 2


def test_a_host_that_goes_down_is_noticed(make, node):
    """Its servers vanish while nobody does anything; who asks then waits until it is up."""
    # made from the fallback entry, which the control thread does not serve
    pooler = make({"*": "host=%s port=%d" % (node.host, node.port)}, server_login_retry=0.1)
    with pooler.connect("postgres") as client:
        client.query("select 1")
        waiting.wait_for(lambda: row(pooler, "postgres")["timeline"] == "1", "the host was asked", DEADLINE)
        node.stop()
        assert "refused" in becomes(pooler, "down", "postgres")["last_error"]
        node.start()
        becomes(pooler, "up", "postgres")
        assert client.value("select 1") == "1"


@pytest.mark.parametrize("way", ["idle", "no-servers", "paused", "off"])
def test_nobody_is_asked_where_nothing_is_needed(make, fake, way):
    """An idle database, one without servers, a paused one, and one with host_hung_timeout = 0."""
    server = fake(fakeserver.polite)
    busy = fake(fakeserver.polite)
    pooler = make({"db": server.conn(pool_size=2), "beside": busy.conn()}, server_idle_timeout=0,
                  **({"host_hung_timeout": 0} if way == "off" else {}))
    with pooler.connect("beside") as beside:
        beside.query("select 1")
        client = pooler.connect()
        if way == "idle":
            client.close()
        elif way == "paused":
            pooler.admin.query("PAUSE db")
        elif way == "no-servers":
            pooler.admin.query("RECONNECT db")
        servers = len(server.sessions)
        if way == "off":
            waiting.wait_for(lambda: row(pooler)["state"] == "up", "it is up", DEADLINE)
        before = len(busy.sessions)
        waiting.wait_for(lambda: way == "off" or len(busy.sessions) > before + 2, "the other host is asked", DEADLINE)
        assert len(server.sessions) <= servers + (way == "no-servers")
        client.close()


def test_who_waits_in_vain_is_told_of_the_host(make, node):
    """The pool is full of queries that wait for the host; the limit of the wait is that of PgBouncer."""
    pooler = make({"db": node.conn(pool_size=1)}, query_wait_timeout=5, query_wait_notify=0)
    with pooler.connect() as busy, pooler.connect() as waits:
        busy.query("select 1")
        node.freeze()
        busy.send(wire.query("select 8"))
        pooler.wait_pool(sv_active=1)
        waits.send(wire.query("select 9"))
        error = waits.recv_until("E")[-1]
        assert "127.0.0.1:%d hangs" % node.port in error.field("D")
        node.thaw()
        assert busy.finish().value == "8"


def test_a_group_that_has_rested_is_served_again(make, pg):
    """One of its hosts is another database's only one, and so has not changed for the monitor meanwhile."""
    pooler = make({"db": pg.conn(), "both": "host=127.0.0.1,127.0.0.2 port=%d dbname=postgres" % pg.port})
    with pooler.connect() as alone:
        for _ in range(2):
            with pooler.connect("both") as client:
                assert client.value("select 1") == "1"
            pooler.admin.query("RECONNECT both")
            waiting.holds_for(lambda: alone.value("select 1") == "1", 2.5, "it is used")
