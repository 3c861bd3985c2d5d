import type { BackupId, DatabaseId, OrgId, RestoreId } from '../kernel/ids.ts'

/** Work that outlives the request which asked for it. Ids only: whoever does it reads the row, which may have moved on. */
export type PlatformJob =
  | { kind: 'database.place'; orgId: OrgId; databaseId: DatabaseId }
  /** With the node that it was for: one that was taken for dead must not decide about what another one makes now. */
  | { kind: 'database.provision'; orgId: OrgId; databaseId: DatabaseId; node: string }
  | { kind: 'database.remove'; orgId: OrgId; databaseId: DatabaseId }
  /** What a node began of a database that has been given to another one since. */
  | { kind: 'database.discard'; orgId: OrgId; databaseId: DatabaseId }
  | { kind: 'backup.take'; orgId: OrgId; backupId: BackupId }
  | { kind: 'backup.remove'; orgId: OrgId; backupId: BackupId }
  | { kind: 'restore.run'; orgId: OrgId; restoreId: RestoreId }

/** `node` null: any node that has room. Otherwise the one that holds the files. */
export type Destination = { node: string | null }
