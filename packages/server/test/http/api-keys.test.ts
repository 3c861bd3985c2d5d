import { afterAll, beforeAll, expect, test } from 'vitest'
import type { OrgId } from '../../src/kernel/ids.ts'
import { call } from '../support/client.ts'
import { type Person, startApi, type TestApi } from '../support/installation.ts'

let api: TestApi
let orgId: OrgId
let owner: Person
let keys: string

beforeAll(async () => {
  api = await startApi()
  orgId = await api.organization()
  owner = await api.person([{ orgId, role: 'owner' }])
  keys = `${api.url}/api/v1/organizations/${orgId}/api-keys`
})
afterAll(() => api.close())

type Created = { id: string; name: string; key_prefix: string; api_key: string }

test('a created key has exactly four fields, and the key starts with its prefix', async () => {
  const created = await call<Created>(keys, { token: owner.token, body: { name: 'ci' } })
  expect(created.status).toBe(201)
  expect(Object.keys(created.body)).toEqual(['id', 'name', 'key_prefix', 'api_key'])
  expect(created.body.key_prefix).toMatch(/^kh_[0-9A-Za-z]{8}$/)
  expect(created.body.api_key).toMatch(new RegExp(`^${created.body.key_prefix}_[0-9A-Za-z]{32}$`))
  expect(created.headers.get('location')).toBe(new URL(`${keys}/${created.body.id}`).pathname)
})
