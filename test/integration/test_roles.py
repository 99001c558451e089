"""target_session_attrs: which hosts are used, how the pooler learns their roles (reported or
queried), and what it does when roles change."""

import time

import pytest

import fakeserver
import waiting
import wire
from test_hosts import entry

DEADLINE = 40


class Host:
    """A scripted server whose role may change. With kind 14 it reports its role, with kind 13 the
    pooler has to query it."""

    def __init__(self, fake, number, standby=False, kind=14, **where):
        self.standby, self.read_only, self.kind = standby, False, kind
        self.server = fake(self.script, host="127.0.0.%d" % number, **where)
        self.host, self.port = self.server.host, self.server.port

    def report(self):
        return [("in_hot_standby", "on" if self.standby else "off"),
                ("default_transaction_read_only", "on" if self.read_only else "off")]

    def script(self, session):
        more = self.report() if self.kind >= 14 else []
        session.login(parameters=fakeserver.PARAMETERS + more)
        session.serve([("pg_is_in_recovery", self.answer), ("^insert", self.insert)])

    def answer(self, _session, _sql):
        values = ["t" if self.standby else "f", "on" if self.read_only else "off"]
        return (wire.row_description([("a", 16, 1), ("b", 25, -1)]) + wire.data_row(values)
                + wire.command_complete("SELECT 1") + wire.ready())

    def insert(self, _session, _sql):
        if self.standby or self.read_only:
            return wire.error("ERROR", "25006", "cannot execute INSERT") + wire.ready()
        return wire.command_complete("INSERT 0 1") + wire.ready()

    def change(self, **what):
        """Changes the role. Servers from PostgreSQL 14 on report this on all their connections."""
        before = self.report()
        self.__dict__.update(what)
        news = [pair for pair in self.report() if pair not in before]
        for session in self.open_sessions() if self.kind >= 14 else []:
            try:
                session.send(*[wire.parameter_status(*pair) for pair in news])
            except OSError:
                # The pooler may have closed it just now.
                if not session.ended.wait(DEADLINE):
                    raise

    def open_sessions(self):
        return [s for s in self.server.sessions if s.startup_code and not s.ended.is_set()]

    def queries(self, sql="select 1"):
        return sum(s.queries().count(sql) for s in self.server.sessions)


def role_rows(pooler):
    return [(row["role"], row["state"]) for row in pooler.show("HOSTS") if row["database"] == "db"]


def make(make_pooler, hosts, target, **settings):
    return make_pooler({"db": entry(hosts, "target_session_attrs=%s" % target)}, settings=dict(
        {"pool_mode": "transaction", "role_check_period": 0.2, "server_login_retry": 0.2,
         "log_connections": 0, "log_disconnections": 0}, **settings))


def ask(client, sql="select 1"):
    return client.query(sql)


@pytest.mark.one_worker  # Each worker balances its own connections.
@pytest.mark.parametrize("kind", [14, 13])
@pytest.mark.parametrize("target, used", [
    ("any", "psr"), ("read-write", "p"), ("read-only", "sr"), ("primary", "p"), ("standby", "s"),
    ("prefer-standby", "s")])
def test_each_value(make_pooler, fake, kind, target, used):
    """Among a standby, a primary and a host with read-only sessions, the pooler uses those that the
    value selects."""
    hosts = {"s": Host(fake, 3, standby=True, kind=kind), "p": Host(fake, 4, kind=kind),
             "r": Host(fake, 5, kind=kind)}
    hosts["r"].read_only = True
    pooler = make(make_pooler, list(hosts.values()), target, pool_mode="session")
    clients = [pooler.connect()]
    ask(clients[0])

    def known():
        rows = role_rows(pooler)
        return rows if all(role and state != "not tried" for role, state in rows) else None

    states = waiting.wait_for(known, "all roles are known", DEADLINE)
    assert [role for role, _ in states] == ["standby", "primary", "read-only"]
    assert [state == "up" for _, state in states] == [name in used for name in hosts]
    assert {state for _, state in states} <= {"up", "unfit"}
    clients += [pooler.connect() for _ in range(6)]
    for client in clients[1:]:
        ask(client)
    assert {name for name, host in hosts.items() if host.queries()} == set(used)


