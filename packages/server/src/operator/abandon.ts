import type { Database } from '../db/database.ts'
import { operator } from '../domain/audit.ts'
import { recordAudit } from '../store/audit.ts'
import { keepSecretUnder, listSecretsOfKey, type SecretPlace } from '../store/webhook-secrets.ts'
import { deleteWebhook } from '../store/webhooks.ts'

const pageRows = 500

/** Deletes every webhook whose secret is sealed under a master key that is lost: nothing can be signed for it any more. */
export async function abandonSecrets(db: Database, keyId: string): Promise<number> {
  let deleted = 0
  let last: SecretPlace | null = null
  for (;;) {
    const page: SecretPlace[] = await listSecretsOfKey(db, keyId, last, pageRows)
    for (const { orgId, id } of page) {
      const isDeleted = await db.begin(async (tx) => {
        // Somebody may have found the key meanwhile, and sealed the secret anew.
        if (!(await keepSecretUnder(tx, orgId, id, keyId)) || !(await deleteWebhook(tx, orgId, id))) return false
        await recordAudit(tx, { orgId, action: 'webhook.deleted', actor: operator, targetId: id })
        return true
      })
      if (isDeleted) deleted += 1
    }
    if (page.length < pageRows) return deleted
    last = page.at(-1)!
  }
}
