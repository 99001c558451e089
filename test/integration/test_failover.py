"""Two real servers in streaming replication: their roles, a planned SWITCHOVER, and a failover,
under load."""

import threading

import pytest

import documents
import programs
import replication
import waiting
import wire

DEADLINE = 120

TRANSFER = """
begin;
insert into moved values (1);
update counted set n = n + 1 where id = :client_id;
commit;
select sum(n) from counted;
"""


@pytest.fixture(scope="module")
def pair(pg_bin):
    made = replication.Pair(pg_bin)
    try:
        made.create()
        made.primary.do(
            "create table moved (n int)", "create table counted (id int primary key, n int)",
            "insert into counted select i, 0 from generate_series(0, 9) i",
            "grant all on moved, counted to public")
        made.wait_replayed()
        yield made
    finally:
        made.remove()


@pytest.fixture
def make(make_pooler, pair):
    def make(targets):
        return make_pooler(
            {name: pair.entry("target_session_attrs=%s pool_size=4" % target)
             for name, target in targets.items()},
            settings={"pool_mode": "transaction", "server_login_retry": 0.2,
                      "role_check_period": 0.2, "query_wait_timeout": 300, "query_wait_notify": 0,
                      "switchover_timeout": 300, "log_connections": 0, "log_disconnections": 0})
    return make


class Load:
    """Clients that insert rows, one transaction each. A client that fails connects again."""

    def __init__(self, pooler, clients=4):
        self.pooler, self.done, self.errors = pooler, 0, []
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(clients)]

    def run(self):
        client = None
        while not self.stop.is_set():
            try:
                client = client or self.pooler.connect()
                client.query("begin")
                client.query("insert into moved values (2)")
                assert client.query("commit").tag == "COMMIT"
                with self.lock:
                    self.done += 1
            except (wire.Refused, wire.Closed, OSError) as error:
                self.errors.append(error)
                client = client and client.close()
                self.stop.wait(0.05)
        if client:
            client.close()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(DEADLINE)

    def wait_more(self, count=40):
        target = self.done + count
        waiting.wait_for(lambda: self.done >= target, "load goes on: %s" % self.errors[-3:], DEADLINE)


class Bench:
    """Runs pgbench repeatedly until the end. No run may report an error."""

    def __init__(self, pooler, pg, protocol):
        script = pooler.write("transfer.sql", TRANSFER)
        # Each client needs its own thread: pgbench waits for the answer to a Parse, and meanwhile
        # does nothing for other clients of the thread, which may have open transactions.
        self.args = ("-n", "-M", protocol, "-f", script, "-c", 4, "-j", 4, "-t", 25)
        self.pooler, self.pg = pooler, pg
        self.stop, self.failure, self.done = threading.Event(), None, 0
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.stop.is_set():
                self.done += programs.pgbench(self.pooler, self.pg, *self.args)
        except AssertionError as failure:
            self.failure = failure

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(300)

    def wait_more(self):
        target = self.done + 1
        waiting.wait_for(lambda: self.done >= target or self.failure, "pgbench goes on", DEADLINE)
        assert not self.failure, self.failure


def roles(pooler):
    return {int(row["port"]): row["role"] for row in pooler.show("HOSTS")}


def test_each_value(make, pair):
    targets = ["any", "read-write", "read-only", "primary", "standby", "prefer-standby"]
    pooler = make({name: name for name in targets})
    seen = {}
    for name in targets:
        with pooler.connect(name) as client:
            seen[name] = client.value("select pg_is_in_recovery()")
    del seen["any"]
    assert seen == {"read-write": "f", "primary": "f", "read-only": "t", "standby": "t",
                    "prefer-standby": "t"}
    # For some databases only one host was tried: with several workers each begins at another one.
    known = {(int(row["port"]), row["role"]) for row in pooler.show("HOSTS") if row["role"]}
    assert known == {(pair.primary.port, "primary"), (pair.standby.port, "standby")}


@pytest.mark.parametrize("protocol", ["simple", "prepared"])
def test_switchover_under_load(make, pair, protocol):
    """Two switchovers, there and back, without a client error and without a lost row."""
    pair.primary.do("truncate moved", "update counted set n = 0")
    pooler = make({"db": "read-write"})
    with Load(pooler) as load, Bench(pooler, pair.primary, protocol) as bench:
        load.wait_more()
        bench.wait_more()
        for named in (False, True):
            console = pooler.console()
            to = " TO 127.0.0.1:%d" % pair.standby.port if named else ""
            console.send(wire.query("SWITCHOVER db" + to))
            notice = console.recv_until("NE")[-1]
            assert notice.kind == "N" and "no server connection in use" in notice.text(), notice
            pair.switch()
            end = console.recv_until("CE")[-1]
            assert end.kind == "C" and end.tag() == "SWITCHOVER", end
            console.finish()
            load.wait_more()
            bench.wait_more()
            assert roles(pooler)[pair.primary.port] == "primary"
    assert not load.errors, load.errors
    assert not bench.failure, bench.failure
    assert pair.primary.value("select count(*) from moved where n = 2") == str(load.done)
    assert pair.primary.value("select count(*) from moved where n = 1") == str(bench.done)
    assert pair.primary.value("select sum(n) from counted") == str(bench.done)


