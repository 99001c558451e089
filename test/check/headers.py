"""Every header compiles alone and has a guard that is named after its path.

A file of code that has a header of its own includes it first, so that compiling the one shows that
the other compiles alone. Only the other headers are compiled here."""
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import tree

FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]


def guard_name(path):
    """include/base/err.h -> BASE_ERR_H"""
    inner = path.split("/", 1)[1]
    return re.sub(r"[^A-Za-z0-9]", "_", inner).upper()


def guard_problem(root, path):
    name = guard_name(path)
    if not re.search(r"^#ifndef %s\n#define %s\n" % (name, name), tree.text(root, path), re.M):
        return ["%s:1: no guard %s" % (path, name)]
    return []


def code_of(path):
    """include/base/err.h -> src/base/err.c"""
    return "src/" + path.split("/", 1)[1][:-2] + ".c"


def order_problem(root, path):
    code, wanted = code_of(path), path.split("/", 1)[1]
    first = re.search(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]*)', tree.text(root, code), re.M)
    if not first or first.group(1) != wanted:
        return ["%s: does not include \"%s\" before every other header" % (code, wanted)]
    return []


def compile_problem(options, path):
    argv = options.cc.split() + FLAGS + ["-Iinclude", "-I" + os.path.abspath(options.build)]
    # A file includes the header: in a main file static functions would count as unused.
    done = subprocess.run(argv + ["-x", "c", "-include", path, "/dev/null"], cwd=options.root,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode == 0:
        return []
    return ["%s: does not compile alone:\n%s" % (path, done.stdout.decode("utf-8", "replace"))]


def check(options):
    files = set(tree.files(options.root))
    own = sorted(f for f in files if f.endswith(".h") and f.startswith(("src/", "include/")))
    problems = [p for h in own for p in guard_problem(options.root, h)]
    problems += [p for h in own if code_of(h) in files for p in order_problem(options.root, h)]
    alone = [h for h in own if code_of(h) not in files]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for found in pool.map(lambda h: compile_problem(options, h), alone):
            problems += found
    return problems
