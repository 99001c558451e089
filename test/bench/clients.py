"""Many clients of one process: log in (trust or SCRAM), ask one question, stay or leave."""

import asyncio
import base64
import hashlib
import hmac
import os
import socket
import struct
import time

from machine import DATABASE, HOST, SECRET, USER, Trouble

ITERATIONS = 4096
SALT = b"salt of a bench "
IN_FLIGHT = 64  # logins under way at once
PATIENCE = 60


def scram_keys():
    """Client key and server key of the one secret there is."""
    salted = hashlib.pbkdf2_hmac("sha256", SECRET.encode(), SALT, ITERATIONS)
    return [hmac.digest(salted, name, "sha256") for name in (b"Client Key", b"Server Key")]


def scram_secret():
    """The secret as a user list holds it. Made once: no login has to derive a key."""
    client, server = scram_keys()
    stored = [base64.b64encode(k).decode() for k in (hashlib.sha256(client).digest(), server)]
    return "SCRAM-SHA-256$%d:%s$%s:%s" % (ITERATIONS, base64.b64encode(SALT).decode(), *stored)


def message(kind, body):
    return kind + struct.pack("!i", len(body) + 4) + body


STARTUP = b"".join(word.encode() + b"\0" for word in ("user", USER, "database", DATABASE, ""))
STARTUP = struct.pack("!ii", len(STARTUP) + 8, 196608) + STARTUP
QUESTION = message(b"Q", b"select 1\0")
LEAVE = message(b"X", b"")


class Peer:
    """One client, logged in after login()."""

    def __init__(self, port, client_key):
        self.port, self.client_key = port, client_key
        self.sock = socket.socket()
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pending = b""

    async def send(self, data):
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def receive(self):
        while True:
            if len(self.pending) >= 5:
                end = 1 + struct.unpack_from("!i", self.pending, 1)[0]
                if len(self.pending) >= end:
                    kind, body = self.pending[:1], self.pending[5:end]
                    self.pending = self.pending[end:]
                    break
            data = await asyncio.get_running_loop().sock_recv(self.sock, 16384)
            if not data:
                raise Trouble("the pooler closed a connection")
            self.pending += data
        if kind == b"E":
            raise Trouble("the pooler says " + body.replace(b"\0", b" ").decode(errors="replace"))
        return kind, body

    async def until_ready(self):
        while (await self.receive())[0] != b"Z":
            pass

    async def login(self):
        await asyncio.get_running_loop().sock_connect(self.sock, (HOST, self.port))
        await self.send(STARTUP)
        kind, body = await self.receive()
        if kind != b"R":
            raise Trouble("not an answer to a startup packet: %r" % kind)
        method = struct.unpack_from("!i", body)[0]
        if method == 10:
            await self.prove()
        elif method != 0:
            raise Trouble("authentication method %d is not spoken here" % method)
        await self.until_ready()

    async def prove(self):
        """SCRAM-SHA-256; the server's own proof is of no interest here."""
        bare = b"n=,r=" + base64.b64encode(os.urandom(18))
        first = b"n,," + bare
        await self.send(message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first))
        challenge = (await self.receive())[1][4:]
        without_proof = b"c=biws," + challenge.split(b",", 1)[0]
        signed = b",".join((bare, challenge, without_proof))
        signature = hmac.digest(hashlib.sha256(self.client_key).digest(), signed, "sha256")
        proof = bytes(a ^ b for a, b in zip(self.client_key, signature))
        await self.send(message(b"p", without_proof + b",p=" + base64.b64encode(proof)))

    async def ask(self):
        await self.send(QUESTION)
        await self.until_ready()

    async def leave(self):
        await self.send(LEAVE)
        self.sock.close()


async def in_parallel(job, has_next):
    """Runs job() again and again, IN_FLIGHT at a time, as long as has_next() says so."""
    async def worker():
        while has_next():
            await asyncio.wait_for(job(), PATIENCE)

    workers = [asyncio.ensure_future(worker()) for _ in range(IN_FLIGHT)]
    try:
        await asyncio.gather(*workers)
    except asyncio.TimeoutError:
        raise Trouble("a login did not end within %d s" % PATIENCE) from None
    finally:
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


def open_idle(port, count):
    """That many clients, each logged in and through with one query."""
    key = scram_keys()[0]
    peers = []

    async def one():
        peer = Peer(port, key)
        peers.append(peer)
        await peer.login()
        await peer.ask()

    try:
        asyncio.run(in_parallel(one, lambda: len(peers) < count))
    except BaseException:
        close_idle(peers)
        raise
    return peers


def close_idle(peers):
    for peer in peers:
        peer.sock.close()


def storm(port, seconds):
    """Logins without a query for that long; gives how long each one took."""
    key = scram_keys()[0]
    took = []
    end = time.monotonic() + seconds

    async def one():
        start = time.monotonic()
        peer = Peer(port, key)
        try:
            await peer.login()
            took.append(time.monotonic() - start)
            await peer.leave()
        finally:
            peer.sock.close()

    asyncio.run(in_parallel(one, lambda: time.monotonic() < end))
    return took
