import type { Database, PublishingTransaction } from '../db/database.ts'
import { publish } from '../delivery/publish.ts'
import type { JobQueue } from '../jobs/queue.ts'
import { type Handlers, traceStep } from '../jobs/worker.ts'
import type { DatabaseId, OrgId } from '../lib/ids.ts'
import type { KeyedQueue } from '../lib/keyed-queue.ts'
import { StepFailure } from '../lib/step-failure.ts'
import { databaseWasDeleted, moveDatabase } from './database.ts'
import type { DatabaseDriver } from './drivers/driver.ts'
import { deadAfterSeconds, nodesWithRoom } from './node-sql.ts'
import { failDatabase } from './rules.ts'
import {
  countDatabasesOfNode,
  lockDatabase,
  lockNode,
  markDatabaseCleared,
  markDatabaseServing,
  placeDatabase,
} from './sql.ts'
import type { StorageMonitor } from './storage/monitor.ts'
import { startUsage } from './usage-sql.ts'

/** What the steps of jobs about databases and backups need. */
export type StepDeps = {
  db: Database
  driver: DatabaseDriver
  node: string
  queue: Pick<JobQueue, 'enqueue'>
  databaseWork: KeyedQueue
  storage: Pick<StorageMonitor, 'room'>
}

/** From a requested row to an instance that accepts connections, or to a failure with its reason. */
export function createProvisioning(deps: StepDeps): Pick<Handlers, 'database.place' | 'database.provision'> {
  const { db, driver } = deps

  return {
    'database.place': {
      async run({ orgId, databaseId }, settle) {
        traceStep('place.settling', databaseId)
        await settle(async (tx) => {
          const database = await lockDatabase(tx, orgId, databaseId)
          if (database?.status !== 'provisioning' || database.node !== null) return
          for (const { id: node, databases_max } of await nodesWithRoom(tx, deadAfterSeconds)) {
            await lockNode(tx, node)
            if ((await countDatabasesOfNode(tx, node)) >= databases_max) continue
            await placeDatabase(tx, orgId, databaseId, node)
            await deps.queue.enqueue(tx, { kind: 'database.provision', orgId, databaseId, node })
            return
          }
          throw new StepFailure('No node has room for it.')
        })
      },
      fail: ({ orgId, databaseId }, reason, settle) =>
        settle(async (tx) => {
          const database = await lockDatabase(tx, orgId, databaseId)
          // With a node it was placed after all, by a process that was slower than its heartbeat.
          if (database?.node === null) await failDatabase(tx, orgId, database, reason)
        }),
    },

    'database.provision': {
      run: ({ orgId, databaseId, node }, settle) =>
        deps.databaseWork.run(databaseId, async (signal) => {
          const database = await db.begin((tx) => lockDatabase(tx, orgId, databaseId))
          if (database?.status !== 'provisioning' || database.node !== node) return
          if (database.password_verifier === null) return
          traceStep('provision.creating', databaseId)
          const address = await driver.provision(databaseId, {
            orgId,
            passwordVerifier: database.password_verifier,
            signal: AbortSignal.any([signal, deps.storage.room()]),
          })
          traceStep('provision.settling', databaseId)
          await settle(async (tx) => {
            const current = await lockDatabase(tx, orgId, databaseId)
            // Deleted, or placed on another node because this one counted as dead: another job removes what was created.
            if (current?.node !== node) return
            const next = moveDatabase(current.status, 'serve')
            if (next === null) return
            await markDatabaseServing(tx, orgId, databaseId, next, address)
            await startUsage(tx, orgId, databaseId)
            const data = { database_id: databaseId, name: current.name }
            await publish(tx, { orgId, type: 'database.created', data })
          })
          traceStep('provision.settled', databaseId)
        }),
      fail: ({ orgId, databaseId, node }, reason, settle, cleanUp) =>
        deps.databaseWork.run(databaseId, async () => {
          const before = await db.begin((tx) => lockDatabase(tx, orgId, databaseId))
          // Before the event, so that its receiver finds no files left.
          if (before?.node === node && moveDatabase(before.status, 'give_up') !== null)
            await cleanUp(() => driver.remove(databaseId))
          traceStep('provision.failing', databaseId)
          await settle(async (tx) => {
            const database = await lockDatabase(tx, orgId, databaseId)
            if (database?.node === node) await failDatabase(tx, orgId, database, reason)
          })
        }),
    },
  }
}

/** Ends the backups of a deleted database and the restore into it. */
type FailBackupsOf = (tx: PublishingTransaction, orgId: OrgId, databaseId: DatabaseId, reason: string) => Promise<void>

/** Of a job that is repeated until it succeeds. */
export const neverFails = async (_job: unknown, reason: string) => {
  throw new Error(`a removal never fails for good: ${reason}`)
}

/** Removes a database. A job that runs for the database is aborted, and its outcome is failure. */
export function createRemoval(
  deps: StepDeps & { failBackupsOf: FailBackupsOf },
): Pick<Handlers, 'database.remove' | 'database.discard'> {
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
          if (database?.node !== deps.node) await deps.driver.remove(databaseId)
        })
        await settle(async () => {})
      },
      fail: neverFails,
    },
  }
}
