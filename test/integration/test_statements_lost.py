"""A client or a server is lost at each moment of a statement's life: who is touched is told what a direct connection
tells, or what protocol.md says; the statements of all others go on to work (protocol.md 11 and 12)."""

import os
import signal

import pytest

import fakeserver
import waiting
import wire
from test_prepare_unnamed import plain

SYNC, FLUSH = wire.sync(), wire.flush()
USER = "trust_user"
ADD = "select $1::int + 1"
OTHERS = "select $1::int + 100"
WAIT = "select 'waited', pg_advisory_xact_lock_shared(77)"
# PostgreSQL has sent a part of the second row.
ROWS = ("select repeat('x', 20000), case when n = 3 then pg_advisory_xact_lock_shared(77) end "
        "from generate_series(1, 4) n")
SETTINGS = {"pool_mode": "transaction", "default_pool_size": "4", "max_prepared_statements": "100",
            "prepare_unnamed": "2", "defer_begin": "1", "track_sql_prepare": "1", "server_login_retry": "0.1"}


def use(name, *values):
    return wire.bind("", name, values) + wire.execute() + SYNC


# What the client sends, and the type of the message that it waits for; "L": its server waits for a lock. Then what it
# sends behind the moment.
BLOCK = [(wire.query("begin"), "Z"), (wire.parse("p", ADD) + SYNC, "Z")]
MOMENTS = {
    "parse": ([(wire.parse("p", "select v from blocked") + FLUSH, "L")], SYNC),
    "parsed": ([(wire.parse("p", ADD) + FLUSH, "1")], use("p", "1")),
    "bound": ([(wire.parse("p", ADD) + wire.bind("", "p", ["1"]) + FLUSH, "2")], wire.execute() + SYNC),
    "rows": ([(wire.parse("p", ROWS) + use("p"), "D")], b""),
    "close": ([(wire.parse("p", WAIT) + wire.bind("", "p") + wire.execute() + wire.close("S", "p") + SYNC, "L")], b""),
    "flush": ([(wire.parse("p", ADD) + wire.bind("", "p", ["1"]) + wire.execute() + FLUSH, "C")], SYNC),
    "block": (BLOCK, use("p", "4") + wire.query("commit")),
    "block, in use": (BLOCK + [(wire.parse("w", WAIT) + use("w"), "L")], use("p", "4") + wire.query("commit")),
    "deferred": ([(wire.query("begin"), "Z")], wire.parse("p", ADD) + use("p", "1") + wire.query("commit")),
    "deferred, on its way": ([(wire.query("begin"), "Z"), (wire.parse("p", WAIT) + use("p"), "L")],
                             wire.query("commit")),
    "unnamed": ([(wire.parse("", ADD) + FLUSH, "1")], use("", "1")),
    "unnamed, in use": ([(wire.parse("", WAIT) + use(""), "L")], b""),
}
AT_REST = "deferred"  # The client has no server.
IN_A_PART = "rows"  # It has a part of a message, so that it gets no text of the pooler.
STOPPED, CRASHED = ("E", "FATAL", "57P01"), ("E", "FATAL", "08006")


@pytest.fixture(scope="module", autouse=True)
def table(cluster):
    cluster.do("create table blocked (v int)", "grant all on blocked to public")
    yield
    cluster.do("drop table blocked")


@pytest.fixture
def holder(pg):
    """Nobody can read the table, and what waits for the lock waits, until this connection is closed."""
    with pg.client() as client:
        client.query("begin; lock table blocked in access exclusive mode; select pg_advisory_xact_lock(77)")
        yield client


def are_blocked(pg, count):
    waiting.wait_for(lambda: pg.backends("wait_event_type = 'Lock'") == count, "%d wait for a lock" % count)


def go_to(pg, client, steps, blocked=1):
    for sent, kind in steps:
        client.send(sent)
        if kind == "L":
            are_blocked(pg, blocked)
        else:
            client.recv_until(kind)


def ending(client):
    """What the client hears until its connection ends, without rows: errors as severity and code."""
    heard = []
    try:
        while True:
            m = client.recv()
            heard.append((m.kind, m.field("S"), m.field("C")) if m.kind in "EN" else m.kind)
    except wire.Closed:
        return [one for one in heard if one not in ("D", "S")]


def rest(client, holder, more):
    """What the client hears when it goes on and nothing is in its way any more."""
    holder.query("rollback")
    heard = []
    client.send(more + wire.query("select 'end'"))
    while ("D", b"\0\1\0\0\0\3end") not in heard:
        heard.append(plain(client.recv()))
    return heard + [plain(m) for m in client.recv_until("Z")]


