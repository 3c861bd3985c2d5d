import Type from 'typebox'
import type { Database, Transaction } from '../../db/database.ts'
import type { Actor } from '../../domain/audit.ts'
import { notFound } from '../../kernel/faults.ts'
import { findOrganization, type OrganizationRow, pageOfOrganizations } from '../../store/organizations.ts'
import { chosen } from '../basis.ts'
import { listById, onlyPageQuery } from '../lists.ts'
import { organization, organizationOf } from '../published/organizations.ts'
import { operatorRoute, type Route } from '../route.ts'
import { label } from '../schemas.ts'

const here = chosen(95)
const path = '/operator/v1/organizations'

const newOrganization = Type.Object(
  { name: label('What people call the organization.', 'Globex') },
  { $id: 'NewOrganization', additionalProperties: false, ...here },
)

/** `keyhook org` over HTTP. */
export function operatorOrganizationRoutes(deps: {
  db: Database
  create(tx: Transaction, actor: Actor, request: { name: string }): Promise<OrganizationRow>
}): Route[] {
  return [
    operatorRoute({
      method: 'POST',
      path,
      needs: 'operator',
      audit: 'organization.created',
      basis: here,
      tag: 'Operator',
      summary: 'Create an organization',
      description: 'A customer of yours. Send an `Idempotency-Key`: names need not be unique.',
      body: newOrganization,
      success: { status: 201, description: 'The organization.', schema: organization },
      async handler({ actor, body, once }) {
        return deps.db.begin((tx) =>
          once(tx, async () => {
            const row = await deps.create(tx, actor, { name: body.name })
            return { status: 201, location: `${path}/${row.id}`, body: organizationOf(row) }
          }),
        )
      },
    }),
    operatorRoute({
      method: 'GET',
      path,
      needs: 'operator',
      audit: null,
      basis: here,
      tag: 'Operator',
      summary: 'List all organizations',
      description: 'Every organization of the installation.',
      query: onlyPageQuery,
      success: { status: 200, description: 'The organizations.', schema: Type.Array(organization) },
      async handler() {
        return listById('org', organizationOf, (request) => pageOfOrganizations(deps.db, request))
      },
    }),
    operatorRoute({
      method: 'GET',
      path: `${path}/:orgId`,
      needs: 'operator',
      audit: null,
      basis: here,
      tag: 'Operator',
      summary: 'Read an organization',
      description: 'One organization.',
      faults: ['not_found'],
      success: { status: 200, description: 'The organization.', schema: organization },
      async handler({ params: { orgId } }) {
        const row = await findOrganization(deps.db, orgId)
        if (row === null) throw notFound(`there is no organization ${orgId}`)
        return { status: 200, body: organizationOf(row) }
      },
    }),
  ]
}
