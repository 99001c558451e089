"""Limits of clients that have not proven who they are, and of the lines that they cause."""

import re
import threading

import pytest

import strangers
import waiting
import wire

MB = 1024 * 1024


def silent(pooler, count, unix=False):
    return [pooler.raw(unix) for _ in range(count)]


def told(sock):
    """The error that this client is told before its end, or None if it is told nothing yet."""
    message = wire.Wire(sock.sock if hasattr(sock, "sock") else sock).recv()
    return {f: message.field(f) for f in "SCMDH"}


def login_clients(pooler):
    return int(pooler.show_one("LISTS", list="login_clients")["items"])


@pytest.fixture(params=[1, 4], ids=["1 worker", "4 workers"])
def workers(request):
    return request.param


def test_too_many_of_one_address(make_pooler, pg, workers):
    """Who is one too many is refused at once. Who has logged in does not count, nor does the unix socket."""
    pooler = make_pooler({"db": pg.conn(pool_size=2)}, settings={
        "max_login_clients_per_address": 5, "workers": workers, "unix_socket_mode": "0777"})
    known = [pooler.connect() for _ in range(8)]
    held = silent(pooler, 5)
    waiting.wait_for(lambda: login_clients(pooler) == 5)
    for _ in range(3):
        error = told(pooler.raw())
        assert error["S"] == "FATAL" and error["C"] == "53300"
        assert error["M"] == "too many incomplete logins of one address (max_login_clients_per_address)"
        assert error["D"] == "max_login_clients_per_address is 5"
        assert error["H"].startswith("Connect again")
    assert pooler.connect(unix=True).value("select 1") == "1"
    assert known[0].value("select 1") == "1"
    held.pop().close()
    waiting.wait_for(lambda: login_clients(pooler) == 4)
    assert pooler.connect().value("select 2") == "2"
    pooler.set("max_login_clients_per_address", "0")
    held += silent(pooler, 5)
    assert pooler.connect().value("select 3") == "3"


def test_too_many_in_total(make_pooler, pg, workers):
    """Who has kept the pooler waiting for the longest time gives way: who answers gets in, also the administrator."""
    pooler = make_pooler({"db": pg.conn(pool_size=2)}, settings={
        "max_login_clients": 6, "workers": workers, "auth_type": "scram-sha-256", "client_login_timeout": 600,
        "tcp_defer_accept": 0})
    pooler.console(unix=True)
    held = []
    for _ in range(40):
        held += silent(pooler, 1)
    waiting.wait_for(lambda: pooler.log().count("closing because: too many incomplete logins") == 34)
    waiting.wait_for(lambda: login_clients(pooler) == 6)
    if workers == 1:
        for sock in held[:-6]:
            error = told(sock)
            assert (error["C"], error["M"]) == ("53300", "too many incomplete logins (max_login_clients)")
            assert error["D"] == "max_login_clients is 6"
    for _ in range(5):
        with pooler.console() as console:
            assert console.value("SHOW VERSION")
        assert pooler.connect(user="scram_user").value("select 1") == "1"


def test_who_waits_for_the_pooler_stays(make_pooler, fake):
    """A login that waits for a server is not the client's fault."""
    server = fake(lambda session: session.recv_startup() and session.recv())
    pooler = make_pooler({"db": server.conn()}, settings={"max_login_clients": 3, "workers": 1})
    waiters = []
    for _ in range(6):
        waiters.append(pooler.client())
        waiters[-1].send(waiters[-1].startup_packet())
    pooler.wait_pool(cl_waiting=6)
    for _ in range(6):
        silent(pooler, 1)
    waiting.holds_for(lambda: int(pooler.pool()["cl_waiting"]) == 6, 0.2, "they wait")


def test_addresses_behind_a_proxy_count(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={
        "max_login_clients_per_address": 2, "proxy_protocol_from": "127.0.0.1"})
    pooler.console(unix=True)

    def through(address):
        sock = pooler.raw()
        sock.sock.sendall(b"PROXY TCP4 %s 10.0.0.1 1000 6432\r\n" % address.encode())
        return sock

    quiet = [pooler.raw() for _ in range(5)]  # The proxy has said nothing of them yet.
    held = [through("192.0.2.1"), through("192.0.2.1"), through("192.0.2.2")]
    waiting.wait_for(lambda: login_clients(pooler) == 8)
    assert told(through("192.0.2.1"))["M"].startswith("too many incomplete logins of one address")
    held.append(through("192.0.2.2"))
    waiting.wait_for(lambda: login_clients(pooler) == 9)
    assert told(through("192.0.2.2"))["M"].startswith("too many incomplete logins of one address")
    for sock in quiet + held:
        sock.close()
    waiting.wait_for(lambda: login_clients(pooler) == 0)


