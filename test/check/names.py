"""Public functions begin with the name of their file, or with a struct of its header.

Functions of src/pool/pool_next.c begin with pool_, those of src/conf/settings.c with settings_
or setting_, and those of src/base/mem.c with mem_, or with arena_ for its struct arena.
"""
import os
import re

import symbols
import tree


def beginnings(root, file):
    """The words that functions of src/FILE.c may begin with: the file's name, its first word,
    either in the singular, and the structs that the file's own header declares."""
    base = os.path.basename(file)
    found = {base, base.split("_")[0]}
    found |= {word[:-1] for word in found if word.endswith("s")}
    header = "include/%s.h" % file
    if os.path.isfile(os.path.join(root, header)):
        found |= set(re.findall(r"^struct (\w+)(?: \{|;)", tree.text(root, header), re.M))
    return found


def is_named(function, words):
    return any(function == word or function.startswith(word + "_") for word in words)


def check(options):
    problems = []
    for path in symbols.objects(options):
        file = os.path.relpath(path, options.objects)[:-len(".o")]
        words = beginnings(options.root, file)
        problems += ["src/%s.c: %s does not carry its file's name" % (file, name)
                     for name, kind, _ in symbols.symbols(options.nm, path)
                     if kind == "T" and name != "main" and not is_named(name, words)]
    return problems
