"""Every log line and reason that doc/troubleshooting.md or a recipe explains is a text of the program.

They stand in the first column of tables whose heading speaks of log lines or reasons.  What
depends on the case is written as `...` or in capitals.
"""
import re

import tree

GUIDES = re.compile(r"doc/(?:in/troubleshooting|recipes/[\w-]+)\.md")
HEADING = re.compile(r"^\| [^|]*(?:log line|reason)[^|]* \|.*\n\|[-|]+\n((?:\|.*\n)+)", re.M)
OPEN = re.compile(r"\.\.\.|=?\b[A-Z]\b(?!:)|\b(?:FATAL|HOST|NAME)\b")
CONTINUED = re.compile(r'"\s*\n\s*"')


def texts(root):
    """The string literals of the program, one text for all."""
    sources = [path for path in tree.files(root)
               if path.startswith(("src/", "include/")) and path.endswith((".c", ".h", ".def"))]
    return CONTINUED.sub("", "\n".join(tree.text(root, path) for path in sources)).replace('\\"', '"')


def quotes(guide):
    """What is quoted, up to what depends on the case.  Texts of others stand behind their name and
    a colon, or behind "with"."""
    for rows in HEADING.findall(guide):
        for row in rows.splitlines():
            cell = row.split("|")[1].split(" with `")[0]
            if not re.match(r" *\w+:", cell):
                for quote in re.findall(r"`([^`]+)`", cell):
                    yield OPEN.split(quote.replace("closing because: ", ""))[0].strip()


def check(options):
    known = texts(options.root)
    return ["%s: the program says nowhere: %s" % (guide, quote)
            for guide in tree.files(options.root) if GUIDES.fullmatch(guide)
            for quote in quotes(tree.text(options.root, guide)) if quote not in known]
