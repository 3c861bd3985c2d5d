/** States of a restore. */
export const restoreStatuses = ['running', 'completed', 'failed'] as const
export type RestoreStatus = (typeof restoreStatuses)[number]
export const firstRestoreStatus: RestoreStatus = 'running'

export const restoreMoves = ['complete', 'give_up'] as const
export type RestoreMove = (typeof restoreMoves)[number]

const table: Record<RestoreStatus, Partial<Record<RestoreMove, RestoreStatus>>> = {
  running: { complete: 'completed', give_up: 'failed' },
  completed: {},
  failed: {},
}

export const moveRestore = (status: RestoreStatus, move: RestoreMove): RestoreStatus | null =>
  table[status][move] ?? null
