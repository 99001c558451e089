"""Clients of which one process can run many. A client logs in (trust or SCRAM), runs one query, and
then stays or leaves."""

import asyncio
import base64
import hashlib
import hmac
import os
import socket
import ssl
import struct
import subprocess
import sys
import time

from machine import DATABASE, HOST, SECRET, USER, Trouble

ITERATIONS = 4096
SALT = b"salt of a bench "
IN_FLIGHT = 64  # The number of logins that are in progress at once.
PATIENCE = 60


def scram_keys():
    """Returns the SCRAM client key and server key of the one password that all clients share."""
    salted = hashlib.pbkdf2_hmac("sha256", SECRET.encode(), SALT, ITERATIONS)
    return [hmac.digest(salted, name, "sha256") for name in (b"Client Key", b"Server Key")]


def scram_secret():
    """Returns the SCRAM secret as a user list holds it. It is made once, so that no login has to
    derive a key."""
    client, server = scram_keys()
    stored = [base64.b64encode(k).decode() for k in (hashlib.sha256(client).digest(), server)]
    return "SCRAM-SHA-256$%d:%s$%s:%s" % (ITERATIONS, base64.b64encode(SALT).decode(), *stored)


def wave_user(number):
    """Returns the name and the password of a user who logs in during a wave of logins."""
    return "wave%d" % number, "password of wave %d" % number


def message(kind, body):
    return kind + struct.pack("!i", len(body) + 4) + body



def startup(user, database=DATABASE):
    body = b"".join(word.encode() + b"\0" for word in ("user", user, "database", database, ""))
    return struct.pack("!ii", len(body) + 8, 196608) + body


STARTUP = startup(USER)
QUESTION = message(b"Q", b"select 1\0")
LEAVE = message(b"X", b"")


class Peer:
    """One client, which is logged in after login()."""

    def __init__(self, port, client_key, user=USER, password=None, database=DATABASE):
        self.port, self.client_key, self.database = port, client_key, database
        # With a password, the client derives its key from it.
        self.user, self.password = user, password
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
        await self.send(startup(self.user, self.database))
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
        """Performs the SCRAM-SHA-256 exchange. The client does not check the server's proof."""
        bare = b"n=,r=" + base64.b64encode(os.urandom(18))
        first = b"n,," + bare
        await self.send(message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first))
        challenge = (await self.receive())[1][4:]
        if self.password:
            part = dict(item.split(b"=", 1) for item in challenge.split(b","))
            salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(),
                                         base64.b64decode(part[b"s"]), int(part[b"i"]))
            self.client_key = hmac.digest(salted, b"Client Key", "sha256")
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


def column_names(body):
    """Returns the names in a RowDescription."""
    found, at = [], 2
    for _ in range(struct.unpack_from("!h", body)[0]):
        end = body.index(b"\0", at)
        found.append(body[at:end].decode())
        at = end + 19
    return found


def column_values(body):
    """Returns the texts in a DataRow, None for NULL."""
    found, at = [], 2
    for _ in range(struct.unpack_from("!h", body)[0]):
        size = struct.unpack_from("!i", body, at)[0]
        found.append(None if size < 0 else body[at + 4:at + 4 + size].decode())
        at += 4 + max(0, size)
    return found


