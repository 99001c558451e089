"""Cancel requests that reach a process other than the one that serves the query (protocol.md
13)."""

import socket
import threading

import pytest

import certs
import fakeserver
import waiting
import wire


def sleeping(pg, count=1):
    return pg.backends("query like '%sleep(60)%' and state='active'") >= count


@pytest.fixture
def family(make_pooler, pg):
    """family(count, host) returns poolers that are peers of each other, with the ids 1, 2 and so
    on."""
    # A query that an earlier test has left behind would be taken for one of this test.
    pg.do("select pg_terminate_backend(pid) from pg_stat_activity "
          "where backend_type = 'client backend' and pid <> pg_backend_pid()")
    waiting.wait_for(lambda: not sleeping(pg), "nobody sleeps")

    def make(count=2, host=None, **settings):
        made = [make_pooler({"db": pg.conn(pool_size=60)}, start=False,
                            settings={"peer_id": str(i + 1), **settings}) for i in range(count)]
        for pooler in made:
            pooler.peers = {str(i + 1): "host=%s port=%d" % (host or other.dir, other.port)
                            for i, other in enumerate(made)}
            pooler.start()
        return made
    return make


def send_cancel(pooler, key):
    """Sends a cancel request and waits, as libpq does, until the pooler closes the connection."""
    with pooler.raw() as raw:
        raw.send(wire.cancel_request(key))
        raw.expect_closed()


def assert_cancelled(client):
    result = client.finish()
    assert result.errors[0].field("C") == "57014", result.errors
    assert client.value("select 1") == "1"


def test_keys_name_the_process(family):
    first, second = family()
    with first.connect() as a, second.connect() as b:
        assert [key[1] | key[2] << 8 for key in (a.key, b.key)] == [1, 2]
        assert a.key[0] < 0x80 and a.key[7] & 3 == 3


def test_large_ids(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"peer_id": "12345"})
    with pooler.connect() as client:
        assert client.key[1] | client.key[2] << 8 == 12345


@pytest.mark.parametrize("host", [None, "127.0.0.1", "localhost"], ids=["unix", "address", "name"])
def test_the_wrong_process_passes_it_on(family, pg, host):
    first, second = family(host=host)
    client = first.connect()
    client.send(wire.query("select pg_sleep(60)"))
    waiting.wait_for(lambda: sleeping(pg), "runs")
    send_cancel(second, client.key)
    assert_cancelled(client)
    second.wait_log(r"LOG S-0x\w+: peer-1@\S+ closing because: successfully sent cancel request")
    assert second.show("PEER_POOLS") == [{
        "peer_id": "1", "cl_active_cancel_req": "0", "cl_waiting_cancel_req": "0",
        "sv_active_cancel": "0", "sv_login": "0"}]
    assert first.show("PEER_POOLS") == []


def test_its_own_process_does_not_pass_it_on(family, pg):
    first, second = family()
    client = first.connect()
    client.send(wire.query("select pg_sleep(60)"))
    waiting.wait_for(lambda: sleeping(pg), "runs")
    key = bytearray(client.key)
    key[7] &= ~3  # The request has been forwarded three times already.
    send_cancel(first, bytes(key))
    assert_cancelled(client)


def test_it_is_not_passed_on_for_ever(family):
    """Two processes take each other for a third one. They do not forward the request for ever."""
    first, second = family()
    second.peers = {"3": "host=%s port=%d" % (first.dir, first.port)}
    first.peers = {"3": "host=%s port=%d" % (second.dir, second.port)}
    for pooler in (first, second):
        pooler.write_files()
        pooler.reload()
    marks = first.mark(), second.mark()
    send_cancel(first, b"\x01\x03\x00\x00\x00\x00\x00\xff")
    first.wait_log("TTL was exhausted|successfully sent", marks[0])
    logs = first.log_since(marks[0]) + second.log_since(marks[1])
    assert logs.count("closing because: failed to forward cancel request because its TTL was exhausted") == 1


