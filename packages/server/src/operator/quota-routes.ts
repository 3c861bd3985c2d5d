import Type from 'typebox'
import type { QuotaName, Quotas } from '../access/quotas.ts'
import type { Database } from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { operatorRoute, type Route, route } from '../http/route.ts'
import { closed, component, nullable } from '../http/schemas.ts'
import { changeQuotas, type QuotaSettings, readQuotas } from './quotas.ts'

const here = chosen(186)

const countMax = 2_147_483_647
/** 1000 TB, as in the settings. */
const bytesMax = 1_000 * 1024 ** 4

/** `min`: the lowest quota. */
const kinds: Record<QuotaName, { what: string; min: number; max: number }> = {
  keys: { what: 'Active API keys.', min: 0, max: countMax },
  webhooks: { what: 'Webhooks.', min: 0, max: countMax },
  databases: { what: 'Databases, also failed ones.', min: 0, max: countMax },
  members: { what: 'Members, service members and open invitations together.', min: 1, max: countMax },
  database_bytes: {
    what: 'Bytes that all databases may use together, by their storage limits.',
    min: 0,
    max: bytesMax,
  },
  archive_bytes: { what: 'Bytes of all backups and write-ahead logs.', min: 0, max: bytesMax },
  key_requests: { what: 'Requests of each API key in a minute.', min: 1, max: countMax },
  requests: { what: 'Requests of all API keys together in a minute.', min: 1, max: countMax },
}

const each = <T>(of: (kind: (typeof kinds)[QuotaName]) => T) =>
  Object.fromEntries(Object.entries(kinds).map(([name, kind]) => [name, of(kind)])) as Record<QuotaName, T>

const use = (description: string) =>
  closed(
    {
      used: nullable(Type.Integer({ minimum: 0, description: 'What counts now; null for requests.', examples: [3] })),
      limit: nullable(
        Type.Integer({ minimum: 0, description: 'The most there may be; null: no limit.', examples: [100] }),
      ),
      is_own: Type.Boolean({ description: 'Whether the limit was set for this organization, and not for all.' }),
    },
    { description },
  )

const quotaUse = component(
  'QuotaUse',
  here,
  each(({ what }) => use(what)),
)

const quotaChanges = component(
  'QuotaChanges',
  here,
  each(({ what, min, max }) =>
    Type.Optional(
      nullable(
        Type.Integer({
          minimum: min,
          maximum: max,
          description: `${what} Null: the limit of the settings again.`,
          examples: [100],
        }),
      ),
    ),
  ),
)

const operatorPath = '/operator/v1/organizations/:orgId/quotas'

/** What one organization may have, in place of the settings. */
export function quotaRoutes({ db, config }: { db: Database; config: QuotaSettings }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/platform/v1/organizations/:orgId/quotas',
      needs: 'organizations:read',
      audit: null,
      basis: here,
      tag: 'Organizations',
      summary: 'Show what the organization uses and may use',
      description: 'The limits that hold for the organization, and what counts for them now.',
      success: { status: 200, description: 'Usage and limits.', schema: quotaUse },
      async handler({ orgId }) {
        return { status: 200, body: await readQuotas(db, config, orgId) }
      },
    }),
    operatorRoute({
      method: 'GET',
      path: operatorPath,
      audit: null,
      basis: here,
      summary: 'Show the quotas of an organization',
      description: 'The limits that hold for the organization, and what counts for them now.',
      success: { status: 200, description: 'Usage and limits.', schema: quotaUse },
      async handler({ params: { orgId } }) {
        return { status: 200, body: await readQuotas(db, config, orgId) }
      },
    }),
    operatorRoute({
      method: 'PATCH',
      path: operatorPath,
      audit: 'organization.quotas_set',
      basis: here,
      summary: 'Set quotas of an organization',
      description:
        'A quota replaces the limit of the settings for this organization; `null` is the setting again. Below the present use it takes nothing away, and refuses what is new. Nodes follow a quota of requests within seconds, the others hold from the answer on.',
      body: quotaChanges,
      success: { status: 200, description: 'Usage and limits.', schema: quotaUse },
      async handler({ actor, params: { orgId }, body }) {
        await changeQuotas(db, actor, { orgId, changes: body as Partial<Quotas> })
        return { status: 200, body: await readQuotas(db, config, orgId) }
      },
    }),
  ]
}
