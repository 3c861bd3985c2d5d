import { hash, randomBytes } from 'node:crypto'
import type { Database, Transaction } from '../../db/database.ts'
import type { UserId } from '../../kernel/ids.ts'
import { endSession, insertLink, insertSession, takeLink } from '../../store/console-sessions.ts'

/** Long enough to copy a link from a terminal, too short to be found in one later. */
export const linkMinutes = 10

/** The secret of a cookie or a link. Only its hash is stored. */
export const newSecret = () => randomBytes(32).toString('base64url')
export const secretHash = (secret: string): Buffer => hash('sha256', secret, 'buffer')

/** A path below the address of the server. The secret is in the fragment, which no browser sends: it is in no log of a server. */
export async function createSignInLink(db: Database, userId: UserId | null): Promise<string> {
  const secret = newSecret()
  await db.begin((tx) => insertLink(tx, { hash: secretHash(secret), userId, ttlSeconds: linkMinutes * 60 }))
  return `/console/sign-in#${secret}`
}

/** The secret of a new session, in exchange for that of a link; null if the link is used, expired or unknown. */
export const exchangeLink = (db: Database, link: string, cookie: string | null) =>
  db.begin(async (tx) => {
    const found = await takeLink(tx, secretHash(link))
    return found === null ? null : { userId: found.userId, secret: await openSession(tx, found.userId, cookie) }
  })

/** Always with a new secret: a cookie that somebody else has set must not become a session. */
export async function openSession(tx: Transaction, userId: UserId | null, cookie: string | null): Promise<string> {
  const secret = newSecret()
  // The browser forgets the cookie that it had.
  if (cookie !== null) await endSession(tx, secretHash(cookie))
  await insertSession(tx, { hash: secretHash(secret), userId })
  return secret
}