class Others:
    """Clients with statements of the same names, two of which have servers, one in a transaction."""

    def __init__(self, pooler):
        self.pooler = pooler
        self.all = [pooler.connect(user=USER) for _ in range(3)]
        self.named, self.sql, self.unnamed = self.all
        self.named.send(wire.parse("p", OTHERS) + SYNC)
        self.named.finish()
        self.sql.query("prepare p as select 'sql'")
        for text in (ADD, WAIT):
            for _ in range(3):
                self.unnamed.send(wire.parse("", text) + SYNC)
                self.unnamed.finish()
        self.check()
        self.named.query("begin")
        self.named.query("select 1")

    def check(self):
        self.named.send(use("p", "1"))
        assert self.named.finish().value == "101"
        assert self.sql.value("execute p") == "sql"
        self.unnamed.send(wire.parse("", ADD) + use("", "7"))
        assert self.unnamed.finish().value == "8"

    def check_on_all_servers(self):
        """Each has every server that there is, while new ones are made for the rest."""
        for one in self.all:
            for blocker in (b for b in self.all if b is not one):
                blocker.query("begin")
                blocker.query("select 1")
            self.check()
            for blocker in (b for b in self.all if b is not one):
                blocker.query("commit")

    def close(self):
        for one in self.all:
            one.close()


def check_views(pooler, clients):
    """What the views say of servers, clients and statements is so."""
    pool = pooler.wait_pool(cl_active=clients, cl_waiting=0, sv_active=0, sv_login=0)
    servers = pooler.show("SERVERS")
    assert sum(v for k, v in pool.items() if k in ("sv_idle", "sv_used", "sv_tested")) == len(servers) > 0
    held, takers = {}, [pooler.connect(user=USER) for _ in servers]
    for taker in takers:
        taker.query("begin")
        for name, in taker.query("select name from pg_prepared_statements where name like 'PGBOUNCER%'").rows:
            held[name] = held.get(name, 0) + 1
    said = {row["name"]: int(row["servers"]) for row in pooler.show("PREPARED_STATEMENTS") if row["servers"] != "0"}
    assert held == said
    assert {row["remote_pid"] for row in pooler.show("SERVERS")} == {row["remote_pid"] for row in servers}
    for taker in takers:
        taker.close()


def check_end(pooler, database="db"):
    """Nothing is left of clients that have gone."""
    pooler.wait_pool(database, cl_active=0, cl_waiting=0, sv_active=0)
    waiting.wait_for(lambda: not any(int(row["clients"]) for row in pooler.show("PREPARED_STATEMENTS")),
                     "no client has a statement")


def server_of(pooler, client):
    """The process id of its server; None: it has none."""
    row, = [row for row in pooler.show("CLIENTS") if int(row["port"]) == client.sock.getsockname()[1]]
    server = [s for s in pooler.show("SERVERS") if s["link"] == row["ptr"]]
    return server[0]["remote_pid"] if server else None


def killed(pooler, pg, client):
    row, = [row for row in pooler.show("CLIENTS") if int(row["port"]) == client.sock.getsockname()[1]]
    pooler.admin.query("KILL_CLIENT " + row["id"])


def terminated(pooler, pg, client):
    pid = server_of(pooler, client)
    assert pg.value("select pg_terminate_backend(%s)" % pid) == "t"


def reconnected(pooler, pg, client):
    pooler.admin.query("RECONNECT db")


def disabled(pooler, pg, client):
    pooler.admin.query("DISABLE db")
    assert "is disabled" in pooler.refusal("db", USER)
    pooler.admin.query("ENABLE db")


@pytest.fixture
def pooler(shared_pooler, pg):
    pooler = shared_pooler({"db": pg.conn(), "far": pg.conn()}, settings=SETTINGS)
    pooler.admin.query("RECONNECT")
    return pooler


@pytest.mark.parametrize("name", MOMENTS)
def test_the_touched_client_alone_is_told(pooler, pg, holder, name):
    """Its connection ends when it is killed, and as a direct one does when its server is terminated."""
    steps, _ = MOMENTS[name]
    others = Others(pooler)
    for event in (killed, terminated):
        if event is terminated and name == AT_REST:
            continue
        with pooler.connect(user=USER) as client:
            go_to(pg, client, steps)
            event(pooler, pg, client)
            wanted = [STOPPED]
            assert ending(client)[-1:] == ([] if (name, event) == (IN_A_PART, killed) else wanted)
        # A server that waits for a lock does not see that its connection has ended.
        pg.do("select pg_terminate_backend(pid, 5000) from pg_stat_activity where wait_event_type = 'Lock'")
        others.check()
    others.named.query("commit")
    others.check_on_all_servers()
    check_views(pooler, 3)
    others.close()
    check_end(pooler)


