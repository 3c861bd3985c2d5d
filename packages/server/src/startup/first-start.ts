import type { Database, Executor } from '../db/database.ts'
import { operator } from '../domain/audit.ts'
import type { OrgId, UserId } from '../kernel/ids.ts'
import { createOrganization, createUser, setMemberIn } from '../operator/directory.ts'
import { countOrganizations } from '../store/organizations.ts'

export type FirstOrganization = { orgId: OrgId; ownerId: UserId; isNew: boolean }

/**
 * The first organization with its owner. An empty installation gets one if it may, so that there is something to try. The lock makes
 * nodes that start together on an empty database create only one.
 */
export async function ensureFirstOrganization(
  db: Database,
  { mayCreate }: { mayCreate: boolean },
): Promise<FirstOrganization | null> {
  if (!mayCreate) return findFirst(db)
  return db.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtextextended('keyhook.first_start', 0))`
    if ((await countOrganizations(tx)) > 0) return findFirst(tx)
    const organization = await createOrganization(tx, operator, { name: 'First organization' })
    const owner = await createUser(tx, { email: 'owner@localhost', name: 'Owner', subject: null })
    await setMemberIn(tx, operator, { orgId: organization.id, userId: owner.id, role: 'owner' })
    return { orgId: organization.id, ownerId: owner.id, isNew: true }
  })
}

/** The oldest organization with an owner, for the lines that we print. */
async function findFirst(db: Executor): Promise<FirstOrganization | null> {
  const [row] = await db<{ org_id: OrgId; user_id: UserId }[]>`
    select org_id, user_id from keyhook.memberships where role = 'owner' order by org_id, user_id limit 1`
  return row === undefined ? null : { orgId: row.org_id, ownerId: row.user_id, isNew: false }
}
