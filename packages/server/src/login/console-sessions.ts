import { parseCookie, stringifySetCookie } from 'cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { standby } from '../access/access.ts'
import type { Role } from '../access/roles.ts'
import type { Database, Executor, Transaction } from '../db/database.ts'
import { clientAddress } from '../http/app.ts'
import { Fault } from '../lib/faults.ts'
import { newId, type OrgId, type SessionId, type UserId } from '../lib/ids.ts'
import { newSecret, secretHash } from '../lib/secrets.ts'
import { userAgentCharsMax } from './user-agent.ts'

/** A session ends after a day without use, and after two weeks in any case. */
export const idleHours = 24
export const lifetimeDays = 14

/** `user_id` is null for the operator. */
export type SessionRow = {
  id: SessionId
  user_id: UserId | null
  email: string | null
  name: string | null
  /** Whether the address was confirmed. */
  verified: boolean
  offers_passkey: boolean
  /** Whether it was opened minutes ago, so that it is most likely still in the hands of whoever signed in. */
  is_recent: boolean
}

/** For what outlives the session, such as a new passkey. */
export const recentMinutes = 15

/** How somebody signed in. */
export type SignInWay = 'link' | 'passkey' | 'openid' | 'mail' | 'invitation'

type NewSession = {
  hash: Buffer
  userId: UserId | null
  way: SignInWay
  address: string
  userAgent: string | null
}

/** Expired links are deleted here: nobody else looks for them. */
export const insertLink = async (
  tx: Transaction,
  hash: Buffer,
  { userId, minutes, mailed = false }: { userId: UserId | null; minutes: number; mailed?: boolean },
): Promise<void> => {
  await tx`delete from keyhook.console_links where expires_at < now()`
  await tx`
    insert into keyhook.console_links (secret_hash, user_id, mailed, expires_at)
    values (${hash}, ${userId}, ${mailed}, now() + make_interval(mins => ${minutes}))`
}

/** Whether it was not used yet, and still works. */
export const isLinkOpen = (tx: Transaction, hash: Buffer) =>
  tx`select 1 from keyhook.console_links where secret_hash = ${hash} and expires_at > now()`.exists()

/**
 * Deletes the link, so that of two requests with it only one gets it. Everybody can have a link mailed, and send the browser of
 * somebody else to it: such a link is taken only from the page that asks first.
 */
const takeLink = (tx: Transaction, hash: Buffer, mailed: boolean) =>
  tx<{ user_id: UserId | null; is_open: boolean }[]>`
    delete from keyhook.console_links where secret_hash = ${hash} and mailed = ${mailed}
    returning user_id, expires_at > now() as is_open`.first()

/**
 * Expired sessions are deleted here, whoever had them. Somebody who came by a link and has no passkey is offered one.
 */
export const insertSession = async (
  tx: Transaction,
  { hash, userId, way, address, userAgent }: NewSession,
): Promise<SessionId> => {
  const id = newId('ses')
  await tx`delete from keyhook.console_sessions where expires_at < now()`
  await tx`
    insert into keyhook.console_sessions (id, secret_hash, user_id, expires_at, way, address, user_agent, offers_passkey)
    values (${id}, ${hash}, ${userId}, now() + make_interval(hours => ${idleHours}), ${way}, ${address}, ${userAgent},
      ${way}::text in ('link', 'mail', 'invitation') and ${userId}::text is not null
        and not exists (select 1 from keyhook.passkeys where user_id = ${userId}))`
  return id
}

/** Null if it has ended, or its user was removed. */
const useSession = (db: Database, hash: Buffer) =>
  db<SessionRow[]>`
    with session as (
      update keyhook.console_sessions
      set expires_at = least(created_at + make_interval(days => ${lifetimeDays}), now() + make_interval(hours => ${idleHours})),
        used_at = now()
      where secret_hash = ${hash} and expires_at > now()
      returning id, user_id, offers_passkey, created_at > now() - make_interval(mins => ${recentMinutes}) as is_recent
    )
    select s.id, s.user_id, u.email, u.name, u.verified_by is not null as verified, s.offers_passkey, s.is_recent
    from session s left join keyhook.users u on u.id = s.user_id and u.removed_at is null and not u.is_service
    where s.user_id is null or u.id is not null`.first()

