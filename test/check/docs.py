#!/usr/bin/env python3
"""Are the generated files what the program prints?  docs.py BINARY compares them;
docs.py --write BINARY writes them.

The program describes itself from its tables (--describe), so a reference that differs
from it is out of date.
"""
import argparse
import difflib
import os
import subprocess
import sys

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

# file: the (what, as) whose texts follow each other in it
GENERATED = {
    "doc/settings.md": [("settings", "md")],
    "doc/console.md": [("commands", "md"), ("views", "md")],
    "doc/errors.md": [("errors", "md")],
    "doc/states.md": [("states", "md")],
    "doc/pgbouncer.1": [("options", "man")],
    "doc/pgbouncer.ini.5": [("settings", "man")],
    "etc/pgbouncer.ini": [("settings", "ini")],
}


def describe(binary, what, shape):
    done = subprocess.run([binary, "--describe=" + what, "--as=" + shape], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    if done.returncode != 0:
        sys.exit("%s --describe=%s --as=%s: exit status %d: %s" % (
            binary, what, shape, done.returncode, done.stderr.decode("utf-8", "replace")))
    return done.stdout.decode("utf-8")


def committed(path):
    try:
        with open(os.path.join(TOP, path), encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("binary")
    args = parser.parse_args()
    passed = failed = 0
    for path, parts in GENERATED.items():
        fresh = "\n".join(describe(os.path.abspath(args.binary), *part) for part in parts)
        if args.write:
            if fresh != committed(path):
                with open(os.path.join(TOP, path), "w", encoding="utf-8") as f:
                    f.write(fresh)
                print("  wrote " + path)
            continue
        lines = list(difflib.unified_diff(committed(path).splitlines(), fresh.splitlines(),
                                          path, "what the program prints", lineterm="", n=1))
        passed += not lines
        failed += bool(lines)
        print("  %s  %s" % ("FAIL" if lines else "ok  ", path))
        for line in lines[:20]:
            print("    " + line)
    if args.write:
        return 0
    if failed:
        print("run `make docs` and commit what it writes")
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
