"""LISTEN in transaction mode with session_state=keep: one connection listens for all clients."""

import contextlib
import os
import select
import signal
import subprocess
import threading

import pytest

import postgres
import toolchain
import waiting
import wire
from test_takeover import restart  # noqa: F401

LOST = "the connection that listened for this client is lost"
QUEUE = "too many notifications wait for the client (listen_queue_limit)"


def owner(pooler, user="owner", **more):
    """A client whose queries leave notifications to be received."""
    client = pooler.connect(user=user, **more)

    def recv_until(kinds):
        found = wire.Client.recv_until(client, kinds)
        for m in reversed([m for m in found if m.kind == "A"]):
            client.pending = wire.message("A", m.body) + client.pending
        return [m for m in found if m.kind != "A"]

    client.recv_until = recv_until
    return client


@pytest.fixture(params=[1, 4], ids=["1 worker", "4 workers"])
def workers(request):
    return request.param


@pytest.fixture
def make(make_pooler, pg):
    def made(size=4, hosts=None, **more):
        entry = pg.conn(pool_size=size, load_balance_hosts="disable")
        return make_pooler({"db": entry.replace("host=127.0.0.1", "host=" + (hosts or "127.0.0.1"))},
                           settings=dict({"pool_mode": "transaction", "session_state": "keep",
                                          "max_client_conn": 2000}, **more))

    return made


def listeners(pooler):
    return {row["id"]: row["channels"] for row in pooler.show("LISTENERS")}


def pool(pooler):
    """The pool of the tests' clients, all workers together."""
    return pooler.pool(user="owner")


def payload(message):
    """(channel, payload) of a notification."""
    assert message.kind == "A", message
    channel, text, rest = message.body[4:].split(b"\0")
    assert rest == b""
    return channel.decode(), text.decode()


def own_pid(client):
    return int.from_bytes(client.key[:4], "big")


def sender(message):
    return int.from_bytes(message.body[:4], "big")


def heard(client, count):
    return [payload(client.recv()) for _ in range(count)]


def is_silent(client, channel="fence"):
    """Is nothing on its way to the client but what is sent now?"""
    client.query("notify %s, 'end'" % channel)
    return payload(client.recv()) == (channel, "end")


def expect_end(client, text):
    """The client gets this error, and nothing behind it."""
    got = client.recv()
    assert got.kind == "E" and got.field("S") == "FATAL" and got.field("M") == text, got
    client.expect_closed()


def listening_pid(pooler):
    """The process id of the connection that listens: the only one in use without a client."""
    pids = [row["remote_pid"] for row in pooler.show("SERVERS")
            if row["state"] == "active" and not row["link"]]
    assert len(pids) == 1, pids
    return pids[0]


def simple(client, sql):
    return client.query(sql, check=False)


def extended(client, sql):
    client.send(wire.parse("", sql), wire.bind(), wire.execute(), wire.sync())
    return wire.Result(client.recv_until("Z"))


def named(client, sql):
    client.send(wire.parse("of_" + sql, sql), wire.sync())
    client.recv_until("Z")
    client.send(wire.bind(statement="of_" + sql), wire.execute(), wire.sync())
    return wire.Result(client.recv_until("Z"))


RUNS = pytest.mark.parametrize("run", [simple, extended, named], ids=["simple", "extended", "named"])


@RUNS
def test_one_connection_listens_for_all(make, workers, run):
    pooler = make(workers=workers)
    one, two, three = (owner(pooler) for _ in range(3))
    for client in (one, two):
        assert not run(client, "listen news").errors
    assert not run(two, 'listen "Other ""News"""').errors
    assert sorted(listeners(pooler).values()) == ["news", 'news, Other "News"']
    assert (pool(pooler)["cl_listening"], pool(pooler)["sv_pinned"]) == (2, 1)
    for number in range(50):
        run(three, "notify news, '%d'" % number)
    for client in (one, two):
        assert heard(client, 50) == [("news", str(n)) for n in range(50)]
    three.query("notify \"Other \"\"News\"\"\", 'x'")
    assert heard(two, 1) == [('Other "News"', "x")]
    assert not run(two, "unlisten news").errors
    three.query("notify news, 'last'")
    three.query("notify \"Other \"\"News\"\"\", 'y'")
    assert heard(two, 1) == [('Other "News"', "y")]
    assert heard(one, 1) == [("news", "last")]
    assert not run(one, "unlisten *").errors
    assert not run(two, 'unlisten "Other ""News"""').errors
    assert listeners(pooler) == {}
    waiting.wait_for(lambda: pool(pooler)["sv_pinned"] == 0, "the connection is closed")


