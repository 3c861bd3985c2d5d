import { inMegabytes } from '../lib/units.ts'

/* Sizes are bytes on disk of everything that belongs to an instance: tables, WAL, temporary files and the server log. */
export const storageStates = ['normal', 'read_only', 'stopped'] as const
export type StorageState = (typeof storageStates)[number]

/** `low`: below the floor, those to blame must not grow. `very_low`: below half of it, none may. `critical`: below a quarter, none runs. */
export const diskLevels = ['ok', 'low', 'very_low', 'critical'] as const
export type DiskLevel = (typeof diskLevels)[number]

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

export const thresholdsOf = (limitBytes: number) => ({
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
  /** Whether it is due to this database that the disk is short of space. */
  isBlamed: boolean
}

/** The state by the database's own limit, or the stricter one by the free space of the disk that it shares. */
export function storageState(view: StorageView): { state: StorageState; because: 'limit' | 'disk' | null } {
  const own = ownState(view)
  if (own === 'stopped') return { state: own, because: 'limit' }
  if (view.disk === 'critical') return { state: 'stopped', because: 'disk' }
  const mustNotGrow = view.disk === 'very_low' || (view.disk === 'low' && view.isBlamed)
  const wrote = Math.max(view.grownBytes, view.grownReadOnlyBytes) >= grownBytesMin
  if (mustNotGrow && (wrote || view.before === 'stopped')) return { state: 'stopped', because: 'disk' }
  if (own === 'read_only') return { state: own, because: 'limit' }
  return mustNotGrow ? { state: 'read_only', because: 'disk' } : { state: 'normal', because: null }
}

/** `grownBytes`: in the last minutes. */
export type Usage = { usedBytes: number; limitBytes: number; grownBytes: number }

/** Those that grew most, and those most beyond their share of the disk, by their limits. At least half as much as the first counts too. */
export function blame<T extends Usage>(databases: readonly T[], diskBytes: number): T[] {
  const limits = databases.reduce((sum, { limitBytes }) => sum + limitBytes, 0)
  const excess = ({ usedBytes, limitBytes }: T): number => usedBytes - (diskBytes * limitBytes) / limits
  const most = (of: (one: T) => number): number => Math.max(grownBytesMin, ...databases.map((one) => of(one) / 2))
  const [grownMin, excessMin] = [most(({ grownBytes }) => grownBytes), most(excess)]
  return databases.filter((one) => one.grownBytes >= grownMin || excess(one) >= excessMin)
}

function ownState({ before, usedBytes, limitBytes, grownReadOnlyBytes }: StorageView): StorageState {
  const { readOnlyBytes, normalAgainBytes, stopBytes } = thresholdsOf(limitBytes)
  // Only who goes on writing after that is stopped: a fast client may pass both thresholds between two measurements.
  const goesOn = before === 'stopped' || grownReadOnlyBytes >= grownBytesMin
  if (usedBytes >= stopBytes && goesOn) return 'stopped'
  // Two thresholds, or a database at the first one would switch with every checkpoint.
  return usedBytes >= (before === 'normal' ? readOnlyBytes : normalAgainBytes) ? 'read_only' : 'normal'
}

/** The part of the floor below which each level begins. */
const levelShares = { critical: 1 / 4, very_low: 1 / 2, low: 1 } as const

/** Gets better a tenth above where it got worse, so that it does not switch with every file. */
export function diskLevel(before: DiskLevel, freeBytes: number, floorBytes: number): DiskLevel {
  for (const level of ['critical', 'very_low', 'low'] as const) {
    const wasAtLeast = diskLevels.indexOf(before) >= diskLevels.indexOf(level)
    if (freeBytes < floorBytes * levelShares[level] * (wasAtLeast ? 1.1 : 1)) return level
  }
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
      ? 'The database was stopped: the disk of its node is nearly full. It starts by itself when there is room.'
      : `The database is read-only until there is room again: the disk of its node is nearly full. ${makeRoom}`
  }
  return state === 'stopped'
    ? `The database was stopped: it uses more than its storage limit of ${limit} allows. Ask the operator for a higher limit.`
    : `The database is read-only: it has nearly used its storage limit of ${limit}. ${makeRoom}`
}
