import type { SettledAttempt } from '../../store/delivery/attempts.ts'
import { withoutWords } from './attempt-record.ts'
import type { Clock } from './clock.ts'
import type { DispatchStore } from './dispatch-store.ts'
import { createGroup, type Group } from './group.ts'
import type { Insist } from './insist.ts'

/** No request waits for a settlement, and what a statement costs is mostly the statement: a few milliseconds make few of them. */
const gatherMs = 10

/** Writes down what came of attempts, in groups. */
export function createSettling<T extends SettledAttempt>(deps: {
  store: Pick<DispatchStore, 'settle'>
  clock: Clock
  insist: Insist
  groupMax: number
  observe: { grouped(kind: 'settle', size: number, ours: number): void }
  mend(attemptIds: readonly string[]): Promise<void>
  isDataError(error: unknown): boolean
  afterSettling(attempt: T): void
}): Group<T> {
  /** Attempts that the database refuses, each written by itself. */
  const setAside = new Set<Promise<void>>()
  const groups = createGroup<T>({
    clock: deps.clock,
    sizeMax: deps.groupMax,
    atOnceMax: 2,
    gather: { ms: gatherMs, size: deps.groupMax / 4 },
    run: write,
  })

  /** Halves a group that cannot be stored until what is wrong stands alone, and holds up nobody else. */
  async function write(attempts: readonly T[]): Promise<void> {
    let refusals = 0
    const onRefused = async (error: unknown) => {
      if (!deps.isDataError(error)) return
      await deps.mend(attempts.map(({ begun }) => begun.attemptId))
      refusals += 1
      if (refusals > 1) throw error
    }
    let ours: number
    try {
      ours = await deps.insist('settle', () => deps.store.settle(attempts), onRefused)
    } catch {
      if (attempts.length === 1) return writeAside(attempts[0]!)
      const middle = attempts.length >> 1
      for (const half of [attempts.slice(0, middle), attempts.slice(middle)]) await write(half)
      return
    }
    deps.observe.grouped('settle', attempts.length, ours)
    for (const one of attempts) deps.afterSettling(one)
  }

  /** Recorded without the receiver's words, which may be what is wrong. Not waited for: it may never be taken. */
  function writeAside(attempt: T): void {
    const plain = withoutWords(attempt)
    const onRefused = () => deps.mend([attempt.begun.attemptId])
    const written = deps
      .insist('settle', () => deps.store.settle([plain]), onRefused)
      .then(() => {
        setAside.delete(written)
        deps.afterSettling(attempt)
      })
    setAside.add(written)
  }

  return {
    add: groups.add,
    async settled() {
      await groups.settled()
      await Promise.all(setAside)
    },
  }
}
