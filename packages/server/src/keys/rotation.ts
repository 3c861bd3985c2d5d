import { type Actor, recordAudit } from '../access/audit.ts'
import { type KeyLimits, widerParts } from '../access/restrictions.ts'
import type { PublishingTransaction } from '../db/database.ts'
import type { KeyId, OrgId, UserId } from '../lib/ids.ts'
import { announceRevoked } from './events.ts'
import { notACallersKey } from './revocation.ts'
import {
  announceNew,
  type CreatedKey,
  checkMayEnd,
  checkMayWiden,
  creatorOf,
  limitEnd,
  lockActive,
  refuseWider,
  type StoringDeps,
  storeKey,
} from './rules.ts'
import { keyLifetimeOf, type LockedKey, revokeApiKey, updateKey } from './sql.ts'
import { lockUserOfKey } from './users-sql.ts'

/** How long the old key stays valid after a rotation. */
export const overlapSecondsDefault = 3_600
export const overlapSecondsMax = 30 * 86_400

type Rotation = {
  orgId: OrgId
  keyId: KeyId
  userId: UserId
  actor: Actor
  /** Whether the caller may act for service members. */
  isForService: boolean
  overlapSeconds: number
  /** Absent: as that of the old key. */
  expiresAt: Date | null | undefined
}

/** A successor with the same settings; the old key ends after the overlap. Call it with the organization locked. */
export async function rotateKey(
  tx: PublishingTransaction,
  deps: StoringDeps,
  { orgId, keyId, userId, actor, isForService, overlapSeconds, expiresAt }: Rotation,
): Promise<CreatedKey & { old: LockedKey }> {
  // 1. Nobody gets a key that acts as another person, and no key gets one that may do more.
  const user = await lockUserOfKey(tx, orgId, keyId)
  if (user === null || (user.user_id !== userId && !(user.is_service && isForService))) {
    throw notACallersKey(orgId, keyId)
  }
  const creator = await creatorOf(tx, orgId, actor)
  const old = await lockActive(tx, orgId, keyId, null)
  refuseWider(old, creator)
  checkMayEnd(old, actor, creator)
  const limits: KeyLimits = {
    restrictions: old.restrictions,
    expiresAt: expiresAt === undefined ? old.expiresAt : expiresAt,
  }
  if (widerParts(limits, old).length > 0) {
    checkMayWiden(old, { userId, actor, isForService }, 'would make the new key last longer')
  }
  // 2. The end of the old key. It never lasts longer than it would have. First: without an overlap the successor takes its place.
  const { nowMs } = await keyLifetimeOf(tx, orgId)
  const end = new Date(nowMs + overlapSeconds * 1_000)
  if (overlapSeconds === 0) await revokeApiKey(tx, orgId, keyId, null)
  else if (old.expiresAt === null || old.expiresAt > end) await updateKey(tx, orgId, keyId, { ...old, expiresAt: end })
  // 3. The successor.
  await limitEnd(tx, deps, { orgId, limits, isAsked: expiresAt != null })
  const created = await storeKey(tx, deps, { orgId, userId: old.createdBy, actor, name: old.name, limits })
  const details = { successor: created.id, key_prefix: created.keyPrefix, overlap_seconds: overlapSeconds }
  await recordAudit(tx, { orgId, action: 'key.rotated', actor, targetId: keyId, details })
  await announceNew(tx, created, { orgId, userId: old.createdBy, actor, name: old.name, limits })
  if (overlapSeconds === 0) await announceRevoked(tx, orgId, [old], () => 'rotated')
  return { ...created, old }
}
