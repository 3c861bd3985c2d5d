import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { guidePath, guides } from '../../src/http/guides.ts'
import { call } from '../kit/client.ts'
import { startApi, type TestApi } from '../kit/installation.ts'

/*
 * The API reference at /docs: Scalar, served from our own origin.
 */

let api: TestApi
let page: Awaited<ReturnType<typeof call>>

beforeAll(async () => {
  api = await startApi()
  page = await call(`${api.url}/docs`)
})
afterAll(() => api.close())

const scriptUrl = () => `${api.url}/${/<script src="([^"]+)"/.exec(page.text)![1]!}`
const inlineScript = () => /<script>(.*?)<\/script>/s.exec(page.text)![1]!
const settings = () => JSON.parse(/\.\.\.(\{.*\}), servers \}/.exec(inlineScript())![1]!)
const directives = () =>
  Object.fromEntries(
    page.headers
      .get('content-security-policy')!
      .split('; ')
      .map((one): [string, string] => [one.slice(0, one.indexOf(' ')), one.slice(one.indexOf(' ') + 1)]),
  )

test('the bare address redirects to the page', async () => {
  const reply = await fetch(`${api.url}/`, { redirect: 'manual' })
  expect([reply.status, reply.headers.get('location')]).toEqual([302, 'docs'])
})

test('the page is HTML that no cache keeps', () => {
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
  expect(page.headers.get('cache-control')).toBe('no-store')
  expect(page.headers.get('x-content-type-options')).toBe('nosniff')
})

test('its policy allows scripts and requests of this origin and the one inline script, and nothing else', () => {
  const hash = createHash('sha256').update(inlineScript()).digest('base64')
  expect(directives()).toEqual({
    'default-src': "'none'",
    'script-src': `'self' 'sha256-${hash}'`,
    'style-src': "'unsafe-inline'",
    'img-src': "'self' data:",
    'connect-src': "'self'",
    'base-uri': "'none'",
    'form-action': "'none'",
    'frame-ancestors': "'none'",
  })
})

test('neither the page nor its settings name another host', () => {
  expect(page.text).not.toMatch(/https?:|["'(]\/\//)
})

test('fonts, telemetry, the client app, the agent and MCP of Scalar are off', () => {
  expect(settings()).toMatchObject({
    withDefaultFonts: false,
    telemetry: false,
    hideClientButton: true,
    showDeveloperTools: 'never',
    agent: { disabled: true },
    mcp: { disabled: true },
  })
  expect(settings()).not.toHaveProperty('proxyUrl')
})

test('behind a proxy that adds a path, all links of the page and of the document are below that path', async () => {
  const { info } = (await call<{ info: { description: string } }>(`${api.url}/openapi.json`)).body
  const named = [
    ...[...page.text.matchAll(/(?:href|src)="(?!data:)([^"]+)"/g)].map(([, path]) => path!),
    ...[...info.description.matchAll(/\]\(([^)]+)\)/g)].map(([, path]) => path!),
    settings().url,
  ]
  expect(named.length).toBeGreaterThan(2 * guides.length)
  const outside = 'https://example.com/keyhook/'
  expect(named.filter((path) => !new URL(path, `${outside}docs`).href.startsWith(outside))).toEqual([])
  expect(new URL(settings().url, `${outside}docs`).href).toBe(`${outside}openapi.json`)
})

test('the script is Scalar, and caches may keep it for ever', async () => {
  const reply = await fetch(scriptUrl())
  expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'text/javascript; charset=utf-8'])
  expect(reply.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
  expect(reply.headers.get('x-content-type-options')).toBe('nosniff')
  const script = await reply.text()
  expect(script.length).toBeGreaterThan(1_000_000)
  expect(script).toContain('createApiReference')
})

test('the script is sent compressed to those who accept it', async () => {
  const [zipped, plain] = await Promise.all(
    ['gzip, br', 'identity'].map((accepted) => fetch(scriptUrl(), { headers: { 'accept-encoding': accepted } })),
  )
  expect(zipped!.headers.get('content-encoding')).toBe('gzip')
  expect(Number(zipped!.headers.get('content-length'))).toBeLessThan(1_500_000)
  expect(plain!.headers.get('content-encoding')).toBeNull()
  expect(await zipped!.text()).toBe(await plain!.text())
})

