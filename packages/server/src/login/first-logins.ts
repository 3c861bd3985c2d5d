import type { Actor } from '../access/audit.ts'
import { recordAudit } from '../access/audit.ts'
import { type Database, isUniqueViolation } from '../db/database.ts'
import { Fault } from '../lib/faults.ts'
import type { UserId } from '../lib/ids.ts'
import { createUser, verifyIn } from '../organizations/directory.ts'
import { organizationsOfUser } from '../organizations/sql.ts'
import { lockUser, recordSubject, wasRemoved } from '../organizations/users.ts'
import { endSessionsOf } from './console-sessions.ts'

/**
 * Records the subject of a user who was found by e-mail: from then on only this subject is the user, even if the address is given to
 * somebody else. It also confirms the address of a user who came by an invitation. False if another login was first.
 */
export async function pinSubject(db: Database, userId: UserId, subject: string, actor: Actor): Promise<boolean> {
  try {
    return await db.begin(async (tx) => {
      const user = await lockUser(tx, userId)
      if (user === null) return false
      if (user.verified_by === null) {
        await verifyIn(tx, actor, { userId, verifiedBy: 'openid' })
        // Whoever used the invitation may be somebody else than the owner of the address.
        await endSessionsOf(tx, userId)
      }
      if (!(await recordSubject(tx, userId, subject))) return false
      for (const orgId of await organizationsOfUser(tx, userId)) {
        await recordAudit(tx, { orgId, action: 'user.subject_pinned', actor, targetId: userId, details: { subject } })
      }
      return true
    })
  } catch (error) {
    if (isUniqueViolation(error, 'users_subject') || isUniqueViolation(error, 'users_email')) return false
    throw error
  }
}

/**
 * Creates the user of a first login, without an organization. Not for somebody whom the operator removed: that is undone by the
 * operator only. Returns the user's id, or null if there is none.
 */
export async function createFromLogin(
  db: Database,
  { subject, verifiedEmail: email }: { subject: string; verifiedEmail: string },
): Promise<UserId | null> {
  try {
    return await db.begin(async (tx) => {
      if (await wasRemoved(tx, { subject, email })) return null
      return (await createUser(tx, { email, name: null, subject }, 'openid')).id
    })
  } catch (error) {
    // Another request created it, or the address belongs to a user with another subject, or is not one.
    if (error instanceof Fault) return null
    throw error
  }
}
