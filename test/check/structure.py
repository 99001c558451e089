#!/usr/bin/env python3
"""Runs all checks of the structure of the source tree.

Prints each problem; the last line is `N passed, N failed, N skipped`, one per check.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import circles  # noqa: E402
import citations  # noqa: E402
import figures  # noqa: E402
import globals as writable  # noqa: E402
import headers  # noqa: E402
import includes  # noqa: E402
import lengths  # noqa: E402
import links  # noqa: E402
import names  # noqa: E402
import quotes  # noqa: E402
import rooms  # noqa: E402
import settings  # noqa: E402
import sqlstates  # noqa: E402
import words  # noqa: E402

CHECKS = (("headers", headers), ("includes", includes), ("circles", circles),
          ("globals", writable), ("rooms", rooms), ("words", words), ("names", names),
          ("citations", citations), ("links", links), ("quotes", quotes), ("sqlstates", sqlstates),
          ("settings", settings), ("figures", figures))


def parse(argv=None):
    top = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default=top)
    parser.add_argument("--build", default="build", help="the folder with config.h")
    parser.add_argument("--objects", default="build/release/obj/src", help="object files to look into")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--skip", action="append", default=[], help="a check not to run")
    return parser.parse_args(argv)


def main():
    options = parse()
    passed = failed = skipped = 0
    for name, module in CHECKS:
        if name in options.skip:
            skipped += 1
            continue
        problems = module.check(options)
        print("  %s  %s" % ("FAIL" if problems else "ok  ", name))
        for problem in problems:
            print("    " + problem)
        failed += bool(problems)
        passed += not problems
    for line in figures.lines(options):
        print("  figure  " + line)
    for warning in lengths.warnings(options):
        print("  long  " + warning)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
