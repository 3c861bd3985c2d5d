import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { isRefusedToKeys } from '../../src/access/roles.ts'
import { issueInvoice } from '../../src/billing/rules.ts'
import type { Route } from '../../src/http/route.ts'
import type { UserId } from '../../src/lib/ids.ts'
import { removeMember, removeUser, setMember } from '../../src/organizations/rules.ts'
import { changesOf, hookBody, preparePlatform } from '../http/support/changes.ts'
import { call } from '../kit/client.ts'
import { routesOf } from '../kit/composed.ts'
import { startApiForTest, testOperator } from '../kit/installation.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { countRows } from '../kit/rows.ts'
import { recordUsage } from '../kit/usage.ts'

type Entry = {
  id: string
  action: string
  actor: {
    kind: string
    user_id: string | null
    credential: string | null
    address: string | null
    name: string | null
    key_name: string | null
  }
  target_id: string
  target_name: string | null
  details: Record<string, unknown>
}
type Made = { id: string; api_key: string; key_prefix: string }

const api = ownedApi()

const org = () => `${api.url}/api/v1/organizations/${api.orgId}`
const jtiOf = (token: string): string => JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()).jti

async function entries(): Promise<Entry[]> {
  const path = '/platform/v1/organizations/{org_id}/audit-log'
  const url = `${api.url}${path.replace('{org_id}', api.orgId)}`
  return (await api.documented.call<Entry[]>('GET', path, url, { token: api.owner.token })).body
}

/** The audit entries of a piece of work, newest first. */
async function leftBy<T>(work: () => Promise<T>): Promise<{ left: Entry[]; result: T }> {
  const before = new Set((await entries()).map((entry) => entry.id))
  const result = await work()
  return { left: (await entries()).filter((entry) => !before.has(entry.id)), result }
}

const makeKey = (token = api.owner.token, name = 'audited') =>
  call<Made>(`${org()}/api-keys`, { token, body: { name } }).then((reply) => reply.body)
const makeHook = (token = api.owner.token) =>
  call<Made>(`${org()}/webhooks`, { token, body: hookBody }).then((reply) => reply.body)

const emailOfPerson = expect.stringMatching(/^person-\d+@example\.com$/)
const changes = changesOf(api)

beforeAll(() => preparePlatform(api))
// The databases of one test must not count towards the limit in the next.
afterEach(
  () => api.db`
  update keyhook.databases set status = 'deleted', deleted_at = now(), password_verifier = null where status <> 'deleted'`,
)

/** It is erased with the organization; the list of deletions says when. */
const endsTheLog = (path: string): boolean => path.endsWith('/organizations/:orgId/deletion')

test('every route that changes something names its audit action, and no read does', () => {
  // Changes outside of every organization, which have no audit log.
  const unaudited = ['users', 'tokens', 'tokens/:tokenId'].map((path) => `/operator/v1/${path}`)
  const isUnaudited = ({ path, needs, audit }: Route) =>
    audit === null && ((needs === 'operator' && unaudited.includes(path)) || endsTheLog(path))
  for (const route of routesOf(api)) {
    const changes = route.method !== 'GET' && !route.isRead && !isUnaudited(route)
    expect(route.audit !== null, `${route.method} ${route.path}`).toBe(changes)
  }
})

const takesLogin = ({ needs }: Route) => needs !== 'operator' && isRefusedToKeys(needs, { keysRequireLogin: false })

describe.each(['login', 'key'])('by %s', (kind) => {
  test('every route by which a member changes something writes exactly one entry: who, with what, from where, to what', async () => {
    const key = await makeKey()
    const token = kind === 'key' ? key.api_key : api.owner.token
    const credential = kind === 'key' ? key.id : jtiOf(api.owner.token)
    const names = { name: emailOfPerson, key_name: kind === 'key' ? `audited (${key.key_prefix}…)` : null }
    const actor = { kind, user_id: api.owner.userId, credential, address: '127.0.0.1', ...names }
    const changing = routesOf(api).filter((one) => one.audit !== null && one.needs !== 'operator')
    expect(changing.map((route) => `${route.method} ${route.path}`).sort()).toEqual(Object.keys(changes).sort())
    // Those that take a login token only write no entry for a key.
    for (const route of changing.filter((one) => kind === 'login' || !takesLogin(one))) {
      const change = await changes[`${route.method} ${route.path}`]!(token)
      const { left, result } = await leftBy(change)
      const { target, details } = result
      const entry = { action: route.audit, actor, target_id: target, target_name: expect.any(String), details }
      expect(left).toEqual([{ id: expect.any(String), at: expect.any(String), ...entry }])
    }
  })
})

