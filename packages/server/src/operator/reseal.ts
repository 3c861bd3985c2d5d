import type { Database } from '../db/database.ts'
import type { MasterKeys } from '../kernel/master-keys.ts'
import { findAuthority, resealAuthority, sealContext } from '../store/platform/certificate-authority.ts'
import { listSecretsOfOtherKeys, replaceSecret } from '../store/webhook-secrets.ts'

const pageRows = 500

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
