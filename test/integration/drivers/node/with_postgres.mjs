// postgres.js: named statements sent in pipelines, unnamed ones, cursors, COPY, cancel.
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import postgres from 'postgres'
import { TO, WORKERS, STATEMENTS, same, ok, fails, pause, settled, concurrently, run } from './expect.mjs'

const WAYS = { default: {}, unprepared: { prepare: false } }

const connect = more => postgres({ ...TO, max: 1, onnotice: () => {}, ...more })

async function types (sql) {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n))
  const when = new Date('2024-02-29T23:59:59.123Z')
  const text = "it's \\ $1 ž \u{1f418}\n"
  const [row] = await sql`select ${-2147483648}::int4 as i, ${'9223372036854775807'}::int8 as l,
    ${0.1}::float8 as f, ${true}::bool as b, ${'12345678901234567890.000123'}::numeric as n,
    ${text}::text as t, ${''}::text as e, ${null}::text as o, ${bytes}::bytea as y,
    ${when}::timestamptz as w, ${[1, -2, 3]}::int4[] as a, ${sql.json({ k: [1, 'two'] })}::jsonb as j,
    ${'glad'}::mood as m`
  same('types', { ...row }, {
    i: -2147483648, l: '9223372036854775807', f: 0.1, b: true, n: '12345678901234567890.000123',
    t: text, e: '', o: null, y: bytes, w: when, a: [1, -2, 3], j: { k: [1, 'two'] }, m: 'glad',
  })
}

async function repeated (sql, worker) {
  for (let turn = 0; turn < 4; turn++) {
    await sql.begin(async tx => {
      for (let k = 0; k < STATEMENTS; k++) {
        const mine = k % 2 ? worker : 0
        const rows = await tx.unsafe(`select $1::int * ${k} + ${mine} as n, $2::text as t`, [turn, 'w' + worker], { prepare: true })
        same('statement', [...rows], [{ n: turn * k + mine, t: 'w' + worker }])
      }
      if (turn % 2) throw new Error('back')
    }).catch(e => { if (e.message !== 'back') throw e })
  }
}

async function transfers (sql, worker) {
  for (let turn = 0; turn < 9; turn++) {
    await sql.begin(async tx => {
      await tx`update account set balance = balance - 7 where id = ${1 + turn}`
      await tx.savepoint(sp => sp`update account set balance = balance + 7 where id = ${2 + turn}`)
      if (turn % 3 === 0) throw new Error('back')
      await tx`insert into event values (${worker}, ${turn}, ${'postgres'})`
    }).catch(e => { if (e.message !== 'back') throw e })
  }
}

async function errors (sql, worker) {
  for (let turn = 0; turn < 2; turn++) {
    await fails('22012', sql`select 1/${0}::int`)
    await fails('42P01', sql`select * from nowhere where a = ${1}`)
    await fails('42601', sql`selec ${1}`)
    await fails('23505', sql`insert into account values (1, ${1})`)
    await fails('22012', sql.begin(async tx => { await tx`select ${1}::int`; await tx`select 1/${0}::int` }))
    await fails('22012', sql`select 1; select 1/0; select 2`.simple())
    same('after an error', (await sql`select ${worker}::int as n`)[0].n, worker)
  }
  const name = sql('late_' + worker)
  await fails('42P01', sql`select n from ${name} where n > ${0}`)
  await sql`create table ${name} as select 1 as n`
  same('now there', (await sql`select n from ${name} where n > ${0}`)[0].n, 1)
  await sql`drop table ${name}`
}

// The queries, some of which fail, are sent before the first answer arrives.
async function together (sql, worker) {
  const got = await Promise.all(Array.from({ length: 80 }, (_, n) =>
    sql.unsafe(`select $1::int + ${n % 7} as n`, [worker + n], { prepare: n % 3 > 0 })))
  same('together', got.map(r => r[0].n), Array.from({ length: 80 }, (_, n) => worker + n + n % 7))
  const mixed = await Promise.allSettled([sql`select ${1}::int as n`, sql`select 1/${0}::int as n`,
    sql`selec ${1}`, sql`select ${1}::int as n`, sql`select 1 as n`.simple(), sql`select ${2}::int as n`])
  same('mixed', mixed.map(m => m.status === 'fulfilled' ? m.value[0].n : m.reason.code),
    [1, '22012', '42601', 1, 1, 2])
  const both = await sql.begin(tx => [tx`select ${worker}::int as n`, tx`select ${worker + 1}::int as n`])
  same('pipelined transaction', both.map(r => r[0].n), [worker, worker + 1])
}

async function streams (sql, worker) {
  let total = 0
  await sql`select n from generate_series(1, ${500}::int) n`.cursor(70, rows => { for (const r of rows) total += r.n })
  same('cursor', total, 125250)
  same('large', (await sql`select ${'y'.repeat(1000000)}::text as t`)[0].t.length, 1000000)
  same('rows', (await sql`select generate_series(1, 20000)`).length, 20000)
  const lines = Array.from({ length: 2000 }, (_, n) => `${n}\tw${worker}\n`).join('')
  const name = sql('copied_' + worker)
  await sql`create table ${name} (n int, note text)`
  await pipeline(Readable.from([lines]), await sql`copy ${name} from stdin`.writable())
  let out = ''
  for await (const part of await sql`copy ${name} to stdout`.readable()) out += part
  same('copied', out, lines)
  await sql`drop table ${name}`
}

const worker = more => async number => {
  const sql = connect(more)
  await types(sql)
  for (const part of [repeated, transfers, errors, together, streams]) await part(sql, number)
  await sql.end()
}

async function cancelled () {
  const sql = connect()
  for (let turn = 0; turn < 3; turn++) {
    const query = sql`select pg_sleep(${30})`
    const refused = fails('57014', query)
    await pause(150)
    query.cancel()
    await refused
    same('after cancel', (await settled(() => sql`select ${turn}::int as n`))[0].n, turn)
  }
  await fails('57014', sql.begin(async tx => {
    await tx`set local statement_timeout = 100`
    await tx`select pg_sleep(${30})`
  }))
  await sql.end()
}

async function sums () {
  const sql = connect()
  const rows = await sql`select (select sum(balance)::int from account) as s, (select count(*)::int from event) as n`
  same('sums', [...rows], [{ s: 10000, n: 6 * WORKERS }])
  await sql`truncate event`
  await sql.end()
}

run(async () => {
  for (const [name, more] of Object.entries(WAYS)) {
    await concurrently(worker(more))
    await sums()
    ok('postgres ' + name)
  }
  await cancelled()
  ok('postgres cancel')
})
