import { createBatcher, writeOrHalve } from '../../lib/batcher.ts'
import type { Clock } from '../../lib/clock.ts'
import type { SettledAttempt } from '../statements/settle.ts'
import type { DispatchStore, Retry } from './ports.ts'

/** Nothing waits for a settlement, and a statement costs as much as many rows: 25 ms make few statements. */
const gatherMs = 25
const batchMax = 256

export type Settler = {
  /** Resolves when the outcome is on disk, or belongs to the lane's next holder. */
  settle(attempt: SettledAttempt): Promise<void>
  idle(): Promise<void>
}

type Waiting = { attempt: SettledAttempt; done(): void }

/** Records outcomes in batches, and retries until they are accepted. */
export function createSettler(deps: {
  store: Pick<DispatchStore, 'settle'>
  clock: Clock
  retry: Retry
  isDataError(error: unknown): boolean
  ensurePartitions(): Promise<void>
  observe(size: number, recorded: number): void
}): Settler {
  /** Attempts that could not be stored even alone; retried beside the others, so that they block no other. */
  const setAside = new Set<Promise<void>>()
  const batches = createBatcher<Waiting>({
    clock: deps.clock,
    sizeMax: batchMax,
    concurrencyMax: 2,
    gather: { ms: gatherMs, size: batchMax / 4 },
    // The error may also be that the dispatcher is over; then the last ones are given up one by one.
    run: (batch) => writeOrHalve(batch, { write, isRejected: () => true, onFailed: ([one]) => writeAside(one!) }),
  })

  async function write(batch: readonly Waiting[]): Promise<void> {
    const attempts = batch.map(({ attempt }) => attempt)
    let dataErrors = 0
    const recorded = await deps.retry(
      'settle',
      () => deps.store.settle(attempts),
      async (error) => {
        if (!deps.isDataError(error)) return
        await deps.ensurePartitions()
        dataErrors += 1
        if (dataErrors > 1) throw error
      },
    )
    deps.observe(batch.length, recorded)
    for (const { done } of batch) done()
  }

  /** Without what the receiver sent, which may be what cannot be stored. */
  function writeAside({ attempt, done }: Waiting): void {
    const plain = withoutResponse(attempt)
    const written = deps
      .retry('settle', () => deps.store.settle([plain]), deps.ensurePartitions)
      .then(done, () => {})
      .finally(() => setAside.delete(written))
    setAside.add(written)
  }

  return {
    settle: (attempt) => new Promise((done) => batches.add({ attempt, done })),
    async idle() {
      await batches.idle()
      await Promise.all(setAside)
    },
  }
}

function withoutResponse(attempt: SettledAttempt): SettledAttempt {
  const { response, error } = attempt.outcome
  return {
    ...attempt,
    outcome: {
      ...attempt.outcome,
      response: response && { ...response, headers: '', body: '', complete: false },
      error: error && { ...error, detail: null },
    },
  }
}
