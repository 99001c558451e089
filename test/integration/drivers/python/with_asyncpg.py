"""asyncpg with cached, explicit and no prepared statements, pools, executemany, cursors, COPY,
cancel."""

import asyncio
import io

import asyncpg

from expect import DATABASE, HOST, PORT, SECRET, STATEMENTS, USER, VALUES, WORKERS
from expect import Fails, ok, same

TO = dict(host=HOST, port=PORT, user=USER, password=SECRET, database=DATABASE)
WAYS = {"default": {}, "small cache": {"statement_cache_size": 3},
        "no cache": {"statement_cache_size": 0}}


async def types(conn):
    for kind, value in VALUES:
        same(kind, await conn.fetchval("select $1::%s" % kind, value), value)
    same("enum", await conn.fetchval("select $1::mood", "glad"), "glad")
    row = await conn.fetchrow("select row(1, 'a')::pair as p, array['sad']::mood[] as m")
    same("composite", (tuple(row["p"]), row["m"]), ((1, "a"), ["sad"]))


async def repeated(conn, worker):
    for turn in range(4):
        transaction = conn.transaction()
        await transaction.start()
        for k in range(STATEMENTS):
            mine = worker if k % 2 else 0
            row = await conn.fetchrow("select $1::int * %d + %d, $2::text" % (k, mine),
                                      turn, "w%d" % worker)
            same("statement", tuple(row), (turn * k + mine, "w%d" % worker))
        await (transaction.rollback if turn % 2 else transaction.commit)()
    held = [await conn.prepare("select $1::int + %d" % n) for n in range(6)]
    for turn in range(5):
        for n, statement in enumerate(held):
            same("prepared", await statement.fetchval(turn + worker), turn + worker + n)
    same("attributes", held[0].get_attributes()[0].type.name, "int4")


async def transfers(conn, worker):
    for turn in range(9):
        try:
            async with conn.transaction():
                await conn.execute("update account set balance = balance - 7 where id = $1", 1 + turn)
                async with conn.transaction():
                    await conn.execute("update account set balance = balance + 7 where id = $1",
                                       2 + turn)
                if turn % 3 == 0:
                    raise KeyError("back")
                await conn.execute("insert into event values ($1, $2, $3)", worker, turn, "asyncpg")
        except KeyError:
            continue


async def errors(conn, worker):
    for sql, state in (("select 1/$1::int", "22012"), ("select * from nowhere where a = $1", "42P01"),
                       ("selec $1", "42601"), ("insert into account values (1, $1)", "23505")):
        for _ in range(2):
            with Fails(state):
                await conn.fetch(sql, 0)
            same("after an error", await conn.fetchval("select $1::int", worker), worker)
    with Fails("22012"):
        async with conn.transaction():
            await conn.fetchval("select $1::int", 1)
            await conn.fetchval("select 1/$1::int", 0)
    with Fails("22012"):
        await conn.execute("select 1; select 1/0; select 2")
    name = "late_%d" % worker
    with Fails("42P01"):
        await conn.fetch("select n from %s where n > $1" % name, 0)
    await conn.execute("create table %s as select 1 as n" % name)
    same("now there", await conn.fetchval("select n from %s where n > $1" % name, 0), 1)
    await conn.execute("drop table %s" % name)


async def batches(conn, worker):
    rows = [(worker, n, "many") for n in range(100, 400)]
    await conn.executemany("insert into event values ($1, $2, $3)", rows)
    same("executemany", await conn.fetchval(
        "select count(*) from event where worker = $1 and seq >= 100", worker), 300)
    with Fails("22012"):
        await conn.executemany("select 1/$1::int", [(1,), (0,), (1,)])
    got = await conn.fetchmany("delete from event where worker = $1 and seq = $2 returning seq",
                               [(worker, n) for n in range(100, 400)])
    same("fetchmany", [r[0] for r in got], list(range(100, 400)))
    async with conn.transaction():
        total = 0
        async for row in conn.cursor("select n, repeat('x', 100) from generate_series(1, $1::int) n",
                                     500, prefetch=70):
            total += row[0]
        same("cursor", total, 125250)
    same("large", await conn.fetchval("select $1::text", "y" * 1000000), "y" * 1000000)
    same("rows", len(await conn.fetch("select generate_series(1, 20000)")), 20000)


async def copies(conn, worker):
    rows = [(n, "tab\t%d" % worker) for n in range(2000)]
    name = "copied_%d" % worker
    await conn.execute("create table %s (n int, note text)" % name)
    same("COPY in", await conn.copy_records_to_table(name, records=rows), "COPY 2000")
    out = io.BytesIO()
    await conn.copy_from_query("select n from %s where n < $1" % name, 100, output=out)
    same("COPY out", out.getvalue(), b"".join(b"%d\n" % n for n in range(100)))
    same("copied", [tuple(r) for r in await conn.fetch("select * from %s order by n" % name)], rows)
    await conn.execute("drop table %s" % name)
    with Fails("22P02"):
        await conn.copy_to_table("account", source=io.BytesIO(b"x\ty\n"))
    same("after COPY", await conn.fetchval("select count(*) from account"), 10)


async def work(worker, how):
    conn = await asyncpg.connect(**TO, **how)
    try:
        await types(conn)
        for part in (repeated, transfers, errors, batches, copies):
            await part(conn, worker)
    finally:
        await conn.close()


async def timeouts():
    conn = await asyncpg.connect(**TO)
    for turn in range(3):
        try:
            await conn.fetchval("select pg_sleep($1)", 30, timeout=0.15)
            raise AssertionError("no timeout")
        except asyncio.TimeoutError:
            same("after timeout", await conn.fetchval("select $1::int", turn), turn)
        task = asyncio.ensure_future(conn.fetchval("select pg_sleep($1)", 30))
        await asyncio.sleep(0.1)
        task.cancel()
        try:
            await task
            raise AssertionError("not cancelled")
        except asyncio.CancelledError:
            same("after cancel", await conn.fetchval("select $1::int", turn), turn)
    with Fails("57014"):
        async with conn.transaction():
            await conn.execute("set local statement_timeout = 100")
            await conn.fetchval("select pg_sleep($1)", 30)
    await conn.close()


async def pooled():
    """Uses the driver's pool, which runs its own reset query whenever a connection is returned."""
    async with asyncpg.create_pool(**TO, min_size=2, max_size=4) as pool:
        async def one(n):
            async with pool.acquire() as conn, conn.transaction():
                same("pooled", await conn.fetchval("select $1::int * 2", n), n * 2)

        await asyncio.gather(*(one(n) for n in range(40)))


async def main():
    for way, how in WAYS.items():
        await asyncio.gather(*(work(n, how) for n in range(WORKERS)))
        conn = await asyncpg.connect(**TO)
        row = await conn.fetchrow("select (select sum(balance) from account), "
                                  "(select count(*) from event)")
        same("sums", tuple(row), (10000, 6 * WORKERS))
        await conn.execute("truncate event")
        await conn.close()
        ok("asyncpg " + way)
    await pooled()
    ok("asyncpg pool")
    await timeouts()
    ok("asyncpg cancel")


asyncio.run(main())