class Blocking:
    """One client on a connected socket, which blocks until each answer arrives."""

    def __init__(self, sock):
        self.sock = sock

    def say(self, request):
        """Sends messages and returns the last bytes of the answer, which ends with
        ReadyForQuery."""
        self.sock.sendall(request)
        answer = b""
        while not answer.endswith(b"Z\0\0\0\5I"):
            more = self.sock.recv(1 << 18)
            if not more:
                raise Trouble("the pooler closed a connection")
            answer = (answer + more)[-400:]
        return answer

    def command(self, text):
        """Runs one command of the console."""
        answer = self.say(message(b"Q", text.encode() + b"\0"))
        if answer.startswith(b"E"):
            raise Trouble("%s: %s" % (text, answer.replace(b"\0", b" ").decode(errors="replace")))

    def rows(self, text):
        """Runs one command of the console and returns its rows: a list of {column: value}."""
        self.sock.sendall(message(b"Q", text.encode() + b"\0"))
        names, rows = [], []
        while True:
            kind = self.take(1)
            body = self.take(struct.unpack("!i", self.take(4))[0] - 4)
            if kind == b"T":
                names = column_names(body)
            elif kind == b"D":
                rows.append(dict(zip(names, column_values(body))))
            elif kind == b"E":
                raise Trouble("%s: %s" % (text, body.replace(b"\0", b" ").decode(errors="replace")))
            elif kind == b"Z":
                return rows

    def take(self, count):
        found = b""
        while len(found) < count:
            more = self.sock.recv(count - len(found))
            if not more:
                raise Trouble("the pooler closed a connection")
            found += more
        return found

    def prepare(self, numbers):
        """Prepares named statements, each with a different text."""
        for number in numbers:
            name, text = b"statement%d\0" % number, b"select %d\0" % number
            self.say(message(b"P", name + text + b"\0\0") + message(b"S", b""))

    def latencies(self, goes_on):
        """Runs one query after the other and returns the latency of each."""
        took = []
        while goes_on():
            start = time.monotonic()
            self.say(QUESTION)
            took.append(time.monotonic() - start)
        return took


def logged_in(peer):
    """Returns the client's socket after the login, in blocking mode."""
    asyncio.run(peer.login())
    peer.sock.setblocking(True)
    peer.sock.settimeout(PATIENCE)
    return peer.sock


async def in_parallel(job, has_next):
    """Runs job() repeatedly, IN_FLIGHT at a time, as long as has_next() is true."""
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


def open_idle_tls(port, count):
    """Opens TLS clients. Each has logged in and run one query, and is idle afterwards."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    found = []
    try:
        for _ in range(count):
            sock = socket.create_connection((HOST, port), PATIENCE)
            sock.sendall(struct.pack("!ii", 8, 80877103))
            if sock.recv(1) != b"S":
                raise Trouble("the pooler has no TLS")
            found.append(Blocking(context.wrap_socket(sock)))
            found[-1].say(STARTUP)
            found[-1].say(QUESTION)
    except BaseException:
        close_idle(found)
        raise
    return found


def visit(port, users):
    """Lets each client log in, run one query and disconnect."""
    left = list(users)

    async def one():
        if not left:
            return
        peer = Peer(port, None, left.pop())
        try:
            await peer.login()
            await peer.ask()
            await peer.leave()
        finally:
            peer.sock.close()

    asyncio.run(in_parallel(one, lambda: left))


def close_idle(peers):
    for peer in peers:
        peer.sock.close()


def console(port):
    """Opens the console as an administrator of a pooler with auth_type=trust."""
    return Blocking(logged_in(Peer(port, scram_keys()[0], database="pgbouncer")))


def wave(port, count):
    """Starts a process that logs in that many users, each with a password, at a low
    scheduling priority."""
    here = os.path.dirname(os.path.abspath(__file__))
    code = "import sys; sys.path.insert(0, %r); import clients; clients.run_wave(%d, %d)"
    return subprocess.Popen([sys.executable, "-c", code % (here, port, count)],
                            preexec_fn=lambda: os.nice(19))


def run_wave(port, count):
    left = list(range(count))

    async def one():
        if not left:
            return
        user, password = wave_user(left.pop())
        peer = Peer(port, None, user, password)
        try:
            await peer.login()
            await peer.leave()
        finally:
            peer.sock.close()

    asyncio.run(in_parallel(one, lambda: left))


def established(port):
    """Opens a client that has logged in with the shared password."""
    return Blocking(logged_in(Peer(port, scram_keys()[0])))


def storm(port, seconds):
    """Repeats logins without a query for that many seconds and returns how long each one took."""
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
