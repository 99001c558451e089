"""What the checks know about the source tree: its files, and which floor each is on."""
import os

FOLDERS = ("src", "include", "test", "doc", "etc", ".ci", ".github")
TOP_FILES = ("Makefile", "configure.ac", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE",
             ".editorconfig", ".gitignore", ".gitattributes")

LEVELS = {"base": 1, "wire": 2, "auth": 2, "net": 2, "conf": 2, "pool": 3, "session": 4,
          "broker": 5, "cancel": 6, "handoff": 6, "login": 7, "relay": 7, "views": 8,
          "admin": 9, "metrics": 9, "daemon": 10, "tools": 11, "top": 12, "main": 13}


def files(root):
    """Every file of the tree, relative to root, sorted."""
    found = [f for f in TOP_FILES if os.path.isfile(os.path.join(root, f))]
    for folder in FOLDERS:
        for where, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = [f for f in folders if f not in ("__pycache__", ".pytest_cache")]
            found += [os.path.relpath(os.path.join(where, n), root)
                      for n in names if not n.endswith(".pyc")]
    return sorted(found)


def text(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def floor_of(path):
    """The floor of a file of the program, or None for tests and everything else."""
    parts = path.split("/")
    if parts[0] not in ("src", "include"):
        return None
    if len(parts) > 2:
        return parts[1]
    return "main"


def may_include(source, target):
    """An include goes down or stays in its folder, never up or to a sibling."""
    return source == target or LEVELS[target] < LEVELS[source]
