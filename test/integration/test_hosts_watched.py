"""Databases whose hosts are watched by the monitor (host_hung_timeout): real servers that hang, refuse,
are promoted, and come back as a second primary."""

import socket
import struct
import threading
import time

import pytest

import fakeserver
import postgres
import replication
import waiting
import wire
from test_takeover import restart, wait_end  # noqa: F401 (restart is a fixture)

HUNG = 1.5
DEADLINE = 60


@pytest.fixture
def pair(pg_bin):
    made = replication.Pair(pg_bin)
    try:
        made.create()
        made.primary.do("create table moved (n int)", "grant all on moved to public")
        made.wait_replayed()
        yield made
    finally:
        for node in made.nodes:
            node.thaw()
        made.remove()


@pytest.fixture(params=[1, 4], ids=["1-worker", "4-workers"])
def make(request, make_pooler, pair):
    def make(targets, **settings):
        return make_pooler(
            {name: pair.entry("target_session_attrs=%s pool_size=4" % target)
             for name, target in targets.items()},
            settings=dict({"pool_mode": "transaction", "server_login_retry": 0.2, "workers": request.param,
                           "role_check_period": 30, "host_hung_timeout": HUNG, "query_wait_timeout": 100,
                           "query_wait_notify": 0, "log_connections": 0, "log_disconnections": 0}, **settings))
    return make


def rows_of(node, sql):
    with node.client() as owner:
        return owner.query(sql).rows


def show(pooler, name):
    return {int(row["port"]): row for row in pooler.show("HOSTS") if row["database"] == name}


def state(pooler, name, node):
    return show(pooler, name)[node.port]["state"]


def settled(pooler, name, pair, primary="up", standby="unfit"):
    """The monitor has told about both hosts."""
    waiting.wait_for(lambda: (state(pooler, name, pair.primary), state(pooler, name, pair.standby)) == (
        primary, standby), "both are known", DEADLINE)


class Writers:
    """Clients that insert numbered rows, and remember which were acknowledged."""

    def __init__(self, pooler, name, count=6):
        self.pooler, self.name = pooler, name
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.acknowledged, self.errors, self.next = [], [], 0
        self.threads = [threading.Thread(target=self.run) for _ in range(count)]

    def number(self):
        with self.lock:
            self.next += 1
            return self.next

    def run(self):
        client = None
        while not self.stop.is_set():
            n = self.number()
            try:
                client = client or self.pooler.connect(database=self.name)
                answer = client.query("insert into moved values (%d)" % n, check=False)
                with self.lock:
                    self.errors += answer.errors
                    if answer.tag == "INSERT 0 1":
                        self.acknowledged.append(n)
            except (wire.Refused, wire.Closed, OSError) as error:
                with self.lock:
                    self.errors.append(error)
                client = client and client.close()
        if client:
            client.close()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def go_on(self, what, more=30):
        """Waits until so many further rows are acknowledged."""
        with self.lock:
            least = len(self.acknowledged) + more
        waiting.wait_for(lambda: len(self.acknowledged) >= least, what, DEADLINE)


def test_a_primary_that_hangs_and_comes_back(make, pair):
    """Its clients go on at the new primary, and it gets no more writes when it is back."""
    old, new = pair.primary, pair.standby
    pooler = make({"db": "read-write"})
    with Writers(pooler, "db") as writers:
        writers.go_on("rows come")
        settled(pooler, "db", pair)
        # No acknowledged row may be lost: the standby has all of them before the primary hangs.
        old.do("alter system set synchronous_commit = on",
               "alter system set synchronous_standby_names = 'standby'", "select pg_reload_conf()")
        waiting.wait_for(lambda: old.value("select sync_state from pg_stat_replication") == "sync", "it is in force")
        pair.wait_replayed()
        writers.go_on("rows come from both")
        old.freeze()
        waiting.wait_for(lambda: state(pooler, "db", old) == "hangs", "it is noticed", DEADLINE)
        assert not writers.errors  # No other host serves: they are left in peace.
        began = time.monotonic()
        new.do("select pg_promote(true, 60)")
        writers.go_on("rows come from the new primary")
        assert time.monotonic() - began < 20
        assert writers.errors
        assert "pooler error: the host of the server does not answer, and another one serves" in pooler.log()
        old.thaw()
        old.do("alter system reset synchronous_standby_names", "select pg_reload_conf()")
        waiting.wait_for(lambda: state(pooler, "db", old) == "unfit", "it is back", DEADLINE)
        before = old.value("select count(*) from moved")
        writers.go_on("rows come from the new primary only", 200)
        assert old.value("select count(*) from moved") == before
        # While nobody uses the database, the hosts are not asked any more.
        pooler.wait_log("has two primaries that are up")
    rows = {int(row[0]) for row in rows_of(new, "select n from moved")}
    assert not set(writers.acknowledged) - rows
    log = pooler.log()
    assert " WARNING host 127.0.0.1:%d: hangs: no answer for 1.5 seconds" % old.port in log
    assert " LOG database \"db\" is read-write at 127.0.0.1:%d after " % new.port in log
    assert log.count("has two primaries that are up") == 1
    assert "older timeline" in show(pooler, "db")[old.port]["reason"]


