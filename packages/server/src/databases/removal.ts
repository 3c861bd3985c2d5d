import type { Database, PublishingTransaction } from '../db/database.ts'
import type { JobQueue } from '../jobs/queue.ts'
import { type Handlers, traceStep } from '../jobs/worker.ts'
import type { DatabaseId, OrgId } from '../lib/ids.ts'
import type { KeyedQueue } from '../lib/keyed-queue.ts'
import { StepFailure } from '../lib/step-failure.ts'
import { databaseWasDeleted, moveDatabase } from './database.ts'
import type { DatabaseDriver } from './drivers/driver.ts'
import { lockDatabase, markDatabaseCleared } from './sql.ts'

/** Ends the backups of a deleted database and the restore into it. */
type FailBackupsOf = (tx: PublishingTransaction, orgId: OrgId, databaseId: DatabaseId, reason: string) => Promise<void>

/** Of a job that is repeated until it succeeds. */
export const neverFails = async (_job: unknown, reason: string) => {
  throw new Error(`a removal never fails for good: ${reason}`)
}

/** Removes a database. A job that runs for the database is aborted, and its outcome is failure. */
export function createRemoval(deps: {
  db: Database
  driver: DatabaseDriver
  node: string
  queue: Pick<JobQueue, 'enqueue'>
  databaseWork: KeyedQueue
  failBackupsOf: FailBackupsOf
}): Pick<Handlers, 'database.remove' | 'database.discard'> {
  return {
    'database.remove': {
      async run({ orgId, databaseId }, settle) {
        deps.databaseWork.abort(databaseId, new StepFailure(databaseWasDeleted, { permanent: true }))
        await deps.databaseWork.run(databaseId, async () => {
          await deps.driver.remove(databaseId)
          traceStep('remove.settling', databaseId)
          await settle(async (tx) => {
            const database = await lockDatabase(tx, orgId, databaseId)
            const next = database && moveDatabase(database.status, 'clear')
            if (next === null) return
            await markDatabaseCleared(tx, orgId, databaseId, next)
            const from = database!.moving_from
            if (from !== null && from !== deps.node)
              await deps.queue.enqueue(tx, { kind: 'database.discard', orgId, databaseId, node: from })
            await deps.failBackupsOf(tx, orgId, databaseId, databaseWasDeleted)
          })
          traceStep('remove.settled', databaseId)
        })
      },
      fail: neverFails,
    },

    'database.discard': {
      async run({ orgId, databaseId }, settle) {
        await deps.databaseWork.run(databaseId, async () => {
          const database = await deps.db.begin((tx) => lockDatabase(tx, orgId, databaseId))
          // It may have been placed here again, on the only node with room.
          if (database !== null && database.node !== deps.node) await deps.driver.remove(databaseId)
        })
        await settle(async () => {})
      },
      fail: neverFails,
    },
  }
}
