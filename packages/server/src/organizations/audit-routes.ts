import Type from 'typebox'
import { type AuditRow, auditActions, listAudit } from '../access/audit.ts'
import type { Database } from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { listById, pageQuery } from '../http/lists.ts'
import { type Route, route } from '../http/route.ts'
import { closed, component, exampleId, id, timestamp } from '../http/schemas.ts'
import { idPattern, isId } from '../lib/ids.ts'
import { isoTime, timestampParameter } from '../lib/time.ts'

const here = chosen(31)
const nullable = (description: string) => Type.Union([Type.String(), Type.Null()], { description })

const auditEntry = component('AuditEntry', here, {
  id: id('aud', 'The entry.'),
  at: timestamp('When it happened.'),
  action: Type.Enum([...auditActions], { description: 'What happened.', examples: ['key.created'] }),
  actor: closed(
    {
      kind: Type.Enum(['key', 'login', 'operator'], { description: 'What the actor showed to be let in.' }),
      user_id: nullable('The user; null for the operator.'),
      credential: nullable('The id of the API key, or the `jti` of the login token.'),
      address: nullable('The address that the request came from.'),
    },
    { description: 'Who did it, with what, from where.' },
  ),
  target_id: Type.String({ description: 'What it happened to.', examples: [exampleId('key')] }),
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
      basis: here,
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
        return listById('aud', record, (request) => listAudit(deps.db, orgId, filter, request))
      },
    }),
  ]
}

const actorOf = (actor: string | undefined) => ({
  userId: actor !== undefined && isId('usr', actor) ? actor : null,
  keyId: actor !== undefined && isId('key', actor) ? actor : null,
  isOperator: actor === 'operator',
})

const record = (row: AuditRow) => ({
  id: row.id,
  at: isoTime(row.at),
  action: row.action,
  actor: { kind: row.actor_kind, user_id: row.user_id, credential: row.credential, address: row.address },
  target_id: row.target_id,
  details: row.details,
})
