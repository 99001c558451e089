"""Clients behind a proxy that sends the PROXY protocol (settings.md: proxy_protocol_from)."""

import os
import socket
import ssl
import struct

import pytest

import certs
import waiting
import wire

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
VERSION_1 = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 6432\r\n"
VERSION_1_IPV6 = b"PROXY TCP6 2001:db8::7 ::1 4711 6432\r\n"
ALPHA = "192.0.2.7"


def version_2(source=ALPHA, port=4711, command=1, extension=b""):
    body = socket.inet_aton(source) + socket.inet_aton("198.51.100.1")
    body += struct.pack("!HH", port, 6432) + extension
    return SIGNATURE + bytes([0x20 | command, 0x11]) + struct.pack("!H", len(body)) + body


HEADERS = pytest.mark.parametrize("header, address", [
    (VERSION_1, ALPHA), (VERSION_1_IPV6, "2001:db8::7"), (version_2(), ALPHA),
    (version_2(extension=b"\x04\0\x20" + b"x" * 32), ALPHA),
], ids=["text", "text-ipv6", "binary", "extended"])


@pytest.fixture
def proxied(make_pooler, pg):
    def make(networks="127.0.0.0/8, unix", **settings):
        return make_pooler({"db": pg.conn()}, settings={"proxy_protocol_from": networks, **settings})
    return make


def console_of(pooler, **more):
    """Returns an admin console, which also connects through the proxy."""
    client = pooler.client("pgbouncer", "admin_user", **more)
    client.send(VERSION_1)
    return client.login()


def row_of(pooler, address):
    with console_of(pooler) as console:
        rows = console.query("SHOW CLIENTS").dicts()
    return [row for row in rows if row["addr"] == address and row["database"] == "db"]


@HEADERS
@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_the_address_is_the_header_s(proxied, header, address, unix):
    pooler = proxied()
    with pooler.client(unix=unix) as client:
        client.send(header)
        client.login()
        assert client.query("select 1").value == "1"
        row, = row_of(pooler, address)
        assert row["port"] == "4711"
        assert "@%s:4711" % (address if "." in address else "[%s]" % address) in pooler.log()


def test_header_and_startup_packet_in_one_segment_and_in_pieces(proxied):
    pooler = proxied()
    startup = wire.startup([("user", "trust_user"), ("database", "db")])
    with pooler.raw() as raw:
        raw.send(version_2() + startup)
        raw.recv_until("Z")
    with pooler.raw() as raw:
        raw.send_slowly(version_2() + startup)
        raw.recv_until("Z")


@pytest.mark.parametrize("header", [
    b"PROXY UNKNOWN\r\n", version_2(command=0),
    SIGNATURE + b"\x20\0\0\0"], ids=["unknown", "local", "short-local"])
def test_headers_without_an_address_leave_the_peer_s(proxied, header):
    pooler = proxied()
    with pooler.client() as client:
        client.send(header)
        client.login()
        assert row_of(pooler, "127.0.0.1")


@pytest.mark.parametrize("first", [
    b"PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n", b"PROXY TCP4 " + b"1" * 200, SIGNATURE + b"\x31\x11\0\x0c" + b"x" * 12,
    wire.startup([("user", "trust_user"), ("database", "db")]), wire.ssl_request()],
    ids=["address", "endless", "version", "startup", "ssl"])
def test_a_broken_or_missing_header_ends_the_connection(proxied, first):
    pooler = proxied()
    with pooler.raw() as raw:
        raw.send(first)
        raw.expect_closed()
    pooler.wait_log("no valid PROXY header, although proxy_protocol_from lists this address")


@pytest.mark.parametrize("header", [VERSION_1, version_2()], ids=["text", "binary"])
@pytest.mark.parametrize("networks", ["", "10.0.0.0/8"])
def test_a_header_from_elsewhere_ends_the_connection(proxied, networks, header):
    pooler = proxied(networks)
    with pooler.client() as client:
        client.send(header)
        with pytest.raises((wire.Refused, wire.Closed, OSError)):
            client.login()
    pooler.wait_log("PROXY header from an address that proxy_protocol_from does not list")
    assert pooler.connect().query("select 1").value == "1"


def test_rules_see_the_client_s_address(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, start=False, settings={"auth_type": "hba"})
    pooler.settings.update(auth_hba_file=pooler.path("hba"), proxy_protocol_from="127.0.0.1")
    pooler.write("hba", "host all all 192.0.2.7/32 trust\nhost all all all reject\n")
    pooler.start()
    with pooler.client() as client:
        client.send(VERSION_1)
        assert client.login().query("select 1").value == "1"
    with pooler.client() as client:
        client.send(version_2("192.0.2.8"))
        with pytest.raises(wire.Refused):
            client.login()


