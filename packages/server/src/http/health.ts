import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Database } from '../db/database.ts'
import { unavailable } from './problems.ts'

/** How long the database may take to say that it is there. Whoever waits longer is not ready to serve anybody. */
const answerMsMax = 3_000

/** Alive: the process answers. Ready: the database does too, on every pool that requests need, and takes what is written. */
export function addHealthRoutes(app: FastifyInstance, deps: { pools: readonly Database[] }): void {
  app.get('/healthz', async () => ({ status: 'ok' }))
  app.get('/readyz', async () => {
    try {
      const answers = Promise.all(deps.pools.map(checkWritable))
      answers.catch(() => {})
      await Promise.race([answers, late()])
    } catch (error) {
      throw unavailable(`not ready: ${error}`, error)
    }
    return { status: 'ok' }
  })
}

/** One that only reads is a standby, or was made one: nothing can be created there, and nothing delivered. */
async function checkWritable(db: Database): Promise<void> {
  const [row] = await db<{ only: string }[]>`select current_setting('transaction_read_only') as only`
  if (row!.only === 'on') throw new Error('the database is read-only')
}

async function late(): Promise<never> {
  await sleep(answerMsMax, undefined, { ref: false })
  throw new Error(`the database has not answered for ${answerMsMax / 1_000} seconds`)
}
