import type { Database, Executor, PageRequest, Transaction } from '../db/database.ts'
import type { DeletionId, OrgId, UserId } from '../lib/ids.ts'

/** Rows of each table. */
export type Erased = Record<string, number>

export type DeletionRow = {
  id: DeletionId
  kind: 'organization' | 'user'
  target_id: OrgId | UserId
  requested_at: Date
  waits_for: string | null
  finished_at: Date | null
  deleted: Erased
}

export const insertDeletion = (tx: Transaction, deletion: Pick<DeletionRow, 'id' | 'kind' | 'target_id' | 'deleted'>) =>
  tx<DeletionRow[]>`
    insert into keyhook.deletions (id, kind, target_id, deleted)
    values (${deletion.id}, ${deletion.kind}, ${deletion.target_id}, ${JSON.stringify(deletion.deleted)}::jsonb)
    returning id, kind, target_id, requested_at, waits_for, finished_at, deleted`.one()

export const findDeletion = (db: Executor, id: DeletionId) =>
  db<DeletionRow[]>`
    select id, kind, target_id, requested_at, waits_for, finished_at, deleted from keyhook.deletions where id = ${id}`.first()

export const findDeletionOf = (db: Executor, targetId: OrgId | UserId) =>
  db<DeletionRow[]>`
    select id, kind, target_id, requested_at, waits_for, finished_at, deleted from keyhook.deletions
    where target_id = ${targetId}`.first()

export const listDeletions = (db: Database, { before, limit }: PageRequest) => db<DeletionRow[]>`
  select id, kind, target_id, requested_at, waits_for, finished_at, deleted from keyhook.deletions
  where ${before}::text is null or id < ${before}
  order by id desc
  limit ${limit}`

export type DueDeletion = DeletionRow & {
  /** A transaction of before the deletion may still write. */
  older_open: boolean
  after_org: string
}

/** The next one that is due; another process may have the others. */
export const takeDeletion = (tx: Transaction) =>
  tx<DueDeletion[]>`
    select id, kind, target_id, requested_at, waits_for, finished_at, deleted, after_org,
      -- After a restore of a dump, the number is one that this server has not reached.
      xid >= pg_snapshot_xmin(pg_current_snapshot()) and xid < pg_snapshot_xmax(pg_current_snapshot()) as older_open
    from keyhook.deletions
    where finished_at is null and due_at <= clock_timestamp()
    order by due_at limit 1 for update skip locked`.first()

const waitSeconds = 1

/** What a step has done. Without `waitsFor` and `isFinished` the next one is due at once, after those of other deletions. */
export const recordStep = async (
  tx: Transaction,
  id: DeletionId,
  step: { deleted: Erased; waitsFor: string | null; isFinished: boolean; afterOrg: string },
): Promise<void> => {
  await tx`
    update keyhook.deletions set deleted = ${JSON.stringify(step.deleted)}::jsonb, waits_for = ${step.waitsFor},
      after_org = ${step.afterOrg},
      due_at = clock_timestamp() + make_interval(secs => ${step.waitsFor === null ? 0 : waitSeconds}),
      finished_at = case when ${step.isFinished} then clock_timestamp() end
    where id = ${id}`
}

/** A step that failed must not hold up other deletions. */
export const postponeDeletion = async (db: Database, id: DeletionId): Promise<void> => {
  await db`
    update keyhook.deletions set due_at = clock_timestamp() + make_interval(secs => ${waitSeconds})
    where id = ${id} and finished_at is null`
}

/** What was erased elsewhere, in the transaction that did it. */
export const addErased = async (tx: Transaction, targetId: OrgId, more: Erased): Promise<void> => {
  const row = await tx<{ id: DeletionId; deleted: Erased }[]>`
    select id, deleted from keyhook.deletions where target_id = ${targetId} for update`.one()
  await tx`update keyhook.deletions set deleted = ${JSON.stringify(sum(row.deleted, more))}::jsonb where id = ${row.id}`
}

export function sum(before: Erased, more: Erased): Erased {
  const all = { ...before }
  for (const [table, rows] of Object.entries(more)) if (rows > 0) all[table] = (all[table] ?? 0) + rows
  return all
}

/** Waits for whoever makes its first event counter, and keeps others from it. Null if it is unknown or deleted. */
export const lockOrganizationName = async (tx: Transaction, orgId: OrgId): Promise<string | null> => {
  const row = await tx<{ name: string }[]>`
    select name from keyhook.organizations where id = ${orgId} and deleted_at is null for update`.first()
  return row?.name ?? null
}

export const markOrganizationDeleted = async (tx: Transaction, orgId: OrgId): Promise<void> => {
  await tx`update keyhook.organizations set deleted_at = now() where id = ${orgId}`
}

/** Takes the role from all keys, by their foreign key. */
export const deleteMemberships = async (tx: Transaction, orgId: OrgId): Promise<number> =>
  (await tx`delete from keyhook.memberships where org_id = ${orgId}`).count

export const deleteInvitations = async (tx: Transaction, orgId: OrgId): Promise<number> =>
  (await tx`delete from keyhook.invitations where org_id = ${orgId}`).count

/** Waits for publishers. Without a counter nothing is published, and a deleted organization gets no new one. */
export const deleteEventCounter = async (tx: Transaction, orgId: OrgId): Promise<void> => {
  await tx`delete from keyhook.event_counters where org_id = ${orgId}`
}

/** The nodes that still have databases of the organization, or archives of them. */
export const nodesWithDatabases = async (tx: Transaction, orgId: OrgId): Promise<string[]> => {
  const rows = await tx<{ node: string | null }[]>`
    select distinct node from keyhook.databases where org_id = ${orgId} order by node`
  return rows.map(({ node }) => node ?? 'any node')
}

export const deleteOrganizationRow = async (tx: Transaction, orgId: OrgId): Promise<void> => {
  await tx`update keyhook.users set invited_to = null where invited_to = ${orgId} and verified_by is not null`
  await tx`delete from keyhook.organizations where id = ${orgId}`
}

export const usersOfOrganization = async (tx: Transaction, orgId: OrgId, limit: number): Promise<UserId[]> => {
  const rows = await tx<{ id: UserId }[]>`
    select id from keyhook.users where invited_to = ${orgId} and verified_by is null limit ${limit}`
  return rows.map((row) => row.id)
}

export const deleteUserRow = async (tx: Transaction, id: UserId): Promise<void> => {
  await tx`delete from keyhook.users where id = ${id}`
}

/** Deleted ones too. */
export const organizationsAfter = async (tx: Transaction, after: string, limit: number): Promise<OrgId[]> => {
  const rows = await tx<{ id: OrgId }[]>`
    select id from keyhook.organizations where id > ${after} order by id limit ${limit}`
  return rows.map((row) => row.id)
}

/** Also one who was removed. */
export const lockAnyUser = (tx: Transaction, id: UserId) =>
  tx<{ email: string | null; name: string | null; is_service: boolean }[]>`
    select email, name, is_service from keyhook.users where id = ${id} for no key update`.first()
