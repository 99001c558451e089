"""Where time goes: SHOW LATENCY, and SHOW BLOCKERS for who holds what others wait for."""

import json
import re

import pytest

import waiting
import wire

TRANSACTION = {"pool_mode": "transaction"}
KINDS = ["wait", "query", "transaction", "connect", "login"]
FIGURES = "count p50 p90 p99 p99_9 max avg".split()
ONE_OR_TWO = pytest.mark.parametrize("workers", [1, 2])


def latencies(pooler, database="db", user="trust_user"):
    """Returns {kind: {figure: number}} of SHOW LATENCY; database None: of all."""
    return {row["kind"]: {name: int(row[name]) for name in row if name not in ("database", "user", "kind")}
            for row in pooler.show("LATENCY") if (row["database"], row["user"]) == (database, user)}


@ONE_OR_TWO
def test_latency(make_pooler, pg, workers):
    pooler = make_pooler({"db": pg.conn(), "other": pg.conn()}, settings=dict(TRANSACTION, workers=workers))
    clients = [pooler.connect() for _ in range(4)]
    for client in clients:
        client.query("begin")
        client.query("select pg_sleep(0.05)")
        client.query("commit")
    pooler.connect("other").query("select 1")
    servers = len([s for s in pooler.show("SERVERS") if s["database"] == "db"])
    found = latencies(pooler)
    assert list(found) == KINDS
    assert {kind: row["count"] for kind, row in found.items()} == {
        "wait": found["wait"]["count"], "query": 12, "transaction": 4, "connect": servers, "login": 4}
    assert found["wait"]["count"] >= 4
    for row in found.values():
        figures = [row[name] for name in FIGURES[1:-1]]
        assert figures == sorted(figures) and row["avg"] <= row["max"]
        assert all(row["recent_" + name] == row[name] for name in FIGURES)
    assert found["query"]["max"] >= 50000 and found["query"]["p50"] < 50000
    assert found["transaction"]["p50"] >= 50000 * 0.9  # A bucket is 9 % wide.
    everything = latencies(pooler, None, None)
    assert list(everything) == KINDS
    assert everything["query"]["count"] == 13 and everything["login"]["count"] == 5
    longest = latencies(pooler, "other")["query"]["max"]
    assert everything["query"]["max"] == max(longest, found["query"]["max"])


def test_latency_of_the_last_periods(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, stats_period=1))
    pooler.connect().query("select 1")
    while latencies(pooler)["query"]["recent_count"]:
        pass
    row = latencies(pooler)["query"]
    assert row["count"] == 1 and row["max"] > 0
    assert [row["recent_" + name] for name in FIGURES] == [0] * len(FIGURES)


def test_wait_of_clients_that_queue(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    holder, second = pooler.connect(), pooler.connect()
    holder.query("begin")
    before = latencies(pooler)["wait"]
    second.send(wire.query("select 1"))
    pooler.wait_pool(cl_waiting=1)
    holder.query("select pg_sleep(0.1)")
    holder.query("commit")
    second.finish()
    after = latencies(pooler)["wait"]
    assert after["count"] == before["count"] + 1
    assert after["max"] >= 100000
    assert after["p99_9"] == after["max"] or after["p99_9"] >= 90000


def test_logins_to_the_console_are_not_measured(pooler):
    assert [(r["database"], r["kind"], r["count"]) for r in pooler.show("LATENCY")] == [
        (None, kind, "0") for kind in KINDS]


# who holds the servers


def blocker(pooler):
    # A client that waits at one worker may first be waiting for the answer of another one.
    [row] = waiting.wait_for(lambda: pooler.show("BLOCKERS"), "a blocker")
    return row


@ONE_OR_TWO
def test_blockers(make_pooler, pg, workers):
    """Two clients of a pool with one server; with two workers they are at different ones."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=dict(TRANSACTION, workers=workers))
    holder = pooler.connect(application_name="batch job")
    second = pooler.connect(application_name="web")
    holder.query("begin")
    assert pooler.show("BLOCKERS") == []
    pid = holder.value("select pg_backend_pid()")
    second.send(wire.query("select 1"))
    pooler.wait_pool(cl_waiting=1)
    row = blocker(pooler)
    [client] = [c for c in pooler.show("CLIENTS") if c["application_name"] == "batch job"]
    assert {name: row[name] for name in ("id", "ptr", "link", "addr", "port", "application_name")} == {
        name: client[name] for name in ("id", "ptr", "link", "addr", "port", "application_name")}
    assert (row["database"], row["user"], row["client_database"], row["client_user"]) == (
        "db", "trust_user", "db", "trust_user")
    assert (row["waiting"], row["waits_for"], row["state"]) == ("1", "pool_size", "idle in transaction")
    assert (row["host"], row["host_port"], row["remote_pid"]) == ("127.0.0.1", str(pg.port), pid)
    assert int(row["held_us"]) >= int(row["state_us"]) > 0
    assert int(row["maxwait_us"]) > 0
    holder.query("select nonsense", check=False)
    assert blocker(pooler)["state"] == "idle in transaction (aborted)"
    holder.query("rollback")
    second.finish()
    assert pooler.show("BLOCKERS") == []


def test_states_of_blockers(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)})
    holder, second = pooler.connect(), pooler.connect()
    holder.query("create temp table t(a int)")
    second.send(wire.query("select 1"))
    pooler.wait_pool(cl_waiting=1)
    assert blocker(pooler)["state"] == "idle"
    holder.send(wire.query("select pg_sleep(0.3)"))
    while blocker(pooler)["state"] != "active":
        pass
    holder.finish()
    holder.send(wire.query("copy t from stdin"))
    holder.recv_kinds("G")
    assert blocker(pooler)["state"] == "copying"
    holder.close()
    second.finish()


def test_blockers_in_pools_that_share_a_limit(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(max_db_connections=1)}, settings=TRANSACTION)
    holder, second = pooler.connect(), pooler.connect(user="md5_user")
    holder.query("begin")
    second.send(wire.query("select 1"))
    pooler.wait_pool(user="md5_user", cl_waiting=1)
    row = blocker(pooler)
    assert (row["user"], row["client_user"], row["waits_for"]) == ("md5_user", "trust_user", "max_db_connections")
    holder.query("commit")
    second.finish()


# slow transactions


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def slow_line(pooler, since=0):
    """Returns {field: value} of the only line about a slow transaction."""
    pooler.wait_log(" slow transaction ", since)
    [line] = [line for line in pooler.log_since(since).splitlines() if " slow " in line]
    return dict(re.findall(r' (\w+)=("(?:[^"\\]|\\.)*"|\S+)', line.partition(" slow ")[2]))


@ONE_OR_TWO
def test_slow_transaction(make_pooler, pg, workers):
    """It waits for a server, the server works, and it waits for its client."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=dict(
        TRANSACTION, workers=workers, log_min_duration=0.2))
    holder, client = pooler.connect(), pooler.connect(application_name="my app")
    holder.query("begin")
    client.send(wire.query("begin /*traceparent='%s'*/" % TRACE))
    pooler.wait_pool(cl_waiting=1)
    holder.query("commit")
    client.finish()
    pid = client.value("select pg_backend_pid()")
    client.query("select 'hidden text', pg_sleep(0.3)")
    since = pooler.mark()
    client.query("rollback")
    line = slow_line(pooler, since)
    assert float(line["duration_ms"]) >= float(line["server_ms"]) >= 300
    assert float(line["wait_ms"]) > 0 and float(line["client_ms"]) > 0
    parts = sum(float(line[name]) for name in ("wait_ms", "server_ms", "client_ms"))
    assert abs(parts - float(line["duration_ms"])) < 0.001
    assert (line["queries"], line["ended"], line["application_name"], line["traceparent"]) == (
        "4", "ready", '"my app"', TRACE)
    assert (line["server"], line["server_pid"]) == ("127.0.0.1:%d" % pg.port, pid)
    assert "hidden text" not in pooler.log()


