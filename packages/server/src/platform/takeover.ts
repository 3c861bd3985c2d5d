import { setTimeout as sleep } from 'node:timers/promises'
import type { PgBoss } from 'pg-boss'
import type { Database } from '../db/database.ts'
import type { PlatformJob } from '../domain/platform-job.ts'
import { lockDatabase, unplaceDatabase } from '../store/platform/databases.ts'
import { silentNodes } from '../store/platform/nodes.ts'
import { anyNode, givenUp, invoicing, nodeQueue } from './jobs/queue-names.ts'
import { reclaimSilent, type StrandedJob, unsettledJobs } from './jobs/reclaim.ts'
import { handlerOf, reasonFrom, type Settle, type WorkDeps } from './jobs/worker.ts'
import { type Presence, silentSeconds } from './presence.ts'

const lookMs = 1_000
const goneReason = 'The node that worked on it went away and did not come back.'

type Deps = WorkDeps & {
  db: Database
  boss: PgBoss
  node: string
  presence: Pick<Presence, 'steadySeconds'>
  /** How long work that only one node can do waits for that node. */
  patienceSeconds: number
  signal: AbortSignal
}

/** Looks after the work of nodes that have fallen silent, until it is told to stop. */
export async function watchOthers(deps: Deps): Promise<void> {
  while (!deps.signal.aborted) {
    await sleep(lookMs, undefined, { signal: deps.signal }).catch(() => {})
    if (deps.signal.aborted) return
    await lookAround(deps).catch((err) => deps.log.warn({ err }, 'nodes.not_watched'))
  }
}

async function lookAround(deps: Deps): Promise<void> {
  const { boss, log } = deps
  const steadySeconds = deps.presence.steadySeconds()
  // After a time in which PostgreSQL was away everybody looks silent.
  if (steadySeconds < silentSeconds) return
  const count = await reclaimSilent(boss, [anyNode, givenUp(anyNode), invoicing], silentSeconds)
  if (count > 0) log.info({ count }, 'jobs.reclaimed')
  const abandoned = new Map<string, Abandoned>()
  for (const { id, silent_seconds } of await silentNodes(deps.db, deps.node, silentSeconds)) {
    const silent = { node: id, silentSeconds: Math.min(silent_seconds, steadySeconds) }
    abandoned.set(nodeQueue(id), { ...silent, attemptsLeft: true })
    abandoned.set(givenUp(nodeQueue(id)), { ...silent, attemptsLeft: false })
  }
  if (abandoned.size === 0) return
  for (const job of await unsettledJobs(boss, [...abandoned.keys()])) {
    await takeOver(deps, job, abandoned.get(job.queue)!).catch((err) =>
      log.error({ ...job.data, err }, 'job.not_taken_over'),
    )
  }
}

/** A queue that nobody works on at the moment. Where no attempts are left, only the outcome is to be told. */
type Abandoned = { node: string; silentSeconds: number; attemptsLeft: boolean }

export type Fate = 'place_again' | 'give_up' | 'wait'

/** What becomes of a job that was for a silent node. */
export function fateOf(
  kind: PlatformJob['kind'],
  { silentSeconds, attemptsLeft, patienceSeconds }: Omit<Abandoned, 'node'> & { patienceSeconds: number },
): Fate {
  switch (kind) {
    // Nobody's data is there yet, so any other node can begin from the start.
    case 'database.provision':
      return attemptsLeft ? 'place_again' : 'give_up'
    // These need files that only the silent node has.
    case 'backup.take':
    case 'restore.run':
      return attemptsLeft && silentSeconds < patienceSeconds ? 'wait' : 'give_up'
    // The files are there until that node removes them; to call them gone would not be true.
    case 'database.remove':
    case 'database.discard':
    case 'backup.remove':
    // Never for one node alone.
    case 'database.place':
      return 'wait'
  }
}

async function takeOver(deps: Deps, job: StrandedJob, from: Abandoned): Promise<void> {
  const fate = fateOf(job.data.kind, { ...from, patienceSeconds: deps.patienceSeconds })
  if (fate === 'wait') return
  const settle: Settle = async (write) => {
    await deps.transact(async (tx) => {
      await write(tx)
      await deps.queue.cancel(tx, job.queue, job.id)
    })
  }
  if (fate === 'place_again') await placeAgain(deps, job.data, from.node, settle)
  else {
    const reason = from.attemptsLeft ? goneReason : reasonFrom(job.sourceOutput)
    // Nothing to tidy up here: what is on the silent node, that one removes when it is back.
    await handlerOf(deps, job.data).giveUp(job.data, reason, settle, async () => {})
  }
  deps.log.warn({ ...job.data, fate, node: from.node }, 'job.taken_over')
}

async function placeAgain({ queue }: Deps, job: PlatformJob, from: string, settle: Settle): Promise<void> {
  if (job.kind !== 'database.provision') throw new Error(`${job.kind} cannot be placed again`)
  const { orgId, databaseId } = job
  await settle(async (tx) => {
    const database = await lockDatabase(tx, orgId, databaseId)
    if (database?.status !== 'provisioning' || database.node !== from) return
    await unplaceDatabase(tx, orgId, databaseId)
    await queue.enqueue(tx, { kind: 'database.place', orgId, databaseId })
    // For when it is back: it may have made something of it.
    await queue.enqueue(tx, { kind: 'database.discard', orgId, databaseId, node: from })
  })
}
