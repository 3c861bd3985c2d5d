import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { OrgId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { type Person, startApi, type TestApi } from '../kit/installation.ts'
import { createBrowser, linkFor, signIn, tokenOf } from './browser.ts'

let folder: string
let api: TestApi
let orgId: OrgId
let ada: Person

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'kh-test-console-'))
  await mkdir(join(folder, 'dist/assets'), { recursive: true })
  await writeFile(join(folder, 'dist/index.html'), '<!doctype html><script src="./assets/index.js"></script>')
  await writeFile(join(folder, 'dist/assets/index.js'), 'export {}')
  await writeFile(join(folder, 'secret.txt'), 'the secret')
  api = await startApi({}, undefined, join(folder, 'dist'))
  orgId = await api.organization()
  ada = await api.person([{ orgId, role: 'owner' }])
})
afterAll(async () => {
  await api.close()
  await rm(folder, { recursive: true })
})

/** The path exactly as it is given: `fetch` would normalise it. */
function readRaw(path: string): Promise<{ status: number; body: string; location: string | undefined }> {
  const { hostname, port } = new URL(api.url)
  return new Promise((done, fail) => {
    request({ hostname, port, path, method: 'GET' }, async (response) => {
      done({ status: response.statusCode!, body: await text(response), location: response.headers.location })
    })
      .on('error', fail)
      .end()
  })
}

test.each([
  '/console/../secret.txt',
  '/console/assets/../../secret.txt',
  '/console/assets/..%2f..%2fsecret.txt',
  '/console/assets/%2e%2e/%2e%2e/secret.txt',
  '/console/..%5csecret.txt',
  '/console//../secret.txt',
  '/console/assets/index.js%00.txt',
  '/console/%2e%2e%2fsecret.txt',
])('a path out of the folder of the console reads nothing: %s', async (path) => {
  const { status, body } = await readRaw(path)
  expect(body).not.toContain('the secret')
  // The page of the console, which knows no such place, or an error.
  expect([200, 400, 404]).toContain(status)
  if (status === 200) expect(body).toContain('<!doctype html>')
})

test.each([
  '//evil.example/console',
  '/console//evil.example',
  '/console/%2f%2fevil.example',
  '/console/\\evil.example',
])('no address redirects to another site: %s', async (path) => {
  const { location } = await readRaw(path)
  expect(location).toBeUndefined()
})

test('pages of other sites cannot accept an invitation, nor see it', async () => {
  const { body: made } = await call<{ link: string }>(`${api.url}/platform/v1/organizations/${orgId}/invitations`, {
    token: ada.token,
    body: { email: 'grace@example.com', role: 'member' },
  })
  const invitation = made.link.split('#')[1]!
  const grace = await api.person()
  const browser = await signIn(api, grace.userId)
  for (const path of ['/console/invitation', '/console/invitation-preview']) {
    for (const headers of [
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { 'sec-fetch-site': 'cross-site' },
    ]) {
      const reply = await browser.send('POST', path, { body: { invitation }, headers })
      expect([path, reply.status]).toEqual([path, 403])
    }
  }
  // It is as good as before.
  expect((await browser.send('POST', '/console/invitation', { body: { invitation } })).status).toBe(200)
})

test('of two cookies with the same name, one was planted by another host of the site: neither is used', async () => {
  const [mine, planted] = [await signIn(api, ada.userId), await signIn(api, (await api.person()).userId)]
  for (const cookie of [`${planted.cookie}; ${mine.cookie}`, `${mine.cookie}; ${planted.cookie}`]) {
    const reply = await createBrowser(api.url).send('POST', '/console/token', { headers: { cookie } })
    expect(reply.status).toBe(401)
  }
  expect((await tokenOf(mine)).status).toBe(200)
})

test('cookies and links that are no secrets are refused, whatever is in them', async () => {
  for (const value of ['', 'x', 'x'.repeat(4_000), '%00', '"', '../..', "' or 1=1 --"]) {
    const reply = await createBrowser(api.url).send('POST', '/console/token', {
      headers: { cookie: `keyhook_console=${value}` },
    })
    expect([value, reply.status]).toEqual([value, 401])
  }
  for (const link of ['', 'x', '\u0000', '\r\nSet-Cookie: a=b', 'x'.repeat(100)]) {
    const reply = await createBrowser(api.url).send('POST', '/console/session', { body: { link } })
    expect([link, reply.status, reply.headers.get('set-cookie')]).toEqual([link, 410, null])
  }
})

test('a link is not used up by a page of another site', async () => {
  const link = await linkFor(api, ada.userId)
  const evil = createBrowser(api.url, 'https://evil.example')
  expect((await evil.send('POST', '/console/session', { body: { link } })).status).toBe(403)
  expect((await createBrowser(api.url).send('POST', '/console/session', { body: { link } })).status).toBe(204)
})

test('nothing that holds a secret may be stored by a cache', async () => {
  const browser = await signIn(api, ada.userId)
  const replies = [
    await tokenOf(browser),
    await browser.send('POST', '/console/session', { body: { link: await linkFor(api, ada.userId) } }),
    await browser.send('GET', '/console/config.json'),
    await browser.send('GET', '/console/sign-in'),
    await browser.send('DELETE', '/console/session'),
  ]
  expect(replies.map(({ headers }) => headers.get('cache-control'))).toEqual(replies.map(() => 'no-store'))
})