def test_texts_of_slow_transactions(make_pooler, pg):
    """log_slow_text of a database and of a user; a prepared statement has its text; a long one its beginning."""
    pooler = make_pooler({"db": pg.conn(), "payroll": pg.conn(log_slow_text=0)}, settings=dict(
        TRANSACTION, log_min_duration="0.000001", log_slow_text=60))
    pooler.connect("payroll").query("select 'secret 1'")
    assert "query" not in slow_line(pooler)
    client = pooler.connect()
    since = pooler.mark()
    client.query("select 'secret 2' as \"a b\" /* of 3 */, 4.5e6 + -7, $$its$$")
    assert slow_line(pooler, since)["query"] == r'"select ? as \"a b\" , ? + -?, ?"'
    client.send(wire.parse("s", "select 'secret 3', $1::int"), wire.sync())
    client.finish()
    since = pooler.mark()
    client.send(wire.bind("", "s", [b"5"]), wire.execute(), wire.sync())
    client.finish()
    assert slow_line(pooler, since)["query"] == '"select ?, $1::int"'
    since = pooler.mark()
    client.query("select length('%s') as secret" % ("secret" * 50000))
    assert slow_line(pooler, since)["query"] == '"select length(?"'
    assert "secret 1" not in pooler.log() and "secretsecret" not in pooler.log()
    pooler.change(log_slow_literals=1)
    client = pooler.connect()
    since = pooler.mark()
    client.query("select 'secret 4' /* mine */")
    assert slow_line(pooler, since)["query"] == "\"select 'secret 4' /* mine */\""


def test_slow_transactions_of_some(make_pooler, pg):
    """log_min_duration of a database, and of the user that logged in, whose word counts first."""
    pooler = make_pooler({"db": pg.conn(log_min_duration="0.000001"), "other": pg.conn()}, settings=TRANSACTION,
                         users={"md5_user": "log_min_duration=0"})
    for database, user in (("db", "md5_user"), ("other", "trust_user")):
        pooler.connect(database, user).query("select 1")
    assert " slow " not in pooler.log()
    pooler.connect("db").query("select 1")
    assert slow_line(pooler)["queries"] == "1"
    pooler.change(log_format="json")
    pooler.connect("db", application_name="my app").query("select 1 /*traceparent='%s'*/" % TRACE)
    pooler.wait_log('"slow transaction"')
    [line] = [json.loads(line) for line in pooler.log().splitlines() if '"slow transaction"' in line]
    assert (line["kind"], line["side"], line["queries"]) == ("slow", "client", 1)
    assert (line["application_name"], line["traceparent"]) == ("my app", TRACE)
    assert line["duration_ms"] >= line["server_ms"] > 0
