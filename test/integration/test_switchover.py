"""SWITCHOVER between scripted servers: what it waits for, how it ends, and which commands it
excludes. test_failover.py runs it with real replication."""

import socket
import threading

import pytest

import fakeserver
import waiting
import wire
from test_roles import DEADLINE, Host, ask, entry, role_rows

PAUSED = "is paused and has no server connection in use"


def make(make_pooler, hosts, more="target_session_attrs=read-write", **settings):
    return make_pooler({"db": entry(hosts, more), "other": entry(hosts)}, settings=dict(
        {"pool_mode": "transaction", "switchover_timeout": 120, "log_connections": 0,
         "server_login_retry": 0.2, "log_disconnections": 0}, **settings))


@pytest.fixture
def two(fake):
    return [Host(fake, 3), Host(fake, 4, standby=True)]


def begin(pooler, what="db"):
    """Returns a console that has sent the command and waits."""
    console = pooler.console()
    console.send(wire.query("SWITCHOVER " + what))
    return console


def await_notice(console, text=PAUSED):
    notice = console.recv_until("NEC")[-1]
    assert notice.kind == "N" and text in notice.text(), notice


def await_end(console):
    """Returns the tag, or the text of the error."""
    last = console.recv_until("CE")[-1]
    console.recv_until("Z")
    return last.tag() if last.kind == "C" else last.text()


def is_paused(pooler):
    return pooler.show_one("DATABASES", name="db")["paused"] == "1"


def swap(hosts):
    hosts[0].change(standby=True)
    hosts[1].change(standby=False)


@pytest.mark.parametrize("kind", [14, 13])
@pytest.mark.parametrize("to, more", [
    ("", "target_session_attrs=read-write"), (" TO 127.0.0.4", "target_session_attrs=primary"),
    (" to \"127.0.0.4:%d\";", ""), ("", "load_balance_hosts=disable")])
def test_clients_wait_and_go_on_elsewhere(make_pooler, fake, kind, to, more):
    hosts = [Host(fake, 3, kind=kind), Host(fake, 4, kind=kind, standby=True)]
    pooler = make(make_pooler, hosts, more or "weight=1000000,1")
    with pooler.connect() as busy, pooler.connect() as idle:
        busy.query("begin")
        console = begin(pooler, "db" + (to % hosts[1].port if "%" in to else to))
        waiting.wait_for(lambda: is_paused(pooler), "it has begun", DEADLINE)
        idle.send(wire.query("select 1"))
        pooler.wait_pool(cl_waiting=1, sv_active=1)
        assert not console.has_data(0.1)
        assert busy.query("commit").tag == "COMMIT"
        await_notice(console)
        swap(hosts)
        assert await_end(console) == "SWITCHOVER"
        idle.finish()
        ask(busy)
        assert (hosts[0].queries(), hosts[1].queries()) == (0, 2)
    row = pooler.show("HOSTS")[1]
    assert (row["role"], row["state"]) == ("primary", "up")
    assert "switchover of database 'db': it goes on at 127.0.0.4:%d" % hosts[1].port in pooler.log()


class Slow(Host):
    """It finishes logins once its gate is open."""

    def __init__(self, *args, **more):
        self.gate = threading.Event()
        super().__init__(*args, **more)

    def script(self, session):
        self.gate.wait(DEADLINE)
        super().script(session)


class Unwatched(Host):
    """It lets the monitor in once its gate is open."""

    def __init__(self, *args, **more):
        self.gate = threading.Event()
        super().__init__(*args, **more)

    def script(self, session):
        more = self.report() if self.kind >= 14 else []
        session.recv_startup()
        if session.is_monitors():
            self.gate.wait(DEADLINE)
        session.send(fakeserver.welcome(parameters=fakeserver.PARAMETERS + more))
        session.serve([("pg_is_in_recovery", self.answer)])


