import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Database } from '../db/database.ts'
import { announceNode, type Prices, withdrawNode } from '../store/platform/nodes.ts'

/** Often enough that the work of a node that was killed is somebody else's within seconds. */
const announceMs = 1_000
/**
 * A node that was not heard of for so long is taken for dead. It may only be slow, so nothing that it does afterwards
 * counts for what others have taken over.
 */
export const silentSeconds = 5

/** Long enough for whatever a machine may be down for. */
export const goneSeconds = 86_400

export type Presence = {
  /** The first announcement; from then on it is repeated. Only once work that is sent here will be found here. */
  begin(): Promise<void>
  /** For how long this node has been heard without a gap. Whoever was not heard itself cannot tell who is silent. */
  steadySeconds(): number
  /** The node keeps what it has, and is given nothing new. */
  withdraw(): Promise<void>
}

/** This node's sign of life to the others. `onReturn`: it was silent for so long that they may have taken over its work. */
export function createPresence(deps: {
  db: Database
  node: string
  databasesMax: number
  prices: Prices
  signal: AbortSignal
  onReturn(): void
  log: Logger
}): Presence {
  let saidAtMs: number | undefined
  let steadySinceMs = 0

  async function announce(): Promise<void> {
    const beforeMs = Date.now()
    await announceNode(deps.db, deps.node, deps)
    const first = saidAtMs === undefined
    // Reckoned from before the last to after this one: whatever gap others may have seen is shorter.
    const sinceMs = first ? 0 : Date.now() - saidAtMs!
    // A clock that was ahead and has been set back shows none, and what was reckoned by it is worthless for as long.
    const gap = first || sinceMs < 0 || sinceMs > silentSeconds * 1_000
    if (gap) steadySinceMs = Date.now()
    saidAtMs = beforeMs
    if (gap && !first) deps.onReturn()
  }

  async function repeat(): Promise<void> {
    while (!deps.signal.aborted) {
      await sleep(announceMs, undefined, { signal: deps.signal }).catch(() => {})
      if (!deps.signal.aborted) await announce().catch((err) => deps.log.warn({ err }, 'node.not_announced'))
    }
  }

  let repeating: Promise<void> | undefined
  return {
    async begin() {
      await announce()
      repeating = repeat()
    },
    steadySeconds() {
      const heard = saidAtMs !== undefined && Date.now() - saidAtMs < silentSeconds * 1_000
      return heard ? (Date.now() - steadySinceMs) / 1_000 : 0
    },
    async withdraw() {
      await repeating
      if (repeating !== undefined) await withdrawNode(deps.db, deps.node)
    },
  }
}
