import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { ArchiveStore } from '../archives/archive-store.ts'
import { type BackupArchives, createBackupArchives } from '../archives/backup-archives.ts'
import { checkArchiveDirectory, createDirectoryStore, directoryIdentity } from '../archives/directory-store.ts'
import { createEncryption, type Encryption } from '../archives/encryption.ts'
import { issueCertificate, openAuthority } from '../databases/certificates.ts'
import type { DatabaseDriver } from '../databases/drivers/driver.ts'
import type { MasterKeys } from '../lib/master-keys.ts'
import { foreignOwnerOf } from '../postgres/ownership.ts'
import { type Config, ConfigProblems } from '../settings/config.ts'
import type { Installation } from '../startup/open.ts'

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
async function openBucket(config: Config, bucket: string): Promise<ArchiveStore> {
  const { createS3Store } = await import('../archives/s3-store.ts')
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

async function readCa(path: string | null): Promise<string | null> {
  if (path === null) return null
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new ConfigProblems([`KEYHOOK_S3_CA_FILE: "${path}" cannot be read (${error.code})`])
  })
  if (!text.includes('-----BEGIN CERTIFICATE-----')) {
    throw new ConfigProblems([`KEYHOOK_S3_CA_FILE: "${path}" contains no certificate in PEM`])
  }
  return text
}

/** Written WAL is stored after this time at the latest; a segment of 16 MB is stored each time, so it is not shorter. */
const archiveSeconds = 60

/** Databases in a Kubernetes namespace. Loaded only where the setting asks for it. */
export async function composeKubernetesDriver(
  { config, db, masterKeys }: Pick<Installation, 'config' | 'db' | 'masterKeys'>,
  log: Logger,
): Promise<DatabaseDriver> {
  const { connectToKubernetes, createKubernetesApi } = await import('../databases/drivers/kubernetes/api.ts')
  const { createKubernetesDriver } = await import('../databases/drivers/kubernetes/kubernetes-driver.ts')
  const { s3Bucket: bucket, s3AccessKeyId: accessKeyId, s3SecretAccessKey: secretAccessKey } = config
  if (bucket === null) throw new Error('the settings were checked before')
  return createKubernetesDriver({
    api: createKubernetesApi(config.kubernetesNamespace, () => connectToKubernetes(config.kubernetesConfig)),
    settings: {
      instances: config.kubernetesInstances,
      storageBytes: config.databaseStorageMax,
      memoryBytes: config.databaseMemoryMax,
      cpus: config.databaseCpusMax,
      storageClass: config.kubernetesStorageClass,
      image: config.kubernetesImage,
      service: config.kubernetesService,
      tls: config.databasesTls,
      archiveSeconds,
    },
    objectStore: {
      bucket,
      prefix: config.s3Prefix,
      endpoint: config.s3Endpoint,
      region: config.s3Region,
      ca: await readCa(config.s3CaFile),
      credentials: accessKeyId !== null && secretAccessKey !== null ? { accessKeyId, secretAccessKey } : null,
    },
    store: await openBucket(config, bucket),
    async issueCertificate(names) {
      const authority = await openAuthority(db, masterKeys, new Date())
      return { ...(await issueCertificate(authority, names, new Date())), authority: authority.certificate }
    },
    readyMsMax: config.kubernetesReadyMinutes * 60_000,
    onCertificateProblem: (databaseId, err) => log.error({ err, databaseId }, 'databases.certificate_not_renewed'),
  })
}
