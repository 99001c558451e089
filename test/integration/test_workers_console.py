"""Several workers: the console, and limits that concern connections which go from worker to worker."""

import re
import resource

import pytest

import tracer
import waiting
import wire
from test_tls_clients import ca, context, secured, tls_pooler  # noqa: F401 (fixtures)
from test_workers_spread import MANY, moved, shown, spread_pooler
from test_workers_stopped import connect_all

WORKERS = {"workers": 2, "pool_mode": "transaction"}


def test_what_a_console_asks_for_is_read_once(make_pooler, pg):
    """The worker that has read its first packet sends it to the control thread, which reads the packet again."""
    pooler = make_pooler({"db": pg.conn()}, settings=dict(WORKERS, application_name_add_host=1))
    for user in ("stats_user", "admin_user"):
        console = pooler.connect("pgbouncer", user, pooler.userlist.get(user))
        port = console.sock.getsockname()[1]
        row, = [row for row in pooler.show("CLIENTS") if int(row["port"]) == port]
        assert row["application_name"] == "app - 127.0.0.1:%d" % port


@pytest.mark.parametrize("direct", [False, True], ids=["asked", "direct"])
def test_a_console_over_tls(tls_pooler, ca, direct):  # noqa: F811
    """Its TLS goes along to the control thread."""
    pooler = tls_pooler("allow", workers=2)
    consoles = [secured(pooler, context(ca), "stats_user", "pgbouncer", direct=direct).login() for _ in range(4)]
    for console in consoles:
        assert len(console.query("SHOW CONFIG").rows) > 100
        port = str(console.sock.getsockname()[1])
        row, = [row for row in pooler.show("CLIENTS") if row["port"] == port]
        assert row["tls"].startswith("TLSv1.3/")


def test_login_at_another_worker_while_paused(make_pooler, pg):
    """What clients are greeted with is known to the worker that has logged in to the server."""
    pooler = make_pooler({"db": pg.conn()}, settings=WORKERS)
    first = pooler.connect()
    assert first.value("select 1") == "1"
    pooler.admin.query("PAUSE")
    others = [pooler.connect() for _ in range(2)]
    for other in others:
        other.send(wire.query("select 7"))
    assert not any(other.has_data(0.1) for other in others)
    pooler.admin.query("RESUME")
    assert [other.finish().value for other in others] == ["7"] * 2


def test_users_of_the_list(make_pooler, pg):
    """All workers share the user list.  Each user has one row and counts once, used or not; who has
    left the list is known as before, even if nobody has seen it."""
    pooler = make_pooler({"db": pg.conn(user="trust_user")}, settings=dict(WORKERS, auth_type="trust"))
    listed = dict(pooler.userlist)
    shown = len(pooler.show("USERS"))
    pooler.userlist.update({"listed%d" % n: "secret" for n in range(100)})
    pooler.write_files()
    pooler.admin.query("RELOAD")
    names = [row["name"] for row in pooler.show("USERS")]
    assert names == sorted(set(names)) and len(names) == shown + 100
    assert int(pooler.show_one("MEM", name="user_cache")["used"]) < 100
    clients = [pooler.connect(user="listed7") for _ in range(3)]
    assert pooler.show_one("USERS", name="listed7")["current_client_connections"] == "3"
    assert pooler.show_one("USERS", name="listed8")["current_client_connections"] == "0"
    assert pooler.show_one("LISTS", list="users")["items"] == str(shown + 100)
    pooler.userlist = listed
    for _ in range(2):
        pooler.write_files()
        pooler.admin.query("RELOAD")
        pooler.userlist["one more"] = ""
    assert pooler.show_one("LISTS", list="users")["items"] == str(shown + 101)
    assert len(pooler.show("USERS")) == shown + 101
    clients += [pooler.connect(user=user) for user in ("listed9", "one more")]
    assert pooler.refusal(user="listed100") is not None


def numbers(row):
    return {name: int(value) for name, value in row.items() if name != "worker"}


def test_show_workers(make_pooler, pg):
    """One server for clients of two workers goes to and fro."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings=WORKERS)
    clients = connect_all(pooler, 2)
    for _ in range(2):
        assert [c.value("select 1") for c in clients] == ["1"] * 2
    rows = pooler.show("WORKERS")
    assert [r["worker"] for r in rows] == ["0", "1", "control"]
    first, second, control = map(numbers, rows)
    assert first["clients"] == second["clients"] == control["clients"] == 1
    assert first["servers"] + second["servers"] == 1 and control["servers"] == 0
    assert first["servers_out"] == second["servers_in"] == second["waits_served_elsewhere"] >= 2
    assert abs(first["servers_in"] - first["servers_out"]) <= 1
    for row in first, second, control:
        assert 0 <= row["busy"] <= 100
        assert row["turns"] > 0 and row["longest_turn_us"] > 0


def test_show_workers_of_one(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"workers": 1})
    assert pooler.connect().value("select 1") == "1"
    [row] = pooler.show("WORKERS")
    assert row["worker"] == "0" and row["servers"] == "1" and row["servers_out"] == "0"


def test_console_takes_the_last_descriptor(make_pooler, pg):
    """A connection goes from the worker that was given it to the console as a copy of its
    descriptor, also if there is none left."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, start=False, settings=dict(WORKERS, max_client_conn=1000))
    pooler.preexec = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    pooler.start()
    held = [pooler.connect()]
    assert held[0].value("select 1") == "1"
    while pooler.fds() < 63:
        held.append(pooler.connect())
    assert pooler.fds() == 63
    console = pooler.connect("pgbouncer", "admin_user")
    assert console.value("SHOW VERSION")
    assert held[0].value("select 1") == "1"


