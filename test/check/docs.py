#!/usr/bin/env python3
"""Compares the generated documents with doc/in and the program's tables.
docs.py CC compares them; docs.py --write CC writes them.  CC: the command of a C compiler.

The prose is in doc/in, one text per document.  A line @TABLE@ in it stands for
that table (tables.py).  In a manual page, a line with the name of another
text (@settings.md@) stands for the chapters of that text, so that the reference and the
manual page share their prose.  A picture is drawn from a text in doc/in/pictures.
"""
import argparse
import difflib
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import links  # noqa: E402
import pictures  # noqa: E402
import tables  # noqa: E402

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

# the generated documents; each is made from the text of the same name
DOCUMENTS = ("doc/settings.md", "doc/console.md", "doc/troubleshooting.md", "doc/states.md", "doc/metrics.md",
             "doc/pgbouncer.1", "doc/pgbouncer.ini.5", "etc/pgbouncer.ini",
             "doc/pool.svg", "doc/modes.svg", "doc/failover.svg", "doc/takeover.svg", "doc/workers.svg")
# for each suffix of a document: the form of its tables, and its first line
FORMS = {
    ".md": ("md", "<!-- %s -->\n\n"),
    ".ini": ("ini", ""),
    ".1": ("man", ".\\\" %s\n"),
    ".5": ("man", ".\\\" %s\n"),
}
ORIGIN = "Written by `make docs` from doc/in/%s and the tables in include/."
PLACE = re.compile(r"^@([a-z.]+)@$", re.M)


def read(path):
    try:
        with open(os.path.join(TOP, path), encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def troff(text):
    """The text with troff's special characters escaped."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return re.sub(r"^\.", r"\\&.", text, flags=re.M)


def troff_block(block):
    """One block of Markdown as troff: a heading, code, a table of two columns, a paragraph, or the place of a table."""
    if PLACE.match(block):
        return block
    if block.startswith("## "):
        title = block[3:]
        word, quote, section = title.partition(" `")
        return ".SH " + (word.upper() + " " + section.rstrip("`") if quote else title.upper())
    if block.startswith("```"):
        return ".PP\n.RS 4\n.nf\n%s\n.fi\n.RE" % troff(re.sub(r"^```.*\n|\n```$", "", block))
    plain = troff(re.sub(r"\\(.)", r"\1", links.LINK.sub(r"\1", block)))
    if block.startswith("|"):
        rows = [row.strip("| ").split(" | ") for row in plain.splitlines()[2:]]
        return "\n".join(".TP\n.B %s\n%s" % tuple(row) for row in rows)
    return ".PP\n" + plain


def troff_of(text):
    """The chapters of a Markdown text as troff, without its title."""
    chapters = text[text.index("\n## "):]
    return "\n".join(troff_block(block) for block in re.split(r"\n\n+", chapters.strip("\n")))


def made(path, source):
    """The text of the generated document."""
    name = os.path.basename(path)
    if name.endswith(".svg"):
        return pictures.svg(read("doc/in/pictures/" + name.replace(".svg", ".txt")))
    form, first = FORMS[os.path.splitext(name)[1]]
    text = read("doc/in/" + name)
    if not text:
        sys.exit("doc/in/%s is missing" % name)
    if form == "man":
        text = PLACE.sub(lambda place: troff_of(read("doc/in/" + place[1])) if place[1].endswith(".md")
                         else place[0], text)
    text = PLACE.sub(lambda place: source.table(place[1], form), text)
    return (first % (ORIGIN % name) if first else "") + text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("cc", nargs="+")
    args = parser.parse_args()
    source = tables.Tables(TOP, args.cc)
    passed = failed = 0
    for path in DOCUMENTS:
        fresh = made(path, source)
        if args.write:
            if fresh != read(path):
                with open(os.path.join(TOP, path), "w", encoding="utf-8") as f:
                    f.write(fresh)
                print("  wrote " + path)
            continue
        lines = list(difflib.unified_diff(read(path).splitlines(), fresh.splitlines(),
                                          path, "what `make docs` writes", lineterm="", n=1))
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
