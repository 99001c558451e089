"""SQLSTATEs that clients are told stand in errors.def.  Elsewhere they may only be compared."""
import re

import tree

# Floors below errors.def: what they say reaches clients through struct err or a verdict.
BELOW = ("src/base/", "src/auth/", "src/net/", "src/pool/", "src/wire/", "src/conf/")
LITERAL = re.compile(r'"(?:[0-9][0-9A-Z]{4}|F0000|XX000)"')
COMPARED = re.compile(r'strn?cmp\([^;]*')
SUCCESS = '"00000"'  # of notices


def check(options):
    problems = []
    for path in tree.files(options.root):
        if not path.startswith("src/") or not path.endswith(".c") or path.startswith(BELOW):
            continue
        for number, line in enumerate(tree.text(options.root, path).splitlines(), 1):
            for found in LITERAL.findall(COMPARED.sub("", line)):
                if found != SUCCESS and "replaced_sqlstate" not in line:
                    problems.append("%s:%d: %s belongs into errors.def" % (path, number, found))
    return problems
