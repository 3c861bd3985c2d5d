import Type from 'typebox'
import { notFound } from '../../kernel/faults.ts'
import type { KeyId } from '../../kernel/ids.ts'
import { revokeApiKey, revokeWithDescendants } from '../../store/api-keys.ts'
import { insertAudits } from '../../store/audit.ts'
import type { HoldOrganization } from '../../store/hold-organization.ts'
import { choice, chosen } from '../basis.ts'
import { type Route, route } from '../route.ts'
import { id } from '../schemas.ts'

const here = chosen(91)

const revocation = Type.Object(
  {
    descendants: Type.Optional(
      Type.Boolean({
        description:
          'Whether every key that was created with it ends too, directly or through others. True when absent.',
        examples: [false],
      }),
    ),
  },
  { $id: 'NewRevocation', additionalProperties: false, ...here, examples: [{ descendants: false }] },
)

const revoked = Type.Object(
  {
    revoked: Type.Array(id('key', 'A key.'), {
      description: 'The keys that were active until this call, oldest first; none when it is repeated.',
    }),
  },
  { $id: 'RevokedApiKeys', additionalProperties: false, ...here },
)

export function keyRevocationRoutes(deps: {
  /** Not the queue of creations: a leaked key that creates keys as fast as it can must not delay its revocation. */
  holdOrganization: HoldOrganization
}): Route[] {
  return [
    route({
      method: 'POST',
      path: '/platform/v1/organizations/:orgId/api-keys/:keyId/revoke',
      needs: 'keys:revoke',
      audit: 'key.revoked',
      basis: here,
      choices: [
        choice(91, 'A key and its descendants always act as the same user, so who may revoke it may revoke them.'),
      ],
      tag: 'API keys',
      summary: 'Revoke an API key and its descendants',
      description:
        'For a leaked key: it can have created others, which outlive it. All of them stop working at once, unless `descendants` is false, and a key that one of them is creating meanwhile is not created.',
      body: revocation,
      faults: ['not_found', 'auth.login_required'],
      success: { status: 200, description: 'The keys are revoked.', schema: revoked },
      async handler({ orgId, userId, actor, reach, params: { keyId }, body }) {
        const createdBy = reach === 'own' ? userId : null
        const keys = await deps.holdOrganization(orgId, async (tx) => {
          const ended =
            (body.descendants ?? true)
              ? await revokeWithDescendants(tx, orgId, keyId, createdBy)
              : idsOf(await revokeApiKey(tx, orgId, keyId, createdBy), keyId)
          if (ended === null) throw notFound(`${keyId} is not in ${orgId}, or not the caller's`)
          const entry = (targetId: KeyId) => ({
            orgId,
            action: 'key.revoked' as const,
            actor,
            targetId,
            ...(targetId !== keyId && { details: { descendant_of: keyId } }),
          })
          if (ended.length > 0) await insertAudits(tx, ended.map(entry))
          return ended
        })
        return { status: 200, body: { revoked: keys } }
      },
    }),
  ]
}

const idsOf = (outcome: Awaited<ReturnType<typeof revokeApiKey>>, keyId: KeyId): KeyId[] | null =>
  ({ revoked: [keyId], already_revoked: [], no_such_key: null })[outcome]
