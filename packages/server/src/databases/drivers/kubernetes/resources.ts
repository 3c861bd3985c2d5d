import type { BackupOf } from '../../../archives/backup-archives.ts'
import { type BackupId, type DatabaseId, isId, type OrgId } from '../../../lib/ids.ts'
import { ownerDatabase, ownerRole } from '../../database.ts'
import type { NewDatabase } from '../driver.ts'
import type { Kind, Resource } from './api.ts'

/** How each new database is set up. */
export type ClusterSettings = {
  instances: number
  storageBytes: number
  memoryBytes: number
  cpus: number
  storageClass: string | null
  image: string | null
  service: 'ClusterIP' | 'LoadBalancer'
  /** `off`: CloudNativePG's own certificates. `required`: no connections without TLS. */
  tls: 'off' | 'on' | 'required'
  /** Written WAL is stored after this time at the latest. */
  archiveSeconds: number
}

export type ObjectStoreSettings = {
  /** Where Keyhook's own names in the bucket begin, and the folder in it that Barman writes to. */
  bucket: string
  prefix: string | null
  endpoint: string | null
  region: string
  ca: string | null
  /** Null: the role of the pods. */
  credentials: { accessKeyId: string; secretAccessKey: string } | null
}

type Condition = { type: string; status: 'True' | 'False' | 'Unknown'; reason?: string; message?: string }

/** The parts of CloudNativePG's resources that Keyhook reads or writes. */
export type Cluster = Resource & {
  spec?: Record<string, unknown>
  status?: {
    phase?: string
    phaseReason?: string
    conditions?: Condition[]
    secretsResourceVersion?: { applicationSecretVersion?: string }
  }
}

export type Backup = Resource & {
  spec?: Record<string, unknown>
  status?: {
    phase?: string
    error?: string
    backupId?: string
    beginWal?: string
    beginLSN?: string
    endLSN?: string
    stoppedAt?: string
  }
}

export type Secret = Resource & { type?: string; data?: Record<string, string>; stringData?: Record<string, string> }

export type Service = Resource & {
  spec: { type?: string; ports?: { name?: string; port: number }[] }
  status?: { loadBalancer?: { ingress?: { ip?: string; hostname?: string }[] } }
}

const barmanPlugin = 'barman-cloud.cloudnative-pg.io'

/** The folder of the bucket, beside Keyhook's own `backups/` and `wal/`. */
export const bucketFolder = 'kubernetes'

/** CloudNativePG reads a secret again when it changes, if it has this label. */
const reloaded = { 'cnpg.io/reload': 'true' }

export const passwordSecret = (id: DatabaseId, { orgId, passwordVerifier }: NewDatabase): Secret => ({
  metadata: { name: passwordSecretOf(id), labels: { ...labelsOf({ databaseId: id, orgId }), ...reloaded } },
  type: 'kubernetes.io/basic-auth',
  // CloudNativePG hands a verifier to PostgreSQL as it is, so nobody but the customer ever has the password.
  data: base64({ username: ownerRole, password: passwordVerifier }),
})

export const tlsSecret = (
  id: DatabaseId,
  { certificate, key, authority }: { certificate: string; key: string; authority: string },
): Secret => ({
  metadata: { name: tlsSecretOf(id), labels: { ...labelsOf({ databaseId: id }), ...reloaded } },
  type: 'kubernetes.io/tls',
  data: base64({ 'tls.crt': certificate, 'tls.key': key, 'ca.crt': authority }),
})

export const storeSecret = ({ region, ca, credentials }: ObjectStoreSettings): Secret => ({
  metadata: { name: storeName, labels: labelsOf({}) },
  type: 'Opaque',
  data: base64({
    region,
    ...(ca !== null && { 'ca.crt': ca }),
    ...(credentials !== null && {
      'access-key-id': credentials.accessKeyId,
      'secret-access-key': credentials.secretAccessKey,
    }),
  }),
})

export function objectStore(store: ObjectStoreSettings): Resource & { spec: unknown } {
  const inSecret = (key: string) => ({ name: storeName, key })
  const path = [store.bucket, store.prefix, bucketFolder].filter((part) => part !== null).join('/')
  return {
    metadata: { name: storeName, labels: labelsOf({}) },
    spec: {
      configuration: {
        destinationPath: `s3://${path}`,
        ...(store.endpoint !== null && { endpointURL: store.endpoint }),
        ...(store.ca !== null && { endpointCA: inSecret('ca.crt') }),
        s3Credentials:
          store.credentials === null
            ? { inheritFromIAMRole: true, region: inSecret('region') }
            : {
                accessKeyId: inSecret('access-key-id'),
                secretAccessKey: inSecret('secret-access-key'),
                region: inSecret('region'),
              },
        wal: { compression: 'gzip' },
        data: { compression: 'gzip' },
      },
    },
  }
}