test('the page has text before the script runs: every operation', async () => {
  const { paths } = (await call<{ paths: Record<string, object> }>(`${api.url}/openapi.json`)).body
  for (const path of Object.keys(paths)) expect(page.text).toContain(path)
  expect(page.text).toMatch(/<script src="[^"]+" defer>/)
})

test('a new version of the script has a new address', async () => {
  const etag = (await fetch(scriptUrl(), { method: 'HEAD' })).headers.get('etag')
  expect(etag).toMatch(/^W\/"[\w-]{16}"$/)
  expect(scriptUrl()).toBe(`${api.url}/docs/scalar.js?v=${JSON.parse(etag!.slice(2))}`)
})

test('a cache that has the script is answered 304 without a body', async () => {
  const etag = (await fetch(scriptUrl(), { method: 'HEAD' })).headers.get('etag')!
  for (const known of [etag, etag.slice(2), `"other", ${etag}`, '*']) {
    const reply = await fetch(scriptUrl(), { headers: { 'if-none-match': known } })
    expect([known, reply.status, await reply.text()]).toEqual([known, 304, ''])
    expect(reply.headers.get('etag')).toBe(etag)
  }
  const other = await fetch(scriptUrl(), { method: 'HEAD', headers: { 'if-none-match': '"other"' } })
  expect(other.status).toBe(200)
})

test('the reference starts with a request that runs once its two values are replaced', async () => {
  const { info } = (await call<{ info: { description: string } }>(`${api.url}/openapi.json`)).body
  const [first] = [...info.description.matchAll(/^(?:## (.+)|```sh\n([\s\S]*?)```)$/gm)]
  expect(first![1]).toBe('First request')
  const script = /```sh\n([\s\S]*?)```/.exec(info.description)![1]!
  const orgId = await api.organization('First')
  const { token } = await api.person([{ orgId, role: 'owner' }])
  const body = { name: 'first' }
  const made = await call<{ api_key: string }>(`${api.url}/api/v1/organizations/${orgId}/api-keys`, { token, body })
  const filled = script
    .replace(/^KEYHOOK_URL=\S+/m, `KEYHOOK_URL=${api.url}`)
    .replace("'your API key'", made.body.api_key)
  expect(filled).toContain(made.body.api_key)
  const { stdout } = await promisify(execFile)('sh', ['-c', filled.replace('curl ', 'curl -s ')])
  expect(JSON.parse(stdout)).toMatchObject([{ id: orgId, name: 'First' }])
})

test('the guides that the reference links to are served by this server, as the documents are', async () => {
  const { info } = (await call<{ info: { description: string } }>(`${api.url}/openapi.json`)).body
  const linked = [...info.description.matchAll(/\]\(\.(\/docs\/guides\/[^)]+)\)/g)].map(([, path]) => path!)
  expect(linked).toEqual(guides.map(guidePath))
  expect(linked).toContain('/docs/guides/receiving-webhooks.md')
  for (const path of linked) {
    expect(page.text).toContain(`<a href=".${path}">`)
    const reply = await call(api.url + path)
    expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'text/plain; charset=utf-8'])
    const file = new URL(`../../../../docs/${path.split('/').at(-1)}`, import.meta.url)
    expect(reply.text).toBe(await readFile(file, 'utf8'))
  }
})

test.each(['/docs', '/docs/scalar.js', '/docs/decisions', '/docs/guides/errors.md'])(
  'HEAD %s has the headers of GET',
  async (path) => {
    const [get, head] = await Promise.all([fetch(api.url + path), fetch(api.url + path, { method: 'HEAD' })])
    const ofConnection = ['connection', 'date', 'keep-alive']
    const headers = (reply: Response) => [...reply.headers].filter(([name]) => !ofConnection.includes(name))
    expect(headers(head)).toEqual(headers(get))
    expect(await head.text()).toBe('')
    await get.arrayBuffer()
  },
)

test('the register of decisions that the page links to is served as text', async () => {
  const reply = await call(`${api.url}/docs/decisions`)
  expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'text/plain; charset=utf-8'])
  expect(reply.text).toMatch(/^# What the interface leaves open\n[\s\S]*^# Records of our own decisions$/m)
})
