import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Database, Transaction } from '../../db/database.ts'
import type { DatabaseId } from '../../lib/ids.ts'
import type { KeyedQueue } from '../../lib/keyed-queue.ts'
import { StepFailure } from '../../lib/step-failure.ts'
import { notifyOwners } from '../../mail/notices.ts'
import type { LocalInstances } from '../drivers/driver.ts'
import { type DiskLevel, diskLevels, type StorageReport, thresholdsOf } from '../storage-rules.ts'
import { type NearlyFull, recordStorageStats, type StorageStats, storageOfNode, takeNearlyFull } from '../usage-sql.ts'
import {
  createReserveFile,
  type DiskSpace,
  floorOf,
  levelOf,
  placeForReserve,
  type ReserveFile,
  readDisk,
  reserveOf,
} from './disk.ts'
import { createEnforcer, type Enforcer } from './enforcer.ts'

/** Twice what eight sessions of one tenant wrote at their fastest on two cores (docs/internals/isolation.md). */
const writeBytesPerMsMax = 2 * 1024 * 1024
const checkMsMin = 50
const checkMsMax = 500

/** Without a change of the free space, nobody wrote much. */
const measureMsMax = 10_000

/** Until a new database has shown its first statistics. */
const newMeasureMs = 1_000
const measureMsMin = 200
const limitsMs = 2_000

/** Measuring takes no more than a sixth of one processor. */
const restShare = 5
const stepBytes = { min: 4 * 1024 ** 2, max: 256 * 1024 ** 2 }

/** A check later than this is logged: the floor allows for a second. */
const lateMs = 1_000

/** A new database with its first WAL takes a little less. */
const databaseBytesMin = 64 * 1024 ** 2

export type StorageSettings = { limitBytes: number; floorBytes: number; reserveBytes: number }

export type StorageMonitor = ReturnType<typeof createStorageMonitor>

/** For databases whose storage others limit. */
export function withoutStorageMonitor(): StorageMonitor {
  const never = new AbortController().signal
  return {
    async start() {},
    report: () => ({ disk: null, usedBytes: 0, states: { normal: 0, read_only: 0, stopped: 0 } }),
    hasRoom: () => true,
    room: () => never,
    async close() {},
  }
}

const noRoom = 'The disk of its node is nearly full.'

async function tellOwners(tx: Transaction, databases: readonly NearlyFull[]): Promise<void> {
  for (const { org_id: orgId, id: databaseId, name, used_bytes: usedBytes, limit_bytes: limitBytes } of databases)
    await notifyOwners(tx, orgId, [{ kind: 'database.nearly_full', databaseId, name, usedBytes, limitBytes }])
}

