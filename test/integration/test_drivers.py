"""Real drivers in several languages, with every way in which they send queries.

The programs are in drivers/. They check their own results, end with an error at the first
difference, and print a line `ok WHAT` for each part that was right."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

import certs
import postgres
import toolchain
import waiting
from pooler import settings_of_run

USER = "scram_user"

# name: (folder, command within it, the parts that must be right)
DRIVERS = {
    "psycopg": ("python", ["with_psycopg.py"],
                ["default", "prepared", "unprepared", "client", "asynchronous", "cancel",
                 "readings"]),
    "psycopg2": ("python", ["with_psycopg2.py"], ["default", "cancel"]),
    "asyncpg": ("python", ["with_asyncpg.py"],
                ["default", "small cache", "no cache", "pool", "cancel"]),
    "pg8000": ("python", ["with_pg8000.py"], ["default and prepared"]),
    "pg": ("node", ["node", "with_pg.mjs"],
           ["default", "prepared", "pipeline", "pool", "cancel", "readings"]),
    "postgres": ("node", ["node", "with_postgres.mjs"], ["default", "unprepared", "cancel"]),
    "pgx": ("go", ["bin/pgx"],
            ["cache statement", "cache describe", "describe exec", "exec", "simple protocol",
             "pipeline", "cancel", "readings"]),
    "lib-pq": ("go", ["bin/lib-pq"], ["default", "binary parameters", "cancel"]),
    "pgjdbc": ("java", ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "classes:lib/*",
                        "Pgjdbc"],
               ["default", "prepared", "binary", "unprepared", "savepoints", "simple",
                "cache everything", "cancel", "readings"]),
    "tokio-postgres": ("rust", ["target/debug/driver"], ["default", "unprepared", "cancel"]),
    "sqlx": ("sqlx", ["target/debug/with_sqlx"], ["default", "unnamed", "pool", "timeout"]),
}

SCHEMA = [
    "drop schema public cascade", "create schema public authorization %s" % USER,
    "create table account (id int primary key, balance bigint not null)",
    "insert into account select n, 1000 from generate_series(1, 10) n",
    "create table event (worker int, seq int, note text, primary key (worker, seq))",
    "create type mood as enum ('glad', 'sad')", "create type pair as (n int, t text)",
    "alter table account owner to %s" % USER, "alter table event owner to %s" % USER,
]

PLACES = {
    "session": {"pool_mode": "session", "default_pool_size": 8},
    "transaction": {"pool_mode": "transaction", "default_pool_size": 2,
                    "max_prepared_statements": 200},
    "transaction-2": {"pool_mode": "transaction", "default_pool_size": 2,
                      "max_prepared_statements": 2},
    "transaction-sql": {"pool_mode": "transaction", "default_pool_size": 2,
                        "max_prepared_statements": 3, "track_sql_prepare": 1},
    "saving": {"pool_mode": "transaction", "default_pool_size": 2, "max_prepared_statements": 200,
               "prepare_unnamed": 1, "defer_begin": 1},
    "tls": {"pool_mode": "transaction", "default_pool_size": 2, "max_prepared_statements": 200,
            "client_tls_sslmode": "prefer"},
}
# `make check` runs these tests twice, each time with some of the pool modes, and without those whose build takes long.
CHOSEN = os.environ.get("DRIVER_PLACES", " ".join(PLACES)).split()
for name in os.environ.get("DRIVERS_WITHOUT", "").split():
    del DRIVERS[name]
# What a driver does inside TLS is what it does in clear, so that one of both is enough there.
WITHOUT_TLS = {"tokio-postgres", "sqlx"}
ONLY = {"sqlx": {"transaction-2", "saving"}}
RUNS = [(driver, place) for driver in DRIVERS for place in CHOSEN
        if place in ONLY.get(driver, CHOSEN) and not (place == "tls" and driver in WITHOUT_TLS)
        and not (place == "transaction" and "tls" in CHOSEN and driver not in WITHOUT_TLS)]


def command_of(driver):
    """Returns (command, folder) to run the driver's program, and builds the program when
    necessary."""
    place, command, _ = DRIVERS[driver]
    if place == "python":
        if importlib.util.find_spec(driver) is None:
            raise toolchain.Missing("this Python has no %s" % driver)
        return [sys.executable, *command], os.path.join(toolchain.SOURCES, place)
    return command, toolchain.built(place)


@pytest.fixture(scope="session")
def drivers_db(cluster):
    cluster.do("create database drivers")
    return cluster


@pytest.fixture
def database(drivers_db):
    """A new database `drivers` with the tables that the programs expect."""
    drivers_db.do(*SCHEMA, database="drivers")
    return drivers_db


@pytest.fixture(scope="module")
def authority():
    folder = waiting.scratch("certs")
    made = certs.Authority(folder)
    made.server = made.issue("server", "localhost", ["localhost"])
    yield made
    waiting.discard(folder)


@pytest.fixture
def environment(database, authority):
    """environment(pooler) returns the variables with which a program connects to the pooler, or
    with None to PostgreSQL itself.

    SAME_BACKEND tells a program that it keeps its server connection between queries."""
    def make(pooler):
        env = dict(os.environ, PGUSER=USER, PGPASSWORD=postgres.USERS[USER][0], PGSSLMODE="disable",
                   PGHOST=database.host, PGPORT=str(database.port), PGDATABASE="drivers",
                   PYTHONDONTWRITEBYTECODE="1", SAME_BACKEND="1")
        if pooler:
            env.update(PGHOST=pooler.host, PGPORT=str(pooler.port), PGDATABASE="db")
        if pooler and pooler.settings["pool_mode"] != "session":
            del env["SAME_BACKEND"]
        if pooler and "client_tls_sslmode" in pooler.settings:
            env.update(PGHOST="localhost", PGSSLMODE="verify-full", PGSSLROOTCERT=authority.file)
        return env
    return make


def run(command, folder, env):
    """Returns (whether the program succeeded, its output)."""
    try:
        done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    except subprocess.TimeoutExpired as late:
        return False, (late.stdout or b"").decode(errors="replace") + "\nstill running after 300 s\n"
    return done.returncode == 0, done.stdout.decode(errors="replace")


@pytest.mark.timeout(500)
@pytest.mark.parametrize("driver, place", RUNS)
def test_driver(make_pooler, database, environment, authority, driver, place):
    try:
        command, folder = command_of(driver)
    except toolchain.Missing as missing:
        pytest.skip("%s: %s" % (driver, missing))
    settings = PLACES[place]
    pooler = make_pooler({"db": database.conn("drivers")},
                         settings=dict(settings, auth_type="scram-sha-256",
                                       client_tls_cert_file=authority.server.cert_file,
                                       client_tls_key_file=authority.server.key_file,
                                       ignore_startup_parameters="extra_float_digits"))
    good, said = run(command, folder, environment(pooler))
    if not good:
        database.do(*SCHEMA, database="drivers")
        direct, _ = run(command, folder, environment(None))
        pytest.fail("%s (without the pooler it ends %s)" % (said[-4000:], "well" if direct else "so too"),
                    pytrace=False)
    lines = [line for line in said.splitlines() if line.startswith("ok ")]
    assert lines == ["ok %s %s" % (driver, what) for what in DRIVERS[driver][2]]
    look_after(pooler, settings["default_pool_size"])


def look_after(pooler, size):
    """Checks that all server connections are back in the pool and that none was closed with an
    error. With several workers another one may be open when one is closed for what its client left
    behind."""
    if "client_tls_sslmode" in pooler.settings:
        attempts = re.findall("login attempt: db=db .* tls=(\\S+)", pooler.log())
        assert attempts and "no" not in attempts
    row = pooler.wait_pool(user=USER, cl_active=0, cl_waiting=0, sv_active=0, sv_used=0, sv_tested=0)
    assert row["sv_idle"] <= size, row
    if settings_of_run().get("workers", "1") != "1":
        size += pooler.log().count("client disconnect while server was not ready")
    assert 1 <= pooler.log().count("new connection to server") <= size, pooler.log()[-3000:]