def test_what_was_sent_before_is_not_heard(make, workers):
    """Also when the connection that listens is late with it."""
    pooler = make(3, workers=workers)
    one, two, three = owner(pooler), owner(pooler), owner(pooler)
    two.query("listen news")
    for number in range(20):
        (one, three)[number % 2].query("notify news, 'early %d'" % number)
        one.query("listen news")
        three.query("notify news, '%d'" % number)
        assert heard(one, 1) == [("news", str(number))]
        one.query("unlisten news")
    assert len(heard(two, 40)) == 40


def test_own_notification_comes_back(make):
    pooler = make()
    one, two = owner(pooler), owner(pooler)
    one.query("listen news")
    one.query("notify news, 'mine'")
    got = one.recv()
    assert payload(got) == ("news", "mine")
    assert sender(got) == own_pid(one)
    two.query("notify news, 'yours'")
    got = one.recv()
    assert sender(got) == own_pid(two)


NOTIFY = {
    "statement": "notify news, '%d'",
    "function": "select pg_notify('news', '%d')",
    "block": "begin; select 1; select pg_notify('news', '%d'); commit",
    "unknown function": "select tell('%d')",
    "trigger": "insert into told values ('%d')",
    "query with a change": "with more as (insert into told values ('%d') returning 1) select * from more",
}


@pytest.fixture
def notifying(pg):
    pg.do("create function tell(text) returns void language sql as 'select pg_notify(''news'', $1)'",
          "create table told (what text)", "grant all on told to public",
          "create function told() returns trigger language plpgsql as "
          "$$ begin perform pg_notify('news', new.what); return new; end $$",
          "create trigger told after insert on told for each row execute function told()")
    yield
    pg.do("drop table told", "drop function told", "drop function tell")


@pytest.mark.parametrize("how", NOTIFY.values(), ids=NOTIFY)
@RUNS
def test_senders_are_named_as_they_know_themselves(make, notifying, workers, how, run):
    """Also when another client gets the server at once, and when the sender has gone."""
    if ";" in how and run is not simple:
        pytest.skip("several statements")
    pooler = make(2, workers=workers)
    one, others = owner(pooler), [owner(pooler) for _ in range(4)]
    one.query("listen news")
    for _ in range(5):
        for other in others:
            run(other, how % own_pid(other))
    for _ in range(5):
        passing = owner(pooler)
        run(passing, how % own_pid(passing))
        passing.close()
    for _ in range(5):
        for other in others:
            other.send(wire.query(how % own_pid(other)))
        for other in others:
            other.recv_until("Z")
    for got in [one.recv() for _ in range(45)]:
        assert str(sender(got)) == payload(got)[1]


def test_sender_that_keeps_its_server(make):
    """It was linked before anybody listened; and one that listens at its own server."""
    pooler = make()
    one, two, pinned = owner(pooler), owner(pooler), owner(pooler)
    pinned.query("create temp table here (a int)")
    one.query("listen news")
    pinned.query("notify news, 'x'")
    assert sender(one.recv()) == own_pid(pinned)
    pinned.query("do $$ begin execute 'listen news'; end $$")
    for client in (pinned, two, one):
        client.query("notify news, 'x'")
        assert [sender(to.recv()) for to in (one, pinned)] == [own_pid(client)] * 2


def test_senders_of_another_user(make):
    pooler = make()
    one, two = owner(pooler), owner(pooler, user="second_user")
    others = [pooler.connect(user="trust_user") for _ in range(3)]
    for client in (one, two):
        client.query("listen news")
    for _ in range(5):
        for client in others:
            client.query("notify news, '%d'" % own_pid(client))
    for client in (one, two):
        for got in [client.recv() for _ in range(15)]:
            assert str(sender(got)) == payload(got)[1]


def test_connection_that_does_not_answer_is_not_waited_for(make):
    pooler = make(2)
    one, two, three = owner(pooler), owner(pooler), owner(pooler)
    one.query("listen news")
    pid = listening_pid(pooler)
    two.query("notify news, 'x'")
    assert sender(one.recv()) == own_pid(two)
    os.kill(int(pid), signal.SIGSTOP)
    try:
        for client in (three, two, three, two):
            client.query("notify news, 'y'")
    finally:
        os.kill(int(pid), signal.SIGCONT)
    got = [one.recv() for _ in range(4)]
    assert [payload(m)[1] for m in got] == ["y"] * 4
    # a server's process id, which no client has
    assert {sender(m) for m in got}.isdisjoint(map(own_pid, (one, two, three)))

    def are_told():
        for client in (three, two):
            client.query("notify news, 'z'")
        return [sender(one.recv()) for _ in range(2)] == [own_pid(three), own_pid(two)]

    waiting.wait_for(are_told, "it answers in time again, so that senders are told")


