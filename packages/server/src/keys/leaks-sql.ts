import type { Database, Transaction } from '../db/database.ts'
import type { KeyId, OrgId } from '../lib/ids.ts'
import type { NamedKey } from './events.ts'
import { type NamedRow, namedOf } from './sql.ts'

type ReportedKey = { hash: string; orgId: OrgId; keyId: KeyId; isKnown: boolean }

/** Of any organization and in any state, by hashes in hex. `isKnown`: somebody has reported it before. */
export const findReportedKeys = (db: Database, hashes: readonly string[]) => db<ReportedKey[]>`
  select p.hash, k.org_id as "orgId", k.id as "keyId", k.leaked_at is not null as "isKnown"
  from unnest(${[...hashes]}::text[]) as p (hash)
  cross join lateral (
    select org_id, id, leaked_at from keyhook.api_keys
    where coalesce(hash, restricted_hash) = decode(p.hash, 'hex') and revoked_at is null and role is not null
    union all
    select org_id, id, leaked_at from keyhook.api_keys
    where coalesce(hash, restricted_hash) = decode(p.hash, 'hex') and (revoked_at is not null or role is null)
    offset 0
  ) as k`

/** Null if it is marked already. */
export const markLeaked = async (
  tx: Transaction,
  orgId: OrgId,
  id: KeyId,
  url: string | null,
): Promise<NamedKey | null> => {
  const [key] = await tx<NamedRow[]>`
    update keyhook.api_keys set leaked_at = clock_timestamp(), leaked_url = ${url}
    where org_id = ${orgId} and id = ${id} and leaked_at is null
    returning id, name, key_prefix`
  return key === undefined ? null : namedOf(key)
}
