import type { BackupId, DatabaseId, OrgId, RestoreId } from '../kernel/ids.ts'

/**
 * Background work. It has ids only, because the row may have changed when the job runs. `node` is the node that holds the files and
 * runs the job; `database.place` runs on any node with room.
 */
export type PlatformJob =
  | { kind: 'database.place'; orgId: OrgId; databaseId: DatabaseId }
  /** The node is compared with the row's: a node that was declared dead must not touch what another one creates now. */
  | { kind: 'database.provision'; orgId: OrgId; databaseId: DatabaseId; node: string }
  | { kind: 'database.remove'; orgId: OrgId; databaseId: DatabaseId; node: string }
  /** Files of a database that was moved to another node since. */
  | { kind: 'database.discard'; orgId: OrgId; databaseId: DatabaseId; node: string }
  /** Closes it to clients, stores its log to the end and hands it to another node. */
  | { kind: 'database.leave'; orgId: OrgId; databaseId: DatabaseId; node: string }
  /** Restores it from the store on its new node. */
  | { kind: 'database.arrive'; orgId: OrgId; databaseId: DatabaseId; node: string }
  /** It could not arrive anywhere, and goes on where it was. */
  | { kind: 'database.stay'; orgId: OrgId; databaseId: DatabaseId; node: string }
  | { kind: 'backup.take'; orgId: OrgId; backupId: BackupId; node: string }
  | { kind: 'backup.remove'; orgId: OrgId; backupId: BackupId; node: string }
  | { kind: 'restore.run'; orgId: OrgId; restoreId: RestoreId; node: string }

/** The keys of a record, so that a kind that is missing here is a type error. */
export const jobKinds = Object.keys({
  'database.place': null,
  'database.provision': null,
  'database.remove': null,
  'database.discard': null,
  'database.leave': null,
  'database.arrive': null,
  'database.stay': null,
  'backup.take': null,
  'backup.remove': null,
  'restore.run': null,
} satisfies Record<PlatformJob['kind'], null>)
