"""Tools for tests: waiting for conditions, free ports, scratch folders, the unprivileged account,
and libraries to preload."""

import contextlib
import fcntl
import glob
import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
import time

import tcp_sockets

DEADLINE = 45.0


def wait_for(condition, what="condition", deadline=DEADLINE, pause=0.01):
    """Calls condition() until it returns something true, and returns that value."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("not within %gs: %s (last: %r)" % (deadline, what, value))
        time.sleep(pause)


def holds_for(condition, seconds, what="condition", pause=0.02):
    """Asserts that condition() stays true for that many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        assert value, "%s did not hold: %r" % (what, value)
        time.sleep(pause)


def wait_read(sock):
    """Waits until the process at the other end of this TCP connection has read all that was
    sent to it."""
    local, peer = sock.getpeername(), sock.getsockname()

    wait_for(lambda: not tcp_sockets.unread(local, peer), "what was sent is read", pause=0.003)


def can_connect(port):
    """Says whether a process listens on the port."""
    try:
        socket.create_connection(("127.0.0.1", port), DEADLINE).close()
        return True
    except OSError:
        return False


def socket_inodes(pid):
    """Returns the inodes of all sockets that a process has, in the form that /proc/net uses."""
    found = set()
    for link in glob.glob("/proc/%d/fd/*" % pid):
        with contextlib.suppress(OSError):
            name = os.readlink(link)
            if name.startswith("socket:["):
                found.add(name[8:-1])
    return found


PORT_LOCKS = "/tmp/pooler-test-ports"


class Ports:
    """Hands out each port once, from below the range that the kernel uses itself. Each process of a
    parallel test run (pytest-xdist) has its own part of the range. Another run may hand out ports
    at the same time, and what gets one is slow to listen on a busy machine; so a lock is held for
    each of the last ports: byte N of a file that all runs know."""

    HELD = 300

    def __init__(self):
        self.locks, self.held = None, []
        worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
        self.size = 20000 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        self.first = 10000 + worker * self.size
        self.at = random.randrange(self.size)

    def take(self):
        for _ in range(2000):
            self.at = (self.at + 1) % self.size
            if self._is_free(self.first + self.at) and self._is_mine(self.first + self.at):
                return self.first + self.at
        raise AssertionError("no free port")

    def _is_mine(self, port):
        if self.locks is None:
            self.locks = open_shared(PORT_LOCKS)
        try:
            fcntl.lockf(self.locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        self.held.append(port)
        if len(self.held) > self.HELD:
            fcntl.lockf(self.locks, fcntl.LOCK_UN, 1, self.held.pop(0))
        return True

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


def open_shared(path):
    """Opens a file that every account may write, and makes it if there is none."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        os.fchmod(made, 0o666)
        return made


def unprivileged():
    """Returns the passwd entry of the account that runs everything: the current account, or an
    unprivileged one when the current account is root."""
    if os.getuid() != 0:
        return pwd.getpwuid(os.getuid())
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise AssertionError("no unprivileged account to run as")


def run_as(account):
    """Returns arguments for subprocess that switch from root to the unprivileged account."""
    if os.getuid() != 0:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def program_as(account, command, env):
    """Returns the command that runs this command as the unprivileged account, and more arguments
    for subprocess. subprocess would copy the whole process of the tests to switch the account,
    which setpriv does for less; a library to preload is not for setpriv."""
    if os.getuid() != 0 or "LD_PRELOAD" in env or not shutil.which("setpriv"):
        return command, run_as(account)
    return ["setpriv", "--reuid=%d" % account.pw_uid, "--regid=%d" % account.pw_gid,
            "--clear-groups", "--", *command], {}


def scratch(prefix, where="/tmp"):
    """Returns a new folder that belongs to the unprivileged account."""
    path = tempfile.mkdtemp(prefix=prefix + "-", dir=where)
    os.chmod(path, 0o755)
    give(path)
    return path


MEMORY = "/dev/shm"
MEMORY_LEAST = 4 << 30


def fast_place():
    """Returns the folder in memory, if it has room for the data of PostgreSQL, or else /tmp."""
    try:
        there = os.statvfs(MEMORY)
    except OSError:
        return "/tmp"
    is_roomy = there.f_bavail * there.f_frsize >= MEMORY_LEAST and os.access(MEMORY, os.W_OK)
    return MEMORY if is_roomy else "/tmp"


def give(path):
    if os.getuid() == 0:
        account = unprivileged()
        os.chown(path, account.pw_uid, account.pw_gid)


def discard(path):
    shutil.rmtree(path, ignore_errors=True)


def can_reach(path):
    """Says whether the unprivileged account may read this file or folder."""
    return subprocess.run(["test", "-r", path], cwd="/", **run_as(unprivileged())).returncode == 0


@contextlib.contextmanager
def within_reach(path):
    """Returns the path, or that of a copy when the unprivileged account may not read it. An example
    is a source tree in root's home."""
    if can_reach(path):
        yield path
        return
    folder = scratch("copied")
    copy = os.path.join(folder, os.path.basename(path))
    try:
        if os.path.isdir(path):
            shutil.copytree(path, copy, symlinks=True)
        else:
            shutil.copy(path, copy)
        subprocess.run(["chmod", "-R", "a+rX", copy], check=True)
        yield copy
    finally:
        discard(folder)


def find_library(*names):
    """Returns the path of the first of these shared libraries that is installed, or None."""
    for folder in ("/usr/lib/*", "/usr/lib64", "/usr/lib", "/usr/local/lib"):
        for name in names:
            for path in sorted(glob.glob(os.path.join(folder, name))):
                return path
    return None


def preload(library):
    """Returns variables with which programs load this library before all others, even before a
    sanitizer's. They turn off the checks that fail with that order or with cwrap's libraries."""
    options = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return {"LD_PRELOAD": library, "ASAN_OPTIONS": options,
            "UID_WRAPPER_DISABLE_DEEPBIND": "1", "RESOLV_WRAPPER_DISABLE_DEEPBIND": "1"}
