"""There are no writable global or static variables: all state belongs to the struct site."""
import os
import re

import symbols

# Constant tables of pointers are relocated once and then read-only.
WRITABLE = re.compile(r"^(\.data(?!\.rel\.ro)|\.bss|\.tdata|\.tbss|\*COM\*)")


def check(options):
    problems = []
    for path in symbols.objects(options):
        for name, kind, section in symbols.symbols(options.nm, path):
            if kind in "Cc" or (kind in "bBdDsSgG" and WRITABLE.match(section)):
                source = os.path.relpath(path, options.objects).replace(".o", ".c")
                problems.append("%s: writable global %s (%s)" % (source, name, section))
    return problems
