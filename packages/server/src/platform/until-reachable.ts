import { setTimeout as sleep } from 'node:timers/promises'
import { isUnavailable } from '../db/database.ts'

const pauseMsMin = 100
const pauseMsMax = 2_000

/** Of two nodes that make the schema of jobs at the same moment, one is told so; the other's is as good. */
const isMadeByOther = (error: unknown): boolean =>
  (error as { constraint?: string } | null)?.constraint === 'pg_namespace_nspname_index'

const isAway = (error: unknown): boolean => isUnavailable(error) || isMadeByOther(error)

/** Says the same thing to the database until it takes it: PostgreSQL being away is a matter of waiting. It may be said twice. */
export async function untilReachable<T>(
  say: () => Promise<T>,
  deps: { signal: AbortSignal; onRetry(error: unknown): void },
): Promise<T> {
  for (let pauseMs = pauseMsMin; ; pauseMs = Math.min(pauseMsMax, pauseMs * 2)) {
    deps.signal.throwIfAborted()
    try {
      return await say()
    } catch (error) {
      if (!isAway(error)) throw error
      deps.onRetry(error)
      await sleep(pauseMs, undefined, { signal: deps.signal })
    }
  }
}
