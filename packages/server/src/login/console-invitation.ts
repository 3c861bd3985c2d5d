import type { Actor } from '../access/audit.ts'
import { recordAudit } from '../access/audit.ts'
import type { Database, Transaction } from '../db/database.ts'
import { secretHash } from '../lib/base62.ts'
import { Fault } from '../lib/faults.ts'
import { newId, type UserId } from '../lib/ids.ts'
import {
  deleteInvitation,
  type FoundInvitation,
  findInvitation,
  listMembersOf,
  lockOrganization,
  setMembership,
} from '../organizations/sql.ts'
import { checkMayJoin, findUserByEmail, insertUser, isUnverifiedIn, lockUser } from '../organizations/users.ts'
import { openSession, sessionRequired } from './console-sessions.ts'

/** What a person sees before accepting. */
export const invitationShown = async (db: Database, secret: string) => {
  const found = await findInvitation(db, secretHash(secret))
  return found && { organization: found.organization, email: found.email, role: found.role }
}

type Accepting = {
  secret: string
  /** Who is signed in; null if nobody is. */
  userId: UserId | null
  cookie: string | null
  address: string
  /** Whether a person who is not signed in may become a new user. With an OpenID issuer, that issuer knows the people. */
  mayCreateUser: boolean
}

/**
 * Adds the user who is signed in to the organization. If nobody is, a new user with the invited address joins and is signed in, but
 * never an existing one: whoever made the link could otherwise sign in as any user. Null for a link that does not work.
 */
export const acceptInvitation = (db: Database, accepting: Accepting) =>
  db.begin(async (tx) => {
    const found = await findInvitation(tx, secretHash(accepting.secret))
    if (found === null) return null
    await lockOrganization(tx, found.org_id)
    // Two requests with one link: the second finds nothing to delete.
    if ((await deleteInvitation(tx, found.org_id, found.id)) === null) return null
    const userId = accepting.userId ?? (await newUser(tx, found, accepting))
    await join(tx, found, { kind: 'login', userId, tokenId: null, address: accepting.address })
    const secret = accepting.userId === null ? await openSession(tx, userId, accepting.cookie) : null
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
  const details = { from: null, to: role, invitation: id }
  await recordAudit(tx, { orgId, action: 'member.added', actor, targetId: userId, details })
}

/** Whoever made the link could have opened it: the address is not verified, and counts in this organization only. */
async function newUser(
  tx: Transaction,
  { email, org_id: orgId }: FoundInvitation,
  { mayCreateUser }: Accepting,
): Promise<UserId> {
  const isTaken = (await findUserByEmail(tx, email)) !== null || (await isUnverifiedIn(tx, orgId, email))
  if (!mayCreateUser || isTaken) throw signInFirst()
  const id = newId('usr')
  await insertUser(tx, { id, email, name: null, subject: null, verified_by: null, invited_to: orgId })
  return id
}

const signInFirst = () => sessionRequired('Sign in first, and then open the link again.')
