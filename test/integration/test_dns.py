"""Host names: how long a lookup is cached, what happens to server connections when a name gets
another address, and zone serials."""

import os
import random
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading

import pytest

import fakeserver
import waiting
import wire
from test_roles import Host
from test_takeover import restart, wait_end  # noqa: F401 (restart is a fixture)
from test_tls_servers import ca  # noqa: F401 (a fixture)

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
    """A scripted name server. It answers every A query with self.addresses, every AAAA query with
    self.more, and any other query with no records."""

    def __init__(self, addresses):
        self.addresses, self.more = addresses, []
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
        found = [socket.inet_pton(socket.AF_INET6 if kind == 28 else socket.AF_INET, address)
                 for address in {1: self.addresses, 28: self.more}.get(kind, [])]
        records = b"".join(struct.pack("!HHHIH", 0xc00c, kind, 1, 60, len(address)) + address
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


def pooler_by_name(make_pooler, server, names, host="db.example", more="", start=True, **settings):
    pooler = make_pooler(start=False, settings={
        "pool_mode": "transaction", "dns_max_ttl": 0, "dns_nxdomain_ttl": 1, "server_login_retry": 0.1,
        **settings})
    pooler.databases = {"db": "host=%s port=%d %s" % (host, server.port, more)}
    pooler.settings["resolv_conf"] = pooler.write(
        "resolv.conf", "nameserver %s\noptions retrans:300 retry:1 timeout:1 attempts:1\n" % names.address)
    pooler.write_files()
    return pooler.start() if start else pooler


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


# names with several addresses


DEADLINE = 60


class Place(Host):
    """A server at one of the addresses of a name, which can hang."""

    def __init__(self, fake, number, **more):
        self.hangs = threading.Event()
        super().__init__(fake, number, **more)

    def script(self, session):
        def hung(answer):
            def wait(session, sql):
                self.wait()
                return answer(session, sql)
            return wait

        self.wait()
        session.login(parameters=fakeserver.PARAMETERS + self.report())
        session.serve([("pg_is_in_recovery", hung(self.answer)), ("where", hung(self.where))])

    def wait(self):
        waiting.wait_for(lambda: not self.hangs.is_set(), "it goes on", DEADLINE)

    def where(self, _session, _sql):
        return (wire.row_description([("w", 25, -1)]) + wire.data_row([self.host])
                + wire.command_complete("SELECT 1") + wire.ready())


class EncryptedPlace(Place):
    """Has a certificate for the name, and not for its addresses."""

    def __init__(self, fake, number, pair, **more):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pair.cert_file, pair.key_file)
        super().__init__(fake, number, **more)

    def script(self, session):
        session.tls = self.context
        super().script(session)


def two_places(fake, names, **more):
    first = Place(fake, 3, **more)
    second = Place(fake, 4, port=first.port, standby=True, **more)
    names.addresses = [first.host, second.host]
    return first, second


def states(pooler):
    return {row["host"]: row["state"] for row in pooler.show("HOSTS") if row["database"] == "db"}


def are(pooler, **wanted):
    """Waits until the addresses 127.0.0.N have these states; the names are _N."""
    wanted = {"db.example/127.0.0" + name.replace("_", "."): state for name, state in wanted.items()}
    waiting.wait_for(lambda: states(pooler) == wanted, "the hosts are %s" % wanted, DEADLINE)


ROLE = dict(more="target_session_attrs=read-write", role_check_period=0.2, host_hung_timeout=1.5,
            query_wait_timeout=300)


@pytest.mark.parametrize("workers", [1, 4])
def test_each_address_of_a_name_is_a_host(make_pooler, fake, names, workers):
    """It is tried and judged by itself: a standby is not used, and when the primary hangs the clients go on at
    the address that was promoted."""
    first, second = two_places(fake, names)
    pooler = pooler_by_name(make_pooler, first, names, workers=workers, **ROLE)
    clients = [pooler.connect() for _ in range(8)]
    for client in clients * 3:
        assert client.value("where") == first.host
    are(pooler, _3="up", _4="unfit")
    first.hangs.set()
    for client in clients:
        client.send(wire.query("where"))
    are(pooler, _3="hangs", _4="unfit")
    second.standby = False
    for client in clients:
        end = client.recv_until("DE")[-1]
        assert second.host.encode() in end.body if end.kind == "D" else "does not answer" in end.text(), end
    are(pooler, _3="hangs", _4="up")
    first.standby = True
    first.hangs.clear()
    are(pooler, _3="unfit", _4="up")
    for client in [pooler.connect() for _ in range(4)]:
        assert client.value("where") == second.host


def test_certificates_are_of_the_name(make_pooler, fake, names, ca):
    """With verify-full, the certificate of each address is compared with the name that the entry has, by the monitor
    as well."""
    pair = ca.issue("name", "db.example", ["db.example"])
    first = EncryptedPlace(fake, 3, pair)
    second = EncryptedPlace(fake, 4, pair, port=first.port, standby=True)
    names.addresses = [first.host, second.host]
    tls = {"server_tls_sslmode": "verify-full", "server_tls_ca_file": ca.file}
    pooler = pooler_by_name(make_pooler, first, names, **dict(ROLE, **tls))
    client = pooler.connect()
    assert client.value("where") == first.host
    are(pooler, _3="up", _4="unfit")
    first.standby, second.standby = True, False
    are(pooler, _3="unfit", _4="up")
    assert client.value("where") == second.host
    assert pooler.show_one("SERVERS", database="db")["tls"]


