"""Protocol 3.2: negotiation with clients and servers, and long cancel keys (protocol.md 3, 8,
13)."""

import os
import struct
import threading

import psycopg
import pytest

import fakeserver
import waiting
import wire

pytestmark = pytest.mark.timeout(240)

KEY = b"\0\0\x30\x39" + bytes(range(256))
CASES = [(version, names) for version in (0x30000, 0x30001, 0x30002, 0x30003, 0x3270f, 0x3ffff)
         for names in ([], ["_pq_.one", "_pq_.two"])]


def connect(pooler, version=wire.PROTOCOL_3_2, **more):
    client = pooler.client(**more)
    client.send(client.startup_packet(version))
    return client.authenticate()


def send_cancel(pooler, key):
    with pooler.raw() as raw:
        raw.send(wire.cancel_request(key))
        raw.expect_closed()


def begin_sleep(client, pg):
    client.send(wire.query("select pg_sleep(30)"))
    waiting.wait_for(lambda: pg.backends("query like '%sleep(30)%' and state='active'"), "runs")


# clients


def first_answer(host, port, user, database, version, names):
    with wire.Wire(wire.open_socket(host, port)) as raw:
        raw.send(wire.startup([("user", user), ("database", database)] + [(n, "x") for n in names],
                              version=version))
        return raw.recv().raw()


def test_what_is_answered(pooler):
    spoken = {0x30000: 0x30000, 0x30001: 0x30000}
    for version, names in CASES:
        answer = first_answer(pooler.host, pooler.port, "trust_user", "db", version, names)
        newest = spoken.get(version, wire.PROTOCOL_3_2)
        if version == newest and not names:
            assert answer == wire.auth(0)
        else:
            assert answer == wire.message("v", struct.pack("!ii", newest, len(names)) + b"".join(
                wire.cstr(n) for n in names))


def test_it_is_what_postgresql_18_answers(pooler, pg18):
    for version, names in CASES:
        if version == 0x30001:
            continue  # No such version was ever released, so the pooler negotiates 3.0.
        assert first_answer(pooler.host, pooler.port, "trust_user", "db", version, names) \
            == first_answer(pg18.host, pg18.port, "trust_user", "postgres", version, names), version


def test_keys(pooler):
    new = [connect(pooler) for _ in range(20)]
    assert {len(c.key) for c in new} == {36}
    assert len({c.key for c in new}) == len({c.key[4:] for c in new}) == 20
    assert all(c.key[0] < 0x80 for c in new)
    assert len(connect(pooler, 0x30001).key) == len(pooler.connect().key) == 8
    assert len(connect(pooler, 0x3270f).key) == 36
    console = connect(pooler, database="pgbouncer", user="admin_user")
    assert len(console.key) == 36
    console.close()


def test_cancel_with_a_long_key(pooler, pg):
    client = connect(pooler)
    begin_sleep(client, pg)
    client.cancel()
    assert client.finish().errors[0].field("C") == "57014"
    assert client.value("select 1") == "1"


def test_only_the_whole_key_counts(pooler, pg):
    client = connect(pooler)
    begin_sleep(client, pg)
    spoilt = client.key[:-1] + bytes([client.key[-1] ^ 1])
    for key in [client.key[:8], client.key[:35], client.key + b"\0", client.key[4:], spoilt,
                client.key[:4] + os.urandom(32)]:
        send_cancel(pooler, key)
    assert not client.has_data(0.1)
    client.cancel()
    assert client.finish().errors[0].field("C") == "57014"


def test_keys_are_in_no_log(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"pool_mode": "transaction", "verbose": 2})
    for client in (connect(pooler), pooler.connect()):
        begin_sleep(client, pg)
        client.cancel()
        client.finish()
        send_cancel(pooler, client.key[:-1] + b"?")
        assert client.key.hex() not in pooler.log().lower()
        assert client.key[4:].hex() not in pooler.log().lower()


@pytest.fixture
def libpq(pooler):
    """libpq(**options) returns a connection of libpq that requires protocol 3.2."""
    if psycopg.pq.version() < 180000:
        pytest.skip("libpq %d does not speak protocol 3.2" % psycopg.pq.version())

    def connect_libpq(**options):
        return psycopg.connect(host=pooler.host, port=pooler.port, user="trust_user", dbname="db",
                               autocommit=True, **options)

    return connect_libpq


@pytest.mark.parametrize("most, least", [("3.2", "3.2"), ("latest", "3.2"), ("3.0", "3.0")])
def test_libpq(libpq, pg, most, least):
    with libpq(max_protocol_version=most, min_protocol_version=least) as client:
        assert client.execute("select 1").fetchone() == (1,)
        failed = []

        def sleep():
            try:
                client.execute("select pg_sleep(30)")
            except psycopg.errors.QueryCanceled as error:
                failed.append(error)

        thread = threading.Thread(target=sleep)
        thread.start()
        waiting.wait_for(lambda: pg.backends("query like '%sleep(30)%' and state='active'"), "runs")
        client.cancel_safe(timeout=60)
        thread.join(10)
        assert len(failed) == 1
        assert client.execute("select 2").fetchone() == (2,)


def test_libpq_through_to_postgresql_18(make_pooler, pg18):
    pooler = make_pooler({"db": pg18.conn()}, settings={"pool_mode": "transaction"})
    client = connect(pooler)
    begin_sleep(client, pg18)
    client.cancel()
    assert client.finish().errors[0].field("C") == "57014"


# servers


