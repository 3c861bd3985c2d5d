import Type, { type Static } from 'typebox'
import { recordAudit } from '../access/audit.ts'
import { type KeyPermission, permissionPresets } from '../access/restrictions.ts'
import type { Database } from '../db/database.ts'
import { listById } from '../http/lists.ts'
import { type Route, route } from '../http/route.ts'
import { invalid, notFound } from '../lib/faults.ts'
import type { DatabaseId, KeyId, OrgId, UserId } from '../lib/ids.ts'
import { isAddress, readNetwork } from '../lib/network.ts'
import { isoTime, parseTimestamp } from '../lib/time.ts'
import {
  createdRestrictedKey,
  keyChanges,
  keyDetails,
  keyDetailsQuery,
  keyLifetime,
  keyLifetimeSettings,
  newRestrictedKey,
  newRotation,
  restrictionBasis,
  rotationBasis,
} from './restricted-schemas.ts'
import { overlapSecondsDefault, rotateKey } from './rotation.ts'
import { apiKeyOf } from './routes.ts'
import {
  type AskedLimits,
  type CreatedKey,
  type CreationDeps,
  changeKey,
  createKeyIn,
  isForService,
  retryPrefix,
} from './rules.ts'
import { type ApiKeyRow, keyLifetimeOf, listApiKeys, setKeyDaysMax } from './sql.ts'

const path = '/platform/v1/organizations/:orgId/api-keys'
const lifetimePath = '/platform/v1/organizations/:orgId/key-lifetime'

/** Keys with what restricts them. Under /api/v1 they are created and listed as published. */
export function restrictedKeyRoutes(deps: CreationDeps & { db: Database }): Route[] {
  const { db } = deps

  async function show(orgId: OrgId, id: KeyId, createdBy: UserId | null): Promise<object> {
    const [row] = await listApiKeys(db, orgId, { status: 'all', createdBy, id }, { before: null, limit: 1 })
    if (row === undefined) throw notFound(`${id} is not in ${orgId}, or not the caller's`)
    return keyDetailsOf(row)
  }

  const lifetimeOf = (days: number | null) =>
    ({ status: 200, body: { days_max: days, operator_days_max: deps.keyDaysMax } }) as const

  return [
    route({
      method: 'POST',
      path,
      needs: 'keys:create',
      audit: 'key.created',
      basis: restrictionBasis,
      tag: 'API keys',
      summary: 'Create a restricted API key',
      description:
        'Makes a key that may do less than the calling user. Restrictions that are absent are those of the API key of the request; with a login token there are none then. A key never creates a key that may do more than itself.',
      body: newRestrictedKey,
      faults: ['limit.reached', 'auth.login_required', 'auth.key_restricted'],
      success: {
        status: 201,
        description: 'The key. Keep `api_key`: it cannot be shown again.',
        schema: createdRestrictedKey,
      },
      decode: decodeNewKey,
      async handler({ orgId, userId, actor, body: { name, limits }, once }) {
        return retryPrefix(() =>
          deps.holdOrganization(orgId, (tx) =>
            once(tx, async () => {
              const created = await createKeyIn(tx, deps, { orgId, userId, actor, name, limits })
              return answerOf(orgId, name, created)
            }),
          ),
        )
      },
    }),
    route({
      method: 'GET',
      path,
      needs: 'keys:read',
      audit: null,
      basis: restrictionBasis,
      tag: 'API keys',
      summary: 'List API keys with their restrictions',
      description:
        'The keys of the organization, newest first, with what restricts them and which requests were refused.',
      query: keyDetailsQuery,
      success: { status: 200, description: 'The keys. Never `api_key`.', schema: Type.Array(keyDetails) },
      async handler({ orgId, userId, reach, query: { status = 'active', unused_days: unusedDays } }) {
        const filter = { status, createdBy: reach === 'own' ? userId : null, unusedDays }
        return listById('key', keyDetailsOf, (request) => listApiKeys(db, orgId, filter, request))
      },
    }),
    route({
      method: 'GET',
      path: `${path}/:keyId`,
      needs: 'keys:read',
      audit: null,
      basis: restrictionBasis,
      tag: 'API keys',
      summary: 'Show an API key',
      description: 'One key, with what restricts it and which requests were refused.',
      success: { status: 200, description: 'The key. Never `api_key`.', schema: keyDetails },
      async handler({ orgId, userId, reach, params: { keyId } }) {
        return { status: 200, body: await show(orgId, keyId, reach === 'own' ? userId : null) }
      },
    }),
    route({
      method: 'PATCH',
      path: `${path}/:keyId`,
      needs: 'keys:update',
      audit: 'key.updated',
      basis: restrictionBasis,
      tag: 'API keys',
      summary: 'Change an API key',
      description:
        'Renames a key or changes what restricts it. No request that begins after the answer may do what the key is not allowed any more, on any node. Allowing more, or a later end, takes a login token of the user whom the key acts as, or of an owner if that is a service member. An earlier end of another key also takes `keys:revoke`.',
      body: keyChanges,
      faults: ['key.not_active', 'auth.login_required', 'auth.key_restricted'],
      success: { status: 200, description: 'The key with its changes.', schema: keyDetails },
      decode: async ({ name, ...asked }) => ({ name, limits: limitsOf(asked) }),
      async handler({ orgId, userId, actor, access, reach, params: { keyId }, body: { name, limits } }) {
        const createdBy = reach === 'own' ? userId : null
        const caller = { userId, actor, isForService: isForService(access) }
        await deps.holdOrganization(orgId, (tx) =>
          changeKey(tx, deps, { orgId, keyId, createdBy, ...caller, name, limits }),
        )
        return { status: 200, body: await show(orgId, keyId, createdBy) }
      },
    }),
    route({
      method: 'GET',
      path: lifetimePath,
      needs: 'organizations:read',
      audit: null,
      basis: restrictionBasis,
      tag: 'API keys',
      summary: 'Show how long API keys may last',
      description: 'The limits that an owner of the organization and the operator have set. The lower one counts.',
      success: { status: 200, description: 'The limits.', schema: keyLifetime },
      async handler({ orgId }) {
        return lifetimeOf((await keyLifetimeOf(db, orgId)).daysMax)
      },
    }),
    route({
      method: 'PUT',
      path: lifetimePath,
      needs: 'keys:limit',
      audit: 'organization.key_lifetime_set',
      basis: restrictionBasis,
      tag: 'API keys',
      summary: 'Limit how long API keys may last',
      description:
        'Every key that is created from now on ends after so many days at the latest, also one that is created without an end under /api/v1. Existing keys stay as they are. An end that is asked for and lies up to five minutes beyond is taken as the limit, because clocks differ. It takes a login token.',
      body: keyLifetimeSettings,
      faults: ['auth.login_required'],
      success: { status: 200, description: 'The limits.', schema: keyLifetime },
      async handler({ orgId, actor, body: { days_max: days } }) {
        await db.begin(async (tx) => {
          const before = await setKeyDaysMax(tx, orgId, days)
          if (before === days) return
          const details = { from: before, to: days }
          await recordAudit(tx, { orgId, action: 'organization.key_lifetime_set', actor, targetId: orgId, details })
        })
        return lifetimeOf(days)
      },
    }),
    route({
      method: 'POST',
      path: `${path}/:keyId/rotate`,
      needs: 'keys:create',
      audit: 'key.rotated',
      basis: rotationBasis,
      tag: 'API keys',
      summary: 'Rotate an API key',
      description:
        'Makes a key with the same name and restrictions, and ends this one after the overlap, in one transaction. Only the user whom the key acts as can rotate it, or a key of that user that may do as much; that of a service member also an owner, with a login token.',
      body: newRotation,
      faults: ['key.not_active', 'limit.reached', 'auth.login_required', 'auth.key_restricted'],
      success: {
        status: 201,
        description: 'The new key. Keep `api_key`: it cannot be shown again.',
        schema: createdRestrictedKey,
      },
      decode: async ({ overlap_seconds: overlapSeconds = overlapSecondsDefault, ...asked }) => ({
        overlapSeconds,
        ...limitsOf(asked),
      }),
      async handler({ orgId, userId, actor, access, params: { keyId }, body: { overlapSeconds, expiresAt }, once }) {
        const caller = { userId, actor, isForService: isForService(access) }
        const rotation = { orgId, keyId, ...caller, overlapSeconds, expiresAt }
        return retryPrefix(() =>
          deps.holdOrganization(orgId, (tx) =>
            once(tx, async () => {
              const { old, ...created } = await rotateKey(tx, deps, rotation)
              return answerOf(orgId, old.name, created)
            }),
          ),
        )
      },
    }),
  ]
}

