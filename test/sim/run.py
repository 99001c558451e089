#!/usr/bin/env python3
"""Run the simulation with one seed after the other, and shorten what fails.

The last line is `N passed, N failed, N skipped`.
"""
import argparse
import re
import shlex
import subprocess
import sys
import time

BITS = ("split", "late", "reset", "clients", "servers", "cancel", "admin", "reload", "stalls", "calls", "dns", "takeover", "kill", "tls")
EVERYTHING = (1 << len(BITS)) - 1
# A run whose faults differ finds what all of them together hide.
MIXES = (EVERYTHING, 0, 1 | 8 | 32, EVERYTHING & ~(2 | 4 | 256 | 2048 | 4096), 64 | 128 | 16, 2048 | 8192,
         EVERYTHING & ~(2048 | 4096), 1 | 8 | 16 | 32 | 2048 | 4096, 1 | 256 | 8192, EVERYTHING)


class Run:
    """One run of the program; what is left of it when it has ended."""
    def __init__(self, program, options, limit_s=None, verbose=False):
        self.options = dict(options)
        argv = [program] + ["--%s=%s" % pair for pair in options.items()] + (["--verbose"] if verbose else [])
        self.command = shlex.join(argv)
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=limit_s)
            self.output, self.code = done.stdout.decode("utf-8", "replace"), done.returncode
        except subprocess.TimeoutExpired as late:
            self.output, self.code = (late.stdout or b"").decode("utf-8", "replace"), -1
        found = re.search(r"^(?:FAILED: |.*Assertion |.*ERROR: \w*Sanitizer: |.*runtime error: )(.*)$",
                          self.output, re.M)
        is_well = self.code == 0 and re.search(r"^seed \d+: ok", self.output, re.M)
        self.failure = found.group(0) if found else None if is_well else "ended with %d" % self.code
        at = re.search(r"^AT: ([\d.]+)", self.output, re.M)
        self.seconds = float(at.group(1)) - 1000 if at else None
        trace = re.search(r"hash (\w+)", self.output)
        self.hash = trace.group(1) if trace else None

    def kind(self):
        """What failed, whoever it was."""
        return re.sub(r"0x[0-9a-f]+|[0-9]+|\"[^\"]*\"", "#", self.failure or "")


def shorten(program, failed, limit_s):
    """The smallest run found in limit_s seconds that fails alike."""
    best, end = failed, time.monotonic() + limit_s

    def attempt(**changes):
        nonlocal best
        options = dict(best.options, **changes)
        if options == best.options or time.monotonic() > end:
            return False
        run = Run(program, options, 600)
        if run.kind() != failed.kind():
            return False
        best = run
        return True

    def try_all():
        before = best
        seconds = best.options["seconds"]
        if best.seconds and best.seconds + 1 < seconds:
            attempt(seconds=int(best.seconds) + 1)
        attempt(seconds=best.options["seconds"] // 2)
        for bit in range(len(BITS)):
            attempt(faults=best.options["faults"] & ~(1 << bit))
        mask, clients = best.options["mask"], best.options["clients"]
        # halves, then quarters, and at last one client at a time
        size = clients
        while size:
            for first in range(0, clients, size):
                part = ((1 << size) - 1) << first
                if best.options["mask"] & part and best.options["mask"] & ~part:
                    attempt(mask=best.options["mask"] & ~part)
            size //= 2
        return best is not before

    while time.monotonic() < end and try_all():
        pass
    return best


def tell(program, run, limit_s):
    print("seed %s fails: %s" % (run.options["seed"], run.failure))
    print("  %s" % run.command)
    if limit_s:
        small = shorten(program, run, limit_s)
        faults = [name for i, name in enumerate(BITS) if small.options["faults"] >> i & 1]
        print("  shortened: %d clients, %d s, faults: %s: %s" % (
            bin(small.options["mask"] & ((1 << small.options["clients"]) - 1)).count("1"),
            small.options["seconds"], " ".join(faults) or "none", small.failure))
        print("  %s" % small.command)
        run = small
    print("\n".join("    " + line for line in run.output.splitlines()[-40:]))
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--hours", type=float, help="simulated; instead of a number of seeds")
    parser.add_argument("--budget", type=float, help="begin no further run after so many real seconds")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=600, help="simulated, of each run")
    parser.add_argument("--faults", type=int, help="bits: " + " ".join(BITS))
    parser.add_argument("--workers", default="1", help="such as 1,3: by turns")
    parser.add_argument("--shorten", type=float, default=300, help="real seconds to spend on it")
    parser.add_argument("--twice", action="store_true", help="the first seed twice: both runs are the same")
    parser.add_argument("--keep-going", action="store_true")
    args = parser.parse_args()
    runs = int(args.hours * 3600 / args.seconds + 0.999) if args.hours else args.seeds
    workers = [int(n) for n in args.workers.split(",")]
    passed = failed = 0
    begun = time.monotonic()
    for i in range(runs):
        if args.budget and i and time.monotonic() - begun > args.budget:
            break
        faults = args.faults if args.faults is not None else MIXES[(args.seed + i) % len(MIXES)]
        number = args.seed + i
        options = {"seed": number, "clients": args.clients, "mask": 2 ** 64 - 1, "seconds": args.seconds,
                   "faults": faults, "workers": workers[(number + number // len(MIXES)) % len(workers)]}
        run = Run(args.program, options)
        if run.failure:
            failed += 1
            tell(args.program, run, args.shorten)
            if not args.keep_going:
                break
            continue
        passed += 1
        print(run.output.splitlines()[-1])
        sys.stdout.flush()
        if args.twice and i == 0:
            again = Run(args.program, options)
            if again.hash == run.hash:
                passed += 1
            else:
                failed += 1
                print("seed %d is not repeated exactly: %s and %s" % (args.seed, run.hash, again.hash))
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
