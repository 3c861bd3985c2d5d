import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createSchemaCache } from '../../src/delivery/event-declarations.ts'
import { disableOptionalTypes, enableOptionalTypes } from '../../src/delivery/event-types.ts'
import { optionalDeclaration, optionalTypes } from '../../src/delivery/optional-types.ts'
import type { OrgId } from '../../src/lib/ids.ts'
import { removeMember } from '../../src/organizations/rules.ts'
import { call } from '../kit/client.ts'
import { type Person, startApi, type TestApi, testOperator } from '../kit/installation.ts'

let api: TestApi
let orgId: OrgId
let owner: Person
beforeAll(async () => {
  api = await startApi()
})
afterAll(() => api.close())
beforeEach(async () => {
  orgId = await api.organization()
  owner = await api.person([{ orgId, role: 'owner' }])
})

type Created = { id: string; name: string; key_prefix: string; api_key: string }
const published = (path: string) => `${api.url}/api/v1/organizations/${orgId}/${path}`
const platform = (path: string) => `${api.url}/platform/v1/organizations/${orgId}/${path}`

const create = async (token: string, body: object = { name: 'ci' }) =>
  (await call<Created>(published('api-keys'), { token, body })).body

/** What was published, in order. */
async function events(): Promise<{ type: string; data: Record<string, unknown> }[]> {
  const rows = await api.db<{ type: string; body: string }[]>`
    select type, body from keyhook.events where org_id = ${orgId} order by seq`
  return rows.map(({ type, body }) => ({ type, data: JSON.parse(body).data }))
}

const named = ({ id, name, key_prefix }: Created) => ({ api_key_id: id, name, key_prefix })

test('no event of an optional type is published, and no webhook can have it, until it is enabled', async () => {
  const key = await create(owner.token)
  await call(published(`api-keys/${key.id}`), { token: owner.token, method: 'DELETE' })
  expect(await events()).toEqual([])
  const body = { url: 'https://example.com/', event_types: ['key.created'] }
  expect((await call(published('webhooks'), { token: owner.token, body })).status).toBe(422)
})

test('the example of every optional type is valid by its schema', () => {
  const validatorOf = createSchemaCache()
  for (const type of optionalTypes) {
    const { schema, example } = optionalDeclaration(type)
    const validate = validatorOf(schema)
    expect(validate(JSON.parse(example)), type).toBe(true)
    expect(validate({}), type).toBe(false)
  }
})

describe('while they are enabled', () => {
  beforeAll(() => enableOptionalTypes(api.db, optionalTypes))
  afterAll(() => disableOptionalTypes(api.db, optionalTypes, { force: true }))

  test('webhooks, test events, the list of types and the API document have them', async () => {
    const body = { url: 'https://example.com/', event_types: ['key.revoked'] }
    const { status, body: webhook } = await call<{ id: string }>(published('webhooks'), { token: owner.token, body })
    expect(status).toBe(201)
    const sample = { token: owner.token, body: { event_type: 'key.revoked' } }
    expect((await call(platform(`webhooks/${webhook.id}/test`), sample)).status).toBe(202)
    const list = await call<{ name: string }[]>(platform('event-types'), { token: owner.token })
    expect(list.body.map(({ name }) => name)).toEqual(expect.arrayContaining([...optionalTypes]))
    const document = await call<{ webhooks: object }>(`${api.url}/openapi.json`)
    expect(document.body.webhooks).toMatchObject({ 'key.revoked': { post: { 'x-decision': 176 } } })
    const key = await create(owner.token)
    await call(published(`api-keys/${key.id}`), { token: owner.token, method: 'DELETE' })
    const [delivery] = await api.db<{ type: string }[]>`
      select e.type from keyhook.deliveries d join keyhook.events e on e.org_id = d.org_id and e.seq = d.event_seq
      where d.org_id = ${orgId} and not e.sample`
    expect(delivery).toEqual({ type: 'key.revoked' })
  })

  test('a key that is created publishes key.created, without the key', async () => {
    const first = await create(owner.token)
    const expires_at = new Date(Date.now() + 3_600_000).toISOString()
    const made = await call<Created>(platform('api-keys'), { token: first.api_key, body: { name: 'two', expires_at } })
    expect(await events()).toEqual([
      {
        type: 'key.created',
        data: { ...named(first), created_by: owner.userId, created_by_key: null, expires_at: null },
      },
      {
        type: 'key.created',
        data: { ...named(made.body), created_by: owner.userId, created_by_key: first.id, expires_at },
      },
    ])
    const bodies = JSON.stringify(await events())
    expect(bodies).not.toContain(first.api_key.slice(-32))
  })

  test('every way of revoking a key publishes key.revoked once, with the reason', async () => {
    const revoked = async () => (await events()).filter(({ type }) => type === 'key.revoked').map(({ data }) => data)
    const alone = await create(owner.token)
    for (let i = 0; i < 2; i++) {
      await call(published(`api-keys/${alone.id}`), { token: owner.token, method: 'DELETE' })
    }
    expect(await revoked()).toEqual([{ ...named(alone), reason: 'revoked' }])

    const root = await create(owner.token)
    const child = await create(root.api_key, { name: 'child' })
    for (let i = 0; i < 2; i++)
      await call(platform(`api-keys/${root.id}/revoke`), { token: owner.token, method: 'POST' })
    expect((await revoked()).slice(1)).toEqual([
      { ...named(root), reason: 'revoked' },
      { ...named(child), reason: 'creator_revoked' },
    ])

    const old = await create(owner.token)
    await call(platform(`api-keys/${old.id}/rotate`), { token: owner.token, body: { overlap_seconds: 0 } })
    expect((await revoked()).slice(3)).toEqual([{ ...named(old), reason: 'rotated' }])

    const members = [await api.person([{ orgId, role: 'member' }]), await api.person([{ orgId, role: 'member' }])]
    const keys = [await create(members[0]!.token), await create(members[1]!.token)]
    await removeMember(api.db, testOperator, { orgId, userId: members[0]!.userId, revokesKeys: true })
    await call(platform(`members/${members[1]!.userId}?revoke_keys=true`), { token: owner.token, method: 'DELETE' })
    expect((await revoked()).slice(4)).toEqual(keys.map((key) => ({ ...named(key), reason: 'member_removed' })))
  })

  test('a change that is rolled back publishes nothing', async () => {
    const key = await create(owner.token)
    const before = await events()
    await expect(
      removeMember(api.db, testOperator, { orgId, userId: (await api.person()).userId, revokesKeys: true }),
    ).rejects.toThrow('not a member')
    const body = { expires_at: new Date(Date.now() - 1_000).toISOString() }
    expect((await call(platform(`api-keys/${key.id}/rotate`), { token: owner.token, body })).status).toBe(422)
    expect(await events()).toEqual(before)
  })
})
