#!/usr/bin/env python3
"""Makes pages for a browser from the documents, with Sphinx: pages.py OUT.

They need no server: what the search finds it has from a file beside the pages.  Links between
documents become links between pages; a link to a file that is no document is kept as text.  In
the end every link among the pages is followed.
"""
import html.parser
import json
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
# The documents of those who change the program; all others are for those who use it.
DEVELOPERS = ("doc/architecture.md", "CONTRIBUTING.md", "test/")
NO_PAGES = (".github/", "doc/in/")
CONF = """
project = "A connection pooler for PostgreSQL"
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = project
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["pages.css"]
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]
"""
# Headings of this depth are names of settings, and so are the links in the list of settings by task.
STYLE = """
h4, .toc-tree li li li li, #which-settings-do-i-need td a { font-family: var(--font-stack--monospace); }
table { display: block; overflow-x: auto; }
"""
TREE = """
```{toctree}
:hidden:
:maxdepth: 1
%s
%s
```
"""


def page_of(path):
    """The name of the page that a document becomes."""
    if path == "README.md":
        return "index.html"
    return re.sub(r"\.md$", ".html", re.sub("^doc/", "", path).replace("/", "-"))


def name_of(path):
    """The name of a page as Sphinx has it."""
    return page_of(path)[:-len(".html")]


def title_of(path, text):
    found = re.search(r"^# (.*)$", text, re.M)
    return found[1] if found else path


def converted(path, texts):
    """The text of a document, whose links lead to pages."""
    def target(found):
        name, _, anchor = found[2].partition("#")
        goal = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if re.match(r"\w+:", found[2]):
            return found[0]
        if goal.endswith((".png", ".svg")):
            return "[%s](%s)" % (found[1], os.path.basename(goal))
        if goal not in texts:
            return found[1]
        # A page has no file name for its reader, but a title.
        shown = re.sub(r"^[\w/.-]+\.md\b", title_of(goal, texts[goal]), found[1])
        return "[%s](%s%s)" % (shown, name_of(goal) + ".md", "#" + anchor if anchor else "")

    return links.outside_of_code(texts[path], lambda part: links.LINK.sub(target, part))


def trees(path, texts):
    """The contents that begin at a page."""
    def contents(caption, paths):
        return TREE % (":caption: %s\n" % caption if caption else "", "\n".join(map(name_of, paths)))

    if path == "doc/recipes/README.md":
        places = {p: texts[path].find("](%s)" % os.path.basename(p)) for p in texts if p.startswith("doc/recipes/") and p != path}
        return contents("", sorted(places, key=places.get))
    if path != "README.md":
        return ""
    # The order is that in which README.md names them.
    order = sorted((p for p in texts if p != path and (not p.startswith("doc/recipes/") or p.endswith("README.md"))),
                   key=lambda p: (texts[path].find("](%s)" % p) < 0, texts[path].find("](%s)" % p)))
    return (contents("For users", [p for p in order if not p.startswith(DEVELOPERS)])
            + contents("For developers", [p for p in order if p.startswith(DEVELOPERS)]))


# Opens each page in a narrow and in a wide window.
MEASURED = """<!DOCTYPE html><body><script>
(async () => {
	let said = "measured\\n";
	for (const page of %s) for (const width of [360, 1280]) {
		const frame = document.createElement("iframe");
		frame.style.cssText = "border: 0; height: 800px; width: " + width + "px";
		frame.src = page;
		await new Promise(loaded => { frame.onload = loaded; document.body.append(frame); });
		const root = frame.contentDocument, name = root.querySelector("h4");
		/* what is too wide is cut, but for tables and texts of programs, which scroll */
		const wide = [...root.querySelectorAll("article *")].find(
			part => part.getBoundingClientRect().right > width && !part.closest("table, pre"));
		if (wide) said += page + ": wider than " + width + " pixels: " + wide.textContent.slice(0, 60).trim() + "\\n";
		if (page === "settings.html" && !/mono/i.test(getComputedStyle(name).fontFamily)) said += page + ": names of settings are not monospaced\\n";
		frame.remove();
	}
	document.body.innerHTML = "<pre></pre>";
	document.querySelector("pre").textContent = said;
})();
</script>"""


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


def shown(browser, folder, page):
    """What a page, opened as a file, has become when its scripts have run."""
    return subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
                           "--virtual-time-budget=60000", "--dump-dom", "file://%s/%s" % (folder, page)],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300, check=False).stdout.decode()


def looked_at(folder):
    """What a browser does not show of the pages: what the search finds, the current page in the contents, no page
    that is wider than its window, and names of settings in a monospaced face."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        return
    for page, wanted in (("search.html?q=max_client_conn", r'<a href="settings\.html#max-client-conn"'),
                         ("usage.html", r'<li class="[^"]*\bcurrent\b[^"]*"><a class="[^"]*" href="#">')):
        if not re.search(wanted, shown(browser, folder, page)):
            yield "%s: a browser does not show %s" % (page, wanted)
    write(folder, "measured.html", MEASURED % json.dumps(sorted(n for n in os.listdir(folder) if n.endswith(".html"))))
    found = re.search(r"<pre>measured\n(.*)</pre>", shown(browser, folder, "measured.html"), re.S)
    os.remove(os.path.join(folder, "measured.html"))
    yield from found[1].splitlines() if found else ["the pages could not be measured"]


def write(folder, name, text):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.write(text)


def main():
    out = os.path.abspath(sys.argv[1])
    sources = out + "-sources"
    for folder in (out, sources):
        shutil.rmtree(folder, ignore_errors=True)
    paths = [p for p in tree.files(TOP) if p.endswith(".md") and not p.startswith(NO_PAGES)]
    texts = {path: tree.text(TOP, path) for path in paths}
    write(sources, "conf.py", CONF)
    write(os.path.join(sources, "static"), "pages.css", STYLE)
    for path in paths:
        write(sources, name_of(path) + ".md", converted(path, texts) + trees(path, texts))
    for path in tree.files(TOP):
        if path.startswith("doc/") and path.endswith((".png", ".svg")):
            shutil.copy(os.path.join(TOP, path), sources)
    made = subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", sources, out], check=False)
    dead = [*dead_links(out), *looked_at(out)] if made.returncode == 0 else ["the pages could not be made"]
    for line in dead:
        print(line)
    print("%s/index.html: %d pages" % (out, len(paths)))
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
