import type { BackupId, DatabaseId, OrgId, RestoreId } from '../kernel/ids.ts'

/**
 * Work that outlives the request which asked for it. Ids only: whoever does it reads the row, which may have moved on. It
 * goes to the node that holds the files; only a database that is to be placed goes to any that has room.
 * Where it goes is all that `node` is for, except in provisioning: jobs that earlier versions left in a queue have none.
 */
export type PlatformJob =
  | { kind: 'database.place'; orgId: OrgId; databaseId: DatabaseId }
  /** Its node is compared with the row's: one that was taken for dead must not decide about what another one makes now. */
  | { kind: 'database.provision'; orgId: OrgId; databaseId: DatabaseId; node: string }
  | { kind: 'database.remove'; orgId: OrgId; databaseId: DatabaseId; node: string }
  /** What a node began of a database that has been given to another one since. */
  | { kind: 'database.discard'; orgId: OrgId; databaseId: DatabaseId; node: string }
  | { kind: 'backup.take'; orgId: OrgId; backupId: BackupId; node: string }
  | { kind: 'backup.remove'; orgId: OrgId; backupId: BackupId; node: string }
  | { kind: 'restore.run'; orgId: OrgId; restoreId: RestoreId; node: string }
