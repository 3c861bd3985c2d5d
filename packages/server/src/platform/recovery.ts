import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { DatabaseId } from '../kernel/ids.ts'
import { backupStatusesOf } from '../store/backups.ts'
import type { Database } from '../store/database.ts'
import { availableDatabasesOfNode, databaseStatuses, nodeWasUsed } from '../store/databases.ts'
import type { ArchiveStore } from './archive/archive-store.ts'
import type { DatabaseDriver } from './driver.ts'
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

/** What a node does when it comes up, whatever its predecessor was doing when it ended. */
export async function recover(deps: Deps): Promise<void> {
  const waiting = await availableDatabasesOfNode(deps.db, deps.node)
  const bringUp = async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      if (!deps.signal.aborted) await resume(deps, id)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, bringUp))
  await sweep(deps)
}

/** Tries once, and goes on trying in the background where that fails: one broken database must not hold up the others. */
async function resume(deps: Deps, id: DatabaseId, backoffMs = 1_000): Promise<void> {
  try {
    await deps.turns.take(id, async (signal) => {
      const status = (await databaseStatuses(deps.db, [id])).get(id)
      if (status === 'available' && !deps.signal.aborted) await deps.driver.resume(id, { signal })
    })
  } catch (err) {
    if (deps.signal.aborted) return
    deps.log.error({ err, databaseId: id, retryInMs: backoffMs }, 'instance.cannot_resume')
    void sleep(backoffMs, undefined, { signal: deps.signal }).then(
      () => resume(deps, id, Math.min(backoffMs * 2, backoffMsMax)),
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
    else if (status === 'failed' || status === 'deleted') await turns.take(id, () => driver.remove(id))
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
