import type { Actor } from '../access/audit.ts'
import { deleteDatabasesOf } from '../databases/rules.ts'
import type { PublishingTransaction } from '../db/database.ts'
import type { JobQueue } from '../jobs/queue.ts'
import { revokeKeysOfOrganization } from '../keys/sql.ts'
import { type Fault, invalid, notFound } from '../lib/faults.ts'
import { newId, type OrgId, type UserId } from '../lib/ids.ts'
import { endMemberships } from '../organizations/rules.ts'
import { deleteWebhooksOf } from '../webhooks/sql.ts'
import {
  type DeletionRow,
  deleteEventCounter,
  deleteInvitations,
  deleteMemberships,
  findDeletionOf,
  insertDeletion,
  lockAnyUser,
  lockOrganizationName,
  markOrganizationDeleted,
  sum,
} from './sql.ts'

/*
 * After the commit of the request no key or login is let in, and nothing is published, on any node. No attempt of a delivery begins;
 * those in flight end within their time limit. What is stored is erased after that (`erasure.ts`, `erased-databases.ts`).
 */

/** Rows are locked in the order of all others: the organization, memberships before keys, webhooks before lanes, the counter last. */
export async function deleteOrganization(
  tx: PublishingTransaction,
  deps: Pick<JobQueue, 'enqueue'>,
  { orgId, confirm }: { orgId: OrgId; confirm: string },
): Promise<DeletionRow> {
  const name = await lockOrganizationName(tx, orgId)
  if (name === null) throw notFound(`there is no organization ${orgId}`)
  if (confirm !== name) throw unconfirmed('the name of the organization')
  await markOrganizationDeleted(tx, orgId)
  const memberships = await deleteMemberships(tx, orgId)
  await revokeKeysOfOrganization(tx, orgId)
  const invitations = await deleteInvitations(tx, orgId)
  await deleteWebhooksOf(tx, orgId)
  await deleteDatabasesOf(tx, deps, orgId)
  await deleteEventCounter(tx, orgId)
  // Wakes event streams, which then notice that their callers have lost access.
  tx.hintAfterCommit(orgId)
  const deleted = sum({}, { memberships, invitations })
  return insertDeletion(tx, { id: newId('del'), kind: 'organization', target_id: orgId, deleted })
}

/** Removes the user if that has not been done, and has the personal data erased. A second call returns the same deletion. */
export async function deleteUser(
  tx: PublishingTransaction,
  actor: Actor,
  { userId, confirm }: { userId: UserId; confirm: string },
): Promise<DeletionRow> {
  const user = await lockAnyUser(tx, userId)
  if (user === null) throw notFound(`there is no user ${userId}`)
  const earlier = await findDeletionOf(tx, userId)
  if (earlier !== null) return earlier
  const what = user.is_service ? 'the name of the service member' : 'the e-mail address of the user'
  if (confirm !== (user.is_service ? user.name : user.email)) throw unconfirmed(what)
  const left = await endMemberships(tx, actor, { userId, isService: user.is_service, action: 'user.deleted' })
  const deleted = sum({}, { memberships: left.length })
  return insertDeletion(tx, { id: newId('del'), kind: 'user', target_id: userId, deleted })
}

const unconfirmed = (what: string): Fault => invalid([{ pointer: '/confirm', detail: `must be ${what}` }])
