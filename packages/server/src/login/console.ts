import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import Type, { type Static } from 'typebox'
import { type Actor, recordAudit } from '../access/audit.ts'
import { permissionsOf } from '../access/roles.ts'
import type { Database, Transaction } from '../db/database.ts'
import { clientAddress } from '../http/app.ts'
import { closed } from '../http/schemas.ts'
import { Fault } from '../lib/faults.ts'
import { newId, type SessionId, type UserId } from '../lib/ids.ts'
import type { MasterKeys } from '../lib/master-keys.ts'
import { secretHash } from '../lib/secrets.ts'
import { isoTime } from '../lib/time.ts'
import { checkMemberQuota, confirmAddress } from '../organizations/rules.ts'
import {
  deleteInvitation,
  type FoundInvitation,
  findInvitation,
  listMembersOf,
  lockOrganization,
  setMembership,
} from '../organizations/sql.ts'
import {
  checkMayJoin,
  findUserByEmail,
  insertUser,
  isUnverifiedIn,
  isUnverifiedWith,
  lockUser,
} from '../organizations/users.ts'
import { addConsoleFiles } from './console-files.ts'
import { addAuthorization, addOpenIdLogin } from './console-login.ts'
import {
  checkOrigin,
  currentSession,
  endAllSessions,
  endSession,
  endSessionsOf,
  exchangeLink,
  linkInvalid,
  listMemberships,
  openSession,
  type SessionRow,
  sessionRequired,
  sessionSecret,
  setSession,
} from './console-sessions.ts'
import { addMailedLinks, mailWays } from './mailed-links.ts'
import type { OpenIdClient, OpenIdPerson } from './openid.ts'
import { addPasskeys, hasPasskeys, passkeySupport } from './passkeys.ts'
import { addSessionList } from './session-list.ts'

/** Tokens are accepted a minute longer, for clocks that differ: five minutes in all. */
const tokenSeconds = 240

export type ConsoleDeps = {
  db: Database
  /** Issues a login token of a session; `userId` is null for the operator. */
  issueToken(request: { userId: UserId | null; sessionId: SessionId; ttlSeconds: number }): Promise<string>
  publicUrl: string | null
  /** Where people sign in, if an OpenID issuer knows them. */
  openId: { client: OpenIdClient; userOf(person: OpenIdPerson, address: string): Promise<UserId | null> } | null
  /** An OpenID issuer knows the people: no invitation creates a user. */
  peopleAreElsewhere: boolean
  /** Whether people may sign in with passkeys. */
  passkeys: boolean
  masterKeys: MasterKeys
  mailPerAddressMax: number
  /** Where the built console is; null if it is not there. */
  directory: string | null
  log: Logger
}

const usedLink =
  'A link works once, and for minutes. Ask for another one, or run "npx keyhook console link --user EMAIL" where the server runs.'

const linkBody = closed({ link: Type.String({ maxLength: 100 }), mailed: Type.Optional(Type.Boolean()) })

const invitationBody = closed({ invitation: Type.String({ maxLength: 100 }) })
type InvitationBody = { Body: Static<typeof invitationBody> }

const usedInvitation = 'The invitation was accepted or withdrawn, or is older than seven days. Ask for another one.'

/**
 * The web console: its files, and the only requests that a cookie authenticates. All of them are below `/console`. Everything else
 * takes a bearer token, which the page gets here and keeps in memory.
 */
