"""Stands between the two processes of an online restart, so that a test can stop, kill or imitate either
of them at every step of their protocol (include/daemon/takeover.h)."""

import contextlib
import os
import socket
import struct
import threading

import waiting
import wire

HEADER = 6


class Frame:
    def __init__(self, kind, body=b"", fd=None):
        self.kind, self.body, self.fd = kind, body, fd

    def bytes(self):
        return struct.pack(">cBI", self.kind.encode(), self.fd is not None, len(self.body)) + self.body


class Link:
    """Our end of the socket to one of the two processes."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.setblocking(True)
        self.sock.settimeout(waiting.DEADLINE)
        self.data, self.fds = b"", []

    def take(self):
        """Returns the next frame, or None if the process has closed its end."""
        while len(self.data) < HEADER or len(self.data) < HEADER + struct.unpack(">I", self.data[2:HEADER])[0]:
            data, fds, _, _ = socket.recv_fds(self.sock, 65536, 16)
            self.fds += fds
            if not data:
                return None
            self.data += data
        size = HEADER + struct.unpack(">I", self.data[2:HEADER])[0]
        frame = Frame(chr(self.data[0]), self.data[HEADER:size], self.fds.pop(0) if self.data[1] else None)
        self.data = self.data[size:]
        return frame

    def expect(self, kind):
        frame = self.take()
        assert frame and frame.kind == kind, frame and (frame.kind, frame.body)
        return frame

    def give(self, frame):
        """Sends a frame, and closes our copy of its descriptor."""
        if frame.fd is None:
            self.sock.sendall(frame.bytes())
            return
        data = frame.bytes()
        self.sock.sendall(data[socket.send_fds(self.sock, [data], [frame.fd]):])
        os.close(frame.fd)

    def close(self):
        self.sock.close()
        for fd in self.fds:
            os.close(fd)
        self.fds = []


class Between:
    """For `new`, a pooler that is not started yet, this is the old process. It has a folder for its
    socket of its own and the same port as `old`."""

    def __init__(self, new):
        self.path = new.path(".s.PGSQL.%d" % new.settings["listen_port"])
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(waiting.DEADLINE)
        self.listener.bind(self.path)
        waiting.give(self.path)
        self.listener.listen()
        self.console = None  # The new process's connection to what it takes for a console.
        self.asked = None  # Our connection to the old process's console, which ends the takeover when it closes.
        self.old = self.new = None
        self.kept = None  # The frame that was not passed on.
        self.format = 0

    def answer_console(self):
        """The new process logs in, and asks for everything."""
        while self.console is None:
            conn, _ = self.listener.accept()
            conn.settimeout(waiting.DEADLINE)
            if conn.recv(4):
                self.console = conn  # Otherwise it only checked whether the socket is in use.
        self.console.recv(4096)
        self.console.sendall(wire.auth(0) + wire.ready())
        asked = self.console.recv(4096)
        self.format = int(asked[5:-1].split()[1])

    def stop_listening(self):
        """As the old process does when it ends. Its socket's file stays."""
        self.listener.close()

    def hand_on(self, console):
        """Asks the old process for a socket, and gives the new one a socket to us."""
        self.asked = console
        console.send(wire.query("TAKEOVER %d" % self.format))
        _, (fd,), _, _ = socket.recv_fds(console.sock, 65536, 1)
        self.old = Link(socket.socket(fileno=fd))
        self.give_socket()

    def give_socket(self):
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        socket.send_fds(self.console, [wire.command_complete("TAKEOVER") + wire.ready()], [theirs.fileno()])
        theirs.close()
        self.new = Link(ours)

    def pass_on(self, until, is_passed=True):
        """Hands frames of the old process to the new one, up to the first of this kind. Returns the kinds,
        and the last frame if it was not passed on."""
        kinds = ""
        while True:
            frame = self.old.take()
            assert frame, "closed after " + kinds
            kinds += frame.kind
            if frame.kind == until and not is_passed:
                self.kept = frame
                return kinds, frame
            self.new.give(frame)
            if frame.kind == until:
                return kinds, None

    def agree(self, kind):
        """Hands one frame of the new process to the old one."""
        self.old.give(self.new.expect(kind))

    def finish(self):
        """Hands on whatever the two still say, in threads, until they close."""
        def hand_on(source, target):
            try:
                while frame := source.take():
                    target.give(frame)
            except OSError:
                pass  # One of them has ended.
            with contextlib.suppress(OSError):
                target.sock.shutdown(socket.SHUT_RDWR)

        if self.kept:
            self.new.give(self.kept)
            self.kept = None
        for ends in ((self.old, self.new), (self.new, self.old)):
            threading.Thread(target=hand_on, args=ends, daemon=True).start()

    def die(self):
        """Does what the system does when the old process is killed."""
        self.console.close()
        self.cut()

    def cut(self):
        """Closes the sockets to both, and what we have of those that are handed on."""
        for end in (self.old, self.new, self.asked):
            if end:
                end.close()
        if self.kept and self.kept.fd is not None:
            os.close(self.kept.fd)
        self.kept = None

    def close(self):
        self.listener.close()
        if self.console:
            self.console.close()
        self.cut()
