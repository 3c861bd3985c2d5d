import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Database } from '../db/database.ts'
import type { StorageReport } from '../domain/storage.ts'
import { Fault } from '../kernel/faults.ts'
import { sendProblem, unavailable } from './problems.ts'

/** How long the database may take to answer; with a slower one the process is not ready. */
const answerMsMax = 3_000

/**
 * Alive: the process answers. Ready: it is not about to stop, and the database accepts writes, on every pool that requests use. A disk that is nearly full is reported and
 * still ready: without this process, keys could not be revoked either.
 */
export function addHealthRoutes(
  app: FastifyInstance,
  deps: {
    pools: readonly Database[]
    storage?: (() => StorageReport) | undefined
    draining?: AbortSignal | undefined
  },
): void {
  app.get('/healthz', async () => ({ status: 'ok' }))
  app.get('/readyz', async (_request, reply) => {
    if (deps.draining?.aborted) {
      // Sent and not thrown: it is no failure, and the log has none.
      sendProblem(reply, stopping())
      return reply
    }
    try {
      const answers = Promise.all(deps.pools.map(checkWritable))
      answers.catch(() => {})
      await Promise.race([answers, late()])
    } catch (error) {
      throw unavailable(`not ready: ${error}`, error)
    }
    const disk = deps.storage?.().disk
    if (!disk) return { status: 'ok' }
    return { status: 'ok', disk: { state: disk.level, free_bytes: disk.freeBytes, floor_bytes: disk.floorBytes } }
  })
}

const stopping = (): Fault =>
  new Fault('service.unavailable', {
    public: 'This process is about to stop. It still answers, and takes new connections for a few seconds.',
    headers: { 'retry-after': '5' },
  })

/** A read-only database is a standby: nothing can be created or delivered there. */
async function checkWritable(db: Database): Promise<void> {
  const [row] = await db<{ only: string }[]>`select current_setting('transaction_read_only') as only`
  if (row!.only === 'on') throw new Error('the database is read-only')
}

async function late(): Promise<never> {
  await sleep(answerMsMax, undefined, { ref: false })
  throw new Error(`the database has not answered for ${answerMsMax / 1_000} seconds`)
}
