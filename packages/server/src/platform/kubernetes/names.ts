import { type BackupId, type DatabaseId, isId, type OrgId } from '../../kernel/ids.ts'
import type { Kind, Resource } from './api.ts'

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
export const storeName = 'keyhook-backups'

const databaseLabel = 'keyhook.io/database-id'
const organizationLabel = 'keyhook.io/organization-id'
const backupLabel = 'keyhook.io/backup-id'
const managed = { 'app.kubernetes.io/managed-by': 'keyhook' }

export const labelsOf = (of: {
  databaseId?: DatabaseId
  orgId?: OrgId
  backupId?: BackupId
}): Record<string, string> => ({
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
