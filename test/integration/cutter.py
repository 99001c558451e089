"""A proxy between unix sockets that splits and joins the bytes of both directions. Each piece is
sent when the receiver has read the one before, so that it is read alone."""

import fcntl
import os
import random
import select
import socket
import stat
import struct
import subprocess
import sys
import termios

import waiting

PATIENCE = 0.00005  # Between two looks at a receiver that has not read yet.
LONG = 8192  # Only the beginning of what is longer is cut into tiny pieces.
TINY_MOST = 24


class Direction:
    """The bytes from one socket that still have to reach the other."""

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.bytes = bytearray()
        self.has_ended = self.is_over = False
        self.is_joining = False  # Nothing is sent before the source is silent.
        self.pieces = 0  # How many pieces of the current size are to come.
        self.most = 1
        self.tiny = 0

    def has_read(self):
        """Reads what has come and returns whether there was anything."""
        try:
            more = self.source.recv(1 << 18)
        except BlockingIOError:
            return False
        except OSError:
            more = b""
        self.has_ended = not more
        if not self.bytes:
            self.tiny = 0
        self.bytes += more
        return True

    def is_taken(self):
        try:
            waits, = struct.unpack("i", fcntl.ioctl(self.target, termios.TIOCOUTQ, b"\0" * 4))
        except OSError:
            return True
        return not waits

    def size(self, chance):
        if not self.pieces:
            self.pieces = chance.randint(1, 12)
            self.most = chance.choice((1, 3, 8, 40, 40, 600, 9000, 1 << 20))
        self.pieces -= 1
        if self.most <= 40 and len(self.bytes) > LONG:
            self.tiny += 1
            if self.tiny > TINY_MOST:
                return chance.randint(1, 1 << 17)
        return chance.randint(1, self.most)

    def send(self, chance):
        """Sends a piece, if the last one has been read."""
        if self.bytes and self.is_taken():
            try:
                sent = self.target.send(self.bytes[:self.size(chance)])
                del self.bytes[:sent]
            except BlockingIOError:
                pass
            except OSError:
                self.bytes.clear()
                self.has_ended = True
        if self.has_ended and not self.bytes and not self.is_over:
            self.is_over = True
            try:
                self.target.shutdown(socket.SHUT_WR)
            except OSError:
                pass


class Cutting:
    """Accepts connections and moves their bytes."""

    def __init__(self, target, path, seed):
        self.target = target
        self.chance = random.Random(seed)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path + ".new")
        self.listener.listen(64)
        os.chmod(path + ".new", stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
        os.rename(path + ".new", path)
        self.listener.setblocking(False)
        self.pairs = []
        self.poll = select.poll()
        self.poll.register(self.listener, select.POLLIN)

    def run(self):
        while True:
            has_pending = any(d.bytes for pair in self.pairs for d in pair)
            self.poll.poll(0 if has_pending else None)
            if self.accept() | self.move():
                continue
            if has_pending:
                select.select([], [], [], PATIENCE)

    def accept(self):
        try:
            client = self.listener.accept()[0]
        except OSError:
            return False
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self.target)
        except OSError:
            client.close()
            return False
        for one in client, server:
            one.setblocking(False)
            self.poll.register(one, select.POLLIN)
        self.pairs.append((Direction(client, server), Direction(server, client)))
        return True

    def move(self):
        """Returns whether anything has come."""
        has_come = False
        for pair in list(self.pairs):
            for d in pair:
                has_come |= self.move_one(d)
            if all(d.is_over for d in pair):
                self.pairs.remove(pair)
                for d in pair:
                    self.forget(d.source)
                    d.source.close()
        return has_come

    def forget(self, source):
        try:
            self.poll.unregister(source)
        except KeyError:
            pass

    def move_one(self, d):
        has_read = not d.has_ended and d.has_read()
        if d.has_ended:
            self.forget(d.source)
        if has_read and len(d.bytes) < LONG:
            d.is_joining = not d.has_ended and self.chance.random() < 0.3
        elif not has_read:
            d.is_joining = False
        if not d.is_joining:
            d.send(self.chance)
        return has_read


class Cutter:
    """A process that cuts. It listens in a folder of its own, at the port of the socket that it
    leads to."""

    def __init__(self, target, seed):
        self.dir = waiting.scratch("cutter")
        path = os.path.join(self.dir, os.path.basename(target))
        self.process = subprocess.Popen([sys.executable, __file__, target, path, str(seed)])
        waiting.wait_for(lambda: os.path.exists(path), "the proxy listens")

    def close(self):
        self.process.kill()
        self.process.wait()
        waiting.discard(self.dir)


if __name__ == "__main__":
    Cutting(*sys.argv[1:]).run()