@pytest.fixture(params=["another's", "its own"])
def held(make, workers, request, pg):
    """(the pooler, who listens, who has notified, whose query waits, what ends the wait). The connection that
    listens does not answer, and for that a client waits that gets the server of another one, or listens."""
    pooler = make(2, "127.0.0.1," + pg.dir, workers=workers)  # both are the same
    one, two, three = owner(pooler), owner(pooler), owner(pooler)
    one.query("listen news")
    two.query("notify news, 'x'")
    assert heard(one, 1) == [("news", "x")]
    stopped = int(listening_pid(pooler))
    os.kill(stopped, signal.SIGSTOP)
    waits = three if request.param == "another's" else one
    waits.send(wire.query("select 'held'"))
    waiting.wait_for(lambda: any(row["link"] for row in pooler.show("SERVERS")), "it has a server")
    with contextlib.ExitStack() as stack:
        stack.callback(os.kill, stopped, signal.SIGCONT)
        yield pooler, one, two, waits, stack.close


def got_held(client):
    return wire.Result(client.recv_until("Z")).value == "held"


@pytest.mark.parametrize("is_late", [False, True], ids=["", "it never answers"])
def test_pause_while_a_query_waits_for_the_connection(held, is_late):
    """PAUSE waits for that query, and the connection is still there afterwards."""
    pooler, one, two, waits, end = held
    pooler.admin.send(wire.query("PAUSE"))
    assert not pooler.admin.has_data(0.2)
    if not is_late:
        end()
    assert got_held(waits)
    assert wire.Result(pooler.admin.recv_until("Z")).tag == "PAUSE"
    two.send(wire.query("notify news, 'y'"))
    assert not two.has_data(0.2)
    if is_late:
        end()
    pooler.admin.query("RESUME")
    two.recv_until("Z")
    assert heard(one, 1) == [("news", "y")]


@pytest.mark.parametrize("is_late", [False, True], ids=["", "it never answers"])
def test_switchover_while_a_query_waits_for_the_connection(held, pg, is_late):
    """SWITCHOVER waits for that query; the others go on at the next host, and who listens is told."""
    pooler, one, two, waits, end = held
    pooler.admin.send(wire.query('SWITCHOVER db TO "%s:%d"' % (pg.dir, pg.port)))
    assert not pooler.admin.has_data(0.2)
    if not is_late:
        end()
    assert got_held(waits)
    assert not wire.Result(pooler.admin.recv_until("Z")).errors
    assert two.value("select inet_server_addr() is null") == "t"
    assert one.recv_until("E")[-1].field("M") == LOST
    if is_late:
        end()
    new = owner(pooler)
    new.query("listen news")
    two.query("notify news, 'y'")
    assert heard(new, 1) == [("news", "y")]


def test_reload_while_a_query_waits_for_the_connection(held, pg):
    """The database has moved: the query is served, and who listens is told."""
    pooler, one, two, waits, end = held
    pooler.databases["db"] = pg.conn(dbname="template1", pool_size=2)
    pooler.change()
    end()
    assert waits is one or got_held(waits)
    assert two.value("select current_database()") == "template1"
    assert one.recv_until("E")[-1].field("M") == LOST


def test_kill_while_a_query_waits_for_the_connection(held):
    pooler, one, two, waits, end = held
    pooler.admin.query("KILL db")
    pooler.admin.query("RESUME db")
    for client in (one, two, waits):
        client.sock.settimeout(10)
        with pytest.raises((wire.Closed, ConnectionError)):
            while True:
                client.recv()
    end()
    new = owner(pooler)
    new.query("listen news")
    new.query("notify news, 'z'")
    assert heard(new, 1) == [("news", "z")]


def test_settings_of_the_first_client_end(make):
    """They would end the connection that listens for all."""
    pooler = make()
    one = owner(pooler, DateStyle="Postgres, DMY", TimeZone="Asia/Tokyo")
    one.query("set idle_session_timeout = 100")
    one.query("listen news")
    waiting.holds_for(lambda: len(pooler.show("listeners")) == 1, 0.5, "it listens")


def test_what_was_sent_before_comes_before_the_end_of_a_query(make, workers):
    """As from PostgreSQL: also before the end of UNLISTEN, and nothing behind it."""
    pooler = make(workers=workers)
    one, two = pooler.connect(user="owner"), owner(pooler)
    for number in range(20):
        assert one.query("listen news").kinds() == "CZ"
        two.query("notify news, 'other'")
        assert sorted(one.query("select 1").kinds()) == ["A", "C", "D", "T", "Z"]
        assert one.query("notify news, 'own'").kinds() == "CAZ"
        two.query("notify news, 'last'")
        assert sorted(one.query("unlisten news" if number % 2 else "unlisten *").kinds()) == ["A", "C", "Z"]
        two.query("notify news, 'nobody'")
        assert one.query("select 1").kinds() == "TDCZ"