type Ended = Pick<SessionRow, 'id' | 'user_id'>

export const endSession = (db: Executor, hash: Buffer) => db<Ended[]>`
  delete from keyhook.console_sessions where secret_hash = ${hash} returning id, user_id`

/** Whether it goes on. It does not end before this transaction. */
export const holdSession = (tx: Transaction, id: SessionId) =>
  tx`select 1 from keyhook.console_sessions where id = ${id} and expires_at > now() for key share`.exists()

/** Every session of the user that this one belongs to, or of the operator. */
export const endAllSessions = (db: Executor, hash: Buffer) => db<Ended[]>`
  delete from keyhook.console_sessions s
  using (select user_id from keyhook.console_sessions where secret_hash = ${hash}) mine
  where s.user_id is not distinct from mine.user_id
  returning s.id, s.user_id`

/**
 * For a user who is perhaps somebody else than whoever has signed in so far: their passkeys would open other sessions. Who has proved to
 * be the user gets a new session, which offers a passkey again.
 */
export const endSessionsOf = async (tx: Transaction, userId: UserId): Promise<void> => {
  await endPasskeysOf(tx, userId)
  await tx`delete from keyhook.console_sessions where user_id = ${userId}`
}

/** A statement of its own, before sessions end: it waits for those who sign in with a passkey now, and then their session is seen. */
const endPasskeysOf = async (tx: Transaction, userId: UserId): Promise<void> => {
  await tx`delete from keyhook.passkeys where user_id = ${userId}`
}

/** For tokens of the operator, which belong to no user. */
export const isOperatorSession = async (db: Database, id: string): Promise<boolean> => {
  const [row] = await db<{ standby: boolean }[]>`
    select pg_is_in_recovery() as standby from keyhook.console_sessions
    where id = ${id} and user_id is null and expires_at > now()`
  if (row?.standby) throw standby()
  return row !== undefined
}

/** What the page shows to choose from. */
const organizationsShownMax = 200

export type MembershipRow = { id: OrgId; name: string; role: Role }

export const listMemberships = (db: Database, userId: UserId) => db<MembershipRow[]>`
  select o.id, o.name, m.role
  from keyhook.memberships m join keyhook.organizations o on o.id = m.org_id
  where m.user_id = ${userId}
  order by o.name, o.id
  limit ${organizationsShownMax}`

/** Expired codes are deleted here: nobody else looks for them. */
export const insertCode = async (
  db: Database,
  code: { hash: Buffer; sessionId: SessionId; challenge: Buffer; ttlSeconds: number },
): Promise<void> => {
  await db`
    with expired as (delete from keyhook.console_codes where expires_at < now())
    insert into keyhook.console_codes (code_hash, session_id, challenge, expires_at)
    values (${code.hash}, ${code.sessionId}, ${code.challenge}, now() + make_interval(secs => ${code.ttlSeconds}))`
}

/** Deletes the code, so that it works once at most. Null if it is used, expired or unknown, or its session has ended. */
export const takeCode = (db: Database, hash: Buffer) =>
  db<{ session_id: SessionId; user_id: UserId; challenge: Buffer }[]>`
    with code as (
      delete from keyhook.console_codes where code_hash = ${hash} returning session_id, challenge, expires_at
    )
    select c.session_id, s.user_id, c.challenge
    from code c
    join keyhook.console_sessions s on s.id = c.session_id and s.expires_at > now()
    join keyhook.users u on u.id = s.user_id and u.removed_at is null
    where c.expires_at > now()`.first()

/** Long enough to copy a link from a terminal, too short to be found in one later. */
export const linkMinutes = 10

/** A path below the address of the server. The secret is in the fragment, which no browser sends: it is in no log of a server. */
export async function createSignInLink(db: Database, userId: UserId | null): Promise<string> {
  const secret = newSecret()
  await db.begin((tx) => insertLink(tx, secretHash(secret), { userId, minutes: linkMinutes }))
  return `/console/sign-in#${secret}`
}

type SignInLink = { link: string; mailed?: boolean }

