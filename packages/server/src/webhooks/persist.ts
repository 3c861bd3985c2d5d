import { type Clock, pause } from './clock.ts'

const firstPauseMs = 50
const pauseMsMax = 1_000

/**
 * Says the same thing to the database until it takes it. Everything said this way may be said twice. PostgreSQL being away
 * is a matter of waiting; what it refuses is told to `onRefused`, which may mend it or give up by throwing.
 */
export function createPersist(deps: {
  clock: Clock
  isUnavailable(error: unknown): boolean
  onRetry(error: unknown, what: string): void
}) {
  return async function persist<T>(
    what: string,
    say: () => Promise<T>,
    onRefused?: (error: unknown) => Promise<void>,
  ): Promise<T> {
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMsMax, pauseMs * 2)) {
      try {
        return await say()
      } catch (error) {
        deps.onRetry(error, what)
        if (!deps.isUnavailable(error)) {
          if (onRefused === undefined) throw error
          await onRefused(error)
        }
        await pause(deps.clock, pauseMs)
      }
    }
  }
}
export type Persist = ReturnType<typeof createPersist>
