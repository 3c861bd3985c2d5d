import { createBatcher, writeOrHalve } from '../../lib/batcher.ts'
import { type Clock, pause } from '../../lib/clock.ts'
import { type RetrySchedule, retryDelayMs } from '../retry-schedule.ts'
import type { Exchange } from '../sender/port.ts'
import type { SettledAttempt } from '../statements/settle.ts'
import type { DispatchStore, Retry } from './ports.ts'

/** No file descriptor or buffer was free for a connection: others have to end first. */
const exhaustedMs = 1_000

/** A failure that took at least a second delays its lane by up to a tenth of that time. */
const delayShare = 0.1
const delayMsMin = 100

/** The receiver had no part in it, so no try of its schedule is spent. */
const isOurFault = ({ status, error }: Exchange): boolean =>
  status === 'interrupted' || error?.code === 'sender_exhausted'

/**
 * How many tries of the schedule are spent, and when the next one is due; null when the delivery is finished. `probeMs`: the webhook is
 * suspended and this was a probe, which spends none.
 */
export function afterAttempt(
  exchange: Exchange,
  triesBefore: number,
  { schedule, random, probeMs }: { schedule: RetrySchedule; random: number; probeMs: number | null },
): { tries: number; retryMs: number | null } {
  const tries = triesBefore + (isOurFault(exchange) ? 0 : 1)
  if (exchange.status === 'interrupted') return { tries, retryMs: 0 }
  if (isOurFault(exchange)) return { tries, retryMs: Math.round(exhaustedMs * (1 + random)) }
  if (exchange.status === 'succeeded' || exchange.gone) return { tries, retryMs: null }
  if (probeMs !== null) return { tries: triesBefore, retryMs: probeMs }
  return { tries, retryMs: retryDelayMs(schedule, tries, { retryAfterMs: exchange.retryAfterMs, random }) }
}

/**
 * Requests that hang together end together. If their successors left at once, hundreds of TLS handshakes would happen at one time,
 * deadline after deadline: with 500 hanging receivers the p99 of all others rose to 0.2 to 0.7 s.
 */
export function delayAfter({ status, durationUs }: Exchange, random: number): number {
  const msMax = ((durationUs ?? 0) / 1_000) * delayShare
  return status === 'failed' && msMax >= delayMsMin ? random * msMax : 0
}

export const interrupted: Exchange = {
  status: 'interrupted',
  requestHeaders: null,
  durationUs: null,
  firstByteUs: null,
  address: null,
  dnsUs: null,
  connectUs: null,
  tlsUs: null,
  response: null,
  error: { code: 'interrupted', detail: 'The dispatcher stopped before the outcome was known.' },
  gone: false,
  retryAfterMs: null,
}

/** Nothing waits for a settlement, and a statement costs as much as many rows: 25 ms make few statements. */
const gatherMs = 25
const batchMax = 256
/** How long attempts wait whose lane is locked. */
const postponedMs = 25

type Waiting = { attempt: SettledAttempt; done(): void }

/** Records outcomes in batches, and retries until they are accepted. */
export function createSettler(deps: {
  store: Pick<DispatchStore, 'settle'>
  clock: Clock
  retry: Retry
  isDataError(error: unknown): boolean
  ensurePartitions(): Promise<void>
  observe(size: number, recorded: number): void
}) {
  /** Attempts that could not be stored even alone; retried beside the others, so that they block no other. */
  const setAside = new Set<Promise<void>>()
  let postponed = 0
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
    const settled = await deps.retry(
      'settle',
      () => deps.store.settle(attempts),
      async (error) => {
        if (!deps.isDataError(error)) return
        await deps.ensurePartitions()
        dataErrors += 1
        if (dataErrors > 1) throw error
      },
    )
    deps.observe(batch.length - settled.postponed.size, settled.recorded)
    for (const one of batch) {
      if (settled.postponed.has(one.attempt.attempt.attemptId)) postpone(one)
      else one.done()
    }
  }

  function postpone(one: Waiting): void {
    postponed += 1
    deps.clock.after(postponedMs, () => {
      postponed -= 1
      batches.add(one)
    })
  }

  /** Without what the receiver sent, which may be what cannot be stored. */
  function writeAside({ attempt, done }: Waiting): void {
    const plain = withoutResponse(attempt)
    const written = deps
      .retry('settle', () => deps.store.settle([plain]), deps.ensurePartitions)
      .then(
        (settled) => (settled.postponed.size > 0 ? postpone({ attempt: plain, done }) : done()),
        () => {},
      )
      .finally(() => setAside.delete(written))
    setAside.add(written)
  }

  return {
    /** Resolves when the outcome is on disk, or belongs to the lane's next holder. */
    settle: (attempt: SettledAttempt) => new Promise<void>((done) => batches.add({ attempt, done })),
    async idle(): Promise<void> {
      for (;;) {
        await batches.idle()
        await Promise.all(setAside)
        if (postponed === 0) return
        await pause(deps.clock, postponedMs)
      }
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

/**
 * A new lane starts with few requests: nothing is known about its receiver yet. With one, a lane that gets a burst while other
 * receivers hang would use one place of each that becomes free, and wait for a second deadline.
 */
export const firstConcurrency = 2

/** Answers slower than this count like failures. */
const slowUs = 2_000_000
/** Answers faster than this raise the limit by one each, so that it doubles with every round; slower ones by one a round. */
const fastUs = 250_000
/**
 * With so many requests in flight the process is the bottleneck. A further connection then carries nothing and costs a TLS
 * handshake, which is worth tens of deliveries, so lanes stay at a few.
 */
const enoughInFlight = 512
const fewConnections = 4

type Seen = Pick<Exchange, 'status' | 'durationUs' | 'dnsUs' | 'connectUs' | 'tlsUs'>

/**
 * Additive increase, multiplicative decrease, as TCP does it. A receiver that is slow, fails or hangs comes down to a single
 * request. `wanted`: the lane has more to send than it may. `inFlight`: of all lanes.
 */
export function nextConcurrency(
  now: number,
  seen: Seen,
  wanted: boolean,
  { max, inFlight }: { max: number; inFlight: number },
): number {
  if (seen.status === 'interrupted') return now
  const us = (seen.durationUs ?? 0) - (seen.dnsUs ?? 0) - (seen.connectUs ?? 0) - (seen.tlsUs ?? 0)
  if (seen.status === 'failed' || us > slowUs) return Math.max(1, now / 2)
  if (!wanted || (now >= fewConnections && inFlight >= enoughInFlight)) return now
  return Math.min(max, us < fastUs ? now + 1 : now + 1 / now)
}
