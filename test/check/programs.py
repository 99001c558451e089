#!/usr/bin/env python3
"""Run test programs, print one line for each, and the whole output of those that fail.

cmocka programs are counted by their own totals; any other program counts as one.
With --corpus DIR each program fuzz_NAME is given the inputs in DIR/NAME.
The last line is `N passed, N failed, N skipped`.
"""
import argparse
import os
import re
import subprocess
import sys
import time

TIMEOUT_S = 120


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


def run(argv):
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT_S)
        return done.stdout.decode("utf-8", "replace"), done.returncode
    except subprocess.TimeoutExpired as late:
        text = (late.stdout or b"").decode("utf-8", "replace")
        return text + "\nstill running after %d s\n" % TIMEOUT_S, -1
    except OSError as problem:
        return "%s: %s\n" % (argv[0], problem.strerror), -1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus")
    parser.add_argument("--seed", help="given to every program")
    parser.add_argument("program", nargs="*")
    args = parser.parse_args()
    sums = [0, 0, 0]
    for program in args.program:
        argv = [os.path.abspath(program)] + ([args.seed] if args.seed else [])
        name = os.path.basename(program)
        if args.corpus:
            folder = os.path.join(args.corpus, re.sub("^fuzz_", "", name))
            if not os.path.isdir(folder) or not os.listdir(folder):
                print("  FAIL  %s: no corpus in %s" % (name, folder))
                sums[1] += 1
                continue
            argv.append(folder)
        started = time.monotonic()
        output, code = run(argv)
        counts = count(output, code)
        sums = [a + b for a, b in zip(sums, counts)]
        print("  %s  %-32s %3d passed, %d failed, %d skipped  (%.1f s)" % (
            "FAIL" if counts[1] else "ok  ", name, *counts, time.monotonic() - started))
        if counts[1]:
            print(output.rstrip())
            if code != 0:
                print("  %s: exit status %d" % (name, code))
        sys.stdout.flush()
    print("%d passed, %d failed, %d skipped" % tuple(sums))
    return 1 if sums[1] else 0


if __name__ == "__main__":
    sys.exit(main())
