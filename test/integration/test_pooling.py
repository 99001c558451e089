"""Which client gets which server connection, and when the pooler closes one (protocol.md 9, 10)."""

import threading
import time

import pytest

import codes
import waiting
import wire

TRANSACTION = {"pool_mode": "transaction"}


def pid(client):
    return client.value("select pg_backend_pid()")


def hold(client):
    """Opens a transaction and returns the backend's pid."""
    client.query("begin")
    return pid(client)


# pool modes


def test_session_mode(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()})
    one = pooler.connect()
    mine = pid(one)
    one.query("set geqo = off")
    other = pooler.connect()
    assert pid(other) != mine
    assert pid(one) == mine and one.value("show geqo") == "off"
    one.close()
    pooler.wait_pool(sv_idle=1, sv_active=1)
    third = pooler.connect()
    assert pid(third) == mine
    assert third.value("show geqo") == "on"


def test_transaction_mode(pooler):
    clients = [pooler.connect() for _ in range(5)]
    assert len({pid(c) for c in clients}) == 1
    held = hold(clients[0])
    assert pid(clients[1]) != held
    assert pid(clients[0]) == held
    clients[0].query("rollback")
    assert pooler.pool()["sv_idle"] == 2


def test_failed_transaction_keeps_its_server(pooler):
    client = pooler.connect()
    client.query("begin")
    result = client.query("select nonsense", check=False)
    assert result.status == "E"
    assert pooler.pool()["sv_active"] == 1
    assert client.query("select 1", check=False).errors[0].field("C") == "25P02"
    assert client.query("rollback").status == "I"
    pooler.wait_pool(sv_active=0, sv_idle=1)


@pytest.mark.parametrize("sql, kinds", [("begin", "C"), ("begin; select 1", "CTDC")])
def test_statement_mode(make_pooler, pg, sql, kinds):
    pooler = make_pooler({"db": pg.conn()}, settings={"pool_mode": "statement"})
    client = pooler.connect()
    assert client.query("select 1; select 2").rows == [("1",), ("2",)]
    client.send(wire.query(sql))
    told = client.recv_until("E")
    assert "".join(m.kind for m in told[:-1]) == kinds  # No ReadyForQuery comes first.
    assert told[-1].raw() == wire.fields("E", codes.fatal("transaction blocks not allowed in statement pooling mode"))
    client.expect_closed()
    pooler.wait_log(r"S-.*closing because: transaction blocks not allowed in statement pooling mode")
    pooler.wait_pool(sv_active=0, sv_idle=0)


def test_mode_of_user_over_database_over_all(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_mode="transaction"), "plain": pg.conn()},
                         settings={"pool_mode": "session"},
                         users={"second_user": "pool_mode=session"})
    for database, user, mode in (("db", "trust_user", "transaction"), ("plain", "trust_user", "session"),
                                 ("db", "second_user", "session")):
        with pooler.connect(database, user) as client:
            client.query("select 1")
            assert pooler.pool(database, user)["pool_mode"] == mode
            assert pooler.pool(database, user)["sv_active"] == (1 if mode == "session" else 0)


def test_mode_changes_at_once(pooler):
    client = pooler.connect()
    client.query("select 1")
    assert pooler.pool()["sv_idle"] == 1
    pooler.set("pool_mode", "session")
    client.query("select 1")
    assert pooler.pool()["sv_active"] == 1


