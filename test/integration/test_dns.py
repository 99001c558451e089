"""Host names: what becomes of servers when their name means another address."""

import socket
import struct
import threading

import pytest

import waiting
import wire

RESOLVER = "127.0.37.1"  # resolvers ask port 53 only, and elsewhere someone may listen there


class NameServer:
    """Answers every A query with self.addresses, and any other with nothing."""

    def __init__(self, addresses):
        self.addresses = addresses
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self.sock.bind((RESOLVER, 53))
        except OSError as trouble:
            self.sock.close()
            pytest.skip("no name server on port 53: %s" % trouble)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            query, peer = self.sock.recvfrom(512)
            if not query:
                return
            self.sock.sendto(self._answer(query), peer)

    def _answer(self, query):
        end = query.index(b"\0", 12) + 5
        kind = struct.unpack_from("!H", query, end - 4)[0]
        found = self.addresses if kind == 1 else []
        records = b"".join(struct.pack("!HHHIH", 0xc00c, 1, 1, 60, 4) + socket.inet_aton(address)
                           for address in found)
        return (query[:2] + struct.pack("!HHHHH", 0x8180, 1, len(found), 0, 0)
                + query[12:end] + records)

    def close(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", (RESOLVER, 53))
        self.thread.join(5)
        self.sock.close()


@pytest.fixture
def names():
    server = NameServer(["127.0.0.1"])
    yield server
    server.close()


def pooler_by_name(make_pooler, server, names):
    pooler = make_pooler(start=False, settings={
        "pool_mode": "transaction", "dns_max_ttl": 0, "server_login_retry": 0.1})
    pooler.databases = {"db": "host=db.example port=%d" % server.port}
    pooler.settings["resolv_conf"] = pooler.write("resolv.conf", "nameserver %s\n" % RESOLVER)
    pooler.write_files()
    return pooler.start()


def test_servers_of_a_lost_address_are_closed(make_pooler, fake, names):
    server = fake()
    pooler = pooler_by_name(make_pooler, server, names)
    busy, other = pooler.connect(), pooler.connect()
    busy.query("begin")
    other.query("select 1")
    pooler.wait_pool(sv_idle=1, sv_active=1)
    first, second = server.sessions

    # The name is looked up for the next connection, which the new address refuses.
    names.addresses = ["127.0.0.2"]
    other.query("begin")
    third = pooler.client()
    third.send(third.startup_packet())
    third.authenticate()
    third.send(wire.query("select 3"))
    pooler.wait_log("connect failed")
    rows = pooler.show("servers")
    assert [row["close_needed"] for row in rows if row["state"] == "active"] == ["1", "1"]
    assert not first.ended.is_set() and not second.ended.is_set()

    # They finish what they do.
    assert busy.query("commit").tag == "COMMIT"
    assert other.query("commit").tag == "COMMIT"
    waiting.wait_for(lambda: first.ended.is_set() and second.ended.is_set(), "servers closed")
    names.addresses = ["127.0.0.1"]
    assert third.finish().value == "fake"
    assert len(server.sessions) == 3


def test_servers_of_an_address_that_stays_are_kept(make_pooler, fake, names):
    server = fake()
    pooler = pooler_by_name(make_pooler, server, names)
    busy, other = pooler.connect(), pooler.connect()
    busy.query("begin")
    names.addresses = ["127.0.0.2", "127.0.0.1"]
    other.send(wire.query("select 1"))
    waiting.wait_for(lambda: "127.0.0.2" in str(pooler.show("dns_hosts")), "new result")
    assert [row["close_needed"] for row in pooler.show("servers")
            if row["state"] == "active"][0] == "0"
    assert busy.query("commit").tag == "COMMIT"
    assert not server.sessions[0].ended.is_set()
