"""PostgreSQL servers of versions other than the machine's own, downloaded into the build folder.

They come from Maven Central through the machine's Maven, once. Without Maven or a network the tests
that need them are skipped with that reason."""

import contextlib
import fcntl
import glob
import os
import platform
import shutil
import subprocess
import tarfile
import zipfile

import postgres
import toolchain
import waiting

RELEASES = {"16": "16.11.0", "17": "17.7.0", "18": "18.1.0"}
MAJORS = sorted(RELEASES)
MACHINES = {"x86_64": "amd64", "aarch64": "arm64v8"}
ARTIFACT = "io.zonky.test.postgres:embedded-postgres-binaries-linux-%s:%s"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy"


def folder_of(major):
    return os.path.join(os.path.dirname(toolchain.build_folder()), "postgres", major)


def programs(major):
    """Returns the folder with bin/ and lib/ of this version. Raises toolchain.Missing."""
    folder = folder_of(major)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_there(folder, RELEASES[major]):
            shutil.rmtree(folder, ignore_errors=True)
            unpack(fetch(major, folder + ".jar"), folder)
            with open(os.path.join(folder, "release"), "w") as stamp:
                stamp.write(RELEASES[major])
    return folder


def is_there(folder, release):
    try:
        with open(os.path.join(folder, "release")) as stamp:
            return stamp.read() == release
    except FileNotFoundError:
        return False


def fetch(major, folder):
    """Copies the archive into the folder and returns its path."""
    if not shutil.which("mvn"):
        raise toolchain.Missing("no mvn on this machine")
    if platform.machine() not in MACHINES:
        raise toolchain.Missing("no PostgreSQL archive for %s" % platform.machine())
    name = ARTIFACT % (MACHINES[platform.machine()], RELEASES[major])
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    try:
        done = subprocess.run(
            ["mvn", "-q", "-B", COPY, "-Dartifact=" + name, "-DoutputDirectory=" + folder],
            cwd=folder, stdin=subprocess.DEVNULL, text=True, timeout=150,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        raise toolchain.Missing("PostgreSQL %s cannot be fetched in time" % major) from None
    found = glob.glob(os.path.join(folder, "*.jar"))
    if done.returncode != 0 or not found:
        raise toolchain.Missing("PostgreSQL %s cannot be fetched: %s" % (major, done.stdout[-500:]))
    return found[0]


def unpack(archive, folder):
    with zipfile.ZipFile(archive) as outer:
        inner, = [n for n in outer.namelist() if n.endswith(".txz")]
        with outer.open(inner) as packed, tarfile.open(fileobj=packed, mode="r|xz") as files:
            files.extractall(folder)
    shutil.rmtree(os.path.dirname(archive))


class Clusters:
    """At most one running cluster of each version."""

    def __init__(self):
        self.running = {}
        self.copies = contextlib.ExitStack()

    def get(self, major):
        if major not in self.running:
            folder = self.copies.enter_context(waiting.within_reach(programs(major)))
            server = postgres.Postgres(os.path.join(folder, "bin"))
            self.running[major] = server
            server.create()
        return self.running[major]

    def remove(self):
        for server in self.running.values():
            server.remove()
        self.copies.close()
