import { type Clock, pause } from './clock.ts'

const firstPauseMs = 50
const pauseMsMax = 1_000

/**
 * Says the same thing to the database until it takes it. Everything said this way may be said twice. PostgreSQL being away
 * is a matter of waiting, and mostly so is what it refuses, such as with a disk that is full; `onRefused` may mend it, or
 * give up by throwing.
 * Once everything is over nothing is said any more, and nobody gets an answer: there is nobody left who waits for one.
 */
export function createInsist(deps: {
  clock: Clock
  isUnavailable(error: unknown): boolean
  isOver(): boolean
  onRetry(error: unknown, what: string): void
}) {
  return async function insist<T>(
    what: string,
    say: () => Promise<T>,
    onRefused?: (error: unknown) => Promise<void>,
  ): Promise<T> {
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMsMax, pauseMs * 2)) {
      if (deps.isOver()) return new Promise(() => {})
      try {
        return await say()
      } catch (error) {
        deps.onRetry(error, what)
        if (!deps.isUnavailable(error)) await onRefused?.(error)
        await pause(deps.clock, pauseMs)
      }
    }
  }
}
export type Insist = ReturnType<typeof createInsist>
