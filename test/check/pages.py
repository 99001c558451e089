#!/usr/bin/env python3
"""Makes pages for a browser from the documents: pages.py OUT.  Needs pandoc.

Links between documents become links between pages.  A link to a file that is no document
is kept as text.  In the end every link among the pages is followed.
"""
import html
import html.parser
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import links  # noqa: E402
import tree  # noqa: E402

TOP = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
STYLE = """
body { max-width: 60em; margin: 2em auto; padding: 0 1em; font: 16px/1.5 sans-serif; color: #222; }
nav { border-bottom: 1px solid #ccc; padding-bottom: .5em; margin-bottom: 1em; font-size: 90%; }
nav a { margin-right: 1em; white-space: nowrap; }
table { border-collapse: collapse; margin: 1em 0; width: 100%; }
th, td { border: 1px solid #ccc; padding: .3em .6em; text-align: left; vertical-align: top; }
th { background: #f0f0f0; }
pre { background: #f5f5f5; padding: .8em; overflow-x: auto; }
code { background: #f5f5f5; font-size: 90%; overflow-wrap: break-word; }
h1, h2, h3 { line-height: 1.2; margin-top: 1.6em; }
@media (prefers-color-scheme: dark) {
  body { background: #181818; color: #ddd; } a { color: #8ab4f8; }
  pre, code, th { background: #262626; } th, td { border-color: #444; }
}
"""
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>%s</style>
</head>
<body>
<nav>%s</nav>
%s
</body>
</html>
"""


def page_of(path):
    """The name of the page that a document becomes."""
    if path == "README.md":
        return "index.html"
    return re.sub(r"\.md$", ".html", re.sub("^doc/", "", path).replace("/", "-"))


def title_of(path, text):
    found = re.search(r"^# (.*)$", text, re.M)
    return found[1] if found else path


def converted(path, text, pages):
    """The body of the page."""
    def target(found):
        name, _, anchor = found[2].partition("#")
        goal = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if re.match(r"\w+:", found[2]):
            return found[0]
        if goal.endswith((".png", ".svg")):
            return "[%s](%s)" % (found[1], os.path.basename(goal))
        if goal not in pages:
            return found[1]
        # A page has no file name for its reader, but a title.
        shown = re.sub(r"^[\w/.-]+\.md\b", title_of(goal, pages[goal]), found[1])
        return "[%s](%s%s)" % (shown, page_of(goal), "#" + anchor if anchor else "")

    text = links.outside_of_code(text, lambda part: links.LINK.sub(target, part))
    done = subprocess.run(["pandoc", "--from=gfm", "--to=html5", "--wrap=none", "--no-highlight"], input=text, text=True,
                          stdout=subprocess.PIPE, check=True)
    return done.stdout


class Reader(html.parser.HTMLParser):
    """Finds the anchors of a page and where its links lead to."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.targets, self.pictures = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.add(attrs["id"])
        if tag == "a" and "href" in attrs:
            self.targets.append(attrs["href"])
        if tag == "img":
            self.pictures.append(attrs["src"])


def dead_links(folder):
    """Every link among the pages of a folder that leads nowhere."""
    pages = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".html"):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                pages[name] = Reader(f.read())
    for name, page in pages.items():
        for picture in page.pictures:
            if not os.path.exists(os.path.join(folder, picture)):
                yield "%s: there is no picture %s" % (name, picture)
        for target in page.targets:
            if re.match(r"\w+:", target):
                continue
            goal, _, anchor = target.partition("#")
            goal = goal or name
            if goal not in pages or anchor and anchor not in pages[goal].ids:
                yield "%s: nothing is at %s" % (name, target)


def main():
    out = sys.argv[1]
    if not shutil.which("pandoc"):
        sys.exit("make html needs pandoc: apt-get install pandoc, or dnf install pandoc")
    paths = [p for p in tree.files(TOP) if p.endswith(".md") and not p.startswith("doc/in/")]
    texts = {path: tree.text(TOP, path) for path in paths}
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    # The menu has the order in which README.md names them. A folder of documents has one place in it.
    places = {path: texts["README.md"].find("](%s)" % path) for path in paths}
    order = sorted([p for p in paths if p.count("/") < 2 or p.endswith("README.md")], key=lambda p: (p != "README.md", places[p] < 0, places[p]))
    for path in paths:
        menu = "\n".join('<a href="%s">%s</a>' % (page_of(p), html.escape(title_of(p, texts[p]))) for p in order)
        body = converted(path, texts[path], texts)
        with open(os.path.join(out, page_of(path)), "w", encoding="utf-8") as f:
            f.write(PAGE % (html.escape(title_of(path, texts[path])), STYLE, menu, body))
    for path in tree.files(TOP):
        if path.startswith("doc/") and path.endswith((".png", ".svg")):
            shutil.copy(os.path.join(TOP, path), out)
    dead = list(dead_links(out))
    for line in dead:
        print(line)
    print("%s/index.html: %d pages" % (out, len(paths)))
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
