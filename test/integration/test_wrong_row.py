"""No client ever gets the row or the cancel of another client (protocol.md 9, 11, 12, 13).

Many clients share a few server connections. Each answer carries its client's tag. Some clients
cancel their queries and some vanish in the middle; the others must not notice."""

import asyncio
import os
import random
import struct

import pytest

import wire

CLIENTS = 200
SERVERS = 10
SECONDS = float(os.environ.get("WRONG_ROW_SECONDS", "10"))
# The clients go on, for at most MOST_SECONDS, until each of WHATS has happened more than
# ENOUGH times: a cancel request hits its query only if this program is quick.
MOST_SECONDS = 150.0
ENOUGH = 20
WHATS = ("answers", "canceled", "vanished")
# The query was cancelled; the statement was not prepared; the block is aborted.
OF_CANCEL = ("57014", "26000", "25P02")


class Wrong(Exception):
    """An answer that belongs to another client or to another query."""


def answer(rows):
    return [(rows, "I")]


class Peer:
    """One client. All its queries contain its own tag."""

    def __init__(self, number, pooler, named, rng, door, has_blocks):
        self.tag = "client %d" % number
        self.door = door
        self.has_blocks = has_blocks
        self.pooler, self.named, self.random = pooler, named, rng
        self.cancels = number % 4 == 1
        self.vanishes = number % 8 == 3
        self.count = 0
        self.answers = self.canceled = self.vanished = 0
        self.reader = self.writer = None
        self.key = None
        self.raw = b""
        self.prepared = set()

    # the connection

    async def connect(self):
        async with self.door:
            await self.log_in()

    async def log_in(self):
        self.reader, self.writer = await asyncio.open_unix_connection(self.path())
        self.raw = b""
        self.prepared = set()
        self.writer.write(wire.startup({"user": "trust_user", "database": "db",
                                        "application_name": self.tag}))
        for kind, body in await self.answer(1):
            if kind == b"K":
                self.key = body
            if kind == b"E":
                raise Wrong("%s: login: %r" % (self.tag, body))

    def path(self):
        return "%s/.s.PGSQL.%d" % (self.pooler.dir, self.pooler.port)

    def vanish(self):
        self.vanished += 1
        self.writer.transport.abort()
        self.writer = None

    async def answer(self, readies):
        """Returns the messages up to that many ReadyForQuery."""
        found = []
        while readies:
            while len(self.raw) >= 5:
                size, = struct.unpack_from("!i", self.raw, 1)
                if len(self.raw) <= size:
                    break
                found.append((self.raw[:1], self.raw[5:size + 1]))
                self.raw = self.raw[size + 1:]
                readies -= found[-1][0] == b"Z"
            if readies:
                more = await asyncio.wait_for(self.reader.read(65536), 100)
                if not more:
                    raise Wrong("%s: closed behind %r" % (self.tag, found[-3:]))
                self.raw += more
        if self.raw:
            raise Wrong("%s: %r behind the answer" % (self.tag, self.raw[:200]))
        return found

    async def cancel(self):
        async with self.door:
            reader, writer = await asyncio.open_unix_connection(self.path())
        writer.write(wire.cancel_request(self.key))
        await asyncio.wait_for(reader.read(), 100)
        writer.close()

    # the queries

    def question(self):
        """Returns (bytes, the expected answers); an answer is rows and the status in
        ReadyForQuery."""
        self.count += 1
        what = "%s question %d" % (self.tag, self.count)
        nap = "pg_sleep(%g)" % self.random.choice((0, 0, 0, 0.001, 0.02))
        ways = [self.simple, self.several, self.unnamed]
        if self.named:
            ways += [self.prepare, self.prepare, self.shared, self.own, self.own]
        if self.has_blocks:
            ways.append(self.block)
        return self.random.choice(ways)(what, nap)

    def simple(self, what, nap):
        return wire.query("select '%s', %s" % (what, nap)), answer([(what, "")])

    def several(self, what, nap):
        rows = [(what, str(g)) for g in range(1, 21)] + [("",)]
        return wire.query("select '%s', g from generate_series(1, 20) g; select %s" % (
            what, nap)), answer(rows)

    def block(self, what, nap):
        return (wire.query("begin") + wire.query("select '%s', %s" % (what, nap))
                + wire.query("commit")), [([], "T"), ([(what, "")], "T"), ([], "I")]

    def unnamed(self, what, nap):
        return (wire.parse("", "select $1::text, '%s', %s" % (self.tag, nap))
                + wire.bind("", "", [what]) + wire.describe("P") + wire.execute()
                + wire.sync()), answer([(what, self.tag, "")])

    def run(self, name, what, row):
        return wire.bind("", name, [what]) + wire.execute() + wire.sync(), answer([row])

    def prepare(self, what, nap):
        """Prepares and runs a text with the client's own tag, under a name that all clients use."""
        name = "s%d" % self.random.randrange(3)
        data, answers = self.run(name, what, (self.tag + name, what, ""))
        sql = "select '%s%s', $1::text, %s" % (self.tag, name, nap)
        self.prepared.add(name)
        return wire.close("S", name) + wire.parse(name, sql) + data, answers

    def own(self, what, nap):
        if not self.prepared:
            return self.prepare(what, nap)
        name = self.random.choice(sorted(self.prepared))
        return self.run(name, what, (self.tag + name, what, ""))

    def shared(self, what, nap):
        """Prepares and runs a text that all clients use, under the client's own name."""
        name = "%s %d" % (self.tag, self.count)
        return (wire.parse(name, "select $1::text") + wire.bind("", name, [what]) + wire.execute()
                + wire.close("S", name) + wire.sync()), answer([(what,)])

    # checking of answers

    def check(self, expected, messages):
        """Splits the messages at ReadyForQuery and compares every part with the next expected
        answer."""
        part, parts = [], []
        for kind, body in messages:
            part.append((kind, body))
            if kind == b"Z":
                parts.append(part)
                part = []
        for (rows, status), part in zip(expected, parts):
            self.check_one(rows, status, part)
        if parts[-1][-1][1] != b"I":
            raise Wrong("%s: ends in %r" % (self.tag, parts[-1][-3:]))

    def check_one(self, rows, status, part):
        errors = [wire.Message("E", body) for kind, body in part if kind == b"E"]
        got = [wire.Message("D", body).values() for kind, body in part if kind == b"D"]
        if errors:
            if not self.cancels or errors[0].field("C") not in OF_CANCEL:
                raise Wrong("%s: %r" % (self.tag, errors))
            self.prepared.clear()
            self.canceled += 1
            if any(row != wanted for row, wanted in zip(got, rows)):
                raise Wrong("%s: wanted %r, got %r" % (self.tag, rows, got))
        elif got != rows:
            raise Wrong("%s: wanted %r, got %r" % (self.tag, rows, got))
        elif part[-1][1] != status.encode() and not self.cancels:
            raise Wrong("%s: wanted %s, ends in %r" % (self.tag, status, part[-3:]))
        self.answers += 1

    async def turn(self):
        if self.writer is None:
            await self.connect()
        asked = [self.question() for _ in range(self.random.choice((1, 1, 1, 2, 5)))]
        self.writer.write(b"".join(data for data, _ in asked))
        if self.cancels and self.random.random() < 0.3:
            await asyncio.sleep(self.random.choice((0, 0, 0.001, 0.01)))
            await self.cancel()
        if self.vanishes and self.random.random() < 0.2:
            await asyncio.sleep(self.random.choice((0, 0, 0.001, 0.01)))
            self.vanish()
            return
        expected = [one for _, answers in asked for one in answers]
        self.check(expected, await self.answer(len(expected)))
        if self.random.random() < 0.05:
            await asyncio.sleep(self.random.random() / 20)

    async def live(self, is_over):
        while not is_over():
            await self.turn()
        if self.writer:
            self.writer.close()


