"""The tests that drivers bring along, run against any address: what passes straight to PostgreSQL has to pass
through the pooler.

They come from the drivers' source packages (PyPI) and modules (Go), of the versions that the venv and
drivers/go/go.mod have, and are kept in the build folder."""

import fcntl
import glob
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree

import toolchain

SECONDS = 1500  # A suite takes at most so long.


def fetched(name, fetch):
    """Returns the folder with the suite, which is fetched once."""
    folder = os.path.join(os.path.dirname(toolchain.build_folder()), "suites", name)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(folder):
            try:
                fetch(folder)
            except subprocess.CalledProcessError as failure:
                shutil.rmtree(folder, ignore_errors=True)
                raise toolchain.Missing("cannot be fetched: %s" % failure.output[-600:])
    return folder


def sdist(package, installed):
    """The source package of the version that is installed."""
    def fetch(folder):
        os.makedirs(folder)
        subprocess.run([sys.executable, "-m", "pip", "-q", "download", "--no-deps", "--no-binary", package, "-d", folder,
                        "%s==%s" % (package, importlib.metadata.version(installed))],
                       check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        archive, = glob.glob(os.path.join(folder, "*.tar.gz"))
        with tarfile.open(archive) as packed:
            for member in packed.getmembers():
                member.name = member.name.partition("/")[2]
                if member.name.startswith("tests"):
                    packed.extract(member, folder)
        os.remove(archive)
    return fetch


def module(path):
    """A copy of the Go module, because its tests are run within it."""
    def fetch(folder):
        go = os.path.join(toolchain.SOURCES, "go")
        subprocess.run(["go", "mod", "download"], cwd=go, check=True, text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=300)
        source = subprocess.run(["go", "list", "-m", "-f", "{{.Dir}}", path], cwd=go, check=True, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.strip()
        shutil.copytree(source, folder)
        for where, _, names in os.walk(folder):
            for name in [where] + [os.path.join(where, one) for one in names]:
                os.chmod(name, 0o755)
    return fetch


def run(command, folder, env):
    done = subprocess.run(command, cwd=folder, env=dict(os.environ, **env), stdin=subprocess.DEVNULL, text=True,
                          errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
    return done.stdout


def pytest_results(folder, place, env, more=()):
    """Returns ({test: whether it passed}, output)."""
    report = os.path.join(place, "report.xml")
    output = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=60", "-o", "addopts=",
                  "--rootdir", folder, "--junitxml", report, *more, "tests"], folder, env)
    results = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if "skipped" not in kinds:
            results[case.get("classname").rsplit(".", 1)[-1] + "." + case.get("name")] = not kinds & {"failure", "error"}
    return results, output


def go_results(folder, place, env):
    output = run(["go", "test", "-json", "-count=1", "-p=1", "-timeout=%ds" % SECONDS, "./..."], folder,
                 dict(env, GOFLAGS="-mod=mod", GOWORK="off", GOTOOLCHAIN="local", GOCACHE=os.path.join(place, "cache")))
    results, texts = {}, []
    for line in output.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            texts.append(line)
            continue
        if event["Action"] == "output":
            texts.append(event["Output"].rstrip())
        elif event["Action"] in ("pass", "fail") and event.get("Test"):
            results["%s.%s" % (event["Package"].split("/", 2)[2], event["Test"])] = event["Action"] == "pass"
    return results, "\n".join(texts)


# name: (how it is fetched, how it is run, its environment)
SUITES = {
    "psycopg2": (sdist("psycopg2", "psycopg2-binary"), pytest_results, lambda port: {
        "PSYCOPG2_TESTDB": "suite", "PSYCOPG2_TESTDB_HOST": "127.0.0.1", "PSYCOPG2_TESTDB_PORT": str(port),
        "PSYCOPG2_TESTDB_USER": "owner"}),
    "asyncpg": (sdist("asyncpg", "asyncpg"), pytest_results, lambda port: {
        "PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "owner", "PGDATABASE": "suite"}),
    "lib-pq": (module("github.com/lib/pq"), go_results, lambda port: {
        "PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "owner", "PGDATABASE": "suite", "PGSSLMODE": "disable"}),
    "pgx": (module("github.com/jackc/pgx/v5"), go_results, lambda port: {
        "PGX_TEST_DATABASE": "host=127.0.0.1 port=%d user=owner database=suite sslmode=disable" % port,
        "PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "owner", "PGDATABASE": "suite", "PGSSLMODE": "disable"}),
}


def results(name, port, place):
    """Returns ({test: whether it passed}, output). Raises toolchain.Missing."""
    fetch, runs, env = SUITES[name]
    return runs(fetched(name, fetch), place, env(port))
