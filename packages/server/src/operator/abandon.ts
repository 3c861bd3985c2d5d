import type { Database } from '../db/database.ts'
import { operator } from '../domain/audit.ts'
import { recordAudit } from '../store/audit.ts'
import { deleteAuthorityUnder } from '../store/platform/certificate-authority.ts'
import { endRotation } from '../store/secret-rotation.ts'
import { keepSecretsUnder, listSecretsOfKey, type SecretPlace } from '../store/webhook-secrets.ts'
import { deleteWebhook } from '../store/webhooks.ts'

const pageRows = 500

/**
 * Deletes every webhook whose secret is encrypted under a lost master key: its deliveries cannot be signed. Where only the old secret
 * of a rotation is, the rotation ends instead. A certificate authority under that key goes too; the next start creates another.
 */
export async function abandonSecrets(db: Database, keyId: string): Promise<number> {
  let deleted = 0
  await deleteAuthorityUnder(db, keyId)
  let last: SecretPlace | null = null
  for (;;) {
    const page: SecretPlace[] = await listSecretsOfKey(db, keyId, last, pageRows)
    for (const { orgId, id } of page) {
      const isDeleted = await db.begin(async (tx) => {
        // The secret may have been sealed under another key in the meantime.
        const { current, old } = await keepSecretsUnder(tx, orgId, id, keyId)
        if (!current && old) {
          await endRotation(tx, orgId, id)
          await recordAudit(tx, { orgId, action: 'webhook.secret_switched', actor: operator, targetId: id })
        }
        if (!current || !(await deleteWebhook(tx, orgId, id))) return false
        await recordAudit(tx, { orgId, action: 'webhook.deleted', actor: operator, targetId: id })
        return true
      })
      if (isDeleted) deleted += 1
    }
    if (page.length < pageRows) return deleted
    last = page.at(-1)!
  }
}
