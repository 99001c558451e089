"""The tests of drivers and frameworks through the pooler, in transaction mode with session_state=keep (`make suites`; suites.py):
what passes straight to PostgreSQL passes with it."""

import os

import pytest

import suites
import toolchain

# The tests that fail through the pooler, with the reason. A list may only become shorter.
KNOWN = {
    "psycopg2": {
        "TestConnectionInfo.test_backend_pid": "asks for the process id of the server, which is not that of the login",
        "CursorTests.test_external_close_async": "ends a session by the process id of the login",
        "ConnectionTests.test_pgconn_ptr":
            "calls the machine's libpq with an object of the driver's own, which fails without a pooler as well",
    },
    "asyncpg": {
        "TestCopyTo.test_copy_records_to_table_no_stmt_cache":
            "counts pg_prepared_statements, where the statements of other clients of the server are, too",
        "TestExecuteMany.test_executemany_server_failure_during_writes":
            "an error must come before 4 MB are sent, which depends on the load without a pooler as well",
        "TestPool.test_pool_config_persistence":
            "a connection that is lost while nobody waits for it is told, under load without a pooler as well",
        "TestPool.test_pool_min_size_restored_after_idle_connection_loss":
            "ends a session by the process id of the login",
        "TestPool.test_pool_remote_close": "ends the server of another session, which may be its own by now",
    },
    "django": {},
    "sqlalchemy": {},
    "lib-pq": {
        **{"pq.TestRuntimeParameters" + test: "PostgreSQL refuses a parameter of the startup packet at the first query, "
           "and the driver's Ping does not tell why" for test in ("", "/#00")},
        **{"pq.TestAuth/end_to_end/user=" + test: "the pooler of this test lets everybody in" for test in (
            "pqgomd5", "pqgoscram", "pqgomd5_password=wrong", "pqgopassword_password=wrong",
            "pqgoscram____password=wrong")},
    },
    "pgx": {
        **{"pgx/v5" + test: "ends a session by the process id of the login" for test in (
            ".TestFatalRxError", ".TestFatalTxError", "/pgconn.TestConnCheckConn", "/pgconn.TestConnPing",
            "/pgxpool.TestPoolAcquireChecksIdleConns", "/stdlib.TestCheckIdleConn")},
        "pgx/v5/pgconn.TestConnectProtocolVersion32": "a cancel key of 4 bytes before PostgreSQL 18: the pooler speaks 3.2",
        # pg_prepared_statements has the pooler's names, and what it keeps for other clients.
        **{"pgx/v5" + test: "reads pg_prepared_statements" for test in (
            ".TestPrepareHandlesTimeoutBetweenParseAndDescribe",
            ".TestPrepareWithDigestedNameHandlesTimeoutBetweenParseAndDescribe",
            "/stdlib.TestConnMultiplePrepareAndDeallocate",
            *("/stdlib.TestConnMultiplePrepareAndDeallocate/" + mode for mode in (
                "cache_describe", "cache_statement", "describe_exec", "exec", "simple_protocol")))},
    },
}


# psycopg2+saving is psycopg2 with the settings that save work of the database.
WAYS = {"": {}, "saving": {"prepare_unnamed": 1, "defer_begin": 1}}

# Those of `make suites`, which also tells what passes straight. `make check` asks that only where a test fails that
# is not listed, or fewer than these have run.
PSYCOPG2_TESTS = 740
WANTED = os.environ.get("SUITES", "").split()


@pytest.mark.timeout(2 * suites.SECONDS)
@pytest.mark.parametrize("name", WANTED or ["psycopg2"])
def test_what_passes_without_a_pooler_passes_with_it(own_cluster, make_pooler, name, tmp_path, record_property):
    title = name
    name, _, way = name.partition("+")
    pooler = make_pooler(
        {"*": "host=127.0.0.1 port=%d auth_user=owner" % own_cluster.port},
        settings={"pool_mode": "transaction", "session_state": "keep", "default_pool_size": 20, "max_pinned_servers": 19,
                  "max_client_conn": 500, "ignore_startup_parameters": "extra_float_digits, options",
                  "track_extra_parameters": "IntervalStyle, search_path, geqo, jit, client_min_messages",
                  **suites.SETTINGS.get(name, {}), **WAYS[way],
                  "auth_query": "select rolname, '' from pg_roles where rolname = $1"})
    # two-phase commit is part of some
    own_cluster.do("alter system set max_prepared_transactions = 10")
    own_cluster.restart()

    def run(port):
        own_cluster.do("drop database if exists suite with (force)", "create database suite")
        own_cluster.do(*suites.OBJECTS.get(name.partition("/")[0], ()), database="suite")
        return suites.results(name, port, str(tmp_path))

    known = set(KNOWN[name.partition("/")[0]])
    try:
        through, output = run(pooler.port)
        bad = {test for test, is_good in through.items() if not is_good}
        if not WANTED and len(through) >= PSYCOPG2_TESTS and bad <= known:
            record_property("figure", "%s: %d pass through the pooler, %d fail" % (title, len(through) - len(bad), len(bad)))
            return
        straight, _ = run(own_cluster.port)
    except toolchain.Missing as missing:
        pytest.skip(str(missing))
    passed = {test for test, is_good in straight.items() if is_good}
    assert len(passed) > 50, output[-3000:]
    failed = {test for test in passed if not through.get(test)}
    record_property("figure", "%s: %d pass straight, %d of them fail through the pooler" % (
        title, len(passed), len(failed)))
    assert failed <= known, "%s\n%s" % (sorted(failed), output[-15000:])
