"""Waiting for conditions, free ports, scratch folders, the unprivileged account, and
libraries that programs are made to load."""

import glob
import os
import pwd
import random
import shutil
import socket
import tempfile
import time

DEADLINE = 15.0


def wait_for(condition, what="condition", deadline=DEADLINE, pause=0.01):
    """Calls condition() until it returns something true, and returns that."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("not within %gs: %s (last: %r)" % (deadline, what, value))
        time.sleep(pause)


def holds_for(condition, seconds, what="condition", pause=0.02):
    """Asserts that condition() stays true for that long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        assert value, "%s did not hold: %r" % (what, value)
        time.sleep(pause)


class Ports:
    """Hands out ports below the range the kernel uses by itself, each only once."""

    def __init__(self):
        self.next = random.randrange(10000, 29000)

    def take(self):
        for _ in range(2000):
            self.next = 10000 + (self.next - 9999) % 20000
            if self._is_free(self.next):
                return self.next
        raise AssertionError("no free port")

    @staticmethod
    def _is_free(port):
        for address in ("127.0.0.1", "0.0.0.0"):
            with socket.socket() as probe:
                try:
                    probe.bind((address, port))
                except OSError:
                    return False
        return True


PORTS = Ports()


def unprivileged():
    """The passwd entry everything runs as: ourselves, or an ordinary account for root."""
    if os.getuid() != 0:
        return pwd.getpwuid(os.getuid())
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise AssertionError("no unprivileged account to run as")


def run_as(account):
    """Arguments for subprocess that switch to the account when we are root."""
    if os.getuid() != 0:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def scratch(prefix):
    """A new folder that belongs to the unprivileged account."""
    path = tempfile.mkdtemp(prefix=prefix + "-", dir="/tmp")
    os.chmod(path, 0o755)
    give(path)
    return path


def give(path):
    if os.getuid() == 0:
        account = unprivileged()
        os.chown(path, account.pw_uid, account.pw_gid)


def discard(path):
    shutil.rmtree(path, ignore_errors=True)


def find_library(*names):
    """The path of the first of these shared libraries that is installed, or None."""
    for folder in ("/usr/lib/*", "/usr/lib64", "/usr/lib", "/usr/local/lib"):
        for name in names:
            for path in sorted(glob.glob(os.path.join(folder, name))):
                return path
    return None


def preload(library):
    """Environment for programs that are to load this library before all others, also
    before a sanitizer's, which minds that and what cwrap's libraries do."""
    options = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return {"LD_PRELOAD": library, "ASAN_OPTIONS": options,
            "UID_WRAPPER_DISABLE_DEEPBIND": "1", "RESOLV_WRAPPER_DISABLE_DEEPBIND": "1"}
