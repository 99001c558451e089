"""Builds the programs of drivers/ in the build folder, never in the source tree.

A program is built again when one of its files or the toolchain changed. What its registry
has to give is fetched first; without a network, and without a cache, that part fails alone.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.normpath(os.path.join(HERE, "../.."))
SOURCES = os.path.join(HERE, "drivers")


class Missing(Exception):
    """The machine lacks something that no test can judge: a toolchain, the network."""


class Language:
    def __init__(self, tools, oldest, fetch, build, version):
        self.tools = tools      # programs that must be there
        self.oldest = oldest    # the first release of the toolchain that will do
        self.fetch = fetch      # commands that may use the network
        self.build = build      # commands that need none
        self.version = version  # a change of what this prints means a new build

    def check(self):
        """Raises Missing when the machine cannot build this language; gives the version."""
        for tool in self.tools:
            if not shutil.which(tool):
                raise Missing("no %s on this machine" % tool)
        told = subprocess.run(self.version, capture_output=True, text=True).stdout
        number = re.search(r"(\d+)\.(\d+)", told)
        if not number or tuple(map(int, number.groups())) < self.oldest:
            raise Missing("%r is older than %d.%d" % (told.strip(), *self.oldest))
        return told


LANGUAGES = {
    "node": Language(
        ["node", "npm"], (18, 0),
        [["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]], [],
        ["node", "--version"]),
    "go": Language(
        ["go"], (1, 25), [["go", "mod", "download"]],
        [["go", "build", "-buildvcs=false", "-o", "bin/", "./..."]], ["go", "version"]),
    "java": Language(
        ["java", "javac", "mvn"], (11, 0),
        [["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]],
        [["javac", "-Xlint:all", "-Werror", "-cp", "lib/*", "-d", "classes", "Pgjdbc.java"]],
        ["javac", "-version"]),
    "rust": Language(
        ["cargo"], (1, 88), [["cargo", "fetch", "--quiet"]],
        [["cargo", "build", "--offline", "--quiet"]], ["cargo", "--version"]),
}


def build_folder():
    """$BUILD as make has it: relative to the tree, `build` by default."""
    return os.path.join(TREE, os.environ.get("BUILD") or "build", "drivers")


def run(command, folder):
    """Runs a command in the folder; gives (whether it succeeded, its output)."""
    env = dict(os.environ, CARGO_TARGET_DIR=os.path.join(folder, "target"),
               GOFLAGS="-mod=readonly", GOWORK="off", GOTOOLCHAIN="local")
    done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=400)
    return done.returncode == 0, "%s:\n%s" % (" ".join(command), done.stdout[-3000:])


def fingerprint(source, version):
    """Of all files' names and texts, and of the toolchain."""
    told = hashlib.sha256()
    for where, folders, names in os.walk(source):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(where, name)
            with open(path, "rb") as file:
                told.update(os.path.relpath(path, source).encode() + b"\0" + file.read())
    told.update(version.encode())
    return told.hexdigest()


def built(name):
    """The folder where this language's programs lie ready to run."""
    language = LANGUAGES[name]
    version = language.check()
    folder = os.path.join(build_folder(), name)
    os.makedirs(build_folder(), exist_ok=True)
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make(language, os.path.join(SOURCES, name), version, folder)
    return folder


def make(language, source, version, folder):
    stamp = os.path.join(folder, "made-from")
    wanted = fingerprint(source, version)
    if os.path.exists(stamp):
        with open(stamp) as made:
            if made.read() == wanted:
                return
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    for command in language.fetch:
        good, output = run(command, folder)
        if not good:
            raise Missing("cannot be fetched: " + output)
    for command in language.build:
        good, output = run(command, folder)
        assert good, output
    with open(stamp, "w") as made:
        made.write(wanted)