# Statements, and what is listened to behind them; "was" is listened to before.
EFFECTS = [
    (["begin", "listen news", "commit"], ["was", "news"]),
    (["begin", "listen news", "rollback"], ["was"]),
    (["begin", "listen news", "select 1 / length(left(current_user, 0))", "commit"], ["was"]),
    (["begin", "savepoint a", "listen news", "rollback to a", "commit"], ["was"]),
    (["begin", "savepoint a", "listen news", "release a", "listen more", "commit"], ["was", "news", "more"]),
    (["listen news; listen more"], ["was", "news", "more"]),
    (["listen news; select 1 / length(left(current_user, 0))"], ["was"]),
    (["begin; listen news; commit; select 1"], ["was", "news"]),
    (["listen was"], ["was"]),
    (["unlisten was"], []),
    (["unlisten WAS"], []),
    (['unlisten "WAS"'], ["was"]),
    (["unlisten *"], []),
    (["discard all"], []),
    (["unlisten other"], ["was"]),
    (["begin", "unlisten was", "commit"], []),
    (["begin", "unlisten was", "rollback"], ["was"]),
    (["begin", "unlisten *", "rollback"], ["was"]),
    (["begin", "unlisten was", "select 1 / length(left(current_user, 0))", "commit"], ["was"]),
    (["begin", "savepoint a", "unlisten was", "rollback to a", "commit"], ["was"]),
    (["begin", "unlisten was", "savepoint a", "select 1", "rollback to a", "commit"], []),
    (["begin", "savepoint a", "unlisten was", "release a", "commit"], []),
    (["unlisten was; select 1 / length(left(current_user, 0))"], ["was"]),
    (["begin; unlisten was; commit; select 1 / length(left(current_user, 0))"], []),
    (["begin; unlisten was; rollback"], ["was"]),
    (["begin; unlisten was; rollback; unlisten was"], []),
    (["unlisten was; listen news"], ["news"]),
    (["begin", "listen news", "unlisten *", "listen more", "commit"], ["more"]),
    (["begin", "unlisten was", "listen was", "commit"], ["was"]),
]


@pytest.mark.parametrize("sql,left", EFFECTS, ids=["; ".join(e[0]) for e in EFFECTS])
def test_effects_come_with_the_commit(make, sql, left):
    pooler = make(log_pooler_errors=0)
    one, other = owner(pooler), owner(pooler)
    one.query("listen was")
    for statement in sql:
        simple(one, statement)
    want = ", ".join(left)
    assert ", ".join(listeners(pooler).values()) == want
    for channel in ("was", "news", "more"):
        other.query("notify %s, 'x'" % channel)
    assert heard(one, len(left)) == [(c, "x") for c in ("was", "news", "more") if c in left]
    one.query("listen fence")
    assert is_silent(one)
    assert one.value("select count(*) from pg_listening_channels()") == "0"


def test_pipeline(make):
    """What is behind a LISTEN in a pipeline runs when it is in force."""
    pooler = make()
    one, two = owner(pooler), owner(pooler)
    two.query("listen other")
    batch = [wire.parse("", "listen news"), wire.bind(), wire.execute(), wire.sync()]
    batch += [wire.parse("", "select pg_notify('news', 'a')"), wire.bind(), wire.execute(), wire.sync()]
    batch += [wire.query("begin"), wire.query("listen more"), wire.query("commit; select 1"),
              wire.query("select 2")]
    one.send(*batch)
    kinds = []
    while kinds.count("Z") < 6:
        kinds.append(one.recv().kind)
    while "A" not in kinds:
        kinds.append(one.recv().kind)
    assert kinds.count("A") == 1 and "E" not in kinds
    assert sorted(listeners(pooler).values()) == ["news, more", "other"]
    two.query("notify more, 'b'")
    assert heard(one, 1) == [("more", "b")]


def test_discard_all_with_an_error_behind_it(make):
    """PostgreSQL has committed it by then."""
    pooler = make(log_pooler_errors=0)
    one, other = owner(pooler), owner(pooler)
    one.query("listen news")
    one.send(*[part for sql in ("discard all", "select 1 / length(left(current_user, 0))")
               for part in (wire.parse("", sql), wire.bind(), wire.execute())], wire.sync())
    assert len(wire.Result(one.recv_until("Z")).errors) == 1
    assert listeners(pooler) == {}
    other.query("notify news, 'x'")
    one.query("listen fence")
    assert is_silent(one)


def test_within_a_transaction_it_waits(make):
    pooler = make()
    one, two = pooler.connect(user="owner"), owner(pooler)
    one.query("listen news")
    one.query("begin")
    for number in range(3):
        two.query("notify news, '%d'" % number)
    assert [m.kind for m in one.query("select 1").messages if m.kind == "A"] == []
    waiting.wait_for(lambda: int(pooler.show("LISTENERS")[0]["queue"]) > 0, "it waits")
    assert [m.kind for m in one.query("select 1").messages if m.kind == "A"] == []
    one.send(wire.query("commit"))
    got = [one.recv() for _ in range(5)]
    assert [m.kind for m in got] == ["C", "A", "A", "A", "Z"]
    assert [payload(m)[1] for m in got if m.kind == "A"] == ["0", "1", "2"]


