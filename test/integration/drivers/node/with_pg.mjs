// node-postgres: unnamed and named statements, pipelining, cursors, COPY, a pool, cancel.
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import pg from 'pg'
import Cursor from 'pg-cursor'
import { from as copyFrom, to as copyTo } from 'pg-copy-streams'
import { TO, WORKERS, STATEMENTS, same, ok, fails, pause, concurrently, run } from './expect.mjs'

// How a query is sent: with the text alone, or with a separate statement name for every text.
const unnamed = (text, values) => ({ text, values })
function namer () {
  const names = new Map()
  return (text, values) => {
    if (!names.has(text)) names.set(text, 'statement ' + names.size)
    return { text, values, name: names.get(text) }
  }
}
const WAYS = {
  default: () => ({ ask: unnamed }),
  prepared: () => ({ ask: namer() }),
  pipeline: () => ({ ask: namer(), pipeline: true }),
}

const VALUES = [
  ['int4', -2147483648], ['int8', '9223372036854775807'], ['float8', 0.1], ['bool', true],
  ['numeric', '12345678901234567890.000123'], ['text', "it's \\ $1 ž \u{1f418}\n"], ['text', ''],
  ['text', null], ['bytea', Buffer.from(Array.from({ length: 256 }, (_, n) => n))],
  ['timestamptz', new Date('2024-02-29T23:59:59.123Z')], ['int4[]', [1, -2, 3]],
  ['text[]', ['a,b', 'c"d', '']], ['uuid', '01234567-89ab-cdef-0123-456789abcdef'],
]

async function connected (more = {}) {
  const client = new pg.Client({ ...TO, ...more })
  client.on('error', () => {})
  await client.connect()
  return client
}

async function types (one) {
  for (const [kind, value] of VALUES) same(kind, await one(`select $1::${kind} as v`, [value]), [[value]])
}

async function repeated (one, worker) {
  for (let turn = 0; turn < 4; turn++) {
    await one('begin')
    for (let k = 0; k < STATEMENTS; k++) {
      const mine = k % 2 ? worker : 0
      same('statement', await one(`select $1::int * ${k} + ${mine}, $2::text as t`, [turn, 'w' + worker]),
        [[turn * k + mine, 'w' + worker]])
    }
    await one(turn % 2 ? 'rollback' : 'commit')
  }
}

async function transfers (one, worker) {
  for (let turn = 0; turn < 9; turn++) {
    await one('begin')
    await one('update account set balance = balance - 7 where id = $1', [1 + turn])
    await one('update account set balance = balance + 7 where id = $1', [2 + turn])
    if (turn % 3 === 0) { await one('rollback'); continue }
    await one('insert into event values ($1, $2, $3)', [worker, turn, 'pg'])
    await one('commit')
  }
}

async function errors (one, worker) {
  const wrong = [['select 1/$1::int', '22012'], ['select * from nowhere where a = $1', '42P01'],
    ['selec $1', '42601'], ['insert into account values (1, $1)', '23505']]
  for (const [sql, state] of wrong) {
    await fails(state, one(sql, [0]))
    same('after an error', await one('select $1::int as a', [worker]), [[worker]])
    await one('begin')
    await fails(state, one(sql, [0]))
    await fails('25P02', one('select $1::int as a', [worker]))
    await one('rollback')
  }
  const name = 'late_' + worker
  await fails('42P01', one(`select n from ${name} where n > $1`, [0]))
  await one(`create table ${name} as select 1 as n`)
  same('now there', await one(`select n from ${name} where n > $1`, [0]), [[1]])
  await one(`drop table ${name}`)
  await fails('22012', one('select 1; select 1/0; select 2'))
}

async function large (one) {
  same('large', (await one('select $1::text as a', ['y'.repeat(1000000)]))[0][0].length, 1000000)
  same('rows', (await one('select generate_series(1, 20000)')).length, 20000)
}

// With `pipeline` all queries are sent before the first answer arrives, else one by one.
async function together (one, worker) {
  const answers = await Promise.all(Array.from({ length: 60 }, (_, n) =>
    one(`select $1::int + ${n % 7} as a`, [worker + n])))
  same('together', answers, Array.from({ length: 60 }, (_, n) => [[worker + n + n % 7]]))
  const mixed = await Promise.allSettled([one('select $1::int as a', [1]), one('select 1/$1::int as a', [0]),
    one('selec $1', [1]), one('select $1::int as a', [2])])
  same('mixed', mixed.map(m => m.status === 'fulfilled' ? m.value[0][0] : m.reason.code),
    [1, '22012', '42601', 2])
}

