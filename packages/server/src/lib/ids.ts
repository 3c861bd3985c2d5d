import { randomUUIDv7 } from 'node:crypto'
import { fromUUID, toUUIDBytes, typeidUnboxed } from 'typeid-js'

/** TypeID prefixes: an id shows what it identifies, and sorts by creation time (UUIDv7 inside). */
export type IdPrefix =
  | 'org'
  | 'usr'
  | 'key'
  | 'wh'
  | 'aud'
  | 'tok'
  | 'evt'
  | 'dlv'
  | 'rcv'
  | 'db'
  | 'bak'
  | 'rst'
  | 'inv'
  | 'ses'
  | 'ivt'
  | 'del'
  | 'pas'

export type Id<P extends IdPrefix> = `${P}_${string}`

export type OrgId = Id<'org'>
export type UserId = Id<'usr'>
export type KeyId = Id<'key'>
export type WebhookId = Id<'wh'>
export type DatabaseId = Id<'db'>
export type BackupId = Id<'bak'>
export type RestoreId = Id<'rst'>
export type InvoiceId = Id<'inv'>
export type OperatorTokenId = Id<'tok'>
export type InvitationId = Id<'ivt'>
export type DeletionId = Id<'del'>
export type SessionId = Id<'ses'>
export type PasskeyId = Id<'pas'>
export type AttemptId = Id<'dlv'>

export const newId = <P extends IdPrefix>(prefix: P): Id<P> => typeidUnboxed(prefix) as Id<P>

/** The smallest id of that millisecond. */
export const idFloor = <P extends IdPrefix>(prefix: P, ms: number): Id<P> => fromUUID(uuid7Floor(ms), prefix) as Id<P>

/**
 * The TypeID grammar: 26 characters of Crockford base32, the first at most 7 so that it fits in 128 bits.
 * Checked before any query, because a path may contain bytes that PostgreSQL's text cannot hold (%00).
 */
export const idPattern = (prefix: IdPrefix): string => `^${prefix}_[0-7][0-9a-hjkmnp-tv-z]{25}$`

const patterns = new Map<IdPrefix, RegExp>()

export const isId = <P extends IdPrefix>(prefix: P, text: string): text is Id<P> => {
  let pattern = patterns.get(prefix)
  if (pattern === undefined) {
    pattern = new RegExp(idPattern(prefix))
    patterns.set(prefix, pattern)
  }
  return pattern.test(text)
}

/** Attempts are stored under the bare UUID, because there are so many of them. Outside they look like every id. */
export const attemptIdOf = (uuid: string): AttemptId => fromUUID(uuid, 'dlv') as AttemptId

/** Without dashes, which PostgreSQL reads as well. An id that was never made gives a UUID that is not found. */
export const attemptUuid = (id: AttemptId): string =>
  Buffer.from(toUUIDBytes(id as unknown as Parameters<typeof toUUIDBytes>[0])).toString('hex')

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

/**
 * External ids are used in a header, in a path and in the signed content of Standard Webhooks, so only characters without a meaning
 * there are allowed. No dot: it separates id and time in the signed content, and one signature would fit two messages.
 */
export const eventIdPattern = '^[A-Za-z0-9][A-Za-z0-9_:-]{0,127}$'