def test_through_the_unix_socket_nobody_is_the_owner(make_pooler, pg):
    """On a unix socket the account of the proxy is not the account of the client, so it grants
    nothing."""
    pooler = make_pooler({"db": pg.conn()}, start=False, settings={"auth_type": "hba"})
    pooler.settings.update(auth_hba_file=pooler.path("hba"), proxy_protocol_from="unix")
    pooler.write("hba", "local all all trust\nhost all all all reject\n")
    pooler.start()
    with pooler.client(unix=True) as client:
        client.send(VERSION_1)
        with pytest.raises(wire.Refused):
            client.login()


WITHOUT_ADDRESS = {
    "text": b"PROXY UNKNOWN\r\n", "text-with-more": b"PROXY UNKNOWN ffff::1 ::1 1 2\r\n",
    "binary": SIGNATURE + b"\x21\0\0\0", "unix": SIGNATURE + b"\x21\x31\0\xd8" + b"/tmp/x".ljust(216, b"\0"),
    "unix-datagram": SIGNATURE + b"\x21\x32\0\xd8" + bytes(216), "local": SIGNATURE + b"\x20\0\0\0",
    "local-with-address": version_2(command=0)}


def told_as_the_account(pooler, header, user, database):
    """Logs in as a proxy would that runs as the pooler's own account of the operating system."""
    mine = os.geteuid()
    os.seteuid(pooler.account.pw_uid)  # The socket tells the account that has connected it.
    try:
        raw = pooler.raw(unix=True)
    finally:
        os.seteuid(mine)
    with raw:
        raw.send(header + wire.startup([("user", user), ("database", database)]))
        return raw.recv_until("EZ")


@pytest.mark.parametrize("header", WITHOUT_ADDRESS.values(), ids=WITHOUT_ADDRESS)
def test_the_account_of_a_proxy_is_nobody_s(make_pooler, pg, header):
    """A header without an address does not tell who the client is either: the account behind the
    unix socket is the proxy's, which is neither the owner nor an account for `peer`."""
    pooler = make_pooler({"db": pg.conn()}, start=False, settings={"auth_type": "hba"})
    account = pooler.account.pw_name
    pooler.settings.update(auth_hba_file=pooler.path("hba"), proxy_protocol_from="unix")
    pooler.write("hba", "local all %s peer\nlocal all all trust\nhost all all all trust\n" % account)
    pooler.userlist[account] = ""
    pooler.start()
    last = told_as_the_account(pooler, header, "pgbouncer", "pgbouncer")[-1]
    assert last.kind == "E" and last.field("M") == "not allowed"
    last = told_as_the_account(pooler, header, account, "db")[-1]
    assert last.kind == "E" and last.field("M") == "unix socket login rejected"
    assert told_as_the_account(pooler, header, "trust_user", "db")[-1].kind == "Z"
    assert "pgbouncer access from unix socket" not in pooler.log()


def test_without_a_proxy_the_account_is_the_client_s(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"proxy_protocol_from": "127.0.0.1"})
    assert told_as_the_account(pooler, b"", "pgbouncer", "pgbouncer")[-1].kind == "Z"


def test_tls_begins_behind_the_header(make_pooler, pg):
    folder = waiting.scratch("certs")
    authority = certs.Authority(folder)
    server = authority.issue("server", "localhost", ["localhost"])
    pooler = make_pooler({"db": pg.conn()}, settings={
        "proxy_protocol_from": "127.0.0.1", "client_tls_sslmode": "require",
        "client_tls_cert_file": server.cert_file, "client_tls_key_file": server.key_file})
    context = ssl.create_default_context(cafile=authority.file)
    with pooler.client() as client:
        client.send(version_2() + wire.ssl_request())
        assert client.recv_exact(1) == b"S"
        client.sock = context.wrap_socket(client.sock, server_hostname="localhost")
        assert client.login().query("select 1").value == "1"
    waiting.discard(folder)


def test_a_header_that_does_not_come_is_not_waited_for_longer_than_a_login(proxied):
    pooler = proxied(client_login_timeout="0.2")
    with pooler.raw() as raw:
        raw.send(VERSION_1[:10])
        raw.expect_fatal("client_login_timeout")


def test_a_list_that_is_not_understood_is_refused(proxied, make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, start=False,
                         settings={"proxy_protocol_from": "10.0.0.0/33"})
    code, out, err = pooler.run_ini(None, "--check-config")
    assert code != 0 and 'proxy_protocol_from: "10.0.0.0/33" is no network' in out + err
