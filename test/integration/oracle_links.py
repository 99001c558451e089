"""Running a sequence of messages against PostgreSQL and against poolers, and comparing.

What matters of an answer is everything, byte by byte, except
  * BackendKeyData, and the process id in NotificationResponse;
  * where notifications stand, with session_state=keep: they are compared by themselves;
  * when ParameterStatus comes: it is left out of the stream, and what the client knows of its
    parameters at the end is compared instead;
  * the fields F, L and R (file, line, routine) of errors and notices, and W (context) of a
    cancelled statement, which is wherever the signal found it;
  * the OID of a temporary table in RowDescription;
  * in an aborted transaction block, which error answers the Bind or Describe of a named statement
    (see without_refusals).
"""

import collections
import copy
import fcntl
import random
import re
import select
import struct
import termios
import time

import oracle_ops
import wire

STALLED = 0.25
QUIET = 0.004  # So long nothing comes to clients that have all notifications, and their servers rest.
SENTINEL = b"the_end_%d"


class Invalid(Exception):
    """PostgreSQL itself closes the connection at this sequence, or one client waits there for another,
    so that it is no valid test."""


LOST_TYPE = re.compile(rb"for type \d+")


def type_of(oid):
    """Types that clients have made have another OID in each database."""
    return oid if oid < b"\0\0\x40\0" else b"made"


class Link:
    """A logged-in connection that records the relevant part of what it receives."""

    def __init__(self, client, tables, hears_apart=False):
        self.client = client
        self.hears_apart = hears_apart
        self.sock = client.sock
        self.sock.setblocking(False)
        self.tables = tables
        self.fd = self.sock.fileno()
        self.key = client.key
        self.pid = struct.unpack("!i", client.key[:4])[0]
        self.raw = bytearray(client.pending)
        self.unsent = b""
        self.known = dict(client.parameters())
        self.is_closed = False
        self.begin(0)

    def begin(self, number):
        self.said = []
        self.heard = []  # The notifications, where they are compared by themselves.
        self.sentinel = SENTINEL % number
        self.has_ended = self.is_closed

    def close(self):
        self.client.close()

    def send(self, data):
        self.unsent += data
        self.push()

    def push(self):
        while self.unsent:
            try:
                self.unsent = self.unsent[self.sock.send(self.unsent):]
            except BlockingIOError:
                return
            except OSError:
                self.unsent = b""

    def feed(self):
        """Reads what has arrived and returns whether there was anything."""
        self.push()
        try:
            more = self.sock.recv(262144)
        except BlockingIOError:
            return False
        except OSError:
            more = b""
        if not more:
            if not self.is_closed:
                self.is_closed = self.has_ended = True
                self.said.append(b"closed")
            return False
        self.raw += more
        self.cut()
        return True

    def cut(self):
        raw, at, end = self.raw, 0, len(self.raw)
        while end - at >= 5:
            size, = struct.unpack_from("!i", raw, at + 1)
            if size < 4:  # This is no message: the answer to compare ends here.
                self.is_closed = self.has_ended = True
                self.said.append(b"closed")
                return
            if end - at <= size:
                break
            self.take(raw[at:at + 1], bytes(raw[at + 5:at + 1 + size]))
            at += 1 + size
        del raw[:at]

    def take(self, kind, body):
        if kind in b"EN":
            left_out = b"FLRW" if b"\0C57014\0" in body else b"FLR"
            body = LOST_TYPE.sub(b"for type", body)
            body = b"\0".join(f for f in body.split(b"\0") if not f or f[0] not in left_out)
        elif kind == b"S":
            name, value = body.split(b"\0")[:2]
            self.known[name.decode()] = value.decode()
            return
        elif kind == b"A":
            body = body[4:]
            if self.hears_apart:
                self.heard.append(b"A" + body)
                return
        elif kind == b"T":
            body = self.described(body)
        elif kind == b"t":
            body = b"".join(type_of(body[at:at + 4]) for at in range(2, len(body), 4))
        self.said.append(bytes(kind) + body)
        if kind == b"Z" and len(self.said) > 1 and self.sentinel in self.said[-2]:
            self.has_ended = True

    def described(self, body):
        parts, at = [body[:2]], 2
        while at < len(body):
            end = body.index(b"\0", at) + 1
            oid = body[end:end + 4]
            # The number of a column depends on how many its table ever had.
            parts += [body[at:end], oid if oid in self.tables else b"temp",
                      type_of(body[end + 6:end + 10]), body[end + 10:end + 18]]
            at = end + 18
        return b"".join(parts)

    def is_asleep(self):
        return bool(self.said) and oracle_ops.ASLEEP.encode() in self.said[-1]

    def cancel(self):
        with wire.Wire(wire.open_socket(self.client.host, self.client.port)) as other:
            other.send(wire.cancel_request(self.key))
            other.expect_closed()

    def is_backend_resting(self):
        """Says whether PostgreSQL has read everything and is waiting. A wrong "yes" does no harm:
        the next messages are only sent a little sooner."""
        if self.unsent or struct.unpack("i", fcntl.ioctl(self.fd, termios.TIOCOUTQ, b"\0" * 4))[0]:
            return False
        try:
            with open("/proc/%d/stat" % self.pid, "rb") as stat:
                return stat.read().rsplit(b")", 1)[1].split()[0] == b"S"
        except (FileNotFoundError, ProcessLookupError):
            return True