/** The secret of a new session, in exchange for that of a link; null if the link is used, expired or unknown. */
export const exchangeLink = (db: Database, request: FastifyRequest, { link, mailed = false }: SignInLink) =>
  db.begin(async (tx) => {
    const found = await takeLink(tx, secretHash(link), mailed)
    if (!found?.is_open) return null
    return {
      userId: found.user_id,
      secret: await openSession(tx, request, found.user_id, mailed ? 'mail' : 'link'),
    }
  })

/** For the browser of the request. Always with a new secret: a cookie that somebody else has set must not become a session. */
export async function openSession(
  tx: Transaction,
  request: FastifyRequest,
  userId: UserId | null,
  way: SignInWay,
): Promise<string> {
  const secret = newSecret()
  const cookie = sessionSecret(request)
  // The browser forgets the cookie that it had.
  if (cookie !== null) await endSession(tx, secretHash(cookie))
  const userAgent = request.headers['user-agent']?.slice(0, userAgentCharsMax) ?? null
  await insertSession(tx, { hash: secretHash(secret), userId, way, address: clientAddress(request), userAgent })
  return secret
}

/** The session of the browser, which counts as a use of it; null if nobody is signed in. */
export async function currentSession(db: Database, request: FastifyRequest): Promise<SessionRow | null> {
  const secret = sessionSecret(request)
  return secret === null ? null : useSession(db, secretHash(secret))
}

/** For what belongs to a person. The operator is nobody in particular. */
export async function personSession(db: Database, request: FastifyRequest): Promise<SessionRow & { user_id: UserId }> {
  const session = await currentSession(db, request)
  if (session === null) throw sessionRequired()
  if (session.user_id === null) throw sessionRequired('This is a session of the operator. Sign in as a user.')
  return { ...session, user_id: session.user_id }
}

const name = 'keyhook_console'

/** As long as a session can last; the server decides when it ends. */
const maxAgeSeconds = 14 * 86_400

/**
 * The secret of the session; null without one. Also with two: another host of the same site can plant a cookie, and nobody can tell
 * which one is ours.
 */
export const sessionSecret = ({ headers }: FastifyRequest): string | null => {
  const given = (headers.cookie ?? '').split(';').filter((one) => one.trim().startsWith(`${name}=`))
  return given.length === 1 ? parseCookie(given[0]!)[name] || null : null
}

/**
 * Without a Path the browser uses the folder of the request, which is `/console`, also behind a proxy that adds a prefix. No other
 * path gets the cookie, and no script can read it.
 */
export const setSession = (reply: FastifyReply, secret: string | null, { secure }: { secure: boolean }): void => {
  const content = secret === null ? { value: '', maxAge: 0 } : { value: secret, maxAge: maxAgeSeconds }
  reply.header('set-cookie', stringifySetCookie({ name, ...content, httpOnly: true, sameSite: 'strict', secure }))
}

/**
 * Throws unless the request was made by a page of ours. Browsers send Origin with every POST and DELETE, and no page can change it.
 * Returns the origin, which says whether the browser used https: behind a proxy the connection does not.
 */
export function checkOrigin(request: FastifyRequest, publicUrl: string | null): string {
  const { origin, 'sec-fetch-site': site } = request.headers
  const own = [`${request.protocol}://${request.host}`, publicUrl === null ? null : new URL(publicUrl).origin]
  const isOwn = origin !== undefined && own.includes(origin)
  if (!isOwn || (site !== undefined && site !== 'same-origin')) {
    throw new Fault('console.origin_refused', {
      public:
        'Only pages of the console may ask for this. If this is the console, the operator has to set KEYHOOK_PUBLIC_URL to its address.',
    })
  }
  return origin
}

// RFC 9110, 15.5.2: a 401 names a scheme. There is no registered one for cookies.
const headers = { 'www-authenticate': 'Cookie realm="keyhook console"' }

export const sessionRequired = (text = 'Nobody is signed in here, or the session has ended.'): Fault =>
  new Fault('console.session_required', { public: text, headers })

export const linkInvalid = (text: string): Fault => new Fault('console.link_invalid', { public: text })
