"""Two poolers behind haproxy: cancel requests and client addresses (doc/peering.md)."""

import pytest

import haproxy
import waiting
import wire

@pytest.fixture
def balanced(make_pooler, pg):
    """balanced(option) returns the poolers and the port of haproxy in front of them."""
    started = []

    def make(option=""):
        poolers = [make_pooler({"db": pg.conn(pool_size=40)}, start=False,
                               settings={"peer_id": str(i + 1)}) for i in range(2)]
        for pooler in poolers:
            pooler.peers = {str(i + 1): "host=%s port=%d" % (other.dir, other.port)
                            for i, other in enumerate(poolers)}
            if option:
                pooler.settings["proxy_protocol_from"] = "127.0.0.1"
            pooler.start()
        started.append(haproxy.Haproxy(["balance roundrobin"] + [
            "server pooler%d 127.0.0.1:%d %s" % (i + 1, pooler.port, option) for i, pooler in enumerate(poolers)]))
        return poolers, started[-1].port

    yield make
    for process in started:
        process.remove()


def connect(port):
    return wire.Client("127.0.0.1", port, "trust_user", "db", None, {}).login()


@pytest.mark.parametrize("option", ["", "send-proxy", "send-proxy-v2"])
def test_cancels_find_their_process(balanced, pg, option):
    poolers, port = balanced(option)
    clients = [connect(port) for _ in range(24)]
    for client in clients:
        client.send(wire.query("select pg_sleep(60)"))
    waiting.wait_for(lambda: pg.backends("query like '%sleep(60)%' and state='active'") >= 24, "all run")
    for client in clients:
        with wire.Wire(wire.open_socket("127.0.0.1", port)) as raw:
            raw.send(wire.cancel_request(client.key))
            raw.expect_closed()
    for client in clients:
        assert client.finish().errors[0].field("C") == "57014"
        client.close()
    used = [sum("successfully sent" in line for line in pooler.log().splitlines())
            for pooler in poolers]
    assert min(used) > 0, "both passed requests on"


def test_the_client_s_address_is_passed_on(balanced):
    poolers, port = balanced("send-proxy-v2")
    with connect(port) as client:
        own = client.sock.getsockname()[1]
        seen = [line for pooler in poolers for line in pooler.log().splitlines()
                if "@127.0.0.1:%d login attempt" % own in line]
        assert len(seen) == 1