def test_unknown_peers_and_dead_ones(family):
    first, second = family(cancel_wait_timeout="5")
    second.peers["7"] = "host=%s port=%d" % (first.dir, waiting.PORTS.take())
    second.write_files()
    second.reload()
    send_cancel(second, b"\x01\x09\x00\x00\x00\x00\x00\x03")
    second.wait_log("closing because: could not find peer to forward request to")
    send_cancel(second, b"\x01\x07\x00\x00\x00\x00\x00\x03")
    second.wait_log("cannot reach peer 7")
    assert second.connect().value("select 1") == "1"


def test_a_silent_peer_holds_nobody_for_longer_than_the_limit(make_pooler, pg, fake):
    """A peer does not answer. Its connections are in use, other requests wait in order, and
    cancel_wait_timeout ends all of them."""
    silence = threading.Event()

    def script(session):
        session.recv_startup()
        silence.wait(30)

    server = fake(script)
    pooler = make_pooler({"db": pg.conn()}, settings={"peer_id": "1", "cancel_wait_timeout": "1"},
                         peers={"2": "host=127.0.0.1 port=%d pool_size=2" % server.port})
    raws = [pooler.raw() for _ in range(5)]
    for raw in raws:
        raw.send(wire.cancel_request(b"\x01\x02\x00\x00\x00\x00\x00\x03"))
    waiting.wait_for(lambda: pooler.show_one("PEER_POOLS", peer_id="2") == {
        "peer_id": "2", "cl_active_cancel_req": "2", "cl_waiting_cancel_req": "3",
        "sv_active_cancel": "2", "sv_login": "0"}, "two of five are under way")
    for raw in raws:
        raw.expect_closed()
    assert pooler.log().count("closing because: cancel_wait_timeout") >= 5
    silence.set()


