"""Real clients: pgbench, psql, pg_dump, psycopg."""

import asyncio
import os
import re
import signal
import subprocess

import psycopg
import pytest

import programs
import waiting


@pytest.fixture(scope="session")
def bench(cluster):
    """A database `bench` with pgbench's tables, owned by trust_user."""
    cluster.do("create database bench owner trust_user")
    env = dict(os.environ, PGHOST=cluster.dir, PGPORT=str(cluster.port), PGUSER="trust_user")
    subprocess.run([cluster.program("pgbench"), "-i", "-q", "bench"], env=env, check=True,
                   capture_output=True)
    return cluster


@pytest.fixture
def through(make_pooler, bench):
    """through(mode, size) returns a pooler in front of `bench`."""
    def make(mode="transaction", size=10, **settings):
        return make_pooler({"db": bench.conn("bench", pool_size=size),
                            "fresh": bench.conn("fresh", pool_size=size)},
                           settings=dict({"max_client_conn": 800}, pool_mode=mode, **settings))
    return make


@pytest.mark.parametrize("mode, protocol", [
    ("transaction", "simple"), ("transaction", "extended"), ("session", "simple"),
    ("session", "extended"), ("session", "prepared"), ("statement", "simple"), ("statement", "extended")])
def test_select_only(through, bench, mode, protocol):
    pooler = through(mode, size=16 if mode == "session" else 4)
    count = programs.pgbench(pooler, bench, "-n", "-S", "-M", protocol, "-c", 16, "-j", 2, "-t", 60)
    assert count == 16 * 60


@pytest.mark.parametrize("mode, protocol", [("transaction", "simple"), ("transaction", "extended"),
                                            ("session", "prepared")])
def test_read_write(through, bench, mode, protocol):
    pooler = through(mode, size=8)
    count = programs.pgbench(pooler, bench, "-n", "-M", protocol, "-c", 8, "-j", 2, "-t", 30)
    assert count == 8 * 30


@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_new_connection_each_time(through, bench, protocol):
    pooler = through(size=4)
    assert programs.pgbench(pooler, bench, "-n", "-S", "-C", "-M", protocol, "-c", 8, "-j", 2,
                            "-t", 20) == 160
    assert int(pooler.show_one("LISTS", list="used_servers")["items"]) <= 4


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_initialize(through, bench, mode):
    pooler = through(mode)
    bench.do("drop database if exists fresh", "create database fresh owner trust_user")
    programs.run(pooler, bench.program("pgbench"), "-i", "-q", "-s", 2, "fresh")
    assert bench.value("select count(*) from pgbench_accounts", "fresh") == "200000"
    pooler.admin.query("KILL fresh")
    bench.do("drop database fresh with (force)")


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_pipeline_script(through, bench, mode):
    pooler = through(mode)
    script = pooler.write("pipeline.sql", "\n".join(
        ["\\startpipeline"] + ["select abalance from pgbench_accounts where aid = %d;" % n
                               for n in range(1, 8)]
        + ["begin;", "update pgbench_tellers set tbalance = 1 where tid = 1;", "commit;",
           "\\endpipeline", ""]))
    assert programs.pgbench(pooler, bench, "-n", "-M", "extended", "-f", script, "-c", 6, "-j", 2,
                            "-t", 30) == 180
    pooler.wait_pool(sv_active=0)


def test_600_clients_over_56_servers(through, bench):
    pooler = through(size=56)
    count = programs.pgbench(pooler, bench, "-n", "-S", "-c", 600, "-j", 2, "-t", 10)
    assert count == 6000
    assert pooler.pool()["sv_idle"] <= 56
    pooler.wait_pool(cl_active=0, cl_waiting=0, sv_active=0)


# psql


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_psql_describes(through, mode):
    pooler = through(mode)
    assert "pgbench_accounts" in programs.psql(pooler, "-c", "\\d")
    assert "abalance|integer" in programs.psql(pooler, "-c", "\\d pgbench_accounts")
    assert programs.psql(pooler, "-c", "\\l") and programs.psql(pooler, "-c", "\\du")


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_psql_copy_both_ways(through, mode):
    pooler = through(mode)
    out, back = pooler.path("out.csv"), pooler.path("back.csv")
    programs.psql(pooler, "-c", "\\copy pgbench_accounts to '%s' csv" % out)
    assert len(open(out).read().splitlines()) == 100000
    programs.psql(pooler, "-c", "create table copied_%s (like pgbench_accounts)" % mode,
                  "-c", "\\copy copied_%s from '%s' csv" % (mode, out),
                  "-c", "\\copy copied_%s to '%s' csv" % (mode, back),
                  "-c", "drop table copied_%s" % mode)
    assert open(out).read() == open(back).read()