export function addConsole(app: FastifyInstance, deps: ConsoleDeps): void {
  const { db, publicUrl, log } = deps

  /** `origin` is where the browser is. */
  const signedIn = (
    request: FastifyRequest,
    reply: FastifyReply,
    userId: UserId | null,
    secret: string,
    origin = request.headers.origin ?? '',
  ) => {
    setSession(reply, secret, { secure: isHttps(origin) })
    log.info({ userId, address: clientAddress(request) }, 'console.signed_in')
  }

  async function signOut(request: FastifyRequest, reply: FastifyReply, end: typeof endSession): Promise<void> {
    checkOrigin(request, publicUrl)
    const secret = sessionSecret(request)
    const ended = secret === null ? [] : await end(db, secretHash(secret))
    if (ended.length > 0) {
      const about = { userId: ended[0]!.user_id, sessions: ended.length, address: clientAddress(request) }
      log.info(about, 'console.signed_out')
    }
    setSession(reply, null, { secure: isHttps(request.headers.origin ?? '') })
    reply.code(204).send()
  }

  app.post<{ Body: Static<typeof linkBody> }>(
    '/console/session',
    { schema: { body: linkBody } },
    async (request, reply) => {
      checkOrigin(request, publicUrl)
      const session = await exchangeLink(db, request, request.body)
      if (session === null) throw linkInvalid(usedLink)
      signedIn(request, reply, session.userId, session.secret)
      return reply.code(204).send()
    },
  )

  app.post('/console/token', async (request, reply) => {
    checkOrigin(request, publicUrl)
    const session = await currentSession(db, request)
    if (session === null) throw sessionRequired()
    const expiresAt = new Date(Date.now() + tokenSeconds * 1_000)
    const token = await deps.issueToken({ userId: session.user_id, sessionId: session.id, ttlSeconds: tokenSeconds })
    const memberships = session.user_id === null ? [] : await listMemberships(db, session.user_id)
    // With what the user may do, so that pages offer nothing else. Each request is checked again.
    const organizations = memberships.map(({ id, name, role }) => ({
      id,
      name,
      role,
      permissions: permissionsOf(role),
    }))
    const mayAdd = session.is_recent && deps.passkeys && hasPasskeys(request, publicUrl)
    const shown = { ...whoIs(session), organizations, offers_passkey: session.offers_passkey && mayAdd }
    return reply.send({ token, expires_at: isoTime(expiresAt), ...shown })
  })

  app.post<InvitationBody>(
    '/console/invitation-preview',
    { schema: { body: invitationBody } },
    async (request, reply) => {
      checkOrigin(request, publicUrl)
      const shown = await invitationShown(db, request.body.invitation)
      if (shown === null) throw linkInvalid(usedInvitation)
      return reply.send(shown)
    },
  )

  app.post<InvitationBody>('/console/invitation', { schema: { body: invitationBody } }, async (request, reply) => {
    checkOrigin(request, publicUrl)
    const session = await currentSession(db, request)
    const accepted = await acceptInvitation(db, {
      request,
      secret: request.body.invitation,
      session,
      mayCreateUser: !deps.peopleAreElsewhere,
    })
    if (accepted === null) throw linkInvalid(usedInvitation)
    if (accepted.secret !== null) signedIn(request, reply, accepted.userId, accepted.secret)
    return reply.send({ organization_id: accepted.orgId })
  })

  addAuthorization(app, deps)
  const mailing = { ...deps, signsIn: !deps.peopleAreElsewhere }
  addMailedLinks(app, { ...mailing, signedIn })

  addSessionList(app, deps)
  if (deps.passkeys) addPasskeys(app, { ...deps, signedIn })

  app.get<{ Querystring: { origin?: unknown } }>('/console/config.json', async (request, reply) => {
    const origin = URL.parse(String(request.query.origin))?.origin ?? `${request.protocol}://${request.host}`
    const passkeys = deps.passkeys ? passkeySupport(request, publicUrl, origin) : null
    return reply.send({ openid: deps.openId !== null, passkeys, ...(await mailWays(mailing)) })
  })
  if (deps.openId !== null) {
    const { client, userOf } = deps.openId
    addOpenIdLogin(app, {
      client,
      masterKeys: deps.masterKeys,
      secure: isHttps(publicUrl ?? ''),
      checkOrigin: (request) => checkOrigin(request, publicUrl),
      userOf: (person, request) => userOf(person, clientAddress(request)),
      async signIn(request, reply, userId) {
        const secret = await db.begin((tx) => openSession(tx, request, userId, 'openid'))
        signedIn(request, reply, userId, secret, publicUrl ?? '')
      },
    })
  }
  app.delete('/console/session', (request, reply) => signOut(request, reply, endSession))
  app.delete('/console/sessions', (request, reply) => signOut(request, reply, endAllSessions))
  addConsoleFiles(app, deps.directory)
}

