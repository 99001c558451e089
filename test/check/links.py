"""Every link in a document leads to a file, and to a heading of it if it names one.

Anchors are made of headings as code hosts and `make html` do it.  Links to other places
in the world are not followed.
"""
import os
import re

import tree

LINK = re.compile(r"\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.M | re.S)
HEADING = re.compile(r"^#{1,6} (.*)$", re.M)


def outside_of_code(text, change):
    """The text with the parts that are no code changed."""
    parts = CODE.split(text)
    return "".join(part if i % 2 else change(part) for i, part in enumerate(parts))


def anchors(text):
    """The anchors of all headings, the second one of a name with -1."""
    found = []
    for heading in HEADING.findall(re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S)):
        heading = re.sub(r"\\(.)", r"\1", LINK.sub(r"\1", heading)).replace("`", "").strip().lower()
        name = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        same = sum(re.fullmatch(re.escape(name) + r"(-\d+)?", other) is not None for other in found)
        found.append(name if not same else "%s-%d" % (name, same))
    return set(found)


def check(options):
    problems = []
    for source in tree.files(options.root):
        if not source.endswith(".md"):
            continue
        # A text in doc/in becomes the document of the same name.
        place = source.replace("doc/in/", "doc/")
        targets = []
        outside_of_code(tree.text(options.root, source),
                        lambda part: targets.extend(target for _, target in LINK.findall(part)) or part)
        for target in targets:
            name, _, anchor = target.partition("#")
            if re.match(r"\w+:", target):
                continue
            goal = os.path.normpath(os.path.join(os.path.dirname(place), name)) if name else place
            if not os.path.exists(os.path.join(options.root, goal)):
                problems.append("%s: there is no %s" % (source, target))
            elif anchor and anchor not in anchors(tree.text(options.root, goal)):
                problems.append("%s: no heading is at %s" % (source, target))
    return problems
