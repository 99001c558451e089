"""PostgreSQL's own regression tests, of the version that is installed, and their run.

The tests come from Debian's source package, and the headers for the functions in C that they load
from its package of headers; both are fetched once into the build folder and not installed."""

import fcntl
import glob
import os
import re
import shutil
import subprocess
import tarfile

import toolchain
import waiting

# So many tests run at a time, each with a connection.
SIDE_BY_SIDE = int(os.environ.get("REGRESS_CONNECTIONS", "20"))


def folder_of(bindir):
    return os.path.join(os.path.dirname(toolchain.build_folder()), "regress", version_of(bindir)[0])


def version_of(bindir):
    """Returns (the major version, the version of the installed Debian package)."""
    major = os.path.basename(os.path.dirname(bindir))
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "postgresql-" + major],
                          capture_output=True, text=True) if shutil.which("dpkg-query") else None
    if not done or done.returncode != 0:
        raise toolchain.Missing("PostgreSQL is not of a Debian package here")
    return major, done.stdout.strip()


def sources(bindir):
    """Returns a folder with the tests and the library that they load. Raises toolchain.Missing."""
    major, version = version_of(bindir)
    folder = folder_of(bindir)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = os.path.join(folder, "release")
        if not os.path.exists(stamp) or open(stamp).read() != version:
            made = folder + ".new"
            shutil.rmtree(made, ignore_errors=True)
            os.makedirs(made)
            try:
                fetch(made, major, version)
                build(made)
            except toolchain.Missing:
                if not os.path.exists(stamp):  # Tests of another minor version are better than none.
                    raise
                return folder
            with open(os.path.join(made, "release"), "w") as known:
                known.write(version)
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(made, folder)
    return folder


def are_installed(bindir):
    """Are the tests of the same minor version as the server?"""
    source, = glob.glob(os.path.join(sources(bindir), "*.dsc"))
    return os.path.basename(source).split("_")[1] == version_of(bindir)[1] + ".dsc"


def nearest(versions, wanted):
    """The wanted version, then those whose minor version is nearest."""
    def minor(version):
        return int(re.match(r"\d+\.(\d+)", version).group(1))

    return sorted({wanted, *versions}, key=lambda v: (v != wanted, abs(minor(v) - minor(wanted)), v))


def fetch(folder, major, version):
    """Fetches the two packages with lists of packages of its own, so that nothing on the machine
    changes. A version that the archive lists and no longer has is replaced by the nearest of the same
    major version that can be fetched, whose tests are the same but for what was mended."""
    lists = os.path.join(folder, "apt")
    parts = os.path.join(lists, "sources")
    for name in ("sources", "state/lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(lists, name))
    for path in glob.glob("/etc/apt/sources.list") + glob.glob("/etc/apt/sources.list.d/*"):
        with open(path) as known:
            text = known.read()
        text = re.sub(r"^Types: deb\s*$", "Types: deb deb-src", text, flags=re.M)
        text = re.sub(r"^deb( .*)$", r"deb\1\ndeb-src\1", text, flags=re.M)
        with open(os.path.join(parts, os.path.basename(path)), "w") as ours:
            ours.write(text)
    options = ["-q", "-o", "Dir::Etc::sourcelist=-", "-o", "Dir::Etc::sourceparts=" + parts,
           "-o", "Dir::State::lists=%s/state/lists" % lists, "-o", "Dir::Cache=%s/cache" % lists,
           "-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=1"]

    def run(*command):
        return subprocess.run([*command[:1], *options, *command[1:]], cwd=folder, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=300)

    run("apt-get", "update")
    for command, name in ((["source", "--download-only"], "postgresql-" + major),
                          (["download"], "postgresql-server-dev-" + major)):
        listed = re.findall(r"\| *(\S+) *\|", run("apt-cache", "madison", name).stdout)
        for one in nearest(listed, version):
            done = run("apt-get", *command, "%s=%s" % (name, one))
            if done.returncode == 0:
                break
        else:
            raise toolchain.Missing("%s cannot be fetched: %s" % (name, done.stderr[-300:]))
    shutil.rmtree(lists)


def build(folder):
    tests = re.compile(r"[^/]+/src/test/regress/(?!.*/\.)")
    archive, = glob.glob(os.path.join(folder, "postgresql-*.orig.tar.*"))
    with tarfile.open(archive) as packed:
        wanted = [m for m in packed.getmembers() if tests.match(m.name)]
        for member in wanted:
            member.name = member.name.partition("/src/test/regress/")[2]
        packed.extractall(os.path.join(folder, "tests"), wanted)
    headers, = glob.glob(os.path.join(folder, "postgresql-server-dev-*.deb"))
    subprocess.run(["dpkg-deb", "-x", headers, os.path.join(folder, "headers")], check=True)
    include, = glob.glob(os.path.join(folder, "headers/usr/include/postgresql/*/server"))
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-w", "-I", include, "-I", "/usr/include/postgresql",
                    "-o", os.path.join(folder, "regress.so"), os.path.join(folder, "tests/regress.c")],
                   check=True)
    for used in (archive, headers):
        os.remove(used)
    shutil.rmtree(os.path.join(folder, "headers"))


class Run:
    """One run of all tests against a host and port."""

    def __init__(self, cluster, port):
        self.cluster, self.port = cluster, port
        self.results = {}  # name: whether it passed

    def __call__(self):
        major, _ = version_of(self.cluster.bindir)
        source = sources(self.cluster.bindir)
        place = waiting.scratch("regress", waiting.fast_place())
        try:
            shutil.copytree(os.path.join(source, "tests"), os.path.join(place, "tests"))
            libraries = os.path.join(place, "lib")
            os.makedirs(libraries)
            shutil.copy(os.path.join(source, "regress.so"), libraries)
            for name in ("refint.so", "autoinc.so"):
                shutil.copy("/usr/lib/postgresql/%s/lib/%s" % (major, name), libraries)
            os.makedirs(os.path.join(place, "out"))
            for where, folders, names in os.walk(place):
                for name in [where] + [os.path.join(where, one) for one in names]:
                    waiting.give(name)
            return self.start(major, place, libraries)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def start(self, major, place, libraries):
        tests = os.path.join(place, "tests")
        done = subprocess.run(
            ["/usr/lib/postgresql/%s/lib/pgxs/src/test/regress/pg_regress" % major,
             "--bindir=" + self.cluster.bindir, "--host=127.0.0.1", "--port=%d" % self.port,
             "--user=owner", "--dlpath=" + libraries, "--inputdir=" + tests,
             "--outputdir=" + os.path.join(place, "out"), "--max-connections=%d" % SIDE_BY_SIDE,
             "--schedule=" + os.path.join(tests, "parallel_schedule")],
            cwd=place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=900, env=dict(os.environ, LC_ALL="C"), **waiting.run_as(self.cluster.account))
        for name, outcome in re.findall(r"^(?:test|    ) (\S+)\s+\.\.\. (ok|FAILED|failed)", done.stdout, re.M):
            self.results[name] = outcome == "ok"
        differences = os.path.join(place, "out", "regression.diffs")
        text = open(differences, errors="replace").read() if os.path.exists(differences) else ""
        return done.stdout, text

    def failed(self):
        return {name for name, has_passed in self.results.items() if not has_passed}