def test_networks_of_ipv6_count_together(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={
        "max_login_clients_per_address": 2, "proxy_protocol_from": "127.0.0.1"})
    pooler.console(unix=True)

    def through(address):
        sock = pooler.raw()
        sock.sock.sendall(b"PROXY TCP6 %s 2001:db8::1 1000 6432\r\n" % address.encode())
        return sock

    held = [through("2001:db8:0:1::1"), through("2001:db8:0:1:ffff::2"), through("2001:db8:0:2::1"),
            through("::ffff:192.0.2.1"), through("::ffff:192.0.2.2"), through("::ffff:192.0.2.3")]
    waiting.wait_for(lambda: login_clients(pooler) == len(held))
    assert told(through("2001:db8:0:1:7::3"))["C"] == "53300"


def test_lines_about_strangers_are_limited(make_pooler, pg, workers):
    """Of each message and address. Who has logged in is logged as always."""
    pooler = make_pooler({"db": pg.conn()}, settings={
        "log_lines_per_address": 7, "proxy_protocol_from": "127.0.0.1", "workers": workers})
    pooler.console(unix=True)

    def refused(address):
        sock = pooler.raw()
        sock.sock.sendall(b"PROXY TCP4 %s 10.0.0.1 1000 6432\r\n" % address.encode() + b"GET / HTTP/1.1\r\n\r\n")
        assert told(sock)["C"] == "08P01"

    def lines(address):
        return [line for line in pooler.log().splitlines() if "@%s:" % address in line]

    for _ in range(60):
        refused("192.0.2.1")
    for _ in range(2):
        refused("192.0.2.2")
    flooded = lines("192.0.2.1")
    for message in ("pooler error: ", "closing because: "):
        count = sum(message in line for line in flooded)
        assert 7 <= count <= 7 * workers
        assert re.search(r'WARNING lines "%s\.\.\." about clients of 192\.0\.2\.1 that have not logged in: 7 in a '
                         r'minute, more are left out \(log_lines_per_address\)' % message, pooler.log())
    assert sum("closing because" in line for line in lines("192.0.2.2")) == 2
    pooler.set("log_lines_per_address", "0")
    before = len(lines("192.0.2.1"))
    for _ in range(20):
        refused("192.0.2.1")
    waiting.wait_for(lambda: len(lines("192.0.2.1")) >= before + 40)


@pytest.mark.one_worker
def test_lines_of_clients_that_log_in_stay(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"log_lines_per_address": 3})
    for _ in range(10):
        pooler.connect().close()
    waiting.wait_for(lambda: pooler.log().count("closing because: client unexpected eof") == 10)
    assert pooler.log().count("login attempt: db=db") == 3


def test_a_flood_of_strangers(make_pooler, pg):
    """Memory stays as it is, and who is served is served. test/bench/strangers.py does it with 50,000."""
    pooler = make_pooler({"db": pg.conn(pool_size=2)}, start=False, settings={
        "auth_type": "scram-sha-256", "pool_mode": "transaction", "max_client_conn": 500,
        "max_login_clients": 60, "log_lines_per_address": 10})
    pooler.quarantine_mb = 4
    pooler.start()
    client = pooler.connect(user="scram_user")
    client.query("select 1")
    fds = pooler.fds()
    strangers.flood(pooler, 500, 1)
    before = pooler.rss()
    flooding = threading.Thread(target=strangers.flood, args=(pooler, 2000, 2))
    flooding.start()
    taken = strangers.durations(client, lambda count: not flooding.is_alive())
    flooding.join()
    assert len(taken) > 50
    waiting.wait_for(lambda: pooler.fds() <= fds + 2 and login_clients(pooler) <= 1)
    if not pooler.is_for_threads():
        assert pooler.rss() - before < 6 * MB
    assert len(pooler.log().splitlines()) < 1000
    assert strangers.percentile(taken, 0.99) < 0.25
