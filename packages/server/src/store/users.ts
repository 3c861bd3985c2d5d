import type { OrgId, UserId } from '../kernel/ids.ts'
import type { Executor, Transaction } from './database.ts'

export type NewUser = { id: UserId; email: string; name: string | null; subject: string | null }

export const insertUser = async (tx: Transaction, user: NewUser): Promise<void> => {
  await tx`
    insert into keyhook.users (id, email, name, subject)
    values (${user.id}, ${user.email}, ${user.name}, ${user.subject})`
}

export const userExists = async (db: Executor, id: UserId): Promise<boolean> => {
  const rows = await db`select 1 from keyhook.users where id = ${id} and removed_at is null`
  return rows.length > 0
}

/** Locks the user, so that a membership cannot be added while the user is being removed. */
export const lockUser = async (tx: Transaction, id: UserId): Promise<boolean> => {
  const rows = await tx`select 1 from keyhook.users where id = ${id} and removed_at is null for no key update`
  return rows.length > 0
}

/** Ends the user and every membership; says which organizations lost a member. */
export const removeUser = async (tx: Transaction, id: UserId): Promise<OrgId[]> => {
  const rows = await tx<{ org_id: OrgId }[]>`delete from keyhook.memberships where user_id = ${id} returning org_id`
  await tx`update keyhook.users set removed_at = now() where id = ${id} and removed_at is null`
  return rows.map((row) => row.org_id)
}
