"""psycopg 3 with its default, always and never prepared statements, pipelines, cursors, COPY,
cancel."""

import asyncio
import threading

import psycopg

from expect import DATABASE, HOST, PORT, SECRET, STATEMENTS, USER, VALUES, WORKERS
from expect import Fails, concurrently, ok, same

TO = dict(host=HOST, port=PORT, user=USER, password=SECRET, dbname=DATABASE)
WAYS = {"default": {}, "prepared": {"prepare_threshold": 0},
        "unprepared": {"prepare_threshold": None},
        "client": {"cursor_factory": psycopg.ClientCursor}}


def types(conn, binary):
    for kind, value in VALUES:
        cursor = conn.execute("select (%%s)::%s" % kind, (value,), **binary)
        same(kind, cursor.fetchone(), (value,))
    conn.commit()


def repeated(conn, worker):
    for turn in range(4):
        for k in range(STATEMENTS):
            mine = worker if k % 2 else 0
            row = conn.execute("select %%s::int * %d + %d, %%s::text" % (k, mine),
                               (turn, "w%d" % worker)).fetchone()
            same("statement", row, (turn * k + mine, "w%d" % worker))
        (conn.rollback if turn % 2 else conn.commit)()


def transfers(conn, worker):
    for turn in range(9):
        low, high = 1 + turn % 9, 2 + turn % 9
        try:
            with conn.transaction():
                conn.execute("update account set balance = balance - 7 where id = %s", (low,))
                with conn.transaction():
                    conn.execute("update account set balance = balance + 7 where id = %s", (high,))
                if turn % 3 == 0:
                    raise KeyError("back")
                conn.execute("insert into event values (%s, %s, %s)", (worker, turn, "psycopg"))
        except KeyError:
            continue
    conn.commit()


def errors(conn, worker):
    for sql, state in (("select 1/%s", "22012"), ("select * from nowhere where a = %s", "42P01"),
                       ("selec %s", "42601"), ("insert into account values (1, %s)", "23505")):
        with Fails(state):
            conn.execute(sql, (0,))
        with Fails("25P02"):
            conn.execute("select %s::int", (1,))
        conn.rollback()
        same("after an error", conn.execute("select %s::int", (worker,)).fetchone(), (worker,))
        conn.commit()
    name = "late_%d" % worker
    with Fails("42P01"):
        conn.execute("select n from %s where n > %%s" % name, (0,))
    conn.rollback()
    conn.execute("create table %s as select 1 as n" % name)
    conn.commit()
    same("now there", conn.execute("select n from %s where n > %%s" % name, (0,)).fetchone(), (1,))
    conn.execute("drop table %s" % name)
    conn.commit()


def pipelines(conn, worker):
    with conn.pipeline():
        cursors = [conn.execute("select %s::int + %s::int", (n, worker)) for n in range(50)]
        same("pipeline", [c.fetchone()[0] for c in cursors], [n + worker for n in range(50)])
    conn.commit()
    with Fails("22012"), conn.pipeline() as pipeline:
        conn.execute("select %s::int", (1,))
        conn.execute("select 1 / %s::int", (0,))
        conn.execute("select %s::int", (2,))
        pipeline.sync()
    conn.rollback()
    with conn.pipeline() as pipeline:
        for turn in range(5):
            with conn.transaction():
                cursor = conn.execute("select %s::text", ("p%d" % turn,))
            pipeline.sync()
            same("pipelined transaction", cursor.fetchone(), ("p%d" % turn,))
    conn.cursor().executemany("insert into event values (%s, %s, %s)",
                              [(worker, n, "many") for n in range(100, 160)])
    same("executemany", conn.execute("select count(*) from event where worker = %s and seq >= 100",
                                     (worker,)).fetchone(), (60,))
    conn.rollback()


def cursors(conn):
    with conn.cursor(name="c") as cursor:
        cursor.itersize = 70
        cursor.execute("select n, repeat('x', 100) from generate_series(1, %s::int) n", (500,))
        same("cursor", sum(n for n, _ in cursor), 125250)
    conn.commit()
    same("large", conn.execute("select %s::text", ("y" * 1000000,)).fetchone(), ("y" * 1000000,))
    same("rows", len(conn.execute("select generate_series(1, 20000)").fetchall()), 20000)
    conn.commit()


