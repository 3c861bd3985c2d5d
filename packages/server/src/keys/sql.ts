import type { Role } from '../access/roles.ts'
import type { Database, PageRequest, Transaction } from '../db/database.ts'
import type { KeyId, OrgId, UserId } from '../lib/ids.ts'

export type NewApiKey = {
  id: KeyId
  name: string
  keyPrefix: string
  hash: string
  createdBy: UserId
  /** Null for a login token. */
  createdByKey: KeyId | null
}

export type ApiKeyRow = {
  id: KeyId
  name: string
  key_prefix: string
  created_by: UserId
  created_by_key: KeyId | null
  creator_left: boolean
  created_at: Date
  last_used_at: Date | null
  revoked_at: Date | null
}

export type KeyStatus = 'active' | 'revoked' | 'all'

/**
 * Inserts unless the organization already has `keysMax` active keys. Call it with the organization locked. The role is null if the
 * user is no member any more.
 */
export const insertApiKey = (tx: Transaction, orgId: OrgId, key: NewApiKey, keysMax: number) =>
  tx<{ role: Role | null }[]>`
    insert into keyhook.api_keys (org_id, id, name, key_prefix, hash, created_by, created_by_key, role)
    select ${orgId}, ${key.id}, ${key.name}, ${key.keyPrefix}, decode(${key.hash}, 'hex'), ${key.createdBy},
      ${key.createdByKey},
      (select role from keyhook.memberships where org_id = ${orgId} and user_id = ${key.createdBy} for key share)
    where ${keysMax} > (
      select count(*) from (
        select from keyhook.api_keys where org_id = ${orgId} and revoked_at is null limit ${keysMax}
      ) k
    )
    returning role`.first()

/** True if the key is active; it stays so until the transaction ends. */
export const lockActiveKey = (tx: Transaction, orgId: OrgId, id: KeyId) =>
  tx`
    select 1 from keyhook.api_keys where org_id = ${orgId} and id = ${id} and revoked_at is null for share`.exists()

export const keyPrefixTaken = 'api_keys_org_id_key_prefix_key'

/** `createdBy` null lists the keys of all members. */
export const listApiKeys = (
  db: Database,
  orgId: OrgId,
  filter: { status: KeyStatus; createdBy: UserId | null },
  { before, limit }: PageRequest,
) => db<ApiKeyRow[]>`
  select id, name, key_prefix, created_by, created_by_key, role is null as creator_left, created_at, last_used_at, revoked_at
  from keyhook.api_keys
  left join keyhook.api_key_uses using (org_id, id)
  where org_id = ${orgId}
    and (${before}::text is null or id < ${before})
    and (${filter.createdBy}::text is null or created_by = ${filter.createdBy})
    ${
      {
        active: db`and revoked_at is null`,
        revoked: db`and revoked_at is not null`,
        all: db``,
      }[filter.status]
    }
  order by id desc
  limit ${limit}`

type Revocation = 'revoked' | 'already_revoked' | 'no_such_key'

export const revokeApiKey = async (
  tx: Transaction,
  orgId: OrgId,
  id: KeyId,
  createdBy: UserId | null,
): Promise<Revocation> => {
  const [key] = await tx<{ revoked: boolean }[]>`
    select revoked_at is not null as revoked from keyhook.api_keys
    where org_id = ${orgId} and id = ${id} and (${createdBy}::text is null or created_by = ${createdBy})
    for update`
  if (key === undefined) return 'no_such_key'
  if (key.revoked) return 'already_revoked'
  await tx`update keyhook.api_keys set revoked_at = clock_timestamp() where org_id = ${orgId} and id = ${id}`
  return 'revoked'
}

/**
 * Revokes the key and every key that was created with it, directly or through others. Returns those that were active, oldest
 * first; null if there is no such key. Call it with the organization locked: then no key is created meanwhile, and one that is
 * created afterwards finds its creator revoked (`lockActiveKey`).
 */
export const revokeWithDescendants = async (
  tx: Transaction,
  orgId: OrgId,
  id: KeyId,
  createdBy: UserId | null,
): Promise<KeyId[] | null> => {
  const [root] = await tx<{ created_by: UserId }[]>`
    select created_by from keyhook.api_keys where org_id = ${orgId} and id = ${id}`
  if (root === undefined || (createdBy !== null && root.created_by !== createdBy)) return null
  // A removal of the member locks the membership and then their keys. In another order here, the two could deadlock.
  await tx`
    select 1 from keyhook.memberships where org_id = ${orgId} and user_id = ${root.created_by} for key share`
  // `offset 0`: one index look-up for each key of the tree, also while the table has no statistics.
  const revoked = await tx<{ id: KeyId }[]>`
    with recursive tree as (
      select ${id}::text collate "C" as id
      union all
      select child.id from tree cross join lateral (
        select k.id from keyhook.api_keys k where k.org_id = ${orgId} and k.created_by_key = tree.id offset 0
      ) as child
    )
    update keyhook.api_keys k set revoked_at = clock_timestamp()
    where k.org_id = ${orgId} and k.id = any (array(select tree.id from tree)) and k.revoked_at is null
    returning k.id`
  return revoked.map((row) => row.id).sort()
}

/** Returns the keys that were active. */
export const revokeKeysOfUser = async (tx: Transaction, orgId: OrgId, userId: UserId): Promise<KeyId[]> => {
  const revoked = await tx<{ id: KeyId }[]>`
    update keyhook.api_keys set revoked_at = clock_timestamp()
    where org_id = ${orgId} and created_by = ${userId} and revoked_at is null
    returning id`
  return revoked.map(({ id }) => id)
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
    order by u.n
    on conflict (org_id, id) do update set last_used_at = excluded.last_used_at
    where known.last_used_at < excluded.last_used_at`
}
