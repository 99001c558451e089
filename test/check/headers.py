"""Every header compiles alone and has a guard that is named after its path."""
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


def compile_problem(options, path):
    argv = options.cc.split() + FLAGS + ["-Iinclude", "-I" + os.path.abspath(options.build)]
    # A file includes the header: in a main file static functions would count as unused.
    done = subprocess.run(argv + ["-x", "c", "-include", path, "/dev/null"], cwd=options.root,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode == 0:
        return []
    return ["%s: does not compile alone:\n%s" % (path, done.stdout.decode("utf-8", "replace"))]


def check(options):
    headers = [f for f in tree.files(options.root) if f.endswith(".h")]
    own = [h for h in headers if h.startswith(("src/", "include/"))]
    problems = [p for h in own for p in guard_problem(options.root, h)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for found in pool.map(lambda h: compile_problem(options, h), own):
            problems += found
    return problems