@pytest.mark.parametrize("name", ["\x02", "\x02news", "." * 63, "." * 70])
def test_unlisten_of_a_strange_name(make, name):
    pooler = make()
    one, two = owner(pooler), owner(pooler)
    one.query('listen "%s"' % name)
    one.query('listen news')
    one.query('unlisten "%s"' % name)
    two.query('notify "%s"' % name[:63])
    two.query("notify news")
    assert [channel for channel, _ in heard(one, 1)] == ["news"]


def test_listens_again_within_a_transaction(make):
    """Its own server listens, too, from the COMMIT on: what waits from before comes first, and nothing twice."""
    pooler = make()
    one, two = owner(pooler), owner(pooler)
    one.query("listen news")
    one.query("listen other")
    one.query("begin")
    one.query("listen news")
    one.query("unlisten other")
    two.query("notify other, 'left'")
    two.query("notify news, 'before'")
    waiting.wait_for(lambda: int(pooler.show("LISTENERS")[0]["queue"]) > 40, "both wait")
    one.query("notify news, 'mine'")
    one.send(wire.query("commit"))
    got = one.recv_until("Z")
    texts = [payload(m)[1] for m in got if m.kind == "A"]
    while len(texts) < 2:
        texts.append(heard(one, 1)[0][1])
    assert texts == ["before", "mine"]
    assert is_silent(one, "news")


def test_a_notification_while_the_server_is_asked(make_pooler, fake):
    """It comes behind the LISTEN, before the answer to the question what is left: the client gets its
    ReadyForQuery all the same."""
    def script(session):
        session.login()
        text = ""
        while True:
            msg = session.recv()
            if msg.kind == "X":
                return
            if msg.kind == "P":
                text = msg.body.decode()
            if msg.kind == "E" and "pg_listening_channels" in text:
                session.send(wire.message("A", b"\0\0\0\1news\0x\0") + wire.data_row(["l", "news"]))
            session.send(session.reply_to(msg, [("listen", wire.command_complete("LISTEN") + wire.ready())]))

    pooler = make_pooler({"db": fake(script).conn(pool_size=4)},
                         settings={"pool_mode": "transaction", "session_state": "keep"})
    client = pooler.connect()
    client.send(wire.query("listen news"))
    assert [m.kind for m in client.recv_until("Z")] == ["C", "A", "Z"]
    assert client.query("begin").messages[-1].kind == "Z"


def test_hosts_that_share_no_notifications(make_pooler, pg, own_cluster, workers):
    """The connection is at the one, and a client's server at the other: it is told so, and nobody else notices."""
    entry = pg.conn(pool_size=8).replace("host=127.0.0.1", "host=127.0.0.1,127.0.0.1").replace(
        "port=%d" % pg.port, "port=%d,%d" % (pg.port, own_cluster.port))
    pooler = make_pooler({"db": entry}, settings={"pool_mode": "transaction", "session_state": "keep",
                                                  "workers": workers})
    first = owner(pooler)
    first.query("listen news")
    holders, error = [], None
    while not error and len(holders) < 3:
        client = owner(pooler)
        client.query("begin")
        client.query("listen news")
        client.send(wire.query("commit"))
        error = next((m for m in client.recv_until("EZ") if m.kind == "E"), None)
        holders.append(owner(pooler))
        holders[-1].query("begin")
    assert error and "does not hear this client's server" in dict(error.fields())["M"], error
    assert list(listeners(pooler).values()).count("news") == len(holders)
    for server in (pg, own_cluster):
        server.do("notify news, 'x'")
    assert heard(first, 1) == [("news", "x")]


def test_inside_a_function_it_pins(make):
    pooler = make()
    one, two = owner(pooler), owner(pooler)
    one.query("do $$ begin execute 'listen news'; end $$")
    assert [row["kinds"] for row in pooler.show("PINS")] == ["LISTEN"]
    two.query("notify news, 'x'")
    assert heard(one, 1) == [("news", "x")]


@RUNS
def test_inside_a_function_nothing_comes_twice(make, workers, run):
    """The connection listens for the client already, and the function makes its server listen as well."""
    pooler = make(workers=workers)
    client = owner(pooler)
    client.query("create or replace function listens() returns void language plpgsql as $$ begin listen news; "
                 "listen more; perform pg_notify('news', 'a'); perform pg_notify('more', 'b'); end $$")
    client.query("listen news")
    for _ in range(2):
        run(client, "select listens()")
        got = [client.recv() for _ in range(2)]
        assert sorted(payload(m) for m in got) == [("more", "b"), ("news", "a")]
        assert {sender(m) for m in got} == {own_pid(client)}
        assert is_silent(client, "news")


