"""haproxy in front of poolers or servers."""

import os
import shutil
import subprocess

import waiting

PROGRAM = shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
DEFAULTS = """
defaults
    mode tcp
    timeout connect 5s
    timeout client  1h
    timeout server  1h
    timeout check   5s
"""


class Haproxy:
    """One process that listens on `port` of this machine and spreads connections over the servers
    of these lines of its section backend."""

    def __init__(self, lines):
        self.port, self.host = waiting.PORTS.take(), "127.0.0.1"
        self.dir = waiting.scratch("haproxy")
        path = os.path.join(self.dir, "haproxy.cfg")
        with open(path, "w") as file:
            file.write(DEFAULTS + "frontend postgres\n    bind 127.0.0.1:%d\n    default_backend servers\n"
                       "backend servers\n" % self.port + "".join("    %s\n" % line for line in lines))
        waiting.give(path)
        self.process = subprocess.Popen([PROGRAM, "-db", "-f", path], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        **waiting.run_as(waiting.unprivileged()))
        waiting.wait_for(lambda: waiting.can_connect(self.port), "haproxy is up")

    def remove(self):
        self.process.kill()
        self.process.wait()
        waiting.discard(self.dir)