/** `from`: a restore. `backupId` is Barman's name of the backup. */
export function cluster(
  id: DatabaseId,
  { orgId }: Pick<NewDatabase, 'orgId'>,
  settings: ClusterSettings,
  from?: { databaseId: DatabaseId; backupId: string; to: Date | null },
): Cluster {
  const limits = { memory: String(settings.memoryBytes), cpu: String(settings.cpus) }
  const application = { database: ownerDatabase, owner: ownerRole, secret: { name: passwordSecretOf(id) } }
  const stored = (of: DatabaseId) => ({ barmanObjectName: storeName, serverName: nameOf(of) })
  return {
    metadata: { name: nameOf(id), labels: labelsOf({ databaseId: id, orgId }) },
    spec: {
      instances: settings.instances,
      ...(settings.image !== null && { imageName: settings.image }),
      enableSuperuserAccess: false,
      bootstrap: from === undefined ? { initdb: application } : { recovery: recovery(application, from) },
      ...(from !== undefined && {
        externalClusters: [{ name: 'source', plugin: { name: barmanPlugin, parameters: stored(from.databaseId) } }],
      }),
      plugins: [{ name: barmanPlugin, isWALArchiver: true, parameters: stored(id) }],
      storage: {
        size: String(settings.storageBytes),
        ...(settings.storageClass !== null && { storageClass: settings.storageClass }),
      },
      resources: { requests: { memory: limits.memory, cpu: '100m' }, limits },
      postgresql: {
        parameters: { archive_timeout: `${settings.archiveSeconds}s` },
        ...(settings.tls === 'required' && { pg_hba: ['hostnossl all all all reject'] }),
      },
      ...(settings.tls !== 'off' && {
        certificates: { serverTLSSecret: tlsSecretOf(id), serverCASecret: tlsSecretOf(id) },
      }),
      managed: { services: servicesFor(id, settings.service) },
      inheritedMetadata: { labels: labelsOf({ databaseId: id, orgId }) },
    },
  }
}

function recovery(application: object, from: { backupId: string; to: Date | null }) {
  const target = from.to === null ? { targetImmediate: true } : { targetTime: from.to.toISOString() }
  return { ...application, source: 'source', recoveryTarget: { backupID: from.backupId, ...target } }
}

const servicesFor = (id: DatabaseId, type: ClusterSettings['service']) => ({
  disabledDefaultServices: ['ro', 'r'],
  ...(type === 'LoadBalancer' && {
    additional: [{ selectorType: 'rw', serviceTemplate: { metadata: { name: serviceOf(id, type) }, spec: { type } } }],
  }),
})

export const backup = ({ databaseId, backupId }: BackupOf): Backup => ({
  metadata: { name: nameOf(backupId), labels: labelsOf({ databaseId, backupId }) },
  spec: { cluster: { name: nameOf(databaseId) }, method: 'plugin', pluginConfiguration: { name: barmanPlugin } },
})

const base64 = (values: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(values).map(([key, value]) => [key, Buffer.from(value).toString('base64')]))

export const clusters: Kind = { apiVersion: 'postgresql.cnpg.io/v1', kind: 'Cluster', plural: 'clusters' }
export const backups: Kind = { apiVersion: 'postgresql.cnpg.io/v1', kind: 'Backup', plural: 'backups' }
export const objectStores: Kind = { apiVersion: 'barmancloud.cnpg.io/v1', kind: 'ObjectStore', plural: 'objectstores' }
export const secrets: Kind = { apiVersion: 'v1', kind: 'Secret', plural: 'secrets' }
export const services: Kind = { apiVersion: 'v1', kind: 'Service', plural: 'services' }
export const events: Kind = { apiVersion: 'v1', kind: 'Event', plural: 'events' }

/** Names in Kubernetes have no underscore. */
export const nameOf = (id: DatabaseId | BackupId): string => id.replace('_', '-')
export const passwordSecretOf = (id: DatabaseId): string => `${nameOf(id)}-password`
export const tlsSecretOf = (id: DatabaseId): string => `${nameOf(id)}-tls`

/** The service that CloudNativePG makes for connections inside of the Kubernetes cluster, and ours for those from outside. */
export const serviceOf = (id: DatabaseId, type: 'ClusterIP' | 'LoadBalancer'): string =>
  `${nameOf(id)}-${type === 'ClusterIP' ? 'rw' : 'public'}`

/** One for all databases. */
const storeName = 'keyhook-backups'

const databaseLabel = 'keyhook.io/database-id'
const organizationLabel = 'keyhook.io/organization-id'
const backupLabel = 'keyhook.io/backup-id'
const managed = { 'app.kubernetes.io/managed-by': 'keyhook' }

const labelsOf = (of: { databaseId?: DatabaseId; orgId?: OrgId; backupId?: BackupId }): Record<string, string> => ({
  ...managed,
  ...(of.databaseId && { [databaseLabel]: of.databaseId }),
  ...(of.orgId && { [organizationLabel]: of.orgId }),
  ...(of.backupId && { [backupLabel]: of.backupId }),
})

export const ofKeyhook = 'app.kubernetes.io/managed-by=keyhook'
export const ofDatabase = (id: DatabaseId): string => `${ofKeyhook},${databaseLabel}=${id}`

export function databaseIn({ metadata }: Resource): DatabaseId | null {
  const id = metadata.labels?.[databaseLabel]
  return id !== undefined && isId('db', id) ? id : null
}

export function backupIn({ metadata }: Resource): BackupId | null {
  const id = metadata.labels?.[backupLabel]
  return id !== undefined && isId('bak', id) ? id : null
}
