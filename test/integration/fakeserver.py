"""A scripted PostgreSQL server. It sends exactly the bytes that a test gives it, and records what
it receives."""

import re
import socket
import struct
import threading

import waiting
import wire

PARAMETERS = [
    ("server_version", "15.4"), ("server_encoding", "UTF8"), ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"), ("TimeZone", "UTC"), ("IntervalStyle", "postgres"),
    ("standard_conforming_strings", "on"), ("application_name", ""),
]


def welcome(key=b"\0\0\x30\x39\x12\x34\x56\x78", parameters=PARAMETERS):
    """Returns the messages that a server sends after authentication."""
    return (wire.auth(0) + b"".join(wire.parameter_status(k, v) for k, v in parameters)
            + wire.backend_key(key) + wire.ready())


class Session(wire.Wire):
    """One connection of the pooler to the fake server."""

    def __init__(self, sock, number):
        super().__init__(sock)
        self.sock.settimeout(60)
        self.number = number
        self.own = {}  # {parameter: value that RESET restores}
        self.received = []
        self.startup_code = None
        self.tls = None  # When this is an SSL context, the server answers SSLRequest with S.
        self.startup_body = b""
        self.ended = threading.Event()

    def recv_startup(self):
        """Answers SSLRequest (unless tls is set) and GSSENCRequest with N until another packet
        arrives."""
        while True:
            size, code = struct.unpack("!ii", self.recv_exact(8))
            body = self.recv_exact(size - 8)
            if code == wire.SSL_REQUEST and self.tls:
                self.send(b"S")
                self.sock = self.tls.wrap_socket(self.sock, server_side=True)
                continue
            if code in (wire.SSL_REQUEST, wire.GSSENC_REQUEST):
                self.send(b"N")
                continue
            self.startup_code, self.startup_body = code, body
            return code

    def startup_params(self):
        """Returns [(name, value)] in the order in which they were sent."""
        parts = self.startup_body.split(b"\0")
        assert parts[-2:] == [b"", b""], parts
        return [(parts[i].decode(), parts[i + 1].decode()) for i in range(0, len(parts) - 2, 2)]

    def recv(self):
        msg = super().recv()
        self.received.append(msg)
        return msg

    def kinds(self):
        return "".join(m.kind for m in self.received)

    def queries(self):
        """Returns the texts of all simple queries so far."""
        return [m.body[:-1].decode() for m in list(self.received) if m.kind == "Q"]

    def is_monitors(self):
        """The monitor of hosts has opened the connection, not a pool."""
        return b"application_name\0pgbouncer monitor\0" in self.startup_body

    def login(self, **more):
        self.recv_startup()
        self.send(welcome(**more))

    def serve(self, answers=()):
        """Answers messages until the connection ends. answers: [(regex of the query, bytes or
        function)]."""
        while True:
            msg = self.recv()
            if msg.kind == "X":
                return
            reply = self.reply_to(msg, answers)
            if reply:
                self.send(reply)

    def reply_to(self, msg, answers):
        if msg.kind == "Q":
            sql = msg.body[:-1].decode()
            for pattern, reply in answers:
                if re.search(pattern, sql, re.I):
                    return reply(self, sql) if callable(reply) else reply
            return plain_answer(sql, self.own)
        return {"P": wire.message("1"), "B": wire.message("2"), "C": wire.message("3"),
                "D": wire.message("n"), "E": wire.command_complete("SELECT 0"),
                "S": wire.ready()}.get(msg.kind, b"")


def plain_answer(sql, own=None):
    """Returns the answer to a query without a scripted answer. own: the values that RESET
    restores."""
    if not sql.strip(" ;"):
        return wire.message("I") + wire.ready()
    word = sql.split()[0].upper().rstrip(";")
    if word == "SELECT":
        return (wire.row_description([("v", 25, -1)]) + wire.data_row(["fake"])
                + wire.command_complete("SELECT 1") + wire.ready())
    if word in ("SET", "RESET"):
        answer = b""
        for m in re.finditer(r"\b(SET|RESET) (\w+)(?:\s*(?:=|TO)\s*'([^']*)')?", sql):
            value = m.group(3) if m.group(1) == "SET" else (own or {}).get(m.group(2))
            if value is not None:
                answer += wire.parameter_status(m.group(2), value)
            answer += wire.command_complete(m.group(1))
        return (answer or wire.command_complete(word)) + wire.ready()
    if word == "BEGIN":
        return wire.command_complete("BEGIN") + wire.ready("T")
    return wire.command_complete(word) + wire.ready()


def polite(session):
    session.login()
    session.serve()


class FakeServer:
    """Listens, and runs `script(session)` for each connection in a separate thread."""

    def __init__(self, script=polite, host="127.0.0.1", port=0):
        self.script = script
        self.sessions = []
        self.failures = []
        self.listener = socket.create_server((host, port), backlog=128)
        self.host, self.port = self.listener.getsockname()
        self.threads = []
        self.acceptor = threading.Thread(target=self._accept, daemon=True)
        self.acceptor.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            if sock.family != socket.AF_UNIX:
                wire.undelayed(sock)
            session = Session(sock, len(self.sessions))
            self.sessions.append(session)
            thread = threading.Thread(target=self._run, args=(session,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _run(self, session):
        try:
            self.script(session)
        except (wire.Closed, OSError):
            pass
        except Exception as failure:  # The test has to see an error in the script itself.
            # Few scripts expect the monitor of hosts, which asks a host that has been silent.
            if not any(b"pg_catalog.pg_is_in_recovery()" in message.body for message in session.received):
                self.failures.append(failure)
        finally:
            session.close()
            session.ended.set()

    def conn(self, dbname="fakedb", **more):
        text = "host=%s port=%d dbname=%s" % (self.host, self.port, dbname)
        return " ".join([text] + ["%s=%s" % item for item in more.items()])

    def wait_sessions(self, count):
        return waiting.wait_for(lambda: len(self.sessions) >= count and self.sessions,
                                "%d server connections" % count)

    def of_pools(self):
        """Returns the sessions that the monitor of hosts has not opened."""
        waiting.wait_for(lambda: all(s.startup_code or s.ended.is_set() for s in self.sessions), "they began")
        return [s for s in self.sessions if not s.is_monitors()]

    def logged_in(self):
        """Returns the sessions that sent a startup packet, which excludes cancel requests."""
        return [s for s in self.sessions if (s.startup_code or 0) >> 16 == 3]

    def cancels(self):
        return [s.startup_body for s in self.sessions if s.startup_code == wire.CANCEL_REQUEST]

    def close(self):
        # shutdown() wakes the accepting thread; close() alone does not.
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        # The accepting thread starts the other threads, so it has to end first.
        self.acceptor.join(5)
        for session in self.sessions:
            try:
                session.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join(5)
        assert not self.failures, self.failures
