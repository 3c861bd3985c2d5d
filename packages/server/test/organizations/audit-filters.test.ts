import { describe, expect, test } from 'vitest'
import { type AuditFilter, listAudit, recordAudit } from '../../src/access/audit.ts'
import { idFloor, newId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { testOperator } from '../kit/installation.ts'
import { ownedApi } from '../kit/owned-api.ts'

const api = ownedApi()
const path = '/platform/v1/organizations/{org_id}/audit-log'

type Entry = { id: string; at: string; action: string; target_id: string }

const list = async (query: string) => {
  const url = `${api.url}${path.replace('{org_id}', api.orgId)}${query}`
  return api.documented.call<Entry[]>('GET', path, url, { token: api.owner.token })
}
const found = async (query: string): Promise<Entry[]> => (await list(query)).body
const targets = async (query: string): Promise<string[]> => (await found(query)).map((entry) => entry.target_id)

type Made = { id: string; api_key: string }
const makeKey = async (token: string) =>
  (await call<Made>(`${api.url}/api/v1/organizations/${api.orgId}/api-keys`, { token, body: { name: 'one' } })).body

describe('the audit log is filtered', () => {
  test('by action, user, API key, operator, and all of them together', async () => {
    const admin = await api.person([{ orgId: api.orgId, role: 'admin' }])
    const byOwner = await makeKey(api.owner.token)
    const byAdmin = await makeKey(admin.token)
    const byKey = await makeKey(byAdmin.api_key)
    await call(`${api.url}/api/v1/organizations/${api.orgId}/api-keys/${byOwner.id}`, {
      token: admin.token,
      method: 'DELETE',
    })
    expect(await targets(`?action=key.created`)).toEqual([byKey.id, byAdmin.id, byOwner.id])
    expect(await targets(`?action=key.revoked`)).toEqual([byOwner.id])
    // A user's keys act for the user.
    expect(await targets(`?actor=${admin.userId}`)).toEqual([byOwner.id, byKey.id, byAdmin.id])
    expect(await targets(`?actor=${byAdmin.id}`)).toEqual([byKey.id])
    expect(await targets(`?actor=${admin.userId}&action=key.revoked`)).toEqual([byOwner.id])
    expect(await targets(`?actor=${byAdmin.id}&action=key.revoked`)).toEqual([])
    const operators = await found('?actor=operator')
    expect(operators.map((entry) => entry.action)).toContain('member.added')
    expect(operators.map((entry) => entry.action)).not.toContain('key.created')
  })

  test('by time: from since on, and before until', async () => {
    for (const [target, at] of [
      ['first', '2026-01-01T00:00:00Z'],
      ['second', '2026-01-02T00:00:00Z'],
      ['third', '2026-01-03T00:00:00Z'],
    ] as const) {
      const entry = { orgId: api.orgId, action: 'event.reported', actor: testOperator, targetId: target } as const
      await api.db.begin((tx) => recordAudit(tx, entry))
      // The id is of another node, whose clock is an hour late.
      const id = idFloor('aud', Date.parse(at) - 3_600_000)
      await api.db`update keyhook.audit_entries set at = ${at}, id = ${id} where target_id = ${target}`
    }
    expect(await targets('?since=2026-01-02T00:00:00Z&until=2026-01-03T00:00:00Z')).toEqual(['second'])
    expect(await targets('?until=2026-01-02T00:00:00%2B01:00')).toEqual(['first'])
    expect(await targets('?action=event.reported&since=2026-01-02T00:00:00Z')).toEqual(['third', 'second'])
  })

  test('by its indexes: what is rare among many entries is found without reading them', async () => {
    await api.db`
      insert into keyhook.audit_entries (org_id, id, action, actor_kind, user_id, credential, target_id)
      select ${api.orgId}, id, 'key.created', 'login', ${api.owner.userId}, 'jti', 'x'
      from unnest(${Array.from({ length: 20_000 }, () => newId('aud'))}::text[]) id`
    await api.db`analyze keyhook.audit_entries`
    const none = { action: null, userId: null, keyId: null, isOperator: false, since: null, until: null }
    const rare: Partial<AuditFilter>[] = [
      { action: 'key.revoked' },
      { userId: newId('usr') },
      { keyId: newId('key') },
      { isOperator: true },
      { since: new Date(Date.now() + 2 * 86_400_000) },
      { until: new Date('2000-01-01') },
    ]
    for (const filter of rare) {
      const { strings, values } = listAudit(api.db, api.orgId, { ...none, ...filter }, { before: null, limit: 50 })
      const explain = [`explain (analyze, format json) ${strings[0]}`, ...strings.slice(1)]
      const statement = Object.assign(explain, { raw: explain }) as unknown as TemplateStringsArray
      const [row] = await api.db<[{ 'QUERY PLAN': [{ Plan: object }] }]>(statement, ...(values as string[]))
      const plan = JSON.stringify(row['QUERY PLAN'])
      const removed = [...plan.matchAll(/"Rows Removed by Filter":(\d+)/g)].map(([, count]) => Number(count))
      expect([filter, Math.max(0, ...removed)]).toEqual([filter, expect.toSatisfy((count: number) => count < 1_000)])
      expect(plan).not.toContain('Seq Scan')
    }
  })

  test('page by page', async () => {
    const keys = [await makeKey(api.owner.token), await makeKey(api.owner.token), await makeKey(api.owner.token)]
    const first = await list('?action=key.created&limit=2')
    expect(first.body.map((entry) => entry.target_id)).toEqual([keys[2]!.id, keys[1]!.id])
    const [, next] = /<([^>]+)>; rel="next"/.exec(first.headers.get('link') ?? '') ?? []
    expect(next).toContain('action=key.created')
    const second = await call<Entry[]>(`${api.url}${next}`, { token: api.owner.token })
    expect(second.body[0]!.target_id).toBe(keys[0]!.id)
  })

  test('and anything that is no filter is refused', async () => {
    for (const query of [
      '?action=key.made',
      '?actor=ada',
      '?since=yesterday',
      '?until=2026-02-30T00:00:00Z',
      '?who=me',
    ]) {
      expect((await list(query)).status, query).toBe(422)
    }
  })
})