def test_globally_and_changed_at_run_time(make_pooler, fake):
    primary, standby = Host(fake, 3), Host(fake, 4, standby=True)
    pooler = make_pooler({"db": entry([primary, standby]),
                          "own": entry([primary, standby], "target_session_attrs=standby")},
                         settings={"target_session_attrs": "primary", "pool_mode": "transaction"})
    with pooler.connect() as client, pooler.connect("own") as other:
        ask(client)
        ask(other)
        assert (primary.queries(), standby.queries()) == (1, 1)
        pooler.admin.query("SET target_session_attrs = 'standby'")
        ask(client)
        assert (primary.queries(), standby.queries()) == (1, 2)
        pooler.wait_pool(sv_idle=1)
        pooler.change(target_session_attrs="read-write")
        ask(client)
        assert (primary.queries(), standby.queries()) == (2, 2)


def test_unknown_value(make_pooler):
    pooler = make_pooler({"db": "host=a target_session_attrs=master"}, start=False)
    code, _, err = pooler.run_ini()
    assert code == 1 and "invalid target_session_attrs: master" in err, err


@pytest.mark.one_worker  # Each worker has its own records of hosts.
@pytest.mark.parametrize("kind", [14, 13])
def test_promotion_is_seen_while_clients_wait(make_pooler, fake, kind):
    """No host is a primary. Waiting clients are served as soon as one becomes primary."""
    hosts = [Host(fake, n, standby=True, kind=kind) for n in (3, 4)]
    pooler = make(make_pooler, hosts, "read-write")
    with pooler.client() as client:
        client.send(client.startup_packet())
        waiting.wait_for(lambda: role_rows(pooler) == [("standby", "unfit")] * 2, "both are seen",
                         DEADLINE)
        hosts[1].change(standby=False)
        client.authenticate()
        ask(client)
    assert hosts[0].queries() == 0 and hosts[1].queries() == 1


def test_nobody_fits(make_pooler, fake):
    """Clients wait, and the final error names the role of each host."""
    standby, closed = Host(fake, 3, standby=True), waiting.PORTS.take()
    pooler = make_pooler(
        {"db": "host=127.0.0.3,127.0.0.4 port=%d,%d target_session_attrs=primary" % (
            standby.port, closed)},
        settings={"server_login_retry": 0.2, "log_connections": 0})
    states = "127.0.0.3:%d is unfit (it is a standby), 127.0.0.4:%d is down (Connection refused)" % (
        standby.port, closed)
    with pooler.client() as first, pooler.client() as second:
        first.send(first.startup_packet())
        waiting.wait_for(lambda: "WARNING no host of database \"db\" is primary now: " + states in pooler.log(), "both were tried", DEADLINE)
        pooler.admin.query("SET query_wait_timeout = '0.2'")
        second.send(second.startup_packet())
        msg = second.recv_until("E")[-1]
        assert msg.text() == "query_wait_timeout"
        assert msg.field("D") == "query_wait_timeout is 0.2; no host of database \"db\" is primary: " + states


@pytest.mark.one_worker  # Each worker has its own records of hosts.
def test_role_changes_on_idle_connections(make_pooler, fake):
    """A primary becomes read-only and reports it on its idle connections. The pooler closes them at
    once, long before the next check of roles."""
    first, second = Host(fake, 3), Host(fake, 4, standby=True)
    pooler = make(make_pooler, [first, second], "read-write", role_check_period=3600)
    with pooler.connect() as client:
        ask(client)
        waiting.wait_for(lambda: role_rows(pooler)[1] == ("standby", "unfit"), "both are known",
                         DEADLINE)
        first.change(read_only=True)
        waiting.wait_for(lambda: role_rows(pooler)[0] == ("read-only", "unfit"), "it is seen",
                         DEADLINE)
        second.change(standby=False)
        pooler.admin.query("SET role_check_period = '0.2'")
        pooler.wait_pool(sv_idle=0, sv_used=0)
        ask(client)
    assert (first.queries(), second.queries()) == (1, 1)


