import Type from 'typebox'
import { type Role, roles } from '../access/roles.ts'
import type { HoldOrganization } from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { type Route, route } from '../http/route.ts'
import { component, label } from '../http/schemas.ts'
import { Fault } from '../lib/faults.ts'
import { findMember, member, memberOf } from './member-routes.ts'
import { createServiceMember } from './rules.ts'
import { countServiceMembers } from './sql.ts'

const here = chosen(175)

const newServiceMember = component('NewServiceMember', here, {
  name: label('What it is for.', 'deploy'),
  role: Type.Enum(
    roles.filter((role) => role !== 'owner'),
    { description: 'What its keys may do at most. Only a person can be an owner.' },
  ),
})

const serviceMembersPerOrgMax = 1_000

/** They are listed, changed and removed like other members. */
export function serviceMemberRoutes({ holdOrganization }: { holdOrganization: HoldOrganization }): Route[] {
  return [
    route({
      method: 'POST',
      path: '/platform/v1/organizations/:orgId/service-members',
      needs: 'service-members:manage',
      audit: 'service_member.created',
      basis: here,
      tag: 'Members',
      summary: 'Create a service member',
      description:
        'A member that no person can log in as, for API keys that outlive the person who creates them. It takes a login token of an owner.',
      body: newServiceMember,
      faults: ['limit.reached', 'auth.login_required'],
      success: { status: 201, description: 'The member.', schema: member },
      async handler({ orgId, actor, body, once }) {
        const { name, role } = body as { name: string; role: Role }
        return holdOrganization(orgId, (tx) =>
          once(tx, async () => {
            if ((await countServiceMembers(tx, orgId)) >= serviceMembersPerOrgMax) throw tooMany()
            const id = await createServiceMember(tx, actor, { orgId, name, role })
            const location = `/platform/v1/organizations/${orgId}/members/${id}`
            return { status: 201, location, body: memberOf(await findMember(tx, orgId, id)) }
          }),
        )
      },
    }),
  ]
}

const tooMany = (): Fault =>
  new Fault('limit.reached', { public: `An organization has at most ${serviceMembersPerOrgMax} service members.` })
