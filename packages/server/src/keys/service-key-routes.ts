import { chosen } from '../http/basis.ts'
import { type Route, route } from '../http/route.ts'
import { notFound } from '../lib/faults.ts'
import { answerOf, decodeNewKey } from './restricted-routes.ts'
import { createdRestrictedKey, newRestrictedKey } from './restricted-schemas.ts'
import { type CreationDeps, createKeyIn, retryPrefix } from './rules.ts'
import { lockServiceMember } from './users-sql.ts'

/** Keys of service members, which cannot log in and create their first key. */
export function serviceKeyRoutes(deps: CreationDeps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/platform/v1/organizations/:orgId/service-members/:userId/api-keys',
      needs: 'service-members:manage',
      audit: 'key.created',
      basis: chosen(175),
      tag: 'API keys',
      summary: 'Create an API key of a service member',
      description:
        'Makes a key that acts as the service member, with the role that it has at the time of each request. It takes a login token of an owner.',
      body: newRestrictedKey,
      faults: ['limit.reached', 'auth.login_required'],
      success: {
        status: 201,
        description: 'The key. Keep `api_key`: it cannot be shown again.',
        schema: createdRestrictedKey,
      },
      decode: decodeNewKey,
      async handler({ orgId, actor, params: { userId }, body: { name, limits }, once }) {
        return retryPrefix(() =>
          deps.holdOrganization(orgId, (tx) =>
            once(tx, async () => {
              if (!(await lockServiceMember(tx, orgId, userId)))
                throw notFound(`${userId} is no service member of ${orgId}`)
              const created = await createKeyIn(tx, deps, { orgId, userId, actor, name, limits })
              return answerOf(orgId, name, created)
            }),
          ),
        )
      },
    }),
  ]
}
