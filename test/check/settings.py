"""Each setting, and each key of a [databases] entry, is named in a test of its effect.

Tests of reading and printing values name all of them and do not count.
"""
import os
import re

import tree

TABLES = ("include/conf/settings.def", "include/conf/database_keys.def")
ROW = re.compile(r"^(?:SETTING|DATABASE_KEY)\((\w+),", re.M)
FOLDERS = ("test/integration/", "test/unit/", "test/prop/")
READERS = ("test_views.py", "test_views.c", "test_settings.c", "test_config.c", "prop_settings.c")
# These settings are accepted and have no effect.
IDLE = ("job_name",)


def check(options):
    names = [name for path in tree.files(options.root) if path in TABLES
             for name in ROW.findall(tree.text(options.root, path))]
    words = set()
    for path in tree.files(options.root):
        if path.startswith(FOLDERS) and os.path.basename(path) not in READERS:
            words.update(re.findall(r"\w+", tree.text(options.root, path)))
    return ["%s: no test shows what %s does" % (TABLES[0], name) for name in names
            if name not in words and name not in IDLE]
