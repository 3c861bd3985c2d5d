import { randomUUIDv7 } from 'node:crypto'

/** A UUIDv7 of the given time, for callers with a clock of their own. Node's takes no time. */
export const uuid7 = (ms: number): string => uuidTime(ms) + randomUUIDv7().slice(13)

/** The time in an id, by the clock of the process that made it. */
export const uuid7Ms = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)

/** The smallest id of that millisecond: the lower bound of a range of ids that is a range of time. */
export const uuid7Floor = (ms: number): string => `${uuidTime(ms)}-0000-0000-000000000000`

function uuidTime(ms: number): string {
  const hex = ms.toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}`
}
