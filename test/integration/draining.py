"""A scripted pooler that cannot hand over its clients, as PgBouncer: it gives the descriptors that it has
(SHOW FDS), and may serve its clients until they leave (SHUTDOWN WAIT_FOR_CLIENTS). Its clients get back what
they send. At its end it removes the files of its unix socket and its pidfile, whoever made them.

A file "hold" makes it wait when it is told to accept nobody any more: it calls the file "held", until that is removed.

It runs as a process of its own: draining.py FOLDER PORT REFUSAL yes|no."""

import contextlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys

import waiting
import wire


class Draining:
    """The process as a test uses it."""

    def __init__(self, folder, port, refusal, drains=True):
        self.folder = folder
        self.port = port
        self.process = subprocess.Popen(
            [sys.executable, __file__, folder, str(port), refusal, "yes" if drains else "no"])
        waiting.wait_for(lambda: os.path.exists(os.path.join(folder, "pid")), "the scripted pooler is up")

    def client(self):
        sock = socket.create_connection(("127.0.0.1", self.port), waiting.DEADLINE)
        self.ask(sock)
        return sock

    def ask(self, sock):
        """It is served by this process."""
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"

    def wait(self):
        return self.process.wait(waiting.DEADLINE)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Process:
    def __init__(self, folder, port, refusal, drains):
        self.folder = folder
        self.accepts = True
        self.path = os.path.join(folder, ".s.PGSQL.%d" % port)
        self.pidfile = os.path.join(folder, "pid")
        self.tcp = socket.create_server(("127.0.0.1", port), backlog=128)
        self.tcp.setblocking(False)
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(self.path)
        self.listen_by_another()
        self.refusal = refusal
        self.drains = drains
        self.clients = []
        self.consoles = []
        signal.signal(signal.SIGTERM, lambda *_: self.end())
        with open(self.pidfile + ".made", "w") as out:
            out.write("%d\n" % os.getpid())
        os.rename(self.pidfile + ".made", self.pidfile)

    def listen_by_another(self):
        """As after a restart: the process that has made the socket, as the system tells, has ended."""
        child = os.fork()
        if child == 0:
            self.unix.listen()
            os._exit(0)
        os.waitpid(child, 0)

    def end(self):
        for path in self.path, self.pidfile:
            if os.path.exists(path):
                os.unlink(path)
        os._exit(0)

    def run(self):
        while self.accepts or self.clients or self.consoles:
            listening = [self.tcp, self.unix] if self.accepts else []
            for sock in select.select(listening + self.clients + self.consoles, [], [])[0]:
                self.serve(sock)
        self.end()

    def serve(self, sock):
        if sock is self.tcp:
            self.accept()
        elif sock is self.unix:
            self.accept_console()
        elif sock in self.clients:
            said = sock.recv(100)  # A startup packet is refused.
            sock.sendall(said) if said.startswith(b"x") else self.leave(self.clients, sock)
        elif not self.has_served(sock):
            self.leave(self.consoles, sock)

    def accept(self):
        try:
            self.clients.append(self.tcp.accept()[0])
        except OSError:
            pass  # The other process was faster.

    def accept_console(self):
        with contextlib.suppress(OSError):
            self.consoles.append(self.unix.accept()[0])
            self.consoles[-1].settimeout(5)

    def has_served(self, console):
        try:
            return self.command(console)
        except OSError:
            return False

    @staticmethod
    def leave(them, sock):
        them.remove(sock)
        sock.close()

    def command(self, sock):
        """Reads a startup packet or a Query, and answers it. False: the console has left."""
        head = sock.recv(5, socket.MSG_WAITALL)
        if len(head) < 5:
            return False
        if head[0] == 0:
            sock.recv(struct.unpack("!I", head[:4])[0] - 5, socket.MSG_WAITALL)
            sock.sendall(wire.auth(0) + wire.parameter_status("server_version", "1.25.0/bouncer") + wire.ready())
            return True
        text = sock.recv(struct.unpack("!I", head[1:])[0] - 4, socket.MSG_WAITALL).rstrip(b"\0").decode()
        if text == "SHOW FDS":
            self.show(sock)
        elif text == "SHUTDOWN WAIT_FOR_CLIENTS" and self.drains:
            self.hold()
            self.tcp.close()
            self.accepts = False
            sock.sendall(wire.command_complete("SHUTDOWN") + wire.ready())
        else:
            sock.sendall(wire.error("ERROR", "08P01", self.refusal.replace("COMMAND", text)) + wire.ready())
        return True

    def hold(self):
        hold, held = os.path.join(self.folder, "hold"), os.path.join(self.folder, "held")
        if os.path.exists(hold):
            os.rename(hold, held)
            waiting.wait_for(lambda: not os.path.exists(held), "the test has removed the file")

    def show(self, console):
        console.sendall(wire.row_description([("fd", 23, 4), ("task", 25, -1)]))
        for sock in (self.tcp, self.unix, *self.clients):
            task = "client" if sock in self.clients else "pooler"
            socket.send_fds(console, [wire.data_row([str(sock.fileno()), task])], [sock.fileno()])
        console.sendall(wire.command_complete("SHOW") + wire.ready())


if __name__ == "__main__":
    account = waiting.unprivileged()
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
    Process(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == "yes").run()
