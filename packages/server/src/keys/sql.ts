import type { KeyLimits, Restrictions } from '../access/restrictions.ts'
import type { Role } from '../access/roles.ts'
import type { Database, Executor, PageRequest, Transaction } from '../db/database.ts'
import type { DatabaseId, KeyId, OrgId, UserId } from '../lib/ids.ts'
import type { NamedKey } from './events.ts'

export type NewApiKey = {
  id: KeyId
  name: string
  keyPrefix: string
  hash: string
  createdBy: UserId
  /** Null for a login token. */
  createdByKey: KeyId | null
} & Partial<KeyLimits>

export type ApiKeyRow = {
  id: KeyId
  name: string
  key_prefix: string
  created_by: UserId
  created_by_key: KeyId | null
  creator_left: boolean
  created_at: Date
  last_used_at: Date | null
  revoked: boolean
  expired: boolean
  expires_at: Date | null
  restrictions: Restrictions | null
  refused_count: number
  last_refused_at: Date | null
  last_refused_address: string | null
  leaked_at: Date | null
  leaked_url: string | null
}

export type KeyStatus = 'active' | 'revoked' | 'all'

/**
 * Inserts unless the organization already has `keysMax` active keys. Call it with the organization locked. The role is null if the
 * user is no member any more.
 */
export const insertApiKey = (tx: Transaction, orgId: OrgId, key: NewApiKey, keysMax: number) =>
  tx<{ role: Role | null }[]>`
    insert into keyhook.api_keys (
      org_id, id, name, key_prefix, hash, restricted_hash, restrictions, expires_at, created_by, created_by_key, role
    )
    select ${orgId}, ${key.id}, ${key.name}, ${key.keyPrefix},
      decode(${isRestricted(key) ? null : key.hash}, 'hex'), decode(${isRestricted(key) ? key.hash : null}, 'hex'),
      ${key.restrictions ? JSON.stringify(key.restrictions) : null}::text::jsonb, ${key.expiresAt ?? null}::timestamptz,
      ${key.createdBy}, ${key.createdByKey},
      (select role from keyhook.memberships where org_id = ${orgId} and user_id = ${key.createdBy} for key share)
    where ${keysMax} > (
      select count(*) from (
        select from keyhook.api_keys
        where org_id = ${orgId} and revoked_at is null and (expires_at is null or expires_at > now())
        limit ${keysMax}
      ) k
    )
    returning role`.first()

const isRestricted = ({ restrictions = null, expiresAt = null }: Partial<KeyLimits>): boolean =>
  restrictions !== null || expiresAt !== null

/** A removal of the member locks the membership and then their keys. In another order, the two could deadlock. */
export const lockMembership = (tx: Transaction, orgId: OrgId, userId: UserId) => tx`
  select 1 from keyhook.memberships where org_id = ${orgId} and user_id = ${userId} for key share`

/** What an active key is limited to; null if it is not active. It stays so until the transaction ends. */
export const lockLimits = async (tx: Transaction, orgId: OrgId, keyId: KeyId): Promise<KeyLimits | null> => {
  const [key] = await tx<{ restrictions: Restrictions | null; expires_at: Date | null; active: boolean }[]>`
    select restrictions, expires_at, coalesce(expires_at > clock_timestamp(), true) as active from keyhook.api_keys
    where org_id = ${orgId} and id = ${keyId} and revoked_at is null
    for share`
  return key?.active ? { restrictions: key.restrictions, expiresAt: key.expires_at } : null
}

/** The longest that a new key may last, in days, as the organization has set it; and the time by the clock of PostgreSQL. */
export const keyLifetimeOf = async (tx: Executor, orgId: OrgId): Promise<{ daysMax: number | null; nowMs: number }> => {
  const [row] = await tx<{ key_days_max: number | null; now: Date }[]>`
    select key_days_max, clock_timestamp() as now from keyhook.organizations where id = ${orgId}`
  return { daysMax: row!.key_days_max, nowMs: row!.now.getTime() }
}

export const setKeyDaysMax = async (tx: Transaction, orgId: OrgId, days: number | null): Promise<number | null> => {
  const [row] = await tx<{ before: number | null }[]>`
    update keyhook.organizations o set key_days_max = ${days}
    from (select key_days_max as before from keyhook.organizations where id = ${orgId} for no key update) old
    where o.id = ${orgId} returning old.before`
  return row!.before
}

/** Of a deleted organization, whose memberships were deleted before. */
export const revokeKeysOfOrganization = async (tx: Transaction, orgId: OrgId): Promise<void> => {
  await tx`update keyhook.api_keys set revoked_at = now() where org_id = ${orgId} and revoked_at is null`
}