class Cable:
    """A proxy before a server. Once it is cut, packets vanish: nothing passes on connections that are
    open, and the kernel drops the packets of those that begin, as the queue of the listener is full."""

    def __init__(self, port):
        self.target, self.is_cut, self.sockets = ("127.0.0.1", port), threading.Event(), []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.port = self.listener.getsockname()[1]
        self.acceptor = threading.Thread(target=self.accept, daemon=True)
        self.acceptor.start()

    def accept(self):
        self.listener.settimeout(0.05)
        while not self.is_cut.is_set():
            try:
                here, _ = self.listener.accept()
            except TimeoutError:
                continue
            there = socket.create_connection(self.target)
            self.sockets += [here, there]
            for source, target in ((here, there), (there, here)):
                threading.Thread(target=self.carry, args=(source, target), daemon=True).start()

    def carry(self, source, target):
        while True:
            try:
                data = source.recv(65536)
                if self.is_cut.is_set():
                    return
                target.sendall(data) if data else target.shutdown(socket.SHUT_WR)
            except OSError:
                return
            if not data:
                return

    def cut(self):
        self.is_cut.set()
        self.acceptor.join()

        def is_full():
            filler = socket.socket()
            filler.settimeout(1)
            self.sockets.append(filler)
            try:
                filler.connect(("127.0.0.1", self.port))
            except TimeoutError:
                return True
            return False

        waiting.wait_for(is_full, "the kernel drops packets", DEADLINE)

    def close(self):
        self.is_cut.set()
        self.acceptor.join()
        for sock in self.sockets + [self.listener]:
            sock.close()


@pytest.mark.parametrize("workers", [1, 4])
def test_a_host_that_is_powered_off(make_pooler, pair, workers):
    """Its packets vanish: it hangs, for those who log in and for those who wait for an answer. Nobody
    waits for a timeout of TCP or of the login."""
    cable = Cable(pair.primary.port)
    try:
        pooler = make_pooler(
            {"db": "host=127.0.0.1,127.0.0.1 port=%d,%d dbname=postgres target_session_attrs=read-write "
                   "pool_size=4" % (cable.port, pair.standby.port)},
            settings={"pool_mode": "transaction", "workers": workers, "role_check_period": 30,
                      "host_hung_timeout": HUNG, "server_connect_timeout": 3600, "query_wait_timeout": 3600,
                      "query_wait_notify": 0})
        with Writers(pooler, "db") as writers:
            writers.go_on("rows come")
            cable.cut()
            waiting.wait_for(lambda: show(pooler, "db")[cable.port]["state"] == "hangs", "it is noticed", DEADLINE)
            assert not writers.errors  # No other host serves: they are left in peace.
            pair.standby.do("select pg_promote(true, 60)")
            writers.go_on("rows come from the new primary")
            assert writers.errors
            pair.primary, pair.standby = pair.standby, pair.primary
        rows = {int(row[0]) for row in rows_of(pair.primary, "select n from moved")}
        assert set(writers.acknowledged[-30:]) <= rows
    finally:
        cable.close()


def test_a_host_that_refuses(make, pair):
    """Clients get the other host at once, and nobody is told; when it lets in again it is used."""
    refusing = pair.standby
    pooler = make({"db": "any"})
    lines = ["local replication all trust"] + postgres.hba_lines()
    refusing.set_hba(["host all all 127.0.0.1/32 reject"] + lines)
    clients = [pooler.connect(database="db") for _ in range(8)]
    for _ in range(5):
        for client in clients:
            assert client.value("select 1") == "1"
    waiting.wait_for(lambda: state(pooler, "db", refusing) == "refuses", "it is told", DEADLINE)
    row = show(pooler, "db")[refusing.port]
    assert "pg_hba.conf rejects connection" in row["last_error"]
    waiting.wait_for(lambda: state(pooler, "db", pair.primary) == "up", "the other one is up", DEADLINE)
    refusing.set_hba(lines)
    waiting.wait_for(lambda: state(pooler, "db", refusing) == "up", "it is back", DEADLINE)
    for client in clients:
        client.close()


REFUSING = {"rejected": "host all trust_user 127.0.0.1/32 reject",
            "password": "host all trust_user 127.0.0.1/32 md5"}


@pytest.mark.parametrize("way, refusing", [("rejected", "primary"), ("rejected", "standby"), ("password", "standby")])
def test_cold_pools_beside_a_host_that_refuses(make, pair, way, refusing):
    """No client gets an error, and none waits for server_login_retry, while another host of its database serves. The
    host that refuses is said to, and is used again soon after it lets in."""
    node = getattr(pair, refusing)
    node.set_hba(["local replication all trust", REFUSING[way]] + postgres.hba_lines())
    targets = ["any", "prefer-standby"] + (["read-write"] if refusing == "standby" else ["read-only"])
    pooler = make({target: target for target in targets}, server_login_retry=100)
    other = pair.standby if refusing == "primary" else pair.primary
    begun = time.monotonic()
    clients = [pooler.client(database=target) for target in targets for _ in range(6)]
    for client in clients:
        client.send(client.startup_packet())
    for client in clients:
        client.authenticate()
        assert int(client.value("select inet_server_port()")) == other.port
    assert time.monotonic() - begun < 50  # Far below server_login_retry, also on a slow machine.
    for target in targets:
        waiting.wait_for(lambda: state(pooler, target, node) == "refuses", "it is told", DEADLINE)
        error = show(pooler, target)[node.port]["last_error"]
        assert "password" in error or "pg_hba.conf rejects" in error, error
    node.set_hba(["local replication all trust"] + postgres.hba_lines())
    for target in targets:
        waiting.wait_for(lambda: state(pooler, target, node) in ("up", "unfit"), "it is back", 50)
    for client in clients:
        assert client.value("select 1") == "1"
        client.close()


