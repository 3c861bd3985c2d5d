import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import Type, { type Static } from 'typebox'
import type { Database, Executor, Transaction } from '../db/database.ts'
import { clientAddress } from '../http/app.ts'
import { closed } from '../http/schemas.ts'
import type { UserId } from '../lib/ids.ts'
import { isMailAddress } from '../lib/mail-server.ts'
import { clientNetwork } from '../lib/network.ts'
import { secretHash } from '../lib/secrets.ts'
import { mailOff, requireMailLeft } from '../mail/limits.ts'
import { isMailOn, queueMail } from '../mail/queue-sql.ts'
import type { Compose } from '../mail/sender.ts'
import { confirmationHours, confirmationMail, signInMail, signInMinutes } from '../mail/templates/links.ts'
import { confirmAddress } from '../organizations/rules.ts'
import { findUser, findUserByEmail } from '../organizations/users.ts'
import {
  checkOrigin,
  currentSession,
  endSessionsOf,
  insertLink,
  isLinkOpen,
  linkInvalid,
  openSession,
  sessionRequired,
} from './console-sessions.ts'

/** Of all addresses together, so that nobody fills the queue. */
const signInsPerClientMax = 30

const signInBody = closed({ email: Type.String({ minLength: 3, maxLength: 255 }) })
const confirmationBody = closed({ link: Type.String({ maxLength: 100 }) })

type Deps = {
  db: Database
  publicUrl: string | null
  /** Without an OpenID issuer: where there is one, it decides who may log in. */
  signsIn: boolean
  mailPerAddressMax: number
  /** Gives the browser the cookie of a session that was opened. */
  signedIn(request: FastifyRequest, reply: FastifyReply, userId: UserId, secret: string): void
}

/** What the pages offer. */
export const mailWays = async ({ db, signsIn }: Pick<Deps, 'db' | 'signsIn'>) => {
  const mail = await isMailOn(db)
  return { mail, mail_sign_in: mail && signsIn }
}

/** Links that the console mails. Opening one changes nothing, because scanners of mail open them too: its page has a button. */
export function addMailedLinks(app: FastifyInstance, deps: Deps): void {
  const { db, publicUrl, signsIn, mailPerAddressMax } = deps

  app.post<{ Body: Static<typeof signInBody> }>(
    '/console/sign-in-mail',
    { schema: { body: signInBody } },
    async (request, reply) => {
      checkOrigin(request, publicUrl)
      if (!signsIn || !(await isMailOn(db))) throw mailOff()
      const { email: address } = request.body
      await requireMailLeft(db, 'sign_in_from', clientNetwork(clientAddress(request)), signInsPerClientMax)
      await requireMailLeft(db, 'sign_in', address, mailPerAddressMax)
      // Whether somebody has the address is looked up when the mail is composed: neither the answer nor its time tells.
      if (isMailAddress(address))
        await queueMail(db, { kind: 'sign_in', orgId: null, userId: null, address, minutes: signInMinutes })
      return reply.code(202).send()
    },
  )

  app.post('/console/confirmation-mail', async (request, reply) => {
    checkOrigin(request, publicUrl)
    const session = await currentSession(db, request)
    if (session === null || session.user_id === null || session.email === null) throw sessionRequired()
    if (!(await isMailOn(db))) throw mailOff()
    if (!session.verified) {
      const { user_id: userId, email: address } = session
      await requireMailLeft(db, 'confirmation', address, mailPerAddressMax)
      await queueMail(db, { kind: 'confirmation', orgId: null, userId, address, minutes: confirmationHours * 60 })
    }
    return reply.code(202).send()
  })

  app.post<{ Body: Static<typeof confirmationBody> }>(
    '/console/confirmation',
    { schema: { body: confirmationBody } },
    async (request, reply) => {
      checkOrigin(request, publicUrl)
      const session = await currentSession(db, request)
      // The user may be somebody else who knew the address: the reader of the mail must be the one who is signed in.
      const userId = session?.user_id ?? null
      if (userId === null) throw sessionRequired(sameBrowser)
      const address = clientAddress(request)
      const secret = await db.begin(async (tx) => {
        if (!(await takeConfirmation(tx, secretHash(request.body.link), userId))) throw linkInvalid(usedLink)
        await confirmAddress(tx, { kind: 'login', userId, tokenId: null, address }, { userId, verifiedBy: 'email' })
        await endSessionsOf(tx, userId)
        return openSession(tx, request, userId, 'mail')
      })
      deps.signedIn(request, reply, userId, secret)
      return reply.code(204).send()
    },
  )
}

const sameBrowser = 'Open the link in the browser where you are signed in as the user whose address it confirms.'
const usedLink = `The link was used, is older than ${confirmationHours} hours, or is for another user. Ask for another mail in the console.`

/** Deletes the link, so that it works once; only for the user that it is for. */
const takeConfirmation = (tx: Transaction, hash: Buffer, userId: UserId) =>
  tx`
    delete from keyhook.confirmation_links
    where secret_hash = ${hash} and user_id = ${userId} and expires_at > now() returning 1`.exists()

const insertConfirmation = async (tx: Transaction, hash: Buffer, userId: UserId): Promise<void> => {
  await tx`
    insert into keyhook.confirmation_links (secret_hash, user_id, expires_at)
    values (${hash}, ${userId}, now() + make_interval(hours => ${confirmationHours}))`
}

const isConfirmationOpen = (db: Executor, hash: Buffer) =>
  db`select 1 from keyhook.confirmation_links where secret_hash = ${hash} and expires_at > now()`.exists()

/** Nothing for an address that no confirmed user has, and no second mail after the link was used. */
export const composeSignIn: Compose = async (tx, { address }, { isFirst, secret, hash, server, url }) => {
  const userId = await findUserByEmail(tx, address)
  const user = userId && (await findUser(tx, userId))
  if (!user) return null
  if (isFirst) await insertLink(tx, hash, { userId: user.id, minutes: signInMinutes, mailed: true })
  else if (!(await isLinkOpen(tx, hash))) return null
  // For a mail server, addresses that differ in upper and lower case may be those of two people.
  return { ...signInMail(server, url(`/mailed-sign-in#${secret}`)), to: user.email! }
}

/** Nothing for a user who was confirmed or removed in the meantime. */
export const composeConfirmation: Compose = async (tx, mail, { isFirst, secret, hash, server, url }) => {
  const user = await findUser(tx, mail.user_id!)
  if (user === null || user.verified_by !== null) return null
  if (isFirst) await insertConfirmation(tx, hash, user.id)
  else if (!(await isConfirmationOpen(tx, hash))) return null
  return confirmationMail(server, url(`/confirm-address#${secret}`))
}
