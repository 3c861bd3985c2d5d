import type { Logger } from 'pino'
import type { DatabaseId } from '../../lib/ids.ts'
import type { KeyedQueue } from '../../lib/keyed-queue.ts'
import type { LocalInstances } from '../drivers/driver.ts'
import {
  blame,
  type DiskLevel,
  type StorageState,
  storageMessage,
  storageState,
  storageStates,
} from '../storage-rules.ts'
import type { StorageStats } from '../usage-sql.ts'

/** Statistics are written when they differ by this share, or after this time. */
const recordShare = 0.01
const recordMs = 60_000
const retryMs = 2_000
/** How far back growth counts when the disk gets low, and how often sizes are kept for that. */
const grownMs = 5 * 60_000
const sampleMs = 10_000
/** How long telling an instance may take. Longer means that its sessions keep us out. */
const applyMsMax = 5_000

type Watched = {
  id: DatabaseId
  usedBytes: number
  /** Since the measurement before. */
  grownBytes: number
  /** Sizes of the last minutes, the oldest first. */
  sizes: { atMs: number; usedBytes: number }[]
  /** Since the disk got low. Whoever filled it stays read-only until there is room, also when it no longer grows. */
  isBlamed: boolean
  state: StorageState
  because: 'limit' | 'disk' | null
  /** What the instance was last told; undefined after a start, when its configuration may say anything. */
  applied: StorageState | undefined
  /** Its size when it was told, or when that failed for a while. */
  readOnly: { sinceMs: number; fromBytes: number | undefined } | undefined
  recorded: { usedBytes: number; message: string | null; limitBytes: number; atMs: number } | undefined
}

export type Enforcer = ReturnType<typeof createEnforcer>

