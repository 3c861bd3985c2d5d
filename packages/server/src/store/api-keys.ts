import type { Database, Transaction } from '../db/database.ts'
import type { KeyId, OrgId, UserId } from '../kernel/ids.ts'
import type { PageRequest } from './page.ts'

export type NewApiKey = { id: KeyId; name: string; keyPrefix: string; hash: string; createdBy: UserId }

export type ApiKeyRow = {
  id: KeyId
  name: string
  key_prefix: string
  created_by: UserId
  created_at: Date
  last_used_at: Date | null
  revoked_at: Date | null
}

export type KeyStatus = 'active' | 'revoked' | 'all'

/** Inserts unless the organization already has `keysMax` active keys. Call it with the organization locked. */
export const insertApiKey = async (
  tx: Transaction,
  orgId: OrgId,
  key: NewApiKey,
  keysMax: number,
): Promise<boolean> => {
  const inserted = await tx`
    insert into keyhook.api_keys (org_id, id, name, key_prefix, hash, created_by, role)
    select ${orgId}, ${key.id}, ${key.name}, ${key.keyPrefix}, decode(${key.hash}, 'hex'), ${key.createdBy},
      (select role from keyhook.memberships where org_id = ${orgId} and user_id = ${key.createdBy} for key share)
    where ${keysMax} > (
      select count(*) from (
        select from keyhook.api_keys where org_id = ${orgId} and revoked_at is null limit ${keysMax}
      ) k
    )`
  return inserted.count === 1
}

export const keyPrefixTaken = 'api_keys_org_id_key_prefix_key'

/** `createdBy` null lists the keys of all members. */
export const listApiKeys = (
  db: Database,
  orgId: OrgId,
  filter: { status: KeyStatus; createdBy: UserId | null },
  { before, limit }: PageRequest,
) => db<ApiKeyRow[]>`
  select id, name, key_prefix, created_by, created_at, last_used_at, revoked_at
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

export type Revocation = 'revoked' | 'already_revoked' | 'no_such_key'

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