def speaks(version, refusal=None, key=KEY, after=b""):
    """A server that answers only to this version. To others it sends an error or nothing."""
    def script(session):
        code = session.recv_startup()
        if code == wire.CANCEL_REQUEST:
            return
        if code != version:
            session.send(refusal or b"")
            return
        session.send(after + fakeserver.welcome(key))
        session.serve([("slow", lambda s, q: None)])
    return script


def test_server_gets_its_long_key(make_pooler, fake):
    server = fake(speaks(wire.PROTOCOL_3_2))
    pooler = make_pooler({"db": server.conn()}, settings={"pool_mode": "transaction"})
    client = pooler.connect()
    client.send(wire.query("slow"))
    pooler.wait_pool(sv_active=1)
    client.cancel()
    assert server.cancels() == [KEY]


def test_server_that_names_an_older_version(make_pooler, fake):
    older = wire.message("v", struct.pack("!ii", wire.PROTOCOL_3_0, 0))
    server = fake(speaks(wire.PROTOCOL_3_2, key=KEY[:8], after=older))
    pooler = make_pooler({"db": server.conn()}, settings={"pool_mode": "transaction"})
    assert pooler.connect().value("select 1") == "fake"
    assert len(server.sessions) == 1


@pytest.mark.one_worker  # Each worker finds out by itself.
@pytest.mark.parametrize("code, text", [
    ("0A000", "unsupported frontend protocol 3.2: server supports 1.0 to 3.0"),
    ("08P01", "bad packet header: '0000002900030002'")])
def test_server_that_refuses(make_pooler, fake, code, text):
    """After a refused version the pooler connects again at once with an older one, and never again
    with the refused one."""
    server = fake(speaks(wire.PROTOCOL_3_0, refusal=wire.error("FATAL", code, text)))
    pooler = make_pooler({"db": server.conn(pool_size=3)}, settings={
        "pool_mode": "transaction", "server_login_retry": 60})
    clients = [pooler.connect() for _ in range(3)]
    for client in clients:
        assert client.query("begin").tag == "BEGIN"
    assert [s.startup_code for s in server.sessions] == [wire.PROTOCOL_3_2] + [wire.PROTOCOL_3_0] * 3
    assert "login failed" not in pooler.log()


def test_server_that_refuses_in_silence(make_pooler, fake):
    server = fake(speaks(wire.PROTOCOL_3_0))
    pooler = make_pooler({"db": server.conn()}, settings={
        "pool_mode": "transaction", "server_login_retry": 0.1})
    assert pooler.connect().value("select 1") == "fake"
    assert [s.startup_code for s in server.sessions] == [wire.PROTOCOL_3_2, wire.PROTOCOL_3_0]


def test_server_that_refuses_everything(make_pooler, fake):
    refusal = wire.error("FATAL", "08P01", "no such database: nowhere")
    server = fake(speaks(0, refusal=refusal))
    pooler = make_pooler({"db": server.conn()}, settings={
        "pool_mode": "transaction", "server_login_retry": 60})
    assert pooler.refusal() == "no such database: nowhere"
    assert len(server.sessions) == 2


# cancel


def test_query_behind_our_set_is_answered_at_once(make_pooler, fake):
    """PostgreSQL still runs the pooler's SET, so the cancel request cancels the client's queued
    query."""
    release = threading.Event()

    def script(session):
        session.login()
        session.serve([("^SET application_name", lambda s, q: (
            release.wait(10), fakeserver.plain_answer(q))[1])])

    server = fake(script)
    pooler = make_pooler({"db": server.conn(pool_size=1)}, settings={"pool_mode": "transaction"})
    client = pooler.connect(application_name="mine")
    client.send(wire.query("select 'never'"))
    waiting.wait_for(lambda: server.sessions and server.sessions[0].queries(), "SET arrives")
    client.cancel()
    result = client.finish()
    assert result.kinds() == "EZ" and result.errors[0].field("C") == "57014"
    release.set()
    assert client.value("select 'next'") == "fake"
    assert pooler.connect(application_name="mine").value("select 'other'") == "fake"
    assert [q for q in server.sessions[0].queries() if "never" in q] == []


def test_storm_of_cancels_on_one_server(make_pooler, pg):
    """Half of the clients are cancelled repeatedly, and all queries of the others succeed."""
    pooler = make_pooler({"db": pg.conn(pool_size=1)}, settings={
        "pool_mode": "transaction", "max_client_conn": 500})
    noisy = [connect(pooler), pooler.connect()]
    calm = [connect(pooler), pooler.connect()]
    done, cancelled, wrong = [], [], []

    def is_enough():
        return len(done) >= 300 and len(cancelled) >= 100

    def storm(key):
        while not is_enough():
            send_cancel(pooler, key)

    def run_noisy(client, number):
        while not is_enough():
            result = client.query("select %d from pg_sleep(0.01)" % number, check=False)
            if result.errors:
                cancelled.append(result.errors[0].field("C"))
            elif result.value != str(number):
                wrong.append(result.messages)

    def run_calm(client, number):
        while not is_enough():
            result = client.query("select %d from pg_sleep(0.005)" % number, check=False)
            (wrong if result.errors or result.value != str(number) else done).append(result.messages)

    threads = [threading.Thread(target=storm, args=(c.key,)) for c in noisy * 2]
    threads += [threading.Thread(target=run_noisy, args=(c, 100 + i)) for i, c in enumerate(noisy)]
    threads += [threading.Thread(target=run_calm, args=(c, 200 + i)) for i, c in enumerate(calm)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []
    assert is_enough() and set(cancelled) == {"57014"}
    pooler.wait_pool(cl_waiting_cancel_req=0, cl_active_cancel_req=0, sv_being_canceled=0)
    assert noisy[0].value("select 1") == "1"
