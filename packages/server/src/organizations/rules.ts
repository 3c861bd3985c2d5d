import { type Actor, recordAudit } from '../access/audit.ts'
import { findQuotas, limitOf, limitReached } from '../access/quotas.ts'
import type { Role } from '../access/roles.ts'
import {
  createTransact,
  type Database,
  type HoldOrganization,
  isTransient,
  isUnavailable,
  isUniqueViolation,
  type PublishingTransaction,
  type Transact,
  type Transaction,
} from '../db/database.ts'
import { revokeKeysOf } from '../keys/revocation.ts'
import { Fault, invalid, notFound } from '../lib/faults.ts'
import { newId, type OrgId, type UserId } from '../lib/ids.ts'
import { createKeyedQueue } from '../lib/keyed-queue.ts'
import { emailProblem, labelProblem } from '../lib/label.ts'
import {
  countMembers,
  deleteMembership,
  findOrganization,
  insertOrganization,
  lockOrganization,
  organizationsOfUser,
  setMembership,
} from './sql.ts'
import {
  checkMayJoin,
  findUser,
  findUserByEmail,
  findUserBySubject,
  insertServiceUser,
  insertUser,
  lockUser,
  recordVerified,
  removeUser as removeUserRow,
  serviceMember,
  type UserRow,
  userExisted,
  type VerifiedBy,
} from './users.ts'

/*
 * Organizations, users and memberships, which only the operator can change. Every change in an organization writes its audit
 * entry in the same transaction. A user without an organization has no audit log.
 */

const labelCharsMax = 255

export function checkLabel(pointer: string, text: string): void {
  const problem =
    [...text].length > labelCharsMax ? `must have at most ${labelCharsMax} characters` : labelProblem(text)
  if (problem !== null) throw invalid([{ pointer, detail: problem }])
}

export async function createOrganization(tx: Transaction, actor: Actor, { name }: { name: string }) {
  checkLabel('/name', name)
  const id = newId('org')
  const row = await insertOrganization(tx, id, name)
  await recordAudit(tx, { orgId: id, action: 'organization.created', actor, targetId: id, details: { name } })
  return row
}

export async function createUser(
  tx: Transaction,
  request: { email: string; name: string | null; subject: string | null },
  verifiedBy: VerifiedBy = 'operator',
): Promise<UserRow> {
  checkLabel('/email', request.email)
  const problem = emailProblem(request.email)
  if (problem !== null) throw invalid([{ pointer: '/email', detail: problem }])
  if (request.name !== null) checkLabel('/name', request.name)
  if (request.subject !== null) checkLabel('/subject', request.subject)
  const user = { id: newId('usr'), ...request, verified_by: verifiedBy, invited_to: null }
  try {
    // A savepoint, so that the caller's transaction can go on after the error.
    return await tx.savepoint((inner) => insertUser(inner, user))
  } catch (error) {
    if (isUniqueViolation(error, 'users_email'))
      throw taken('email', request.email, await findUserByEmail(tx, request.email))
    if (isUniqueViolation(error, 'users_subject'))
      throw taken('subject', request.subject!, await findUserBySubject(tx, request.subject!))
    throw error
  }
}

/** Confirms that the address belongs to the user, who may then belong to any organization. Does nothing if it is confirmed. */
export const verifyUser = (db: Database, actor: Actor, { userId }: { userId: UserId }): Promise<UserRow> =>
  db.begin((tx) => confirmAddress(tx, actor, { userId, verifiedBy: 'operator' }))

export async function confirmAddress(
  tx: Transaction,
  actor: Actor,
  { userId, verifiedBy }: { userId: UserId; verifiedBy: VerifiedBy },
): Promise<UserRow> {
  const user = await lockUser(tx, userId)
  if (user === null) throw noSuch('user', userId)
  if (user.verified_by === null) {
    if (user.is_service) throw serviceMember('There is no address to confirm.')
    const other = await findUserByEmail(tx, user.email)
    if (other !== null) throw taken('email', user.email, other)
    await verifyIn(tx, actor, { userId, verifiedBy })
  }
  return (await findUser(tx, userId))!
}

export async function verifyIn(
  tx: Transaction,
  actor: Actor,
  { userId, verifiedBy }: { userId: UserId; verifiedBy: VerifiedBy },
): Promise<void> {
  await recordVerified(tx, userId, verifiedBy)
  for (const orgId of await organizationsOfUser(tx, userId)) {
    await recordAudit(tx, { orgId, action: 'user.verified', actor, targetId: userId, details: { by: verifiedBy } })
  }
}

/** The id is null if that user was removed in the meantime. */
const taken = (what: 'email' | 'subject', value: string, id: UserId | null): Fault =>
  new Fault(`user.${what}_taken`, {
    public: `There is a user with the ${what === 'email' ? 'e-mail address' : what} ${value} already${id === null ? '' : `: ${id}`}.`,
  })

type Member = { orgId: OrgId; userId: UserId; role: Role }

export const setMember = (db: Database, actor: Actor, member: Member): Promise<void> =>
  db.begin((tx) => setMemberIn(tx, actor, member))

export async function setMemberIn(tx: Transaction, actor: Actor, { orgId, userId, role }: Member): Promise<void> {
  if (!(await lockOrganization(tx, orgId))) throw noSuch('organization', orgId)
  const user = await lockUser(tx, userId)
  if (user === null) throw noSuch('user', userId)
  checkMayJoin(user, orgId)
  if (user.is_service && role === 'owner') throw serviceMember(neverOwner)
  const before = await setMembership(tx, orgId, userId, role)
  if (before === role) return
  if (before === null) await checkMemberQuota(tx, orgId)
  const action = before === null ? 'member.added' : 'member.role_changed'
  await recordAudit(tx, { orgId, action, actor, targetId: userId, details: { from: before, to: role } })
}

