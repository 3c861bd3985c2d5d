/*
 * How much disk a database may use, and what happens as it nears the end of it. Sizes are bytes on disk of everything that belongs
 * to the instance: tables, WAL, temporary files and log.
 */
export const storageStates = ['normal', 'read_only', 'stopped'] as const
export type StorageState = (typeof storageStates)[number]

/** `low`: below the floor, so databases must not grow. `critical`: below half of it, so none runs. */
export type DiskLevel = 'ok' | 'low' | 'critical'

/** What a node knows of its disk and its databases. */
export type StorageReport = {
  disk: {
    freeBytes: number
    sizeBytes: number
    freeFiles: number
    level: DiskLevel
    floorBytes: number
    reserveBytes: number
  } | null
  usedBytes: number
  states: Record<StorageState, number>
}

const readOnlyShare = 0.95
const normalAgainShare = 0.9
const stopShare = 1.2
/** Growth that counts as writing: two segments of WAL, because PostgreSQL may create one by itself. */
const grownBytesMin = 32 * 1024 * 1024

export type Thresholds = { readOnlyBytes: number; normalAgainBytes: number; stopBytes: number }

export const thresholdsOf = (limitBytes: number): Thresholds => ({
  readOnlyBytes: Math.floor(limitBytes * readOnlyShare),
  normalAgainBytes: Math.floor(limitBytes * normalAgainShare),
  stopBytes: Math.floor(limitBytes * stopShare),
})

export type StorageView = {
  before: StorageState
  usedBytes: number
  limitBytes: number
  /** Since the measurement before. */
  grownBytes: number
  /** Since its sessions were told that it is read-only. */
  grownReadOnlyBytes: number
  disk: DiskLevel
}

/** The state by the database's own limit, or the stricter one by the free space of the disk that it shares. */
export function storageState(view: StorageView): { state: StorageState; because: 'limit' | 'disk' | null } {
  const own = ownState(view)
  if (own === 'stopped') return { state: own, because: 'limit' }
  const wrote = view.before === 'stopped' || view.grownBytes >= grownBytesMin
  if (view.disk === 'critical' || (view.disk === 'low' && wrote)) return { state: 'stopped', because: 'disk' }
  if (own === 'read_only') return { state: own, because: 'limit' }
  if (view.disk === 'low') return { state: 'read_only', because: 'disk' }
  return { state: 'normal', because: null }
}

function ownState({ before, usedBytes, limitBytes, grownReadOnlyBytes }: StorageView): StorageState {
  const { readOnlyBytes, normalAgainBytes, stopBytes } = thresholdsOf(limitBytes)
  // Only who goes on writing after that is stopped: a fast client may pass both thresholds between two measurements.
  const goesOn = before === 'stopped' || grownReadOnlyBytes >= grownBytesMin
  if (usedBytes >= stopBytes && goesOn) return 'stopped'
  // Two thresholds, or a database at the first one would switch with every checkpoint.
  return usedBytes >= (before === 'normal' ? readOnlyBytes : normalAgainBytes) ? 'read_only' : 'normal'
}

/** Returns to `ok` a tenth above the floor, so that it does not switch with every file. */
export function diskLevel(before: DiskLevel, freeBytes: number, floorBytes: number): DiskLevel {
  if (freeBytes < floorBytes / 2) return 'critical'
  if (freeBytes < (before === 'ok' ? floorBytes : floorBytes * 1.1)) return 'low'
  return 'ok'
}

const makeRoom =
  'To make room, connect, run "set default_transaction_read_only = off", and delete: drop and truncate free space at once, delete only with a vacuum full after it.'

/** For the owner of the database: in the API, and in a session as `show keyhook.storage`. */
export function storageMessage(
  state: StorageState,
  because: 'limit' | 'disk' | null,
  limitBytes: number,
): string | null {
  if (state === 'normal') return null
  const limit = inMegabytes(limitBytes)
  if (because === 'disk') {
    return state === 'stopped'
      ? 'The database was stopped: the disk of its node is nearly full, and it was writing. It starts by itself when there is room.'
      : 'The database is read-only until there is room again: the disk of its node is nearly full.'
  }
  return state === 'stopped'
    ? `The database was stopped: it uses more than its storage limit of ${limit} allows. Ask the operator for a higher limit.`
    : `The database is read-only: it has nearly used its storage limit of ${limit}. ${makeRoom}`
}

const inMegabytes = (bytes: number): string => `${Math.round(bytes / 1024 ** 2).toLocaleString('en')} MiB`
