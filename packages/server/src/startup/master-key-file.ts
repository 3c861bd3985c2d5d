import { randomBytes } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { readSecret, writeSecret, writeSecretOnce } from '../embedded/data-directory.ts'

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
export const lastKeyId = async (dataDir: string): Promise<string | null> =>
  (await readSecret(lastKeyPath(dataDir))) ?? null

export async function rememberKeyId(dataDir: string, keyId: string): Promise<void> {
  if ((await lastKeyId(dataDir)) !== keyId) await writeSecret(lastKeyPath(dataDir), keyId)
}

/** For a key that is lost for good. */
export async function forgetKeyId(dataDir: string, keyId: string): Promise<void> {
  if ((await lastKeyId(dataDir)) === keyId) await rm(lastKeyPath(dataDir))
}
