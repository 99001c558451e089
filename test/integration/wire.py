"""The PostgreSQL protocol, version 3, at the level of bytes: building messages, parsing them,
logging in."""

import base64
import hashlib
import hmac
import os
import re
import socket
import ssl
import struct

import codes
import keeper

PROTOCOL_3_0 = 196608
PROTOCOL_3_2 = 196610
CANCEL_REQUEST = 80877102
SSL_REQUEST = 80877103
GSSENC_REQUEST = 80877104

TIMEOUT = 45.0


# building messages


def message(kind, body=b""):
    """Returns a message with its one-byte type."""
    return as_bytes(kind) + struct.pack("!i", len(body) + 4) + body


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def cstr(text):
    return as_bytes(text) + b"\0"


def special(code, body=b""):
    """Returns a message without a type: startup, SSLRequest, CancelRequest."""
    return struct.pack("!ii", len(body) + 8, code) + body


def startup_body(params, terminator=b"\0"):
    pairs = params.items() if isinstance(params, dict) else params
    return b"".join(cstr(k) + cstr(v) for k, v in pairs) + terminator


def startup(params, version=PROTOCOL_3_0, terminator=b"\0"):
    return special(version, startup_body(params, terminator))


def ssl_request():
    return special(SSL_REQUEST)


def gssenc_request():
    return special(GSSENC_REQUEST)


def cancel_request(key):
    return special(CANCEL_REQUEST, key)


def query(sql):
    return message("Q", cstr(sql))


def parse(name, sql, types=()):
    body = cstr(name) + cstr(sql) + struct.pack("!H", len(types))
    return message("P", body + b"".join(struct.pack("!i", t) for t in types))


def bind(portal="", statement="", values=(), formats=(), results=()):
    body = cstr(portal) + cstr(statement) + struct.pack("!h", len(formats))
    body += b"".join(struct.pack("!h", f) for f in formats) + struct.pack("!H", len(values))
    for value in values:
        if value is None:
            body += struct.pack("!i", -1)
        else:
            body += struct.pack("!i", len(as_bytes(value))) + as_bytes(value)
    body += struct.pack("!h", len(results)) + b"".join(struct.pack("!h", r) for r in results)
    return message("B", body)


def describe(what, name=""):
    return message("D", as_bytes(what) + cstr(name))


def close(what, name=""):
    return message("C", as_bytes(what) + cstr(name))


def execute(portal="", rows=0):
    return message("E", cstr(portal) + struct.pack("!i", rows))


def sync():
    return message("S")


def flush():
    return message("H")


def terminate():
    return message("X")


def copy_data(data):
    return message("d", as_bytes(data))


def copy_done():
    return message("c")


def copy_fail(text):
    return message("f", cstr(text))


def password(text):
    return message("p", cstr(text))


def auth(code, body=b""):
    return message("R", struct.pack("!i", code) + body)


def ready(status="I"):
    return message("Z", as_bytes(status))


def parameter_status(name, value):
    return message("S", cstr(name) + cstr(value))


def backend_key(key):
    return message("K", key)


def fields(kind, pairs):
    """Returns an ErrorResponse or NoticeResponse with exactly these fields."""
    return message(kind, b"".join(as_bytes(k) + cstr(v) for k, v in pairs) + b"\0")


def error(severity, code, text):
    return fields("E", [("S", severity), ("C", code), ("M", text)])


def command_complete(tag):
    return message("C", cstr(tag))


def row_description(columns):
    body = struct.pack("!h", len(columns))
    for name, oid, size in columns:
        body += cstr(name) + struct.pack("!ihihih", 0, 0, oid, size, -1, 0)
    return message("T", body)


def data_row(values):
    body = struct.pack("!H", len(values))
    for value in values:
        if value is None:
            body += struct.pack("!i", -1)
        else:
            body += struct.pack("!i", len(as_bytes(value))) + as_bytes(value)
    return message("D", body)


def md5_hash(user, secret):
    return "md5" + hashlib.md5(as_bytes(secret) + as_bytes(user)).hexdigest()


def md5_answer(user, secret, salt):
    """Returns the answer to AuthenticationMD5Password. The secret may be an md5 hash already."""
    inner = secret[3:] if is_md5(secret) else md5_hash(user, secret)[3:]
    return "md5" + hashlib.md5(inner.encode() + salt).hexdigest()


def is_md5(secret):
    return len(secret) == 35 and secret.startswith("md5")


# SCRAM-SHA-256, client and server