test('an entry has details of what was created, and never its secret', async () => {
  const key = await leftBy(() => makeKey(api.owner.token, 'deploy'))
  expect(key.left[0]!.details).toEqual({ name: 'deploy', key_prefix: expect.stringMatching(/^kh_.{8}$/) })
  const hook = await leftBy(() => makeHook())
  expect(hook.left[0]!.details).toEqual({ url: hookBody.url, event_types: hookBody.event_types })
})

test('a refused request or one that changes nothing writes no entry', async () => {
  const key = await makeKey()
  const hook = await makeHook()
  await call(`${org()}/api-keys/${key.id}`, { token: api.owner.token, method: 'DELETE' })
  await call(`${org()}/webhooks/${hook.id}`, { token: api.owner.token, method: 'DELETE' })
  const member = await api.person([{ orgId: api.orgId, role: 'member' }])
  const { left } = await leftBy(async () => {
    await call(`${org()}/api-keys/${key.id}`, { token: api.owner.token, method: 'DELETE' })
    await call(`${org()}/webhooks/${hook.id}`, { token: api.owner.token, method: 'DELETE' })
    await call(`${org()}/api-keys`, { token: api.owner.token, body: { name: '' } })
    await call(`${org()}/webhooks`, { token: member.token, body: hookBody })
    await call(`${org()}/api-keys`, { token: 'garbage', body: { name: 'x' } })
    await setMember(api.db, testOperator, { orgId: api.orgId, userId: member.userId, role: 'member' })
  })
  expect(left).toEqual([])
})

test('of two concurrent revocations one writes the entry, and both are answered 204', async () => {
  const key = await makeKey()
  const revoke = () => call(`${org()}/api-keys/${key.id}`, { token: api.owner.token, method: 'DELETE' })
  const { left } = await leftBy(async () => {
    const replies = await Promise.all(Array.from({ length: 10 }, revoke))
    expect(replies.map((reply) => reply.status)).toEqual(Array(10).fill(204))
  })
  expect(left.map((entry) => entry.action)).toEqual(['key.revoked'])
})

test('members and users: adding, changing the role and removing each write an entry of the operator', async () => {
  const person = await api.person()
  const actor = { kind: 'operator', user_id: null, credential: null, address: null, name: null, key_name: null }
  const member = { orgId: api.orgId, userId: person.userId }
  const { left } = await leftBy(async () => {
    await setMember(api.db, testOperator, { ...member, role: 'member' })
    await setMember(api.db, testOperator, { ...member, role: 'admin' })
    await removeMember(api.db, testOperator, member)
    await setMember(api.db, testOperator, { ...member, role: 'owner' })
    await removeUser(api.db, testOperator, { userId: person.userId as UserId })
  })
  expect(left.map((entry) => entry.action).reverse()).toEqual([
    'member.added',
    'member.role_changed',
    'member.removed',
    'member.added',
    'user.removed',
  ])
  expect(left.map((entry) => [entry.actor, entry.target_id])).toEqual(Array(5).fill([actor, person.userId]))
  expect(left.at(-2)!.details).toEqual({ from: 'member', to: 'admin' })
})

test('reported events and paid invoices write entries of the operator, with the token id if there is one', async () => {
  const token = await api.operatorToken()
  const { orgId, db, owner } = api
  const event = { organization_id: orgId, type: 'backup.failed', data: {} }
  const usage = { orgId, userId: owner.userId, name: 'shop', from: '2020-09-30T22:00:00Z', to: '2020-10-01T00:00:00Z' }
  await recordUsage(db, usage)
  const billing = { db, prices: { currency: 'EUR', hourPriceMinor: 5 } }
  const { left, result } = await leftBy(async () => {
    const reported = await call<{ id: string }>(`${api.url}/operator/v1/events`, { token, body: event })
    const issued = await issueInvoice(billing, testOperator, { orgId, month: '2020-09' })
    const invoice = issued!.invoice.id
    await call(`${api.url}/operator/v1/invoices/${invoice}/pay`, { token, method: 'POST' })
    return { reported: reported.body.id, invoice }
  })
  const commandLine = { kind: 'operator', user_id: null, credential: null, address: null, name: null, key_name: null }
  const overHttp = { ...commandLine, credential: jtiOf(token), address: '127.0.0.1' }
  expect(left.reverse().map(({ action, actor, target_id, details }) => [action, actor, target_id, details])).toEqual([
    ['event.reported', overHttp, result.reported, { events: 1 }],
    ['invoice.issued', commandLine, result.invoice, { month: '2020-09', currency: 'EUR', total_minor: 10 }],
    ['invoice.paid', overHttp, result.invoice, { month: '2020-09' }],
  ])
})

