import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Database } from '../db/database.ts'
import type { DatabaseId } from '../lib/ids.ts'
import type { Activity, LocalInstances } from './drivers/driver.ts'
import { recordActivity } from './usage-sql.ts'

const everyMs = 10_000
/** A database that is so busy that it does not answer in this time shows no statistics. */
const readMsMax = 5_000

/**
 * Writes down how large the databases of this node are and how many connections they have, so that the server of another node can
 * show it. One after the other: reading one takes about 10 ms.
 */
export async function watchActivity(deps: {
  db: Database
  node: string
  instances: LocalInstances
  signal: AbortSignal
  log: Logger
}): Promise<void> {
  const { db, node, instances, signal, log } = deps

  async function read(id: DatabaseId): Promise<(Activity & { id: DatabaseId }) | null> {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(readMsMax)])
    try {
      return { id, ...(await instances.activity(id, { signal: limited })) }
    } catch (err) {
      // It may have been stopped meanwhile.
      log.debug({ err, databaseId: id }, 'activity.not_read')
      return null
    }
  }

  async function readAll(): Promise<void> {
    const found: (Activity & { id: DatabaseId })[] = []
    for (const id of await instances.existing()) {
      if (signal.aborted) return
      const activity = instances.isRunning(id) ? await read(id) : null
      if (activity !== null) found.push(activity)
    }
    if (found.length > 0) await recordActivity(db, node, found)
  }

  while (!signal.aborted) {
    await readAll().catch((err) => log.warn({ err }, 'activity.not_recorded'))
    await sleep(everyMs, undefined, { signal, ref: false }).catch(() => {})
  }
}