@pytest.mark.parametrize("more", ["pool_size=4", "pool_size=1", "load_balance_hosts=disable"])
def test_a_primary_in_reserve(make, pair, more):
    """The only standby refuses the pool's user, and lets the monitor in. It is used again when it lets in."""
    port = "select inet_server_port()"
    pooler = make({"r": "prefer-standby"}, role_check_user="second_user")
    pooler.databases["r"] = pair.entry("target_session_attrs=prefer-standby " + more)
    pooler.change()
    with pooler.connect(database="r") as client:
        assert int(client.value(port)) == pair.standby.port
        settled(pooler, "r", pair, primary="unfit", standby="up")
        pair.standby.set_hba(["local replication all trust", REFUSING["rejected"]] + postgres.hba_lines())
        pooler.admin.query("RECONNECT r")
        for _ in range(50):
            assert int(client.value(port)) in (pair.primary.port, pair.standby.port)
        waiting.wait_for(lambda: int(client.value(port)) == pair.primary.port, "the primary is used", DEADLINE)
        assert state(pooler, "r", pair.standby) == "up"
        pair.standby.set_hba(["local replication all trust"] + postgres.hba_lines())
        waiting.wait_for(lambda: int(client.value(port)) == pair.standby.port, "the standby is used again", 5)


def test_a_login_that_was_refused_is_tried_again_within_a_second(make, pair):
    """server_login_retry does not keep a database from a host that lets its user in again."""
    pooler = make({"db": "read-write"}, server_login_retry=60, role_check_period=60)
    allowed = ["local replication all trust"] + postgres.hba_lines()
    with pooler.connect(database="db") as client:
        assert client.value("select 1") == "1"
        settled(pooler, "db", pair)
        pair.primary.set_hba(["local replication all trust", "host all trust_user 127.0.0.1/32 reject"]
                             + postgres.hba_lines())
        pooler.admin.query("KILL db")
        pooler.admin.query("RESUME db")
    refusal = pooler.refusal("db")
    assert "pg_hba.conf rejects" in refusal, refusal
    pair.primary.set_hba(allowed)
    repaired = time.monotonic()

    def serves():
        try:
            with pooler.connect(database="db") as client:
                return client.value("select 1") == "1"
        except wire.Refused:
            return False

    waiting.wait_for(serves, "it serves again", DEADLINE)
    assert time.monotonic() - repaired < 10  # Far below server_login_retry, also on a slow machine.


def test_clients_that_leave_when_they_are_refused(make, pair):
    """None of them is there when the monitor looks who needs the hosts. They are served as soon as others, and the
    log is told once."""
    pooler = make({"r": "read-only"}, server_login_retry=60)
    allowed = ["local replication all trust"] + postgres.hba_lines()

    def attempt():
        try:
            with pooler.connect(database="r") as client:
                client.sock.settimeout(10)
                return client.value("select 1") == "1"
        except (wire.Refused, wire.Closed):
            return False

    assert attempt()
    settled(pooler, "r", pair, primary="unfit", standby="up")
    pair.standby.set_hba(["local replication all trust", "host all trust_user 127.0.0.1/32 reject"] + postgres.hba_lines())
    pair.standby.do("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'trust_user'")
    waiting.wait_for(lambda: not attempt(), "they are refused", DEADLINE)
    mark, begun = pooler.mark(), time.monotonic()
    while time.monotonic() < begun + 5:
        assert not attempt()
        time.sleep(0.1)  # They try again and again, for a while.
    told = pooler.log_since(mark).count(" WARNING no host of database")
    assert told <= 1 + (time.monotonic() - begun) / 10, pooler.log_since(mark)
    pair.standby.set_hba(allowed)
    waiting.wait_for(attempt, "they are served", 10, pause=0.1)


def test_a_host_that_hangs_is_not_said_to_refuse(make, pair):
    """It refused the login before. Clients wait for it then, and are told what is the matter now."""
    pooler = make({"db": "read-write"}, query_wait_timeout=2, server_login_retry=60)
    with pooler.connect(database="db") as client:
        assert client.value("select 1") == "1"
        settled(pooler, "db", pair)
        pair.primary.set_hba(["local replication all trust", "host all trust_user 127.0.0.1/32 reject"]
                             + postgres.hba_lines())
        pooler.admin.query("KILL db")
        pooler.admin.query("RESUME db")
    assert "pg_hba.conf rejects" in pooler.refusal("db")
    pair.primary.freeze()
    waiting.wait_for(lambda: pooler.refusal("db") and state(pooler, "db", pair.primary) == "hangs", "it is noticed",
                     DEADLINE)
    mark = pooler.mark()
    refusal = pooler.refusal("db")
    assert "query_wait_timeout" in refusal, refusal
    said = pooler.log_since(mark)
    assert "rejects" not in said and "hangs" in said, said