def test_with_a_temporary_table(make):
    """The server stays for the table; LISTEN goes to the connection, if there is one."""
    pooler = make()
    one, two = owner(pooler), owner(pooler)
    two.query("listen news")
    one.query("create temp table here (a int)")
    one.query("listen news")
    assert [row["kinds"] for row in pooler.show("PINS")] == ["CREATE TEMP"]
    two.query("notify news, 'x'")
    for client in (one, two):
        assert heard(client, 1) == [("news", "x")]
    one.query("drop table here")
    assert pooler.show("PINS") == []
    two.query("notify news, 'y'")
    assert heard(one, 1) == [("news", "y")]


def test_limits(make):
    """The connection is one of the pool, and counts as pinned: a pool of one has none."""
    pooler = make(1, log_pooler_errors=0)
    one = owner(pooler)
    assert "max_pinned_servers" in one.query("listen news", check=False).errors[0].text()
    two = make(2)
    clients = [owner(two) for _ in range(5)]
    for client in clients:
        client.query("listen news")
    clients[0].query("notify news, 'x'")
    for client in clients:
        assert heard(client, 1) == [("news", "x")]
    assert pool(two)["sv_pinned"] == 1


def test_a_client_that_does_not_read(make, workers):
    pooler = make(workers=workers, listen_queue_limit=20000, log_pooler_errors=1)
    lazy, other, third = owner(pooler), owner(pooler), owner(pooler)
    lazy.query("listen news")
    other.query("listen news")
    lazy.query("begin")
    for number in range(20):
        third.query("notify news, '%s'" % (str(number) + "x" * 2000))
    assert [p[1].rstrip("x") for p in heard(other, 20)] == [str(n) for n in range(20)]
    pooler.wait_log(r"C-.*" + QUEUE.replace("(", r"\(").replace(")", r"\)"))
    expect_end(lazy, QUEUE)
    assert len(listeners(pooler)) == 1


def test_longest_payloads(make, workers):
    """PostgreSQL's longest, also for a client that reads late."""
    pooler = make(workers=workers)
    late, one, sending = owner(pooler), owner(pooler), owner(pooler)
    for client in (late, one):
        client.query("listen news")
    texts = [str(number) + "x" * (7999 - len(str(number))) for number in range(200)]
    for text in texts:
        sending.query("select pg_notify('news', '%s')" % text)
    for client in (one, late):
        assert heard(client, 200) == [("news", text) for text in texts]


def test_kill(make, workers):
    pooler = make(workers=workers, log_pooler_errors=0)
    clients = [owner(pooler) for _ in range(4)]
    for client in clients:
        client.query("listen news")
    pooler.admin.query("KILL db")
    for client in clients:
        client.recv_until("E")
        client.expect_closed()
    pooler.admin.query("RESUME db")
    one, two = owner(pooler), owner(pooler)
    one.query("listen news")
    two.query("notify news, 'x'")
    assert heard(one, 1) == [("news", "x")]
    assert len(listeners(pooler)) == 1


def test_the_connection_is_lost(make, workers, pg):
    pooler = make(workers=workers, log_pooler_errors=0)
    clients = [owner(pooler) for _ in range(6)]
    for client in clients[:5]:
        client.query("listen news")
    pid = listening_pid(pooler)
    assert pg.value("select pg_terminate_backend(%s)" % pid) == "t"
    for client in clients[:5]:
        expect_end(client, LOST)
    waiting.wait_for(lambda: listeners(pooler) == {}, "no listener is left")
    again = owner(pooler)
    again.query("listen news")
    clients[5].query("notify news, 'x'")
    assert heard(again, 1) == [("news", "x")]


def test_clients_stay_when_the_connection_is_lost(make, workers, pg):
    """With listen_lost_warning. They are told when they listen again, once."""
    pooler = make(workers=workers, listen_lost_warning=1)
    clients, other = [owner(pooler) for _ in range(5)], owner(pooler)
    for client in clients:
        client.query("listen news")
    pg.value("select pg_terminate_backend(%s)" % listening_pid(pooler))
    waiting.wait_for(lambda: listeners(pooler) == {}, "nobody listens")
    for client in clients:
        assert client.value("select 1") == "1"
        for sql, is_told in (("listen news", True), ("listen news", False)):
            warnings = [m for m in client.query(sql).messages if m.kind == "N"]
            assert len(warnings) == is_told
        client.query("listen more")
    other.query("notify news, 'x'")
    for client in clients:
        assert heard(client, 1) == [("news", "x")]


def test_clients_leave(make, workers):
    """The connection stays with the first client gone, and closes after the last one."""
    pooler = make(workers=workers)
    clients = [owner(pooler) for _ in range(6)]
    for client in clients:
        client.query("listen news")
    other = owner(pooler)
    for number, client in enumerate(clients):
        client.close()
        waiting.wait_for(lambda: len(listeners(pooler)) == 5 - number, "it has left")
        other.query("notify news, '%d'" % number)
        for stays in clients[number + 1:]:
            assert heard(stays, 1) == [("news", str(number))]
    waiting.wait_for(lambda: pool(pooler)["sv_pinned"] == 0, "the connection is closed")


