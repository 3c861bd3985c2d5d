import { type Actor, insertAudits, recordAudit } from '../access/audit.ts'
import { invalidToken } from '../access/authenticate.ts'
import { type Database, type HoldOrganization, isUniqueViolation, type Transaction } from '../db/database.ts'
import { Fault, notFound } from '../lib/faults.ts'
import { type KeyId, newId, type OrgId, type UserId } from '../lib/ids.ts'
import { mintApiKey } from '../lib/secrets.ts'
import {
  insertApiKey,
  type KeyUse,
  keyPrefixTaken,
  lockActiveKey,
  recordKeyUses,
  revokeApiKey,
  revokeKeysOfUser,
  revokeWithDescendants,
} from './sql.ts'

export type CreationDeps = { holdOrganization: HoldOrganization; keyTag: string; keysPerOrgMax: number }
type Creation = { orgId: OrgId; userId: UserId; actor: Actor; name: string }
type CreatedKey = { id: KeyId; keyPrefix: string; apiKey: string }

/** Two keys of one organization must not share a prefix, which identifies them. With 47 bits that is rare. */
export const createApiKey = (deps: CreationDeps, request: Creation): Promise<CreatedKey> =>
  tryToCreate(deps, request).catch((error) => {
    if (!isUniqueViolation(error, keyPrefixTaken)) throw error
    return tryToCreate(deps, request)
  })

async function tryToCreate(deps: CreationDeps, { orgId, userId, actor, name }: Creation): Promise<CreatedKey> {
  // 1. Mint the key. Only its hash is stored.
  const { apiKey, keyPrefix, hash } = mintApiKey(deps.keyTag)
  const id = newId('key')
  const createdByKey = actor.kind === 'key' ? actor.keyId : null
  await deps.holdOrganization(orgId, async (tx) => {
    // 2. Store it, unless the organization has its most.
    const key = { id, name, keyPrefix, hash, createdBy: userId, createdByKey }
    const inserted = await insertApiKey(tx, orgId, key, deps.keysPerOrgMax)
    if (inserted === null) throw tooManyKeys(deps.keysPerOrgMax)
    // 3. A member or key that was removed since the request was authenticated must leave no key behind.
    if (inserted.role === null) throw invalidToken(`${userId} was removed while they created a key`)
    if (createdByKey !== null && !(await lockActiveKey(tx, orgId, createdByKey))) {
      throw invalidToken(`${createdByKey} was revoked while it created a key`)
    }
    // 4. Record it.
    const details = { name, key_prefix: keyPrefix }
    await recordAudit(tx, { orgId, action: 'key.created', actor, targetId: id, details })
  })
  return { id, keyPrefix, apiKey }
}

const tooManyKeys = (max: number): Fault =>
  new Fault('limit.reached', {
    public: `This organization has ${max} active API keys, the most it may have. Revoke one first.`,
  })

/** `createdBy`: of whom the key has to be; null if the caller may revoke every key. */
type Revocation = { orgId: OrgId; keyId: KeyId; createdBy: UserId | null; actor: Actor }

/** Revokes a key. Returns the keys that were active until now: none if it is repeated. */
export async function revokeOne(tx: Transaction, { orgId, keyId, createdBy, actor }: Revocation): Promise<KeyId[]> {
  const outcome = await revokeApiKey(tx, orgId, keyId, createdBy)
  if (outcome === 'no_such_key') throw notACallersKey(orgId, keyId)
  if (outcome === 'already_revoked') return []
  await recordAudit(tx, { orgId, action: 'key.revoked', actor, targetId: keyId })
  return [keyId]
}

/** Revokes a key and its descendants. Call it with the organization locked. */
export async function revokeTree(tx: Transaction, { orgId, keyId, createdBy, actor }: Revocation): Promise<KeyId[]> {
  const revoked = await revokeWithDescendants(tx, orgId, keyId, createdBy)
  if (revoked === null) throw notACallersKey(orgId, keyId)
  await recordRevocations(tx, orgId, actor, revoked, (id) => id !== keyId && { details: { descendant_of: keyId } })
  return revoked
}

/** Revokes every key that acts as a removed member. Call it after the membership was deleted. */
export async function revokeKeysOf(tx: Transaction, orgId: OrgId, userId: UserId, actor: Actor): Promise<void> {
  const revoked = await revokeKeysOfUser(tx, orgId, userId)
  await recordRevocations(tx, orgId, actor, revoked, () => ({ details: { member_removed: userId } }))
}

const notACallersKey = (orgId: OrgId, keyId: KeyId): Fault =>
  notFound(`${keyId} is not in ${orgId}, or not the caller's`)

async function recordRevocations(
  tx: Transaction,
  orgId: OrgId,
  actor: Actor,
  revoked: readonly KeyId[],
  details: (id: KeyId) => false | { details: Record<string, string> },
): Promise<void> {
  const entries = revoked.map((id) => ({ orgId, action: 'key.revoked' as const, actor, targetId: id, ...details(id) }))
  if (entries.length > 0) await insertAudits(tx, entries)
}

export type KeyUses = {
  /** Remembers the use in memory: no request waits for the write. */
  note(orgId: OrgId, keyId: KeyId): void
  /** Writes what is remembered and stops the timers. */
  close(): Promise<void>
}

/** A key that was not used for a while is written soon, so that the list shows at once that it is in use. */
const soonMs = 2_000
/** A key in constant use is written this often: every write leaves a dead row version to clean up. */
const laterMs = 20_000
/** A burst of distinct keys is written early instead of growing the map. */
const rememberedMax = 20_000
const statementMax = 2_000
/** How exact `last_used_at` is. Within this time further uses of a key cost one look-up in a Set (0.15 us). */
const resolutionMs = 500

/** No batcher of `lib`: uses are merged by key, and a statement must not have a key twice. */
export function createKeyUses(deps: { db: Database; now: () => Date; onError: (error: unknown) => void }): KeyUses {
  let soon = new Map<KeyId, KeyUse>()
  let later = new Map<KeyId, KeyUse>()
  let written = new Set<KeyId>()
  let writing: Promise<void> = Promise.resolve()
  const justUsed = new Set<KeyId>()

  function write(uses: KeyUse[]): Promise<void> {
    // One after the other: an older batch must not overwrite a newer one.
    writing = writing.then(async () => {
      for (let start = 0; start < uses.length; start += statementMax) {
        await recordKeyUses(deps.db, uses.slice(start, start + statementMax)).catch(deps.onError)
      }
    })
    return writing
  }

  function writeSoon(): Promise<void> {
    const uses = [...soon.values()]
    soon = new Map()
    for (const { keyId } of uses) written.add(keyId)
    return write(uses)
  }

  function writeLater(): Promise<void> {
    const uses = [...later.values()]
    later = new Map()
    written = new Set()
    return write(uses)
  }

  const timers = [
    setInterval(() => justUsed.clear(), resolutionMs),
    setInterval(() => void (soon.size > 0 && writeSoon()), soonMs),
    setInterval(() => void writeLater(), laterMs),
  ]
  for (const timer of timers) timer.unref()

  return {
    note(orgId, keyId) {
      if (justUsed.has(keyId)) return
      justUsed.add(keyId)
      const uses = written.has(keyId) ? later : soon
      const use = uses.get(keyId)
      if (use === undefined) uses.set(keyId, { orgId, keyId, at: deps.now() })
      else use.at = deps.now()
      if (soon.size >= rememberedMax) void writeSoon()
      if (written.size >= rememberedMax) void writeLater()
    },
    async close() {
      for (const timer of timers) clearInterval(timer)
      await writeSoon()
      await writeLater()
    },
  }
}