def test_databases_at_rest_show_what_others_were_told(make, pair):
    """One that has no clients any more, and one that never had any, show the state of a host as the monitor knows
    it."""
    pooler = make({"used": "read-write", "rested": "read-write", "fresh": "read-write"})
    names = ["used", "rested", "fresh"]
    with pooler.connect(database="used") as writer:
        assert writer.value("select 1") == "1"
        pooler.connect(database="rested").close()
        settled(pooler, "used", pair)
        settled(pooler, "rested", pair)
        waiting.wait_for(lambda: int(pooler.pool("rested")["cl_active"]) + int(pooler.pool("rested")["cl_waiting"]) == 0,
                         "it has no clients", DEADLINE)
        pair.standby.freeze()
        waiting.wait_for(lambda: state(pooler, "used", pair.standby) == "hangs", "it is noticed", DEADLINE)
        seen = {row["database"]: (row["state"], row["role"], row["reason"]) for row in pooler.show("HOSTS")
                if row["database"] in names and int(row["port"]) == pair.standby.port}
        assert seen["rested"] == seen["fresh"] == seen["used"], seen
        pair.standby.thaw()
        waiting.wait_for(lambda: state(pooler, "used", pair.standby) == "unfit", "it is back", DEADLINE)
        shown = {row["database"]: (row["state"], row["role"]) for row in pooler.show("HOSTS")
                 if int(row["port"]) == pair.standby.port}
        assert shown["rested"] == shown["used"] == ("unfit", "standby"), shown


def test_a_planned_switch_moves_readers(make, pair):
    """Roles are followed at once, although role_check_period is long."""
    pooler = make({"w": "read-write", "r": "standby"})
    with pooler.connect(database="w") as writer, pooler.connect(database="r") as reader:
        port = "select inet_server_port()"
        assert int(writer.value(port)) == pair.primary.port
        assert int(reader.value(port)) == pair.standby.port
        settled(pooler, "w", pair)
        pair.switch()
        waiting.wait_for(lambda: int(writer.value(port)) == pair.primary.port, "writers follow", DEADLINE)
        waiting.wait_for(lambda: int(reader.value(port)) == pair.standby.port, "readers follow", DEADLINE)


@pytest.mark.parametrize("target", ["read-only", "standby", "prefer-standby"])
def test_readers_leave_a_chosen_host_that_is_promoted(make, pair, target):
    """What SWITCHOVER has chosen keeps nobody from the standby that is there afterwards."""
    pooler = make({"r": target}, role_check_period=1)
    with pooler.connect(database="r") as reader:
        reader.query("select 1")
        settled(pooler, "r", pair, primary="unfit", standby="up")
        said = pooler.admin.query("SWITCHOVER r TO 127.0.0.1:%d" % pair.standby.port)
        assert said.tag == "SWITCHOVER"
        pair.switch()
        waiting.wait_for(lambda: state(pooler, "r", pair.standby) == "up", "the standby is used", DEADLINE)
        assert int(reader.value("select inet_server_port()")) == pair.standby.port
        assert state(pooler, "r", pair.primary) == "unfit"


def test_servers_at_the_new_primary_stay(make, pair):
    """They are not closed as if their host still had its old role, whichever worker gets them. All databases see
    the same state and role of a host at any time."""
    new = pair.standby
    pooler = make({"db": "read-write", "more": "read-write"}, log_connections=1, host_hung_timeout=60)
    with Writers(pooler, "db") as writers, pooler.connect(database="more") as other:
        other.query("select 1")
        writers.go_on("they write")
        settled(pooler, "db", pair)
        pair.primary.stop("INT")
        begun = pooler.mark()
        pair.promote()
        seen = []
        for _ in range(20):
            seen += [pooler.show("HOSTS")]
            writers.go_on("they write at the new one", more=1)
        writers.go_on("they write at the new one", more=300)
        other.query("select 1")
    for rows in seen:
        one, two = ({row["port"]: (row["state"], row["role"]) for row in rows if row["database"] == name}
                    for name in ("db", "more"))
        assert one == two, rows
    told = pooler.log_since(begun)
    opened = told.count(":%d new connection to server" % new.port)
    assert 0 < opened <= 8 and "its host is not used" not in told, told
    pair.follow()


@pytest.mark.parametrize("to", ["", " TO old"])
@pytest.mark.parametrize("target", ["read-write", "any load_balance_hosts=disable"])
def test_switchover_to_an_older_primary(make, pair, target, to):
    """It comes back while SWITCHOVER waits for the next host. What is written there would be lost."""
    old, new = pair.primary, pair.standby
    port = "select inet_server_port()"
    pooler = make({"db": target}, switchover_timeout=100)
    old.stop("INT")
    pair.promote()
    with pooler.connect(database="db") as client:
        waiting.wait_for(lambda: client.value(port) == str(new.port), "the new one serves", DEADLINE)
        waiting.wait_for(lambda: state(pooler, "db", old) == "down", "it is known", DEADLINE)
        console = pooler.console()
        console.send(wire.query("SWITCHOVER db" + to.replace("old", '"127.0.0.1:%d"' % old.port)))
        assert "is paused and has no server connection in use" in console.recv_until("NEC")[-1].text()
        old.start()
        waiting.wait_for(lambda: show(pooler, "db")[old.port]["timeline"] == "1", "it is back", DEADLINE)
        assert not console.has_data(0.5)
        pooler.admin.query("RESUME db")
        assert client.value(port) == str(new.port)


