import type { Access } from '../access/access.ts'
import { type Actor, recordAudit } from '../access/audit.ts'
import { invalidToken, keyLacks, keyRestricted, loginRequired } from '../access/authenticate.ts'
import { findQuotas, limitOf, limitReached } from '../access/quotas.ts'
import { type KeyLimits, limitReach, type Restrictions, widerParts } from '../access/restrictions.ts'
import { reachOf } from '../access/roles.ts'
import {
  type HoldOrganization,
  isUniqueViolation,
  type PublishingTransaction,
  type Transaction,
} from '../db/database.ts'
import { Fault, invalid } from '../lib/faults.ts'
import { type DatabaseId, type KeyId, newId, type OrgId, type UserId } from '../lib/ids.ts'
import { mintApiKey } from '../lib/secrets.ts'
import { isoTime } from '../lib/time.ts'
import { announceCreated } from './events.ts'
import { notACallersKey } from './revocation.ts'
import {
  existingDatabases,
  insertApiKey,
  keyLifetimeOf,
  keyPrefixTaken,
  type LockedKey,
  lockKey,
  lockLimits,
  lockMembership,
  updateKey,
} from './sql.ts'

export type CreationDeps = {
  holdOrganization: HoldOrganization
  keyTag: string
  keysPerOrgMax: number
  /** The longest that a new key may last, as the operator has set it. */
  keyDaysMax: number | null
}

/** A part that is null limits nothing. One that is absent is as before, or as in the key that creates the new one. */
export type AskedLimits = { [Part in keyof Restrictions]: Restrictions[Part] | null } & { expiresAt?: Date | null }

type Creation = { orgId: OrgId; userId: UserId; actor: Actor; name: string; limits?: AskedLimits }
export type CreatedKey = { id: KeyId; keyPrefix: string; apiKey: string }

/** Two keys of one organization must not share a prefix, which identifies them. With 47 bits that is rare. */
export const createApiKey = (deps: CreationDeps, request: Creation): Promise<CreatedKey> =>
  retryPrefix(() => deps.holdOrganization(request.orgId, (tx) => createKeyIn(tx, deps, request)))

export const retryPrefix = <T>(create: () => Promise<T>): Promise<T> =>
  create().catch((error) => {
    if (!isUniqueViolation(error, keyPrefixTaken)) throw error
    return create()
  })

/** Call it with the organization locked. */
export async function createKeyIn(
  tx: PublishingTransaction,
  deps: StoringDeps,
  creation: Creation,
): Promise<CreatedKey> {
  const { orgId, userId, actor, name, limits: asked = {} } = creation
  const creator = await creatorOf(tx, orgId, actor)
  const limits = withDefaults(asked, creator)
  refuseWider(limits, creator)
  await checkDatabases(tx, orgId, limits)
  await limitEnd(tx, deps, { orgId, limits, isAsked: asked.expiresAt != null })
  const created = await storeKey(tx, deps, { orgId, userId, actor, name, limits })
  const details = {
    name,
    key_prefix: created.keyPrefix,
    ...(actor.kind !== 'operator' && actor.userId !== userId && { acts_as: userId }),
    ...limitDetails(limits),
  }
  await recordAudit(tx, { orgId, action: 'key.created', actor, targetId: created.id, details })
  await announceNew(tx, created, { orgId, userId, actor, name, limits })
  return created
}

type StoredCreation = Creation & { limits: KeyLimits }

export const announceNew = (
  tx: PublishingTransaction,
  { id, keyPrefix }: CreatedKey,
  { orgId, userId, actor, name, limits: { expiresAt } }: StoredCreation,
): Promise<void> =>
  announceCreated(tx, orgId, { id, name, keyPrefix, createdBy: userId, createdByKey: keyOf(actor), expiresAt })

const keyOf = (actor: Actor): KeyId | null => (actor.kind === 'key' ? actor.keyId : null)

export type StoringDeps = Omit<CreationDeps, 'holdOrganization'>

