import type { Logger } from 'pino'
import type { DatabaseDriver } from '../platform/driver.ts'
import { openAuthority } from '../platform/tls/authority.ts'
import { issueCertificate } from '../platform/tls/issue-certificate.ts'
import type { Installation } from '../startup/open.ts'
import { openBucket, readCa } from './archives.ts'

/** Written WAL is stored after this time at the latest; a segment of 16 MB is stored each time, so it is not shorter. */
const archiveSeconds = 60

/** Databases in a Kubernetes namespace. Loaded only where the setting asks for it. */
export async function composeKubernetesDriver(
  { config, db, masterKeys }: Pick<Installation, 'config' | 'db' | 'masterKeys'>,
  log: Logger,
): Promise<DatabaseDriver> {
  const { connectToKubernetes, createKubernetesApi } = await import('../platform/kubernetes/api.ts')
  const { createKubernetesDriver } = await import('../platform/kubernetes/kubernetes-driver.ts')
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