class Burst:
    """What one client sends in one write, and the event that it waits for afterwards."""

    def __init__(self, client, ops, after):
        self.client = client
        self.data, self.acts, due = b"", [], []
        for op in ops:
            if op[1] == "act":
                due.append(op)
                continue
            raw = oracle_ops.encoded(op)
            self.acts += [(len(self.data) + int(len(raw) * at), (what, ms)) for _, _, what, at, ms in due]
            self.data, due = self.data + raw, []
        self.acts += [(len(self.data), (what, ms)) for _, _, what, _, ms in due]
        self.after = after  # One of wait, cancel, hear, end.
        self.heard = {}  # How many notifications each client has got by then.
        self.wanted = []  # The answer to everything sent so far, taken from the direct connection.
        self.cancels = False
        self.asleep_count = 0

    def copy(self):
        return copy.copy(self)

    def pieces(self, split):
        """Returns the bytes, whole or split into a few pieces, and between them what an administrator does."""
        cuts = []
        if split is not None and len(self.data) > 1:
            cuts = [(at, None) for at in split.sample(range(1, len(self.data)), min(3, len(self.data) - 1))]
        pieces, begin = [], 0
        for end, act in sorted(cuts + self.acts, key=lambda cut: cut[0]) + [(len(self.data), None)]:
            pieces += [self.data[begin:end], act]
            begin = end
        return [piece for piece in pieces if piece]


def last_words(client, ops, number):
    """Returns the messages that end whatever the client has begun and drop its statements. Their
    answer can be recognised."""
    mine = [op for op in ops if op[0] == client]
    copies = any(op[1] in "QP" and oracle_ops.FROM_STDIN.search(op[-1 if op[1] == "Q" else 3])
                 for op in mine)
    said = [(client, "c")] if copies else []
    said += [(client, "S"), (client, "Q", "rollback")]
    said += [(client, "C", "S", name) for name in oracle_ops.STATEMENTS]
    return said + [(client, "S"), (client, "Q", (SENTINEL % number).decode())]


def bursts(sequence, number):
    found = []
    for turn in oracle_ops.turns(sequence["ops"]):
        client, begun = turn[0][0], []
        for op in turn:
            if op[1] in oracle_ops.UNSENT:
                found.append(Burst(client, begun, op[1]))
                begun = []
            else:
                begun.append(op)
        if begun and sequence["serial"]:
            found.append(Burst(client, begun, "wait"))
        elif begun:
            found.append(Burst(client, begun, "go on"))
    for client in sorted({op[0] for op in sequence["ops"]}):
        found.append(Burst(client, last_words(client, sequence["ops"], number), "end"))
    return found


# the direct connection to PostgreSQL


def run_directly(links, todo, deadline):
    for burst in todo:
        link = links[burst.client]
        link.send(burst.data)
        if burst.after == "go on":
            link.feed()
        elif burst.after == "end":
            settle(link, lambda: link.has_ended, deadline)
        elif burst.after in ("wait", "hear"):
            settle(link, link.is_backend_resting, deadline)
            if burst.after == "hear":
                burst.heard = hear(links)
        else:
            cancel_directly(link, burst, deadline)
        burst.wanted = list(link.said)
        # A statement that has lost its type fails for ever there; the pooler prepares it again.
        if link.is_closed or any(b"Mcache lookup failed for type" in said for said in link.said):
            raise Invalid(link.said[-2:])


def hear(links):
    """Waits until no client gets anything any more. Returns how many notifications each has got. A server is
    woken before the commit of the notification is answered."""
    quiet = time.monotonic()
    while time.monotonic() < quiet + QUIET:
        if any([link.feed() or not link.is_backend_resting() for link in links.values()]):
            quiet = time.monotonic()
        time.sleep(0.001)
    return {client: len(link.heard) for client, link in links.items()}


