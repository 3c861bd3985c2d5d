import { expect, test } from 'vitest'
import {
  canBegin,
  canRelease,
  change,
  changeReading,
  delayUntil,
  fetchRequest,
  type Lane,
  notBegun,
  noteIdle,
  openLane,
  putBack,
  settled,
  takeFetched,
  takeNext,
  wantsFetch,
} from '../../../src/delivery/dispatcher/lane.ts'
import type { Sender } from '../../../src/delivery/sender/port.ts'
import type { DueDelivery } from '../../../src/delivery/statements/fetch.ts'
import type { LeasedLane } from '../../../src/delivery/statements/lease.ts'

const delivery = (eventSeq: number, attempts = 0, bytes = 2): DueDelivery => ({
  laneId: 1,
  eventSeq,
  eventId: `evt_${eventSeq}`,
  eventType: 'database.created',
  body: Buffer.alloc(bytes),
  publishedAtMs: 0,
  traceparent: null,
  sequence: eventSeq,
  previousSequence: null,
  attempts,
  tries: attempts,
  requested: false,
  early: false,
})

function laneWith(...found: DueDelivery[]): Lane {
  const lease = { laneId: 1, orgId: 'org_1', token: 1, cursorSeq: 5, redeliveryRequests: 0 } as unknown as LeasedLane
  const lane = openLane(lease, { send() {}, interrupt() {} } satisfies Sender, { nowMs: 0, concurrencyMax: 1 })
  changeReading(lane, 'fetch')
  takeFetched(lane, fetchRequest(lane), found)
  return lane
}

test('a page that is not full says that the lane has caught up, unless it was hinted since', () => {
  const lane = laneWith(delivery(6))
  expect([lane.reading, lane.readSeq]).toEqual(['caught_up', 6])
  changeReading(lane, 'hint')
  changeReading(lane, 'fetch')
  changeReading(lane, 'hint')
  takeFetched(lane, fetchRequest(lane), [])
  expect(lane.reading).toBe('behind')
})

test('a full page leaves the lane behind, and it reads on once half of it is begun', () => {
  const lane = laneWith(delivery(6), delivery(7), delivery(8), delivery(9))
  expect(lane.reading).toBe('behind')
  expect(wantsFetch(lane)).toBe(false)
  takeNext(lane, 0)
  takeNext(lane, 0)
  expect(wantsFetch(lane)).toBe(true)
  expect(fetchRequest(lane).afterSeq).toBe(9)
})

test('retries go first, and a retry that is read twice is kept once', () => {
  const lane = laneWith(delivery(3, 1), delivery(6))
  changeReading(lane, 'hint')
  changeReading(lane, 'fetch')
  takeFetched(lane, fetchRequest(lane), [delivery(3, 1), delivery(7)])
  expect([takeNext(lane, 0), takeNext(lane, 0), takeNext(lane, 0)].map((one) => one.eventSeq)).toEqual([3, 6, 7])
})

test('what could not begin goes back in order', () => {
  const lane = laneWith(delivery(2, 1), delivery(6), delivery(7), delivery(8))
  const taken = [takeNext(lane, 0), takeNext(lane, 0), takeNext(lane, 0)]
  putBack(lane, taken)
  expect([...lane.retries, ...lane.firsts].map((one) => one.eventSeq)).toEqual([2, 6, 7, 8])
})

test('few deliveries with large bodies are read ahead', () => {
  const lane = laneWith(delivery(6, 0, 300_000))
  expect(fetchRequest(lane).firstsMax).toBe(1)
})

test('a lane begins one batch at a time, and never more than its concurrency', () => {
  const lane = laneWith(delivery(6), delivery(7))
  expect(canBegin(lane, 0)).toBe(true)
  change(lane, 'begin')
  expect(canBegin(lane, 0)).toBe(false)
  change(lane, 'begun')
  takeNext(lane, 0)
  expect(canBegin(lane, 0)).toBe(false)
  notBegun(lane, false)
  delayUntil(lane, 10)
  expect([canBegin(lane, 9), canBegin(lane, 10)]).toEqual([false, true])
})

test('a lost lane stays lost, whatever was under way', () => {
  const lane = laneWith(delivery(6))
  change(lane, 'begin')
  change(lane, 'lose')
  for (const event of ['begun', 'keep', 'release', 'begin'] as const) change(lane, event)
  expect(lane.state).toBe('lost')
  expect(canBegin(lane, 0)).toBe(false)
})

test('a lane is released after three seconds without work, and not while an outcome is not on disk', () => {
  const lane = laneWith(delivery(6))
  takeNext(lane, 0)
  noteIdle(lane, 0)
  expect(canRelease(lane, 3_000)).toBe(false)
  settled(lane)
  noteIdle(lane, 0)
  expect([canRelease(lane, 2_999), canRelease(lane, 3_000)]).toEqual([false, true])
})
