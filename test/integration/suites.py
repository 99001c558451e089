"""The tests that drivers bring along, run against any address: what passes straight to PostgreSQL has to pass
through the pooler.

They come from the source packages (PyPI) and modules (Go) of drivers and frameworks, drivers of the versions that the
venv and drivers/go/go.mod have, and are kept in the build folder."""

import fcntl
import glob
import importlib.metadata
import json
import os
import re
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


def pip(*arguments):
    subprocess.run([sys.executable, "-m", "pip", "-q", *arguments], check=True, text=True, stdout=subprocess.PIPE,
                   stderr=subprocess.STDOUT, timeout=300)


def sdist(package, installed=None, parts=("tests",), needs=()):
    """The source package, of the version that is installed or of the one that is given with it: these parts of it,
    and what it needs beside the venv in the folder `needs`."""
    def fetch(folder):
        os.makedirs(folder)
        pip("download", "--no-deps", "--no-binary", package.partition("=")[0], "-d", folder,
            "%s==%s" % (package, importlib.metadata.version(installed)) if installed else package)
        archive, = glob.glob(os.path.join(folder, "*.tar.gz"))
        with tarfile.open(archive) as packed:
            for member in packed.getmembers():
                member.name = member.name.partition("/")[2]
                if member.name.partition("/")[0] in parts:
                    packed.extract(member, folder)
        os.remove(archive)
        if needs:
            pip("install", "--no-deps", "--target", os.path.join(folder, "needs"), *needs)
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


def discard(report):
    """A run that makes no report must not find that of the run before."""
    if os.path.exists(report):
        os.remove(report)


def pytest_results(folder, place, env):
    """Returns ({test: whether it passed}, output). SUITE_TESTS: other arguments than the folder `tests`."""
    report = os.path.join(place, "report.xml")
    discard(report)
    output = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=60", "-o", "addopts=",
                  "--rootdir", folder, "--junitxml", report, *env.get("SUITE_TESTS", "tests").split()], folder, env)
    results = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if "skipped" not in kinds:
            # some classes have the driver and the server's version in their name
            of = re.sub(r"_postgresql\+.*", "", case.get("classname").rsplit(".", 1)[-1])
            results[of + "." + case.get("name")] = not kinds & {"failure", "error"}
    return results, output


def go_results(folder, place, env):
    """SUITE_TESTS: more arguments."""
    output = run(["go", "test", "-json", "-count=1", "-p=1", "-timeout=%ds" % SECONDS,
                  *env.get("SUITE_TESTS", "").split(), "./..."], folder,
                 dict(env, GOFLAGS="-mod=mod", GOWORK="off", GOTOOLCHAIN="local",
                      GOCACHE=os.path.join(os.path.dirname(folder), "go-cache")))
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
            # Names of folders are others in each run.
            test = re.sub(r"\d{6,}", "N", event["Test"])
            results["%s.%s" % (event["Package"].split("/", 2)[2], test)] = event["Action"] == "pass"
    return results, "\n".join(texts)


def django_results(folder, place, env):
    report = os.path.join(place, "report.json")
    discard(report)
    output = run([sys.executable, "runtests.py", "--settings", "suite_django", "--noinput", "--parallel", "1",
                  *env["SUITE_TESTS"].split()], os.path.join(folder, "tests"),
                 dict(env, SUITE_REPORT=report, PYTHONPATH=os.pathsep.join(
                     [folder, os.path.join(folder, "needs"), os.path.dirname(os.path.abspath(__file__))])))
    with open(report) as told:
        return json.load(told), output


def sqlalchemy(driver):
    return (sdist("sqlalchemy==2.1.9", parts=("lib", "test", "setup.cfg", "pyproject.toml"), needs=("greenlet",)),
            pytest_results, lambda port: {
                "PYTHONPATH": "needs",
                "SUITE_TESTS": "-p warnings --dburi postgresql+%s://owner:none@127.0.0.1:%d/suite "
                               "test/dialect/postgresql test/dialect/test_suite.py" % (driver, port)})


def django(driver):
    return (sdist("django==5.2.19", parts=("django", "tests"), needs=("asgiref", "psycopg_pool")),
            django_results, lambda port: {
                "PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "owner", "PGDATABASE": "suite",
                "SUITE_DRIVER": driver, "SUITE_TESTS": "backends transactions transaction_hooks"})


# What a suite expects in its database.
OBJECTS = {
    "sqlalchemy": ["create schema test_schema", "create schema test_schema_2", "create extension hstore",
                   "create extension citext"],
    "lib-pq": ["create extension if not exists hstore"],
    "pgx": ["create extension if not exists hstore", "create extension if not exists ltree",
            "create domain uint64 as numeric(20,0)",
            """do $$ begin if not exists (select from pg_roles where rolname like ' tricky%') then
               create user " tricky, ' } "" \\ test user " superuser; end if; end $$"""],
}

# What their poolers need beside the settings of all.
SETTINGS = dict.fromkeys(("lib-pq", "pgx"), {"track_sql_prepare": 1})

# name: (how it is fetched, how it is run, its environment). Behind a slash stands with which driver.
SUITES = {
    "psycopg2": (sdist("psycopg2", "psycopg2-binary"), pytest_results, lambda port: {
        "PSYCOPG2_TESTDB": "suite", "PSYCOPG2_TESTDB_HOST": "127.0.0.1", "PSYCOPG2_TESTDB_PORT": str(port),
        "PSYCOPG2_TESTDB_USER": "owner"}),
    "asyncpg": (sdist("asyncpg", "asyncpg", needs=("distro",)), pytest_results, lambda port: {
        "PYTHONPATH": "needs", "PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "owner",
        "PGDATABASE": "postgres"}),  # some of them name it
    # TestPing ends a server by its process id, which may be that of a test beside it by then
    "lib-pq": (module("github.com/lib/pq"), go_results, lambda port: {
        "SUITE_TESTS": "-skip=^TestPing$",
        "PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "owner", "PGDATABASE": "suite", "PGSSLMODE": "disable"}),
    "pgx": (module("github.com/jackc/pgx/v5"), go_results, lambda port: {
        **{"PGX_TEST_%s" % name: "host=127.0.0.1 port=%d user=owner database=suite sslmode=disable" % port
           for name in ("DATABASE", "TCP_CONN_STRING", "PGBOUNCER_CONN_STRING")},
        "PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "owner", "PGDATABASE": "suite", "PGSSLMODE": "disable"}),
    "sqlalchemy/psycopg2": sqlalchemy("psycopg2"), "sqlalchemy/psycopg": sqlalchemy("psycopg"),
    "sqlalchemy/asyncpg": sqlalchemy("asyncpg"),
    "django/psycopg2": django("psycopg2"), "django/psycopg": django("psycopg"),
}


def results(name, port, place):
    """Returns ({test: whether it passed}, output). Raises toolchain.Missing."""
    fetch, runs, env = SUITES[name]
    return runs(fetched(name.partition("/")[0], fetch), place, env(port))
