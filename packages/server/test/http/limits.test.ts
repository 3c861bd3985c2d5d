import { expect, test } from 'vitest'
import { call } from '../kit/client.ts'
import { readDocumented } from '../kit/documented.ts'
import { startApiForTest } from '../kit/installation.ts'

const limits = { KEYHOOK_KEYS_PER_ORG_MAX: '3', KEYHOOK_WEBHOOKS_PER_ORG_MAX: '3', KEYHOOK_REQUEST_BYTES_MAX: '2048' }

test.each([
  ['api-keys', { name: 'x' }],
  ['webhooks', { url: 'https://example.com/', event_types: ['invoice.paid'] }],
])(
  '%s: concurrent requests create exactly as many as the limit allows, and removing one frees a place',
  async (path, body) => {
    const api = await startApiForTest(limits)
    const documented = await readDocumented(api.url)
    const orgId = await api.organization()
    const { token } = await api.person([{ orgId, role: 'owner' }])
    const list = `${api.url}/api/v1/organizations/${orgId}/${path}`
    const replies = await Promise.all(
      Array.from({ length: 12 }, () => call<{ id: string; code: string }>(list, { token, body })),
    )
    for (const reply of replies) documented.check('POST', `/api/v1/organizations/{org_id}/${path}`, reply)
    const made = replies.filter((reply) => reply.status === 201)
    const refused = replies.filter((reply) => reply.status !== 201)
    expect(made).toHaveLength(3)
    expect(new Set(refused.map((reply) => `${reply.status} ${reply.body.code}`))).toEqual(
      new Set(['422 limit.reached']),
    )

    await call(`${list}/${made[0]!.body.id}`, { token, method: 'DELETE' })
    expect((await call(list, { token, body })).status).toBe(201)
    expect((await call(list, { token, body })).status).toBe(422)
  },
)

test('limits are counted per organization', async () => {
  const api = await startApiForTest(limits)
  for (let i = 0; i < 2; i++) {
    const orgId = await api.organization()
    const { token } = await api.person([{ orgId, role: 'owner' }])
    const list = `${api.url}/api/v1/organizations/${orgId}/api-keys`
    for (let n = 0; n < 3; n++) expect((await call(list, { token, body: { name: 'x' } })).status).toBe(201)
  }
})

test('the maximum body size is a setting', async () => {
  const api = await startApiForTest(limits)
  const orgId = await api.organization()
  const { token } = await api.person([{ orgId, role: 'owner' }])
  const list = `${api.url}/api/v1/organizations/${orgId}/api-keys`
  expect((await call(list, { token, raw: '{"name":"x"}'.padEnd(2_048) })).status).toBe(201)
  expect((await call(list, { token, raw: '{"name":"x"}'.padEnd(2_049) })).status).toBe(413)
})

test('the tag of new keys is a setting, and keys with an older tag keep working', async () => {
  const api = await startApiForTest({ KEYHOOK_KEY_TAG: 'acme' })
  const orgId = await api.organization()
  const { token } = await api.person([{ orgId, role: 'owner' }])
  const made = await call<{ api_key: string }>(`${api.url}/api/v1/organizations/${orgId}/api-keys`, {
    token,
    body: { name: 'x' },
  })
  expect(made.body.api_key).toMatch(/^acme_[0-9A-Za-z]{8}_[0-9A-Za-z]{32}$/)
  const renamed = await startApiForTest({ KEYHOOK_KEY_TAG: 'other' })
  const theirs = await renamed.organization()
  const owner = await renamed.person([{ orgId: theirs, role: 'owner' }])
  await renamed.db`
    insert into keyhook.api_keys (org_id, id, name, key_prefix, hash, created_by, role)
    values (${theirs}, 'key_01h455vb4pex5vsknk084sn02q', 'old', ${made.body.api_key.slice(0, 13)},
      sha256(${made.body.api_key}::bytea), ${owner.userId}, 'owner')`
  expect((await call(`${renamed.url}/api/v1/organizations`, { token: made.body.api_key })).status).toBe(200)
})
