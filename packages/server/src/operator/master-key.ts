import { operator, recordAudit } from '../access/audit.ts'
import { deleteAuthorityUnder, findAuthority, resealAuthority, sealContext } from '../databases/certificates.ts'
import type { Database } from '../db/database.ts'
import type { MasterKeys } from '../lib/master-keys.ts'
import {
  endRotation,
  listSecretsOfKey,
  listSecretsOfOtherKeys,
  lockSecretsUnder,
  replaceSecret,
  type SecretPlace,
} from '../webhooks/secrets-sql.ts'
import { deleteWebhook } from '../webhooks/sql.ts'

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
        const { current, old } = await lockSecretsUnder(tx, orgId, id, keyId)
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

/**
 * Seals every webhook secret, and the key of the databases' certificate authority, under the current master key, so that older
 * keys can be removed from the settings.
 */
export async function resealSecrets(db: Database, masterKeys: MasterKeys): Promise<number> {
  let resealed = 0
  const key = (await findAuthority(db))?.key
  if (key !== undefined && key.keyId !== masterKeys.currentKeyId) {
    const isResealed = await resealAuthority(db, key, masterKeys.seal(masterKeys.open(key, sealContext), sealContext))
    if (isResealed) resealed += 1
  }
  for (;;) {
    const rows = await listSecretsOfOtherKeys(db, masterKeys.currentKeyId, pageRows)
    for (const { orgId, id, sealed } of rows) {
      const secret = masterKeys.open(sealed, id)
      await replaceSecret(db, orgId, id, sealed, masterKeys.seal(secret, id))
      resealed += 1
    }
    if (rows.length < pageRows) return resealed
  }
}