async function streams (client, worker) {
  await client.query('begin')
  const cursor = client.query(new Cursor('select n from generate_series(1, $1::int) n', [500]))
  let total = 0
  for (let rows; (rows = await cursor.read(70)).length;) total += rows.reduce((s, r) => s + r.n, 0)
  await cursor.close()
  same('cursor', total, 125250)
  await client.query('create temp table t (n int, note text) on commit drop')
  const lines = Array.from({ length: 2000 }, (_, n) => `${n}\tw${worker}\n`).join('')
  await pipeline(Readable.from([lines]), client.query(copyFrom('copy t from stdin')))
  let out = ''
  for await (const part of client.query(copyTo('copy t to stdout'))) out += part
  same('copied', out, lines)
  await client.query('commit')
  await fails('22P02', pipeline(Readable.from(['x\ty\n']), client.query(copyFrom('copy account from stdin'))))
  same('after COPY', (await client.query('select count(*)::int as n from account')).rows, [{ n: 10 }])
}

const worker = (way, name) => async number => {
  const { ask, ...more } = way()
  const client = await connected(more)
  const one = async (text, values) =>
    (await client.query({ ...(values ? ask(text, values) : { text }), rowMode: 'array' })).rows
  await types(one)
  for (const part of [repeated, transfers, errors, together, large]) await part(one, number)
  if (name !== 'pipeline') await streams(client, number)
  await client.end()
}

async function pooled () {
  const pool = new pg.Pool({ ...TO, max: 5 })
  const got = await Promise.all(Array.from({ length: 60 }, (_, n) =>
    pool.query({ name: 'double', text: 'select $1::int * 2 as n', values: [n] })))
  same('pool', got.map(r => r.rows[0].n), Array.from({ length: 60 }, (_, n) => n * 2))
  await pool.end()
}

async function cancelled () {
  const client = await connected()
  for (let turn = 0; turn < 3; turn++) {
    const query = new pg.Query('select pg_sleep(30)')
    const ended = new Promise((resolve, reject) => { query.on('error', reject); query.on('end', resolve) })
    client.query(query)
    const refused = fails('57014', ended)
    await pause(150)
    const canceller = new pg.Client(TO)
    const closed = once(canceller.connection, 'end')
    canceller.cancel(client, query)
    await refused
    await closed
    same('after cancel', (await client.query('select $1::int as n', [turn])).rows, [{ n: turn }])
  }
  await client.query('begin; set local statement_timeout = 100')
  await fails('57014', client.query('select pg_sleep($1)', [30]))
  await client.query('rollback')
  await client.end()
}

// Two clients prepare the same text, which their parameters give different meanings.
async function readings () {
  const text = `select extract(month from '01/02/2024'::date)::int as m,
    extract(hour from '2024-01-01'::timestamptz at time zone 'UTC')::int as h`
  const ways = [['ISO, MDY', 'UTC', { m: 1, h: 0 }], ['ISO, DMY', 'Asia/Tokyo', { m: 2, h: 15 }]]
  const clients = []
  for (const [style, zone] of ways) {
    const client = await connected()
    await client.query(`set datestyle = '${style}'`)
    await client.query(`set timezone = '${zone}'`)
    clients.push(client)
  }
  for (let turn = 0; turn < 3; turn++) {
    for (let n = 0; n < 2; n++) {
      same('reading', (await clients[n].query({ text, name: 'reading' })).rows, [ways[n][2]])
    }
  }
  for (const client of clients) await client.end()
}

async function sums () {
  const client = await connected()
  const { rows } = await client.query('select (select sum(balance)::int from account) as s, (select count(*)::int from event) as n')
  same('sums', rows, [{ s: 10000, n: 6 * WORKERS }])
  await client.query('truncate event')
  await client.end()
}

run(async () => {
  for (const [name, way] of Object.entries(WAYS)) {
    await concurrently(worker(way, name))
    await sums()
    ok('pg ' + name)
  }
  await pooled()
  ok('pg pool')
  await cancelled()
  ok('pg cancel')
  await readings()
  ok('pg readings')
})