/** Free space is read up to 20 times a second, and sizes when it shrinks. See docs/internals/isolation.md. */
export function createStorageMonitor(deps: {
  db: Database
  node: string
  instances: LocalInstances
  databaseWork: KeyedQueue
  settings: StorageSettings
  dataDir: string
  log: Logger
}) {
  const { db, node, instances, settings, log } = deps
  const closing = new AbortController()
  const { signal } = closing
  let known: Awaited<ReturnType<typeof storageOfNode>> = new Map()
  const limitOf = (id: DatabaseId) => known.get(id)?.limitBytes ?? settings.limitBytes
  const lastStateOf = (id: DatabaseId) => known.get(id)?.state ?? 'normal'
  const { databaseWork } = deps
  const enforcer: Enforcer = createEnforcer({ instances, databaseWork, limitOf, lastStateOf, log, signal })
  let path = ''
  let reserve: ReserveFile | undefined
  let space: DiskSpace | undefined
  let level: DiskLevel = 'ok'
  let room = new AbortController()
  let measuring: Promise<void> | undefined
  let measured = { atMs: 0, tookMs: 0, freeBytes: 0 }
  let limitsAtMs = 0
  const background = new Set<Promise<void>>()
  let watching: Promise<void> | undefined

  const floorBytes = () => (space === undefined ? settings.floorBytes : floorOf(space, settings.floorBytes))

  /** One look at the disk. What follows from it at once, such as stopping everything, does not wait for anything. */
  function check(): void {
    space = readDisk(path)
    const before = level
    level = levelOf(before, space, floorBytes())
    enforcer.setDisk(level, space.sizeBytes - floorBytes())
    if (level !== before) onLevel(before)
    // Tenants are stopped by now, or something else fills the disk.
    if (level === 'critical' && space.freeBytes < floorBytes() / 8) inBackground(releaseReserve())
    if (isDue()) measuring ??= measure().finally(() => (measuring = undefined))
    if (Date.now() - limitsAtMs > limitsMs) {
      limitsAtMs = Date.now()
      inBackground(readLimits())
    }
  }

  function onLevel(before: DiskLevel): void {
    const about = { freeBytes: space!.freeBytes, freeFiles: space!.freeFiles, floorBytes: floorBytes() }
    if (level === 'ok') {
      log.info(about, 'disk.has_room')
      room = new AbortController()
      inBackground(holdReserve())
      return
    }
    if (diskLevels.indexOf(level) > diskLevels.indexOf(before)) log.error(about, `disk.${level}`)
    room.abort(new StepFailure(noRoom))
    // Which ones grow decides who is stopped.
    measured.atMs = 0
  }

  function isDue(): boolean {
    if (measuring !== undefined) return false
    const sinceMs = Date.now() - measured.atMs
    const restMs = level === 'ok' ? measureMsMin : checkMsMin
    if (sinceMs < Math.max(restMs, measured.tookMs * restShare)) return false
    return (
      sinceMs > (enforcer.knowsAll() ? measureMsMax : newMeasureMs) ||
      level !== 'ok' ||
      measured.freeBytes - space!.freeBytes > step()
    )
  }

  /** A quarter of what is left until the floor, or until the database nearest to a threshold reaches it. */
  function step(): number {
    let left = space!.freeBytes - floorBytes()
    for (const { id, usedBytes, state } of enforcer.all()) {
      const { readOnlyBytes, stopBytes } = thresholdsOf(limitOf(id))
      left = Math.min(left, (state === 'normal' ? readOnlyBytes : stopBytes) - usedBytes)
    }
    return Math.min(Math.max(left / 4, stepBytes.min), stepBytes.max)
  }

  async function measure(): Promise<void> {
    const beganMs = Date.now()
    const { freeBytes } = space!
    try {
      enforcer.measured(await instances.storage(signal))
      measured = { atMs: Date.now(), tookMs: Date.now() - beganMs, freeBytes }
      const stats = enforcer.unrecorded()
      if (stats.length > 0) inBackground(record(stats))
    } catch (err) {
      measured.atMs = Date.now()
      if (!signal.aborted) log.error({ err }, 'storage.not_measured')
    }
  }

  async function record(stats: readonly StorageStats[]): Promise<void> {
    const written = await db.begin(async (tx) => {
      const recorded = await recordStorageStats(tx, node, stats)
      await tellOwners(tx, await takeNearlyFull(tx, [...recorded]))
      return recorded
    })
    enforcer.recorded(stats.filter(({ id }) => written.has(id)))
  }

  async function readLimits(): Promise<void> {
    known = await storageOfNode(db, node)
    enforcer.reconsider()
  }

  async function holdReserve(): Promise<void> {
    if (reserve === undefined || space === undefined) return
    const bytes = reserveOf(space, settings.reserveBytes)
    if (space.freeBytes + reserve.heldBytes() < bytes + floorBytes() * 1.1) {
      log.warn({ freeBytes: space.freeBytes, reserveBytes: bytes }, 'disk.no_room_for_reserve')
      return
    }
    await reserve.hold(bytes)
  }

  async function releaseReserve(): Promise<void> {
    if (reserve === undefined || reserve.heldBytes() === 0) return
    log.error({ freeBytes: space!.freeBytes, reserveBytes: reserve.heldBytes() }, 'disk.reserve_released')
    await reserve.release()
  }

  function inBackground(work: Promise<void>): void {
    const quiet = work.catch((err) => log.warn({ err }, 'storage.step_failed')).finally(() => background.delete(quiet))
    background.add(quiet)
  }

  async function watch(): Promise<void> {
    while (!signal.aborted) {
      const leftBytes = space!.freeBytes - floorBytes()
      const waitMs = Math.min(Math.max(leftBytes / writeBytesPerMsMax / 4, checkMsMin), checkMsMax)
      const plannedMs = Date.now() + waitMs
      await sleep(waitMs, undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return
      if (Date.now() - plannedMs > lateMs) log.warn({ lateMs: Date.now() - plannedMs }, 'disk.checked_late')
      try {
        check()
      } catch (err) {
        log.error({ err }, 'disk.cannot_be_read')
      }
    }
  }

  return {
    /** Measures before anything runs, so that a database above its limit is not started. Then watches until `close`. */
    async start(): Promise<void> {
      path = await instances.disk()
      space = readDisk(path)
      const reservePath = await placeForReserve(deps.dataDir, path)
      if (reservePath !== null) {
        reserve = createReserveFile(reservePath)
        await holdReserve().catch((err) => log.warn({ err }, 'disk.no_room_for_reserve'))
        space = readDisk(path)
      }
      await readLimits()
      await measure()
      check()
      if (level === 'ok' && space.freeBytes - floorBytes() < databaseBytesMin)
        log.warn(
          { freeBytes: space.freeBytes, floorBytes: floorBytes(), databaseBytes: databaseBytesMin },
          'disk.no_room_for_a_database',
        )
      watching = watch()
    },
    report: (): StorageReport => ({
      disk:
        space === undefined
          ? null
          : { ...space, level, floorBytes: floorBytes(), reserveBytes: reserve?.heldBytes() ?? 0 },
      ...enforcer.totals(),
    }),
    hasRoom: () => level === 'ok',
    /** Aborts when the disk gets low: for work that writes much, such as a restore. */
    room: (): AbortSignal => room.signal,
    async close(): Promise<void> {
      closing.abort()
      await watching
      await measuring
      await Promise.all(background)
      await enforcer.close()
    },
  }
}
