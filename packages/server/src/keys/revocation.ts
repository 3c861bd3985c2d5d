import { type Actor, insertAudits, recordAudit } from '../access/audit.ts'
import type { PublishingTransaction, Transaction } from '../db/database.ts'
import { type Fault, notFound } from '../lib/faults.ts'
import type { KeyId, OrgId, UserId } from '../lib/ids.ts'
import { announceRevoked, type NamedKey } from './events.ts'
import { revokeApiKey, revokeKeysOfUser, revokeWithDescendants } from './sql.ts'

/** `createdBy`: of whom the key has to be; null if the caller may revoke every key. */
type Revocation = { orgId: OrgId; keyId: KeyId; createdBy: UserId | null; actor: Actor }

/** Revokes a key. Returns the keys that were active until now: none if it is repeated. */
export async function revokeOne(
  tx: PublishingTransaction,
  { orgId, keyId, createdBy, actor }: Revocation,
): Promise<KeyId[]> {
  const outcome = await revokeApiKey(tx, orgId, keyId, createdBy)
  if (outcome === null) throw notACallersKey(orgId, keyId)
  if (outcome.key === null) return []
  await recordAudit(tx, { orgId, action: 'key.revoked', actor, targetId: keyId })
  await announceRevoked(tx, orgId, [outcome.key], () => 'revoked')
  return [keyId]
}

/** Revokes a key and its descendants. Call it with the organization locked. */
export async function revokeTree(
  tx: PublishingTransaction,
  { orgId, keyId, createdBy, actor }: Revocation,
): Promise<KeyId[]> {
  const revoked = await revokeWithDescendants(tx, orgId, keyId, createdBy)
  if (revoked === null) throw notACallersKey(orgId, keyId)
  await recordRevocations(tx, orgId, actor, revoked, (id) => id !== keyId && { details: { descendant_of: keyId } })
  await announceRevoked(tx, orgId, revoked, ({ id }) => (id === keyId ? 'revoked' : 'creator_revoked'))
  return revoked.map(({ id }) => id)
}

/** Revokes every key that acts as a removed member. Call it after the membership was deleted. */
export async function revokeKeysOf(
  tx: PublishingTransaction,
  orgId: OrgId,
  userId: UserId,
  actor: Actor,
): Promise<void> {
  const revoked = await revokeKeysOfUser(tx, orgId, userId)
  await recordRevocations(tx, orgId, actor, revoked, () => ({ details: { member_removed: userId } }))
  await announceRevoked(tx, orgId, revoked, () => 'member_removed')
}

export const notACallersKey = (orgId: OrgId, keyId: KeyId): Fault =>
  notFound(`${keyId} is not in ${orgId}, or not the caller's`)

export async function recordRevocations(
  tx: Transaction,
  orgId: OrgId,
  actor: Actor,
  revoked: readonly NamedKey[],
  details: (id: KeyId) => false | { details: Record<string, string> },
): Promise<void> {
  const entries = revoked.map(({ id }) => ({
    orgId,
    action: 'key.revoked' as const,
    actor,
    targetId: id,
    ...details(id),
  }))
  if (entries.length > 0) await insertAudits(tx, entries)
}
