"""Counts the system calls of a process by perf or strace while something else happens."""

import shutil
import signal

from machine import Trouble, tail, until

# perf counts all system calls, and separately those that a pooler makes often.
OFTEN = ("recvfrom sendto recvmsg sendmsg read write readv writev epoll_wait epoll_pwait "
         "epoll_pwait2 epoll_ctl io_uring_enter accept accept4 socket connect setsockopt getsockopt "
         "close shutdown fcntl getrandom getpid getsockname getpeername futex").split()


def events():
    return ",".join(["raw_syscalls:sys_enter"] + ["syscalls:sys_enter_" + name for name in OFTEN])


def counter(machine):
    """Says which program counts on this machine: perf where it is allowed, because it slows the
    process least; otherwise strace; otherwise none."""
    if shutil.which("perf"):
        try:
            machine.run("perf", "stat", "-x,", "-e", events(), "true", unprivileged=False)
            return "perf"
        except Trouble:
            pass
    return "strace" if shutil.which("strace") else None


def by_perf(machine, pid, command):
    """Returns the output of the command, and {system call: number of calls}."""
    path = machine.fresh_path("perf")
    output = machine.run("perf", "stat", "-x,", "-e", events(), "-o", path, "-p", str(pid), "--",
                         *command, unprivileged=False)
    found, total = {}, 0
    with open(path) as lines:
        for line in lines:
            fields = line.strip().split(",")
            if len(fields) < 3 or not fields[0].isdigit():
                continue
            if fields[2] == "raw_syscalls:sys_enter":
                total = int(fields[0])
            elif int(fields[0]):
                found[fields[2].replace("syscalls:sys_enter_", "")] = int(fields[0])
    if not total:
        raise Trouble("perf counted nothing: " + tail(path))
    found["other"] = max(0, total - sum(found.values()))
    return output, found


def by_strace(machine, pid, command):
    table, notes = machine.fresh_path("strace"), machine.fresh_path("strace-notes")
    with open(notes, "wb") as out:
        strace = machine.start(["strace", "-c", "-f", "-o", table, "-p", str(pid)],
                               unprivileged=False, stdout=out, stderr=out)
    until(lambda: strace.poll() is not None or "attached" in tail(notes), "strace is attached", 10)
    if strace.poll() is not None:
        raise Trouble("strace: " + tail(notes).strip())
    output = machine.run(*command)
    machine.stop(strace, signal.SIGINT)
    found = {}
    with open(table) as lines:
        for line in lines:
            fields = line.split()
            if len(fields) >= 5 and fields[3].isdigit() and fields[-1] != "total":
                found[fields[-1]] = int(fields[3])
    return output, found


def count(machine, program, pid, command):
    return {"perf": by_perf, "strace": by_strace}[program](machine, pid, command)
