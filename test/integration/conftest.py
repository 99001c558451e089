"""Options and fixtures of the end-to-end tests."""

import glob
import os
import signal
import subprocess
import sys
import time
import zlib

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import documents  # noqa: E402
import fakeserver  # noqa: E402
import pam  # noqa: E402
import postgres  # noqa: E402
import slapd  # noqa: E402
import toolchain  # noqa: E402
import versions  # noqa: E402
import waiting  # noqa: E402
from pooler import Pooler  # noqa: E402

# A shell starts what runs in its background with SIGINT and SIGQUIT ignored, and the programs that
# tests stop with them would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = os.path.normpath(os.path.join(HERE, "../../build/release/pgbouncer"))


def pytest_addoption(parser):
    parser.addoption("--pooler", default=OURS, help="the pooler binary under test")
    parser.addoption("--pg-bin", default=None, help="folder of PostgreSQL's programs")


# The longest cases begin first, at each process of a parallel run, so that none is left with them at
# the end: pytest-xdist cuts the list into as many parts as there are processes.
LONGEST = ("test_regress.py", "test_suites.py", "test_drivers.py", "test_wrong_row.py", "test_oracle.py")


# Of the cases of these files one half runs, and the other half when POOLER_TURN is the other number; and of these the
# half that POOLER_HALF says.
IN_TURN = os.environ.get("POOLER_IN_TURN", "").split()
TURN = int(os.environ.get("POOLER_TURN", "0"))
HALVED = os.environ.get("POOLER_HALVED", "").split()
HALF = int(os.environ.get("POOLER_HALF", "0"))