def settle(link, is_done, deadline):
    poll = select.poll()
    poll.register(link.fd, select.POLLIN)
    end = time.monotonic() + deadline
    while not link.is_closed:
        while link.feed():
            pass
        if is_done() and not poll.poll(0):
            return
        poll.poll(1)
        if time.monotonic() > end:
            raise Invalid("PostgreSQL is silent behind %r" % link.said[-3:])


def cancel_directly(link, burst, deadline):
    """Cancels the statement over the direct connection, unless the statement could not begin."""
    settle(link, lambda: link.is_asleep() or link.is_backend_resting(), deadline)
    if not link.is_asleep():
        settle(link, link.is_backend_resting, deadline)
    burst.cancels = link.is_asleep()
    if burst.cancels:
        burst.asleep_count = len(link.said)
        link.cancel()
        settle(link, lambda: link.said[-1][:1] == b"Z", deadline)


# the connection through a pooler


class Lane:
    """The run of one sequence through one pooler."""

    def __init__(self, links, sequence, todo, patience, administrator=None):
        self.links = links
        self.administrator = administrator
        self.todo = collections.deque(todo)
        self.split = random.Random(sequence["split"]) if sequence["split"] is not None else None
        self.allowed = 1 if sequence["serial"] else len(links)
        self.is_alone = sequence.get("alone", False)
        self.busy = {}  # {client: its current burst}
        self.pieces = {}  # {client: the bytes of the burst that are not sent yet}
        self.patience = patience
        self.moved = time.monotonic()
        self.gave_up = False

    def is_over(self):
        return self.gave_up or not (self.todo or self.busy)

    def work(self):
        """Sends what is due and returns whether there was anything."""
        for client in list(self.busy):
            self.go_on(client)
        started = False
        while self.todo and len(self.busy) < self.allowed:
            burst = next((b for b in self.todo if b.client not in self.busy), None)
            if burst is None:
                break
            self.todo.remove(burst)
            self.busy[burst.client] = burst
            self.pieces[burst.client] = burst.pieces(self.split)
            self.go_on(burst.client)
            started = True
        self.look_at_clock()
        return started

    def go_on(self, client):
        burst, link = self.busy[client], self.links[client]
        if self.pieces[client]:
            piece = self.pieces[client].pop(0)
            if isinstance(piece, bytes):
                link.send(piece)
            else:
                self.administrator.do(*piece)
        if link.feed():
            self.moved = time.monotonic()
        if burst.cancels and len(link.said) >= burst.asleep_count and not self.pieces[client]:
            burst.cancels = False
            if self.administrator:
                self.administrator.let_in()
            link.cancel()
        if not self.pieces[client] and (link.is_closed or self.is_answered(burst, link)):
            del self.busy[client]
            self.moved = time.monotonic()

    def is_answered(self, burst, link):
        if burst.after == "end":
            return link.has_ended
        if burst.after == "hear":
            for other in self.links.values():
                other.feed()
            if any(len(self.links[c].heard) < count for c, count in burst.heard.items()):
                return False
        return burst.after == "go on" or is_told(burst.wanted, link.said)

    def look_at_clock(self):
        if self.administrator:
            self.administrator.look_at_clock()
        still = time.monotonic() - self.moved
        if still > self.patience:
            self.gave_up = True
        elif still > STALLED and not self.is_alone:
            self.allowed = len(self.links)


def run_lanes(lanes):
    """Runs the lanes concurrently until all have ended."""
    poll = select.poll()
    for lane in lanes:
        for link in lane.links.values():
            if not link.is_closed:
                poll.register(link.fd, select.POLLIN)
    live = list(lanes)
    while live:
        is_sending = False
        for lane in live:
            is_sending = lane.work() or is_sending or any(lane.pieces.values())
        live = [lane for lane in live if not lane.is_over()]
        if live:
            poll.poll(0 if is_sending else 20)


# the addresses at which sequences run


class Place:
    """One address with its own database, and the connections that stay open to it."""

    def __init__(self, name, connect, tables, database, pooler, hears_apart=False):
        self.name = name
        self.database = database
        self.hears_apart = hears_apart
        self.pooler = pooler
        self.connect = connect
        self.tables = tables
        self.links = {}

    def link(self, client):
        if client not in self.links or self.links[client].is_closed:
            self.links[client] = Link(self.connect(client), self.tables, self.hears_apart)
        return self.links[client]

    def begin(self, clients, number):
        found = {client: self.link(client) for client in clients}
        for link in found.values():
            link.begin(number)
        return found

    def drop(self):
        for link in self.links.values():
            link.close()
        self.links = {}


