import { expect, test } from 'vitest'
import type { OrgId } from '../../src/kernel/ids.ts'
import { createHearing } from '../../src/webhooks/dispatching/hearing.ts'
import { type Lane, openLane } from '../../src/webhooks/dispatching/lane.ts'
import { createModel } from '../simulation/model.ts'

const org = 'org_one' as OrgId

/** Two lanes of one organization; the first is held here, the second by whoever is named. */
function hearingTest(secondOwner: string | null) {
  const model = createModel(() => 1_000)
  const [here, other] = [model.addLane(org), model.addLane(org)]
  Object.assign(model.lanes.get(other)!, { owner: secondOwner })
  Object.assign(model.lanes.get(here)!, { dueMs: 0 })
  const [leased] = model.statements.lease({ owner: 'us', lanesMax: 1, leaseMs: 1_000 })
  const lane = openLane(leased!, { width: { now: 4, bestUs: 1 } } as Lane['sender'], 32)
  const database = { isAway: false }
  const counts = { toldHolders: 0 }
  const statements: string[] = []
  const hearing = createHearing({
    owner: 'us',
    store: {
      async news(owner, seen) {
        statements.push('news')
        return model.statements.news(owner, seen)
      },
      async wake() {
        statements.push('wake')
        if (database.isAway) throw new Error('PostgreSQL is away')
        return model.statements.wake()
      },
    },
    lanes: new Map([[here, lane]]),
    tell(told, { headSeq }) {
      told.headSeq = Math.max(told.headSeq, headSeq)
    },
    tellHolders() {
      counts.toldHolders += 1
    },
  })
  return {
    model,
    hearing,
    lane,
    statements,
    waiting: () => lane.firsts.map((one) => one.eventSeq),
    written: (id = here) => model.lanes.get(id)!.headSeq,
    other,
    database,
    counts,
  }
}

test('news of a lane that is held here is taken once and at once, and written down later', async () => {
  const { model, hearing, waiting, written } = hearingTest('them')
  model.publish(org)
  expect(await hearing.hear(false)).toMatchObject({ forFree: false })
  model.publish(org)
  await hearing.hear(false)
  await hearing.hear(false)
  expect([written(), waiting()]).toEqual([0, [1, 2]])
  await hearing.hear(true)
  expect([written(), waiting()]).toEqual([2, [1, 2]])
})

test('others hear of their own lanes themselves, and are told once it is written', async () => {
  const { model, hearing, written, other, counts } = hearingTest('them')
  model.publish(org)
  await hearing.hear(false)
  expect([written(other), counts.toldHolders]).toEqual([0, 0])
  await hearing.hear(true)
  expect([written(other), counts.toldHolders]).toEqual([1, 1])
})

test('a free lane is told in writing at once, so that somebody takes it', async () => {
  const { model, hearing, waiting, written, other } = hearingTest(null)
  model.publish(org)
  expect(await hearing.hear(false)).toMatchObject({ forFree: true })
  expect([waiting(), written(other), model.lanes.get(other)!.dueMs]).toEqual([[1], 1, 1_000])
})

test('news of a lane that is being given back is not forgotten when it cannot be written', async () => {
  const { model, hearing, lane, waiting, database } = hearingTest('them')
  model.publish(org)
  lane.releasing = true
  database.isAway = true
  await expect(hearing.hear(false)).rejects.toThrow()
  expect(waiting()).toEqual([])
  lane.releasing = false
  database.isAway = false
  model.publish(org)
  await hearing.hear(false)
  expect(waiting()).toEqual([1, 2])
})

test('what is announced for lanes that are held here needs no statement, and is written down later', async () => {
  const { model, hearing, waiting, written, statements } = hearingTest(null)
  model.end(2)
  expect(
    hearing.takeAnnouncements([model.announce(org, [model.publish(org)]), model.announce(org, [model.publish(org)])]),
  ).toBe(true)
  expect([waiting(), statements]).toEqual([[1, 2], []])
  await hearing.hear(true)
  expect([waiting(), written()]).toEqual([[1, 2], 2])
})

test('what is announced for others as well is taken, and the others are heard of as ever', async () => {
  const { model, hearing, waiting, written, other } = hearingTest(null)
  expect(hearing.takeAnnouncements([model.announce(org, [model.publish(org)])])).toBe(false)
  expect(waiting()).toEqual([1])
  expect(await hearing.hear(false)).toMatchObject({ forFree: true })
  expect([waiting(), written(other)]).toEqual([[1], 1])
})

test('an announcement of another server is none, nor is one for a lane that is being given back', () => {
  const { model, hearing, lane, waiting } = hearingTest('them')
  const announcement = model.announce(org, [model.publish(org)])
  expect(hearing.takeAnnouncements([{ ...announcement, server: '7' }])).toBe(false)
  lane.releasing = true
  expect(hearing.takeAnnouncements([announcement])).toBe(false)
  expect(waiting()).toEqual([])
})

test('what is announced while an earlier event has not been heard of is heard of together with that', async () => {
  const { model, hearing, waiting, other } = hearingTest('them')
  model.end(other)
  expect(hearing.takeAnnouncements([model.announce(org, [model.publish(org)])])).toBe(true)
  model.publish(org)
  expect(hearing.takeAnnouncements([model.announce(org, [model.publish(org)])])).toBe(false)
  expect(waiting()).toEqual([1])
  await hearing.hear(false)
  expect(waiting()).toEqual([1, 2, 3])
  expect(hearing.takeAnnouncements([model.announce(org, [model.publish(org)])])).toBe(true)
  expect(waiting()).toEqual([1, 2, 3, 4])
})