def test_dozens_at_once(family, pg):
    """Behind a load balancer each request reaches any of the processes."""
    poolers = family(3)
    clients = [poolers[i % 3].connect() for i in range(36)]
    for client in clients:
        client.send(wire.query("select pg_sleep(60)"))
    waiting.wait_for(lambda: sleeping(pg, 36), "all run")
    raws = []
    for i, client in enumerate(clients):
        raws.append(poolers[(i // 3) % 3].raw())
        raws[-1].send(wire.cancel_request(client.key))
    for client in clients:
        assert_cancelled(client)
    for raw in raws:
        raw.expect_closed()


def test_inside_tls(make_pooler, pg):
    """The settings of server TLS apply to connections to peers."""
    folder = waiting.scratch("certs")
    authority = certs.Authority(folder)
    server = authority.issue("server", "localhost", ["localhost"])
    first = make_pooler({"db": pg.conn()}, settings={
        "peer_id": "1", "client_tls_sslmode": "require",
        "client_tls_cert_file": server.cert_file, "client_tls_key_file": server.key_file})
    second = make_pooler({"db": "host=127.0.0.1 port=1"}, settings={
        "peer_id": "2", "server_tls_sslmode": "verify-full", "server_tls_ca_file": authority.file},
        peers={"1": "host=localhost port=%d" % first.port})
    client = first.connect(unix=True)
    client.send(wire.query("select pg_sleep(60)"))
    waiting.wait_for(lambda: sleeping(pg), "runs")
    send_cancel(second, client.key)
    assert_cancelled(client)
    second.set("server_tls_ca_file", certs.Authority(waiting.scratch("certs"), "stranger").file)
    send_cancel(second, client.key)
    second.wait_log("cannot reach peer 1")
    waiting.discard(folder)


def test_a_peer_that_is_removed_gets_none(family):
    first, second = family()
    second.peers = {}
    second.write_files()
    second.reload()
    assert "WARNING dropping peer 1 as it does not exist anymore" in second.log()
    send_cancel(second, b"\x01\x01\x00\x00\x00\x00\x00\x03")
    second.wait_log("closing because: could not find peer to forward request to")


def full_queue(path):
    """A unix socket whose queue is full, and the connections in that queue."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    waiting.give(path)
    listener.listen(0)
    others = []
    while not others or others[-1].connect_ex(path) == 0:
        others.append(socket.socket(socket.AF_UNIX))
        others[-1].setblocking(False)
    return listener, others


def test_a_peer_with_a_full_queue_gets_it_later(make_pooler, pg):
    """Many requests at once fill the queue of a unix socket, and none of them is lost."""
    pooler = make_pooler({"db": pg.conn()}, start=False, settings={
        "peer_id": "1", "verbose": "1"})
    port = waiting.PORTS.take()
    listener, others = full_queue(pooler.path(".s.PGSQL.%d" % port))
    pooler.peers = {"2": "host=%s port=%d" % (pooler.dir, port)}
    pooler.start()
    raw = pooler.raw()
    raw.send(wire.cancel_request(b"\x01\x02\x00\x00\x00\x00\x00\x03"))
    # There is no row before the request is known.
    waiting.wait_for(lambda: ("2", "1") in [(row["peer_id"], row["cl_active_cancel_req"])
                                            for row in pooler.show("PEER_POOLS")], "it is tried")
    listener.listen(128)
    for other in others:
        other.close()
    listener.settimeout(30)
    while True:
        with listener.accept()[0] as got:
            got.settimeout(30)
            if got.recv(16)[:8] == wire.cancel_request(b"")[:3] + b"\x10" + wire.cancel_request(b"")[4:]:
                break
    raw.expect_closed()
    assert "cannot reach peer" not in pooler.log()
    listener.close()


def test_a_peer_that_cannot_be_connected_to_has_a_clock(make_pooler, pg):
    """Without cancel_wait_timeout, server_connect_timeout ends a connect that hangs."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        port = deaf.getsockname()[1]
        others = [socket.socket() for _ in range(4)]
        for other in others:
            other.setblocking(False)
            other.connect_ex(("127.0.0.1", port))
        pooler = make_pooler({"db": pg.conn()}, peers={"2": "host=127.0.0.1 port=%d" % port}, settings={
            "peer_id": "1", "cancel_wait_timeout": "0", "server_connect_timeout": "1"})
        send_cancel(pooler, b"\x01\x02\x00\x00\x00\x00\x00\x03")
        pooler.wait_log(r"closing because: connect timeout \(age")
        for other in others:
            other.close()


def test_what_comes_behind_a_cancel_for_a_peer_is_ignored(make_pooler, pg, fake):
    """Nobody has to log in for it: any key that names a peer is passed on."""
    arrived, go_on = threading.Event(), threading.Event()

    def script(session):
        session.recv_startup()
        arrived.set()
        go_on.wait(10)

    peer = fake(script)
    pooler = make_pooler({"db": pg.conn()}, settings={"peer_id": "1"}, peers={
        "2": "host=127.0.0.1 port=%d" % peer.port})
    with pooler.connect() as client:
        key = bytearray(client.key)
    key[1] = 2
    with pooler.raw() as raw:
        raw.send(wire.cancel_request(bytes(key)))
        assert arrived.wait(10)
        raw.send(wire.terminate())
        go_on.set()
        raw.expect_closed()
    with pooler.connect() as client:
        assert client.value("select 1") == "1"


def test_a_client_that_closes_at_once(make_pooler, pg, fake):
    """The kernel tells of its end together with the request, which another worker's thread forwards."""
    server = fake(lambda session: session.recv_startup())
    pooler = make_pooler({"db": pg.conn()}, peers={"2": "host=127.0.0.1 port=%d" % server.port},
                         settings={"peer_id": "1", "workers": "2", "tcp_defer_accept": "0"})
    pooler.signal("STOP")
    for _ in range(4):
        with pooler.raw() as raw:
            raw.send(wire.cancel_request(b"\x01\x02\x00\x00\x00\x00\x00\x03"))
    pooler.signal("CONT")
    waiting.wait_for(lambda: len(server.cancels()) == 4, "all are forwarded", deadline=10)