def has_its_turn(item):
    number = zlib.crc32(item.nodeid.encode())
    return ((item.path.stem not in IN_TURN or number % 2 == TURN) and
            (item.path.stem not in HALVED or number // 2 % 2 == HALF))


def pytest_collection_modifyitems(config, items):
    waits = [item for item in items if not has_its_turn(item)]
    if waits:
        config.hook.pytest_deselected(items=waits)
        items[:] = filter(has_its_turn, items)
    first = sorted((item for item in items if item.path.name in LONGEST),
                   key=lambda item: LONGEST.index(item.path.name))
    others = [item for item in items if item.path.name not in LONGEST]
    parts = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ordered, at = [], 0
    for part in range(parts):
        share = first[part::parts]
        end = len(items) * (part + 1) // parts - len(ordered) - len(share) + at
        end = len(others) if part == parts - 1 else max(at, end)
        ordered += share + others[at:end]
        at = end
    items[:] = ordered


def find_pg_bin():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb") + glob.glob("/usr/pgsql-*/bin/initdb"),
                   key=lambda p: float(p.split("/")[-3].split("-")[-1]))
    return os.path.dirname(found[-1]) if found else ""


@pytest.fixture(autouse=True)
def one_worker(request, monkeypatch):
    """A test that is marked so has one worker, however many the run asks for."""
    if request.node.get_closest_marker("one_worker"):
        monkeypatch.setenv("POOLER_SETTINGS", os.environ.get("POOLER_SETTINGS", "") + "; workers=1")


@pytest.fixture(scope="session")
def pg_bin(request):
    return request.config.getoption("--pg-bin") or find_pg_bin()


@pytest.fixture(scope="session")
def binary(request):
    path = os.path.abspath(request.config.getoption("--pooler"))
    assert os.access(path, os.X_OK), "no pooler at %s" % path
    with waiting.within_reach(path) as reachable:
        yield reachable


@pytest.fixture(scope="session")
def cluster(pg_bin):
    server = postgres.Postgres(pg_bin)
    try:
        yield server.create()
    finally:
        server.remove()


@pytest.fixture
def own_cluster(pg_bin):
    """A cluster for tests that leave roles, databases and settings behind."""
    server = postgres.Postgres(pg_bin)
    try:
        server.create()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def bench(cluster):
    """A database with pgbench's tables, owned by trust_user."""
    cluster.do("create database moved owner trust_user")
    env = dict(os.environ, PGHOST=cluster.dir, PGPORT=str(cluster.port), PGUSER="trust_user")
    subprocess.run([cluster.program("pgbench"), "-i", "-q", "moved"], env=env, check=True,
                   capture_output=True)
    return cluster


@pytest.fixture(scope="session")
def clusters():
    running = versions.Clusters()
    yield running
    running.remove()


def version(clusters, major):
    try:
        return clusters.get(major)
    except toolchain.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session", params=versions.MAJORS)
def other_pg(clusters, request):
    """Returns a running cluster for each version other than the machine's own."""
    return version(clusters, request.param)


@pytest.fixture(scope="session")
def pg18(clusters):
    return version(clusters, "18")


@pytest.fixture
def pg(cluster):
    """The running cluster. It is started again when an earlier test has stopped it."""
    cluster.since = time.time()
    yield cluster
    if cluster.process is None or cluster.process.poll() is not None:
        cluster.start()


@pytest.fixture(scope="session")
def directory():
    """A running LDAP directory. A pooler that uses it is started with the environment
    directory.env()."""
    if not slapd.find_slapd():
        pytest.skip("slapd is not installed")
    running = slapd.Slapd()
    try:
        yield running.create()
    finally:
        running.remove()


@pytest.fixture(scope="session")
def pam_service():
    """A PAM service. A pooler that uses it is started with the environment pam_service.env()."""
    if pam.missing():
        pytest.skip(pam.missing())
    service = pam.Pam()
    try:
        yield service
    finally:
        service.remove()


@pytest.fixture
def make_pooler(binary):
    """make_pooler(databases, start=True, ...) returns a pooler, which is stopped and checked after
    the test."""
    made = []

    def make(databases=None, start=True, **more):
        pooler = Pooler(binary, databases, **more)
        made.append(pooler)
        return pooler.start() if start else pooler

    yield make
    try:
        for pooler in made:
            pooler.stop()
    finally:
        for pooler in made:
            pooler.remove()


# With io_uring they share the memory that may be locked.
SHARED_MOST = 2


def end(pooler):
    try:
        pooler.stop()
    finally:
        pooler.remove()


@pytest.fixture(scope="module")
def poolers_of_file(binary):
    """The poolers that the cases of a file share: {configuration: pooler}."""
    made = {}
    yield made
    for pooler in made.values():
        end(pooler)


@pytest.fixture
def shared_pooler(binary, poolers_of_file):
    """shared_pooler(databases, ...) is make_pooler for cases that leave nothing behind: those of the file
    that ask for the same configuration get the same pooler. Its log begins anew with each case."""
    def get(databases=None, **more):
        key = repr((databases, more))
        pooler = poolers_of_file.get(key)
        if pooler is None:
            if len(poolers_of_file) == SHARED_MOST:
                end(poolers_of_file.pop(next(iter(poolers_of_file))))
            pooler = poolers_of_file[key] = Pooler(binary, databases, **more).start()
        else:
            pooler.begin_case()
        return pooler

    return get


@pytest.fixture
def stage(make_pooler, binary):
    """stage(path, real, secrets) returns a documents.Stage, for the steps of this document."""
    made = []

    def make(path, real, secrets):
        made.append(documents.Stage(make_pooler, binary, path, real, secrets))
        return made[-1]

    yield make
    try:
        for one in made:
            for pooler in one.poolers.values():
                pooler.stop()
    finally:
        for one in made:
            one.remove()


@pytest.fixture
def pooler(make_pooler, pg):
    """The usual pooler: one database `db`, trust authentication, transaction mode."""
    return make_pooler({"db": pg.conn()}, settings={"pool_mode": "transaction"})


@pytest.fixture
def fake():
    """fake(script) returns a scripted server; host= and port= set its address."""
    made = []

    def make(script=fakeserver.polite, **where):
        server = fakeserver.FakeServer(script, **where)
        made.append(server)
        return server

    yield make
    for server in made:
        server.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Adds the last log lines of the poolers to the report of a failed test."""
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" and report.failed:
        report.sections += [("log of the pooler", p.log()[-3000:]) for p in poolers_of(item)]


def poolers_of(item):
    make = item.funcargs.get("make_pooler")
    return list(item.funcargs.get("poolers_of_file", {}).values()) + (
        make.__closure__ and [p for c in make.__closure__ if isinstance(c.cell_contents, list)
                              for p in c.cell_contents] if make else [])