@pytest.mark.parametrize("kind", [14, 13])
def test_the_serving_host_has_no_verdict_yet(make_pooler, fake, kind):
    """The command comes before the monitor's first answer: the host that serves is not the next
    one."""
    hosts = [Unwatched(fake, 3, kind=kind), Host(fake, 4, kind=kind, standby=True)]
    pooler = make(make_pooler, hosts, "load_balance_hosts=disable", role_check_period=0.1)
    with pooler.connect() as client:
        ask(client)
        console = begin(pooler)
        await_notice(console)
        hosts[0].gate.set()
        waiting.wait_for(lambda: role_rows(pooler)[0] == ("primary", "up"), "it is judged", DEADLINE)
        assert not console.has_data(0.3)
        swap(hosts)
        assert await_end(console) == "SWITCHOVER"
        ask(client)
    assert (hosts[0].queries(), hosts[1].queries()) == (1, 1)


def test_host_that_is_being_looked_at_for_the_first_time(make_pooler, fake):
    """It has served nobody yet, so it is no host of before."""
    hosts = [Host(fake, 3), Slow(fake, 4)]
    pooler = make(make_pooler, hosts)
    with pooler.connect() as client:
        ask(client)
        waiting.wait_for(lambda: hosts[1].server.sessions, "it is looked at", DEADLINE)
        console = begin(pooler)
        await_notice(console)
        hosts[0].change(standby=True)
        hosts[1].gate.set()
        assert await_end(console) == "SWITCHOVER"
        ask(client)
    assert (hosts[0].queries(), hosts[1].queries()) == (1, 1)


def fatal(code):
    return wire.error("FATAL", code, "not now")


class Stopping(Host):
    """While it stops, each login to it ends with `last` behind the answers of the step."""

    stops, step, last, ended = False, "", b"", 0

    def lose(self):
        """Its connections end."""
        for session in self.server.sessions:
            if not session.ended.is_set():
                session.sock.shutdown(socket.SHUT_RDWR)

    def script(self, session):
        if not self.stops:
            super().script(session)
            return
        self.end_login(session)
        self.ended += 1

    def end_login(self, session):
        if self.step == "TLS":
            session.recv_exact(8)
            session.send(self.last)
            return
        session.recv_startup()
        answers = {"password": wire.auth(3), "welcome": wire.auth(0),
                   "role": fakeserver.welcome()}.get(self.step, b"")
        session.send(answers)
        if self.step == "role":
            session.recv_until("Q")
        session.send(self.last)


@pytest.mark.parametrize("step", ["TLS", "startup", "password", "welcome", "role"])
@pytest.mark.parametrize("last", [fatal("57P01"), fatal("57P02"), fatal("57P03"), fatal("28000"),
                                  b""], ids=["57P01", "57P02", "57P03", "28000", "closed"])
def test_logins_that_fail_meanwhile(make_pooler, fake, step, last):
    """PostgreSQL stops, or starts, in the middle of logins of the pooler. Clients only wait."""
    hosts = [Stopping(fake, 3), Stopping(fake, 4, standby=True)]
    pooler = make(make_pooler, hosts, server_tls_sslmode="prefer" if step == "TLS" else "disable")
    with pooler.connect(user="plain_user") as client:
        ask(client)
        console = begin(pooler)
        await_notice(console)
        client.send(wire.query("select 1"))
        for host in hosts:
            host.stops, host.step, host.last = True, step, last
            host.lose()
        waiting.wait_for(lambda: min(host.ended for host in hosts) >= 2, "logins fail", DEADLINE)
        pooler.wait_pool(user="plain_user", cl_waiting=1)
        swap(hosts)
        for host in hosts:
            host.stops = False
        assert await_end(console) == "SWITCHOVER"
        client.finish()
    assert (hosts[0].queries(), hosts[1].queries()) == (1, 1)


@pytest.mark.parametrize("last, line", [
    (fatal("57P03"), "refuses: not now"), (b"", "down: ")], ids=["refused", "lost"])
def test_the_log_is_not_told_the_same_again(make_pooler, fake, last, line):
    """Looks come ten times per second, and a host that stays as it is is told once."""
    hosts = [Host(fake, 3), Stopping(fake, 4)]
    hosts[1].stops, hosts[1].step, hosts[1].last = True, "startup", last
    pooler = make(make_pooler, hosts, role_check_period=3600, log_disconnections=1)
    with pooler.connect() as client:
        ask(client)
        console = begin(pooler)
        await_notice(console)
        first = hosts[1].ended
        waiting.wait_for(lambda: hosts[1].ended >= first + 12, "looks", DEADLINE)
        pooler.admin.query("RESUME db")
        await_end(console)
    told = [text for text in pooler.log().splitlines() if "127.0.0.4:%d" % hosts[1].server.port in text]
    assert len(told) == 1 and line in told[0], told


