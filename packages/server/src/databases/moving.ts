import { operator, recordAudit } from '../access/audit.ts'
import type { Database, Transact, Transaction } from '../db/database.ts'
import type { JobQueue } from '../jobs/queue.ts'
import { type Handlers, traceStep } from '../jobs/worker.ts'
import type { DatabaseId, OrgId } from '../lib/ids.ts'
import { StepFailure } from '../lib/step-failure.ts'
import { moveDatabase, movingStatus } from './database.ts'
import type { Moving } from './drivers/driver.ts'
import {
  deadAfterSeconds,
  findStoredState,
  handOverBackups,
  handOverDatabase,
  handOverOtherBackups,
  isForgotten,
  markDatabaseMoved,
  markDatabaseMoving,
  nodesToMoveTo,
  requestMoves,
} from './node-sql.ts'
import { failDatabase } from './rules.ts'
import { countDatabasesOfNode, type LockedDatabase, lockDatabase, lockNode, markDatabaseCleared } from './sql.ts'
import type { StepDeps } from './steps.ts'
import { findWalArchive, recordArchivedWal } from './wal-sql.ts'

const noTarget = 'No other node that can read its archives has room for it.'

const isMoving = (database: LockedDatabase | null, node: string): database is LockedDatabase =>
  database !== null && database.node === node && database.moving_from !== null

/** Through the store: closed and archived to the end here, restored there. The row names the one node that may run it, at every step. */
export function createMoving(deps: StepDeps): Pick<Handlers, 'database.leave' | 'database.arrive' | 'database.stay'> {
  const { db, driver, queue } = deps
  const lock = (orgId: OrgId, id: DatabaseId) => db.begin((tx) => lockDatabase(tx, orgId, id))

  const moving = (): Moving => {
    if (driver.moving === null) throw new StepFailure('Databases of this kind do not move.', { permanent: true })
    return driver.moving
  }

  /** Everything that was committed is in the store when it returns, because nobody can commit any more. */
  async function archiveRest(orgId: OrgId, id: DatabaseId, node: string, signal: AbortSignal): Promise<void> {
    const earlier = await findWalArchive(db, orgId, id)
    const after = earlier?.until_lsn ?? null
    const archived = await driver.archiveWal(id, { after, isEncrypted: earlier?.is_encrypted ?? false, signal })
    await db.begin((tx) => recordArchivedWal(tx, orgId, id, { ...archived, node }))
    await requireStored(orgId, id)
  }

  async function requireStored(orgId: OrgId, id: DatabaseId): Promise<void> {
    if ((await findStoredState(db, orgId, id)) !== null) return
    throw new StepFailure('The database has no backup yet that its write-ahead log follows.')
  }

  async function beginMove(orgId: OrgId, id: DatabaseId, node: string): Promise<void> {
    // Checked before clients are interrupted.
    if ((await nodesToMoveTo(db, node, deadAfterSeconds)).length === 0) throw new StepFailure(noTarget)
    await requireStored(orgId, id)
    await db.begin(async (tx) => {
      const current = await lockDatabase(tx, orgId, id)
      if (isMoving(current, node) && current.status === 'available')
        await markDatabaseMoving(tx, orgId, id, { status: movingStatus, from: node })
    })
  }

  async function serveAgain(tx: Transaction, orgId: OrgId, id: DatabaseId, node: string): Promise<void> {
    const current = await lockDatabase(tx, orgId, id)
    if (!isMoving(current, node)) return
    const status = current.status === 'available' ? current.status : moveDatabase(current.status, 'serve')
    if (status !== null) await markDatabaseMoved(tx, orgId, id, status, null)
  }

  return {
    'database.leave': {
      run: ({ orgId, databaseId, node }, settle) =>
        deps.databaseWork.run(databaseId, async (signal) => {
          const database = await lock(orgId, databaseId)
          if (!isMoving(database, node)) return
          if (database.status === 'available') await beginMove(orgId, databaseId, node)
          else if (database.status !== movingStatus) return
          traceStep('leave.closing', databaseId)
          await moving().closeToClients(databaseId, { signal })
          traceStep('leave.archiving', databaseId)
          await archiveRest(orgId, databaseId, node, signal)
          traceStep('leave.settling', databaseId)
          await settle(async (tx) => {
            const current = await lockDatabase(tx, orgId, databaseId)
            if (!isMoving(current, node) || current.status !== movingStatus) return
            const to = await pickTarget(tx, node)
            if (to === null) throw new StepFailure(noTarget)
            await handOverDatabase(tx, orgId, databaseId, to)
            await queue.enqueue(tx, { kind: 'database.arrive', orgId, databaseId, node: to })
          })
          traceStep('leave.settled', databaseId)
        }),
      fail: ({ orgId, databaseId, node }, _reason, settle) =>
        deps.databaseWork.run(databaseId, async (signal) => {
          const database = await lock(orgId, databaseId)
          if (isMoving(database, node) && database.status === movingStatus)
            await moving().openToClients(databaseId, { signal })
          await settle((tx) => serveAgain(tx, orgId, databaseId, node))
        }),
    },

    'database.arrive': {
      run: ({ orgId, databaseId, node }, settle) =>
        deps.databaseWork.run(databaseId, async (signal) => {
          const database = await lock(orgId, databaseId)
          if (!isMoving(database, node) || database.status !== movingStatus) return
          const stored = await findStoredState(db, orgId, databaseId)
          if (stored === null) throw new StepFailure('There is no backup of it in the store.', { permanent: true })
          // An earlier attempt, or a copy from before it left this node once: only the store has its state.
          await driver.remove(databaseId)
          traceStep('arrive.restoring', databaseId)
          const address = await moving().restoreAll(databaseId, {
            from: { databaseId, backupId: stored.backupId, sha256: stored.sha256, keyId: stored.keyId },
            wal: stored,
            signal: AbortSignal.any([signal, deps.storage.room()]),
          })
          traceStep('arrive.settling', databaseId)
          let isHere = true
          await settle(async (tx) => {
            const current = await lockDatabase(tx, orgId, databaseId)
            const next = isMoving(current, node) ? moveDatabase(current.status, 'serve') : null
            isHere = next !== null
            if (next === null) return
            const from = current!.moving_from!
            await markDatabaseMoved(tx, orgId, databaseId, next, address)
            await handOverBackups(tx, orgId, databaseId, node)
            const details = { from, to: node }
            await recordAudit(tx, { orgId, action: 'database.moved', actor: operator, targetId: databaseId, details })
            await queue.enqueue(tx, { kind: 'database.discard', orgId, databaseId, node: from })
          })
          traceStep('arrive.settled', databaseId)
          // This node counted as dead and another one has it, or it was deleted.
          if (!isHere) await driver.remove(databaseId)
        }),
      fail: ({ orgId, databaseId, node }, reason, settle, cleanUp) =>
        deps.databaseWork.run(databaseId, async () => {
          await cleanUp(() => driver.remove(databaseId))
          await settle(async (tx) => {
            const database = await lockDatabase(tx, orgId, databaseId)
            if (!isMoving(database, node)) return
            const from = database.moving_from!
            if (await isForgotten(tx, from)) return failDatabase(tx, orgId, database, reason)
            // Its old node still has it.
            await handOverDatabase(tx, orgId, databaseId, from)
            await queue.enqueue(tx, { kind: 'database.stay', orgId, databaseId, node: from })
          })
        }),
    },

    'database.stay': {
      run: ({ orgId, databaseId, node }, settle) =>
        deps.databaseWork.run(databaseId, async (signal) => {
          const database = await lock(orgId, databaseId)
          if (!isMoving(database, node) || database.status !== movingStatus) return
          await moving().openToClients(databaseId, { signal })
          await settle((tx) => serveAgain(tx, orgId, databaseId, node))
        }),
      async fail(_job, reason) {
        throw new Error(`never fails for good: ${reason}`)
      },
    },
  }
}

