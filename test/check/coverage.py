#!/usr/bin/env python3
"""What the tests that were run with VARIANT=cov have reached: lines and branches of each file, and for
some floors the lines that handle an error and were never reached.

coverage.py FOLDER-OF-OBJECTS [FLOOR...]
"""
import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys

ERRORS = re.compile(r"return -1|return false|return NULL|err_set|_doom|_fatal|STEP_CLOSE|\bfail|log_(error|warning)|"
                    r"malformed|violat|out_of_memory|refuse")


def results(objects):
    """What gcov says of the source files, in parts."""
    counts = sorted(glob.glob(os.path.join(objects, "src/**/*.gcda"), recursive=True))
    for at in range(0, len(counts), 40):
        out = subprocess.run(["gcov", "--stdout", "--json-format", "--branch-probabilities"] + counts[at:at + 40],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
        for part in out.splitlines():
            yield from json.loads(part)["files"]


def add(files, found):
    """Functions of headers are in many files: each line and branch counts once."""
    lines, branches = files[found["file"]]
    for line in found["lines"]:
        number = line["line_number"]
        lines[number] = lines.get(number, 0) + line["count"]
        for i, branch in enumerate(line["branches"]):
            branches[number, i] = branches.get((number, i), 0) + branch["count"]


def share(counts):
    return 100 * sum(count > 0 for count in counts) / len(counts) if counts else 100


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("objects")
    parser.add_argument("floors", nargs="*")
    args = parser.parse_args()
    files = collections.defaultdict(lambda: ({}, {}))
    for found in results(args.objects):
        if found["file"].startswith(("src/", "include/")):
            add(files, found)
    if not files:
        sys.exit("no test has run with VARIANT=cov")
    print("%-42s %6s %6s %8s %6s" % ("file", "lines", "%", "branches", "%"))
    for name, (lines, branches) in sorted(files.items()):
        print("%-42s %6d %6.1f %8d %6.1f" % (
            name, len(lines), share(lines.values()), len(branches), share(branches.values())))
    every = [count for lines, _ in files.values() for count in lines.values()]
    taken = [count for _, branches in files.values() for count in branches.values()]
    print("%-42s %6d %6.1f %8d %6.1f" % ("all", len(every), share(every), len(taken), share(taken)))
    for name, (lines, _) in sorted(files.items()):
        if name.split("/")[1] not in args.floors or not name.startswith("src/"):
            continue
        with open(name) as source:
            text = source.read().split("\n")
        for number, count in sorted(lines.items()):
            if not count and ERRORS.search(text[number - 1]):
                print("not reached: %s:%d: %s" % (name, number, text[number - 1].strip()))


if __name__ == "__main__":
    main()