def test_console(make, workers):
    """PAUSE does not wait for the connection; RECONNECT replaces it, which every listener is told."""
    pooler = make(workers=workers, log_pooler_errors=0)
    one, two = owner(pooler), owner(pooler)
    one.query("listen news")
    two.query("select 1")
    pooler.admin.query("PAUSE")
    assert len(listeners(pooler)) == 1
    pooler.admin.query("RESUME")
    pooler.admin.query("RELOAD")
    pooler.admin.query("SUSPEND")
    pooler.admin.query("RESUME")
    two.query("notify news, 'x'")
    assert heard(one, 1) == [("news", "x")]
    pooler.admin.query("RECONNECT")
    expect_end(one, LOST)
    again = owner(pooler)
    again.query("listen news")
    two.query("notify news, 'y'")
    assert heard(again, 1) == [("news", "y")]


@pytest.fixture
def restarted(pg_bin):
    server = postgres.Postgres(pg_bin)
    try:
        yield server.create()
    finally:
        server.remove()


def test_server_restarts(make_pooler, restarted):
    pooler = make_pooler({"db": restarted.conn()}, settings={
        "pool_mode": "transaction", "session_state": "keep", "log_pooler_errors": 0})
    one = owner(pooler)
    one.query("listen news")
    restarted.restart()
    expect_end(one, LOST)
    again = owner(pooler)
    again.query("listen news")
    again.query("notify news, 'x'")
    assert heard(again, 1) == [("news", "x")]


def test_encodings(make):
    """A client with another encoding than the server's has a server of its own."""
    pooler = make(log_pooler_errors=0)
    one, two, three = owner(pooler), owner(pooler), owner(pooler, client_encoding="LATIN1")
    one.query("listen news")
    two.query("listen news")
    three.query("listen news")
    assert len(listeners(pooler)) == 2
    one.query("notify news, 'é'")
    for client in (one, two):
        assert heard(client, 1) == [("news", "é")]
    assert three.recv().body.split(b"\0")[-2] == b"\xe9"
    two.query("set client_encoding = 'LATIN1'")
    one.query("notify news, 'plain'")
    assert heard(two, 1) == [("news", "plain")]
    one.query("notify news, 'é'")
    expect_end(two, "a notification cannot be converted to the client's encoding")


def test_takeover(make, workers, restart):  # noqa: F811
    """A client that listens stays with the process that does it for it."""
    pooler = make(workers=workers)
    one, two = owner(pooler), owner(pooler)
    one.query("listen news")
    two.query("select 1")
    restart(pooler)
    three = owner(pooler)
    three.query("listen news")
    for number in range(5):
        two.query("notify news, '%d'" % number)
    for client in (one, three):
        assert heard(client, 5) == [("news", str(n)) for n in range(5)]
    one.query("select 2")
    one.query("unlisten *")
    three.query("notify news, 'later'")
    assert heard(three, 1) == [("news", "later")]
    assert one.value("select 3") == "3"


def test_takeover_while_notifications_come(make, workers, restart):  # noqa: F811
    """None is lost, and each has the process id of its sender or of a server, never that of another client."""
    pooler = make(2, workers=workers)
    one, others = owner(pooler), [owner(pooler) for _ in range(3)]
    one.query("listen news")
    count, at = 300, threading.Event()

    def send():
        for number in range(count):
            other = others[number % 3]
            other.query("notify news, '%d %d'" % (number, own_pid(other)))
            if number == 30:
                at.set()

    sending = threading.Thread(target=send)
    sending.start()
    assert at.wait(waiting.DEADLINE)
    restart(pooler)
    sending.join()
    pids = set(map(own_pid, others))
    for number in range(count):
        got = one.recv()
        text, pid = payload(got)[1].split()
        assert int(text) == number
        assert sender(got) == int(pid) or sender(got) not in pids


class Reader(threading.Thread):
    """Reads what many clients get, and checks that it is the same for all."""

    def __init__(self, clients, size):
        super().__init__()
        self.clients, self.size = clients, size
        self.wrong = None

    def run(self):
        poll, left = select.poll(), {}
        for client in self.clients:
            left[client.sock.fileno()] = (client.sock, bytearray())
            poll.register(client.sock, select.POLLIN)
        self.got = dict.fromkeys(left, b"")
        while left and not self.wrong:
            ready = poll.poll(waiting.DEADLINE * 1000)
            if not ready:
                self.wrong = "nothing comes any more for %d clients" % len(left)
            for fd, _ in ready:
                sock, bytes_ = left[fd]
                more = sock.recv(1 << 16)
                bytes_ += more
                if len(bytes_) >= self.size or not more:
                    self.got[fd] = bytes(bytes_)
                    poll.unregister(sock)
                    del left[fd]