/** Only the hash of a key is stored. Call it with the organization locked. */
export async function storeKey(
  tx: Transaction,
  deps: StoringDeps,
  { orgId, userId, actor, name, limits }: StoredCreation,
): Promise<CreatedKey> {
  const { apiKey, keyPrefix, hash } = mintApiKey(deps.keyTag)
  const id = newId('key')
  const key = { id, name, keyPrefix, hash, createdBy: userId, createdByKey: keyOf(actor), ...limits }
  const limit = limitOf((await findQuotas(tx, orgId)).keys, deps.keysPerOrgMax)
  const inserted = await insertApiKey(tx, orgId, key, limit.max)
  if (inserted === null) throw limitReached(limit, 'active API keys', 'Revoke one first.')
  // A member that was removed since the request was authenticated must leave no key behind.
  if (inserted.role === null) throw invalidToken(`${userId} was removed while they created a key`)
  return { id, keyPrefix, apiKey }
}

const unlimited: KeyLimits = { restrictions: null, expiresAt: null }

/** What the key of the request is limited to. One that was revoked since the request was authenticated must leave no key behind. */
export async function creatorOf(tx: Transaction, orgId: OrgId, actor: Actor): Promise<KeyLimits> {
  if (actor.kind !== 'key') return unlimited
  await lockMembership(tx, orgId, actor.userId)
  const limits = await lockLimits(tx, orgId, actor.keyId)
  if (limits === null) throw invalidToken(`${actor.keyId} was revoked during its request`)
  return limits
}

function withDefaults({ expiresAt, ...asked }: AskedLimits, defaults: KeyLimits): KeyLimits {
  const parts = Object.entries({ ...defaults.restrictions, ...asked }).filter(([, part]) => part !== null)
  return {
    restrictions: parts.length === 0 ? null : Object.fromEntries(parts),
    expiresAt: expiresAt === undefined ? defaults.expiresAt : expiresAt,
  }
}

export function refuseWider(limits: KeyLimits, caller: KeyLimits): void {
  const parts = widerParts(limits, caller)
  if (parts.length === 0) return
  throw keyRestricted(`The key may do more than the API key of this request, or would: ${parts.join(', ')}.`)
}

/** `known`: those that the key has already, which may be deleted in the meantime. */
async function checkDatabases(
  tx: Transaction,
  orgId: OrgId,
  { restrictions }: KeyLimits,
  known: readonly DatabaseId[] = [],
): Promise<void> {
  const ids = restrictions?.databases ?? []
  const added = ids.filter((id) => !known.includes(id))
  const existing = added.length === 0 ? [] : await existingDatabases(tx, orgId, added)
  const missing = ids.findIndex((id) => added.includes(id) && !existing.includes(id))
  if (missing !== -1)
    throw invalid([{ pointer: `/databases/${missing}`, detail: 'is no database of the organization' }])
}

const dayMs = 86_400_000
/** How far the clock that computed an end may be ahead of PostgreSQL's. */
const clockAheadMsMax = 300_000

/** A key lasts no longer than keys may. An end that was asked for is refused if it lies further beyond than clocks differ. */
export async function limitEnd(
  tx: Transaction,
  { keyDaysMax }: Pick<CreationDeps, 'keyDaysMax'>,
  { orgId, limits, isAsked }: { orgId: OrgId; limits: KeyLimits; isAsked: boolean },
): Promise<void> {
  const { daysMax, nowMs } = await keyLifetimeOf(tx, orgId)
  const { expiresAt } = limits
  if (isAsked && expiresAt !== null) checkFuture(expiresAt, nowMs)
  const days = Math.min(daysMax ?? Infinity, keyDaysMax ?? Infinity)
  const beyondMs = (expiresAt?.getTime() ?? Infinity) - (nowMs + days * dayMs)
  if (days === Infinity || beyondMs <= 0) return
  if (isAsked && beyondMs > clockAheadMsMax) {
    throw wrongEnd(`must be at most ${days} days from now in this organization`)
  }
  limits.expiresAt = new Date(nowMs + days * dayMs)
}

/** By the clock that ends the key. */
function checkFuture(expiresAt: Date, nowMs: number): void {
  if (expiresAt.getTime() <= nowMs) throw wrongEnd('must lie in the future')
}

const wrongEnd = (detail: string): Fault => invalid([{ pointer: '/expires_at', detail }])

const limitDetails = ({ restrictions, expiresAt }: KeyLimits): Record<string, string | string[]> => ({
  ...(restrictions?.permissions && { permissions: [...restrictions.permissions] }),
  ...(restrictions?.databases && { databases: [...restrictions.databases] }),
  ...(restrictions?.networks && { allowed_networks: [...restrictions.networks] }),
  ...(expiresAt && { expires_at: isoTime(expiresAt) }),
})

