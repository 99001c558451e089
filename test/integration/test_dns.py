"""Host names: how long a lookup is cached, what happens to server connections when a name gets
another address, and zone serials."""

import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import threading

import pytest

import waiting
import wire

NSD = shutil.which("nsd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")

NSD_CONFIG = """
server:
    ip-address: {address}@53
    server-count: 1
    do-ip6: no
    username: ""
    database: ""
    zonesdir: "{dir}"
    zonelistfile: "{dir}/zone.list"
    xfrdfile: "{dir}/xfrd.state"
    pidfile: "{dir}/nsd.pid"
    logfile: "{dir}/nsd.log"
remote-control:
    control-enable: no
zone:
    name: pool.example
    zonefile: pool.zone
"""

ZONE = """
$TTL 60
@ IN SOA ns hostmaster {serial} 3600 600 86400 60
@ IN NS ns
ns IN A {address}
"""


def bind_resolver():
    """Returns a socket on port 53, the only port that resolvers use. The address is random, so that
    concurrent tests do not collide."""
    address = "127.%d.%d.%d" % tuple(random.randrange(1, 255) for _ in range(3))
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.bind((address, 53))
    except OSError as trouble:
        sock.close()
        pytest.skip("no name server on port 53: %s" % trouble)
    return sock


class NameServer:
    """A scripted name server. It answers every A query with self.addresses and any other query with
    no records."""

    def __init__(self, addresses):
        self.addresses = addresses
        self.asked = 0
        self.sock = bind_resolver()
        self.address = self.sock.getsockname()[0]
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
        self.asked += kind == 1
        found = self.addresses if kind == 1 else []
        records = b"".join(struct.pack("!HHHIH", 0xc00c, 1, 1, 60, 4) + socket.inet_aton(address)
                           for address in found)
        return (query[:2] + struct.pack("!HHHHH", 0x8180, 1, len(found), 0, 0)
                + query[12:end] + records)

    def close(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", (self.address, 53))
        self.thread.join(5)
        self.sock.close()


@pytest.fixture
def names():
    server = NameServer(["127.0.0.1"])
    yield server
    server.close()


class Nsd:
    """A real name server (nsd) with the zone pool.example."""

    def __init__(self):
        with bind_resolver() as sock:
            self.address = sock.getsockname()[0]
        self.dir = waiting.scratch("nsd")
        self.path = os.path.join(self.dir, "nsd.conf")
        with open(self.path, "w") as conf:
            conf.write(NSD_CONFIG.format(address=self.address, dir=self.dir))
        self.process = None

    def tell(self, serial, **names):
        """Replaces the content of the zone."""
        with open(os.path.join(self.dir, "pool.zone.new"), "w") as zone:
            zone.write(ZONE.format(serial=serial, address=self.address))
            zone.writelines("%s IN A %s\n" % pair for pair in names.items())
        os.rename(zone.name, os.path.join(self.dir, "pool.zone"))
        if self.process:
            self.process.send_signal(signal.SIGHUP)
            return
        with open(os.path.join(self.dir, "out"), "w") as out:
            self.process = subprocess.Popen([NSD, "-d", "-c", self.path],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            start_new_session=True)

    def stop(self, number=signal.SIGTERM):
        """Sends a signal to the server and its child processes."""
        os.killpg(self.process.pid, number)

    def close(self):
        if self.process:
            self.stop(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(30)
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture
def nsd():
    if not NSD:
        pytest.skip("nsd is not installed")
    server = Nsd()
    yield server
    server.close()


def pooler_by_name(make_pooler, server, names, host="db.example", **settings):
    pooler = make_pooler(start=False, settings={
        "pool_mode": "transaction", "dns_max_ttl": 0, "server_login_retry": 0.1, **settings})
    pooler.databases = {"db": "host=%s port=%d" % (host, server.port)}
    pooler.settings["resolv_conf"] = pooler.write(
        "resolv.conf", "nameserver %s\noptions retrans:300 retry:1 timeout:1 attempts:1\n" % names.address)
    pooler.write_files()
    return pooler.start()


@pytest.mark.one_worker  # Each worker looks names up for itself.
def test_servers_of_a_lost_address_are_closed(make_pooler, fake, names):
    server = fake()
    pooler = pooler_by_name(make_pooler, server, names)
    busy, other = pooler.connect(), pooler.connect()
    busy.query("begin")
    other.query("select 1")
    pooler.wait_pool(sv_idle=1, sv_active=1)
    first, second = server.sessions

    # The pooler looks the name up for the next connection, and the new address refuses it.
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

    # The clients may finish their transactions.
    assert busy.query("commit").tag == "COMMIT"
    assert other.query("commit").tag == "COMMIT"
    waiting.wait_for(lambda: first.ended.is_set() and second.ended.is_set(), "servers closed")
    names.addresses = ["127.0.0.1"]
    assert third.finish().value == "fake"
    assert len(server.sessions) == 3


@pytest.mark.one_worker  # Each worker looks names up for itself.
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


@pytest.mark.one_worker  # Each worker looks names up for itself.
def test_results_are_used_for_dns_max_ttl(make_pooler, fake, names):
    server = fake()
    pooler = pooler_by_name(make_pooler, server, names, dns_max_ttl=3600)
    clients = [pooler.connect() for _ in range(3)]
    for client in clients:
        client.query("begin")
    assert names.asked == 1
    row = pooler.show_one("DNS_HOSTS", hostname="db.example")
    assert row["addrs"] == "127.0.0.1:0" and 3000 < int(row["ttl"]) <= 3600
    # The new limit also applies to cached answers.
    pooler.set("dns_max_ttl", 0)
    assert pooler.show_one("DNS_HOSTS", hostname="db.example")["ttl"] == "0"
    pooler.connect().query("begin")
    assert names.asked == 2


def test_failures_are_used_for_dns_nxdomain_ttl(make_pooler, fake, names):
    server = fake()
    names.addresses = []
    pooler = pooler_by_name(make_pooler, server, names, dns_nxdomain_ttl=3600)
    client = pooler.client()
    client.send(client.startup_packet())
    for _ in range(3):
        pooler.wait_log("DNS lookup failed: db.example", since=pooler.mark())
    assert names.asked == 1
    assert pooler.show_one("DNS_HOSTS", hostname="db.example")["addrs"] == ""
    names.addresses = ["127.0.0.1"]
    pooler.set("dns_nxdomain_ttl", 0)
    client.authenticate()
    client.send(wire.query("select 1"))
    assert client.finish().value == "fake"


@pytest.mark.one_worker  # Each worker looks names up for itself.
def test_zone_of_a_real_name_server(make_pooler, fake, nsd):
    """The pooler looks names up again when the serial of the zone has grown, long before they
    expire."""
    server = fake()
    nsd.tell(1, db="127.0.0.1")
    pooler = pooler_by_name(make_pooler, server, nsd, "db.pool.example",
                            dns_max_ttl=3600, dns_zone_check_period=0.05)
    client, other = pooler.connect(), pooler.connect()
    client.query("begin")
    waiting.wait_for(lambda: pooler.show("DNS_ZONES") == [
        {"zonename": "pool.example", "serial": "1", "count": "1"}], "the serial is known")
    assert pooler.show_one("LISTS", list="dns_zones")["items"] == "1"

    # The address is another one, so the server connection is closed when it is released.
    nsd.tell(2, db="127.0.0.2")
    pooler.wait_log("zone 'pool.example' serial changed: old=1 new=2$")
    waiting.wait_for(lambda: pooler.show_one(
        "DNS_HOSTS", hostname="db.pool.example")["addrs"] == "127.0.0.2:0", "looked up again")
    assert not server.sessions[0].ended.is_set()
    client.query("commit")
    waiting.wait_for(server.sessions[0].ended.is_set, "server closed")
    other.send(wire.query("select 1"))
    pooler.wait_log("connect failed")

    # A new serial restores the first address.
    nsd.tell(3, db="127.0.0.1")
    assert other.finish().value == "fake"

    # When the name server does not answer, the cached address stays in use.
    nsd.stop(signal.SIGSTOP)
    pooler.wait_log("zone 'pool.example' has no serial: ")
    assert client.query("select 1").value == "fake"
    more = [pooler.connect() for _ in range(3)]
    for one in more:
        one.query("begin")
    nsd.stop(signal.SIGCONT)
    nsd.tell(4, db="127.0.0.1")
    pooler.wait_log("zone 'pool.example' serial changed: old=3 new=4$")
    assert pooler.show_one("DNS_ZONES", zonename="pool.example")["serial"] == "4"


def test_zones_are_not_asked_for_without_a_period(make_pooler, fake, nsd):
    server = fake()
    nsd.tell(1, db="127.0.0.1")
    pooler = pooler_by_name(make_pooler, server, nsd, "db.pool.example", dns_max_ttl=3600)
    pooler.connect().query("select 1")
    zone = {"zonename": "pool.example", "serial": "0", "count": "1"}
    assert pooler.show("DNS_ZONES") == [zone]
    pooler.set("dns_zone_check_period", 0.05)
    waiting.wait_for(lambda: pooler.show("DNS_ZONES") == [dict(zone, serial="1")], "asked now")
