import { expect, test } from 'vitest'
import { saidForAnnounced } from './announced.ts'
import { attemptsAfterAskingAgain } from './asking-again.ts'
import { secondBeginsAfterMs } from './beginning.ts'
import { departingMs } from './deleting.ts'
import { fairWaitMs, longestWaitMs } from './fairness.ts'
import { busiestMoment } from './hanging.ts'
import { whereAKeyIsMissing } from './missing-key.ts'
import { deliveredSlowly, sentLate } from './pausing.ts'
import { acrossRestart } from './restarting.ts'
import { retriedAfterMs } from './steady.ts'
import { keptBesideLocked, restlessMs } from './stopping.ts'
import { type Plant, tell } from './story.ts'
import { sentAfterTakingOver } from './taking-over.ts'

/*
 * The real dispatcher in a world where everything else is simulated: time, PostgreSQL, receivers, and what goes wrong with
 * them. A run is its seed: SIMULATION_SEED=123 tells that one alone, step by step; SIMULATION_SEEDS=100000 runs many more.
 *
 * Breaks of the engine that it has been seen to find: two groups of one lane begun at once, a lost lane read again, a token
 * given twice after a crash of the server, a request sent after its lane was given back, a lease that comes after the
 * stop, the lane of a deleted webhook kept for ever, lanes leased by age alone, and a lease that outlives its server: for
 * beginning, renewing, giving back, and attempts that it does not know settled.
 */
const only = process.env.SIMULATION_SEED
const seeds = Number(process.env.SIMULATION_SEEDS ?? 250)
const upTo = (count: number) => Array.from({ length: count }, (_, i) => i + 1)

async function run(seed: number, plant?: Plant) {
  try {
    return await tell(seed, { ...(plant && { plant }), ...(only && { trace: (line: string) => console.log(line) }) })
  } catch (error) {
    throw new Error(`SIMULATION_SEED=${seed}: ${(error as Error).message}`, { cause: error })
  }
}

test('whatever goes wrong, every delivery comes to its end, in order, and every request has its record', {
  timeout: 60_000 + seeds * 100,
}, async () => {
  const numbers = only === undefined ? upTo(seeds) : [Number(only)]
  let requests = 0
  for (const seed of numbers) requests += (await run(seed)).requests
  // Something has happened.
  expect(requests).toBeGreaterThan(numbers.length)
})

test('the same seed is the same run', async () => {
  const linesOf = async (seed: number) => {
    const lines: string[] = []
    await tell(seed, { trace: (line) => lines.push(line) })
    return lines
  }
  for (const seed of [7, 8]) expect(await linesOf(seed)).toEqual(await linesOf(seed))
})

test('an organization whose receivers hang in all places waits for itself: others wait for one deadline at most', {
  timeout: 60_000,
}, async () => {
  for (const seed of upTo(30)) expect(await longestWaitMs(seed), `seed ${seed}`).toBeLessThan(fairWaitMs)
})

const plants: [string, Plant][] = [
  [
    'an attempt is not written down',
    (statements, random) => {
      const { begin } = statements
      statements.begin = (attempts) => {
        const forgotten = random.chance(0.05) ? attempts.slice(1) : attempts
        begin(forgotten)
        return new Map(attempts.map((one) => [one.laneId, new Map()]))
      }
    },
  ],
  [
    'a lane is given to two',
    (statements) => {
      const { lease } = statements
      statements.lease = (request) => lease({ ...request, leaseMs: request.leaseMs / 6 })
      statements.renew = (held) => held.map(({ laneId }) => ({ laneId, headSeq: 0, asked: 0, ended: false }))
    },
  ],
  [
    'a delivery is left out of a read',
    (statements, random) => {
      const { read } = statements
      statements.read = (requests) => read(requests).filter(() => !random.chance(0.01))
    },
  ],
  [
    'what was announced begins although something before it was not',
    (statements) => {
      const { begin } = statements
      statements.begin = (beginnings) => begin(beginnings.map((one) => ({ ...one, surmised: null })))
    },
  ],
  [
    'a retry is forgotten',
    (statements, random) => {
      const { settle } = statements
      statements.settle = (attempts) =>
        settle(attempts.map((one) => (random.chance(0.05) ? { ...one, retryMs: null } : one)))
    },
  ],
]

