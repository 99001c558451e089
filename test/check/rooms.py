"""Section 3 of doc/architecture.md is complete: under the heading of each floor, `### base/: ...`,
bullets name its rooms before a colon (* `list`, `map`: ...).  Every file is in a room, every room
has a file, and a way through the rooms (`net/stream` in section 2) names files that exist."""
import re

import tree

PLAN = "doc/architecture.md"


def rooms(content):
    """{room: line}, such as {"base/list": 12}."""
    found, floor = {}, None
    for number, line in enumerate(content.splitlines(), 1):
        heading = re.match(r"#+ (?:([a-z]+)/)?", line)
        if heading:
            floor = heading.group(1)
        names = re.match(r"\* ((?:`[a-z0-9_]+`(?:, )?)+): ", line)
        if floor and names:
            found.update((floor + "/" + name, number) for name in re.findall(r"`(\w+)`", names.group(1)))
    return found


def named(content):
    """{"net/stream": line} of the files that the text names with their floor."""
    return {name: number for number, line in enumerate(content.splitlines(), 1)
            for name in re.findall(r"`([a-z]+/[a-z0-9_]+)`", line)}


def is_in(file, room):
    """auth/scram_keys is in auth/scram"""
    return file == room or file.startswith(room + "_")


def check(options):
    files = {}
    for path in tree.files(options.root):
        found = re.match(r"(?:src|include)/([a-z]+/[^./]+)\.[ch]$", path)
        if found:
            files[found.group(1)] = path
    content = tree.text(options.root, PLAN) if PLAN in tree.files(options.root) else ""
    plan = rooms(content)
    problems = ["%s: is in no room of %s" % (path, PLAN) for file, path in sorted(files.items())
                if not any(is_in(file, room) for room in plan)]
    problems += ["%s:%d: %s has no file" % (PLAN, line, room)
                 for room, line in sorted({**named(content), **plan}.items())
                 if not any(is_in(file, room) for file in files)]
    return problems