/** Knows the state of every database of the node, and makes its instance follow. */
export function createEnforcer(deps: {
  instances: LocalInstances
  databaseWork: KeyedQueue
  limitOf(id: DatabaseId): number
  /** When the node was stopped: one beyond its limit stays stopped. */
  lastStateOf(id: DatabaseId): StorageState
  log: Logger
  signal: AbortSignal
}) {
  const { instances, limitOf, log, signal } = deps
  const watched = new Map<DatabaseId, Watched>()
  const applying = new Map<DatabaseId, Promise<void>>()
  let disk: { level: DiskLevel; roomBytes: number } = { level: 'ok', roomBytes: 0 }

  /** Decides for all, because who is to blame depends on what the others use. */
  function decideAll(): void {
    if (disk.level !== 'ok') {
      const usages = [...watched.values()].map((one) => ({
        one,
        usedBytes: one.usedBytes,
        limitBytes: limitOf(one.id),
        grownBytes: one.usedBytes - Math.min(one.usedBytes, ...one.sizes.map(({ usedBytes }) => usedBytes)),
      }))
      for (const { one } of blame(usages, disk.roomBytes)) one.isBlamed = true
    }
    for (const one of watched.values()) {
      if (disk.level === 'ok') one.isBlamed = false
      decide(one)
    }
  }

  function decide(one: Watched): void {
    const limitBytes = limitOf(one.id)
    const grownReadOnlyBytes = one.usedBytes - (one.readOnly?.fromBytes ?? one.usedBytes)
    const { state, because } = storageState({
      ...one,
      before: one.state,
      limitBytes,
      disk: disk.level,
      grownReadOnlyBytes,
    })
    one.because = because
    if (state !== one.state) {
      log.warn({ databaseId: one.id, state, because, usedBytes: one.usedBytes, limitBytes }, 'storage.state_changed')
      one.state = state
      one.readOnly = state === 'read_only' ? { sinceMs: Date.now(), fromBytes: undefined } : undefined
    }
    if (one.applied === state) return
    // Not behind a statement that waits for a connection: stopping is what helps then.
    if (state === 'stopped') {
      void instances.hold(one.id).catch((err) => log.error({ err, databaseId: one.id }, 'storage.not_stopped'))
    }
    // One that is being created or was not started yet has nobody who could write.
    if (state !== 'stopped' && !instances.isHeld(one.id) && !instances.isRunning(one.id)) return
    if (!applying.has(one.id)) {
      const done = apply(one).finally(() => applying.delete(one.id))
      applying.set(one.id, done)
    }
  }

  function noteSize({ sizes, usedBytes }: Watched): void {
    const nowMs = Date.now()
    while (sizes.length > 0 && nowMs - sizes[0]!.atMs > grownMs) sizes.shift()
    const last = sizes.at(-1)
    if (last === undefined || nowMs - last.atMs >= sampleMs) sizes.push({ atMs: nowMs, usedBytes })
  }

  /** Called with every measurement: the first one after it was told is what later ones are compared with. */
  function noteReadOnly({ readOnly, applied, usedBytes }: Watched): void {
    if (readOnly === undefined) return
    const isTold = applied === 'read_only' || Date.now() - readOnly.sinceMs > applyMsMax
    // What its owner removes meanwhile does not count as room to write.
    if (isTold) readOnly.fromBytes = Math.min(readOnly.fromBytes ?? usedBytes, usedBytes)
  }

  /** Its owner makes room. WAL that is no longer needed goes with the next checkpoint, which may be minutes away. */
  function trim({ id }: Watched): void {
    if (applying.has(id)) return
    const done = instances
      .checkpoint(id, { signal })
      .catch((err) => log.debug({ err, databaseId: id }, 'storage.no_checkpoint'))
      .finally(() => applying.delete(id))
    applying.set(id, done)
  }

  async function apply(one: Watched): Promise<void> {
    while (!signal.aborted && watched.has(one.id) && one.applied !== one.state) {
      const { state } = one
      try {
        await follow(one.id, state, storageMessage(state, one.because, limitOf(one.id)))
        one.applied = state
      } catch (err) {
        log.warn({ err, databaseId: one.id, state }, 'storage.state_not_applied')
        await new Promise((done) => setTimeout(done, retryMs).unref())
      }
    }
  }

  async function follow(id: DatabaseId, state: StorageState, message: string | null): Promise<void> {
    if (state === 'stopped') return instances.hold(id)
    if (instances.isHeld(id)) {
      await deps.databaseWork.run(id, async (working) => {
        await instances.release(id, { signal: AbortSignal.any([working, signal]) })
      })
    }
    await instances.setReadOnly(id, state === 'read_only' ? message : null, { signal })
  }

  const statsOf = ({ id, usedBytes, state, because }: Watched): StorageStats => {
    const limitBytes = limitOf(id)
    return { id, usedBytes, limitBytes, state, message: storageMessage(state, because, limitBytes) }
  }

  function isUnrecorded(one: Watched): boolean {
    const { recorded } = one
    if (recorded === undefined || Date.now() - recorded.atMs > recordMs) return true
    const { message, limitBytes } = statsOf(one)
    if (message !== recorded.message || limitBytes !== recorded.limitBytes) return true
    return Math.abs(one.usedBytes - recorded.usedBytes) > recorded.usedBytes * recordShare
  }

  return {
    all: (): Iterable<Watched> => watched.values(),

    /** Sizes of all instances of this node; those that are missing were removed. */
    measured(sizes: ReadonlyMap<DatabaseId, number>): void {
      for (const id of watched.keys()) if (!sizes.has(id)) watched.delete(id)
      for (const [id, usedBytes] of sizes) {
        const one = watched.get(id) ?? newlySeen(id, usedBytes, deps.lastStateOf(id))
        one.grownBytes = usedBytes - one.usedBytes
        one.usedBytes = usedBytes
        watched.set(id, one)
        noteSize(one)
        noteReadOnly(one)
      }
      decideAll()
      for (const one of watched.values()) if (one.state === 'read_only' && one.grownBytes < 0) trim(one)
    },

    /** `roomBytes`: what all databases may use together. */
    setDisk(level: DiskLevel, roomBytes: number): void {
      if (level === disk.level) return
      disk = { level, roomBytes }
      // Growth of the past; who grows now is known with the next measurement.
      for (const one of watched.values()) one.grownBytes = 0
      decideAll()
    },

    /** A limit may have changed. */
    reconsider: decideAll,

    /** False while there is a running database whose statistics nobody has read yet. */
    knowsAll: (): boolean =>
      [...watched.values()].every((one) => one.recorded !== undefined || !instances.isRunning(one.id)),

    unrecorded(): StorageStats[] {
      return [...watched.values()].filter(isUnrecorded).map(statsOf)
    },

    recorded(stats: readonly StorageStats[]): void {
      for (const { id, usedBytes, message, limitBytes } of stats) {
        const one = watched.get(id)
        if (one !== undefined) one.recorded = { usedBytes, message, limitBytes, atMs: Date.now() }
      }
    },

    totals() {
      const states = Object.fromEntries(storageStates.map((state) => [state, 0])) as Record<StorageState, number>
      let usedBytes = 0
      for (const one of watched.values()) {
        states[one.state] += 1
        usedBytes += one.usedBytes
      }
      return { usedBytes, states }
    },

    async close(): Promise<void> {
      await Promise.all(applying.values())
    },
  }
}

const newlySeen = (id: DatabaseId, usedBytes: number, state: StorageState): Watched => ({
  id,
  usedBytes,
  grownBytes: 0,
  sizes: [],
  isBlamed: false,
  state,
  because: null,
  applied: undefined,
  readOnly: undefined,
  recorded: undefined,
})
