import Type from 'typebox'
import { recordAudit } from '../../store/audit.ts'
import type { HoldOrganization } from '../../store/hold-organization.ts'
import { findOrganization, renameOrganization } from '../../store/organizations.ts'
import { chosen } from '../basis.ts'
import { organization, organizationOf } from '../published/organizations.ts'
import { type Route, route } from '../route.ts'
import { label } from '../schemas.ts'

const here = chosen(114)

const settings = Type.Object(
  { name: label('What people call the organization.', 'Globex') },
  { $id: 'OrganizationSettings', additionalProperties: false, ...here },
)

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
      faults: ['not_found'],
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
