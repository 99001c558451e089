"""Clients that nobody knows: what they send, and many of them beside somebody who is served."""

import random
import socket
import struct
import time

import wire


def startup(user, database="db"):
    return wire.startup({"user": user, "database": database})


# What strangers send, by kind.
GARBAGE = {
    "nothing": lambda chance: b"",
    "noise": lambda chance: chance.randbytes(chance.randrange(1, 2000)),
    "HTTP": lambda chance: b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
    "TLS": lambda chance: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(200),
    "SSLRequest": lambda chance: wire.ssl_request() + chance.randbytes(20),
    "half a packet": lambda chance: struct.pack("!ii", 9000, wire.PROTOCOL_3_0) + b"user\0" + b"x" * 3000,
    "unknown user": lambda chance: startup("nobody%d" % chance.randrange(10**6)),
    "unknown database": lambda chance: startup("admin_user", "no%d" % chance.randrange(10**6)),
    "wrong proof": lambda chance: startup("admin_user") + wire.sasl_initial("SCRAM-SHA-256", "n,,n=,r=abc")
    + wire.message("p", chance.randbytes(50)),
    "wrong cancel": lambda chance: wire.cancel_request(chance.randbytes(8)),
}


def connect(pooler):
    sock = socket.socket()
    sock.settimeout(10)
    sock.connect((pooler.host, pooler.port))
    return sock


def flood(pooler, count, seed, held_most=100):
    """Opens so many connections one after the other. Some are closed at once, others are held for a while."""
    chance = random.Random(seed)
    kinds = list(GARBAGE.values())
    held = []
    for _ in range(count):
        try:
            held.append(connect(pooler))
            held[-1].sendall(chance.choice(kinds)(chance))
        except OSError:
            pass  # it has been closed already
        if chance.random() < 0.5:
            held.pop().close()
        if len(held) > held_most:
            held.pop(chance.randrange(len(held))).close()
    for sock in held:
        sock.close()


def durations(client, enough):
    """Sends queries until enough() says so, and returns how long each took, in order of length."""
    taken = []
    while not enough(len(taken)):
        began = time.perf_counter()
        client.query("select 1")
        taken.append(time.perf_counter() - began)
    return sorted(taken)


def percentile(sorted_values, share):
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))]
