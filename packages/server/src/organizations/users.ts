import type { Database, Executor, PageRequest, Transaction } from '../db/database.ts'
import type { Fragment } from '../db/statement.ts'
import { Fault } from '../lib/faults.ts'
import type { OrgId, UserId } from '../lib/ids.ts'

/** Who confirmed that the address belongs to the user; `email`: whoever is the user opened a link that was mailed there. */
export type VerifiedBy = 'operator' | 'openid' | 'email'

export type NewUser = {
  id: UserId
  email: string
  name: string | null
  subject: string | null
  /** Null: nobody has. The user then belongs to `invited_to` only. */
  verified_by: VerifiedBy | null
}

export const insertUser = (tx: Transaction, user: NewUser & { invited_to: OrgId | null }) =>
  tx<UserRow[]>`
    insert into keyhook.users (id, email, name, subject, verified_by, invited_to)
    values (${user.id}, ${user.email}, ${user.name}, ${user.subject}, ${user.verified_by}, ${user.invited_to})
    returning id, email, name, subject, verified_by, is_service, created_at`.one()

/** A user without a login, who belongs to this organization only. */
export const insertServiceUser = async (tx: Transaction, orgId: OrgId, id: UserId, name: string): Promise<void> => {
  await tx`insert into keyhook.users (id, name, is_service, invited_to) values (${id}, ${name}, true, ${orgId})`
}

export const findUser = (db: Executor, id: UserId) =>
  db<UserRow[]>`
    select id, email, name, subject, verified_by, is_service, created_at from keyhook.users
    where id = ${id} and removed_at is null`.first()

/** Also a user who was removed. */
export const userExisted = (db: Executor, id: UserId) => db`select 1 from keyhook.users where id = ${id}`.exists()

export const pageOfUsers = (db: Database, email: string | null, { before, limit }: PageRequest) => db<UserRow[]>`
  select id, email, name, subject, verified_by, is_service, created_at from keyhook.users
  where removed_at is null
    and (${email}::text is null or lower(email collate "C") = lower(${email}::text collate "C"))
    and (${before}::text is null or id < ${before})
  order by id desc
  limit ${limit}`

/** The verified user who has the address already. As in the index, the case of A to Z makes no difference. */
export const findUserByEmail = async (db: Executor, email: string): Promise<UserId | null> => {
  const [row] = await db<{ id: UserId }[]>`
    select id from keyhook.users
    where lower(email collate "C") = lower(${email}::text collate "C") and removed_at is null and verified_by is not null`
  return row?.id ?? null
}

/** Whether somebody has come with this address by an invitation to this organization, and nobody has confirmed it. */
export const isUnverifiedIn = (db: Executor, orgId: OrgId, email: string) =>
  db`
    select 1 from keyhook.users
    where lower(email collate "C") = lower(${email}::text collate "C") and invited_to = ${orgId}
      and removed_at is null and verified_by is null`.exists()

/** Whether the user has this address, and nobody has confirmed it. */
export const isUnverifiedWith = (db: Executor, id: UserId, email: string) =>
  db`
    select 1 from keyhook.users
    where id = ${id} and lower(email collate "C") = lower(${email}::text collate "C")
      and removed_at is null and verified_by is null`.exists()

export const findUserBySubject = async (db: Executor, subject: string): Promise<UserId | null> => {
  const [row] = await db<{ id: UserId }[]>`
    select id from keyhook.users where subject = ${subject} and removed_at is null`
  return row?.id ?? null
}

/** `email` is null for a service member. */
export type UserRow = Omit<NewUser, 'email'> & { email: string | null; is_service: boolean; created_at: Date }

export const listUsers = (db: Database, after: string, limit: number) => db<UserRow[]>`
  select id, email, name, subject, verified_by, is_service, created_at from keyhook.users
  where id > ${after} and removed_at is null
  order by id
  limit ${limit}`

