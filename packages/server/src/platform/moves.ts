import type { Database, Transaction } from '../db/database.ts'
import { operator } from '../domain/audit.ts'
import { moveDatabase, movingStatus } from '../domain/database.ts'
import type { DatabaseId, OrgId } from '../kernel/ids.ts'
import { recordAudit } from '../store/audit.ts'
import { countDatabasesOfNode, lockDatabase, lockNode, markDatabaseCleared } from '../store/platform/databases.ts'
import {
  databasesOn,
  findStoredState,
  handOverDatabase,
  handOverOtherBackups,
  type MovingDatabase,
  markDatabaseMoving,
  nodesToMoveTo,
  requestMoves,
} from '../store/platform/moves.ts'
import { deadAfterSeconds } from '../store/platform/nodes.ts'
import type { Transact } from '../store/publishing-transaction.ts'
import type { JobQueue } from './jobs/queue.ts'
import { failDatabase } from './steps/settle-failure.ts'

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
    return { kind: 'restoring', to, archivedUntil: stored.archived_until }
  })

/** What is left of a node: databases on it or leaving it. */
export const remainingOn = (db: Database, node: string): Promise<MovingDatabase[]> => databasesOn(db, node)

/** Backups of databases that are gone do not move with one. Returns false while no other node has their store. */
export const handOverRest = (db: Database, node: string): Promise<boolean> =>
  db.begin(async (tx) => {
    const [target] = await nodesToMoveTo(tx, node, deadAfterSeconds)
    if (target === undefined) return false
    await handOverOtherBackups(tx, node, target.id)
    return true
  })
