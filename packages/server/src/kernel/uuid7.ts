import { randomUUIDv7 } from 'node:crypto'

let lastMs = 0
let counter = 0

/**
 * A UUIDv7 of the given time, with a counter in the 12 bits after the version (RFC 9562, method 1): ids of one process sort in the
 * order in which they were made. Node's own takes no time and has no counter.
 */
export function uuid7(ms: number): string {
  counter = ms === lastMs ? (counter + 1) & 0xfff : 0
  lastMs = ms
  return `${uuidTime(ms)}-7${counter.toString(16).padStart(3, '0')}${randomUUIDv7().slice(18)}`
}

/** The time in an id, by the clock of the process that made it. */
export const uuid7Ms = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)

/** The smallest id of that millisecond: the lower bound of a range of ids that is a range of time. */
export const uuid7Floor = (ms: number): string => `${uuidTime(ms)}-0000-0000-000000000000`

function uuidTime(ms: number): string {
  const hex = ms.toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}`
}
