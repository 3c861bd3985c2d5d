import { mkdir, mkdtemp, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { call } from '../kit/client.ts'
import { startApi, startApiForTest, type TestApi } from '../kit/installation.ts'

const page =
  '<!doctype html><link rel="icon" href="./icon.svg"><script type="module" src="./assets/index-1a.js"></script>'
const script = `export const text = ${JSON.stringify('x'.repeat(5_000))}`

let directory: string
let api: TestApi

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'kh-test-console-'))
  await mkdir(join(directory, 'assets'))
  await writeFile(join(directory, 'index.html'), page)
  await writeFile(join(directory, 'icon.svg'), '<svg/>')
  await writeFile(join(directory, 'assets/index-1a.js'), script)
  api = await startApi({}, undefined, directory)
})
afterAll(async () => {
  await api.close()
  await rm(directory, { recursive: true })
})

const read = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${api.url}${path}`, { redirect: 'manual', headers })

test('/console redirects to the folder, relative to where the browser is', async () => {
  const reply = await read('/console')
  expect([reply.status, reply.headers.get('location')]).toEqual([302, 'console/'])
})

test.each([
  ['/console/', './'],
  ['/console/webhooks?limit=5', './'],
  ['/console/webhooks/wh_1', '../'],
  ['/console/webhooks/wh_1/deliveries/dlv_1', '../../../'],
])('%s is the page, which finds its files under any prefix', async (path, up) => {
  const reply = await read(path)
  expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
  expect(await reply.text()).toBe(page.replaceAll('="./', `="${up}`))
  // As a browser behind a proxy with a prefix resolves it.
  const src = new URL(`${up}assets/index-1a.js`, `https://example.com/prefix${path}`)
  expect(src.pathname).toBe('/prefix/console/assets/index-1a.js')
  expect(reply.headers.get('cache-control')).toBe('no-store')
})

test('the page allows nothing inline and nothing of another origin', async () => {
  const { headers } = await read('/console/keys')
  expect(headers.get('content-security-policy')).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  )
  expect(headers.get('x-content-type-options')).toBe('nosniff')
  expect(headers.get('referrer-policy')).toBe('no-referrer')
})

test('scripts are compressed, and caches may keep them for ever', async () => {
  const reply = await read('/console/assets/index-1a.js', { 'accept-encoding': 'gzip' })
  expect(reply.headers.get('content-encoding')).toBe('gzip')
  expect(Number(reply.headers.get('content-length'))).toBeLessThan(200)
  expect(await reply.text()).toBe(script)
  expect(reply.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
  expect(reply.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
  const etag = reply.headers.get('etag')!
  expect((await read('/console/assets/index-1a.js', { 'if-none-match': etag })).status).toBe(304)
  expect(await (await read('/console/assets/index-1a.js', { 'accept-encoding': 'identity' })).text()).toBe(script)
})

test('nothing outside of the folder can be read, and a missing file is no page', async () => {
  for (const path of [
    '/console/assets/missing.js',
    '/console/assets/..%2f..%2f..%2fetc/passwd',
    '/console/assets/%2e%2e/%2e%2e/package.json',
  ]) {
    const text = await (await read(path)).text()
    expect(text).not.toMatch(/root:|"dependencies"/)
  }
  expect((await read('/console/assets/missing.js')).status).toBe(404)
})

test('a console that is built again is served without a restart', async () => {
  const index = join(directory, 'index.html')
  await writeFile(index, `${page}<p>new</p>`)
  await utimes(index, new Date(), new Date(Date.now() + 5_000))
  expect(await (await read('/console/')).text()).toContain('<p>new</p>')
})

test('without a built console its pages are 404, and everything else works', async () => {
  const without = await startApiForTest()
  expect((await call(`${without.url}/console/`)).status).toBe(404)
  expect((await call(`${without.url}/healthz`)).status).toBe(200)
})
