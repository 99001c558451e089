"""PostgreSQL's own regression tests through the pooler: what passes without one passes with it. `make check`
runs one of the ways at each commit, and `make regress` all."""

import os

import pytest

import pg_regress
import toolchain

# A way through the pooler, and the tests that fail in it, with the reason.  These lists may only
# become shorter: a test that passes is taken off.
TRANSACTION = {"pool_mode": "transaction", "session_state": "keep", "max_pinned_servers": pg_regress.SIDE_BY_SIDE}
IN_TRANSACTION_MODE = {
    "constraints": "currval() in a later transaction is not kept",
    "sequence": "currval() and lastval() in a later transaction are not kept",
    "guc": "a server that another client has used has loaded PL/pgSQL already",
    "temp": "a server that another client has used has its temporary schema already",
    "triggers": "functions in C keep what they know in the server process, which others use next",
    "stats": "what a transaction has done is counted by the server of that moment",
}
WAYS = {
    "session": ({"pool_mode": "session"}, {
        "guc": "a server that another client has used has loaded PL/pgSQL already",
        "temp": "a server that another client has used has its temporary schema already",
        "stats": "a client that logs in is no new session of the database",
    }),
    "transaction": (TRANSACTION, IN_TRANSACTION_MODE),
    "saving": ({**TRANSACTION, "prepare_unnamed": 1, "defer_begin": 1}, IN_TRANSACTION_MODE),
}
# Most tests make temporary tables, which keep a server each: as many as run side by side, and one.
SERVERS = pg_regress.SIDE_BY_SIDE + 1


def run_tests(cluster, port):
    cluster.do("drop database if exists regression with (force)")
    run = pg_regress.Run(cluster, port)
    try:
        output, differences = run()
    except toolchain.Missing as missing:
        pytest.skip(str(missing))
    assert len(run.results) > 180, output[-3000:]
    return run, output, differences


@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", os.environ.get("REGRESS_WAYS", "transaction").split())
def test_what_passes_without_a_pooler_passes_with_it(own_cluster, make_pooler, way):
    if way == "straight":
        run, output, differences = run_tests(own_cluster, own_cluster.port)
        print("fail straight: %s" % sorted(run.failed()))
        assert not run.failed() or not pg_regress.are_installed(own_cluster.bindir), (
            "%s\n%s" % (output[-6000:], differences[:20000]))
        return
    settings, known = WAYS[way]
    pooler = make_pooler(
        {"*": "host=127.0.0.1 port=%d auth_user=owner" % own_cluster.port},
        settings={"default_pool_size": SERVERS, "max_prepared_statements": 100,
                  "auth_query": "select rolname, '' from pg_roles where rolname = $1", **settings})
    run, output, differences = run_tests(own_cluster, pooler.port)
    failed = run.failed() - set(known)
    # Those of another minor version fail without a pooler, too.
    if failed and not pg_regress.are_installed(own_cluster.bindir):
        failed -= run_tests(own_cluster, own_cluster.port)[0].failed()
    print("%d of %d pass, those that fail: %s" % (
        len(run.results) - len(run.failed()), len(run.results), sorted(run.failed())))
    assert not failed, "%s\n%s\n%s" % (sorted(failed), output[-6000:], differences[:20000])