/** `isForService`: whether the caller may act for service members, which have no login. */
type Caller = { userId: UserId; actor: Actor; isForService: boolean }

export const isForService = (access: Access): boolean =>
  access.kind === 'login' &&
  access.membership !== null &&
  reachOf(access.membership.role, 'service-members:manage') !== 'none'

/** `createdBy`: of whom the key has to be; null if the caller may change every key. */
type Change = Caller & {
  orgId: OrgId
  keyId: KeyId
  createdBy: UserId | null
  name: string | undefined
  limits: AskedLimits
}

/**
 * Renames the key, or changes what it is limited to. It takes effect on every request that starts after the commit. Call it with the
 * organization locked: two changes by a key of itself would each wait for the other.
 */
export async function changeKey(
  tx: Transaction,
  deps: Pick<CreationDeps, 'keyDaysMax'>,
  { orgId, keyId, createdBy, name, limits, ...caller }: Change,
): Promise<void> {
  const { actor } = caller
  const creator = await creatorOf(tx, orgId, actor)
  const before = await lockActive(tx, orgId, keyId, createdBy)
  // A key changes no key that may do more than itself.
  refuseWider(before, creator)
  const after = { ...before, name: name ?? before.name, ...withDefaults(limits, before) }
  const wider = widerParts(after, before)
  if (wider.length > 0) checkMayWiden(before, caller, `would allow the key more (${wider.join(', ')})`)
  if (widerParts(before, after).includes('expires_at')) checkMayEnd(before, actor, creator)
  await checkDatabases(tx, orgId, after, before.restrictions?.databases)
  if (wider.includes('expires_at')) await limitEnd(tx, deps, { orgId, limits: after, isAsked: true })
  else if (limits.expiresAt) checkFuture(limits.expiresAt, (await keyLifetimeOf(tx, orgId)).nowMs)
  const details = { ...(name !== undefined && name !== before.name && { name }), ...changedLimits(before, after) }
  if (Object.keys(details).length === 0) return
  await updateKey(tx, orgId, keyId, after)
  await recordAudit(tx, { orgId, action: 'key.updated', actor, targetId: keyId, details })
}

/** The parts that differ, as they are now; null where nothing is limited. */
function changedLimits(before: KeyLimits, after: KeyLimits): Record<string, string | string[] | null> {
  const [old, now] = [limitDetails(before), limitDetails(after)]
  const names = Object.keys({ ...old, ...now }).filter(
    (part) => JSON.stringify(old[part]) !== JSON.stringify(now[part]),
  )
  return Object.fromEntries(names.map((part) => [part, now[part] ?? null]))
}

export async function lockActive(
  tx: Transaction,
  orgId: OrgId,
  keyId: KeyId,
  createdBy: UserId | null,
): Promise<LockedKey> {
  const key = await lockKey(tx, orgId, keyId)
  if (key === null || (createdBy !== null && key.createdBy !== createdBy)) throw notACallersKey(orgId, keyId)
  if (!key.isActive) {
    throw new Fault('key.not_active', {
      public: 'This API key is revoked or has expired. It stays so; create another key.',
    })
  }
  return key
}

/** An earlier end revokes the key at that time, so it takes the same permission. A key may always end itself. */
export function checkMayEnd(key: LockedKey, actor: Actor, { restrictions }: KeyLimits): void {
  if (actor.kind !== 'key' || actor.keyId === key.id) return
  const reach = limitReach('all', restrictions, 'keys:revoke')
  if (reach === 'none' || (reach === 'own' && key.createdBy !== actor.userId))
    throw keyLacks('keys:revoke', restrictions)
}

/** A leaked key must not outgrow its limits, and an admin must not get the rights of an owner through an owner's key. */
export function checkMayWiden(key: LockedKey, { userId, actor, isForService }: Caller, what: string): void {
  if (actor.kind === 'key') throw loginRequired(`This ${what}, which takes a login token.`)
  if (key.createdBy === userId || (key.isOfService && isForService)) return
  const who = key.isOfService ? 'an owner of the organization' : 'the user whom the key acts as'
  throw keyRestricted(`This ${what}. Only ${who} can do that.`)
}
