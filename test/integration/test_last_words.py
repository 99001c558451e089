"""What a server has sent before its end reaches a client that reads slowly."""

import socket
import ssl
import threading
import time

import pytest

import certs
import waiting
import wire

LONG = 200 * 1024
T = wire.row_description([("v", 25, -1)])
LAST_WORDS = {
    "part of a row": T + wire.data_row(["x" * 2 * LONG])[:LONG],
    "rows": T + wire.data_row(["x" * 1000]) * 200,
    "fatal error": wire.error("FATAL", "57P01", "x" * LONG),
}


@pytest.fixture(scope="module")
def pair():
    folder = waiting.scratch("certs")
    yield certs.Authority(folder).issue("server", "localhost", ["localhost"])
    waiting.discard(folder)


def pooler_of(make_pooler, server, engine, pair):
    """Its sockets take little at once, so that it has to keep the rest."""
    return make_pooler({"db": server.conn(pool_size=2)}, settings={
        "pool_mode": "transaction", "io_engine": engine, "tcp_socket_buffer": 4096,
        "client_tls_sslmode": "allow", "client_tls_cert_file": pair.cert_file,
        "client_tls_key_file": pair.key_file})


def slow_client(pooler, has_tls):
    client = pooler.client("db", "trust_user")
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    if has_tls:
        made = ssl.create_default_context()
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        client.send(wire.ssl_request())
        assert client.recv_exact(1) == b"S"
        client.sock = made.wrap_socket(client.sock)
    return client.login()


class Ending:
    """A server that says this to its first query, and closes the connection."""

    def __init__(self, words):
        self.words = words
        self.is_over = threading.Event()

    def __call__(self, session):
        session.login()
        session.recv()
        session.send(self.words)
        session.close()
        self.is_over.set()


@pytest.mark.parametrize("engine", ["epoll", "io_uring"])
@pytest.mark.parametrize("has_tls", [False, True])
@pytest.mark.parametrize("name", LAST_WORDS)
def test_last_words_reach_a_slow_reader(make_pooler, fake, pair, name, has_tls, engine):
    """Also if the client has sent more behind its query, which nobody reads any more."""
    words = LAST_WORDS[name]
    server = fake(Ending(words))
    pooler = pooler_of(make_pooler, server, engine, pair)
    client = slow_client(pooler, has_tls)
    client.send(wire.query("select broken"))
    got = b""
    while "closing because" not in pooler.log():
        got += client.sock.recv(4096)
    client.send(wire.query("select 'behind'") * 10)
    while len(got) < len(words):
        got += client.sock.recv(4096) or pytest.fail("%d of %d bytes" % (len(got), len(words)))
    assert got[:len(words)] == words
    client.pending = got[len(words):]
    if name == "rows":
        assert client.recv().text() == "server conn crashed?"
    client.expect_closed()


@pytest.mark.parametrize("engine", ["epoll", "io_uring"])
@pytest.mark.parametrize("is_stopped", [False, True])
def test_who_does_not_read_is_not_waited_for(make_pooler, fake, pair, engine, is_stopped):
    """For ten seconds, or until somebody wants the connection closed."""
    server = fake(Ending(LAST_WORDS["rows"]))
    pooler = pooler_of(make_pooler, server, engine, pair)
    client = slow_client(pooler, False)
    client.send(wire.query("select broken"))
    while "closing because" not in pooler.log():
        client.sock.recv(4096)
    begun = time.monotonic()
    if is_stopped:
        pooler.stop()
        assert time.monotonic() - begun < 8
        return
    waiting.wait_for(lambda: pooler.show_one("LISTS", list="used_clients")["items"] == "1", "it is closed", 40)
    assert time.monotonic() - begun > 5
