import type { Clock } from './clock.ts'

/** Work that is done again and again, each time so long after it has come to an end. */
export function createRounds(deps: { clock: Clock; onError(error: unknown): void }) {
  const cancels = new Set<() => void>()
  let stopped = false

  return {
    every(ms: number, work: () => Promise<void> | void): void {
      let cancel = () => {}
      const again = () => {
        cancel = deps.clock.after(ms, async () => {
          try {
            await work()
          } catch (error) {
            deps.onError(error)
          }
          if (!stopped) again()
        })
      }
      again()
      cancels.add(() => cancel())
    },
    stop(): void {
      stopped = true
      for (const cancel of cancels) cancel()
    },
  }
}
