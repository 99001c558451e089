"""Every log line and reason that doc/troubleshooting.md explains is a text of the program.

They stand in the first column of tables whose heading speaks of log lines or reasons.  What
depends on the case is written as `...` or in capitals.
"""
import re

import tree

GUIDE = "doc/in/troubleshooting.md"
HEADING = re.compile(r"^\| [^|]*(?:log line|reason)[^|]* \|.*\n\|[-|]+\n((?:\|.*\n)+)", re.M)
OPEN = re.compile(r"\.\.\.|=?\b[A-Z]\b(?!:)|\b(?:FATAL|HOST|NAME)\b")
CONTINUED = re.compile(r'"\s*\n\s*"')


def texts(root):
    """The string literals of the program, one text for all."""
    sources = [path for path in tree.files(root)
               if path.startswith(("src/", "include/")) and path.endswith((".c", ".h", ".def"))]
    return CONTINUED.sub("", "\n".join(tree.text(root, path) for path in sources)).replace('\\"', '"')


def quotes(guide):
    """What is quoted, up to what depends on the case.  Texts of others stand behind "psql:" and "with"."""
    for rows in HEADING.findall(guide):
        for row in rows.splitlines():
            cell = row.split("|")[1].split(" with `")[0]
            if not cell.lstrip().startswith("psql:"):
                for quote in re.findall(r"`([^`]+)`", cell):
                    yield OPEN.split(quote.replace("closing because: ", ""))[0].strip()


def check(options):
    if GUIDE not in tree.files(options.root):
        return []
    known = texts(options.root)
    return ["%s: the program says nowhere: %s" % (GUIDE, quote)
            for quote in quotes(tree.text(options.root, GUIDE)) if quote not in known]
