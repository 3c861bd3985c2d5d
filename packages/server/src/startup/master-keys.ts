import { randomBytes } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { operator, recordAudit } from '../access/audit.ts'
import { archiveKeyIds } from '../backups/sql.ts'
import { deleteAuthorityUnder, findAuthority, resealAuthority, sealContext } from '../databases/certificates.ts'
import type { Database } from '../db/database.ts'
import { createMasterKeys, type MasterKeys } from '../lib/master-keys.ts'
import { readSecret, writeSecret, writeSecretOnce } from '../postgres/data-directory.ts'
import type { Config } from '../settings/config.ts'
import {
  anySecretUnder,
  endRotation,
  keyIdsInUse,
  listSecretsOfKey,
  listSecretsOfOtherKeys,
  lockSecretsUnder,
  replaceSecret,
  type SecretPlace,
} from '../webhooks/secrets-sql.ts'
import { deleteWebhook } from '../webhooks/sql.ts'

/** A key that is needed is missing. The message says what to do. */
export class MasterKeyMissing extends Error {
  override readonly name = 'MasterKeyMissing'
}

type Place = Pick<Config, 'masterKeys' | 'dataDir'>

type Options = {
  /** For commands that open no secret, and for those that deal with a lost key. */
  keysMayBeMissing?: boolean | undefined
  /** Called with the missing keys when some secrets cannot be opened and others can. */
  onSomeMissing?: ((keyIds: string[]) => void) | undefined
  /** Called with the missing keys when some archives cannot be decrypted. */
  onArchiveKeysMissing?: ((keyIds: string[]) => void) | undefined
}

/**
 * The keys of the settings or of the data directory. A first key is created only where no secret was ever sealed, and no
 * archive encrypted: with a new key instead of a lost one the start would succeed, and no webhook could be signed.
 */
export async function openMasterKeys(db: Database, config: Place, options: Options = {}): Promise<MasterKeys> {
  const given = config.masterKeys ?? (await readFromFile(config.dataDir))
  const known = given && createMasterKeys(given)
  if (config.masterKeys === null && !options.keysMayBeMissing) await checkLastKey(config, known)
  const isMissing = (id: string) => !known?.keyIds.includes(id)
  const missing = (await keyIdsInUse(db)).filter(isMissing)
  const missingForArchives = (await archiveKeyIds(db)).filter(isMissing)
  if (missing.length === 0 && missingForArchives.length === 0)
    return known ?? createMasterKeys([await makeMasterKey(config.dataDir)])
  if (missing.length > 0) {
    if (known !== null && (await anySecretUnder(db, known.keyIds))) options.onSomeMissing?.(missing)
    else if (!options.keysMayBeMissing) throw new MasterKeyMissing(explain(config, known, missing, sealed))
  }
  if (missingForArchives.length > 0) {
    if (known !== null) options.onArchiveKeysMissing?.(missingForArchives)
    else if (!options.keysMayBeMissing) throw new MasterKeyMissing(explainArchives(config, missingForArchives))
  }
  // Not stored: it seals nothing.
  return known ?? createMasterKeys([randomBytes(32)])
}

/** A server that issues certificates could not start its databases, and would end shortly after it was ready. */
export async function checkAuthorityKey(db: Database, masterKeys: MasterKeys): Promise<void> {
  const keyId = (await findAuthority(db))?.key.keyId
  if (keyId === undefined || masterKeys.keyIds.includes(keyId)) return
  throw new MasterKeyMissing(
    `The certificate authority of the databases is sealed under master key ${keyId}, which KEYHOOK_MASTER_KEY does not list. List it ` +
      `too (KEYHOOK_MASTER_KEY=<new>,<old>); or, if it is lost for good: npx keyhook secrets abandon --key ${keyId}`,
  )
}

/** Without KEYHOOK_MASTER_KEY only the key of the last server is accepted. */
async function checkLastKey(config: Place, known: MasterKeys | null): Promise<void> {
  const last = await lastKeyId(config.dataDir)
  if (last === null || last === known?.currentKeyId) return
  throw new MasterKeyMissing(explain(config, known, [last], 'with which the server ran last'))
}

const readFromFile = async (dataDir: string): Promise<[Buffer] | null> => {
  const key = await readMasterKey(dataDir)
  return key === null ? null : [key]
}

const sealed = 'under which the secrets of webhooks are sealed'

function explain(config: Place, known: MasterKeys | null, missing: string[], why: string): string {
  const path = masterKeyPath(config.dataDir)
  // The most likely reason comes first: the variable is not set in this terminal.
  const forgotten = config.masterKeys ? '' : 'If the server runs with KEYHOOK_MASTER_KEY, set it here too. '
  const where = config.masterKeys ? 'KEYHOOK_MASTER_KEY does not list' : `${path} does not hold`
  const what = known === null ? `${path} is missing, which may have held` : where
  const remedy = config.masterKeys ? 'List it too (KEYHOOK_MASTER_KEY=<new>,<old>)' : 'Restore it from a backup'
  return (
    `${forgotten}${what} master key ${missing.join(' or ')}, ${why}. ${remedy}; or, if it is lost for good, ` +
    `delete the webhooks that it sealed: npx keyhook secrets abandon --key ${missing[0]}`
  )
}

const explainArchives = ({ dataDir }: Place, missing: string[]): string =>
  `If the server runs with KEYHOOK_MASTER_KEY, set it here too. ${masterKeyPath(dataDir)} is missing, which may have held master ` +
  `key ${missing.join(' or ')}, under which archives of backups are encrypted. Restore it from a backup; or, if it is lost for ` +
  'good, set KEYHOOK_MASTER_KEY to a new one (openssl rand -base64 32): those backups can never be restored.'

/** The message says what to do. */
export class MasterKeyDamaged extends Error {
  override readonly name = 'MasterKeyDamaged'
}

export const masterKeyPath = (dataDir: string): string => join(dataDir, 'master.key')

/** Creates the first master key of an embedded installation. */
export async function makeMasterKey(dataDir: string): Promise<Buffer> {
  await writeSecretOnce(masterKeyPath(dataDir), randomBytes(32).toString('base64'))
  return (await readMasterKey(dataDir))!
}

/** Null where there is none. */
export async function readMasterKey(dataDir: string): Promise<Buffer | null> {
  const path = masterKeyPath(dataDir)
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (text === null) return null
  const key = Buffer.from(text.trim(), 'base64')
  if (key.length !== 32) {
    throw new MasterKeyDamaged(
      `${path} does not hold a master key (32 bytes, base64). Restore it from a backup: without it no webhook secret can be read.`,
    )
  }
  return key
}

const lastKeyPath = (dataDir: string): string => `${masterKeyPath(dataDir)}.id`

/**
 * The key that the last server ran with. After KEYHOOK_MASTER_KEY has replaced the key of the file, a start without the variable
 * must not fall back to it: tokens that it signed, perhaps after it had leaked, would be valid again.
 */
const lastKeyId = async (dataDir: string): Promise<string | null> => (await readSecret(lastKeyPath(dataDir))) ?? null

export async function rememberKeyId(dataDir: string, keyId: string): Promise<void> {
  if ((await lastKeyId(dataDir)) !== keyId) await writeSecret(lastKeyPath(dataDir), keyId)
}

/** For a key that is lost for good. */
export async function forgetKeyId(dataDir: string, keyId: string): Promise<void> {
  if ((await lastKeyId(dataDir)) === keyId) await rm(lastKeyPath(dataDir))
}

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
