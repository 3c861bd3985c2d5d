import { setTimeout as sleep } from 'node:timers/promises'
import type { PgBoss } from 'pg-boss'
import type { Logger } from 'pino'
import type { Database } from '../db/database.ts'
import { anyNode, deadLetter, invoicing, nodeQueue, type PlatformJob } from '../jobs/queue.ts'
import {
  handlerOf,
  reasonFrom,
  reclaimWithoutHeartbeat,
  type Settle,
  type UnsettledJob,
  unsettledJobs,
  type WorkDeps,
} from '../jobs/worker.ts'
import { pickTarget } from './moving.ts'
import {
  type Announcement,
  announceNode,
  deadAfterSeconds,
  handOverDatabase,
  nodesToMoveTo,
  silentNodes,
  withdrawNode,
} from './node-sql.ts'
import { lockDatabase, unplaceDatabase } from './sql.ts'

const checkMs = 1_000
const deadNodeReason = 'The node that worked on it stopped and did not come back.'

type Deps = WorkDeps & {
  db: Database
  boss: PgBoss
  node: string
  /** Queues of its own that other processes work on as well. */
  shared: readonly string[]
  heartbeat: Pick<ReturnType<typeof createHeartbeat>, 'steadySeconds'>
  /** How long a job that only one node can do waits for that node. */
  patienceSeconds: number
  signal: AbortSignal
}

/** Takes over the jobs of dead nodes until the signal aborts. */
export async function watchDeadNodes(deps: Deps): Promise<void> {
  while (!deps.signal.aborted) {
    await sleep(checkMs, undefined, { signal: deps.signal }).catch(() => {})
    if (deps.signal.aborted) return
    await checkNodes(deps).catch((err) => deps.log.warn({ err }, 'nodes.check_failed'))
  }
}

async function checkNodes(deps: Deps): Promise<void> {
  const { boss, log } = deps
  const steadySeconds = deps.heartbeat.steadySeconds()
  // After PostgreSQL was unreachable every node looks dead.
  if (steadySeconds < deadAfterSeconds) return
  const common = [anyNode, deadLetter(anyNode), invoicing, ...deps.shared]
  const count = await reclaimWithoutHeartbeat(boss, common, deadAfterSeconds)
  if (count > 0) log.info({ count }, 'jobs.reclaimed')
  const queues = new Map<string, DeadQueue>()
  for (const { id, silent_seconds } of await silentNodes(deps.db, deps.node, deadAfterSeconds)) {
    const dead = { node: id, deadSeconds: Math.min(silent_seconds, steadySeconds) }
    queues.set(nodeQueue(id), { ...dead, attemptsLeft: true })
    queues.set(deadLetter(nodeQueue(id)), { ...dead, attemptsLeft: false })
  }
  if (queues.size === 0) return
  for (const job of await unsettledJobs(boss, [...queues.keys()])) {
    await takeOver(deps, job, queues.get(job.queue)!).catch((err) =>
      log.error({ ...job.data, err }, 'job.takeover_failed'),
    )
  }
}

/** A queue of a dead node. In a dead letter queue no attempts are left and only the failure has to be settled. */
type DeadQueue = { node: string; deadSeconds: number; attemptsLeft: boolean }

export type TakeoverAction = 'place_again' | 'fail' | 'wait'

/** What to do with a job of a dead node. */
export function takeoverAction(
  kind: PlatformJob['kind'],
  { deadSeconds, attemptsLeft, patienceSeconds }: Omit<DeadQueue, 'node'> & { patienceSeconds: number },
): TakeoverAction {
  switch (kind) {
    // It has no customer data yet, so any other node can start from scratch.
    case 'database.provision':
      return attemptsLeft ? 'place_again' : 'fail'
    // The store has it.
    case 'database.arrive':
      return 'place_again'
    // These need files that only the dead node has.
    case 'backup.take':
    case 'restore.run':
      return attemptsLeft && deadSeconds < patienceSeconds ? 'wait' : 'fail'
    // The files exist until that node removes them, so reporting them as removed would be wrong.
    case 'database.remove':
    case 'database.discard':
    case 'backup.remove':
    // Clients cannot reach it any more, and nobody else has the end of its WAL. The operator may forget the node.
    case 'database.leave':
    case 'database.stay':
    // Never in the queue of one node.
    case 'database.place':
      return 'wait'
  }
}

async function takeOver(deps: Deps, job: UnsettledJob, from: DeadQueue): Promise<void> {
  const action = takeoverAction(job.data.kind, { ...from, patienceSeconds: deps.patienceSeconds })
  if (action === 'wait') return
  const settle: Settle = async (write) => {
    await deps.transact(async (tx) => {
      await write(tx)
      await deps.queue.cancel(tx, job.queue, job.id)
    })
  }
  if (action === 'place_again') {
    if (!(await placeAgain(deps, job.data, from.node, settle))) return
  } else {
    const reason = from.attemptsLeft ? deadNodeReason : reasonFrom(job.sourceOutput)
    // No cleanup here: the dead node removes its files when it is back.
    await handlerOf(deps, job.data).fail(job.data, reason, settle, async () => {})
    deps.observe?.failed(job.data.kind)
  }
  deps.log.warn({ ...job.data, action, node: from.node }, 'job.taken_over')
}