def test_failover_under_load(make, pair):
    """The primary dies and the standby is promoted. A client with an open transaction gets an
    error, every other client only waits, and the administrator does not have to act."""
    pooler = make({"db": "primary", "reports": "prefer-standby"})
    died = pair.primary
    with pooler.connect() as idle, pooler.connect("reports") as report, Load(pooler) as load:
        assert idle.value("select pg_is_in_recovery()") == "f"
        assert report.value("select pg_is_in_recovery()") == "t"
        load.wait_more()
        pair.wait_replayed()
        died.stop("QUIT")
        waiting.wait_for(lambda: not [s for s in pooler.show("SERVERS") if s["port"] == str(died.port)
                                      and s["state"] != "new"], "its connections are gone", DEADLINE)
        idle.send(wire.query("insert into moved values (3) returning pg_is_in_recovery()"))
        pooler.wait_pool(cl_waiting=1 + len(load.threads), deadline=DEADLINE)
        pair.promote()
        assert idle.finish().value == "f"
        errors = len(load.errors)
        load.wait_more()
        # The former standby, which served the reports, is the primary now and the only server left.
        assert report.value("select pg_is_in_recovery()") == "f"
        assert len(load.errors) == errors, load.errors
        waiting.wait_for(lambda: roles(pooler) == {died.port: None, pair.primary.port: "primary"},
                         "roles are followed", DEADLINE)
        # The old primary returns as a standby, and the pooler uses it as one.
        pair.make_standby()
        waiting.wait_for(lambda: report.value("select pg_is_in_recovery()") == "t",
                         "the new standby is used", DEADLINE)
        load.wait_more()
        assert len(load.errors) == errors, load.errors


RECIPE = "doc/recipes/failover.md"
SECRETS = {"shop": "recipe shop 3d7", "admin": "recipe admin 60e"}


@pytest.fixture
def shop(stage, pair):
    """The stage of the recipe, with its roles and database."""
    first, second = pair.primary, pair.standby
    pair.primary.do("create database shop", *["create role %s login password '%s'" % role for role in SECRETS.items()])
    pair.wait_replayed()
    made = stage(RECIPE, {
        "host=pg1,pg2": "host=127.0.0.1,127.0.0.1 port=%d,%d" % (first.port, second.port),
        "host=pg1 user=postgres": "host=127.0.0.1 port=%d user=owner" % first.port,
        "pg1 5432": "127.0.0.1 %d" % first.port, "pg2 5432": "127.0.0.1 %d" % second.port,
        "TO pg2": "TO 127.0.0.1:%d" % second.port, "pg2:5432": "127.0.0.1:%d" % second.port,
        "listen_addr = *": "listen_addr = 127.0.0.1"}, SECRETS)
    made.instead.update({
        "psql -U postgres -c checkpoint": lambda: pair.primary.do("checkpoint"),
        "pg_ctl stop -m fast": lambda: pair.primary.stop("INT"),
        "psql -U postgres -c 'select pg_promote()'": pair.promote,
        "pg_ctl promote": pair.promote})
    yield made
    for pooler in made.poolers.values():
        pooler.stop()
    pair.primary.do("drop database shop with (force)", *["drop role %s" % name for name in SECRETS])


def test_recipe(shop, pair):
    """A planned change gives nobody an error. A failover spares those who do nothing just then."""
    shop.play("Set up")
    switchover, begins = documents.commands(documents.blocks_of(RECIPE, "A planned change")[0])[0]
    with wire.Client("127.0.0.1", shop.port, "shop", "shop", SECRETS["shop"]).login() as writer:
        shop.play("See that it works")
        assert writer.value("select pg_is_in_recovery()") == "f"
        started = []
        shop.instead[switchover] = lambda: started.append(begin_switchover(shop, switchover, writer))
        shop.play("A planned change")
        assert writer.finish().value == "f"
        (process, notice), = started
        documents.assert_shown(switchover, begins + documents.blocks_of(RECIPE, "A planned change")[-1],
                               shop.shown(notice + process.communicate(timeout=DEADLINE)[0]))
        pair.follow()
        pair.wait_replayed()
        pair.primary.stop("QUIT")
        shop.wait_log("host pg2:5432: down: Connection refused")
        writer.send(wire.query("select pg_is_in_recovery()"))
        assert not writer.has_data(0.1)
        shop.play("When the primary fails")
        assert writer.finish().value == "f"


def begin_switchover(shop, command, writer):
    """Returns the console's process and its first line, when it waits for the next host. A client
    waits, too."""
    process = shop.begin(command)
    notice = process.stdout.readline()
    writer.send(wire.query("select pg_is_in_recovery()"))
    return process, notice
