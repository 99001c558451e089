"""psycopg2 with simple queries (the only kind it has), named cursors, COPY, cancel."""

import io
import threading
import time

import psycopg2
import psycopg2.errors
import psycopg2.extras

from expect import DATABASE, HOST, PORT, SECRET, STATEMENTS, USER, VALUES, WORKERS
from expect import Fails, concurrently, ok, same


def connect():
    return psycopg2.connect(host=HOST, port=PORT, user=USER, password=SECRET, dbname=DATABASE)


def one(conn, sql, args=None):
    with conn.cursor() as cursor:
        cursor.execute(sql, args)
        return cursor.fetchone()


def run(conn, sql, args=None):
    with conn.cursor() as cursor:
        cursor.execute(sql, args)


def types(conn):
    for kind, value in VALUES:
        got = one(conn, "select (%%s)::%s" % kind, (value,))[0]
        same(kind, bytes(got) if kind == "bytea" else got, value)
    conn.commit()


def repeated(conn, worker):
    for turn in range(4):
        for k in range(STATEMENTS):
            row = one(conn, "select %%s * %d, %%s" % k, (turn, "w%d" % worker))
            same("statement", row, (turn * k, "w%d" % worker))
        (conn.rollback if turn % 2 else conn.commit)()


def transfers(conn, worker):
    for turn in range(9):
        run(conn, "update account set balance = balance - 7 where id = %s", (1 + turn,))
        run(conn, "update account set balance = balance + 7 where id = %s", (2 + turn,))
        if turn % 3 == 0:
            conn.rollback()
            continue
        run(conn, "insert into event values (%s, %s, %s)", (worker, turn, "psycopg2"))
        conn.commit()


def errors(conn, worker):
    for sql, state in (("select 1/%s", "22012"), ("select * from nowhere where a = %s", "42P01"),
                       ("selec %s", "42601"), ("insert into account values (1, %s)", "23505")):
        with Fails(state):
            run(conn, sql, (0,))
        with Fails("25P02"):
            run(conn, "select 1")
        conn.rollback()
        same("after an error", one(conn, "select %s", (worker,)), (worker,))
        conn.commit()
    with Fails("22012"):
        run(conn, "select 1; select 2; select 1/0; select 3")
    conn.rollback()
    same("several at once", one(conn, "select 1; select 2; select 3"), (3,))
    conn.commit()


def batches(conn, worker):
    with conn.cursor() as cursor:
        rows = [(worker, n, "many") for n in range(100, 300)]
        psycopg2.extras.execute_values(cursor, "insert into event values %s", rows)
        psycopg2.extras.execute_batch(cursor, "delete from event where worker = %s and seq = %s",
                                      [(worker, n) for n in range(100, 200)])
        cursor.execute("select count(*) from event where worker = %s and seq >= 100", (worker,))
        same("batch", cursor.fetchone(), (100,))
    conn.rollback()
    with conn.cursor("named") as cursor:
        cursor.itersize = 70
        cursor.execute("select n, repeat('x', 100) from generate_series(1, %s) n", (500,))
        same("cursor", sum(n for n, _ in cursor), 125250)
    conn.commit()
    # A statement of SQL PREPARE lasts only until the transaction ends and the server connection is
    # released.
    run(conn, "prepare own_%d (int) as select $1 + 1" % worker)
    same("EXECUTE", one(conn, "execute own_%d (%d)" % (worker, worker)), (worker + 1,))
    run(conn, "deallocate own_%d" % worker)
    conn.commit()


def copies(conn, worker):
    run(conn, "create temp table t (n int, note text) on commit drop")
    text = "".join("%d\tw%d\n" % (n, worker) for n in range(2000))
    with conn.cursor() as cursor:
        cursor.copy_expert("copy t from stdin", io.StringIO(text))
        out = io.StringIO()
        cursor.copy_expert("copy t to stdout", out)
        same("copied", out.getvalue(), text)
    conn.commit()
    with conn.cursor() as cursor, Fails("22P02"):
        cursor.copy_expert("copy account from stdin", io.StringIO("x\ty\n"))
    conn.rollback()
    same("after COPY", one(conn, "select count(*) from account"), (10,))
    conn.commit()


def work(worker):
    conn = connect()
    try:
        types(conn)
        for part in (repeated, transfers, errors, batches, copies):
            part(conn, worker)
        conn.autocommit = True
        for turn in range(20):
            same("autocommit", one(conn, "select %s, %s", (worker, turn)), (worker, turn))
    finally:
        conn.close()


def timeouts():
    conn = connect()
    run(conn, "set local statement_timeout = 100")
    with Fails("57014"):
        run(conn, "select pg_sleep(30)")
    conn.rollback()
    for _ in range(3):
        timer = threading.Timer(0.15, conn.cancel)
        timer.start()
        began = time.monotonic()
        with Fails("57014"):
            run(conn, "select pg_sleep(30)")
        same("cancelled soon", time.monotonic() - began < 10, True)
        timer.join()
        conn.rollback()
        same("after cancel", one(conn, "select 3"), (3,))
        conn.commit()
    conn.close()


def main():
    psycopg2.extras.register_uuid()
    concurrently(work)
    conn = connect()
    row = one(conn, "select (select sum(balance)::int from account), (select count(*) from event)")
    same("sums", row, (10000, 6 * WORKERS))
    conn.close()
    ok("psycopg2 default")
    timeouts()
    ok("psycopg2 cancel")


main()
