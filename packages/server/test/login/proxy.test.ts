import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { createServer, request as httpsRequest } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import type { OrgId } from '../../src/lib/ids.ts'
import { certificate } from '../delivery/support/receiver.ts'
import { startApi } from '../kit/installation.ts'
import { linkFor } from './browser.ts'

/*
 * The console behind a real proxy that ends TLS and adds a path. Cookies are kept as a browser keeps them.
 */

const prefix = '/db'
const page = '<!doctype html><script type="module" src="./assets/index-1a.js"></script>'

/** `keepsHost`: nginx does with `proxy_set_header Host $http_host`, and does not without. */
async function startProxy({ keepsHost }: { keepsHost: boolean }) {
  let target = new URL('http://127.0.0.1:1')
  const server = createServer(certificate('receiver'), (incoming, outgoing) => {
    if (!incoming.url!.startsWith(`${prefix}/`)) return outgoing.writeHead(404).end('not behind this proxy')
    const headers = {
      ...incoming.headers,
      host: keepsHost ? incoming.headers.host : target.host,
      'x-forwarded-proto': 'https',
      'x-forwarded-for': '198.51.100.7',
    }
    const path = incoming.url!.slice(prefix.length)
    const options = { host: target.hostname, port: target.port, path, method: incoming.method, headers }
    const upstream = httpRequest(options, (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(outgoing)
    })
    incoming.pipe(upstream)
  }).listen(0, '127.0.0.1')
  await new Promise((listening) => server.once('listening', listening))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}${prefix}`,
    leadTo(url: string) {
      target = new URL(url)
    },
  }
}

type Answer = { status: number; headers: IncomingHttpHeaders; text: string }

/** A browser with one page open. It sends cookies to the folder that they were set in (RFC 6265, 5.1.4), and to https alone. */
function createBrowser() {
  const jar: { name: string; value: string; folder: string }[] = []
  /** Every Set-Cookie. */
  const lines: string[] = []
  return {
    jar,
    lines,
    send(method: string, url: string, options: { body?: object; token?: string } = {}): Promise<Answer> {
      const { pathname, origin } = new URL(url)
      const cookie = jar
        .filter(({ folder }) => pathname === folder || pathname.startsWith(`${folder}/`))
        .map(({ name, value }) => `${name}=${value}`)
      const headers = {
        ...(method !== 'GET' && { origin, 'sec-fetch-site': 'same-origin' }),
        ...(options.body && { 'content-type': 'application/json' }),
        ...(options.token && { authorization: `Bearer ${options.token}` }),
        ...(cookie.length > 0 && { cookie: cookie.join('; ') }),
      }
      return new Promise((done, fail) => {
        const request = httpsRequest(url, { method, headers, rejectUnauthorized: false }, async (response) => {
          for (const line of response.headers['set-cookie'] ?? []) {
            const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
            lines.push(line)
            jar.splice(0)
            if (value !== '') jar.push({ name: name!, value: value!, folder: pathname.replace(/\/[^/]*$/, '') })
          }
          done({ status: response.statusCode!, headers: response.headers, text: await text(response) })
        })
        request.on('error', fail).end(options.body && JSON.stringify(options.body))
      })
    },
  }
}

async function start(keepsHost: boolean, environment: (url: string) => Record<string, string>) {
  const directory = await mkdtemp(join(tmpdir(), 'kh-test-console-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  await mkdir(join(directory, 'assets'))
  await writeFile(join(directory, 'index.html'), page)
  await writeFile(join(directory, 'assets/index-1a.js'), 'export {}')
  const proxy = await startProxy({ keepsHost })
  const api = await startApi(environment(proxy.url), undefined, directory)
  onTestFinished(() => api.close())
  proxy.leadTo(api.url)
  const orgId: OrgId = await api.organization()
  const { userId } = await api.person([{ orgId, role: 'owner' }])
  return { api, url: proxy.url, orgId, link: await linkFor(api, userId) }
}

test.each<[settings: string, keepsHost: boolean, environment: (url: string) => Record<string, string>]>([
  ['KEYHOOK_PUBLIC_URL, and a proxy that changes the host', false, (url) => ({ KEYHOOK_PUBLIC_URL: url })],
  ['KEYHOOK_PUBLIC_URL, and a proxy that keeps the host', true, (url) => ({ KEYHOOK_PUBLIC_URL: `${url}/` })],
  ['KEYHOOK_TRUSTED_PROXIES, and a proxy that keeps the host', true, () => ({ KEYHOOK_TRUSTED_PROXIES: '127.0.0.1' })],
])(
  'behind TLS and a path, somebody signs in, gets a token and signs out, with %s',
  async (_, keepsHost, environment) => {
    const { url, orgId, link } = await start(keepsHost, environment)
    const browser = createBrowser()

    const opened = await browser.send('GET', `${url}/console`)
    const folder = new URL(opened.headers.location!, `${url}/console`).href
    expect(folder).toBe(`${url}/console/`)
    const deep = `${folder}${orgId}/keys`
    const { status, text: shown } = await browser.send('GET', deep)
    expect(status).toBe(200)
    const script = new URL(/src="([^"]+)"/.exec(shown)![1]!, deep).href
    expect(script).toBe(`${folder}assets/index-1a.js`)
    expect((await browser.send('GET', script)).text).toBe('export {}')

    expect((await browser.send('POST', `${folder}session`, { body: { link } })).status).toBe(204)
    expect(browser.jar).toMatchObject([{ folder: `${prefix}/console` }])
    const answer = await browser.send('POST', `${folder}token`)
    expect([answer.status, answer.headers['cache-control']]).toEqual([200, 'no-store'])
    const { token } = JSON.parse(answer.text)
    const list = `${url}/api/v1/organizations`
    expect((await browser.send('GET', list, { token })).text).toContain(orgId)
    expect((await browser.send('GET', list)).status).toBe(401)

    expect((await browser.send('DELETE', `${folder}session`)).status).toBe(204)
    expect(browser.jar).toEqual([])
    expect((await browser.send('GET', list, { token })).status).toBe(401)
    // A Path would lack the prefix, of which the server knows nothing.
    expect(browser.lines).toHaveLength(2)
    for (const line of browser.lines) {
      expect(line).toMatch(/; HttpOnly; Secure; SameSite=Strict$/)
      expect(line).not.toMatch(/; (Path|Domain)/i)
    }
  },
)

test('a server that does not know its address says which setting is missing, and gives nothing', async () => {
  const { url, link } = await start(false, () => ({}))
  const browser = createBrowser()
  const refused = await browser.send('POST', `${url}/console/session`, { body: { link } })
  expect([refused.status, JSON.parse(refused.text).code]).toEqual([403, 'console.origin_refused'])
  expect(refused.text).toContain('KEYHOOK_PUBLIC_URL')
  expect(browser.jar).toEqual([])
})
