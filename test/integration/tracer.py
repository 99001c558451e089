"""Stops single threads of a process, as a debugger does, and counts the instructions that they run."""

import contextlib
import ctypes
import errno
import os
import signal
import threading
import time

import pytest

SINGLESTEP, ATTACH, DETACH = 9, 16, 17
WALL = 0x40000000  # waitpid: also for threads

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, thread):
    if libc.ptrace(request, thread, None, None) < 0:
        code = ctypes.get_errno()
        if code in (errno.EPERM, errno.ENOSYS):
            pytest.skip("ptrace() is not allowed here")
        raise OSError(code, os.strerror(code))  # of the class that belongs to this number


def find_thread(pid, name):
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/comm" % (pid, thread)) as comm:
            if comm.read().strip() == name:
                return int(thread)
    raise AssertionError("no thread %s" % name)


def await_death(thread):
    """Waits until a thread that stands still has ended with its process, which is not over before
    somebody has waited so."""
    os.waitpid(thread, WALL)


@contextlib.contextmanager
def stopped(pid, name):
    """The thread of this name stands still. Returns its number."""
    thread = find_thread(pid, name)
    ptrace(ATTACH, thread)
    os.waitpid(thread, WALL)
    try:
        yield thread
    finally:
        with contextlib.suppress(ProcessLookupError):  # The test has waited for its death.
            ptrace(DETACH, thread)


def is_asleep(pid, thread):
    with open("/proc/%d/task/%d/stat" % (pid, thread)) as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] == "S"


def count_instructions(pid, name, act):
    """Returns how many instructions the thread of this name runs outside of the kernel while act() runs in
    another thread, until it sleeps."""
    count = 0
    with stopped(pid, name) as thread:
        actor = threading.Thread(target=act_and_stop, args=(pid, thread, act))
        actor.start()
        while True:
            ptrace(SINGLESTEP, thread)
            if os.WSTOPSIG(os.waitpid(thread, WALL)[1]) == signal.SIGSTOP:
                break
            count += 1
        actor.join()
    return count


def act_and_stop(pid, thread, act):
    act()
    while not is_asleep(pid, thread):
        time.sleep(0.001)
    libc.tgkill(pid, thread, signal.SIGSTOP)