/** Those of them that the organization has. */
export const existingDatabases = async (
  tx: Transaction,
  orgId: OrgId,
  ids: readonly DatabaseId[],
): Promise<DatabaseId[]> => {
  const rows = await tx<{ id: DatabaseId }[]>`
    select id from keyhook.databases where org_id = ${orgId} and id = any (${[...ids]}::text[]) and status <> 'deleted'`
  return rows.map(({ id }) => id)
}

/** What can be changed in a key. Locked: no other change happens until the transaction ends. */
export type LockedKey = NamedKey & KeyLimits & { createdBy: UserId; isOfService: boolean; isActive: boolean }

export const lockKey = async (tx: Transaction, orgId: OrgId, id: KeyId): Promise<LockedKey | null> => {
  const [key] = await tx<
    {
      name: string
      key_prefix: string
      created_by: UserId
      restrictions: Restrictions | null
      expires_at: Date | null
      of_service: boolean
      active: boolean
    }[]
  >`
    select name, key_prefix, created_by, restrictions, expires_at,
      (select is_service from keyhook.users where id = created_by) as of_service,
      revoked_at is null and coalesce(expires_at > clock_timestamp(), true) as active
    from keyhook.api_keys where org_id = ${orgId} and id = ${id} for no key update`
  if (key === undefined) return null
  const { created_by: createdBy, key_prefix: keyPrefix, expires_at: expiresAt, of_service: isOfService } = key
  const { name, restrictions, active: isActive } = key
  return { id, name, keyPrefix, createdBy, isOfService, restrictions, expiresAt, isActive }
}

/** Call it with the key locked. */
export const updateKey = async (
  tx: Transaction,
  orgId: OrgId,
  id: KeyId,
  { name, restrictions, expiresAt }: KeyLimits & { name: string },
): Promise<void> => {
  const restricted = isRestricted({ restrictions, expiresAt })
  await tx`
    update keyhook.api_keys
    set name = ${name}, restrictions = ${restrictions && JSON.stringify(restrictions)}::text::jsonb,
      expires_at = ${expiresAt}::timestamptz,
      hash = case when ${restricted} then null else coalesce(hash, restricted_hash) end,
      restricted_hash = case when ${restricted} then coalesce(hash, restricted_hash) end
    where org_id = ${orgId} and id = ${id}`
}

export const keyPrefixTaken = 'api_keys_org_id_key_prefix_key'

/** `createdBy` null lists the keys of all members. */
export const listApiKeys = (
  db: Database,
  orgId: OrgId,
  filter: { status: KeyStatus; createdBy: UserId | null; id?: KeyId; unusedDays?: number | undefined },
  { before, limit }: PageRequest,
) => db<ApiKeyRow[]>`
  select id, name, key_prefix, created_by, created_by_key, role is null as creator_left, created_at, last_used_at,
    revoked_at is not null or coalesce(expires_at <= now(), false) as revoked,
    coalesce(expires_at <= now() and (revoked_at is null or revoked_at >= expires_at), false) as expired,
    expires_at, restrictions, least(coalesce(refused_count, 0), 2147483647)::int as refused_count, last_refused_at, last_refused_address,
    leaked_at, leaked_url
  from keyhook.api_keys
  left join keyhook.api_key_uses using (org_id, id)
  where org_id = ${orgId}
    and (${before}::text is null or id < ${before})
    and (${filter.createdBy}::text is null or created_by = ${filter.createdBy})
    ${filter.id === undefined ? db`` : db`and id = ${filter.id}`}
    ${
      filter.unusedDays === undefined
        ? db``
        : db`and greatest(created_at, last_used_at) < now() - make_interval(days => ${filter.unusedDays})`
    }
    ${
      {
        active: db`and revoked_at is null and (expires_at is null or expires_at > now())`,
        revoked: db`and (revoked_at is not null or expires_at <= now())`,
        all: db``,
      }[filter.status]
    }
  order by id desc
  limit ${limit}`

/** `key`: what was revoked; null if it was revoked or expired before. */
type Revocation = { key: NamedKey | null }

/** Null if there is no such key. */
export const revokeApiKey = async (
  tx: Transaction,
  orgId: OrgId,
  id: KeyId,
  createdBy: UserId | null,
): Promise<Revocation | null> => {
  const [key] = await tx<(NamedRow & { revoked: boolean })[]>`
    select id, name, key_prefix, revoked_at is not null or coalesce(expires_at <= now(), false) as revoked
    from keyhook.api_keys
    where org_id = ${orgId} and id = ${id} and (${createdBy}::text is null or created_by = ${createdBy})
    for update`
  if (key === undefined) return null
  if (key.revoked) return { key: null }
  await tx`update keyhook.api_keys set revoked_at = clock_timestamp() where org_id = ${orgId} and id = ${id}`
  return { key: namedOf(key) }
}

