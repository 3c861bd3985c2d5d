import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Database } from '../db/database.ts'
import type { DatabaseId } from '../kernel/ids.ts'
import { backupStatusesOf } from '../store/platform/backups.ts'
import { databaseStatuses, nodeWasUsed } from '../store/platform/databases.ts'
import type { ArchiveStore } from './archive/archive-store.ts'
import { type DatabaseDriver, StepFailure } from './driver.ts'
import type { Turns } from './jobs/turns.ts'

type Deps = {
  db: Database
  driver: DatabaseDriver
  archives: ArchiveStore
  node: string
  turns: Turns
  log: Logger
  signal: AbortSignal
}

const backoffMsMax = 60_000
const atOnce = 4
/** A start takes moments, but for one that has much to replay or to be ended first: the next does not wait for that. */
const slowMs = 2_000

/**
 * Brings back the databases that were there when the predecessor ended, a few at a time, and answers when each was tried.
 * Each has its turn from the start: work on it waits until it is back, and work on others need not.
 */
export async function bringBack(deps: Deps, ids: readonly DatabaseId[]): Promise<void> {
  const waiting = ids.map((id) => {
    const turn = Promise.withResolvers<void>()
    return { begin: turn.resolve, tried: resume(deps, id, { mayBegin: turn.promise }) }
  })
  const all = waiting.map(({ tried }) => tried)
  const bringUp = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      next.begin()
      await Promise.race([next.tried, sleep(slowMs, undefined, { ref: false })])
    }
  }
  await Promise.all(Array.from({ length: atOnce }, bringUp))
  await Promise.all(all)
}

/** Tries once, and goes on trying in the background where that fails: one broken database must not hold up the others. */
async function resume(
  deps: Deps,
  id: DatabaseId,
  { mayBegin = Promise.resolve(), backoffMs = 1_000 } = {},
): Promise<void> {
  try {
    await deps.turns.take(id, async (signal) => {
      await Promise.race([mayBegin, once(signal, 'abort')])
      signal.throwIfAborted()
      const status = (await databaseStatuses(deps.db, [id])).get(id)
      if (status === 'available') await deps.driver.resume(id, { signal })
    })
  } catch (err) {
    // Deleted meanwhile, or we are stopping.
    if (deps.signal.aborted || (err instanceof StepFailure && err.lasting)) return
    deps.log.error({ err, databaseId: id, retryInMs: backoffMs }, 'instance.cannot_resume')
    void sleep(backoffMs, undefined, { signal: deps.signal }).then(
      () => resume(deps, id, { backoffMs: Math.min(backoffMs * 2, backoffMsMax) }),
      () => {},
    )
  }
}

/**
 * Files whose row says that they are to be gone: what was left when a process was killed between the two, or when others
 * gave up what this node was at while they could not hear it. Files without any row are not ours to judge (this may be
 * the wrong database for this disk), so they are reported and left alone.
 */
export async function sweep({ db, driver, archives, node, turns, log }: Omit<Deps, 'signal'>): Promise<void> {
  if (!(await nodeWasUsed(db, node))) return
  const instances = await driver.existing()
  const statuses = await databaseStatuses(db, instances)
  for (const id of instances) {
    const status = statuses.get(id)
    if (status === undefined) log.warn({ databaseId: id }, 'instance.unknown')
    else if (status === 'failed' || status === 'deleted') {
      await turns
        .take(id, () => driver.remove(id))
        .catch((err) => log.error({ err, databaseId: id }, 'instance.not_removed'))
    }
  }
  // Archives are needed for backups and restores alone: a disk that is away must not keep the databases from their node.
  const kept = await archives.existing().catch((err) => {
    log.error({ err }, 'archives.cannot_be_read')
    return []
  })
  const backups = await backupStatusesOf(db, kept)
  for (const id of kept) {
    const status = backups.get(id)
    if (status === undefined) log.warn({ backupId: id }, 'archive.unknown')
    else if (status === 'failed' || status === 'deleted') {
      await archives.remove(id).catch((err) => log.error({ err, backupId: id }, 'archive.not_removed'))
    }
  }
}
