#!/usr/bin/env python3
"""What the tests that were run with VARIANT=cov have reached: lines and branches of each file and floor, and
for some floors the lines that handle an error and were never reached.  All lines and branches of these
floors that were not, but for those of assertions, go to the file not-reached.txt beside the objects.

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


def put_row(name, lines, branches):
    print("%-42s %6d %6.1f %8d %6.1f" % (name, len(lines), share(lines), len(branches), share(branches)))


def floor_of(name):
    return name.split("/")[1]


def gaps(text, lines, branches):
    """(number, what was not reached there, the line) of a file: "line", or which of its branches."""
    found = collections.defaultdict(list)
    for number, count in lines.items():
        if not count:
            found[number] = ["line"]
    for (number, i), count in branches.items():
        if not count and lines.get(number) and "assert(" not in text[number - 1]:
            found[number].append(str(i))
    return [(number, found[number], text[number - 1].strip()) for number in sorted(found)]


def put_gaps(files, floors, out):
    """Errors are printed; everything goes to the file."""
    for name, (lines, branches) in sorted(files.items()):
        if floor_of(name) not in floors or not name.startswith("src/"):
            continue
        with open(name) as source:
            text = source.read().split("\n")
        for number, what, line in gaps(text, lines, branches):
            out.write("%s:%d: %s: %s\n" % (name, number, "line" if what == ["line"] else
                                          "branch " + " ".join(what), line))
            if what == ["line"] and ERRORS.search(line):
                print("not reached: %s:%d: %s" % (name, number, line))


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
    sums = collections.defaultdict(lambda: ([], []))
    for name, (lines, branches) in sorted(files.items()):
        put_row(name, lines.values(), branches.values())
        for of in (floor_of(name) + "/", "all"):
            sums[of][0].extend(lines.values())
            sums[of][1].extend(branches.values())
    for name in sorted(sums, key=lambda name: (name == "all", name)):
        put_row(name, *sums[name])
    listed = os.path.join(args.objects, "../not-reached.txt")
    with open(listed, "w") as out:
        put_gaps(files, args.floors, out)
    print("all that was not reached: %s" % os.path.normpath(listed))


if __name__ == "__main__":
    main()