type AskedBody = Omit<Static<typeof keyChanges>, 'name'>

/** The restrictions of a body, by the rules that its schema cannot express. */
function limitsOf(body: AskedBody): AskedLimits {
  const { permissions, databases, allowed_networks: networks, expires_at: expiresAt } = body
  return {
    ...(permissions !== undefined && { permissions: permissions as KeyPermission[] | null }),
    ...(databases !== undefined && { databases: databases as DatabaseId[] | null }),
    ...(networks !== undefined && { networks: networks?.map(networkOf) ?? null }),
    ...(expiresAt !== undefined && { expiresAt: expiresAt === null ? null : parseTimestamp(expiresAt) }),
  }
}

function networkOf(text: string, at: number): string {
  const network = isAddress(text) ? `${text}/${text.includes(':') ? 128 : 32}` : text
  const read = readNetwork(network)
  // Callers are compared by their IPv4 address.
  const isMapped = read !== null && 'isIPv4MappedAddress' in read[0] && read[0].isIPv4MappedAddress()
  if (read !== null && !isMapped) return network
  throw invalid([
    { pointer: `/allowed_networks/${at}`, detail: 'must be a CIDR such as 203.0.113.0/24, or an address' },
  ])
}

export const decodeNewKey = async ({ name, preset, ...asked }: Static<typeof newRestrictedKey>) => ({
  name,
  limits: {
    ...limitsOf(asked),
    ...(preset !== undefined && { permissions: presetOf(preset, asked.permissions) }),
  },
})

function presetOf(preset: keyof typeof permissionPresets, permissions: unknown): readonly KeyPermission[] {
  if (permissions === undefined) return permissionPresets[preset]
  throw invalid([{ pointer: '/preset', detail: 'must not be given together with permissions' }])
}

export const answerOf = (orgId: OrgId, name: string, { id, keyPrefix, apiKey }: CreatedKey) => {
  const withoutSecrets = { id, name, key_prefix: keyPrefix }
  const location = `${path.replace(':orgId', orgId)}/${id}`
  return { status: 201, location, body: { ...withoutSecrets, api_key: apiKey }, withoutSecrets } as const
}

const keyDetailsOf = (row: ApiKeyRow) => ({
  ...apiKeyOf(row),
  permissions: row.restrictions?.permissions ?? null,
  databases: row.restrictions?.databases ?? null,
  allowed_networks: row.restrictions?.networks ?? null,
  expires_at: row.expires_at && isoTime(row.expires_at),
  expired: row.expired,
  refused: {
    count: row.refused_count,
    last_at: row.last_refused_at && isoTime(row.last_refused_at),
    last_address: row.last_refused_address,
  },
  leaked_at: row.leaked_at && isoTime(row.leaked_at),
  leaked_url: row.leaked_url,
})
