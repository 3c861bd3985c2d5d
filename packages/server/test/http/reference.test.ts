import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { OpenApi } from '../../src/http/openapi/openapi.ts'
import { readRegister } from '../../src/http/reference/register.ts'
import { call } from '../support/client.ts'
import { startApi, type TestApi } from '../support/installation.ts'

/*
 * The reference page: what a person reads before the first call.
 */

let api: TestApi
let document: OpenApi
let page: Awaited<ReturnType<typeof call>>

beforeAll(async () => {
  api = await startApi()
  document = (await call<OpenApi>(`${api.url}/openapi.json`)).body
  page = await call(`${api.url}/docs`)
})
afterAll(() => api.close())

type Sampled = { operationId: string; 'x-codeSamples': { source: string }[] }

const operations = (): [name: string, operation: Sampled][] =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([method]) => !method.startsWith('x-'))
      .map(([method, one]): [string, Sampled] => [`${method.toUpperCase()} ${path}`, one as unknown as Sampled]),
  )

const all = (pattern: RegExp): string[] => [...page.text.matchAll(pattern)].map(([, found]) => found!)
const unescaped = (html: string): string =>
  html
    .replace(/&quot;/g, '"')
    .replace(/&lt;/g, '<')
    .replace(/&gt;/g, '>')
    .replace(/&amp;/g, '&')

test('it is one page without scripts that loads nothing', () => {
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
  expect(page.text).not.toMatch(/<(script|link|img|iframe)|\bsrc=|url\(|@import/i)
})

test('the bare address leads to it', async () => {
  const reply = await fetch(`${api.url}/`, { redirect: 'manual' })
  expect([reply.status, reply.headers.get('location')]).toEqual([302, '/docs'])
})

test('it is well-formed', () => {
  const open: string[] = []
  for (const [, closing, tag, rest] of page.text.matchAll(/<(\/?)([a-z][a-z0-9]*)([^>]*)>/gi)) {
    if (['meta', 'br', 'wbr'].includes(tag!) || rest!.endsWith('/')) continue
    if (closing === '') open.push(tag!)
    else expect(open.pop(), `what </${tag}> closes`).toBe(tag)
  }
  expect(open).toEqual([])
})

test('every link leads to a place on the page, and every place has a name of its own', () => {
  const ids = all(/\bid="([^"]+)"/g)
  expect(new Set(ids).size).toBe(ids.length)
  const links = all(/\bhref="([^"]+)"/g).filter((link) => link !== '/openapi.json')
  expect(links.filter((link) => !link.startsWith('#') || !ids.includes(link.slice(1)))).toEqual([])
  for (const [name, { operationId }] of operations()) expect(ids, name).toContain(operationId)
  for (const type of Object.keys(document.webhooks)) expect(ids).toContain(`event-${type}`)
  for (const { number } of readRegister()) expect(ids).toContain(`decision-${number}`)
})

test('an operation that takes a body lists its fields', () => {
  const bodies = all(/<h4>Request body (.*?)<h4>/gs)
  expect(bodies.length).toBeGreaterThan(5)
  for (const html of bodies) expect(html).toContain('<tr><th><code>')
})

test('every operation has a line for curl', () => {
  const shown = all(/<pre[^>]*><code>([\s\S]*?)<\/code><\/pre>/g).map(unescaped)
  for (const [name, operation] of operations()) {
    const [{ source } = { source: '' }] = operation['x-codeSamples']
    expect(source, name).toMatch(/^curl /)
    expect(shown, name).toContain(source)
  }
})

test('a line that reports an event reports one of your organization, and nobody else’s', () => {
  const [, report] = operations().find(([name]) => name === 'POST /operator/v1/events')!
  expect(report['x-codeSamples'][0]!.source).toContain(`-d '{"organization_id":"'$ORG'",`)
})

const hasCurl = await promisify(execFile)('curl', ['--version']).then(
  () => true,
  () => false,
)
const variables = { organizations: 'ORG', 'api-keys': 'KEY_ID', webhooks: 'WEBHOOK' } as const

test.skipIf(!hasCurl)('the lines of the published interface work when they are pasted', async () => {
  const orgId = await api.organization()
  const { token } = await api.person([{ orgId, role: 'owner' }])
  const environment: Record<string, string> = { PATH: process.env.PATH!, KEYHOOK: api.url, TOKEN: token, ORG: orgId }
  const published = operations().filter(([name]) => name.includes('/api/v1/'))
  // What makes things comes before what needs them, and what removes them last.
  const order = ['POST', 'GET', 'DELETE']
  const rank = ([name]: [string, Sampled]) => order.indexOf(name.split(' ')[0]!)
  const statuses: Record<string, string> = {}
  for (const [name, operation] of published.sort((a, b) => rank(a) - rank(b))) {
    const line = `${operation['x-codeSamples'][0]!.source} -sS -w '\n%{http_code}'`
    const { stdout } = await promisify(execFile)('bash', ['-c', line], { env: environment })
    const [body, status] = [stdout.slice(0, stdout.lastIndexOf('\n')), stdout.slice(stdout.lastIndexOf('\n') + 1)]
    statuses[name] = status
    const made = /\/(api-keys|webhooks)$/.exec(name)
    if (name.startsWith('POST') && made) environment[variables[made[1] as 'webhooks']] = JSON.parse(body).id
  }
  const wanted = published.map(([name]) => [name, { POST: '201', GET: '200', DELETE: '204' }[name.split(' ')[0]!]])
  expect(statuses).toEqual(Object.fromEntries(wanted))
})
