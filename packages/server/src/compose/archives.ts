import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { type Config, ConfigProblems } from '../config.ts'
import { foreignOwnerOf } from '../embedded/ownership.ts'
import type { MasterKeys } from '../kernel/master-keys.ts'
import type { ArchiveStore } from '../platform/archive/archive-store.ts'
import { type BackupArchives, createBackupArchives } from '../platform/archive/backup-archives.ts'
import { checkArchiveDirectory, createDirectoryStore, directoryIdentity } from '../platform/archive/directory-store.ts'
import { createEncryption, type Encryption } from '../platform/archive/encryption.ts'

export type Archives = {
  backups: BackupArchives
  /** Where new objects go, for everything besides backups. */
  store: ArchiveStore
  encryption: Encryption
  /** Whether new objects are encrypted. */
  encrypts: boolean
}

/** The store of the settings: a bucket, or a directory of this node. */
export async function composeArchives(
  config: Config,
  { dataDir, masterKeys, log }: { dataDir: string; masterKeys: MasterKeys; log: Logger },
): Promise<Archives> {
  const path = config.archivesDir ?? join(dataDir, 'archives')
  const directory = createDirectoryStore(path, await foreignOwnerOf(dataDir))
  const encryption = createEncryption(masterKeys)
  const encrypts = config.archivesEncryption === 'master-key'
  if (config.s3Bucket === null) {
    const { problem } = await checkArchiveDirectory(path, await foreignOwnerOf(dataDir))
    if (problem !== null) log.error({ err: problem }, 'archives.cannot_be_used')
    const backups = createBackupArchives({ store: directory, encryption, encrypts })
    return { backups, store: directory, encryption, encrypts }
  }
  const store = await openBucket(config, config.s3Bucket)
  const hasDirectory = await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
  const olderStores = hasDirectory ? [directory] : []
  return { backups: createBackupArchives({ store, olderStores, encryption, encrypts }), store, encryption, encrypts }
}

/** The same on all nodes that have the same store. A directory has a file that says so, because its path says nothing. */
export async function storeIdentity(config: Config, dataDir: string): Promise<string> {
  const { s3Bucket, s3Prefix, s3Endpoint, s3Region } = config
  if (s3Bucket !== null) return `s3 ${s3Endpoint ?? s3Region} ${s3Bucket} ${s3Prefix}`
  return `directory ${await directoryIdentity(config.archivesDir ?? join(dataDir, 'archives'))}`
}

/** Loads the SDK, which takes some hundred milliseconds, only where there is a bucket. */
export async function openBucket(config: Config, bucket: string): Promise<ArchiveStore> {
  const { createS3Store } = await import('../platform/archive/s3/s3-store.ts')
  const { s3AccessKeyId: accessKeyId, s3SecretAccessKey: secretAccessKey } = config
  return createS3Store({
    bucket,
    prefix: config.s3Prefix,
    endpoint: config.s3Endpoint,
    region: config.s3Region,
    addressing: config.s3Addressing,
    ca: await readCa(config.s3CaFile),
    credentials: accessKeyId !== null && secretAccessKey !== null ? { accessKeyId, secretAccessKey } : null,
    partBytes: config.s3PartMib * 1024 * 1024,
    timeoutMs: config.s3TimeoutSeconds * 1000,
  })
}

export async function readCa(path: string | null): Promise<string | null> {
  if (path === null) return null
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new ConfigProblems([`KEYHOOK_S3_CA_FILE: "${path}" cannot be read (${error.code})`])
  })
  if (!text.includes('-----BEGIN CERTIFICATE-----')) {
    throw new ConfigProblems([`KEYHOOK_S3_CA_FILE: "${path}" contains no certificate in PEM`])
  }
  return text
}