def total(peers, what):
    return sum(getattr(peer, what) for peer in peers)


async def crowd(peers):
    clock = asyncio.get_running_loop().time
    begun = clock()

    def is_over():
        spent = clock() - begun
        if spent < SECONDS:
            return False
        return spent > MOST_SECONDS or all(total(peers, what) > ENOUGH for what in WHATS)

    await asyncio.gather(*[peer.live(is_over) for peer in peers])


def run_crowd(pooler, named, has_blocks):
    seed = random.randrange(10 ** 9)
    print("seed %d" % seed)
    rng = random.Random(seed)
    # A listening socket with a full queue refuses further connections, and a connection is in the
    # queue until the pooler accepts it.
    door = asyncio.Semaphore(20)
    peers = [Peer(n, pooler, named, random.Random(rng.random()), door, has_blocks)
             for n in range(CLIENTS)]
    asyncio.run(crowd(peers))
    pooler.wait_pool(sv_active=0, cl_waiting=0, cl_active=0, sv_being_canceled=0)
    assert "unexpected pkt" not in pooler.log()
    print("%d answers, %d canceled, %d clients vanished" % tuple(total(peers, what) for what in WHATS))
    for what in WHATS:
        assert total(peers, what) > ENOUGH, what
    assert all(p.answers for p in peers if not p.vanishes)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode, prepared", [("transaction", 0), ("transaction", 5),
                                            ("transaction", 200), ("statement", 50)])
def test_nobody_gets_a_wrong_row(make_pooler, pg, mode, prepared):
    pooler = make_pooler({"db": pg.unix_conn(pool_size=SERVERS)}, settings={
        "pool_mode": mode, "max_prepared_statements": prepared, "max_client_conn": 1000})
    run_crowd(pooler, prepared > 0, mode != "statement")