def test_the_named_host_alone_is_used(make_pooler, fake):
    """Both hosts are writable, as when the old primary was not stopped."""
    hosts = [Host(fake, 3), Host(fake, 4)]
    pooler = make(make_pooler, hosts)
    with pooler.connect() as client:
        ask(client)
        for turn in (1, 0, 1):
            console = begin(pooler, "db TO 127.0.0.%d" % (3 + turn))
            assert await_end(console) == "SWITCHOVER"
            before = hosts[turn].queries()
            for _ in range(20):
                ask(client)
            assert hosts[turn].queries() == before + 20
        waiting.wait_for(lambda: [state for _, state in role_rows(pooler)] == ["unfit", "up"], "it is shown",
                         DEADLINE)


def test_transactions_that_do_not_end(make_pooler, two):
    """switchover_timeout ends the command, and no client sees an error."""
    pooler = make(make_pooler, two, switchover_timeout=0.3)
    with pooler.connect() as client, pooler.connect() as other:
        client.query("begin")
        text = await_end(begin(pooler))
        assert text == ("SWITCHOVER failed: switchover_timeout (0.3 seconds) is over: 1 server "
                        "connection is still in use; everything goes on as before")
        assert client.query("commit").tag == "COMMIT"
        ask(other)
    assert two[0].queries() == 1 and not is_paused(pooler)


def test_no_host_becomes_fit(make_pooler, two):
    pooler = make(make_pooler, two)
    with pooler.connect() as client:
        ask(client)
        pooler.admin.query("SET switchover_timeout = 1")
        console = begin(pooler)
        await_notice(console)
        client.send(wire.query("select 1"))
        text = await_end(console)
        assert text.startswith("SWITCHOVER failed: switchover_timeout (1 seconds) is over: no other "
                               "host has become fit: 127.0.0.3:"), text
        client.finish()
    assert two[0].queries() == 2


def test_the_old_host_may_come_back_as_what_it_was(make_pooler, two):
    """The old host becomes a standby and then the primary again: the administrator of PostgreSQL
    has changed their mind."""
    pooler = make(make_pooler, two)
    with pooler.connect() as client:
        ask(client)
        console = begin(pooler)
        await_notice(console)
        two[0].change(standby=True)
        waiting.wait_for(lambda: role_rows(pooler)[0][0] == "standby", "it is seen", DEADLINE)
        two[0].change(standby=False)
        assert await_end(console) == "SWITCHOVER"
        ask(client)
    assert two[0].queries() == 2


def test_refusals(make_pooler, two):
    pooler = make(make_pooler, two)
    pooler.databases["single"] = entry(two[:1])
    pooler.databases["twins"] = "host=127.0.0.3,127.0.0.3 port=1,2 load_balance_hosts=disable"
    pooler.change()
    admin = pooler.admin

    def refusal(sql):
        with pytest.raises(wire.Refused) as refused:
            admin.query(sql)
        return refused.value.text

    assert refusal("SWITCHOVER") == "a database is required"
    assert refusal("SWITCHOVER none") == "no such database: none"
    assert refusal("SWITCHOVER pgbouncer") == "cannot switch over admin db: pgbouncer"
    assert refusal("SWITCHOVER single") == "database single has one host only"
    assert refusal("SWITCHOVER other") == "database other uses several hosts at a time"
    assert refusal("SWITCHOVER db TO 127.0.0.9") == "database db has no host 127.0.0.9"
    assert refusal("SWITCHOVER twins TO 127.0.0.3") == "database twins has several hosts 127.0.0.3"
    assert refusal("SWITCHOVER db TO") == "invalid command 'SWITCHOVER db TO', use SHOW HELP;"
    admin.query("PAUSE db")
    assert refusal("SWITCHOVER db") == "database db is paused"
    admin.query("RESUME db")
    admin.query("PAUSE")
    assert refusal("SWITCHOVER db") == "already suspended/paused"
    admin.query("RESUME")
    with pytest.raises(wire.Refused):
        pooler.console("stats_user").query("SWITCHOVER db")
    # No client has used the database, so there is no connection to move and no role to check.
    assert admin.query("SWITCHOVER db TO 127.0.0.4").tag == "SWITCHOVER"
    assert role_rows(pooler) == [(None, "not tried")] * 2