@pytest.mark.parametrize("workers", [1, 4])
def test_switchover_after_an_online_restart(make_pooler, pair, restart, workers):  # noqa: F811
    """Servers that were taken over are paused as others are."""
    pooler = make_pooler({"db": pair.entry("target_session_attrs=read-write")}, settings={
        "pool_mode": "transaction", "workers": workers, "switchover_timeout": 100})
    with pooler.connect(database="db") as client:
        client.query("select 1")
        settled(pooler, "db", pair)
        mark = pooler.mark()
        wait_end(restart(pooler), pooler)
        settled(pooler, "db", pair)
        # Nothing has failed over.
        assert "no host of" not in pooler.log_since(mark) and "is read-write at" not in pooler.log_since(mark)
        console = pooler.console()
        console.send(wire.query("SWITCHOVER db"))
        assert "is paused and has no server connection in use" in console.recv_until("NEC")[-1].text()
        pair.switch()
        assert console.recv_until("CE")[-1].tag() == "SWITCHOVER"
        assert client.value("select inet_server_port()") == str(pair.primary.port)


def test_at_rest(make, pair):
    """One connection to each host, and no line of the log."""
    pooler = make({"w": "read-write", "r": "prefer-standby"}, role_check_period=0.3)
    with pooler.connect(database="w") as writer, pooler.connect(database="r") as reader:
        writer.query("select 1")
        reader.query("select 1")
        settled(pooler, "w", pair)
        asked = ("select count(*), coalesce(sum(extract(epoch from backend_start))::text, '') from pg_stat_activity"
                 " where query like '%pg_walfile_name%' and pid <> pg_backend_pid()")
        before = [rows_of(node, asked) for node in pair.nodes]
        lines = len(pooler.log().splitlines())
        time.sleep(2)  # Several periods, in which nothing may happen.
        assert [rows_of(node, asked) for node in pair.nodes] == before
        assert [rows[0][0] for rows in before] == ["1", "1"]
        told = [line for line in pooler.log().splitlines()[lines:] if "SHOW" not in line]
        assert not told


def test_a_database_at_rest_can_be_dropped(make, pair):
    """Neither its servers nor the monitor, which looks after them, keep it in use, and none is opened anew."""
    pair.primary.do("create database shop owner trust_user")
    pooler = make({"w": "read-write"}, session_state="keep", min_pool_size=1)
    pooler.databases["shop"] = pooler.databases["w"].replace("dbname=postgres", "dbname=shop")
    pooler.change()
    with pooler.connect(database="shop") as client:
        client.query("select 1")
    with pooler.connect(database="w") as client:
        assert client.query("drop database shop").tag == "DROP DATABASE"


def test_an_older_primary_after_a_restart(make, pair, restart):
    """The new process knows which primary was in force, although that one is down."""
    port = "select inet_server_port()"
    old, new = pair.primary, pair.standby
    pooler = make({"db": "read-write"})
    with pooler.connect(database="db") as client:
        assert int(client.value(port)) == old.port
        settled(pooler, "db", pair)
        old.stop("INT")
        pair.promote()
        assert int(client.value(port)) == new.port
        waiting.wait_for(lambda: show(pooler, "db")[new.port]["timeline"] == "2", "its timeline is known", DEADLINE)
        new.stop("INT")
        old.start()
        waiting.wait_for(lambda: state(pooler, "db", old) == "unfit", "the old one is back", DEADLINE)
        wait_end(restart(pooler), pooler)
        waiting.wait_for(lambda: state(pooler, "db", new) == "down", "the new process knows the hosts", DEADLINE)
        waiting.wait_for(lambda: state(pooler, "db", old) == "unfit", "the old one is not used", DEADLINE)
        assert "older timeline" in show(pooler, "db")[old.port]["reason"]
        client.send(wire.query(port))
        new.start()
        assert client.finish().value == str(new.port)


@pytest.mark.parametrize("limit", [{"max_replica_lag": 1}, {"max_replica_lag_bytes": 4096}],
                         ids=lambda limit: list(limit)[0])
def test_a_standby_that_is_behind(make, pair, limit):
    """It gets no clients until it has caught up, and SHOW HOSTS says how far it is behind."""
    port = "select inet_server_port()"
    pooler = make({"db": "prefer-standby"}, host_hung_timeout=0, **limit)
    with pooler.connect(database="db") as reader:
        waiting.wait_for(lambda: int(reader.value(port)) == pair.standby.port, "it reads at the standby", DEADLINE)
        settled(pooler, "db", pair, "unfit", "up")
        pair.standby.do("select pg_wal_replay_pause()")

        def is_left():
            pair.primary.do("insert into moved select n from generate_series(1, 100) n")
            return int(reader.value(port)) == pair.primary.port

        waiting.wait_for(is_left, "the standby is left", DEADLINE)
        row = show(pooler, "db")[pair.standby.port]
        assert (row["state"], row["reason"]) == ("unfit", "further behind than " + list(limit)[0])
        assert int(row["lag_bytes"]) > 4096
        # The hosts are asked more often than once in 30 s, role_check_period, though each query is over soon.
        assert (1000000 if "max_replica_lag" in limit else 0) <= int(row["lag_us"]) < 10000000
        assert show(pooler, "db")[pair.primary.port]["lag_us"] is None
        pair.standby.do("select pg_wal_replay_resume()")
        waiting.wait_for(lambda: int(reader.value(port)) == pair.standby.port, "it is used again", DEADLINE)


