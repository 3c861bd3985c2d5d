import { randomFillSync } from 'node:crypto'

/*
 * UUIDv7 (RFC 9562) with a counter in its second field, so that ids made in one process in one millisecond keep the order
 * they were made in. Made thousands of times a second, which is why random bytes are drawn a few thousand at a time.
 */
const pool = Buffer.alloc(8 * 1_024)
let used = pool.length
let lastMs = 0
let counter = 0
/** The part that all ids of a millisecond share. */
let lastTime = uuidTime(lastMs)

/** A clock that has gone back further than this was wrong before: ids follow it again. */
const backMsMax = 10_000

export function uuid7(ms: number): string {
  if (ms > lastMs || lastMs - ms > backMsMax) {
    startMs(ms)
  } else if (++counter > 0xfff) {
    // 4,096 in one millisecond, or a clock that went back: borrow from the future rather than repeat.
    startMs(lastMs + 1)
  }
  if (used + 8 > pool.length) {
    randomFillSync(pool)
    used = 0
  }
  const random = pool.subarray(used, used + 8)
  used += 8
  random[0] = (random[0]! & 0x3f) | 0x80
  const tail = random.toString('hex')
  return `${lastTime}-7${counter.toString(16).padStart(3, '0')}-${tail.slice(0, 4)}-${tail.slice(4)}`
}

function startMs(ms: number): void {
  lastMs = ms
  lastTime = uuidTime(ms)
  counter = 0
}

function uuidTime(ms: number): string {
  const hex = ms.toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}`
}

/** When it was made, by the clock of its maker. */
export const uuid7Ms = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)

/** The smallest id of that millisecond: where a range of ids that is a range of time begins. */
export const uuid7Floor = (ms: number): string => `${uuidTime(ms)}-0000-0000-000000000000`