test.each(plants)('the checks notice when %s', async (_what, plant) => {
  const found = async () => {
    for (const seed of upTo(100)) await tell(seed, { plant })
  }
  await expect(found()).rejects.toThrow()
})

test('a process that stops gives its lanes back, also where somebody has one of them locked', async () => {
  for (const seed of upTo(20)) expect(await keptBesideLocked(seed), `seed ${seed}`).toEqual([])
})

test('a process that is told to stop while PostgreSQL is away comes to rest', async () => {
  // What it has under way when it gives up may still take as long as a lease; after that there is nothing left to wait for.
  for (const seed of upTo(20)) expect(await restlessMs(seed), `seed ${seed}`).toBeLessThan(10_000)
})

test('a webhook that is deleted while its lane is busy has nothing on its way a moment later', async () => {
  for (const seed of upTo(20)) expect(await departingMs(seed), `seed ${seed}`).toBeLessThan(250)
})

test('a lane that is taken over while news is on its way misses nothing of it', async () => {
  expect(await sentAfterTakingOver()).toEqual([1, 2])
})

test('what is announced is sent with one statement; where one has overtaken another, the lane reads them both', async () => {
  const { overtaken, inOrder, overtakenAgain } = await saidForAnnounced()
  expect(inOrder).toEqual(['begin'])
  expect(overtaken.slice(0, 3)).toEqual(['begin', 'read', 'begin'])
  // The last number is known by then: it is seen at once that there must be another.
  expect(overtakenAgain.slice(0, 2)).toEqual(['news', 'begin'])
})

test('what few lanes have to begin waits for the beginning that is on its way, what many have does not', async () => {
  expect(await secondBeginsAfterMs(15, 10)).toBe(10)
  expect(await secondBeginsAfterMs(16, 10)).toBe(1)
  // Nor for long: the first may be waiting for somebody who has its lane locked.
  expect(await secondBeginsAfterMs(15, 400)).toBeLessThan(25)
})

test.each([200, 700, 900])('a retry of a lane that gets an event every %i ms goes out in its time', async (everyMs) => {
  expect(await retriedAfterMs(everyMs)).toBeLessThan(5_000)
})

test('receivers that hang together are not asked again together', async () => {
  for (const seed of upTo(10)) expect(await busiestMoment(seed), `seed ${seed}`).toBeLessThan(25)
})

test('a redelivery that is asked for while its retry waits in the lane gets the whole schedule', async () => {
  // One before it, and the two of the schedule from its start.
  expect(await attemptsAfterAskingAgain()).toBe(3)
})

test('a restart of PostgreSQL that loses nothing costs no request, and no lane waits for its lease to run out', async () => {
  const { waitedMs, attempts } = await acrossRestart()
  expect(waitedMs).toBeLessThan(2_000)
  expect(attempts).toBe(2)
})

test('what had begun when its process was paused does not leave once its webhook is deleted', async () => {
  for (let ms = 1; ms <= 80; ms++) expect(await sentLate(ms), `paused after ${ms} ms`).toBe(0)
})

test('where PostgreSQL takes most of a second for every statement, each delivery is sent once all the same', async () => {
  expect(await deliveredSlowly()).toMatchObject({ attempts: 30, requests: 30 })
})

test('a process that lacks the key of a webhook leaves its lane to those that have it, and looks again once a minute', async () => {
  const { looks, waitedMs, attempts } = await whereAKeyIsMissing()
  expect(looks).toBe(3)
  expect(waitedMs).toBeLessThan(2_000)
  // The one that a process began and never settled is found all the same.
  expect(attempts).toEqual(['interrupted', 'succeeded'])
})
