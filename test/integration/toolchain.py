"""Builds the programs of drivers/ in the build folder, never in the source tree.

A program is built again when one of its files or the toolchain has changed. Its packages are
fetched first; without a network and without a cache only that step fails."""

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
    """The machine lacks a toolchain or the network, so the test cannot run."""


class Language:
    def __init__(self, tools, oldest, fetch, build, version):
        self.tools = tools  # The programs that the machine needs.
        self.oldest = oldest  # The oldest usable release of the toolchain.
        self.fetch = fetch  # The commands that may use the network.
        self.build = build  # The commands that work without the network.
        # When the output of this command changes, the program is built again.
        self.version = version

    def check(self):
        """Returns the version. Raises Missing when the machine cannot build this language."""
        for tool in self.tools:
            if not shutil.which(tool):
                raise Missing("no %s on this machine" % tool)
        told = subprocess.run(self.version, capture_output=True, text=True).stdout
        number = re.search(r"(\d+)\.(\d+)", told)
        if not number or tuple(map(int, number.groups())) < self.oldest:
            raise Missing("%r is older than %d.%d" % (told.strip(), *self.oldest))
        return told


RUST = Language(
    ["cargo"], (1, 88), [["cargo", "fetch", "--quiet"]],
    [["cargo", "build", "--offline", "--quiet"]], ["cargo", "--version"])
# By the folder of the sources.
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
    "rust": RUST,
    "sqlx": RUST,
}


def build_folder():
    """Returns $BUILD as make has it: relative to the tree, `build` by default."""
    return os.path.join(TREE, os.environ.get("BUILD") or "build", "drivers")


def run(command, folder):
    """Runs a command in the folder and returns (whether it succeeded, its output)."""
    env = dict(os.environ, CARGO_TARGET_DIR=os.path.join(folder, "target"),
               GOFLAGS="-mod=readonly", GOWORK="off", GOTOOLCHAIN="local")
    done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=400)
    return done.returncode == 0, "%s:\n%s" % (" ".join(command), done.stdout[-3000:])


def fingerprint(source, version):
    """Returns a hash over the names and texts of all files, and over the toolchain."""
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
    """Returns the folder with this language's built programs."""
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