/** Locks the user, so that a membership cannot be added while the user is being removed. Null for an unknown user. */
export const lockUser = (tx: Transaction, id: UserId) =>
  tx<LockedUser[]>`
    select email, verified_by, invited_to, is_service from keyhook.users
    where id = ${id} and removed_at is null for no key update`.first()

type LockedUser = { verified_by: VerifiedBy | null; invited_to: OrgId | null } & (
  | { is_service: false; email: string }
  | { is_service: true; email: null }
)

/** Confirms the address of the user. Two verified users cannot have the same: then it throws. */
export const recordVerified = async (tx: Transaction, id: UserId, verifiedBy: VerifiedBy): Promise<void> => {
  await tx`update keyhook.users set verified_by = ${verifiedBy} where id = ${id} and verified_by is null`
}

/** Removes the user, every membership and every passkey; returns the organizations that lost a member. */
export const removeUser = async (tx: Transaction, id: UserId): Promise<OrgId[]> => {
  const rows = await tx<{ org_id: OrgId }[]>`delete from keyhook.memberships where user_id = ${id} returning org_id`
  await tx`update keyhook.users set removed_at = now() where id = ${id} and removed_at is null`
  await tx`delete from keyhook.passkeys where user_id = ${id}`
  return rows.map((row) => row.org_id)
}

/** False if the user has a subject already, or was removed. The address of the user has to be verified. */
export const recordSubject = (tx: Transaction, id: UserId, subject: string) =>
  tx`update keyhook.users set subject = ${subject} where id = ${id} and subject is null and removed_at is null`.exists()

/** Forgets the subject, so that the next login with the verified address records its own. False for an unknown user. */
export const forgetSubject = (db: Executor, id: UserId) =>
  db`update keyhook.users set subject = null where id = ${id} and removed_at is null and not is_service`.exists()

/** Whether a removed user had this subject or this address. An address that was never confirmed says nothing about its owner. */
export const wasRemoved = (db: Executor, { subject, email }: { subject: string; email: string }) =>
  db`
    select 1 from keyhook.users
    where removed_at is not null and verified_by is not null and (
      subject = ${subject} or lower(email collate "C") = lower(${email}::text collate "C")
      or subject_hash = ${hashed(db, db`${subject}::text`)}
      or email_hash = ${hashed(db, db`lower(${email}::text collate "C")`)}
    )
    limit 1`.exists()

/** Salted with the id, so that equal values of two users have different hashes. */
const hashed = (db: Executor, value: Fragment) => db`sha256(convert_to(id || ' ' || ${value}, 'UTF8'))`

/** A deleted user: the id stays, because other rows name it. An address that nobody has confirmed leaves no hash. */
export const eraseUser = async (tx: Transaction, id: UserId): Promise<void> => {
  await tx`
    update keyhook.users set
      email_hash = case when verified_by is not null then ${hashed(tx, tx`lower(email collate "C")`)} end,
      subject_hash = ${hashed(tx, tx`subject`)}, email = null, name = null, subject = null
    where id = ${id}`
}

/** An address that nobody has confirmed counts in the organization that invited it, and nowhere else. */
export function checkMayJoin(user: LockedUser, orgId: OrgId): void {
  if (user.verified_by !== null || user.invited_to === orgId) return
  if (user.is_service) throw serviceMember(`The user belongs to ${user.invited_to} only.`)
  throw new Fault('user.unverified', {
    public: `Nobody has confirmed that ${user.email} is the address of this user, who therefore belongs to ${user.invited_to} only. The operator confirms it with "keyhook user verify", or the user logs in at the OpenID issuer.`,
  })
}

/** For what takes a person. */
export const serviceMember = (why: string): Fault =>
  new Fault('user.service_member', { public: `The user is a service member, which has no login. ${why}` })

/** Throws for a user who was removed, is unknown, or has no login. */
export async function checkMayLogIn(db: Executor, id: UserId): Promise<void> {
  const user = await findUser(db, id)
  if (user === null) throw new Fault('not_found', { public: `There is no user ${id}.` })
  if (user.is_service) throw serviceMember('Create an API key for it instead.')
}