@pytest.mark.one_worker  # Each worker has its own records of hosts.
def test_servers_that_nobody_uses_follow_the_roles(make_pooler, fake):
    """The next client gets them at once, so the hosts are looked after also when the last client has left."""
    first, second = Host(fake, 3, kind=13), Host(fake, 4, standby=True, kind=13)
    pooler = make(make_pooler, [first, second], "read-write")
    with pooler.connect() as client:
        ask(client, "insert 1")
    waiting.holds_for(lambda: any(s.is_monitors() for s in first.open_sessions()), 1.5, "the monitor stays")
    first.change(standby=True)
    second.change(standby=False)
    pooler.wait_pool(sv_idle=0, sv_used=0)
    with pooler.connect() as client:
        ask(client, "insert 2")
    assert (first.queries("insert 2"), second.queries("insert 2")) == (0, 1)


@pytest.mark.one_worker  # Each worker has its own records of hosts.
def test_role_changes_on_a_linked_connection(make_pooler, fake):
    """The client may finish its transaction; then the connection is closed."""
    host, other = Host(fake, 3, standby=True), Host(fake, 4, standby=True)
    pooler = make(make_pooler, [host, other], "standby")
    with pooler.connect() as client:
        client.query("begin")
        used = host if host.open_sessions() else other
        unused = other if used is host else host
        used.change(standby=False)
        waiting.wait_for(lambda: ("primary", "unfit") in role_rows(pooler), "it is seen", DEADLINE)
        assert client.query("select 'linked still'").value == "fake"
        client.query("commit")
        ask(client)
        assert (used.queries(), unused.queries()) == (0, 1)
        waiting.wait_for(lambda: all(s.ended.is_set() for s in used.server.sessions
                                     if "begin" in s.queries()), "it is closed", DEADLINE)


@pytest.mark.one_worker  # Each worker has its own records of hosts.
def test_error_of_a_read_only_server_is_looked_into(make_pooler, fake):
    """An old server shows only by an error that it is read-only now."""
    first, second = Host(fake, 3, kind=13), Host(fake, 4, kind=13, standby=True)
    pooler = make(make_pooler, [first, second], "read-write", role_check_period=3600)
    with pooler.connect() as client:
        ask(client, "insert 1")
        first.change(read_only=True)
        second.change(standby=False)

        def is_seen():
            try:
                ask(client, "insert 2")
            except wire.Refused as refused:
                assert refused.code == "25006"
            return role_rows(pooler)[0] == ("read-only", "unfit")

        waiting.wait_for(is_seen, "the role is looked at", DEADLINE)
        pooler.admin.query("SET role_check_period = '0.2'")
        waiting.wait_for(lambda: second.queries("insert 2") or ask(client, "insert 2"),
                         "the other is used", DEADLINE)


@pytest.mark.one_worker  # Each worker begins at another host.
def test_servers_that_cannot_be_asked(make_pooler, fake):
    def script(session):
        session.login()
        session.serve([("recovery", wire.error("ERROR", "42883", "no such function") + wire.ready())])

    odd, good = fake(script, host="127.0.0.3"), Host(fake, 4, kind=13)
    pooler = make(make_pooler, [odd, good], "primary")
    with pooler.connect() as client:
        ask(client)
    assert good.queries() == 1
    row = pooler.show("HOSTS")[0]
    assert (row["role"], row["reason"]) == (None, "another primary is in force")
    waiting.wait_for(lambda: len([sql for s in odd.sessions for sql in s.queries() if "recovery" in sql]) >= 2,
                     "it was asked in long and in short", DEADLINE)


