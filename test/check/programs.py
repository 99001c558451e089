#!/usr/bin/env python3
"""Run test programs, print one line for each, and the whole output of those that fail.

cmocka programs are counted by their own totals; any other program counts as one.
With --corpus DIR each program fuzz_NAME is given the inputs in DIR/NAME.
The programs get what a machine that builds packages gives: 1,024 descriptors, and where we
may take it away (as root, on Linux) no network but a loopback of their own.
The last line is `N passed, N failed, N skipped`.
"""
import argparse
import ctypes
import fcntl
import os
import re
import resource
import shlex
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

TIMEOUT_S = 120
BELOW_S = 1200  # of a program below another one
DESCRIPTORS = 1024
CLONE_NEWNET, SIOCSIFFLAGS, UP_AND_RUNNING = 0x40000000, 0x8914, 0x41


def count(output, code):
    """(passed, failed, skipped) of one run; when code is not 0 at least one has failed."""
    def total(word):
        return sum(int(n) for n in re.findall(r"\[  %s\s+\] (\d+) test\(s\)" % word, output))
    passed, failed, skipped = total("PASSED"), total("FAILED"), total("SKIPPED")
    if "[==========]" not in output:
        return (1, 0, 0) if code == 0 else (0, 1, 0)
    if code != 0 and failed == 0:
        failed = 1
    if code == 0 and passed + failed + skipped == 0:
        return (0, 1, 0)  # a program without tests proves nothing
    return (passed, failed, skipped)


def run(argv, limit_s):
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=limit_s)
        return done.stdout.decode("utf-8", "replace"), done.returncode
    except subprocess.TimeoutExpired as late:
        text = (late.stdout or b"").decode("utf-8", "replace")
        return text + "\nstill running after %d s\n" % limit_s, -1
    except OSError as problem:
        return "%s: %s\n" % (argv[0], problem.strerror), -1


def examine(program, args):
    """Runs one program and returns its counts and what is to be printed of it."""
    argv = shlex.split(args.below) + [os.path.abspath(program)] + ([args.seed] if args.seed else [])
    name = os.path.basename(program)
    if args.corpus:
        folder = os.path.join(args.corpus, re.sub("^fuzz_", "", name))
        if not os.path.isdir(folder) or not os.listdir(folder):
            return (0, 1, 0), "  FAIL  %s: no corpus in %s" % (name, folder)
        argv.append(folder)
    started = time.monotonic()
    output, code = run(argv, BELOW_S if args.below else TIMEOUT_S)
    counts = count(output, code)
    told = ["  %s  %-32s %3d passed, %d failed, %d skipped  (%.1f s)" % (
        "FAIL" if counts[1] else "ok  ", name, *counts, time.monotonic() - started)]
    if counts[1]:
        told.append(output.rstrip())
        if code != 0:
            told.append("  %s: exit status %d" % (name, code))
    return counts, "\n".join(told)


def limit():
    """Takes from this process, and so from the programs, what they must not need."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    if sys.platform == "linux" and ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0:
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", UP_AND_RUNNING))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus")
    parser.add_argument("--seed", help="given to every program")
    parser.add_argument("--below", default="", help="a command that runs each program")
    parser.add_argument("program", nargs="*")
    args = parser.parse_args()
    limit()
    sums = [0, 0, 0]
    # The programs wait about as long as they compute, so that twice as many run as there are
    # processors. They are told of in the order given.
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        for counts, told in pool.map(lambda program: examine(program, args), args.program):
            sums = [a + b for a, b in zip(sums, counts)]
            print(told)
            sys.stdout.flush()
    print("%d passed, %d failed, %d skipped" % tuple(sums))
    return 1 if sums[1] else 0


if __name__ == "__main__":
    sys.exit(main())