export type NamedRow = { id: KeyId; name: string; key_prefix: string }
export const namedOf = ({ id, name, key_prefix }: NamedRow): NamedKey => ({ id, name, keyPrefix: key_prefix })

/**
 * Revokes the key and every key that was created with it, directly or through others. Returns those that were active, oldest
 * first; null if there is no such key. Call it with the organization locked: then no key is created meanwhile, and one that is
 * created afterwards finds its creator revoked (`lockLimits`).
 */
export const revokeWithDescendants = async (
  tx: Transaction,
  orgId: OrgId,
  id: KeyId,
  createdBy: UserId | null,
): Promise<NamedKey[] | null> => {
  const [root] = await tx<{ created_by: UserId }[]>`
    select created_by from keyhook.api_keys where org_id = ${orgId} and id = ${id}`
  if (root === undefined || (createdBy !== null && root.created_by !== createdBy)) return null
  await lockMembership(tx, orgId, root.created_by)
  // `offset 0`: one index look-up for each key of the tree, also while the table has no statistics.
  const revoked = await tx<NamedRow[]>`
    with recursive tree as (
      select ${id}::text collate "C" as id
      union all
      select child.id from tree cross join lateral (
        select k.id from keyhook.api_keys k where k.org_id = ${orgId} and k.created_by_key = tree.id offset 0
      ) as child
    )
    update keyhook.api_keys k set revoked_at = clock_timestamp()
    where k.org_id = ${orgId} and k.id = any (array(select tree.id from tree)) and k.revoked_at is null
      and (k.expires_at is null or k.expires_at > now())
    returning k.id, k.name, k.key_prefix`
  return revoked.map(namedOf).sort((a, b) => (a.id < b.id ? -1 : 1))
}

/** Returns the keys that were active. */
export const revokeKeysOfUser = async (tx: Transaction, orgId: OrgId, userId: UserId): Promise<NamedKey[]> => {
  const revoked = await tx<NamedRow[]>`
    update keyhook.api_keys set revoked_at = clock_timestamp()
    where org_id = ${orgId} and created_by = ${userId} and revoked_at is null
      and (expires_at is null or expires_at > now())
    returning id, name, key_prefix`
  return revoked.map(namedOf)
}

export type KeyUse = { orgId: OrgId; keyId: KeyId; at: Date }

/** Many uses in one statement, in id order, so that two nodes cannot deadlock. */
export const recordKeyUses = async (db: Database, uses: readonly KeyUse[]): Promise<void> => {
  const sorted = uses.toSorted((a, b) => (a.keyId < b.keyId ? -1 : 1))
  await db`
    insert into keyhook.api_key_uses as known (org_id, id, last_used_at)
    select u.org_id, u.id, u.at
    from unnest(
      ${sorted.map((use) => use.orgId)}::text[],
      ${sorted.map((use) => use.keyId)}::text[],
      ${sorted.map((use) => use.at.toISOString())}::timestamptz[]
    ) with ordinality as u (org_id, id, at, n)
    -- A key that was erased with its organization must not cost the others their uses.
    cross join lateral (select from keyhook.api_keys k where k.org_id = u.org_id and k.id = u.id offset 0) k
    order by u.n
    on conflict (org_id, id) do update set last_used_at = excluded.last_used_at
    where known.last_used_at is null or known.last_used_at < excluded.last_used_at`
}

export type KeyRefusals = { orgId: OrgId; keyId: KeyId; count: number; at: Date; address: string }

/** In id order, so that two nodes cannot deadlock. */
export const recordKeyRefusals = async (db: Database, refusals: readonly KeyRefusals[]): Promise<void> => {
  const sorted = refusals.toSorted((a, b) => (a.keyId < b.keyId ? -1 : 1))
  await db`
    insert into keyhook.api_key_uses as known (org_id, id, refused_count, last_refused_at, last_refused_address)
    select r.org_id, r.id, r.count, r.at, r.address
    from unnest(
      ${sorted.map(({ orgId }) => orgId)}::text[], ${sorted.map(({ keyId }) => keyId)}::text[],
      ${sorted.map(({ count }) => count)}::bigint[], ${sorted.map(({ at }) => at.toISOString())}::timestamptz[],
      ${sorted.map(({ address }) => address)}::text[]
    ) with ordinality as r (org_id, id, count, at, address, n)
    cross join lateral (select from keyhook.api_keys k where k.org_id = r.org_id and k.id = r.id offset 0) k
    order by r.n
    on conflict (org_id, id) do update set refused_count = known.refused_count + excluded.refused_count,
      last_refused_at = excluded.last_refused_at, last_refused_address = excluded.last_refused_address`
}