@pytest.mark.parametrize("event", [reconnected, disabled])
@pytest.mark.parametrize("name", MOMENTS)
def test_nobody_is_touched(pooler, pg, name, event):
    steps, more = MOMENTS[name]
    heard = []
    others = Others(pooler)
    for connect in (lambda: pg.client(USER), lambda: pooler.connect(user=USER)):
        with connect() as client, pg.client() as holder:
            holder.query("begin; lock table blocked in access exclusive mode; select pg_advisory_xact_lock(77)")
            go_to(pg, client, steps)
            if heard:
                event(pooler, pg, client)
                others.check()
            heard.append(rest(client, holder, more))
    assert heard[0] == heard[1]
    others.named.query("commit")
    others.check_on_all_servers()
    check_views(pooler, 3)
    others.close()
    check_end(pooler)


def at_all_moments(pooler, pg):
    """Clients at each of the moments."""
    clients, blocked = {}, 0
    for name, (steps, _) in MOMENTS.items():
        clients[name] = pooler.connect(user=USER)
        blocked += steps[-1][1] == "L" or name == "rows"
        go_to(pg, clients[name], steps, blocked)
    return clients


def test_the_whole_pool_is_killed(pooler, pg, holder):
    pooler.set("default_pool_size", "20")
    others = Others(pooler)
    with pooler.connect("far", user=USER) as far:
        far.send(wire.parse("p", ADD) + SYNC)
        far.finish()
        clients = at_all_moments(pooler, pg)
        pooler.admin.query("KILL db")
        for name, client in clients.items():
            assert ending(client)[-1:] == ([] if name == IN_A_PART else [("E", "FATAL", "57P04")]), name
        for client in others.all:
            assert ending(client) == [("E", "FATAL", "57P04")]
        assert not [row for row in pooler.show("SERVERS") if row["database"] == "db"]
        far.send(use("p", "1"))
        assert far.finish().value == "2"
    pooler.wait_pool("far", cl_active=0)
    pooler.admin.query("RECONNECT far")
    waiting.wait_for(lambda: not pooler.show("PREPARED_STATEMENTS"), "nobody has a statement")
    pooler.admin.query("RESUME db")
    others = Others(pooler)
    others.named.query("commit")
    others.check_on_all_servers()
    check_views(pooler, 3)
    others.close()


def test_postgresql_crashes(pooler, pg, holder):
    """All servers are lost together; who has none goes on with new ones."""
    pooler.set("default_pool_size", "20")
    others = Others(pooler)
    clients = at_all_moments(pooler, pg)
    pid = server_of(pooler, clients[IN_A_PART])
    os.kill(int(pid), signal.SIGKILL)
    for name, client in clients.items():
        if name != AT_REST:
            assert ending(client)[-1:] == ([] if name == IN_A_PART else [CRASHED]), name
    assert ending(others.named)[-1:] == [CRASHED]
    waiting.wait_for(pg.is_up, "it is up again")
    with clients[AT_REST] as client:
        client.send(wire.parse("p", ADD) + use("p", "1"))
        assert client.finish().value == "2"
        assert client.query("commit").tag == "COMMIT"
    others.named = others.all[0] = pooler.connect(user=USER)
    others.named.send(wire.parse("p", OTHERS) + SYNC)
    others.named.finish()
    others.check_on_all_servers()
    check_views(pooler, 3)
    others.close()
    check_end(pooler)


# ---- servers that end without a word


class Server:
    """Knows its statements, answers messages, and ends once, when it gets the last one of these in a row."""

    ends_at = None

    def __call__(self, session):
        session.login()
        held, seen = set(), ""
        while True:
            m = session.recv()
            if m.kind == "X":
                return
            seen += m.kind
            if self.ends_at and seen.endswith(self.ends_at.upper()):
                session.send(wire.data_row(["half"])[:7] if self.ends_at[-1] == "e" else b"")
                self.ends_at = None
                return
            session.send(self.answer(session, held, m))

    @staticmethod
    def answer(session, held, m):
        first, second = (m.body.split(b"\0") + [b""])[:2]
        if m.kind == "P":
            held.add(first)
        elif m.kind == "C":
            held.discard(first[1:])
        elif (m.kind == "B" and second not in held) or (m.kind == "D" and first[1:] not in held):
            return wire.error("ERROR", "26000", "it does not exist")
        return session.reply_to(m, ())