def test_preferred_standby_is_used_again(make_pooler, fake):
    primary = Host(fake, 3)
    closed = waiting.PORTS.take()
    pooler = make_pooler(
        {"db": "host=127.0.0.3,127.0.0.4 port=%d,%d target_session_attrs=prefer-standby" % (
            primary.port, closed)},
        settings={"pool_mode": "transaction", "server_login_retry": 0.2, "role_check_period": 0.2})
    with pooler.connect() as client:
        ask(client)
        assert primary.queries() == 1
        standby = Host(fake, 4, standby=True, port=closed)

        def is_used():
            ask(client)
            return standby.queries()

        waiting.wait_for(is_used, "the standby is used", DEADLINE)
        pooler.wait_pool(sv_active=0)
        before = primary.queries()
        for _ in range(5):
            ask(client)
        assert primary.queries() == before


def test_replication_finds_its_host(make_pooler, fake):
    hosts = [Host(fake, 3, standby=True), Host(fake, 4)]
    pooler = make(make_pooler, hosts, "primary")
    with pooler.connect(replication="database") as client:
        ask(client)
    assert (hosts[0].queries(), hosts[1].queries()) == (0, 1)


def test_old_news_do_not_count(make_pooler, fake):
    """While nobody used the database the roles have changed, which old servers do not report."""
    hosts = [Host(fake, 3, kind=13), Host(fake, 4, kind=13, standby=True)]
    pooler = make(make_pooler, hosts, "read-write", server_idle_timeout=0.2)
    with pooler.connect() as client:
        ask(client, "insert 1")
    waiting.wait_for(lambda: all(session.ended.is_set() for host in hosts for session in host.server.sessions),
                     "nobody is connected", DEADLINE)
    assert role_rows(pooler) == [("primary", "up"), ("standby", "unfit")]
    hosts[0].change(standby=True)
    hosts[1].change(standby=False)
    with pooler.connect() as client:
        ask(client, "insert 2")
    assert (hosts[0].queries("insert 2"), hosts[1].queries("insert 2")) == (0, 1)


def test_pools_are_filled_without_clients(make_pooler, fake):
    hosts = [Host(fake, 3, standby=True), Host(fake, 4)]
    more = "target_session_attrs=read-write user=trust_user min_pool_size=2"
    make_pooler({"db": entry(hosts, more)}, settings={"pool_mode": "transaction", "role_check_period": 0.2})
    waiting.wait_for(lambda: len([s for s in hosts[1].server.of_pools() if s.startup_code]) == 2, "two servers",
                     DEADLINE)
    assert not hosts[0].server.of_pools()


@pytest.mark.parametrize("workers", [1, 4])
def test_hosts_are_asked_once_per_period(make_pooler, fake, workers):
    """At rest, by all workers and for all databases together."""
    hosts = [Host(fake, 3), Host(fake, 4, standby=True)]
    pooler = make(make_pooler, hosts, "read-write", role_check_period=0.5, workers=workers)
    pooler.databases["more"] = entry(hosts, "target_session_attrs=prefer-standby")
    pooler.change()
    clients = [pooler.connect(name) for name in ("db", "more") for _ in range(4)]
    for client in clients:
        ask(client)

    def asked(host):
        return sum(len(s.queries()) for s in host.server.sessions if s.is_monitors())

    def six_take():
        """How long it takes until each host has been asked six times more."""
        begun, before = time.monotonic(), [asked(host) for host in hosts]
        waiting.wait_for(lambda: all(asked(host) >= n + 6 for host, n in zip(hosts, before)), "six", DEADLINE)
        return time.monotonic() - begun

    # They are asked more often for a while after the queries.
    waiting.wait_for(lambda: six_take() > 2.4, "rest", DEADLINE)
    assert [len([s for s in host.server.sessions if s.is_monitors()]) for host in hosts] == [1, 1]
    for client in clients:
        client.close()