NOTIFICATIONS = int(os.environ.get("NOTIFICATIONS", 300))
# Each takes 25 ms on a busy machine, and several times as much with sanitizers. Behind the limit the process of the
# tests ends.
MANY_SECONDS = max(400, NOTIFICATIONS // 5)


@pytest.mark.timeout(MANY_SECONDS)
@pytest.mark.parametrize("engine", ["epoll", "io_uring"])
def test_many_listeners(make, workers, engine, pg, bench):
    """Each notification reaches each of 1000 clients, in order, once, beside pgbench, and PostgreSQL
    sees no more connections than the pool may have."""
    listening = int(os.environ.get("LISTENERS", 1000))
    pooler = make(5, workers=workers, io_engine=engine, max_client_conn=listening + 100,
                  listen_queue_limit=64 << 20, log_connections=0, log_disconnections=0)
    clients = [owner(pooler) for _ in range(listening)]
    for client in clients:
        client.query("listen news")
    assert len(listeners(pooler)) == listening
    env = dict(os.environ, PGHOST="127.0.0.1", PGPORT=str(pooler.port), PGUSER="owner")
    load = subprocess.Popen(
        [pg.program("pgbench"), "-n", "-c", "8", "-T", str(MANY_SECONDS), "-f", pooler.write("load.sql", "select 1;"), "db"],
        env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    size = sum(len("news") + len(str(n)) + 11 for n in range(NOTIFICATIONS))
    reader = Reader(clients, size)
    reader.start()
    sending = owner(pooler)
    most = 0
    for number in range(NOTIFICATIONS):
        sending.query("notify news, '%d'" % number)
        if number % 100 == 0:
            most = max(most, int(pg.value("select count(*) from pg_stat_activity where usename = 'owner' "
                                          "and datname = 'postgres' and pid <> pg_backend_pid()")))
    reader.join()
    load.send_signal(signal.SIGTERM)
    load.wait()
    assert most <= 6 and not reader.wrong, (most, reader.wrong)
    wanted = [b"%d" % n for n in range(NOTIFICATIONS)]
    streams = {body for body in reader.got.values()}
    for body in streams:
        texts, at = [], 0
        while at < len(body):
            length = 1 + int.from_bytes(body[at + 1:at + 5], "big")
            assert body[at:at + 1] == b"A"
            texts.append(body[at + 9:at + length].split(b"\0")[1])
            at += length
        assert texts == wanted
    rest = select.poll()
    for client in clients:
        rest.register(client.sock, select.POLLIN)
    assert not rest.poll(0)


def test_psycopg(make):
    psycopg = pytest.importorskip("psycopg")
    pooler = make(max_prepared_statements=100)
    to = dict(host=pooler.host, port=pooler.port, user="owner", dbname="db")
    with psycopg.connect(**to, autocommit=True) as one, psycopg.connect(**to) as two:
        one.execute("listen news")
        for way in (dict(prepare=True), dict(prepare=False)):
            two.execute("select pg_notify('news', %s)", ("x",), **way)
            two.commit()
        two.execute("notify news, 'y'")
        two.rollback()
        two.execute("notify news, 'z'")
        two.commit()
        got = list(one.notifies(stop_after=3, timeout=waiting.DEADLINE))
        assert [(n.channel, n.payload) for n in got] == [("news", "x"), ("news", "x"), ("news", "z")]
        assert {n.pid for n in got} == {two.info.backend_pid}
        # as a prepared statement, again and again, in transactions
        for turn in range(8):
            two.execute("unlisten news", prepare=True)
            two.execute("listen news", prepare=True)
            (two.rollback if turn % 2 else two.commit)()
            assert len(listeners(pooler)) == 2
        two.execute("unlisten news", prepare=True)
        two.commit()
        assert len(listeners(pooler)) == 1


def test_node_postgres(make):
    try:
        folder = toolchain.built("node")
    except toolchain.Missing as missing:
        pytest.skip(str(missing))
    pooler = make()
    env = dict(os.environ, PGHOST=pooler.host, PGPORT=str(pooler.port), PGUSER="owner", PGDATABASE="db")
    done = subprocess.run(["node", "--input-type=module", "-e", NODE], cwd=folder, env=env,
                          capture_output=True, text=True, timeout=waiting.DEADLINE)
    assert done.stdout == "news x true\nnews y true\n", (done.stdout, done.stderr)


NODE = """
import pg from 'pg'
const one = new pg.Client(), two = new pg.Client()
await one.connect()
await two.connect()
let left = 2
const all = new Promise(resolve => one.on('notification', n => {
  console.log(n.channel, n.payload, n.processId === two.processID)
  if (--left === 0) resolve()
}))
await one.query('listen news')
await two.query('select pg_notify($1, $2)', ['news', 'x'])
await two.query("notify news, 'y'")
await all
await one.query('unlisten *')
await two.query("notify news, 'z'")
await one.query('select 1')
await one.end()
await two.end()
"""