QUESTION = "pg_is_in_recovery"
TOO_LONG = struct.pack("!i", 2000000)


def primary_row(timeline="00000007"):
    columns = [(name, 25, -1) for name in ("recovery", "read_only", "timeline", "position")]
    return (wire.row_description(columns) + wire.data_row(["f", "off", timeline, "100"])
            + wire.command_complete("SELECT 1") + wire.ready())


def a_primary(session):
    session.login()
    session.serve([(QUESTION, primary_row())])


def two_hosts(fake, script):
    """A host that answers as the script says, and one that can be reached."""
    return fake(script, host="127.0.0.3"), fake(host="127.0.0.4")


def watched(make_pooler, servers, **settings):
    entry = "host=%s port=%s" % (",".join(s.host for s in servers), ",".join(str(s.port) for s in servers))
    return make_pooler({"db": entry}, settings=dict(
        {"pool_mode": "session", "host_hung_timeout": 30, "role_check_period": 0.1}, **settings))


def asked(server):
    """How often the monitor has asked this server, for each of its connections."""
    return [sum(QUESTION in sql for sql in session.queries()) for session in server.sessions]


def timeline(pooler, server):
    return show(pooler, "db")[server.port]["timeline"]


@pytest.mark.parametrize("code", ["57014", "42501"])
def test_a_question_that_fails(make_pooler, fake, code):
    """Only what the server lacks or forbids is not asked again; each connection begins anew."""
    failed = []

    def answer(session, sql):
        if "pg_walfile_name" not in sql:
            return (wire.row_description([("recovery", 25, -1), ("read_only", 25, -1)])
                    + wire.data_row(["f", "off"]) + wire.command_complete("SELECT 1") + wire.ready())
        if asked(server)[-1] == 3 or failed and session is failed[0] and code == "42501":
            failed.append(session)
            return wire.error("ERROR", code, "it has to be") + wire.ready()
        return primary_row()

    def script(session):
        session.login()
        session.serve([(QUESTION, answer)])

    server, other = two_hosts(fake, script)
    pooler = watched(make_pooler, (server, other))
    with pooler.connect() as client:
        client.query("select 1")
        waiting.wait_for(lambda: timeline(pooler, server) == "7", "the timeline is known", DEADLINE)
        waiting.wait_for(lambda: failed, "a question has failed", DEADLINE)
        if code == "42501":
            waiting.wait_for(lambda: timeline(pooler, server) == "0", "it is asked in short", DEADLINE)
            assert show(pooler, "db")[server.port]["reason"] == "timeline and lag cannot be asked for: it has to be"
            pooler.admin.query("RECONNECT")
        before = sum(asked(server))
        waiting.wait_for(lambda: sum(asked(server)) > before + 3, "it is asked again", DEADLINE)
        waiting.wait_for(lambda: timeline(pooler, server) == "7", "the whole question is answered again", DEADLINE)


@pytest.mark.parametrize("bad", [
    wire.message("S", b"server_version"), b"S" + TOO_LONG, b"D" + TOO_LONG, b"\0\0\0\0\0\0"],
    ids=["cut-parameter", "long-parameter", "long-row", "no-message"])
def test_an_answer_that_is_none(make_pooler, fake, bad):
    """The connection is closed, and the next one asks again."""
    def answer(session, sql):
        return bad if len(server.sessions) < 4 else primary_row()

    def script(session):
        session.login()
        session.serve([(QUESTION, answer)])

    server, other = two_hosts(fake, script)
    pooler = watched(make_pooler, (server, other))
    with pooler.connect() as client:
        client.query("select 1")
        waiting.wait_for(lambda: timeline(pooler, server) == "7", "an answer is understood", DEADLINE)
        assert client.value("select 1") == "fake"


@pytest.mark.parametrize("command", ["RECONNECT", "RELOAD"])
def test_the_connection_follows_the_entry(make_pooler, fake, command):
    """The monitor logs in anew when the servers of pools do."""
    server, other = two_hosts(fake, a_primary)
    pooler = watched(make_pooler, (server, other))

    def connections():
        return sum(count > 0 for count in asked(server))

    with pooler.connect() as client:
        client.query("select 1")
        waiting.wait_for(connections, "it is asked", DEADLINE)
        before = connections()
        if command == "RELOAD":
            pooler.databases["db"] += " connect_query='select 2'"
            pooler.change()
        else:
            pooler.admin.query(command)
        waiting.wait_for(lambda: connections() > before, "it is asked on another connection", DEADLINE)