class Difference:
    """An answer that one client received through a pooler and that differs from PostgreSQL's
    own."""

    def __init__(self, place, client, wanted, got, why):
        self.place, self.client, self.why = place, client, why
        self.wanted, self.got = wanted, got
        self.log = ""

    def at(self):
        return next((i for i, (a, b) in enumerate(zip(self.wanted, self.got)) if a != b),
                    min(len(self.wanted), len(self.got)))

    def kind(self):
        """Returns the part of the difference that stays the same while the sequence is reduced."""
        at = self.at()
        return (self.why,) + tuple(kind_of(said[at]) if at < len(said) else ""
                                   for said in (self.wanted, self.got))

    def __str__(self):
        at = self.at()
        text = ["%s: client %d, message %d of the answer%s" % (
            self.place.name, self.client, at, self.why)]
        for title, said in (("wanted", self.wanted), ("got", self.got)):
            text.append("  %s: ... %s" % (title, "; ".join(
                readable(m) for m in said[max(at - 2, 0):at + 4]) or "nothing"))
        return "\n".join(text)


def kind_of(message):
    """Returns the type of a message, with the SQLSTATE of an error."""
    state = [f.decode() for f in message[1:].split(b"\0") if f[:1] == b"C"]
    return chr(message[0]) + (state[0] if message[:1] == b"E" and state else "")


def readable(message):
    return "%s %r" % (chr(message[0]), message[1:100]) if message != b"closed" else "(closed)"


ABORTED = b"\0C25P02\0"


def first_refusal(wanted, got):
    """Returns the position where 25P02 replaces another answer, or None when the first difference
    is of another kind."""
    at = next((i for i, (a, b) in enumerate(zip(wanted, got)) if a != b), None)
    if at is None or ABORTED not in got[at] or got[at][:1] + wanted[at][:1] != b"EE":
        return None
    status = next((m for m in reversed(got[:at]) if m[:1] == b"Z"), None)
    return at if status == b"ZE" else None


def next_ready(said, at):
    return next((i for i in range(at, len(said)) if said[i][:1] == b"Z"), None)


def is_told(wanted, got):
    """Says whether enough has arrived for a comparison. A refusal (25P02) is shorter than the
    answer it replaces."""
    while len(got) < len(wanted):
        at = first_refusal(wanted, got)
        if at is None:
            return False
        ends = next_ready(wanted, at), next_ready(got, at)
        if ends[0] is None:
            return True
        if ends[1] is None:
            return False
        wanted, got = wanted[ends[0]:], got[ends[1]:]
    return True


def without_refusals(wanted, got):
    """Returns both answers up to the first difference that counts. In an aborted transaction block
    a pooler cannot prepare a named statement that the server does not hold. Only there may 25P02
    replace the answer to Bind or Describe, up to the next ReadyForQuery."""
    at = first_refusal(wanted, got)
    if at is None:
        return wanted, got
    ends = next_ready(wanted, at), next_ready(got, at)
    if None in ends or wanted[ends[0]] != b"ZE":
        return wanted, got
    return without_refusals(wanted[ends[0]:], got[ends[1]:])


def compare(place, wanted, lane):
    """Returns the first difference between this lane's clients and the direct ones, or None. A client that
    only lacks something may wait for another one."""
    def lacks(client):
        return wanted[client].said[:len(lane.links[client].said)] == lane.links[client].said

    for client in sorted(lane.links, key=lambda client: (lacks(client), client)):
        expected, link = wanted[client], lane.links[client]
        missing = [c for c in sorted(wanted) if len(lane.links[c].heard) < len(wanted[c].heard)]
        if lane.gave_up and lacks(client) and missing:
            return Difference(place, missing[0], wanted[missing[0]].heard, lane.links[missing[0]].heard,
                              "; notifications")
        if link.said != expected.said:
            rest, told = without_refusals(expected.said, link.said)
            if rest != told:
                why = "; nothing more came" if lane.gave_up else ""
                return Difference(place, client, rest, told, why)
        if link.heard != expected.heard:
            return Difference(place, client, expected.heard, link.heard, "; notifications")
    for client, link in sorted(lane.links.items()):
        expected = wanted[client].known
        differing = sorted(k for k in expected if link.known.get(k) != expected[k])
        if differing:
            return Difference(place, client,
                              [("S%s=%s" % (k, expected[k])).encode() for k in differing],
                              [("S%s=%s" % (k, link.known.get(k))).encode() for k in differing],
                              "; parameters known at the end")
    return None
