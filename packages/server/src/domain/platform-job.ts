import type { BackupId, DatabaseId, OrgId, RestoreId } from '../kernel/ids.ts'

/** Work that outlives the request which asked for it. Ids only: whoever does it reads the row, which may have moved on. */
export type PlatformJob =
  | { kind: 'database.place'; orgId: OrgId; databaseId: DatabaseId }
  | { kind: 'database.provision'; orgId: OrgId; databaseId: DatabaseId }
  | { kind: 'database.remove'; orgId: OrgId; databaseId: DatabaseId }
  | { kind: 'backup.take'; orgId: OrgId; backupId: BackupId }
  | { kind: 'backup.remove'; orgId: OrgId; backupId: BackupId }
  | { kind: 'restore.run'; orgId: OrgId; restoreId: RestoreId }

/** `node` null: any node that has room. Otherwise the one that holds the files. */
export type Destination = { node: string | null }
