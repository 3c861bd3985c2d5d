import { connect } from 'node:net'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { eventTypes } from '../../src/delivery/events.ts'
import { labelProblem, webhookUrlProblem } from '../../src/lib/label.ts'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { sendRaw } from '../kit/raw-http.ts'

const api = ownedApi()

const runs = { numRuns: 150 }
const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string(),
  fc.constantFrom('', ' ', 'x'.repeat(255), '__proto__'),
)

/** Any JSON, and JSON that is almost valid. */
const keyBody = fc.oneof(
  fc.jsonValue(),
  fc.record({ name: fc.oneof(text, fc.jsonValue()) }),
  fc.dictionary(text, fc.jsonValue()),
)
const url = fc.oneof(
  fc.webUrl({ validSchemes: ['https', 'http'] }),
  text.map((rest) => `https://${rest}`),
  text,
)
const hookBody = fc.oneof(
  fc.jsonValue(),
  fc.record({
    url: fc.oneof(url, fc.jsonValue()),
    event_types: fc.oneof(fc.array(fc.oneof(fc.constantFrom(...eventTypes), text), { maxLength: 8 }), fc.jsonValue()),
  }),
)

test('for any JSON as a key, the answer is 201 or 4xx and only valid names are stored', async () => {
  await fc.assert(
    fc.asyncProperty(keyBody, async (body) => {
      const reply = await call(`${api.url}/api/v1/organizations/${api.orgId}/api-keys`, {
        token: api.owner.token,
        raw: JSON.stringify(body),
      })
      api.documented.check('POST', '/api/v1/organizations/{org_id}/api-keys', reply)
      expect([201, 400, 422]).toContain(reply.status)
    }),
    runs,
  )
  for (const { name } of await api.db<{ name: string }[]>`select name from keyhook.api_keys`) {
    expect(labelProblem(name)).toBeNull()
    expect([...name].length).toBeLessThanOrEqual(255)
  }
})

test('for any JSON as a webhook, the answer is 201 or 4xx and only valid webhooks are stored', async () => {
  await fc.assert(
    fc.asyncProperty(hookBody, async (body) => {
      const reply = await call(`${api.url}/api/v1/organizations/${api.orgId}/webhooks`, {
        token: api.owner.token,
        raw: JSON.stringify(body),
      })
      api.documented.check('POST', '/api/v1/organizations/{org_id}/webhooks', reply)
      expect([201, 400, 422]).toContain(reply.status)
    }),
    runs,
  )
  const rows = await api.db<{ url: string; event_types: string[] }[]>`select url, event_types from keyhook.webhooks`
  for (const row of rows) {
    expect(webhookUrlProblem(row.url)).toBeNull()
    expect(new URL(row.url).protocol).toBe('https:')
    expect(row.event_types.length).toBeGreaterThan(0)
    expect(new Set(row.event_types).size).toBe(row.event_types.length)
    for (const type of row.event_types) expect(eventTypes).toContain(type)
  }
})

test('for any bytes as a body, the answer is a problem or a key', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (raw) => {
      const reply = await call(`${api.url}/api/v1/organizations/${api.orgId}/api-keys`, { token: api.owner.token, raw })
      api.documented.check('POST', '/api/v1/organizations/{org_id}/api-keys', reply)
      expect([201, 400, 422]).toContain(reply.status)
    }),
    runs,
  )
})

const latin1 = (unit: fc.Arbitrary<number>) =>
  fc.array(unit, { maxLength: 120 }).map((codes) => String.fromCharCode(...codes))
const token = fc.oneof(
  latin1(fc.integer({ min: 0x20, max: 0xff })),
  fc.base64String(),
  fc.tuple(fc.base64String(), fc.base64String(), fc.base64String()).map((parts) => parts.join('.')),
  fc.jsonValue().map((claims) => `eyJhbGciOiJub25lIn0.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.`),
  fc.stringMatching(/^[a-z]{1,3}_[0-9A-Za-z]{8}_[0-9A-Za-z]{32}$/),
)

test('for any Authorization header, the answer is 401 and never 5xx', async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom('Bearer', 'bearer', '', 'Basic'), token, async (scheme, value) => {
      const request = `GET /api/v1/organizations HTTP/1.1\r\nHost: x\r\nAuthorization: ${scheme} ${value}\r\n\r\n`
      const reply = await sendRaw(api.url, Buffer.from(request, 'latin1'))
      expect([400, 401]).toContain(reply.status)
    }),
    runs,
  )
})

test('for any path, query and headers, the answer is never 5xx', async () => {
  const line = latin1(fc.integer({ min: 0x01, max: 0xff }))
  const asked = fc.oneof(line, fc.webPath(), fc.string().map(encodeURIComponent))
  await fc.assert(
    fc.asyncProperty(asked, line, line, async (rest, name, value) => {
      const path = `/api/v1/organizations/${api.orgId}/api-keys${rest}`
      const request = `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${api.owner.token}\r\n${name}: ${value}\r\n\r\n`
      const reply = await sendRaw(api.url, Buffer.from(request, 'latin1'), { halfClose: true })
      expect(reply.status).toBeLessThan(500)
    }),
    runs,
  )
})

/** Valid requests, malformed ones, and those that Node handles itself, in any order on one connection. */
const said = fc.constantFrom(
  (head: string) => `GET /readyz HTTP/1.1\r\n${head}\r\n`,
  (head: string) => `GET /api/v1/organizations HTTP/1.1\r\n${head}\r\n`,
  (head: string) => `HEAD /docs HTTP/1.1\r\n${head}\r\n`,
  (head: string) => `GET /readyz HTTP/1.1\r\n${head}Expect: miracles\r\n\r\n`,
  (head: string) => `PUT /readyz HTTP/1.1\r\n${head}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}`,
  (head: string) => `POST /api/v1/organizations HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\n\r\nzz\r\n`,
  (head: string) => `GET /readyz HTTP/1.1\r\n${head}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
  (head: string) => `CONNECT example.com:443 HTTP/1.1\r\n${head}\r\n`,
  () => 'not HTTP\r\n\r\n',
  () => 'GET /',
)

test('after any bytes on a connection, however it ends, the server answers the next one', async () => {
  const { hostname, port } = new URL(api.url)
  await fc.assert(
    fc.asyncProperty(fc.array(said, { minLength: 1, maxLength: 6 }), fc.boolean(), async (parts, reset) => {
      const socket = connect(Number(port), hostname)
      const closed = new Promise((resolve) => socket.once('close', resolve))
      socket.on('error', () => {})
      socket.resume()
      socket.write(parts.map((part) => part(`Host: x\r\nAuthorization: Bearer ${api.owner.token}\r\n`)).join(''))
      if (reset) socket.once('data', () => socket.resetAndDestroy())
      socket.end()
      await closed
      expect((await call(`${api.url}/healthz`)).status).toBe(200)
    }),
    { numRuns: 100 },
  )
})