def _hmac(key, text):
    return hmac.new(key, text, hashlib.sha256).digest()


def _xor(a, b):
    return bytes(x ^ y for x, y in zip(a, b))


def b64(data):
    return base64.b64encode(data).decode()


class ScramKeys:
    """The SCRAM keys of a password, a salt and an iteration count."""

    def __init__(self, secret, salt=None, iterations=4096):
        self.salt = salt or os.urandom(16)
        self.iterations = iterations
        salted = hashlib.pbkdf2_hmac("sha256", as_bytes(secret), self.salt, iterations)
        self.client = _hmac(salted, b"Client Key")
        self.stored = hashlib.sha256(self.client).digest()
        self.server = _hmac(salted, b"Server Key")

    def secret(self):
        return "SCRAM-SHA-256$%d:%s$%s:%s" % (
            self.iterations, b64(self.salt), b64(self.stored), b64(self.server))


class ScramClient:
    """The client's side of SCRAM. Every step is a field that a test may change."""

    def __init__(self, secret, gs2="n,,", user="", nonce=None):
        self.secret = secret
        self.gs2 = gs2
        self.bare = "n=%s,r=%s" % (user, nonce or b64(os.urandom(18)))
        self.signature = None
        self.iterations = None
        self.salt = None

    def first(self):
        return self.gs2 + self.bare

    def final(self, server_first, proof=None, nonce=None, channel=None):
        part = dict(item.split("=", 1) for item in server_first.split(","))
        self.salt = base64.b64decode(part["s"])
        self.iterations = int(part["i"])
        keys = ScramKeys(self.secret, self.salt, self.iterations)
        binding = channel or b64(self.gs2.encode())
        bare_final = "c=%s,r=%s" % (binding, nonce or part["r"])
        text = ",".join([self.bare, server_first, bare_final]).encode()
        made = _xor(keys.client, _hmac(keys.stored, text))
        self.signature = _hmac(keys.server, text)
        return "%s,p=%s" % (bare_final, b64(made if proof is None else proof))

    def is_server_final(self, text):
        return text == "v=" + b64(self.signature)


class ScramServer:
    """The server's side of SCRAM, for the fake server."""

    def __init__(self, keys):
        self.keys = keys

    def first(self, client_first):
        self.bare = client_first.split(",", 2)[2]
        part = dict(item.split("=", 1) for item in self.bare.split(","))
        self.server_first = "r=%s%s,s=%s,i=%d" % (
            part["r"], b64(os.urandom(18)), b64(self.keys.salt), self.keys.iterations)
        return self.server_first

    def is_proven(self, client_final):
        bare_final, proof = client_final.rsplit(",p=", 1)
        self.text = ",".join([self.bare, self.server_first, bare_final]).encode()
        made = _xor(base64.b64decode(proof), _hmac(self.keys.stored, self.text))
        return hashlib.sha256(made).digest() == self.keys.stored

    def final(self):
        return "v=" + b64(_hmac(self.keys.server, self.text))


def sasl_initial(mechanism, first):
    return message("p", cstr(mechanism) + struct.pack("!i", len(as_bytes(first))) + as_bytes(first))


# reading messages


class Message:
    """One message from the other side."""

    def __init__(self, kind, body):
        self.kind = kind
        self.body = body

    def __repr__(self):
        return "<%s %r>" % (self.kind, self.body[:120])

    def __eq__(self, other):
        return isinstance(other, Message) and self.raw() == other.raw()

    def raw(self):
        return message(self.kind, self.body)

    def fields(self):
        """Returns [(letter, text)] of an ErrorResponse or NoticeResponse."""
        assert self.kind in ("E", "N"), self
        assert self.body.endswith(b"\0")
        return [(f[:1].decode(), f[1:].decode()) for f in self.body[:-2].split(b"\0")]

    def field(self, letter):
        return dict(self.fields()).get(letter)

    def text(self):
        return self.field("M")

    def pair(self):
        """Returns (name, value) of a ParameterStatus."""
        assert self.kind == "S", self
        name, value, rest = self.body.split(b"\0")
        assert rest == b""
        return name.decode(), value.decode()

    def tag(self):
        assert self.kind == "C", self
        return self.body[:-1].decode()

    def columns(self):
        """Returns [(name, table oid, column, type oid, size, typmod, format)] of a
        RowDescription."""
        assert self.kind == "T", self
        count, = struct.unpack_from("!h", self.body)
        at, found = 2, []
        for _ in range(count):
            end = self.body.index(b"\0", at)
            found.append((self.body[at:end].decode(),)
                         + struct.unpack_from("!ihihih", self.body, end + 1))
            at = end + 19
        assert at == len(self.body)
        return found

    def values(self):
        assert self.kind == "D", self
        count, = struct.unpack_from("!h", self.body)
        at, found = 2, []
        for _ in range(count):
            size, = struct.unpack_from("!i", self.body, at)
            at += 4
            if size < 0:
                found.append(None)
            else:
                found.append(self.body[at:at + size].decode())
                at += size
        assert at == len(self.body)
        return tuple(found)