# What the client sends, where the server ends ("e": with a part of a row), and what the client has got by then.
TWO = wire.parse("p", "select 'a'") + SYNC + wire.parse("q", "select 'b'") + SYNC
ENDS = {
    "parse": (wire.parse("p", "select 'a'") + SYNC, "P", ""),
    "bind": (wire.parse("p", "select 'a'") + use("p"), "PCB", "1"),
    "execute": (wire.parse("p", "select 'a'") + use("p"), "BE", "12"),
    IN_A_PART: (wire.parse("p", "select 'a'") + use("p"), "Be", "12"),
    "sync": (wire.parse("p", "select 'a'") + use("p"), "ES", "12C"),
    "flush": (wire.parse("p", "select 'a'") + wire.bind("", "p") + wire.execute() + FLUSH, "EH", "12C"),
    "close of one that made room": (TWO, "PC", "1"),
    "made again": (TWO + use("p"), "PCSPCSP", "1Z1Z"),
    "used when made again": (TWO + use("p"), "PCB", "1Z1Z"),
    "close of a portal": (wire.parse("p", "select 'a'") + wire.bind("", "p") + wire.close("P") + SYNC, "BC", "12"),
    "describe": (wire.parse("p", "select 'a'") + wire.describe("S", "p") + SYNC, "PCD", "1"),
    "begin": (wire.query("begin"), "Q", ""),
    "behind a begin": (wire.query("begin") + wire.parse("p", "select 'a'") + use("p"), "QP", "CZ"),
    "unnamed": (wire.parse("", "select 'u'") + use(""), "PB", "1"),
}


@pytest.fixture(scope="module")
def ending_server():
    server = fakeserver.FakeServer()
    yield server
    server.close()


@pytest.mark.parametrize("name", ENDS)
def test_a_server_ends_at_a_message(shared_pooler, ending_server, name):
    sent, ends_at, heard = ENDS[name]
    pooler = shared_pooler({"db": ending_server.conn()}, settings=dict(
        SETTINGS, default_pool_size=1, max_prepared_statements=1, track_sql_prepare=0, defer_begin=0))
    pooler.admin.query("RECONNECT")
    ending_server.script = server = Server()
    with pooler.connect(user=USER) as touched, pooler.connect(user=USER) as other:
        other.send(wire.parse("o", "select 'o'") + SYNC)
        other.finish()
        server.ends_at = ends_at
        touched.send(sent)
        assert ending(touched) == list(heard) + ([] if name == IN_A_PART else [CRASHED])
        other.send(use("o"))
        assert other.finish().kinds() == "2CZ"
        other.send(TWO + use("q") + use("p") + wire.close("S", "p") + use("o"))
        assert "".join(other.finish().kinds() for _ in range(5)) == "1Z1Z2CZ2CZ32CZ"
    check_end(pooler)
    assert not ending_server.failures


# ---- while a server gets the statements of the one that it will replace


def is_blocked(pg):
    return pg.backends("wait_event_type = 'Lock' and query like '%from blocked'")


EVENTS = ("terminated", "RECONNECT", "KILL", "KILL_CLIENT", "DISABLE")


@pytest.mark.parametrize("event", EVENTS)
def test_while_a_server_gets_its_statements(shared_pooler, pg, holder, event):
    pooler = shared_pooler({name: pg.conn(server_lifetime=1) for name in EVENTS},
                           settings=dict(SETTINGS, default_pool_size=2))
    holder.query("rollback")
    client, other = pooler.connect(event, user=USER), pooler.connect(event, user=USER)
    client.send(wire.parse("p", ADD) + wire.parse("b", "select v from blocked") + SYNC)
    client.finish()
    holder.query("begin; lock table blocked in access exclusive mode")

    def copies():
        client.send(use("p", "1"))
        assert client.finish().value == "2"
        return is_blocked(pg)

    waiting.wait_for(copies, "a new server waits with its statements")
    if event == "terminated":
        pg.do("select pg_terminate_backend(pid, 5000) from pg_stat_activity where wait_event_type = 'Lock'")
    elif event == "KILL_CLIENT":
        other.query("begin; select 1")
        killed(pooler, pg, other)
        assert ending(other) == [STOPPED]
    else:
        pooler.admin.query("%s %s" % (event, event))
    if event == "KILL":
        assert ending(client) == ending(other) == [("E", "FATAL", "57P04")]
        pooler.admin.query("RESUME KILL")
        client = pooler.connect(event, user=USER)
        client.send(wire.parse("p", ADD) + wire.parse("c", "select 1") + SYNC)
        client.finish()
    client.send(use("p", "1"))
    assert client.finish().value == "2"
    if event == "DISABLE":
        pooler.admin.query("ENABLE DISABLE")
    holder.query("rollback")
    waiting.wait_for(lambda: not is_blocked(pg), "nothing is in its way")
    if event != "KILL":
        client.send(use("b") + use("p", "2"))
        assert (client.finish().tags, client.finish().value) == (["SELECT 0"], "3")
    client.close()
    other.close()
    check_end(pooler, event)