def interrupted(pooler, sql, is_running):
    with programs.Program(["psql", "-XAtq", "-c", sql], pooler.env_for()) as psql:
        waiting.wait_for(is_running, "query is under way")
        psql.process.send_signal(signal.SIGINT)
        return psql.finish(15)


def test_interrupt_of_a_running_query(through, bench):
    pooler = through()
    _, out, err = interrupted(pooler, "select pg_sleep(40)",
                              lambda: bench.backends("query like '%sleep(40)%' and state='active'"))
    assert "canceling statement due to user request" in err
    pooler.wait_pool(sv_active=0)


def test_interrupt_of_a_queued_query(through):
    pooler = through(size=1)
    holder = pooler.connect()
    holder.query("begin")
    # A login may wait for a moment as well, but is not in this view.
    _, out, err = interrupted(pooler, "select 1",
                              lambda: "waiting" in [row["state"] for row in pooler.show("CLIENTS")])
    assert "ERROR" in err
    assert holder.value("select 1") == "1"
    pooler.wait_pool(cl_waiting=0)


# pg_dump


def test_dump_and_restore(through, bench):
    pooler = through("session")
    bench.do("drop database if exists fresh", "create database fresh owner trust_user")
    dump = pooler.path("dump")
    programs.run(pooler, bench.program("pg_dump"), "-Fc", "-f", dump, "db")
    programs.run(pooler, bench.program("pg_restore"), "-d", "fresh", "-j", 2, dump)
    sql = "select count(*) || ' ' || sum(aid) from pgbench_accounts"
    assert bench.value(sql, "fresh") == bench.value(sql, "bench")
    pooler.admin.query("KILL fresh")
    bench.do("drop database fresh with (force)")


# psycopg


def dsn(pooler):
    return "host=%s port=%d user=trust_user dbname=db sslmode=disable gssencmode=disable" % (
        pooler.host, pooler.port)


@pytest.mark.parametrize("mode, threshold", [("session", 0), ("session", 5), ("transaction", None)])
def test_psycopg(through, mode, threshold):
    pooler = through(mode, size=2)
    with psycopg.connect(dsn(pooler), prepare_threshold=threshold) as conn:
        for number in range(20):
            assert conn.execute("select %s::int", (number,)).fetchone() == (number,)
            conn.commit()
        with conn.cursor() as cursor:
            cursor.execute("create temp table t (n int) on commit drop")
            with cursor.copy("copy t from stdin") as copy:
                for number in range(1000):
                    copy.write_row((number,))
            cursor.execute("select count(*) from t")
            assert cursor.fetchone() == (1000,)
            with cursor.copy("copy t to stdout") as copy:
                assert len(list(copy.rows())) == 1000
        with pytest.raises(psycopg.errors.DivisionByZero):
            conn.execute("select 1/0")
        conn.rollback()
        with conn.cursor(name="server_side") as cursor:
            cursor.execute("select generate_series(1, 500)")
            assert len(cursor.fetchall()) == 500
    pooler.wait_pool(sv_active=0)


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_psycopg_pipeline(through, mode):
    pooler = through(mode, size=1)
    with psycopg.connect(dsn(pooler), prepare_threshold=None, autocommit=True) as conn:
        with conn.pipeline() as pipeline:
            cursors = [conn.execute("select %s::int", (n,)) for n in range(50)]
            pipeline.sync()
            assert [c.fetchone()[0] for c in cursors] == list(range(50))
        with pytest.raises(psycopg.errors.UndefinedColumn):
            with conn.pipeline():
                conn.execute("select 1")
                conn.execute("select nonsense")
                conn.execute("select 2")
        assert conn.execute("select 3").fetchone() == (3,)


def test_psycopg_async(through):
    pooler = through(size=3)

    async def one(number):
        async with await psycopg.AsyncConnection.connect(dsn(pooler), prepare_threshold=None) as conn:
            for turn in range(10):
                cursor = await conn.execute("select %s::int", (number * 100 + turn,))
                assert await cursor.fetchone() == (number * 100 + turn,)
                await conn.commit()

    async def everyone():
        await asyncio.gather(*(one(n) for n in range(20)))

    asyncio.run(everyone())
    assert pooler.pool()["sv_idle"] <= 3


def test_psycopg_cancel(through, bench):
    import threading
    pooler = through()
    with psycopg.connect(dsn(pooler), prepare_threshold=None) as conn:
        def cancel():
            waiting.wait_for(lambda: bench.backends(
                "query like '%sleep(41)%' and state='active'"), "runs")
            conn.cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            conn.execute("select pg_sleep(41)")
        thread.join(10)


def test_psql_meta_connection(through):
    r"""\c inside psql logs in again, and \conninfo shows the right connection."""
    pooler = through()
    out = programs.psql(pooler, "-c", "\\c db", "-c", "\\conninfo")
    assert re.search(r'database "db".*port "%d"' % pooler.port, out)