class Closed(Exception):
    """The other side closed the connection."""


class Refused(Exception):
    """The other side sent an unexpected ErrorResponse."""

    def __init__(self, msg):
        super().__init__(repr(msg.fields()))
        self.message = msg
        self.severity = msg.field("S")
        self.code = msg.field("C")
        self.text = msg.field("M")


# Error texts about a limit or a timeout.
LIMIT = re.compile("timeout|connections (allowed|exceeded)")
REMEDY = re.compile("unsupported (options )?startup parameter|an HTTP request")


class Wire:
    """A socket that sends and receives messages."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(TIMEOUT)
        self.pending = b""
        # When this is a bytearray, it collects the messages that come from the pooler itself.
        self.heard = None
        self.hears_all = False

    def send(self, *parts):
        self.sock.sendall(b"".join(parts))

    def send_slowly(self, data, step=1):
        """Sends the data in separate pieces of `step` bytes."""
        for at in range(0, len(data), step):
            self.sock.sendall(data[at:at + step])

    def recv_exact(self, count):
        while len(self.pending) < count:
            try:
                more = self.sock.recv(max(65536, count - len(self.pending)))
            except ConnectionError:
                more = b""
            if not more:
                raise Closed("closed with %r pending" % self.pending[:200])
            self.pending += more
        found, self.pending = self.pending[:count], self.pending[count:]
        return found

    def recv(self):
        head = self.recv_exact(5)
        size, = struct.unpack("!i", head[1:])
        body = self.recv_exact(size - 4)
        if self.heard is not None and (self.hears_all or head[:1] in b"EN"):
            self.heard += body
        return Message(head[:1].decode("latin1"), body)

    def recv_until(self, kinds):
        """Returns all messages up to and including the first of one of these types."""
        found = [self.recv()]
        while found[-1].kind not in kinds:
            found.append(self.recv())
        return found

    def recv_kinds(self, kinds):
        """Reads messages, which must have exactly these types in this order."""
        found = []
        for wanted in kinds:
            found.append(self.recv())
            assert found[-1].kind == wanted, (kinds, found)
        return found

    def has_data(self, seconds):
        """Says whether any data, or the end, arrives within that time."""
        if self.pending:
            return True
        self.sock.settimeout(seconds)
        try:
            got = self.sock.recv(65536)
        except (TimeoutError, socket.timeout):
            return False
        except ConnectionError:
            return True
        finally:
            self.sock.settimeout(TIMEOUT)
        self.pending += got
        return True

    def expect_closed(self):
        """Asserts that the other side closes the connection and sends nothing more."""
        assert not self.pending, self.pending[:200]
        try:
            rest = self.sock.recv(65536)
        except ConnectionError:
            return
        assert rest == b"", rest

    def expect_error(self, text, severity="FATAL", code=None):
        """Asserts that the next message is exactly the pooler's own ErrorResponse. DETAIL and HINT
        may follow only when a limit was reached, HINT alone where the remedy is known."""
        got = self.recv()
        if code is None:
            code = codes.code_of(text) if severity == "FATAL" else "08P01"
        pairs = [("S", severity), ("C", code), ("M", text)]
        more = [(letter, got.field(letter)) for letter in "DH" if got.field(letter)]
        assert not more or (LIMIT if len(more) == 2 else REMEDY).search(text), got
        assert got.raw() == fields("E", pairs + more), (got, text)
        return got

    def expect_fatal(self, text, code=None):
        self.expect_error(text, "FATAL", code)
        self.expect_closed()

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Result:
    """The complete answer to one simple query."""

    def __init__(self, messages):
        self.messages = messages
        self.rows = [m.values() for m in messages if m.kind == "D"]
        self.tags = [m.tag() for m in messages if m.kind == "C"]
        self.notices = [m for m in messages if m.kind == "N"]
        self.errors = [m for m in messages if m.kind == "E"]
        self.status = messages[-1].body.decode() if messages[-1].kind == "Z" else None
        heads = [m for m in messages if m.kind == "T"]
        self.columns = heads[0].columns() if heads else []

    @property
    def tag(self):
        assert len(self.tags) == 1, self.messages
        return self.tags[0]

    @property
    def value(self):
        assert len(self.rows) == 1 and len(self.rows[0]) == 1, self.rows
        return self.rows[0][0]

    @property
    def names(self):
        return [c[0] for c in self.columns]

    def dicts(self):
        return [dict(zip(self.names, row)) for row in self.rows]

    def kinds(self):
        return "".join(m.kind for m in self.messages)


def open_socket(host, port=None, timeout=TIMEOUT):
    """Opens a socket. `host` is an address, the folder of a unix socket, or @name for an abstract
    one."""
    if host.startswith("/") or host.startswith("@"):
        sock = socket.socket(socket.AF_UNIX)
        path = "%s/.s.PGSQL.%d" % (host, port)
        sock.settimeout(timeout)
        sock.connect("\0" + path[1:] if path.startswith("@") else path)
        return sock
    return undelayed(socket.create_connection((host, port), timeout))


def undelayed(sock):
    """Makes the socket send at once (TCP_NODELAY), as libpq and PostgreSQL do."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Client(Wire):
    """A client of the pooler (or of PostgreSQL)."""

    def __init__(self, host, port, user=None, database=None, secret=None, params=()):
        super().__init__(open_socket(host, port))
        self.host, self.port = host, port
        self.user = user
        self.database = database
        self.secret = secret
        keeper.learn(secret)
        self.params = dict(params)
        self.login_messages = []
        self.key = None
        self.initiator = None  # a kdc.Initiator, which answers requests for GSSAPI

    def startup_packet(self, version=PROTOCOL_3_0):
        params = {"user": self.user}
        if self.database is not None:
            params["database"] = self.database
        params.update(self.params)
        return startup(params, version)

    def login(self):
        """Sends the startup packet, authenticates with the requested method, and reads up to
        ReadyForQuery. Raises Refused."""
        self.send(self.startup_packet())
        return self.authenticate()

    def authenticate(self):
        scram = None
        self.login_messages = []
        while True:
            msg = self.recv()
            self.login_messages.append(msg)
            if msg.kind == "E":
                raise Refused(msg)
            if msg.kind == "Z":
                return self
            if msg.kind == "K":
                self.key = msg.body
            if msg.kind == "R":
                scram = self.answer_auth(msg, scram)

    def answer_auth(self, msg, scram):
        code, = struct.unpack_from("!i", msg.body)
        rest = msg.body[4:]
        if code == 3:
            self.send(password(self.secret))
        elif code == 5:
            self.send(password(md5_answer(self.user, self.secret, rest)))
        elif code == 7:
            assert self.initiator, "there is no ticket"
            self.send(message("p", self.initiator.token))
        elif code == 8:
            answer = self.initiator.step(rest)
            if answer:
                self.send(message("p", answer))
        elif code == 10:
            offer = b"SCRAM-SHA-256\0\0"
            if isinstance(self.sock, ssl.SSLSocket) and rest != offer:
                offer = b"SCRAM-SHA-256-PLUS\0" + offer
            assert rest == offer, rest
            scram = ScramClient(self.secret)
            self.send(sasl_initial("SCRAM-SHA-256", scram.first()))
        elif code == 11:
            self.send(message("p", scram.final(rest.decode()).encode()))
        elif code == 12:
            assert scram.is_server_final(rest.decode()), rest
        else:
            assert code == 0, msg
        return scram

    def auth_codes(self):
        """Returns the codes of the authentication messages of the login."""
        return [struct.unpack_from("!i", m.body)[0] for m in self.login_messages if m.kind == "R"]

    def parameters(self):
        """Returns [(name, value)] in the order of the login."""
        return [m.pair() for m in self.login_messages if m.kind == "S"]

    def finish(self):
        """Reads up to ReadyForQuery."""
        return Result(self.recv_until("Z"))

    def query(self, sql, check=True):
        keeper.learn_sql(sql)
        self.send(query(sql))
        result = self.finish()
        if check and result.errors:
            raise Refused(result.errors[0])
        return result

    def value(self, sql):
        return self.query(sql).value

    def cancel(self):
        """Sends a CancelRequest for this session and waits until the server closes that
        connection."""
        with Wire(open_socket(self.host, self.port)) as other:
            other.send(cancel_request(self.key))
            other.expect_closed()