def test_strangers_at_workers_make_room(make_pooler, pg):
    """At the descriptor limit clients that do not go on with their login are sent away, at whichever
    worker they are."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, start=False, settings=dict(
        WORKERS, max_client_conn=1000, client_login_timeout=600, tcp_defer_accept=0))
    pooler.preexec = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    pooler.start()
    strangers = [pooler.client() for _ in range(70)]
    error = strangers[0].recv()
    assert error.kind == "E" and error.field("M") == "no more connections allowed (descriptor limit)"


def test_auto_database_is_told_once(make_pooler, pg):
    """Each worker has its own of a database that is made from the template; the log tells of one."""
    pooler = make_pooler({"*": "host=127.0.0.1 port=%d" % pg.port},
                         settings=dict(WORKERS, autodb_idle_timeout=0.2, server_idle_timeout=0.1))
    for client in connect_all(pooler, 3, "other"):
        client.close()
    pooler.wait_log("WARNING dropping database 'other' as ")
    log = pooler.log()
    assert len(re.findall("registered new auto-database: other", log)) == 1
    assert len(re.findall("dropping database 'other' as ", log)) == 1


# SHOW CLIENTS in slices

# With such names the rows do not fit into the buffers on their way to a console that does not read.
LONG = 9800 * "x"
STALLED = 256 << 10


class Slow:
    """A console that gives SHOW CLIENTS and does not read the answer yet."""

    def __init__(self, pooler):
        self.console = pooler.connect("pgbouncer", "admin_user")
        port = str(self.console.sock.getsockname()[1])
        self.console.send(wire.query("SHOW CLIENTS"))

        def stalls():
            return any(row["port"] == port and int(row["send_avail"]) > STALLED for row in pooler.show("SOCKETS"))
        waiting.wait_for(stalls, "the rows wait")

    def read(self):
        """Returns the rows of clients, and the whole answer."""
        answer = wire.Result(self.console.recv_until("Z"))
        return [row for row in answer.dicts() if row["database"] == "db"], answer


def sliced_pooler(make_pooler, fake):
    return spread_pooler(make_pooler, fake().conn(), 2, tcp_socket_buffer=16384)


def connect_named(pooler, name):
    """Returns a client whose row is long. PostgreSQL cuts application_name, the scripted server does not."""
    client = pooler.connect()
    client.query("SET application_name = '%s'" % name)
    client.params["application_name"] = name
    return client


def test_rows_show_the_moment_in_which_they_are_written(make_pooler, fake):
    """Each worker writes a few rows at a time, as the console reads them."""
    pooler = sliced_pooler(make_pooler, fake)
    clients = [connect_named(pooler, LONG) for _ in range(3 * MANY)]
    slow = Slow(pooler)
    for client in clients:
        client.query("SET application_name = 'short'")
    rows, answer = slow.read()
    names = [row["application_name"] for row in rows]
    assert len({row["id"] for row in rows}) == len(rows) == len(clients)
    assert names[0] == LONG and names[-1] == "short"
    assert answer.tag == "SHOW" and not answer.notices


def close_others(pooler, clients):
    """Closes the clients of the second worker, so that some of the first one move. Returns those of the first."""
    numbers = shown(pooler)
    # Each thread numbers its clients in steps.
    first = [client for client in clients if (int(numbers[client.params["application_name"]]) - 1) % 3 == 0]
    for client in clients:
        if client not in first:
            client.close()
    return first


def connect_many(pooler):
    return [connect_named(pooler, "client %03d%s" % (n, LONG)) for n in range(4 * MANY)]


def test_clients_that_move_are_shown_once(make_pooler, fake):
    """In the place that they had when the command came."""
    pooler = sliced_pooler(make_pooler, fake)
    clients = connect_many(pooler)
    slow = Slow(pooler)
    clients = close_others(pooler, clients)
    waiting.wait_for(lambda: moved(pooler) > 0, "some move meanwhile")
    rows, _ = slow.read()
    first = [int(row["id"]) for row in rows[:len(clients)]]
    # The order of their logins, the first worker before the second.
    assert len(set(first)) == len(first) == len(clients) and first == sorted(first)
    assert {(row["state"], row["addr"]) for row in rows} == {("idle", "127.0.0.1")}
    assert set(shown(pooler).values()) == set(map(str, first))


def test_a_console_leaves_while_rows_are_sent(make_pooler, fake):
    pooler = sliced_pooler(make_pooler, fake)
    clients = connect_many(pooler)
    Slow(pooler).console.close()
    clients = close_others(pooler, clients)
    waiting.wait_for(lambda: moved(pooler) > 0, "some move after that")
    for client in clients:
        client.close()
    waiting.wait_for(lambda: len(pooler.show("CLIENTS")) == 1, "all have left")
    # The end of the process finds an answer that is not finished.
    clients = connect_many(pooler)
    Slow(pooler)


def test_a_worker_stops_while_rows_are_sent(make_pooler, fake):
    """Its rows that are left are missing, and the answer says so."""
    pooler = sliced_pooler(make_pooler, fake)
    clients = connect_many(pooler)
    slow = Slow(pooler)
    with tracer.stopped(pooler.pid, "worker 0"):
        rows, answer = slow.read()
    assert len(clients) // 2 < len(rows) < len(clients)
    assert "1 of the workers did not answer in time" in answer.notices[0].text()
    assert [client.value("select 1") for client in clients] == ["fake"] * len(clients)
    assert len([row for row in pooler.show("CLIENTS") if row["database"] == "db"]) == len(clients)
