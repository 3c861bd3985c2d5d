import type { Database } from '../../db/database.ts'
import { moveDatabase } from '../../domain/database.ts'
import {
  countDatabasesOfNode,
  lockDatabase,
  lockNode,
  markDatabaseServing,
  placeDatabase,
} from '../../store/platform/databases.ts'
import { nodesWithRoom } from '../../store/platform/nodes.ts'
import { startUsage } from '../../store/platform/usage.ts'
import { publish } from '../../webhooks/publish.ts'
import { type DatabaseDriver, StepFailure } from '../driver.ts'
import type { JobQueue } from '../jobs/queue.ts'
import type { Turns } from '../jobs/turns.ts'
import type { Handlers } from '../jobs/worker.ts'
import { silentSeconds } from '../presence.ts'
import { giveUpDatabase } from './giving-up.ts'
import { step } from './step.ts'

type Deps = {
  db: Database
  driver: DatabaseDriver
  queue: JobQueue
  turns: Turns
}

/** From a row that somebody asked for to an instance that accepts connections, or to a reason why there is none. */
export function createProvisioning(deps: Deps): Pick<Handlers, 'database.place' | 'database.provision'> {
  const { db, driver } = deps

  return {
    'database.place': {
      async run({ orgId, databaseId }, settle) {
        step('place.settling', databaseId)
        await settle(async (tx) => {
          const database = await lockDatabase(tx, orgId, databaseId)
          if (database?.status !== 'provisioning' || database.node !== null) return
          for (const { id: node, databases_max } of await nodesWithRoom(tx, silentSeconds)) {
            await lockNode(tx, node)
            if ((await countDatabasesOfNode(tx, node)) >= databases_max) continue
            await placeDatabase(tx, orgId, databaseId, node)
            await deps.queue.enqueue(tx, { kind: 'database.provision', orgId, databaseId, node })
            return
          }
          throw new StepFailure('No node has room for it.')
        })
      },
      giveUp: ({ orgId, databaseId }, reason, settle) =>
        settle(async (tx) => {
          const database = await lockDatabase(tx, orgId, databaseId)
          // One that has a node was placed after all, by another that was slower than its heartbeat.
          if (database?.node === null) await giveUpDatabase(tx, orgId, database, reason)
        }),
    },

    'database.provision': {
      run: ({ orgId, databaseId, node }, settle) =>
        deps.turns.take(databaseId, async (signal) => {
          const database = await db.begin((tx) => lockDatabase(tx, orgId, databaseId))
          if (database?.status !== 'provisioning' || database.node !== node) return
          if (database.password_verifier === null) return
          step('provision.making', databaseId)
          const address = await driver.provision(databaseId, { passwordVerifier: database.password_verifier, signal })
          step('provision.settling', databaseId)
          await settle(async (tx) => {
            const current = await lockDatabase(tx, orgId, databaseId)
            // Deleted meanwhile, or another node's because this one was not heard of: there is a job of its own that
            // removes what was made here.
            if (current?.node !== node) return
            const next = moveDatabase(current.status, 'serve')
            if (next === null) return
            await markDatabaseServing(tx, orgId, databaseId, next, address)
            await startUsage(tx, orgId, databaseId)
            const data = { database_id: databaseId, name: current.name }
            await publish(tx, { orgId, type: 'database.created', data })
          })
          step('provision.settled', databaseId)
        }),
      giveUp: ({ orgId, databaseId, node }, reason, settle, tidy) =>
        deps.turns.take(databaseId, async () => {
          const before = await db.begin((tx) => lockDatabase(tx, orgId, databaseId))
          // First the files, then the word: who hears of the failure finds nothing left of it.
          if (before?.node === node && moveDatabase(before.status, 'give_up') !== null)
            await tidy(() => driver.remove(databaseId))
          step('provision.giving_up', databaseId)
          await settle(async (tx) => {
            const database = await lockDatabase(tx, orgId, databaseId)
            if (database?.node === node) await giveUpDatabase(tx, orgId, database, reason)
          })
        }),
    },
  }
}
