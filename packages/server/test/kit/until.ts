import { setTimeout as sleep } from 'node:timers/promises'
import { TestRunner } from 'vitest'

/** In a hook, and what is left of the test's time to say what was waited for. */
const [hookMsMax, sparedMs] = [80_000, 2_000]

type Wanted<T> = Exclude<T, false | null | undefined | 0 | ''>

/**
 * Repeats `look` until its result is true, or as `isWanted` wants it. It gives up shortly before the limit of the test, with the
 * last result and what was looked at.
 */
export async function until<T>(look: () => T | Promise<T>): Promise<Wanted<T>>
export async function until<T>(look: () => T | Promise<T>, isWanted: (result: T) => boolean): Promise<T>
export async function until<T>(look: () => T | Promise<T>, isWanted?: (result: T) => boolean): Promise<T> {
  const test = TestRunner.getCurrentTest()
  const deadline = (test?.result?.startTime ?? Date.now()) + (test?.timeout ?? hookMsMax) - sparedMs
  for (;;) {
    const result = await look()
    if (isWanted === undefined ? result : isWanted(result)) return result
    if (Date.now() > deadline) throw new Error(`Still ${JSON.stringify(result)}: ${look} ${isWanted ?? ''}`)
    await sleep(20)
  }
}
