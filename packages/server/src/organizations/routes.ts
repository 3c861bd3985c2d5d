import Type from 'typebox'
import type { OrganizationRow } from '../access/access.ts'
import { recordAudit } from '../access/audit.ts'
import type { Database } from '../db/database.ts'
import type { HoldOrganization } from '../db/publishing-transaction.ts'
import { choice, chosen, specified } from '../http/basis.ts'
import { listById, onlyWholeListQuery } from '../http/lists.ts'
import { type Route, route } from '../http/route.ts'
import { component, createdAt, id, label } from '../http/schemas.ts'
import { isoTime } from '../lib/time.ts'
import { findOrganization, listOrganizationsOfUser, renameOrganization } from './sql.ts'

export const organization = component('Organization', chosen(30), {
  id: id('org', 'The <org_id> of every other path.'),
  name: Type.String({ description: 'What people call the organization.', examples: ['Acme'] }),
  created_at: createdAt(),
})

export const organizationOf = (row: OrganizationRow) => ({
  id: row.id,
  name: row.name,
  created_at: isoTime(row.created_at),
})

export function organizationRoutes(deps: { db: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/api/v1/organizations',
      needs: 'organizations:read',
      audit: null,
      basis: specified,
      choices: [
        choice(
          11,
          'With an API key, the one organization it was made in; with a login token, all that the user is a member of.',
        ),
      ],
      tag: 'Organizations',
      summary: 'List organizations',
      description: 'The organizations that the caller can reach.',
      query: onlyWholeListQuery,
      success: { status: 200, description: 'The organizations, newest first.', schema: Type.Array(organization) },
      handler({ access, query }) {
        // Authentication has already read the one organization of a key.
        if (access.kind === 'key' && query.cursor === undefined) {
          return { status: 200, body: [organizationOf(access.membership.organization)] }
        }
        return listById('org', organizationOf, async (request) =>
          access.kind === 'key'
            ? only(access.membership.organization, request.before)
            : listOrganizationsOfUser(deps.db, access.userId, request),
        )
      },
    }),
  ]
}

const only = (row: OrganizationRow, before: string | null): OrganizationRow[] =>
  before === null || row.id < before ? [row] : []

const here = chosen(114)

const settings = component('OrganizationSettings', here, {
  name: label('What people call the organization.', 'Globex'),
})

export function organizationSettingsRoutes({ holdOrganization }: { holdOrganization: HoldOrganization }): Route[] {
  return [
    route({
      method: 'PATCH',
      path: '/platform/v1/organizations/:orgId',
      needs: 'organizations:update',
      audit: 'organization.renamed',
      basis: here,
      tag: 'Organizations',
      summary: 'Rename the organization',
      description: 'Its id stays the same. The same name again changes nothing.',
      body: settings,
      success: { status: 200, description: 'The organization.', schema: organization },
      async handler({ orgId, actor, body: { name } }) {
        return holdOrganization(orgId, async (tx) => {
          const before = (await findOrganization(tx, orgId))!
          if (before.name !== name) {
            await renameOrganization(tx, orgId, name)
            const details = { from: before.name, to: name }
            await recordAudit(tx, { orgId, action: 'organization.renamed', actor, targetId: orgId, details })
          }
          return { status: 200, body: organizationOf({ ...before, name }) }
        })
      },
    }),
  ]
}
