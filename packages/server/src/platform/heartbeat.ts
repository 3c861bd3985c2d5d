import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Database } from '../db/database.ts'
import { type Announcement, announceNode, deadAfterSeconds, withdrawNode } from '../store/platform/nodes.ts'

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

export type Heartbeat = {
  /** Sends the first heartbeat and repeats it. Call it once the node's queue exists: jobs are placed here from then on. */
  start(): Promise<void>
  /** Another one at once, because what it says has changed. */
  now(): Promise<void>
  /** For how long the heartbeat had no gap. A node that was itself unreachable cannot tell which others are dead. */
  steadySeconds(): number
  /** The node keeps its databases and gets no new ones. */
  stop(): Promise<void>
}

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
}): Heartbeat {
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
    async start() {
      await send()
      repeating = repeat()
    },
    now: send,
    steadySeconds() {
      const isRecent = lastSentMs !== undefined && Date.now() - lastSentMs < deadAfterSeconds * 1_000
      return isRecent ? (Date.now() - steadySinceMs) / 1_000 : 0
    },
    async stop() {
      await repeating
      if (repeating !== undefined) await withdrawNode(deps.db, deps.node)
    },
  }
}
