import type { OrgId, WebhookId } from '../kernel/ids.ts'
import type { Sealed } from '../kernel/master-keys.ts'
import type { Database } from './database.ts'

export type SealedSecret = { orgId: OrgId; id: WebhookId; sealed: Sealed }

type Row = { org_id: OrgId; id: WebhookId; secret_key_id: string; secret_box: Buffer }

export const listSecretsOfOtherKeys = async (db: Database, keyId: string, limit: number): Promise<SealedSecret[]> => {
  const rows = await db<Row[]>`
    select org_id, id, secret_key_id, secret_box from keyhook.webhooks
    where deleted_at is null and secret_key_id <> ${keyId}
    limit ${limit}`
  return rows.map((row) => ({
    orgId: row.org_id,
    id: row.id,
    sealed: { keyId: row.secret_key_id, box: row.secret_box },
  }))
}

/** Only if nobody else changed or erased it meanwhile. */
export const replaceSecret = async (
  db: Database,
  orgId: OrgId,
  id: WebhookId,
  from: Sealed,
  to: Sealed,
): Promise<void> => {
  await db`
    update keyhook.webhooks set secret_key_id = ${to.keyId}, secret_box = ${to.box}
    where org_id = ${orgId} and id = ${id} and secret_box = ${from.box}`
}
