import { expect, test } from 'vitest'
import { plantedBugs } from './planted-bugs.ts'
import { runSeed } from './run.ts'
import {
  acrossFailover,
  acrossRestart,
  withMissingPartition,
  withSlowDatabase,
  withUnstorableAttempt,
} from './scenarios/database.ts'
import { inFlightAfterDeletionMs, sentAfterDeletion } from './scenarios/deletion.ts'
import { fairWaitMs, longestWaitMs } from './scenarios/fairness.ts'
import { requestsAtOnceMax } from './scenarios/hanging-receivers.ts'
import { withMissingKey } from './scenarios/missing-key.ts'
import { aroundPause } from './scenarios/pause.ts'
import { sentAcrossLeases, sentAfterChangeMs, withRateLimit } from './scenarios/rate-limit.ts'
import { attemptsAfterRedelivery, retriedAfterMs } from './scenarios/retries.ts'
import { activeAfterStopMs, heldBesideLocked } from './scenarios/stopping.ts'

/*
 * The real dispatcher in a world where everything else is simulated: time, PostgreSQL, receivers and their faults. A run is its seed:
 * SIMULATION_SEED=123 runs that one alone and prints every step, SIMULATION_SEEDS=20000 runs many, from SIMULATION_FIRST on.
 */
const only = process.env.SIMULATION_SEED
const seeds = Number(process.env.SIMULATION_SEEDS ?? 250)
const first = Number(process.env.SIMULATION_FIRST ?? 1)
const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1)

async function run(seed: number) {
  try {
    return await runSeed(seed, only === undefined ? {} : { trace: (line) => console.log(line) })
  } catch (error) {
    throw new Error(`SIMULATION_SEED=${seed}: ${(error as Error).message}`, { cause: error })
  }
}

test('whatever fails, every delivery is finished, in order, and every request is recorded', {
  timeout: 60_000 + seeds * 200,
}, async () => {
  const numbers = only === undefined ? upTo(seeds).map((n) => first - 1 + n) : [Number(only)]
  let requests = 0
  for (const seed of numbers) requests += (await run(seed)).requests
  expect(requests).toBeGreaterThan(numbers.length)
})

test('the same seed gives the same run', async () => {
  const linesOf = async (seed: number) => {
    const lines: string[] = []
    await runSeed(seed, { trace: (line) => lines.push(line) })
    return lines
  }
  for (const seed of [7, 8]) expect(await linesOf(seed)).toEqual(await linesOf(seed))
})

test.each(Object.entries(plantedBugs))(
  'the checks find a planted bug: %s',
  { timeout: 120_000 },
  async (_name, plant) => {
    const runAll = async () => {
      for (const seed of upTo(500)) await runSeed(seed, { plant })
    }
    await expect(runAll()).rejects.toThrow()
  },
)

test('an organization whose receivers all hang delays other organizations by one deadline at most', {
  timeout: 60_000,
}, async () => {
  for (const seed of upTo(30)) expect(await longestWaitMs(seed), `seed ${seed}`).toBeLessThan(fairWaitMs)
})

test('receivers that hang together are not retried together', async () => {
  for (const seed of upTo(10)) expect(await requestsAtOnceMax(seed), `seed ${seed}`).toBeLessThan(25)
})

test('a process that stops gives its lanes back, also while another one of them is locked', async () => {
  for (const seed of upTo(20)) expect(await heldBesideLocked(seed), `seed ${seed}`).toEqual([])
})

test('a process that stops while PostgreSQL cannot be reached does end', async () => {
  // A statement that is under way may take as long as a lease.
  for (const seed of upTo(20)) expect(await activeAfterStopMs(seed), `seed ${seed}`).toBeLessThan(10_000)
})

test('a deleted webhook has nothing in flight a moment later', async () => {
  for (const seed of upTo(20)) expect(await inFlightAfterDeletionMs(seed), `seed ${seed}`).toBeLessThan(250)
})

test('attempts of a process that was paused are not sent once the webhook is deleted', async () => {
  for (const ms of upTo(80)) expect(await sentAfterDeletion(ms), `paused after ${ms} ms`).toBe(0)
})

test.each([true, false])('a paused webhook gets nothing until the pause ends (resumed: %s)', async (resumed) => {
  const { during, waitedMs } = await aroundPause({ resumed })
  expect(during).toBe(0)
  expect(waitedMs).toBeLessThan(500)
})

test.each([1, 20, 100])(
  'a webhook with a limit of %i a second gets no more, and no other waits for it',
  async (limit) => {
    const { most, average, waitedMs } = await withRateLimit(limit)
    expect(most).toBeLessThanOrEqual(Math.ceil(limit * 1.1) + 1)
    expect(average).toBeGreaterThan(limit * 0.9)
    expect(waitedMs).toBeLessThan(500)
  },
)

test('the limit of a webhook counts across leases', async () => {
  const { sent, leases } = await sentAcrossLeases()
  expect(sent).toBeGreaterThanOrEqual(9)
  expect(sent).toBeLessThanOrEqual(12)
  expect(leases).toBeGreaterThan(0)
})

test('a changed limit reaches the holder of the lane within a renewal of its lease', async () => {
  expect(await sentAfterChangeMs()).toBeLessThan(1_500)
})

test.each([200, 700, 900])('a retry goes out in time in a lane that gets an event every %i ms', async (everyMs) => {
  expect(await retriedAfterMs(everyMs)).toBeLessThan(5_000)
})

test('a redelivery that is requested while its retry waits gets the whole schedule', async () => {
  // One attempt before it, and two of the schedule from its start.
  expect(await attemptsAfterRedelivery()).toBe(3)
})

test('a restart of PostgreSQL without loss costs no request, and no lane waits until its lease expires', async () => {
  const { waitedMs, attempts } = await acrossRestart()
  expect(waitedMs).toBeLessThan(2_000)
  expect(attempts).toBe(2)
})

test('an outcome is not recorded for another event that got the same number after a failover', async () => {
  // The lost event was received, and its attempt is lost with it. The new event with its number is delivered.
  expect(await acrossFailover()).toEqual({ received: ['1.1', '2.1', '2.2'], recorded: 2 })
})

test('where PostgreSQL takes most of a second for a statement, each delivery is sent once', async () => {
  expect(await withSlowDatabase()).toEqual({ attempts: 30, requests: 30 })
})

test('an attempt that cannot be stored holds up no other', async () => {
  const { othersMs, itsMs } = await withUnstorableAttempt()
  expect(othersMs).toBeLessThan(2_000)
  expect(itsMs).toBeLessThan(15_000)
})

test('a missing partition is added when an outcome needs it, also by the process that takes over', async () => {
  expect(await withMissingPartition({ dies: false })).toBeLessThan(2_000)
  expect(await withMissingPartition({ dies: true })).toBeLessThan(6_000)
})

test('a process that lacks the key of a webhook leaves the lane to others, and tries it once a minute', async () => {
  const { leases, waitedMs, attempts } = await withMissingKey()
  expect(leases).toBe(3)
  expect(waitedMs).toBeLessThan(2_000)
  expect(attempts).toEqual(['interrupted', 'succeeded'])
})