const isHttps = (address: string): boolean => address.startsWith('https:')

const whoIs = ({ user_id: id, email, name, verified }: SessionRow) => ({
  operator: id === null,
  user: id === null ? null : { id, email, name, verified },
})

/** What a person sees before accepting. */
const invitationShown = async (db: Database, secret: string) => {
  const found = await findInvitation(db, secretHash(secret))
  return found && { organization: found.organization, email: found.email, role: found.role }
}

type Accepting = {
  request: FastifyRequest
  secret: string
  /** Of whoever is signed in; null if nobody is. */
  session: SessionRow | null
  /** Whether a person who is not signed in may become a new user. With an OpenID issuer, that issuer knows the people. */
  mayCreateUser: boolean
}

/**
 * Adds the user who is signed in to the organization. If nobody is, a new user with the invited address joins and is signed in, but
 * never an existing one: whoever made the link could otherwise sign in as any user. Null for a link that does not work.
 */
const acceptInvitation = (db: Database, accepting: Accepting) =>
  db.begin(async (tx) => {
    const found = await findInvitation(tx, secretHash(accepting.secret))
    if (found === null) return null
    await lockOrganization(tx, found.org_id)
    // Two requests with one link: the second finds nothing to delete.
    if ((await deleteInvitation(tx, found.org_id, found.id)) === null) return null
    const signedInAs = accepting.session?.user_id ?? null
    const userId = signedInAs ?? (await newUser(tx, found, accepting))
    const actor = { kind: 'login', userId, tokenId: null, address: clientAddress(accepting.request) } as const
    // Nobody but a reader of the mail has the link of a mailed invitation. Whoever else has signed in as the user has perhaps read none.
    const confirms = found.mailed && (await isUnverifiedWith(tx, userId, found.email))
    if (confirms) {
      await confirmAddress(tx, actor, { userId, verifiedBy: 'email' })
      await endSessionsOf(tx, userId)
    }
    await join(tx, found, actor)
    const opens = signedInAs === null || confirms
    const secret = opens ? await openSession(tx, accepting.request, userId, 'invitation') : null
    return { userId, orgId: found.org_id, secret }
  })

async function join(tx: Transaction, { org_id: orgId, id, role }: FoundInvitation, actor: Actor & { userId: UserId }) {
  const { userId } = actor
  const [already] = await listMembersOf(tx, orgId, { before: null, limit: 1, userId })
  if (already !== undefined)
    throw new Fault('user.already_member', { public: 'You are a member of this organization already.' })
  const user = await lockUser(tx, userId)
  if (user === null) throw signInFirst()
  checkMayJoin(user, orgId)
  await setMembership(tx, orgId, userId, role)
  await checkMemberQuota(tx, orgId, { isInvited: true })
  const details = { from: null, to: role, invitation: id }
  await recordAudit(tx, { orgId, action: 'member.added', actor, targetId: userId, details })
}

/**
 * Whoever made a link that was shown could have opened it: the address is not verified, and counts in this organization only. One
 * that was mailed verifies it, beside a user who came with the same address by a link that was shown.
 */
async function newUser(
  tx: Transaction,
  { email, org_id: orgId, mailed }: FoundInvitation,
  { mayCreateUser }: Accepting,
): Promise<UserId> {
  const isTaken = (await findUserByEmail(tx, email)) !== null || (!mailed && (await isUnverifiedIn(tx, orgId, email)))
  if (!mayCreateUser || isTaken) throw signInFirst()
  const id = newId('usr')
  const from = mailed ? ({ verified_by: 'email', invited_to: null } as const) : { verified_by: null, invited_to: orgId }
  await insertUser(tx, { id, email, name: null, subject: null, ...from })
  return id
}

const signInFirst = () => sessionRequired('Sign in first, and then open the link again.')