def test_hosts_that_no_entry_has_are_left_alone(make_pooler, fake):
    servers = [fake(a_primary, host="127.0.0.%d" % i) for i in (3, 4, 5)]
    pooler = watched(make_pooler, servers)
    with pooler.connect() as client:
        client.query("select 1")
        waiting.wait_for(lambda: all(sum(asked(s)) for s in servers), "all are asked", DEADLINE)
        pooler.databases["db"] = "host=127.0.0.3,127.0.0.4 port=%d,%d" % (servers[0].port, servers[1].port)
        pooler.change()
        waiting.wait_for(lambda: all(session.ended.is_set() for session in servers[2].sessions),
                         "the third one has no connection", DEADLINE)
        count = sum(asked(servers[0]))
        waiting.wait_for(lambda: sum(asked(servers[0])) > count, "the first one is asked", DEADLINE)


def test_the_monitor_looks_with_any_settings(make_pooler, fake):
    """Also where no host ever counts as hanging, and one host has to have a role."""
    server = fake(a_primary, host="127.0.0.3")
    pooler = make_pooler({"db": server.conn(target_session_attrs="primary")},
                         settings={"host_hung_timeout": 0, "role_check_period": 0.1})
    with pooler.connect() as client:
        client.query("select 1")
        waiting.wait_for(lambda: sum(asked(server)) > 3, "it is asked", DEADLINE)


@pytest.mark.parametrize("is_let_in", [True, False], ids=["let-in", "refused"])
def test_user_of_the_monitor(make_pooler, fake, is_let_in):
    """It logs in as role_check_user. That this user is refused says nothing about those of pools."""
    users = []

    def script(session):
        session.recv_startup()
        user = dict(session.startup_params())["user"]
        users.append((user, session.is_monitors()))
        if user == "watcher" and not is_let_in:
            session.send(wire.error("FATAL", "28000", "no watchers here"))
            return
        session.send(fakeserver.welcome())
        session.serve([(QUESTION, primary_row())])

    server, other = two_hosts(fake, script)
    pooler = watched(make_pooler, (server, other), role_check_user="watcher")
    with pooler.connect() as client:
        client.query("select 1")
        if is_let_in:
            waiting.wait_for(lambda: timeline(pooler, server) == "7", "it is asked", DEADLINE)
        else:
            waiting.wait_for(lambda: show(pooler, "db")[server.port]["reason"] == "no watchers here", "it is told",
                             DEADLINE)
            assert show(pooler, "db")[server.port]["state"] == "up"
        clients = [pooler.connect() for _ in range(4)]
        for more in clients:
            more.query("select 1")
    assert ("watcher", True) in users and ("trust_user", False) in users
    assert ("watcher", False) not in users and ("trust_user", True) not in users


class Hung:
    """A client whose query runs at a host that hangs."""

    def __init__(self, pooler, name, node):
        self.client = pooler.connect(database=name)
        self.client.query("begin")
        node.freeze()
        self.client.send(wire.query("insert into moved values (-1)"))

    def is_told(self, *others):
        """others: what it may also be told."""
        error = self.client.recv_until("E")[-1]
        assert error.field("C") == "08006" and any(
            words in error.text() for words in ("does not answer",) + others), error
        self.client.close()
        return True


@pytest.mark.parametrize("named", [False, True], ids=["any", "to"])
def test_switchover_amid_a_hang(make, pair, named):
    """SWITCHOVER does not wait for servers of the host that hangs, and goes on at the promoted one."""
    old, new = pair.primary, pair.standby
    pooler = make({"db": "read-write"}, switchover_timeout=60)
    with pooler.connect(database="db") as other:
        assert other.value("select 1") == "1"
        settled(pooler, "db", pair)
        hung = Hung(pooler, "db", old)
        waiting.wait_for(lambda: state(pooler, "db", old) == "hangs", "it is noticed", DEADLINE)
        console = pooler.console()
        console.send(wire.query("SWITCHOVER db" + (" TO 127.0.0.1:%d" % new.port if named else "")))
        other.send(wire.query("select inet_server_port()"))
        new.do("select pg_promote(true, 60)")
        end = console.recv_until("CE")[-1]
        assert end.kind == "C" and end.tag() == "SWITCHOVER", end
        assert other.finish().value == str(new.port)
        assert hung.is_told()
        old.thaw()
        waiting.wait_for(lambda: state(pooler, "db", old) == "unfit", "the old one is back", DEADLINE)
        assert other.value("select inet_server_port()") == str(new.port)


@pytest.mark.parametrize("command", ["RECONNECT db", "PAUSE db"])
def test_commands_amid_a_hang(make, pair, command):
    """They wait for no server of a host that hangs as soon as another one serves."""
    old, new = pair.primary, pair.standby
    pooler = make({"db": "read-write"})
    with pooler.connect(database="db") as other:
        assert other.value("select 1") == "1"
        settled(pooler, "db", pair)
        hung = Hung(pooler, "db", old)
        waiting.wait_for(lambda: state(pooler, "db", old) == "hangs", "it is noticed", DEADLINE)
        console = pooler.console()
        console.send(wire.query(command))
        new.do("select pg_promote(true, 60)")
        end = console.recv_until("CE")[-1]
        assert end.kind == "C", end
        assert hung.is_told()
        pooler.admin.query("RESUME db", check=False)
        assert other.value("select inet_server_port()") == str(new.port)


@pytest.mark.parametrize("kept, is_noticed", [("role", False), ("none", True), ("none", False)],
                         ids=["a role", "no role, noticed", "no role"])
