"""Every error for clients is in errors.def, with SQLSTATE and text, and every row is used.

SQLSTATEs of servers that the code compares with have names in errors.h.
"""
import re

import tree

TABLE = "include/base/errors.def"
NAMES = "include/base/errors.h"
LITERAL = re.compile(r'"(?:[0-9][0-9A-Z]{4}|[A-Z][0-9]{4}|XX000)"')
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
COMMENT = re.compile(r"/\*.*?\*/", re.S)
ROW = re.compile(r'ERROR_ROW\((\w+), \w+, "(\w+)", (?:NULL|"\w+"), ("(?:[^"\\]|\\.)*")')
# A text with a SQLSTATE that is not taken from errors.def.
SAID = re.compile(r'\b(?:client_fatal_text|queue_refuse|lookup_refuse)\([^;"]*("[^"]*")')


def without_comments(text):
    """The same lines without comments."""
    return COMMENT.sub(lambda m: "\n" * m.group().count("\n"), text)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def check_file(path, text, texts):
    for found in LITERAL.finditer(text):
        yield "%s:%d: %s belongs into errors.def" % (path, line_of(text, found.start()), found[0])
    for found in STRING.finditer(text):
        if found[0] in texts:
            yield "%s:%d: the text %s is ERROR_%s in errors.def" % (
                path, line_of(text, found.start()), found[0], texts[found[0]])
    for found in SAID.finditer(text):
        yield "%s:%d: the text %s has no row in errors.def" % (
            path, line_of(text, found.start()), found[1])


def check(options):
    paths = [path for path in tree.files(options.root)
             if path.startswith(("src/", "include/")) and path not in (TABLE, NAMES)]
    files = {path: without_comments(tree.text(options.root, path))
             for path in paths if path.endswith((".c", ".h"))}
    has_table = TABLE in tree.files(options.root)
    rows = ROW.findall(tree.text(options.root, TABLE)) if has_table else []
    texts = {text: name for name, _, text in rows if text != '"%s"'}
    problems = [problem for path, text in files.items()
                for problem in check_file(path, text, texts)]
    used = set(re.findall(r"\bERROR_(\w+)", "\n".join(files.values())))
    problems += ["%s: nobody uses %s" % (TABLE, name) for name, _, _ in rows if name not in used]
    return problems
