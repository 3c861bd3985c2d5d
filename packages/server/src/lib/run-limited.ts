import { createContext, Script } from 'node:vm'

const box: { work: (() => unknown) | null } = { work: null }
const context = createContext(box)
const script = new Script('work()')

/** So that work which does not end is stopped soon on a busy machine, too. */
const callsMax = 4

const processorMs = (): number => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}

/**
 * Runs synchronous work for at most so many milliseconds, then throws `TookTooLong`. V8 stops it wherever it is, also within a
 * regular expression. Costs 80 us, so it is for work whose duration depends on what others wrote.
 *
 * V8 counts the time in which other processes run, too: on a busy machine, 33 ms of work took 253. Work that had the processor for
 * less than half of its time is called again, a few times, and may go on where it was.
 */
export function runLimited<T>(work: () => T, msMax: number): T {
  const beforeMs = processorMs()
  box.work = work
  try {
    for (let call = 1; ; call++) {
      try {
        return script.runInContext(context, { timeout: msMax }) as T
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error
        if (call === callsMax || processorMs() - beforeMs >= msMax / 2) throw new TookTooLong()
      }
    }
  } finally {
    box.work = null
  }
}

export class TookTooLong extends Error {}
