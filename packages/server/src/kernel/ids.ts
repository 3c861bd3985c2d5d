import { fromUUID, toUUIDBytes, typeidUnboxed } from 'typeid-js'
import { uuid7Floor } from './uuid7.ts'

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
export type SessionId = Id<'ses'>

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

export type AttemptId = Id<'dlv'>

/** Attempts are stored under the bare UUID, because there are so many of them. Outside they look like every id. */
export const attemptIdOf = (uuid: string): AttemptId => fromUUID(uuid, 'dlv') as AttemptId

/** Without dashes, which PostgreSQL reads as well. An id that was never made gives a UUID that is not found. */
export const attemptUuid = (id: AttemptId): string =>
  Buffer.from(toUUIDBytes(id as unknown as Parameters<typeof toUUIDBytes>[0])).toString('hex')
