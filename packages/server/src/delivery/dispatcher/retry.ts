import { type Clock, pause } from '../../lib/clock.ts'
import { retryUntilAccepted } from '../../lib/retry.ts'

/** Sends a statement until PostgreSQL accepts it. `onError` may repair the cause, or throw to give up. */
export type Retry = <T>(step: string, work: () => Promise<T>, onError?: (error: unknown) => Promise<void>) => Promise<T>

/** Every statement of the engine may be sent twice. Once the dispatcher is over, errors are thrown instead. */
export const createRetry = (deps: {
  clock: Clock
  isOver(): boolean
  onError(error: unknown, step: string): void
}): Retry => {
  return (step, work, onError) =>
    retryUntilAccepted(
      {
        pause: (ms) => pause(deps.clock, ms),
        isTransient: () => !deps.isOver(),
        async onRetry(error) {
          deps.onError(error, step)
          await onError?.(error)
        },
        pauseMsMin: 50,
        pauseMsMax: 1_000,
      },
      work,
    )
}
