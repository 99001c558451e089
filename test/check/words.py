"""Finds words that do not belong in a finished tree: marks of unfinished work, paths of a
machine."""
import os
import re

import tree

# Written in pieces, so that this file does not find itself.
UNFINISHED = ("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK", "not " + "implemented",
              "un" + "implemented", "st" + "ub")
MACHINE = ("/ro" + "ot/", "/wo" + "rk/", "/ho" + r"me/\w+/", r"\biss" + r"ue #?\d+\b")


def patterns(root):
    found = [re.compile(r"\b(?:%s)\b" % "|".join(UNFINISHED)),
             re.compile(r"(?<![\w.$}])(?:%s)" % "|".join(MACHINE))]
    home = os.path.expanduser("~").rstrip("/")
    here = os.path.dirname(os.path.abspath(root))
    for path in {home, here}:
        if path.count("/") > 1:  # shorter ones are words of other paths
            found.append(re.compile(re.escape(path) + r"(?:/|\b)"))
    return found


def check(options):
    problems = []
    wanted = patterns(options.root)
    for path in tree.files(options.root):
        if path.startswith("test/fuzz/corpus/"):
            continue
        for number, line in enumerate(tree.text(options.root, path).splitlines(), 1):
            for pattern in wanted:
                found = pattern.search(line)
                if found:
                    problems.append("%s:%d: %s" % (path, number, found.group(0)))
    return problems