def test_hosts_of_an_auto_database(make_pooler, fake, names):
    """A database that is made from * has its hosts watched as others, also when it is made anew."""
    first, second = two_places(fake, names)
    pooler = pooler_by_name(make_pooler, first, names, start=False, autodb_idle_timeout=1,
                             server_idle_timeout=1, **ROLE)
    pooler.databases = {"*": pooler.databases["db"]}
    pooler.write_files()
    pooler.start()
    with pooler.connect() as client:
        assert client.value("where") == first.host
        are(pooler, _3="up", _4="unfit")
        first.standby, second.standby = True, False
        are(pooler, _3="unfit", _4="up")
        assert client.value("where") == second.host
    waiting.wait_for(lambda: not states(pooler), "the database is gone", DEADLINE)
    with pooler.connect() as client:
        assert client.value("where") == second.host
        are(pooler, _3="unfit", _4="up")


def test_addresses_come_and_go(make_pooler, fake, names):
    """Servers at an address that the name has no more are closed, others stay. The last one is still shown with
    its address: it is the same host as before."""
    first, second = two_places(fake, names)
    names.addresses = [first.host]
    pooler = pooler_by_name(make_pooler, first, names, **ROLE)
    client = pooler.connect()
    assert client.value("where") == first.host
    waiting.wait_for(lambda: states(pooler) == {"db.example": "up"}, "it is one host", DEADLINE)
    names.addresses = [second.host, first.host]
    are(pooler, _3="up", _4="unfit")
    first.standby, second.standby = True, False
    are(pooler, _3="unfit", _4="up")
    assert client.value("where") == second.host
    client.query("begin")
    names.addresses = [second.host]
    are(pooler, _4="up")
    waiting.wait_for(lambda: not first.open_sessions(), "the first one has no connection", DEADLINE)
    assert client.value("where") == second.host
    assert client.query("commit").tag == "COMMIT"
    count = len(second.open_sessions())
    names.addresses = []  # What was found before stays in use.
    for _ in range(3):
        asked = names.asked
        waiting.wait_for(lambda: names.asked > asked, "the name is looked up", DEADLINE)
    are(pooler, _4="up")
    assert len(second.open_sessions()) == count


def test_addresses_of_two_families(make_pooler, fake, names):
    """A machine has often one of each: that is one host. Otherwise those of one family are the hosts."""
    first, second = two_places(fake, names)
    names.addresses, names.more = [first.host], ["::1"]
    pooler = pooler_by_name(make_pooler, first, names, more="target_session_attrs=primary", role_check_period=0.2)
    client = pooler.connect()
    client.send(wire.query("where"))
    waiting.wait_for(lambda: names.asked > 3, "the name is looked up", DEADLINE)
    assert list(states(pooler)) == ["db.example"]
    names.addresses = [first.host, second.host]
    are(pooler, _3="up", _4="unfit")
    assert client.finish().value == first.host


@pytest.mark.parametrize("workers", [1, 4])
def test_a_name_without_roles_is_one_host(make_pooler, fake, names, workers):
    """Nobody looks after it: connections go to its addresses in turn, those of several workers as well."""
    first, second = two_places(fake, names)
    pooler = pooler_by_name(make_pooler, first, names, workers=workers)
    clients = [pooler.connect() for _ in range(4)]
    for client in clients:
        client.query("begin")
    assert {client.value("where") for client in clients} == {first.host, second.host}
    assert list(states(pooler)) == ["db.example"]


def test_switchover_to_an_address(make_pooler, fake, names, restart):
    """The choice, and that the name has several addresses, are known to a process that takes over."""
    first, second = two_places(fake, names)
    pooler = pooler_by_name(make_pooler, first, names, **ROLE)
    client = pooler.connect()
    assert client.value("where") == first.host
    are(pooler, _3="up", _4="unfit")
    error = pooler.admin.query("SWITCHOVER db TO db.example", check=False).errors[0]
    assert "several" in error.text(), error
    console = pooler.console()
    console.send(wire.query("SWITCHOVER db TO 'db.example/127.0.0.4'"))
    console.recv_until("N")
    first.standby, second.standby = True, False
    assert console.recv_until("C")[-1].tag() == "SWITCHOVER"
    assert client.value("where") == second.host
    mark = pooler.mark()
    names.addresses = []  # The new process cannot look it up.
    wait_end(restart(pooler), pooler)
    assert set(states(pooler)) == {"db.example/127.0.0.3", "db.example/127.0.0.4"}
    first.standby = False
    assert client.value("where") == second.host
    assert "server conn crashed" not in pooler.log()[mark:]
    are(pooler, _3="unfit", _4="up")
