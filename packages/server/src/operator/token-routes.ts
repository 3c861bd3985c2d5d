import Type from 'typebox'
import { type Actor, type OperatorActor, recordAudit } from '../access/audit.ts'
import type { Database, Transaction } from '../db/database.ts'
import { choice, chosen, withChoices } from '../http/basis.ts'
import { listById, onlyPageQuery } from '../http/lists.ts'
import { operatorRoute, type Route } from '../http/route.ts'
import { component, createdAt, id, label, nullable, timestamp } from '../http/schemas.ts'
import { notFound } from '../lib/faults.ts'
import { newId, type OperatorTokenId, type OrgId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import { localTtlSecondsMax } from '../login/login-tokens.ts'
import { checkLabel } from '../organizations/rules.ts'
import { lockOrganization } from '../organizations/sql.ts'
import { insertOperatorToken, listOperatorTokens, type OperatorTokenRow, revokeOperatorToken } from './token-sql.ts'

const here = chosen(97)
const exampleToken = 'eyJhbGciOiJFZERTQSJ9.e30.c2ln'
const path = '/operator/v1/tokens'
const ttlSecondsDefault = 12 * 60 * 60

const newToken = component('NewOperatorToken', here, {
  name: Type.Optional(label('What the token is for.', 'gateway')),
  ttl_seconds: Type.Optional(
    Type.Integer({ minimum: 1, maximum: localTtlSecondsMax, description: 'How long it lives; 12 hours if absent.' }),
  ),
})

const shown = () => ({
  id: id('tok', 'The `credential` of its entries in audit logs.'),
  name: Type.Union([Type.String(), Type.Null()], { description: 'What the token is for.' }),
  created_at: createdAt(),
  expires_at: timestamp('When it ends by itself.'),
  created_by: Type.Union([Type.String(), Type.Null()], {
    description: 'The operator token that issued it; null for the command line.',
  }),
  revoked_at: nullable(timestamp('When it was revoked.')),
})

const operatorToken = component('OperatorToken', here, shown())

const issuedToken = component('IssuedOperatorToken', here, {
  ...shown(),
  token: Type.Optional(
    withChoices(
      Type.String({ description: 'The token. Shown once.', examples: [exampleToken] }),
      choice(96, 'Absent if the answer is a repetition (`Idempotency-Replayed`).'),
    ),
  ),
})

const recordOf = (row: OperatorTokenRow) => ({
  id: row.id,
  name: row.name,
  created_at: isoTime(row.created_at),
  expires_at: isoTime(row.expires_at),
  created_by: row.created_by,
  revoked_at: row.revoked_at && isoTime(row.revoked_at),
})

/** `keyhook token` over HTTP, for operator tokens. */
export function operatorTokenRoutes({ db, sign }: { db: Database; sign: SignOperatorToken }): Route[] {
  return [
    operatorRoute({
      method: 'POST',
      path,
      audit: null,
      basis: here,
      summary: 'Issue an operator token',
      description: 'A token for `/operator/v1`. `token` is shown here and never again.',
      body: newToken,
      success: { status: 201, description: 'The token. Keep `token`.', schema: issuedToken },
      async handler({ actor, body, once }) {
        const request = { name: body.name ?? null, ttlSeconds: body.ttl_seconds ?? ttlSecondsDefault }
        return db.begin((tx) =>
          once(tx, async () => {
            const { row, token } = await issueOperatorToken(tx, sign, actor, request)
            const withoutSecrets = recordOf(row)
            return { status: 201, location: `${path}/${row.id}`, body: { ...withoutSecrets, token }, withoutSecrets }
          }),
        )
      },
    }),
    operatorRoute({
      method: 'GET',
      path,
      audit: null,
      basis: here,
      summary: 'List operator tokens',
      description: 'Every operator token that was issued, also revoked and expired ones.',
      query: onlyPageQuery,
      success: { status: 200, description: 'The tokens, without `token`.', schema: Type.Array(operatorToken) },
      async handler() {
        return listById('tok', recordOf, (request) => listOperatorTokens(db, request))
      },
    }),
    operatorRoute({
      method: 'DELETE',
      path: `${path}/:tokenId`,
      audit: null,
      basis: here,
      summary: 'Revoke an operator token',
      description:
        'The token is refused by every request that starts after the answer, on every node. Tokens that it issued stay valid: `created_by` shows them. A second call is answered like the first.',
      success: { status: 204, description: 'The token is revoked.' },
      async handler({ actor, params: { tokenId } }) {
        if (!(await revokeOperatorToken(db, tokenId, actor.tokenId))) throw notFound(`there is no token ${tokenId}`)
        return { status: 204 }
      },
    }),
  ]
}

export type SignOperatorToken = (token: { tokenId: OperatorTokenId; ttlSeconds: number }) => Promise<string>

/** The row comes first: a token without one is refused. The token itself is not stored. */
export async function issueOperatorToken(
  tx: Transaction,
  sign: SignOperatorToken,
  actor: Actor,
  { name, ttlSeconds }: { name: string | null; ttlSeconds: number },
): Promise<{ row: OperatorTokenRow; token: string }> {
  if (name !== null) checkLabel('/name', name)
  const id = newId('tok')
  const createdBy = actor.kind === 'operator' ? actor.tokenId : null
  const row = await insertOperatorToken(tx, { id, name, ttlSeconds, createdBy })
  return { row, token: await sign({ tokenId: id, ttlSeconds }) }
}

const openingBasis = chosen(109)
const openSeconds = 15 * 60

const opened = component('OpenedOrganization', openingBasis, {
  token: Type.String({
    description: 'A token that reads this organization, and nothing else.',
    examples: [exampleToken],
  }),
  expires_at: timestamp('When it ends by itself.'),
})

/** An operator looks into an organization. Its audit log says so. */
export function openOrganizationRoutes(deps: {
  db: Database
  issue(request: { orgId: OrgId; actor: OperatorActor; ttlSeconds: number }): Promise<string>
}): Route[] {
  return [
    operatorRoute({
      method: 'POST',
      path: '/operator/v1/organizations/:orgId/open',
      audit: 'organization.opened',
      basis: openingBasis,
      summary: 'Open an organization for reading',
      description:
        'Answers a token for the reads of `/api/v1` and `/platform/v1` in this organization, for 15 minutes. It ends with the operator token or the console session that asked for it. Every opening is in the audit log of the organization.',
      success: { status: 200, description: 'The token.', schema: opened },
      async handler({ params: { orgId }, actor }) {
        await deps.db.begin(async (tx) => {
          if (!(await lockOrganization(tx, orgId))) throw notFound(`there is no organization ${orgId}`)
          await recordAudit(tx, { orgId, action: 'organization.opened', actor, targetId: orgId })
        })
        const expiresAt = new Date(Date.now() + openSeconds * 1_000)
        const token = await deps.issue({ orgId, actor, ttlSeconds: openSeconds })
        return { status: 200, body: { token, expires_at: isoTime(expiresAt) } }
      },
    }),
  ]
}