async function placeAgain(deps: Deps, job: PlatformJob, from: string, settle: Settle): Promise<boolean> {
  if (job.kind === 'database.arrive') return arriveElsewhere(deps, job, from, settle)
  const { queue } = deps
  if (job.kind !== 'database.provision') throw new Error(`${job.kind} cannot be placed again`)
  const { orgId, databaseId } = job
  await settle(async (tx) => {
    const database = await lockDatabase(tx, orgId, databaseId)
    if (database?.status !== 'provisioning' || database.node !== from) return
    await unplaceDatabase(tx, orgId, databaseId)
    await queue.enqueue(tx, { kind: 'database.place', orgId, databaseId })
    // The dead node may have created files, which it removes when it is back.
    await queue.enqueue(tx, { kind: 'database.discard', orgId, databaseId, node: from })
  })
  return true
}

/** False if no other node has room, or the database is not arriving there any more. */
async function arriveElsewhere(
  { db, queue }: Deps,
  { orgId, databaseId }: Extract<PlatformJob, { kind: 'database.arrive' }>,
  from: string,
  settle: Settle,
): Promise<boolean> {
  const leaving = (await db.begin((tx) => lockDatabase(tx, orgId, databaseId)))?.moving_from
  if (!leaving || (await nodesToMoveTo(db, leaving, deadAfterSeconds)).length === 0) return false
  await settle(async (tx) => {
    const database = await lockDatabase(tx, orgId, databaseId)
    if (database?.status !== 'provisioning' || database.node !== from || database.moving_from !== leaving) return
    const to = await pickTarget(tx, leaving)
    if (to === null) throw new Error('no other node has room any more')
    await handOverDatabase(tx, orgId, databaseId, to)
    await queue.enqueue(tx, { kind: 'database.arrive', orgId, databaseId, node: to })
    await queue.enqueue(tx, { kind: 'database.discard', orgId, databaseId, node: from })
  })
  return true
}

const heartbeatMs = 1_000

/** The message says what to do. */
export class NodeForgotten extends Error {
  override readonly name = 'NodeForgotten'
  override readonly message = forgottenNode
}

const forgottenNode =
  'This node was given up with `keyhook node forget`: its databases run on other nodes, and it never starts its copies again. ' +
  'They are in `databases` of its data directory. Use a new data directory for a new node.'

/** A node without a heartbeat for a day is forgotten, if it has no files. */
export const forgottenAfterSeconds = 86_400

/** `onReturn`: the gap was so long that other nodes may have taken over jobs of this one. */
export function createHeartbeat(deps: {
  db: Database
  node: string
  announcement(): Announcement
  signal: AbortSignal
  onReturn(): void
  /** It was given up while it was away, and its databases are elsewhere: nothing of it may run. */
  onForgotten(): void
  log: Logger
}) {
  let lastSentMs: number | undefined
  let steadySinceMs = 0

  async function send(): Promise<void> {
    const beforeMs = Date.now()
    if (!(await announceNode(deps.db, deps.node, deps.announcement()))) {
      // Before the first one nothing runs yet.
      if (lastSentMs !== undefined) deps.onForgotten()
      throw new NodeForgotten()
    }
    const isFirst = lastSentMs === undefined
    // From before the last one to after this one, so at least as long as the gap that others saw.
    const sinceMs = isFirst ? 0 : Date.now() - lastSentMs!
    // Negative: the clock was set back, and times measured before that are worthless.
    const isGap = isFirst || sinceMs < 0 || sinceMs > deadAfterSeconds * 1_000
    if (isGap) steadySinceMs = Date.now()
    lastSentMs = beforeMs
    if (isGap && !isFirst) deps.onReturn()
  }

  async function repeat(): Promise<void> {
    while (!deps.signal.aborted) {
      await sleep(heartbeatMs, undefined, { signal: deps.signal }).catch(() => {})
      if (!deps.signal.aborted) await send().catch((err) => deps.log.warn({ err }, 'node.heartbeat_failed'))
    }
  }

  let repeating: Promise<void> | undefined
  return {
    /** Sends the first heartbeat and repeats it. Call it once the node's queue exists: jobs are placed here from then on. */
    async start(): Promise<void> {
      await send()
      repeating = repeat()
    },
    /** Another one at once, because what it says has changed. */
    now: send,
    /** For how long the heartbeat had no gap. A node that was itself unreachable cannot tell which others are dead. */
    steadySeconds(): number {
      const isRecent = lastSentMs !== undefined && Date.now() - lastSentMs < deadAfterSeconds * 1_000
      return isRecent ? (Date.now() - steadySinceMs) / 1_000 : 0
    },
    /** The node keeps its databases and gets no new ones. */
    async stop(): Promise<void> {
      await repeating
      if (repeating !== undefined) await withdrawNode(deps.db, deps.node)
    },
  }
}
