import Type from 'typebox'
import type { OrganizationRow } from '../access/access.ts'
import { type AuditRow, auditActions, listAudit, recordAudit } from '../access/audit.ts'
import type { Database, HoldOrganization } from '../db/database.ts'
import { choice, chosen, mark, specified } from '../http/basis.ts'
import { listById, onlyWholeListQuery, pageQuery } from '../http/lists.ts'
import { type Route, route } from '../http/route.ts'
import { closed, component, createdAt, exampleId, id, label, timestamp } from '../http/schemas.ts'
import { idPattern, isId } from '../lib/ids.ts'
import { isoTime, timestampParameter } from '../lib/time.ts'
import { namesOf } from './audit-sql.ts'
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
      isForDatabaseKeys: true,
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

const auditBasis = chosen(31)
const nullable = (description: string) => Type.Union([Type.String(), Type.Null()], { description })

const names = chosen(189)

const auditEntry = component('AuditEntry', auditBasis, {
  id: id('aud', 'The entry.'),
  at: timestamp('When it happened.'),
  action: Type.Enum([...auditActions], { description: 'What happened.', examples: ['key.created'] }),
  actor: closed(
    {
      kind: Type.Enum(['key', 'login', 'operator'], { description: 'What the actor showed to be let in.' }),
      user_id: nullable('The user; null for the operator.'),
      credential: nullable('The id of the API key, or the `jti` of the login token.'),
      address: nullable('The address that the request came from.'),
      name: mark(
        names,
        nullable('The name of the user, or the email address of one without a name; null for the operator.'),
      ),
      key_name: mark(names, nullable('The name and the prefix of the API key; null without one.')),
    },
    { description: 'Who did it, with what, from where.' },
  ),
  target_id: Type.String({ description: 'What it happened to.', examples: [exampleId('key')] }),
  target_name: mark(
    names,
    nullable(
      'What people call it: the name of a key or database, the address of a webhook, the type of an event; null if nothing is known of it.',
    ),
  ),
  details: Type.Record(Type.String(), Type.Unknown(), {
    description: 'What else is worth knowing. Never a secret.',
    examples: [{ name: 'ci', key_prefix: 'kh_Example1' }],
  }),
})

const timestampFilter = (description: string) =>
  Type.Optional(Type.String({ maxLength: 40, format: 'date-time', description, examples: ['2026-01-31T12:00:00Z'] }))

const listQuery = closed(
  {
    action: Type.Optional(Type.Enum([...auditActions], { description: 'Only these.' })),
    actor: Type.Optional(
      Type.String({
        pattern: `${idPattern('usr')}|${idPattern('key')}|^operator$`,
        description: 'Only what this user did, also with API keys; or this API key; or an `operator`.',
      }),
    ),
    since: timestampFilter('Entries from this time on (RFC 3339).'),
    until: timestampFilter('Entries before this time.'),
    ...pageQuery,
  },
  { ...chosen(113) },
)

export function auditLogRoutes(deps: { db: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/platform/v1/organizations/:orgId/audit-log',
      needs: 'audit:read',
      audit: null,
      basis: auditBasis,
      tag: 'Audit log',
      summary: 'Read the audit log',
      description: 'Every change in the organization: who made it, with what, from where. Newest first.',
      query: listQuery,
      success: { status: 200, description: 'The entries.', schema: Type.Array(auditEntry) },
      async handler({ orgId, query }) {
        const filter = {
          action: query.action ?? null,
          ...actorOf(query.actor),
          since: timestampParameter('since', query.since),
          until: timestampParameter('until', query.until),
        }
        return listById('aud', record, async (request) => {
          const rows = await listAudit(deps.db, orgId, filter, request)
          const ids = rows.filter((row) => !isOfEvent(row)).map(namedTarget)
          const actors = rows.flatMap((row) => [row.user_id, row.credential]).filter((id) => id !== null)
          const eventIds = rows.filter(isOfEvent).map((row) => row.target_id)
          const names = await namesOf(deps.db, orgId, { ids: [...ids, ...actors], eventIds })
          return rows.map((row) => ({ ...row, names }))
        })
      },
    }),
  ]
}

const actorOf = (actor: string | undefined) => ({
  userId: actor !== undefined && isId('usr', actor) ? actor : null,
  keyId: actor !== undefined && isId('key', actor) ? actor : null,
  isOperator: actor === 'operator',
})

const isOfEvent = (row: AuditRow): boolean => row.action === 'event.reported'

/** An attempt has no name, but its webhook has. */
const namedTarget = ({ target_id, details }: AuditRow): string =>
  typeof details.webhook_id === 'string' ? details.webhook_id : target_id

/** A record that is gone for good, such as a withdrawn invitation, may be named by the entry itself. */
const givenName = ({ email, name }: Record<string, unknown>): string | null =>
  [email, name].find((one): one is string => typeof one === 'string') ?? null

const record = ({ names, ...row }: AuditRow & { names: Map<string, string> }) => ({
  id: row.id,
  at: isoTime(row.at),
  action: row.action,
  actor: {
    kind: row.actor_kind,
    user_id: row.user_id,
    credential: row.credential,
    address: row.address,
    name: names.get(row.user_id ?? '') ?? null,
    key_name: row.actor_kind === 'key' ? (names.get(row.credential ?? '') ?? null) : null,
  },
  target_id: row.target_id,
  target_name: names.get(namedTarget(row)) ?? givenName(row.details),
  details: row.details,
})
