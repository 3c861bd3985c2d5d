import Type from 'typebox'
import type { Actor } from '../access/audit.ts'
import { recordAudit } from '../access/audit.ts'
import type { Database } from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { operatorRoute, type Route } from '../http/route.ts'
import { component, timestamp } from '../http/schemas.ts'
import { notFound } from '../lib/faults.ts'
import type { OrgId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import { lockOrganization } from '../organizations/sql.ts'

const here = chosen(109)
const exampleToken = 'eyJhbGciOiJFZERTQSJ9.e30.c2ln'
const openSeconds = 15 * 60

const opened = component('OpenedOrganization', here, {
  token: Type.String({
    description: 'A token that reads this organization, and nothing else.',
    examples: [exampleToken],
  }),
  expires_at: timestamp('When it ends by itself.'),
})

type OperatorActor = Extract<Actor, { kind: 'operator' }>

/** An operator looks into an organization. Its audit log says so. */
export function openOrganizationRoutes(deps: {
  db: Database
  issue(request: { orgId: OrgId; actor: OperatorActor; ttlSeconds: number }): Promise<string>
}): Route[] {
  return [
    operatorRoute({
      method: 'POST',
      path: '/operator/v1/organizations/:orgId/open',
      audit: 'organization.opened',
      basis: here,
      summary: 'Open an organization for reading',
      description:
        'Answers a token for the reads of `/api/v1` and `/platform/v1` in this organization, for 15 minutes. It ends with the operator token or the console session that asked for it. Every opening is in the audit log of the organization.',
      success: { status: 200, description: 'The token.', schema: opened },
      async handler({ params: { orgId }, actor }) {
        await deps.db.begin(async (tx) => {
          if (!(await lockOrganization(tx, orgId))) throw notFound(`there is no organization ${orgId}`)
          await recordAudit(tx, { orgId, action: 'organization.opened', actor, targetId: orgId })
        })
        const expiresAt = new Date(Date.now() + openSeconds * 1_000)
        const token = await deps.issue({ orgId, actor, ttlSeconds: openSeconds })
        return { status: 200, body: { token, expires_at: isoTime(expiresAt) } }
      },
    }),
  ]
}
