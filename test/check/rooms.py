"""The table of rooms in doc/architecture.md is complete: every file is in a room, and every
room has a file."""
import re

import tree

PLAN = "doc/architecture.md"


def rooms(content):
    """{room: line} of the first column of the plan's table: `base/list, base/map`."""
    found = {}
    for number, line in enumerate(content.splitlines(), 1):
        cell = re.match(r"\| ((?:[a-z]+/[a-z0-9_]+(?:, )?)+) \|", line)
        if cell:
            found.update((room, number) for room in cell.group(1).split(", "))
    return found


def is_in(file, room):
    """auth/scram_keys is in auth/scram"""
    return file == room or file.startswith(room + "_")


def check(options):
    files = {}
    for path in tree.files(options.root):
        found = re.match(r"(?:src|include)/([a-z]+/[^./]+)\.[ch]$", path)
        if found:
            files[found.group(1)] = path
    named = rooms(tree.text(options.root, PLAN)) if PLAN in tree.files(options.root) else {}
    problems = ["%s: is in no room of %s" % (path, PLAN) for file, path in sorted(files.items())
                if not any(is_in(file, room) for room in named)]
    problems += ["%s:%d: %s has no file" % (PLAN, line, room) for room, line in named.items()
                 if not any(is_in(file, room) for file in files)]
    return problems