def test_a_reload_takes_the_host_that_hangs_away(make, pair, is_noticed, kept):
    """A client whose query hangs there is told, also when nobody looks after that host any more."""
    old, new = pair.primary, pair.standby
    pooler = make({"db": "read-write"})
    with pooler.connect(database="db") as other:
        assert other.value("select 1") == "1"
        settled(pooler, "db", pair)
        hung = Hung(pooler, "db", old)
        if is_noticed:
            waiting.wait_for(lambda: state(pooler, "db", old) == "hangs", "it is noticed", DEADLINE)
        new.do("select pg_promote(true, 60)")
        entry = "host=127.0.0.1 port=%d dbname=postgres pool_size=4" % new.port
        if kept == "role":
            entry += " target_session_attrs=read-write"
        pooler.databases["db"] = entry
        pooler.write_files()
        pooler.admin.query("RELOAD")
        assert other.value("select inet_server_port()") == str(new.port)
        # The promotion may be seen before the hang.
        assert hung.is_told() if is_noticed else hung.is_told("older primary")


def test_takeover_amid_a_failover(make, pair, restart):
    """-R while the primary hangs, and the promotion follows: writers go on in the new process."""
    old, new = pair.primary, pair.standby
    pooler = make({"db": "read-write"})
    with Writers(pooler, "db") as writers:
        writers.go_on("rows come")
        settled(pooler, "db", pair)
        hung = Hung(pooler, "db", old)
        waiting.wait_for(lambda: state(pooler, "db", old) == "hangs", "it is noticed", DEADLINE)
        before = restart(pooler)
        new.do("select pg_promote(true, 60)")
        writers.go_on("rows come from the new primary")
        assert hung.is_told()
        wait_end(before, pooler)
        old.thaw()
        waiting.wait_for(lambda: state(pooler, "db", old) == "unfit", "it is back", DEADLINE)
        writers.go_on("rows go on", 100)


PERIOD = 5


@pytest.mark.parametrize("command", [None, "RECONNECT db", "SWITCHOVER db"], ids=["none", "reconnect", "switchover"])
def test_a_promotion_beside_the_primary(make, pair, command):
    """The old primary runs on, where writers wait for a commit and fill the pool: all go on at the new one,
    no row that was acknowledged is missing there, and commands wait for none of the old servers."""
    old, new = pair.primary, pair.standby
    pooler = make({"db": "read-write"}, role_check_period=PERIOD, switchover_timeout=60)
    old.do("alter system set synchronous_commit = on",
           "alter system set synchronous_standby_names = 'standby'", "select pg_reload_conf()")
    waiting.wait_for(lambda: old.value("select sync_state from pg_stat_replication") == "sync", "it is in force",
                     DEADLINE)
    with pooler.connect(database="db") as holder, Writers(pooler, "db") as writers:
        holder.query("begin")
        writers.go_on("rows come")
        settled(pooler, "db", pair)
        console = pooler.console()
        if command:
            console.send(wire.query(command))
        new.do("select pg_promote(true, 60)")
        began, last = time.monotonic(), writers.next
        waiting.wait_for(lambda: int(new.value("select count(*) from moved where n > %d" % last)) > 5,
                         "rows come from the new primary", DEADLINE)
        assert time.monotonic() - began < PERIOD + 1
        error = holder.recv_until("E")[-1]
        assert error.field("C") == "08006" and "older primary" in error.text(), error
        if command:
            end = console.recv_until("CE")[-1]
            assert end.kind == "C", end
        writers.go_on("rows go on", 100)
    rows = {int(row[0]) for row in rows_of(new, "select n from moved")}
    assert not set(writers.acknowledged) - rows
    told = [error for error in writers.errors if not isinstance(error, (wire.Closed, OSError))]
    assert all("older primary" in error.text() for error in told), told
    assert "older timeline" in show(pooler, "db")[old.port]["reason"]


def test_users_with_other_rights(make_pooler, pair):
    """Hosts of several databases: one that refuses the user of one is used by the users of others."""
    lines = ["local replication all trust", "host all app_refused 127.0.0.1/32 reject"] + postgres.hba_lines()
    for node in pair.nodes:
        node.set_hba(lines)
    pooler = make_pooler(
        {"refused": pair.entry("target_session_attrs=read-write user=app_refused role_check_period=0.2"),
         "served": pair.entry("target_session_attrs=read-write user=trust_user role_check_period=0.5"),
         "read": pair.entry("target_session_attrs=standby user=trust_user")},
        settings={"pool_mode": "transaction", "host_hung_timeout": HUNG, "query_wait_timeout": 20, "workers": 4})
    with pooler.client(database="refused") as refused:
        refused.send(refused.startup_packet())
        error = refused.recv_until("E")[-1]
        assert "pg_hba.conf rejects" in error.text(), error
        with pooler.connect(database="served") as writer, pooler.connect(database="read") as reader:
            for _ in range(20):
                assert int(writer.value("select inet_server_port()")) == pair.primary.port
                assert int(reader.value("select inet_server_port()")) == pair.standby.port
            pair.primary.stop("INT")
            pair.promote()
            assert int(writer.value("select inet_server_port()")) == pair.primary.port
            pair.follow()
