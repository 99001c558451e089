// For the benchmark: clients that send one text with new values for as long as they are told.
//   node bench_pg.mjs CLIENTS SECONDS TEXT MOST...
// MOST is the highest value of each parameter. Prints `begun` when all clients are connected, and at
// the end the number of queries, the seconds, and the 99th percentile of their times in milliseconds.
import pg from 'pg'
import { TO, run } from './expect.mjs'

const [count, seconds, text, ...most] = process.argv.slice(2)
const values = () => most.map(m => 1 + Math.floor(Math.random() * Number(m)))

async function work (client, until, took) {
  for (let now = performance.now(); now < until;) {
    const begun = now
    await client.query(text, values())
    now = performance.now()
    took.push(now - begun)
  }
}

run(async () => {
  const clients = Array.from({ length: Number(count) }, () => new pg.Client(TO))
  await Promise.all(clients.map(client => client.connect()))
  await Promise.all(clients.map(client => work(client, performance.now() + 200, [])))
  console.log('begun')
  const begun = performance.now()
  const took = []
  await Promise.all(clients.map(client => work(client, begun + seconds * 1000, took)))
  const spent = (performance.now() - begun) / 1000
  took.sort((a, b) => a - b)
  console.log(took.length, spent, took[Math.floor(took.length * 0.99)])
  await Promise.all(clients.map(client => client.end()))
})
