"""What the pooler does under overload: queues, server connects, clients that vanish."""

import socket
import struct
import time

import wire

TRANSACTION = {"pool_mode": "transaction"}
FULL = "too many clients are waiting (max_waiting_clients)"
FULL_HINT = "Try again later, or raise default_pool_size or max_waiting_clients."


def busy(pooler):
    """A client holds the only server connection, and a second client waits for it."""
    holder, waiter = pooler.connect(), pooler.connect()
    holder.query("begin")
    waiter.send(wire.query("select 'waited'"))
    pooler.wait_pool(cl_waiting=1)
    return holder, waiter


def test_a_full_queue_is_an_error(make_pooler, pg):
    """A client that exceeds the limit of the queue gets an error that names the limit, and stays
    connected."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)},
                         settings=dict(TRANSACTION, max_waiting_clients="1"))
    third = pooler.connect()
    holder, waiter = busy(pooler)
    result = third.query("select 1", check=False)
    assert result.kinds() == "EZ" and result.status == "I"
    fields = dict(result.errors[0].fields())
    assert (fields["S"], fields["C"], fields["M"]) == ("ERROR", "53300", FULL)
    assert fields["D"] == ("Clients that wait for a server connection of database \"db\" and "
                           "user \"trust_user\": 1; max_waiting_clients is 1.")
    assert fields["H"] == FULL_HINT
    third.send(wire.parse("", "select 2"), wire.bind(), wire.execute(), wire.sync())
    assert third.finish().kinds() == "EZ"
    pooler.wait_log("pooler error: too many clients are waiting")
    holder.query("commit")
    assert waiter.finish().value == "waited"
    assert third.value("select 3") == "3"


def test_a_full_queue_refuses_logins(make_pooler, fake):
    """The pooler has no parameters of the server yet, and one login that waits for them fills the
    queue."""
    pooler = make_pooler({"db": fake(lambda session: session.recv_startup() and session.recv()).conn()},
                         settings=dict(TRANSACTION, max_waiting_clients="1"))
    first = pooler.client()
    first.send(first.startup_packet())
    pooler.wait_pool(cl_waiting=1)
    second = pooler.client()
    second.send(second.startup_packet())
    error = second.recv_until("E")[-1]
    assert (error.field("S"), error.field("C"), error.text()) == ("FATAL", "53300", FULL)
    assert error.field("H") == FULL_HINT
    second.expect_closed()


def test_the_limit_of_a_queue_changes_at_once(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    third, fourth = pooler.connect(), pooler.connect()
    holder, waiter = busy(pooler)
    pooler.set("max_waiting_clients", "1")
    assert third.query("select 1", check=False).errors[0].field("M") == FULL
    pooler.change(max_waiting_clients="2")
    third.send(wire.query("select 'third'"))
    pooler.wait_pool(cl_waiting=2)
    assert fourth.query("select 1", check=False).errors[0].field("M") == FULL
    pooler.users["trust_user"] = "max_waiting_clients=0"
    pooler.change()
    fourth.send(wire.query("select 'fourth'"))
    pooler.wait_pool(cl_waiting=3)
    holder.query("commit")
    assert [c.finish().value for c in (waiter, third, fourth)] == ["waited", "third", "fourth"]


def vanish(client):
    """Closes the socket with a reset, so that the pooler learns at once that the client is gone."""
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def logins(pooler):
    return pooler.log().count("new connection to server")


def test_clients_that_vanish_cause_no_logins(make_pooler, pg):
    """A thousand clients vanish, each in the middle of a query in a transaction."""
    pooler = make_pooler({"db": pg.conn(pool_size=10)},
                         settings=dict(TRANSACTION, client_disconnect="cancel",
                                       log_connections="1"))
    with pooler.connect() as client:
        client.query("create table vanish(i int)")
    for _ in range(100):
        clients = [pooler.connect() for _ in range(10)]
        for client in clients:
            client.send(wire.query("begin; insert into vanish values (1); select pg_sleep(60)"))
        pooler.wait_pool(sv_active=10)
        for client in clients:
            vanish(client)
        pooler.wait_pool(sv_active=0, sv_used=0, sv_tested=0, sv_idle=10, cl_active=0)
    assert logins(pooler) == 10
    with pooler.connect() as client:
        assert client.value("select count(*) from vanish") == "0"
        client.query("drop table vanish")
    assert pg.backends("query like '%pg_sleep(60)%' and state='active'") == 0


def test_what_a_vanished_client_left_is_gone(make_pooler, pg):
    """Vanished clients leave no parameters, prepared statements, locks, half a COPY or half a
    pipeline behind."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)},
                         settings=dict(TRANSACTION, client_disconnect="cancel",
                                       log_connections="1"))
    left = [
        [wire.query("begin; set work_mem = '5MB'; select pg_advisory_lock(4711)")],
        [wire.query("set work_mem = '5MB'; select pg_sleep(60)")],
        [wire.query("create temp table half(i int); copy half from stdin"), wire.copy_data("1\\n")],
        [wire.parse("s", "select pg_sleep(60)"), wire.bind("", "s"), wire.execute(), wire.flush()],
        [wire.parse("s", "select pg_sleep(60)"), wire.bind("", "s"), wire.execute(), wire.sync()],
        [wire.parse("", "no such thing"), wire.flush()],
        [wire.query("select repeat('x', 1000) from generate_series(1, 1000000)")],
    ]
    with pooler.connect() as client:
        own = client.value("show work_mem")
        pid = client.value("select pg_backend_pid()")
    for messages in left:
        client = pooler.connect()
        client.send(*messages)
        pooler.wait_pool(sv_active=1)
        vanish(client)
        with pooler.connect() as after:
            assert after.value("select pg_backend_pid()") == pid
            assert after.value("show work_mem") == own
            assert after.value("select count(*) from pg_prepared_statements") == "0"
            assert after.value("select count(*) from pg_locks where locktype='advisory'") == "0"
            after.query("create temp table half(i int)")
            after.query("drop table half")
    assert logins(pooler) == 1


def test_close_is_what_happens_unless_asked_for(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=TRANSACTION)
    for setting in ("close", "cancel", "close"):
        pooler.set("client_disconnect", setting)
        client = pooler.connect()
        pid = client.value("select pg_backend_pid()")
        client.send(wire.query("select pg_sleep(60)"))
        pooler.wait_pool(sv_active=1)
        vanish(client)
        with pooler.connect() as after:
            assert (after.value("select pg_backend_pid()") == pid) == (setting == "cancel")


def test_connects_to_a_host_take_turns(make_pooler, fake):
    """Five pools of one host need a server at once. They connect one after the other, in their
    order of arrival."""
    names = ["db%d" % i for i in range(5)]
    server = fake()
    pooler = make_pooler({name: server.conn(name) for name in names},
                         settings=dict(TRANSACTION, server_connect_rate="4",
                                       log_connections="1"))
    began = time.monotonic()
    clients = [pooler.client(name) for name in names]
    for name, client in zip(names, clients):
        client.send(client.startup_packet())
        pooler.wait_log("login attempt: db=%s " % name)
    for client in clients:
        client.authenticate()
    assert time.monotonic() - began >= 4 * 0.25
    asked = [dict(session.startup_params())["database"] for session in server.logged_in()]
    assert asked == names
