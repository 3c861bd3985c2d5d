import { expect, test } from 'vitest'
import type { BegunAttempt } from '../../src/store/delivery/beginnings.ts'
import type { DueDelivery } from '../../src/store/delivery/due.ts'
import {
  begunSurely,
  hasRoom,
  type Lane,
  openLane,
  readAgain,
  readRequest,
  surmisedOf,
  takeAnnounced,
  takeFresh,
  takeIn,
} from '../../src/webhooks/dispatching/lane.ts'

const delivery = (eventSeq: number): DueDelivery => ({
  laneId: 1,
  eventSeq,
  eventId: `evt_${eventSeq}`,
  eventType: 'database.created',
  body: Buffer.from('{}'),
  publishedAtMs: 0,
  attempts: 0,
  tries: 0,
})

/** A lane that has read everything up to `seq`. */
function caughtUp(seq: number): Lane {
  const leased = { laneId: 1, cursorSeq: seq, headSeq: seq, asked: 0, webhook: {} } as unknown as Lane['leased']
  const sender = { width: { now: 4, bestUs: 1 } } as Lane['sender']
  return openLane(leased, sender, 32)
}

const news = (writtenSeq: number, seqs: number[]) => ({ laneId: 1, writtenSeq, fresh: seqs.map(delivery) })
const waiting = (lane: Lane) => lane.firsts.map((one) => one.eventSeq)

test('news that was read in full is taken without a read', () => {
  const lane = caughtUp(5)
  takeFresh(lane, news(5, [6, 7]))
  expect(waiting(lane)).toEqual([6, 7])
  expect([lane.readSeq, lane.headSeq]).toEqual([7, 7])
})

test('news with a gap before it is not: what is missing was told in writing, to another dispatcher', () => {
  const lane = caughtUp(5)
  takeFresh(lane, news(6, [7]))
  expect(waiting(lane)).toEqual([])
  expect(lane.readSeq).toBe(5)
})

test('nor is news that comes while the lane is being read, or that it has no room for', () => {
  const reading = caughtUp(5)
  reading.reading = true
  takeFresh(reading, news(5, [6]))
  expect(waiting(reading)).toEqual([])
  const full = caughtUp(5)
  const many = Array.from({ length: 300 }, (_, i) => 6 + i)
  takeFresh(full, news(5, many))
  expect(full.readSeq).toBe(5)
})

test('a read that went beyond the news is not undone by it: nothing waits twice', () => {
  const lane = caughtUp(5)
  lane.headSeq = 6
  const request = readRequest(lane)
  takeIn(lane, request, [6, 7, 8].map(delivery))
  takeFresh(lane, news(6, [7]))
  takeFresh(lane, news(7, [8]))
  expect(waiting(lane)).toEqual([6, 7, 8])
})

test('a lane whose webhook is deleted takes nothing', () => {
  const lane = caughtUp(5)
  Object.assign(lane.leased, { webhook: null })
  takeFresh(lane, news(5, [6]))
  expect(waiting(lane)).toEqual([])
})

const begun = (eventSeq: number, attempt = 1) => ({ eventSeq, attempt }) as BegunAttempt

test('what is announced is taken without a read, once, and counts as surmised until it has begun', () => {
  const lane = caughtUp(5)
  for (const seq of [6, 8, 7, 8]) takeAnnounced(lane, delivery(seq))
  expect(waiting(lane)).toEqual([6, 8])
  expect(surmisedOf(lane, [begun(2, 2), begun(6)])).toEqual({ afterSeq: 5, count: 1 })
  begunSurely(lane, begun(6))
  expect(surmisedOf(lane, [begun(6), begun(8)])).toEqual({ afterSeq: 6, count: 1 })
  begunSurely(lane, begun(8))
  expect(surmisedOf(lane, [begun(2, 3)])).toBeNull()
})

test('what a lane reads behind an announcement is no surer than that', () => {
  const lane = caughtUp(5)
  takeAnnounced(lane, delivery(8))
  takeFresh(lane, news(8, [9]))
  lane.headSeq = 10
  takeIn(lane, readRequest(lane), [delivery(10)])
  expect(waiting(lane)).toEqual([8, 9, 10])
  expect(
    surmisedOf(
      lane,
      [8, 9, 10].map((seq) => begun(seq)),
    ),
  ).toEqual({ afterSeq: 5, count: 3 })
})

test('a lane that is behind, is being read, has no room or has lost its webhook takes no announcement', () => {
  const unfit: Partial<Lane>[] = [
    { headSeq: 6 },
    { reading: true },
    { gone: true },
    { leased: { ...caughtUp(5).leased, webhook: null } },
    { firsts: Array.from({ length: 300 }, (_, i) => delivery(i)) },
  ]
  for (const state of unfit) {
    const lane = Object.assign(caughtUp(5), state)
    takeAnnounced(lane, delivery(7))
    expect(lane.readSeq).toBe(5)
  }
})

test('where something was missing the lane reads again what it had, and no read that was on its way meanwhile counts', () => {
  const lane = caughtUp(5)
  takeFresh(lane, news(5, [6]))
  for (const seq of [8, 9]) takeAnnounced(lane, delivery(seq))
  lane.headSeq = 10
  lane.retriesDue = false
  const meanwhile = readRequest(lane)
  expect(meanwhile.afterSeq).toBe(9)
  lane.firsts = [delivery(9)]
  // These were to begin together.
  for (const one of [begun(3, 2), begun(6), begun(8)]) readAgain(lane, one)
  takeIn(lane, meanwhile, [delivery(10)])
  expect([waiting(lane), lane.readSeq, lane.retriesDue]).toEqual([[], 5, true])
  takeIn(lane, readRequest(lane), [6, 7, 8, 9, 10].map(delivery))
  expect(waiting(lane)).toEqual([6, 7, 8, 9, 10])
  expect(surmisedOf(lane, [begun(6), begun(7)])).toBeNull()
})

test('what a lane was told of and does not find is not taken for read: the number may be given to another', () => {
  const lane = caughtUp(5)
  lane.headSeq = 9
  takeIn(lane, readRequest(lane), [6, 7].map(delivery))
  expect([waiting(lane), lane.readSeq, lane.headSeq]).toEqual([[6, 7], 7, 7])
  takeFresh(lane, news(7, [8]))
  expect(waiting(lane)).toEqual([6, 7, 8])
})

test('a fast lane reads many small bodies ahead and few large ones, and many again when they are small', () => {
  const lane = caughtUp(0)
  lane.sender.width.now = 32
  lane.headSeq = 10_000
  const aheadAfter = (bytes: number) => {
    takeIn(lane, readRequest(lane), [{ ...delivery(1), body: Buffer.alloc(bytes) }])
    lane.firsts = []
    lane.readSeq = 0
    return readRequest(lane).firstsMax
  }
  expect(aheadAfter(300)).toBe(200)
  expect(aheadAfter(64 * 1_024)).toBe(8)
  expect(aheadAfter(1_024 * 1_024)).toBe(1)
  for (let reads = 0; reads < 12; reads++) aheadAfter(300)
  expect(aheadAfter(300)).toBe(200)
})

test('where outcomes are written down slowly nothing more begins: each beginning writes all that has none', () => {
  const lane = caughtUp(5)
  expect(hasRoom(lane)).toBe(true)
  for (let i = 0; i < 8 * 32; i++) lane.unsettled.push({} as never)
  expect(hasRoom(lane)).toBe(false)
})
