"""Every document that is named exists, and so does every section that is cited and every test
that a document names.

A citation is the name of a document in doc/ and numbers behind it: `protocol.md 9, 10.1`.
Sections are headings that begin with their number.
"""
import os
import re

import tree

DOCUMENT = re.compile(r"([\w./-]*\w\.md)\b((?: \d+(?:\.\d+)*(?:,| to| and)?)*)")
HEADING = re.compile(r"^#+ (\d+(?:\.\d+)*)\.? ", re.M)
# A line break inside a comment or a text.
LINE_END = re.compile(r"\n[ \t]*(?:\*|#|//)?[ \t]*")


def find(root, source, name):
    """The path of the document that is called so in that file, or None."""
    for folder in (os.path.dirname(source), "", "doc"):
        path = os.path.normpath(os.path.join(folder, name))
        if os.path.isfile(os.path.join(root, path)):
            return path
    return None


def tests(root):
    """The names of all tests and of the files that hold them."""
    found = set()
    for path in tree.files(root):
        if path.startswith("test/") and path.endswith((".py", ".c")):
            found.add(os.path.basename(path).rsplit(".", 1)[0])
            found.update(re.findall(r"\b(test_\w+)\(", tree.text(root, path)))
    return found


def unknown_tests(root):
    known = tests(root)
    for source in ("test/README.md", "CONTRIBUTING.md", "doc/security.md"):
        if os.path.isfile(os.path.join(root, source)):
            named = set(re.findall(r"\btest_\w+", tree.text(root, source)))
            yield from ("%s: there is no test %s" % (source, name) for name in sorted(named - known - {"test_"}))


def check(options):
    problems = list(unknown_tests(options.root))
    sections = {}
    for source in tree.files(options.root):
        if source.startswith("test/fuzz/corpus/") or source.endswith("self_test.py"):
            continue
        text = LINE_END.sub(" ", tree.text(options.root, source))
        for name, numbers in sorted(set(DOCUMENT.findall(text))):
            path = find(options.root, source, name)
            if path is None:
                problems.append("%s: there is no %s" % (source, name))
                continue
            if path not in sections:
                sections[path] = set(HEADING.findall(tree.text(options.root, path)))
            problems += ["%s: %s has no section %s" % (source, path, number)
                         for number in re.findall(r"\d+(?:\.\d+)*", numbers)
                         if number not in sections[path]]
    return problems
