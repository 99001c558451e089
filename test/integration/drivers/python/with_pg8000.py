"""pg8000 with unnamed and explicit statements, the DB-API, COPY, timeouts. The driver has no
cancel."""

import io
import os
import ssl

import pg8000.dbapi
import pg8000.native

from expect import DATABASE, HOST, PORT, SECRET, STATEMENTS, USER, VALUES, WORKERS
from expect import Fails, concurrently, ok, same

AUTHORITY = os.environ.get("PGSSLROOTCERT")
TO = dict(host=HOST, port=PORT, user=USER, password=SECRET, database=DATABASE,
          ssl_context=AUTHORITY and ssl.create_default_context(cafile=AUTHORITY))


def types(conn):
    for kind, value in VALUES:
        same(kind, conn.run("select cast(:v as %s)" % kind, v=value), [[value]])


def repeated(conn, worker):
    for turn in range(4):
        conn.run("begin")
        for k in range(STATEMENTS):
            row = conn.run("select cast(:n as int) * %d, cast(:t as text)" % k,
                           n=turn, t="w%d" % worker)
            same("statement", row, [[turn * k, "w%d" % worker]])
        conn.run("rollback" if turn % 2 else "commit")
    held = [conn.prepare("select cast(:n as int) + %d" % n) for n in range(6)]
    for turn in range(5):
        for n, statement in enumerate(held):
            same("prepared", statement.run(n=turn + worker), [[turn + worker + n]])
        conn.run("begin")
        same("prepared", held[turn].run(n=worker), [[worker + turn]])
        conn.run("rollback")
    for statement in held:
        statement.close()


def transfers(conn, worker):
    for turn in range(9):
        conn.run("start transaction")
        conn.run("update account set balance = balance - 7 where id = :i", i=1 + turn)
        conn.run("update account set balance = balance + 7 where id = :i", i=2 + turn)
        if turn % 3 == 0:
            conn.run("rollback")
            continue
        conn.run("insert into event values (:w, :s, :n)", w=worker, s=turn, n="pg8000")
        conn.run("commit")


def errors(conn, worker):
    for sql, state in (("select 1/cast(:v as int)", "22012"),
                       ("select * from nowhere where a = :v", "42P01"),
                       ("selec :v", "42601"), ("insert into account values (1, :v)", "23505")):
        with Fails(state):
            conn.run(sql, v=0)
        same("after an error", conn.run("select cast(:v as int)", v=worker), [[worker]])
    with Fails("42P01"):
        conn.prepare("select * from nowhere where a = :v").run(v=1)
    conn.run("begin")
    with Fails("22012"):
        conn.run("select 1/cast(:v as int)", v=0)
    with Fails("25P02"):
        conn.run("select cast(:v as int)", v=0)
    conn.run("rollback")
    same("large", conn.run("select cast(:v as text)", v="y" * 1000000), [["y" * 1000000]])
    same("rows", len(conn.run("select generate_series(1, 5000)")), 5000)


def copies(conn, worker):
    text = "".join("%d\tw%d\n" % (n, worker) for n in range(2000))
    conn.run("begin")
    conn.run("create temp table t (n int, note text) on commit drop")
    conn.run("copy t from stdin", stream=io.StringIO(text))
    out = io.BytesIO()
    conn.run("copy t to stdout", stream=out)
    same("copied", out.getvalue().decode(), text)
    conn.run("commit")
    with Fails("22P02"):
        conn.run("copy account from stdin", stream=io.StringIO("x\ty\n"))
    same("after COPY", conn.run("select count(*) from account"), [[10]])
    conn.run("begin")
    conn.run("set local statement_timeout = 100")
    with Fails("57014"):
        conn.run("select pg_sleep(30)")
    conn.run("rollback")


def dbapi(worker):
    conn = pg8000.dbapi.connect(**TO)
    cursor = conn.cursor()
    for turn in range(10):
        cursor.execute("select cast(%s as int), cast(%s as int)", (worker, turn))
        same("dbapi", cursor.fetchall(), ([worker, turn],))
        (conn.rollback if turn % 2 else conn.commit)()
    cursor.executemany("insert into event values (%s, %s, %s)",
                       [(worker, n, "many") for n in range(100, 120)])
    conn.rollback()
    conn.close()


def work(worker):
    conn = pg8000.native.Connection(**TO)
    types(conn)
    for part in (repeated, transfers, errors, copies):
        part(conn, worker)
    conn.close()
    dbapi(worker)


def main():
    concurrently(work)
    conn = pg8000.native.Connection(**TO)
    same("sums", conn.run("select (select cast(sum(balance) as int) from account), "
                          "(select count(*) from event)"), [[10000, 6 * WORKERS]])
    conn.close()
    ok("pg8000 default and prepared")


main()
