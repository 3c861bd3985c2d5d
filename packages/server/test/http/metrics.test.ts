import { expect, test } from 'vitest'
import type { Problem } from '../../src/http/problems.ts'
import { call } from '../kit/client.ts'
import { startApiForTest } from '../kit/installation.ts'
import { ownedApi } from '../kit/owned-api.ts'

const api = ownedApi()

test('without a token metrics are served to callers on this machine only, and not through a proxy', async () => {
  const reply = await call(`${api.url}/metrics`)
  expect(reply.status).toBe(200)
  expect(reply.text).toContain('keyhook_delivery_attempts_total')
  for (const headers of [{ 'x-forwarded-for': '8.8.8.8' }, { via: '1.1 proxy' }]) {
    expect((await call(`${api.url}/metrics`, { headers })).status).toBe(404)
  }
})

test('answers are counted by status, including errors', async () => {
  const counted = async () => {
    const { text } = await call(`${api.url}/metrics`)
    const rows = [...text.matchAll(/^keyhook_http_responses_total\{status="(\d+)"\} (\d+)$/gm)]
    return Object.fromEntries(rows.map(([, status, count]) => [status, Number(count)]))
  }
  const before = await counted()
  await call(`${api.url}/api/v1/organizations`, { token: api.owner.token })
  for (let i = 0; i < 2; i++) await call(`${api.url}/api/v1/organizations`)
  const after = await counted()
  expect(after['200']! - (before['200'] ?? 0)).toBe(1)
  expect(after['401']! - (before['401'] ?? 0)).toBe(2)
})

test('with a token set, metrics need that token', async () => {
  const guarded = await startApiForTest({ KEYHOOK_METRICS_TOKEN: 'a-token-of-more-than-16-characters' })
  const ask = (token?: string) => call(`${guarded.url}/metrics`, token === undefined ? {} : { token })
  const without = await ask()
  const { responses } = api.documented.document.paths['/metrics']!.get as { responses: Record<string, object> }
  for (const { body } of [without, await ask('x'.repeat(34))]) {
    expect(responses[401]).toMatchObject({ description: expect.stringContaining((body as Problem).code) })
  }
  // RFC 6750, 3.1: no error code for a request without credentials.
  expect([without.status, without.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="keyhook"'])
  const wrong = await ask('a-token-of-more-than-16-charactres')
  expect([wrong.status, wrong.headers.get('www-authenticate')]).toEqual([401, expect.stringContaining('invalid_token')])
  expect((await ask('a-token-of-more-than-16-characters')).status).toBe(200)
  for (const authorization of ['a-token-of-more-than-16-characters', 'Basic a-token-of-more-than-16-characters']) {
    const other = await call(`${guarded.url}/metrics`, { headers: { authorization } })
    expect([other.status, other.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="keyhook"'])
  }
})
