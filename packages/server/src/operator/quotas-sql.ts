import type { Quotas } from '../access/quotas.ts'
import type { Executor, Transaction } from '../db/database.ts'
import type { OrgId } from '../lib/ids.ts'

/** `changed_at` tells every node that counts requests. A row is never deleted: they would not see that. */
export const storeQuotas = async (tx: Transaction, orgId: OrgId, quotas: Quotas): Promise<void> => {
  await tx`
    insert into keyhook.organization_quotas (
      org_id, keys, webhooks, databases, members, database_bytes, archive_bytes, key_requests, requests
    )
    values (
      ${orgId}, ${quotas.keys}, ${quotas.webhooks}, ${quotas.databases}, ${quotas.members},
      ${quotas.database_bytes}, ${quotas.archive_bytes}, ${quotas.key_requests}, ${quotas.requests}
    )
    on conflict (org_id) do update set keys = excluded.keys, webhooks = excluded.webhooks,
      databases = excluded.databases, members = excluded.members, database_bytes = excluded.database_bytes,
      archive_bytes = excluded.archive_bytes, key_requests = excluded.key_requests, requests = excluded.requests,
      changed_at = clock_timestamp()`
}

type Counts = Record<'keys' | 'webhooks' | 'databases', number>

/** Counted as the limits count. */
export const countRecords = (db: Executor, orgId: OrgId) =>
  db<Counts[]>`
    select
      (select count(*)::int from keyhook.api_keys
        where org_id = ${orgId} and revoked_at is null and (expires_at is null or expires_at > now())) as keys,
      (select count(*)::int from keyhook.webhooks where org_id = ${orgId} and deleted_at is null) as webhooks,
      (select count(*)::int from keyhook.databases where org_id = ${orgId} and status <> 'deleted') as databases`.one()
