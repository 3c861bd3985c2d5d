import Type from 'typebox'
import type { Database } from '../../db/database.ts'
import { isoTime } from '../../kernel/iso-time.ts'
import { listOrganizationsOfUser, type OrganizationRow } from '../../store/organizations.ts'
import { choice, chosen, specified } from '../basis.ts'
import { listById, onlyWholeListQuery } from '../lists.ts'
import { type Route, route } from '../route.ts'
import { createdAt, id } from '../schemas.ts'

export const organization = Type.Object(
  {
    id: id('org', 'The <org_id> of every other path.'),
    name: Type.String({ description: 'What people call the organization.' }),
    created_at: createdAt(),
  },
  { $id: 'Organization', additionalProperties: false, ...chosen(30) },
)

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