def copies(conn, worker):
    conn.execute("create temp table t (n int, note text) on commit drop")
    cursor = conn.cursor()
    with cursor.copy("copy t from stdin") as copy:
        for n in range(2000):
            copy.write_row((n, "tab\t%d" % worker))
    with cursor.copy("copy t to stdout (format binary)") as copy:
        copy.set_types(["int4", "text"])
        same("copied", list(copy.rows()), [(n, "tab\t%d" % worker) for n in range(2000)])
    conn.commit()
    with Fails("22P02"), conn.cursor().copy("copy account from stdin") as copy:
        copy.write("x\ty\n")
    conn.rollback()
    try:
        with conn.cursor().copy("copy account from stdin") as copy:
            copy.write("11\t1\n")
            raise KeyError("given up")
    except KeyError:
        pass
    conn.rollback()
    same("after COPY", conn.execute("select count(*) from account").fetchone(), (10,))
    conn.commit()


def timeouts(conn):
    conn.execute("set local statement_timeout = 100")
    with Fails("57014"):
        conn.execute("select pg_sleep(%s)", (30,))
    conn.rollback()
    same("its end", conn.execute("show statement_timeout").fetchone(), ("0",))
    conn.commit()
    for _ in range(3):
        timer = threading.Timer(0.15, conn.cancel_safe)
        timer.start()
        with Fails("57014"):
            conn.execute("select pg_sleep(%s)", (30,))
        timer.join()
        conn.rollback()
        same("after cancel", conn.execute("select %s::int", (3,)).fetchone(), (3,))
        conn.commit()


def worker_of(how):
    def work(worker):
        with psycopg.connect(**TO, **how) as conn:
            conn.prepared_max = 5 + worker
            types(conn, {} if "cursor_factory" in how else {"binary": True})
            repeated(conn, worker)
            transfers(conn, worker)
            errors(conn, worker)
            if "cursor_factory" not in how:
                pipelines(conn, worker)
                cursors(conn)
            copies(conn, worker)
            same("state", conn.info.transaction_status, psycopg.pq.TransactionStatus.IDLE)
    return work


async def asynchronous():
    async def one(worker):
        async with await psycopg.AsyncConnection.connect(**TO, autocommit=True,
                                                         prepare_threshold=1) as conn:
            for turn in range(30):
                cursor = await conn.execute("select %s::int, %s::int", (worker, turn))
                same("async", await cursor.fetchone(), (worker, turn))

    await asyncio.gather(*(one(n) for n in range(WORKERS)))


def readings():
    """Two clients prepare the same text on one server connection, and their parameters give it
    different meanings."""
    sql = ("select extract(month from '01/02/2024'::date)::int, "
           "extract(hour from '2024-01-01'::timestamptz at time zone 'UTC')::int")
    with psycopg.connect(**TO, autocommit=True, prepare_threshold=0) as one, \
            psycopg.connect(**TO, autocommit=True, prepare_threshold=0) as two:
        for conn, style, zone in ((one, "ISO, MDY", "UTC"), (two, "ISO, DMY", "Asia/Tokyo")):
            conn.execute("set datestyle = '%s'" % style)
            conn.execute("set timezone = '%s'" % zone)
        for _ in range(3):
            same("first reading", one.execute(sql).fetchone(), (1, 0))
            same("second reading", two.execute(sql).fetchone(), (2, 15))


def main():
    for way, how in WAYS.items():
        concurrently(worker_of(how))
        with psycopg.connect(**TO, autocommit=True) as conn:
            row = conn.execute("select (select sum(balance) from account), "
                               "(select count(*) from event)").fetchone()
            same("sums", row, (10000, 6 * WORKERS))
            conn.execute("truncate event")
        ok("psycopg " + way)
    asyncio.run(asynchronous())
    ok("psycopg asynchronous")
    with psycopg.connect(**TO) as conn:
        timeouts(conn)
    ok("psycopg cancel")
    readings()
    ok("psycopg readings")


main()