describe('a change whose audit entry cannot be written does not happen', () => {
  test.each(Object.keys(changes))('%s', async (name) => {
    const change = await changes[name]!(api.owner.token)
    const before = [await countRows(api.db), await state()]
    await api.db.unsafe(`
      create function keyhook.refuse() returns trigger language plpgsql as $$ begin raise 'no more entries'; end $$;
      create trigger refuse before insert on keyhook.audit_entries execute function keyhook.refuse()`)
    try {
      await change()
      expect([await countRows(api.db), await state()]).toEqual(before)
    } finally {
      await api.db.unsafe('drop function keyhook.refuse cascade')
    }
  })

  test.each(Object.keys(changes))(
    '%s: nor does an entry stay behind when the change fails at the last moment',
    async (name) => {
      const change = await changes[name]!(api.owner.token)
      const before = [await countRows(api.db), await state()]
      // Fails when the transaction commits: an entry that was written outside of it would survive.
      const trigger = (table: string) => `
      create constraint trigger refuse after insert or update or delete on keyhook.${table}
      deferrable initially deferred for each row execute function keyhook.refuse()`
      await api.db.unsafe(`
      create function keyhook.refuse() returns trigger language plpgsql as $$ begin raise 'not today'; end $$;
      ${tables.map(trigger).join(';')}`)
      try {
        await change()
        expect([await countRows(api.db), await state()]).toEqual(before)
      } finally {
        await api.db.unsafe('drop function keyhook.refuse cascade')
      }
    },
  )

  const tables = [
    'organizations',
    'memberships',
    'invitations',
    'api_keys',
    'webhooks',
    'lanes',
    'events',
    'retries',
    'recoveries',
    'databases',
    'backups',
    'restores',
  ]

  const state = () => api.db`
    select (select count(*) from keyhook.api_keys where revoked_at is null) as active_keys,
      (select array_agg(name order by id) from keyhook.organizations) as names,
      (select array_agg(role order by user_id) from keyhook.memberships) as roles,
      (select array_agg(w order by id) from keyhook.webhooks w) as webhooks,
      (select array_agg(paused_until order by id) from keyhook.lanes) as pauses,
      (select array_agg(status order by id) from keyhook.databases) as databases,
      (select array_agg(status order by id) from keyhook.backups) as backups`
})

describe('the address', () => {
  const forwarded = async (environment: Record<string, string>, headers: Record<string, string>) => {
    const mine = await startApiForTest(environment)
    const id = await mine.organization()
    const { token } = await mine.person([{ orgId: id, role: 'owner' }])
    await call(`${mine.url}/api/v1/organizations/${id}/api-keys`, { token, body: { name: 'x' }, headers })
    const [row] = await mine.db`select address from keyhook.audit_entries where action = 'key.created'`
    return row?.address
  }
  const trusted = { KEYHOOK_TRUSTED_PROXIES: '127.0.0.1, 10.0.0.0/8' }

  test.each<[what: string, environment: Record<string, string>, header: string, address: string]>([
    ['X-Forwarded-For of a stranger is not believed', {}, '203.0.113.9', '127.0.0.1'],
    ['X-Forwarded-For of a trusted proxy is', trusted, '203.0.113.9', '203.0.113.9'],
    [
      'of a chain the last address that is not a trusted proxy counts',
      trusted,
      '192.0.2.1, 203.0.113.9, 10.1.2.3',
      '203.0.113.9',
    ],
    ['IPv6 is recorded as it is', trusted, '2001:db8::1', '2001:db8::1'],
    ['what is no address is not recorded', trusted, 'drop table, unknown', '127.0.0.1'],
    ['an empty header is none', trusted, '', '127.0.0.1'],
  ])('%s', async (_, environment, header, address) => {
    expect(await forwarded(environment, { 'x-forwarded-for': header })).toBe(address)
  })
})
