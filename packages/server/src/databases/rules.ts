import { type Actor, recordAudit } from '../access/audit.ts'
import { findQuotas, limitOf, limitReached, type Quotas } from '../access/quotas.ts'
import type { Database, PublishingTransaction, Transaction } from '../db/database.ts'
import { publish } from '../delivery/publish.ts'
import type { JobQueue } from '../jobs/queue.ts'
import { Fault, notFound } from '../lib/faults.ts'
import { type DatabaseId, newId, type OrgId, type UserId } from '../lib/ids.ts'
import { inMegabytes } from '../lib/units.ts'
import { noSuch } from '../organizations/rules.ts'
import { lockOrganization } from '../organizations/sql.ts'
import {
  type DatabaseStatus,
  databaseWasDeleted,
  mintDatabasePassword,
  moveDatabase,
  scramVerifier,
} from './database.ts'
import {
  type DatabaseRow,
  existingDatabasesOf,
  insertDatabase,
  type LockedDatabase,
  lockDatabase,
  markDatabaseCleared,
  markDatabaseGivenUp,
  markDatabaseRemoving,
  type NewDatabase,
} from './sql.ts'
import { endUsage, organizationOfDatabase, setStorageLimit, storageLimitsOf } from './usage-sql.ts'

/** `databaseStorageMax`: of a database that has no storage limit of its own. */
type Limits = { databasesPerOrgMax: number; databaseStorageMax: number }
export type CreationDeps = Pick<JobQueue, 'enqueue'> & Limits

/** Before the transaction: the verifier takes thousands of hashes. */
export async function newDatabaseSecret(): Promise<{ password: string; passwordVerifier: string }> {
  const password = mintDatabasePassword()
  return { password, passwordVerifier: await scramVerifier(password) }
}

export type CreationRequest = { orgId: OrgId; userId: UserId; actor: Actor; name: string; passwordVerifier: string }

/** Call it with the organization locked. */
export async function createDatabase(
  tx: Transaction,
  deps: CreationDeps,
  request: CreationRequest,
): Promise<DatabaseRow> {
  const { orgId, userId, actor, name, passwordVerifier } = request
  const wanted = { id: newId('db'), name, passwordVerifier, node: null, createdBy: userId }
  const database = await insertWithinLimit(tx, orgId, wanted, deps)
  await recordAudit(tx, { orgId, action: 'database.created', actor, targetId: database.id, details: { name } })
  await deps.enqueue(tx, { kind: 'database.place', orgId, databaseId: database.id })
  return database
}

/** Of a database that is created, and of one that a backup is restored into. */
export async function insertWithinLimit(
  tx: Transaction,
  orgId: OrgId,
  wanted: NewDatabase,
  { databasesPerOrgMax, databaseStorageMax }: Limits,
): Promise<DatabaseRow> {
  const quotas = await findQuotas(tx, orgId)
  const limit = limitOf(quotas.databases, databasesPerOrgMax)
  const database = await insertDatabase(tx, orgId, wanted, limit.max)
  if (database === null) throw limitReached(limit, 'databases', 'Delete one first, failed ones count too.')
  await checkStorage(tx, orgId, quotas, databaseStorageMax)
  return database
}

/** What the databases of an organization may use together is shared out as their limits: no database takes from another. */
async function checkStorage(tx: Transaction, orgId: OrgId, quotas: Quotas, databaseStorageMax: number): Promise<void> {
  const { database_bytes: max } = quotas
  if (max === null) return
  const bytes = await storageLimitsOf(tx, orgId, databaseStorageMax)
  if (bytes <= max) return
  throw new Fault('limit.reached', {
    public: `The databases of this organization could then use ${inMegabytes(bytes)} together, by their storage limits. The operator has limited this organization to ${inMegabytes(max)}. Delete a database, or ask the operator for more.`,
  })
}

/** Returns the database as it is being deleted. A second call changes nothing. */
export async function deleteDatabase(
  tx: PublishingTransaction,
  { enqueue }: Pick<JobQueue, 'enqueue'>,
  { orgId, id, actor }: { orgId: OrgId; id: DatabaseId; actor: Actor },
): Promise<DatabaseRow> {
  const database = await lockDatabase(tx, orgId, id)
  if (database === null || database.status === 'deleted') throw notFound(`${id} is not in ${orgId}`)
  const next = await beginRemoval(tx, { enqueue }, orgId, database)
  if (next === null) return database
  await recordAudit(tx, { orgId, action: 'database.deleted', actor, targetId: id })
  // A receiver that waits for the outcome of the provisioning or restore gets one.
  const isProvisioning = moveDatabase(database.status, 'give_up') !== null
  if (isProvisioning) await publishFailure(tx, orgId, database, databaseWasDeleted)
  return { ...database, status: next }
}

/** Null if it is being removed already. */
async function beginRemoval(
  tx: Transaction,
  { enqueue }: Pick<JobQueue, 'enqueue'>,
  orgId: OrgId,
  { id, status, node }: LockedDatabase,
): Promise<DatabaseStatus | null> {
  const next = moveDatabase(status, 'remove')
  if (next === null) return null
  await markDatabaseRemoving(tx, orgId, id, next)
  await endUsage(tx, orgId, id)
  // Not placed yet, so nothing has to be removed; the job that would place it finds the row deleted.
  if (node === null) await markDatabaseCleared(tx, orgId, id, moveDatabase(next, 'clear')!)
  else await enqueue(tx, { kind: 'database.remove', orgId, databaseId: id, node })
  return next
}

/** Of a deleted organization. */
export async function deleteDatabasesOf(tx: Transaction, deps: Pick<JobQueue, 'enqueue'>, orgId: OrgId): Promise<void> {
  for (const id of await existingDatabasesOf(tx, orgId)) {
    const database = await lockDatabase(tx, orgId, id)
    if (database !== null) await beginRemoval(tx, deps, orgId, database)
  }
}

/** One that has an outcome already stays as it is. The caller has locked the row and checked that the database is still on its node. */
export async function failDatabase(
  tx: PublishingTransaction,
  orgId: OrgId,
  database: LockedDatabase,
  reason: string,
): Promise<void> {
  const next = moveDatabase(database.status, 'give_up')
  if (next === null) return
  await markDatabaseGivenUp(tx, orgId, database.id, next, reason)
  await publishFailure(tx, orgId, database, reason)
}

const publishFailure = (tx: PublishingTransaction, orgId: OrgId, { id, name }: LockedDatabase, reason: string) =>
  publish(tx, { orgId, type: 'database.failed', data: { database_id: id, name, reason } })

/** The limit of one database in place of its node's setting; null: the setting again. Its node follows within seconds. */
export async function changeStorageLimit(
  db: Database,
  actor: Actor,
  { databaseStorageMax }: Pick<Limits, 'databaseStorageMax'>,
  { id, limitBytes }: { id: DatabaseId; limitBytes: number | null },
): Promise<void> {
  await db.begin(async (tx) => {
    const orgId = await organizationOfDatabase(tx, id)
    if (orgId === null) throw noSuch('database', id)
    await lockOrganization(tx, orgId)
    const changed = await setStorageLimit(tx, orgId, id, limitBytes)
    if (changed === null) throw noSuch('database', id)
    const { before } = changed
    if (before === limitBytes) return
    const isHigher = (limitBytes ?? databaseStorageMax) > (before ?? databaseStorageMax)
    if (isHigher) await checkStorage(tx, orgId, await findQuotas(tx, orgId), databaseStorageMax)
    const action = 'database.storage_limit_changed'
    await recordAudit(tx, { orgId, action, actor, targetId: id, details: { from: before, to: limitBytes } })
  })
}
