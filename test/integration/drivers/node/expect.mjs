// Shared by the JavaScript programs: server address, comparison, workers.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'

export const WORKERS = 6
export const STATEMENTS = 12
export const TO = {
  host: process.env.PGHOST, port: Number(process.env.PGPORT), user: process.env.PGUSER,
  password: process.env.PGPASSWORD, database: process.env.PGDATABASE,
  ssl: process.env.PGSSLROOTCERT ? { ca: readFileSync(process.env.PGSSLROOTCERT) } : false,
}

export const same = (what, got, wanted) => assert.deepEqual(got, wanted, what)
export const ok = what => console.log('ok ' + what)
export const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

export async function fails (state, promise) {
  let error
  try { await promise } catch (e) { error = e }
  if (!error) throw new Error('no error where ' + state + ' was expected')
  if (error.code !== state) throw error
}

// For use after a cancel whose end the driver did not await: PostgreSQL signals a backend and then
// its process group, so that the next query of the same backend may, rarely, be cancelled as well.
export async function settled (query) {
  for (;;) {
    try {
      return await query()
    } catch (e) {
      if (!process.env.SAME_BACKEND || e.code !== '57014') throw e
    }
  }
}

export const concurrently = work =>
  Promise.all(Array.from({ length: WORKERS }, (_, n) => work(n)))

// A program that hangs must not look like one that succeeded.
export function run (main) {
  let done = false
  process.on('exit', () => { if (!done) process.exitCode = process.exitCode || 3 })
  main().then(() => { done = true }, e => { console.error(e); process.exit(1) })
}
