import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Database } from '../db/database.ts'
import { retryUntilAccepted } from '../lib/clock.ts'
import type { DatabaseId } from '../lib/ids.ts'
import type { KeyedQueue } from '../lib/keyed-queue.ts'
import { StepFailure } from '../lib/step-failure.ts'
import type { Activity, DatabaseDriver, LocalInstances } from './drivers/driver.ts'
import { correctDatabaseAddress, mayRunDatabase, organizationsOfNode } from './sql.ts'
import { recordActivity } from './usage-sql.ts'

type Deps = { db: Database; node: string; signal: AbortSignal; log: Logger }
type WatchDeps<Used extends keyof LocalInstances> = Deps & { instances: Pick<LocalInstances, Used> }
type ResumeDeps = Deps & { driver: DatabaseDriver; databaseWork: KeyedQueue }

const startsMax = 4
const backoffMs = { pauseMsMin: 1_000, pauseMsMax: 60_000 }

/** Most start in less than a second. One that has a long recovery does not keep the next one waiting. */
const slowMs = 2_000

/** Returns when each was tried once. Each is in its queue from the beginning, so that only jobs about the same database wait until it runs. */
export async function resumeDatabases(deps: ResumeDeps, ids: readonly DatabaseId[]): Promise<void> {
  const waiting = ids.map((id) => {
    const mayStart = Promise.withResolvers<void>()
    return { start: mayStart.resolve, tried: resume(deps, id, mayStart.promise) }
  })
  const all = waiting.map(({ tried }) => tried)
  const startNext = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      next.start()
      await Promise.race([next.tried, sleep(slowMs, undefined, { ref: false })])
    }
  }
  await Promise.all(Array.from({ length: startsMax }, startNext))
  await Promise.all(all)
}

/** Returns after the first attempt and retries in the background: one broken database must not delay the others. */
function resume(deps: ResumeDeps, id: DatabaseId, mayStart: Promise<void>): Promise<void> {
  const tried = Promise.withResolvers<void>()
  const attempt = () =>
    deps.databaseWork.run(id, async (signal) => {
      await Promise.race([mayStart, once(signal, 'abort')])
      signal.throwIfAborted()
      if (!(await mayRunDatabase(deps.db, deps.node, id))) return
      const address = await deps.driver.resume(id, { signal })
      // The settings may have changed since the row was written.
      await correctDatabaseAddress(deps.db, id, address)
    })
  void retryUntilAccepted(
    {
      ...backoffMs,
      // A permanent failure: the database was deleted in the meantime.
      isTransient: (error) => !deps.signal.aborted && !(error instanceof StepFailure && error.permanent),
      onRetry(err, retryInMs) {
        deps.log.error({ err, databaseId: id, retryInMs }, 'instance.cannot_resume')
        tried.resolve()
      },
      pause: (ms) => sleep(ms, undefined, { signal: deps.signal }),
    },
    attempt,
  ).then(tried.resolve, () => tried.resolve())
  return tried.promise
}

const risk =
  'Whoever gets a shell in one database can take the port of another while its server restarts, and ask its clients for their passwords.'

const warnMs = 60_000

/** Warns once, when databases of several organizations are on this machine and nothing protects their ports from each other. */
export async function warnOfNeighbours(deps: WatchDeps<'portProblem'>): Promise<void> {
  const { db, node, instances, signal, log } = deps
  const warned = async (): Promise<boolean> => {
    const organizations = await organizationsOfNode(db, node)
    const why = organizations > 1 ? await instances.portProblem() : null
    if (why !== null) log.warn({ organizations, why, risk, see: 'docs/isolation.md' }, 'databases.ports_unprotected')
    return why !== null
  }
  while (!signal.aborted) {
    if (await warned().catch(() => false)) return
    await sleep(warnMs, undefined, { signal, ref: false }).catch(() => {})
  }
}

const activityMs = 10_000
/** A database that is so busy that it does not answer in this time shows no statistics. */
const readMsMax = 5_000

/** So that the server of another node can show it. One database after the other: reading one takes about 10 ms. */
export async function watchActivity(deps: WatchDeps<'existing' | 'isRunning' | 'activity'>): Promise<void> {
  const { db, node, instances, signal, log } = deps
  async function read(id: DatabaseId): Promise<(Activity & { id: DatabaseId }) | null> {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(readMsMax)])
    try {
      return { id, ...(await instances.activity(id, { signal: limited })) }
    } catch (err) {
      // It may have been stopped meanwhile.
      log.debug({ err, databaseId: id }, 'activity.not_read')
      return null
    }
  }

  async function readAll(): Promise<void> {
    const found: (Activity & { id: DatabaseId })[] = []
    for (const id of await instances.existing()) {
      if (signal.aborted) return
      const activity = instances.isRunning(id) ? await read(id) : null
      if (activity !== null) found.push(activity)
    }
    if (found.length > 0) await recordActivity(db, node, found)
  }

  while (!signal.aborted) {
    await readAll().catch((err) => log.warn({ err }, 'activity.not_recorded'))
    await sleep(activityMs, undefined, { signal, ref: false }).catch(() => {})
  }
}