def test_another_mode_inherits_no_session(make_pooler, pg):
    """Two clients use the same name for a statement. Neither ever runs that of the other, whichever
    mode it was prepared in."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)})
    one = pooler.connect()
    one.query("prepare q as select 'one'")
    other = pooler.connect()
    pooler.change(pool_mode="transaction")
    assert one.value("execute q") == "one"
    assert other.query("execute q", check=False).errors[0].field("C") == "26000"
    one.query("prepare q as select 'one'")
    pooler.change(pool_mode="session")
    assert other.query("execute q", check=False).errors[0].field("C") == "26000"


def test_no_server_before_the_first_query(pooler):
    pooler.connect().close()
    pooler.wait_pool(sv_idle=1, cl_active=0)
    client = pooler.connect()
    assert pooler.pool()["sv_active"] == 0
    client.query("select 1")


# the order in which idle servers are used


def three_idle(pooler):
    """Returns three servers, which were released in the order of the list."""
    clients = [pooler.connect() for _ in range(3)]
    pids = [hold(c) for c in clients]
    for client in clients:
        client.query("commit")
    return clients, pids


@pytest.mark.one_worker  # Each worker takes its own connections first.
def test_last_in_first_out(pooler):
    clients, pids = three_idle(pooler)
    assert [pid(clients[0]) for _ in range(3)] == [pids[2]] * 3
    assert hold(clients[0]) == pids[2] and hold(clients[1]) == pids[1]
    assert pid(clients[2]) == pids[0]


@pytest.mark.one_worker  # Each worker takes its own connections in turn.
def test_round_robin(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, server_round_robin=1))
    clients, pids = three_idle(pooler)
    assert [pid(clients[0]) for _ in range(6)] == pids * 2


@pytest.mark.one_worker  # Clients of one worker keep their order.
def test_waiting_is_first_come_first_served(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    holder = pooler.connect()
    waiters = [pooler.connect() for _ in range(6)]
    hold(holder)
    holder.query("create temp table turns (n serial, who int)")
    for number, waiter in enumerate(waiters):
        waiter.send(wire.query("insert into pg_temp.turns (who) values (%d)" % number))
        pooler.wait_pool(cl_waiting=number + 1)
    row = pooler.pool()
    assert row["cl_active"] == 1 and row["sv_active"] == 1 and row["maxwait"] in (0, 1)
    holder.query("commit")
    for waiter in waiters:
        assert waiter.finish().tag == "INSERT 0 1"
    assert holder.query("select who from pg_temp.turns order by n").rows == [
        (str(n),) for n in range(6)]


def test_pool_per_user_and_per_forced_user(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(), "forced": pg.conn(user="second_user")}, settings=TRANSACTION)
    for user in ("trust_user", "second_user"):
        pid(pooler.connect("db", user))
        pid(pooler.connect("forced", user))
    pools = {(r["database"], r["user"]): int(r["sv_idle"]) for r in pooler.show("POOLS")}
    assert pools == {("db", "trust_user"): 1, ("db", "second_user"): 1, ("forced", "second_user"): 1,
                     ("pgbouncer", "pgbouncer"): 0}


# pool sizes


def crowd(pooler, count, database="db", user="trust_user"):
    """Connects that many clients, each of which needs its own server connection."""
    clients = [pooler.connect(database, user) for _ in range(count)]
    for client in clients:
        client.send(wire.query("begin"))
    return clients


def dismiss(clients):
    for client in clients:
        client.close()


@pytest.mark.parametrize("database, user, settings, size", [
    ("", "", {"default_pool_size": 2}, 2),
    ("pool_size=3", "", {"default_pool_size": 2}, 3),
    ("pool_size=3", "pool_size=1", {"default_pool_size": 2}, 1),
    ("pool_size=0", "", {"default_pool_size": 1}, 5),
    ("", "pool_size=0", {"default_pool_size": 1}, 5),
    ("", "", {"default_pool_size": 0}, 5),
])
def test_pool_size(make_pooler, pg, database, user, settings, size):
    pooler = make_pooler({"db": pg.conn() + " " + database}, users={"trust_user": user},
                         settings=dict(settings, **TRANSACTION))
    clients = crowd(pooler, 5)
    pooler.wait_pool(sv_active=size, cl_waiting=5 - size, sv_login=0)
    waiting.holds_for(lambda: pooler.pool()["sv_active"] == size, 0.3, "pool size")
    dismiss(clients)


def test_reserve_pool(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1, reserve_pool=1)},
                         settings=dict(TRANSACTION, reserve_pool_timeout=0.6))
    clients = crowd(pooler, 3)
    pooler.wait_pool(sv_active=1, cl_waiting=2)
    at = time.monotonic()
    pooler.wait_pool(sv_active=2, cl_waiting=1)
    assert time.monotonic() - at > 0.2
    pooler.wait_log(r" WARNING C-0x\S+ db/trust_user@\S+ taking connection from reserve_pool$")
    waiting.holds_for(lambda: pooler.pool()["sv_active"] == 2, 0.4, "reserve is used up")
    dismiss(clients)


def test_reserve_pool_without_timeout_is_off(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1, reserve_pool_size=1)},
                         settings=dict(TRANSACTION, reserve_pool_timeout=0))
    clients = crowd(pooler, 2)
    pooler.wait_pool(sv_active=1, cl_waiting=1)
    waiting.holds_for(lambda: pooler.pool()["sv_active"] == 1, 0.5, "no reserve")
    dismiss(clients)


def test_user_reserve_over_database(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1, reserve_pool=2)},
                         users={"trust_user": "reserve_pool_size=0"},
                         settings=dict(TRANSACTION, reserve_pool_timeout=0.1))
    clients = crowd(pooler, 2)
    pooler.wait_pool(sv_active=1, cl_waiting=1)
    waiting.holds_for(lambda: pooler.pool()["sv_active"] == 1, 0.6, "no reserve")
    dismiss(clients)


def test_max_db_connections_evicts_idle_servers_of_others(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(max_db_connections=2)}, settings=TRANSACTION)
    first, second = pooler.connect("db", "trust_user"), pooler.connect("db", "second_user")
    hold(first)
    pid(second)
    pooler.wait_pool("db", "second_user", sv_idle=1)
    third = pooler.connect("db", "trust_user")
    hold(third)
    pooler.wait_log(r"S-.*db/second_user@.*closing because: evicted \(age")
    assert pooler.pool("db", "second_user")["sv_idle"] == 0
    second.send(wire.query("select 1"))
    pooler.wait_pool("db", "second_user", cl_waiting=1)
    assert pooler.show_one("DATABASES", name="db")["current_connections"] == "2"
    assert not second.has_data(0.2)
    third.query("commit")
    assert second.finish().value == "1"


@pytest.mark.parametrize("limit", ["max_db_connections", "max_user_connections"])
def test_pool_that_is_always_busy_gives_its_connections_up(make_pooler, pg, limit):
    """When a limit is reached, the next free connection goes to the client that has waited longest
    for it, in whichever pool it waits."""
    entry = dict(user="trust_user") if limit == "max_user_connections" else {}
    pooler = make_pooler({"db": pg.conn(**entry), "other": pg.conn(**entry)}
                         if entry else {"db": pg.conn()},
                         settings=dict(TRANSACTION, query_wait_timeout=8, **{limit: 1}))
    done = threading.Event()
    counts, failures = [0] * 4, []

    def work(number):
        with pooler.connect("db", "trust_user") as client:
            while not done.is_set():
                result = client.query("select pg_sleep(0.05)", check=False)
                if result.errors:
                    failures.append(result.errors)
                    return
                counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    waiting.wait_for(lambda: min(counts) > 0, "all of them are at work")
    other = ("other", "trust_user") if entry else ("db", "second_user")
    with pooler.connect(*other) as client:
        for _ in range(3):
            before = sum(counts)
            assert client.value("select 1") == "1"
            waiting.wait_for(lambda: sum(counts) > before + 4, "the others go on")
    done.set()
    for thread in threads:
        thread.join(10)
    assert not failures


# limits of the whole process

PROCESS = dict(TRANSACTION, max_server_connections=3)


def backends(pg):
    """Returns the number of server connections per database, as PostgreSQL sees them."""
    return int(pg.value("select count(*) from pg_stat_activity where backend_type = 'client "
                        "backend' and application_name = 'pooled'"))


def of_application(pooler, database):
    return pooler.connect(database, application_name="pooled")


def test_max_server_connections_over_all_pools(make_pooler, pg):
    """A pool without a server takes over the place of an idle server of another pool."""
    pooler = make_pooler({"one": pg.conn(), "two": pg.conn(min_pool_size=1), "three": pg.conn()},
                         settings=PROCESS)
    two = of_application(pooler, "two")
    pid(two)
    clients = [of_application(pooler, "one") for _ in range(3)]
    for client in clients[:2]:
        hold(client)
    waiting.wait_for(lambda: backends(pg) == 3, "three servers")
    clients[2].send(wire.query("select 1"))
    pooler.wait_pool("one", cl_waiting=1, sv_active=2)
    # The server of pool "two" counts towards its minimum. A pool without a server gets its place,
    # or that of another idle server.
    three = of_application(pooler, "three")
    assert pid(three)
    clients[0].query("commit")
    assert clients[2].finish().value == "1"
    pooler.wait_log(r"S-.*two/trust_user@.*closing because: evicted \(age")
    waiting.wait_for(lambda: backends(pg) == 3, "three servers")
    for client in clients + [two, three]:
        client.close()


def test_max_server_connections_under_load(make_pooler, pg):
    """With many pools and few server connections every client is served, and the console never
    shows more servers than the limit."""
    names = ["db%d" % n for n in range(8)]
    pooler = make_pooler({name: pg.conn() for name in names},
                         settings=dict(PROCESS, query_wait_timeout=60))
    failures = []

    def work(name):
        try:
            with pooler.connect(name) as client:
                for _ in range(8):
                    assert client.value("select 1 from pg_sleep(0.002)") == "1"
        except BaseException as fault:
            failures.append(fault)

    threads = [threading.Thread(target=work, args=(name,)) for name in names for _ in range(3)]
    for thread in threads:
        thread.start()
    counts = [0]
    while any(thread.is_alive() for thread in threads):
        counts.append(sum(int(row[state]) for row in pooler.show("POOLS") for state in row
                          if state.startswith("sv_") and state != "sv_active_cancel"))
    for thread in threads:
        thread.join(60)
    assert not failures
    assert max(counts) <= 3


def test_max_server_connections_changes_at_once(make_pooler, pg):
    pooler = make_pooler({"one": pg.conn(), "two": pg.conn()}, settings=PROCESS)
    two = pooler.connect("two")
    one = [pooler.connect("one") for _ in range(3)]
    for client in one:
        hold(client)
    two.send(wire.query("select 1"))
    pooler.wait_pool("two", cl_waiting=1)
    pooler.set("max_server_connections", 4)
    assert two.finish().value == "1"
    pooler.change(max_server_connections=2)
    pooler.wait_log(r"S-.*two/trust_user@.*closing because: too many servers "
                    r"\(max_server_connections\)")
    for client in one:
        client.query("commit")
    pooler.wait_pool("one", sv_idle=2, sv_active=0)


def test_error_names_the_limit_that_left_no_room(make_pooler, pg):
    pooler = make_pooler({"one": pg.conn(), "two": pg.conn()},
                         settings=dict(TRANSACTION, max_server_connections=1, query_wait_timeout=1))
    one = pooler.connect("one")
    hold(one)
    with pytest.raises(wire.Refused) as refused, pooler.client("two") as two:
        two.login()
    error = refused.value.message
    assert error.field("M") == "query_wait_timeout"
    assert error.field("D") == ("query_wait_timeout is 1; the pool waits for room under "
                                "max_server_connections, which is 1")
    one.close()


@pytest.mark.one_worker  # Each worker knows the order of its own connections.
def test_least_recently_used_is_evicted(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=dict(TRANSACTION, max_db_connections=3))
    clients = {user: pooler.connect("db", user) for user in ("trust_user", "second_user", "owner")}
    for user in ("trust_user", "second_user", "owner", "trust_user"):
        pid(clients[user])
    more = pooler.connect("db", "owner")
    hold(clients["owner"])
    hold(more)
    assert pooler.pool("db", "second_user")["sv_idle"] == 0
    assert pooler.pool("db", "trust_user")["sv_idle"] == 1


def test_max_user_connections(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(), "two": pg.conn()}, settings=TRANSACTION,
                         users={"trust_user": "max_user_connections=1"})
    one, two = pooler.connect("db"), pooler.connect("two")
    hold(one)
    two.send(wire.query("select 1"))
    pooler.wait_pool("two", cl_waiting=1)
    assert not two.has_data(0.2)
    assert pooler.show_one("USERS", name="trust_user")["current_connections"] == "1"
    one.query("commit")
    assert two.finish().value == "1"
    pooler.wait_log(r"S-.*db/trust_user@.*closing because: evicted \(age")
    assert pid(pooler.connect("two", "second_user"))


def test_min_pool_size_of_a_forced_user(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(user="trust_user", min_pool_size=3, pool_size=5)})
    pooler.wait_pool(sv_idle=3)
    waiting.holds_for(lambda: pooler.pool()["sv_idle"] == 3, 0.5, "minimum")


def test_min_pool_size_needs_a_client_otherwise(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"min_pool_size": 2})
    waiting.holds_for(lambda: pooler.pool() == {}, 0.5, "no pool")
    client = pooler.connect()
    pooler.wait_pool(sv_idle=2)
    client.close()


def test_min_pool_size_never_passes_pool_size(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(user="trust_user", min_pool_size=5, pool_size=2)})
    pooler.wait_pool(sv_idle=2)
    waiting.holds_for(lambda: pooler.pool()["sv_idle"] == 2, 0.8, "pool size")


def test_shrinking(pooler):
    three_idle(pooler)
    pooler.set("default_pool_size", 1)
    pooler.wait_pool(sv_idle=1)
    pooler.wait_log(r"closing because: too many servers in the pool \(age")


# between two clients of one server


def reset_seen(make_pooler, fake, **settings):
    server = fake()
    pooler = make_pooler({"db": server.conn()}, settings=settings)
    with pooler.connect() as client:
        client.query("select 1")
    pooler.wait_pool(cl_active=0, sv_idle=1)
    return server.sessions[0].queries()


@pytest.mark.parametrize("settings, after", [
    ({"pool_mode": "session"}, ["DISCARD ALL"]),
    ({"pool_mode": "session", "server_reset_query": "reset me"}, ["reset me"]),
    ({"pool_mode": "session", "server_reset_query": ""}, []),
    ({"pool_mode": "transaction"}, []),
    ({"pool_mode": "transaction", "server_reset_query_always": 1}, ["DISCARD ALL"]),
    ({"pool_mode": "statement", "server_reset_query_always": 1}, ["DISCARD ALL"]),
])
def test_reset_query(make_pooler, fake, settings, after):
    assert reset_seen(make_pooler, fake, **settings) == ["select 1"] + after


def test_server_is_tested_while_it_is_reset(make_pooler, fake):
    import threading
    go = threading.Event()

    def slow(session, sql):
        go.wait(10)
        return wire.command_complete("DISCARD") + wire.ready()

    server = fake(lambda s: (s.login(), s.serve([("DISCARD", slow)])))
    pooler = make_pooler({"db": server.conn()})
    client = pooler.connect()
    client.query("select 1")
    client.close()
    pooler.wait_pool(sv_tested=1)
    assert pooler.show_one("SERVERS")["state"] == "tested"
    go.set()
    pooler.wait_pool(sv_idle=1)


@pytest.mark.parametrize("query, sent", [("select 'check'", "select 'check'"), ("<empty>", "")])
def test_check_before_every_use(make_pooler, fake, query, sent):
    server = fake()
    pooler = make_pooler({"db": server.conn()}, settings=dict(
        TRANSACTION, server_check_delay=0, server_check_query=query))
    client = pooler.connect()
    for number in range(3):
        client.query("select %d" % number)
        pooler.wait_pool(sv_used=1)
    seen = [q for q in server.sessions[0].queries() if q != sent]
    assert seen == ["select 0", "select 1", "select 2"]
    assert server.sessions[0].queries().count(sent) in (2, 3)
    assert server.sessions[0].queries()[-2] == sent


def test_check_after_a_while(make_pooler, fake):
    server = fake()
    pooler = make_pooler({"db": server.conn()}, settings=dict(
        TRANSACTION, server_check_delay=0.5, server_check_query="select 'check'"))
    client = pooler.connect()
    client.query("select 1")
    pooler.wait_pool(sv_idle=1)
    client.query("select 2")
    pooler.wait_pool(sv_used=1)
    client.query("select 3")
    assert server.sessions[0].queries() == ["select 1", "select 2", "select 'check'", "select 3"]


def test_check_query_in_force_is_the_current_one(make_pooler, fake):
    server = fake()
    pooler = make_pooler({"db": server.conn()}, settings=dict(TRANSACTION, server_check_delay=0))
    client = pooler.connect()
    pooler.set("server_check_query", "select check1")
    pooler.set("server_check_query", "<empty>")
    client.query("select 1")
    pooler.wait_pool(sv_used=1)
    client.query("select 2")
    assert "<empty>" not in server.sessions[0].queries()


@pytest.mark.parametrize("mode, hung", [("session", "DISCARD ALL"), ("transaction", "check")])
def test_hung_reset_or_check_delays_nobody(make_pooler, fake, mode, hung):
    """While the pool has room, a waiting client gets another server."""
    go = threading.Event()

    def script(session):
        session.login()
        session.serve([(hung, lambda s, q: go.wait(20) and b"")] if session.number == 0 else [])

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings={
        "pool_mode": mode, "default_pool_size": 2, "query_wait_timeout": 10,
        "server_check_delay": 0 if mode == "transaction" else 30,
        "server_check_query": "select 'check'"})
    with pooler.connect() as client:
        assert client.value("select 1") == "fake"
    with pooler.connect() as client:
        assert client.value("select 2") == "fake"
    assert "select 2" in server.sessions[1].queries()
    go.set()


def test_failed_check_tries_the_next(make_pooler, fake):
    def script(session):
        session.login()
        if session.number == 0:
            session.serve([("check", lambda s, q: s.sock.shutdown(2))])
        session.serve()

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings=dict(
        TRANSACTION, server_check_delay=0, server_check_query="select 'check'",
        server_login_retry=0.5))
    client = pooler.connect()
    if client.query("select 1", check=False).errors:
        pytest.fail("the check's failure reached the client")
    assert client.value("select 2") == "fake"
    assert len(server.sessions) >= 2


def test_new_server_is_used_without_check(make_pooler, fake):
    """A new server connection for a waiting client is used without a check. One that was opened in
    advance is checked first, and after a failed check the next attempt waits as long as after a
    failed login."""
    def script(session):
        session.login()
        if session.number == 0:
            session.recv()
        else:
            session.serve()

    server = fake(script)
    pooler = make_pooler({"db": server.conn()}, settings=dict(
        TRANSACTION, server_check_delay=0, server_check_query="select 'check'",
        server_login_retry=0.5))
    client = pooler.connect()
    pooler.wait_pool(sv_used=1)
    assert client.query("select 1").rows
    assert server.sessions[0].queries() == ["select 'check'"]
    assert server.sessions[1].queries() == ["select 1"]
    assert len(server.sessions) == 2


def test_the_next_server_follows_one_whose_check_hangs(make_pooler, fake):
    """That is no failed login, for which the next attempt would wait for server_login_retry."""
    def script(session):
        session.login()
        if session.number == 0:
            session.recv()
            over.wait()
        else:
            session.serve()

    over = threading.Event()
    server = fake(script)
    pooler = make_pooler({"db": server.conn(pool_size=1)}, settings=dict(
        TRANSACTION, server_check_delay=0, server_check_query="select 'check'", server_idle_timeout=0.5,
        server_login_retry=60))
    client = pooler.connect()
    pooler.wait_pool(sv_used=1)
    assert client.query("select 1").rows
    over.set()
    assert pooler.log().count("server idle timeout") == 1


def test_min_pool_of_servers_that_do_not_stay(make_pooler, fake):
    server = fake(lambda session: session.login())
    pooler = make_pooler({"db": server.conn(user="u", min_pool_size=2)}, settings=TRANSACTION)
    waiting.wait_for(lambda: len(server.sessions) >= 4, "several attempts")
    at = len(server.sessions)
    waiting.holds_for(lambda: len(server.sessions) - at <= 5, 1, "attempts at intervals")
    assert pooler.cpu_time() < 0.5
    pooler.stop()


def test_server_lifetime_of_nothing(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=dict(TRANSACTION, server_lifetime=0))
    client = pooler.connect()
    pids = [pid(client) for _ in range(3)]
    assert len(set(pids)) == 3
    pooler.wait_log(r"closing because: server lifetime over \(age")


def test_server_lifetime(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(server_lifetime=1), "long": pg.conn()}, settings=TRANSACTION)
    client, other = pooler.connect(), pooler.connect("long")
    before = pid(client)
    stays = pid(other)
    pooler.wait_pool(sv_idle=0)
    pooler.wait_log(r"S-.*db/trust_user.*closing because: server lifetime over \(age=[12]s\)")
    assert pid(client) != before and pid(other) == stays


def total(pooler, name):
    return sum(int(row[name]) for row in pooler.show("stats_totals") if row["database"] == "db")


@pytest.mark.parametrize("workers", ["1", "3"])
@pytest.mark.parametrize("engine", ["epoll", "auto"])
def test_a_server_is_replaced_before_it_is_closed(make_pooler, pg, engine, workers):
    """The client never waits for the login, and the new server has its statements already."""
    pooler = make_pooler({"db": pg.conn(pool_size=4)}, settings=dict(
        TRANSACTION, server_lifetime=1, max_prepared_statements=50, io_engine=engine, workers=workers))
    client = pooler.connect()
    for name, text in (("a", "select $1::int"), ("b", "select pg_backend_pid()"), ("wrong", "select 1 from gone")):
        if name == "wrong":
            pg.do("create table gone ()", "grant select on gone to public")
        client.send(wire.parse(name, text), wire.sync())
        assert client.recv_until("Z")[0].kind == "1"
    pg.do("drop table gone")
    seen = []

    def use():
        client.send(wire.bind("", "a", ["5"]), wire.execute(), wire.bind("", "b"), wire.execute(), wire.sync())
        heard = client.recv_until("Z")
        backend = [m.values() for m in heard if m.kind == "D"][1][0]
        if not seen or seen[-1][0] != backend:
            seen.append((backend, total(pooler, "server_parse_count")))
        return len(seen) > 3

    waited = total(pooler, "wait_time")
    waiting.wait_for(use, "three replacements", 20)
    assert total(pooler, "wait_time") == waited
    lines = [line for line in pooler.log().splitlines() if "db/trust_user" in line and (
        "new connection to server" in line or "server lifetime over" in line)]
    kinds = "".join("+" if "new connection" in line else "-" for line in lines)
    assert kinds.startswith("++-+-"), lines
    # The Parses of the pooler came before the client used the server, and one of them has failed.
    assert all(after[1] >= before[1] + 2 for before, after in zip(seen[1:], seen[2:])), seen


def test_without_room_a_server_is_closed_first(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=2, max_db_connections=1)},
                         settings=dict(TRANSACTION, server_lifetime=1))
    client = pooler.connect()
    before = pid(client)
    waiting.wait_for(lambda: pid(client) != before, "another server", 10)
    lines = [line for line in pooler.log().splitlines() if "new connection to server" in line
             or "server lifetime over" in line]
    assert "lifetime over" in lines[1]


def test_server_idle_timeout(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(), "min": pg.conn(user="second_user", min_pool_size=1)},
                         settings=dict(TRANSACTION, server_idle_timeout=0.7))
    three_idle(pooler)
    pooler.wait_pool("min", "second_user", sv_idle=1)
    pooler.wait_pool(sv_idle=0)
    pooler.wait_log(r"closing because: server idle timeout \(age")
    assert pooler.pool("min", "second_user")["sv_idle"] == 1


def test_pool_idle_timeout(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=dict(
        TRANSACTION, server_idle_timeout=0.3, pool_idle_timeout=0.5))
    pooler.connect().close()
    waiting.wait_for(lambda: pooler.pool() == {}, "pool freed")
    pooler.wait_log(r" LOG .*cleaning up idle pool for user trust_user on db db because: "
                    r"pool idle timeout \(age=")
    assert pooler.connect().value("select 1") == "1"


# clients that disconnect


@pytest.mark.parametrize("mode", ["session", "transaction"])
@pytest.mark.parametrize("sql, reason", [
    ("begin", "client disconnect while server was not ready"),
    ("select pg_sleep(5)", "client disconnect(ed with query in progress| while server was not ready)"),
])
def test_client_that_leaves_in_the_middle(make_pooler, pg, mode, sql, reason):
    pooler = make_pooler({"db": pg.conn()}, settings={"pool_mode": mode})
    client = pooler.connect()
    client.send(wire.query(sql))
    if sql == "begin":
        client.finish()
    else:
        waiting.wait_for(lambda: pg.backends("query like '%pg_sleep(5)%' and state='active'"), "runs")
    client.close()
    pooler.wait_log(r"S-.*closing because: %s \(age" % reason)
    pooler.wait_pool(sv_active=0, sv_idle=0)


def test_waiting_client_that_leaves(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    holder, gone, last = (pooler.connect() for _ in range(3))
    hold(holder)
    gone.send(wire.query("select 1"))
    pooler.wait_pool(cl_waiting=1)
    last.send(wire.query("select 2"))
    pooler.wait_pool(cl_waiting=2)
    gone.close()
    holder.query("commit")
    assert last.finish().value == "2"
    pooler.wait_pool(cl_waiting=0, cl_active=2)


def test_client_that_waits_for_its_first_server_leaves(make_pooler, fake):
    server = fake(lambda s: s.recv_exact(1 << 20))
    pooler = make_pooler({"db": server.conn()}, settings={"client_login_timeout": 1})
    client = pooler.client()
    client.send(client.startup_packet())
    server.wait_sessions(1)
    client.close()
    waiting.wait_for(lambda: pooler.show_one("LISTS", list="used_clients")["items"] == "1"
                     and pooler.show_one("LISTS", list="login_clients")["items"] == "0", "gone")


def test_polite_end(pooler):
    client = pooler.connect()
    client.query("select 1")
    client.send(wire.terminate())
    client.expect_closed()
    pooler.wait_log(r"closing because: client close request \(age")


# servers to be closed on release


def test_reconnect_waits_for_the_transaction(pooler):
    client, idle = pooler.connect(), pooler.connect()
    before = hold(client)
    hold(idle)
    idle.query("commit")
    pooler.admin.query("RECONNECT db")
    pooler.wait_pool(sv_idle=0, sv_active=1)
    pooler.wait_log(r"closing because: database configuration changed \(age")
    assert pid(client) == before
    assert pooler.show_one("SERVERS")["close_needed"] == "1"
    client.query("commit")
    pooler.wait_log(r"closing because: close_needed \(age")
    assert pid(client) != before


def test_server_fast_close(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"server_fast_close": 1})
    between, inside = pooler.connect(), pooler.connect()
    between.query("select 1")
    hold(inside)
    pooler.admin.query("RECONNECT")
    between.expect_fatal("database configuration changed")
    assert inside.value("select 1") == "1"
    inside.query("commit")
    inside.expect_fatal("database configuration changed")


def test_without_fast_close_sessions_go_on(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()})
    client = pooler.connect()
    before = pid(client)
    pooler.admin.query("RECONNECT")
    waiting.holds_for(lambda: pid(client) == before, 0.6, "session")