/**
 * Call it after a member or an invitation was added, with the organization locked. People, service members and open invitations count;
 * who accepts an invitation had a place, which a lower quota takes away only once the members alone fill it.
 */
export async function checkMemberQuota(tx: Transaction, orgId: OrgId, { isInvited = false } = {}): Promise<void> {
  const limit = limitOf((await findQuotas(tx, orgId)).members, Number.POSITIVE_INFINITY)
  if (limit.max === Number.POSITIVE_INFINITY) return
  const { members, invitations } = await countMembers(tx, orgId)
  if (members + (isInvited ? 0 : invitations) <= limit.max) return
  throw limitReached(limit, 'members', 'Service members and open invitations count too.')
}

/** A user that only keys act as. Call it with the organization locked. */
export async function createServiceMember(
  tx: Transaction,
  actor: Actor,
  { orgId, name, role }: { orgId: OrgId; name: string; role: Role },
): Promise<UserId> {
  const id = newId('usr')
  await insertServiceUser(tx, orgId, id, name)
  await setMembership(tx, orgId, id, role)
  await checkMemberQuota(tx, orgId)
  await recordAudit(tx, { orgId, action: 'service_member.created', actor, targetId: id, details: { name, role } })
  return id
}

/** Every organization keeps a person among its owners, because only persons are. */
export const neverOwner = 'Only a person can be an owner.'

type Removal = { orgId: OrgId; userId: UserId; revokesKeys?: boolean }

export async function removeMember(db: Database, actor: Actor, removal: Removal): Promise<void> {
  const { orgId, userId } = removal
  if (!(await ensureNoMember(withoutHint(db), actor, removal))) {
    throw new Fault('not_found', { public: `${userId} is not a member of ${orgId}.` })
  }
}

/** Without a hint, dispatchers find events by polling. */
const withoutHint = (db: Database): Transact => createTransact(db, () => {})

/** Returns whether there was something to remove. Organization and user have to exist, or to have existed. */
export async function ensureNoMember(
  transact: Transact,
  actor: Actor,
  { orgId, userId, revokesKeys = false }: Removal,
): Promise<boolean> {
  return transact(async (tx) => {
    const isRemoved = await endMembership(tx, actor, { orgId, userId, revokesKeys })
    if (!isRemoved) {
      if ((await findOrganization(tx, orgId)) === null) throw noSuch('organization', orgId)
      if (!(await userExisted(tx, userId))) throw noSuch('user', userId)
    }
    return isRemoved
  })
}

/** A service member ends with its membership, and its keys for good: it cannot come back. False for somebody who is no member. */
export async function endMembership(
  tx: PublishingTransaction,
  actor: Actor,
  { orgId, userId, revokesKeys = false }: Removal,
): Promise<boolean> {
  const gone = await deleteMembership(tx, orgId, userId)
  if (gone !== null) {
    const details = { role: gone.role }
    await recordAudit(tx, { orgId, action: 'member.removed', actor, targetId: userId, details })
  }
  if (gone?.is_service) await removeUserRow(tx, userId)
  if (gone?.is_service || revokesKeys) await revokeKeysOf(tx, orgId, userId, actor)
  return gone !== null
}

/** Removes the user from all organizations. Their keys stop working; their webhooks and databases stay. */
export async function removeUser(db: Database, actor: Actor, { userId }: { userId: UserId }): Promise<void> {
  if (!(await ensureNoUser(withoutHint(db), actor, { userId }))) throw noSuch('user', userId)
}

/** Returns whether there was something to remove. The user has to exist, or to have existed. */
export async function ensureNoUser(transact: Transact, actor: Actor, { userId }: { userId: UserId }): Promise<boolean> {
  return transact(async (tx) => {
    const user = await lockUser(tx, userId)
    if (user === null) {
      if (!(await userExisted(tx, userId))) throw noSuch('user', userId)
      return false
    }
    await endMemberships(tx, actor, { userId, isService: user.is_service, action: 'user.removed' })
    return true
  })
}

/** Removes the user, too. As in `endMembership`, the keys of a service member end for good. Returns the organizations that were left. */
export async function endMemberships(
  tx: PublishingTransaction,
  actor: Actor,
  { userId, isService, action }: { userId: UserId; isService: boolean; action: 'user.removed' | 'user.deleted' },
): Promise<OrgId[]> {
  const left = await removeUserRow(tx, userId)
  for (const orgId of left) {
    await recordAudit(tx, { orgId, action, actor, targetId: userId })
    if (isService) await revokeKeysOf(tx, orgId, userId, actor)
  }
  return left
}

/** For operators, who may know what exists. Members always get `notFound`. */
export const noSuch = (what: string, id: string): Fault =>
  new Fault('not_found', { public: `There is no ${what} ${id}.` })

/**
 * One at a time for each organization: the others wait here and not in the database, each with a connection that another
 * organization could use.
 */
export function createHoldOrganization(transact: Transact): HoldOrganization {
  const holders = createKeyedQueue<OrgId>((error) => isUnavailable(error) || isTransient(error))

  return (orgId, work) =>
    holders.run(orgId, () =>
      transact(async (tx) => {
        if (!(await lockOrganization(tx, orgId))) throw notFound(`${orgId} was deleted`)
        return work(tx)
      }),
    )
}
