/** States of a backup. As for databases, null means that the move does not apply. */
export const backupStatuses = ['running', 'completed', 'failed', 'deleting', 'deleted'] as const
export type BackupStatus = (typeof backupStatuses)[number]
export const firstBackupStatus: BackupStatus = 'running'

/** `complete`: the archive was read back and is whole. `give_up`: it failed for good. `remove`, `clear`: as for databases. */
export const backupMoves = ['complete', 'give_up', 'remove', 'clear'] as const
export type BackupMove = (typeof backupMoves)[number]

const backupTable: Record<BackupStatus, Partial<Record<BackupMove, BackupStatus>>> = {
  running: { complete: 'completed', give_up: 'failed' },
  completed: { remove: 'deleting' },
  failed: { remove: 'deleting' },
  deleting: { clear: 'deleted' },
  deleted: {},
}

export const moveBackup = (status: BackupStatus, move: BackupMove): BackupStatus | null =>
  backupTable[status][move] ?? null

/** `base`: where the log of a database starts, for restores to a time. It belongs to the log: no list, event or audit entry has it. */
export type BackupOrigin = 'requested' | 'scheduled' | 'base'

export const isListed = ({ origin }: { origin: BackupOrigin }): boolean => origin !== 'base'

export const wasCancelled = 'The backup was cancelled.'

/** States of a restore. */
export const restoreStatuses = ['running', 'completed', 'failed'] as const
export type RestoreStatus = (typeof restoreStatuses)[number]
export const firstRestoreStatus: RestoreStatus = 'running'

export const restoreMoves = ['complete', 'give_up'] as const
export type RestoreMove = (typeof restoreMoves)[number]

const restoreTable: Record<RestoreStatus, Partial<Record<RestoreMove, RestoreStatus>>> = {
  running: { complete: 'completed', give_up: 'failed' },
  completed: {},
  failed: {},
}

export const moveRestore = (status: RestoreStatus, move: RestoreMove): RestoreStatus | null =>
  restoreTable[status][move] ?? null