type Deps = { db: Database; transact: Transact; queue: Pick<JobQueue, 'enqueue'> }

const lostReason = 'Its node was lost, and there is no backup of it in the store.'

/** The emptiest node that has the archives of `from`, locked until the transaction ends. Null if none has room. */
export async function pickTarget(tx: Transaction, from: string): Promise<string | null> {
  for (const { id, databases_max } of await nodesToMoveTo(tx, from, deadAfterSeconds)) {
    await lockNode(tx, id)
    if ((await countDatabasesOfNode(tx, id)) < databases_max) return id
  }
  return null
}

/** Asks the node to give away the databases that it runs now. Returns the new requests; a second call repeats none. */
export const requestLeaving = ({ db, queue }: Deps, node: string, except: readonly string[]): Promise<DatabaseId[]> =>
  db.begin(async (tx) => {
    const requested = await requestMoves(tx, node, except)
    for (const { org_id: orgId, id } of requested)
      await queue.enqueue(tx, { kind: 'database.leave', orgId, databaseId: id, node })
    return requested.map(({ id }) => id)
  })

/** `archivedUntil`: what was committed later is lost. */
export type Rescue =
  | { kind: 'restoring'; to: string; archivedUntil: Date }
  | { kind: 'no_room' }
  | { kind: 'lost' }
  | { kind: 'removed' }
  | { kind: 'nothing' }

/** Restores a database of a forgotten node on another one, from what the store has. */
export const rescue = ({ transact, queue }: Deps, node: string, orgId: OrgId, id: DatabaseId): Promise<Rescue> =>
  transact(async (tx): Promise<Rescue> => {
    const database = await lockDatabase(tx, orgId, id)
    if (database === null || database.node !== node) return { kind: 'nothing' }
    if (database.status === 'deleting') {
      // Its files are on the lost node.
      await markDatabaseCleared(tx, orgId, id, moveDatabase('deleting', 'clear')!)
      return { kind: 'removed' }
    }
    // One that is being created starts again elsewhere by itself, and one that was arriving here too.
    const isOwn = database.status === 'available' || database.moving_from === node
    if (!isOwn) return { kind: 'nothing' }
    await markDatabaseMoving(tx, orgId, id, { status: movingStatus, from: node })
    const stored = await findStoredState(tx, orgId, id)
    if (stored === null) {
      await failDatabase(tx, orgId, { ...database, status: movingStatus }, lostReason)
      await recordAudit(tx, { orgId, action: 'database.lost', actor: operator, targetId: id, details: { node } })
      return { kind: 'lost' }
    }
    const to = await pickTarget(tx, node)
    if (to === null) return { kind: 'no_room' }
    await handOverDatabase(tx, orgId, id, to)
    await queue.enqueue(tx, { kind: 'database.arrive', orgId, databaseId: id, node: to })
    return { kind: 'restoring', to, archivedUntil: stored.archivedUntil }
  })

/** Backups of databases that are gone do not move with one. Returns false while no other node has their store. */
export const handOverRest = (db: Database, node: string): Promise<boolean> =>
  db.begin(async (tx) => {
    const [target] = await nodesToMoveTo(tx, node, deadAfterSeconds)
    if (target === undefined) return false
    await handOverOtherBackups(tx, node, target.id)
    return true
  })