def test_together_with_other_commands(make_pooler, two):
    pooler = make(make_pooler, two)
    with pooler.connect() as client, pooler.connect("other") as other:
        ask(client)
        ask(other)
        console = begin(pooler)
        await_notice(console)
        for sql, text in (("SWITCHOVER db", "database db is switching over"),
                          ("PAUSE db", "database db is switching over"),
                          ("SUSPEND", "cannot suspend with paused databases")):
            with pytest.raises(wire.Refused) as refused:
                pooler.admin.query(sql)
            assert refused.value.text == text
        # These commands are allowed during a SWITCHOVER.
        for sql in ("RECONNECT db", "DISABLE db", "ENABLE db", "PAUSE", "RESUME"):
            pooler.admin.query(sql)
        pooler.change()
        ask(other)
        swap(two)
        assert await_end(console) == "SWITCHOVER"
        ask(client)
    assert two[1].queries() >= 1


@pytest.mark.parametrize("how", ["resume", "cancel", "kill", "reload", "drop", "shutdown"])
def test_interrupted(make_pooler, two, how):
    pooler = make(make_pooler, two)
    with pooler.connect() as client:
        ask(client)
        console = begin(pooler, "db TO 127.0.0.4")
        await_notice(console)
        if how == "resume":
            pooler.admin.query("RESUME db")
        elif how == "cancel":
            console.cancel()
        elif how == "kill":
            pooler.admin.query("KILL db")
        elif how == "reload":
            pooler.databases["db"] = entry(two[:1])
            pooler.change()
        elif how == "drop":
            del pooler.databases["db"]
            pooler.change()
        else:
            pooler.admin.query("SHUTDOWN WAIT_FOR_CLIENTS")
        text = await_end(console)
        assert text.startswith("SWITCHOVER failed: "), text
        assert {"resume": "interrupted, and everything goes on", "cancel": "interrupted",
                "kill": "interrupted by KILL", "reload": "no such host any more",
                "drop": "the database was removed", "shutdown": "shutting down"}[how] in text
        if how == "kill":
            assert is_paused(pooler)
            pooler.admin.query("RESUME db")
        if how in ("kill", "drop"):
            client.expect_fatal("database removed")
        else:
            ask(client)
            assert two[0].queries() == 2
    if how == "shutdown":
        for one in pooler.consoles:
            one.close()
        assert pooler.wait_exit() == 0


def test_goes_on_without_its_console(make_pooler, two):
    pooler = make(make_pooler, two)
    with pooler.connect() as client:
        ask(client)
        console = begin(pooler)
        await_notice(console)
        pooler.consoles.remove(console)
        console.close()
        client.send(wire.query("select 1"))
        pooler.wait_pool(cl_waiting=1)
        swap(two)
        client.finish()
    assert two[1].queries() == 1
    # RESUME on another console interrupts the SWITCHOVER.
    with pooler.connect() as client:
        console = begin(pooler)
        await_notice(console)
        pooler.consoles.remove(console)
        console.close()
        pooler.admin.query("RESUME db")
        ask(client)
    waiting.wait_for(lambda: "failed: it was interrupted" in pooler.log(), "the log has it", DEADLINE)


@pytest.mark.parametrize("workers", [1, 3])
def test_every_pool_is_moved(make_pooler, two, workers):
    """The database has pools of several users, one of whom can no longer log in. Each worker has
    some of the clients; one of the workers has none."""
    pooler = make(make_pooler, two, workers=workers)
    clients = [pooler.connect(user=name) for name in ("trust_user", "second_user")]
    for client in clients:
        ask(client)
    console = begin(pooler)
    await_notice(console)
    swap(two)
    assert await_end(console) == "SWITCHOVER"
    for client in clients:
        ask(client)
    assert (two[0].queries(), two[1].queries()) == (2, 2)
