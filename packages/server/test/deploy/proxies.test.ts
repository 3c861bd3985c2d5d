import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { linkFor } from '../console/browser.ts'
import { hasProgram } from '../docs/gateway-program.ts'
import { freePort } from '../support/free-port.ts'
import { startApi, type TestApi } from '../support/installation.ts'
import { caFile, certificateFiles } from '../webhooks/support/receiver.ts'

/*
 * The samples of deploy/nginx and deploy/caddy, started in front of a real Keyhook. Only host name, ports and certificate files are
 * replaced. Debian has both programs.
 */

const sample = (name: string) => readFile(new URL(`../../../../deploy/${name}`, import.meta.url), 'utf8')
const files = certificateFiles('receiver')
type Ports = { http: number; https: number; keyhook: number }

/** What both samples name in the same words. */
const adapted = (text: string, ports: Ports) =>
  text
    .replaceAll('/etc/keyhook/tls/fullchain.pem', files.cert)
    .replaceAll('/etc/keyhook/tls/privkey.pem', files.key)
    .replaceAll(/(?<!\/\/)keyhook\.example\.com/g, 'localhost')
    .replaceAll('127.0.0.1:8080', `127.0.0.1:${ports.keyhook}`)

const nginx = {
  name: 'nginx',
  installed: hasProgram('nginx', '-v'),
  files: async (ports: Ports) => ({
    'keyhook.conf': adapted(await sample('nginx/keyhook.conf'), ports)
      .replace('listen 80;', `listen 127.0.0.1:${ports.http};`)
      .replace('listen 443 ssl http2;', `listen 127.0.0.1:${ports.https} ssl http2;`),
    'nginx.conf': `pid nginx.pid; error_log stderr; events {}
http { access_log off; ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((of) => `${of}_temp_path temp;`).join(' ')}
  include keyhook.conf; }`,
  }),
  command: ['nginx', '-p', '.', '-c', 'nginx.conf', '-e', 'stderr', '-g', 'daemon off; master_process off;'],
  stopSignal: 'SIGTERM',
} as const

const caddy = {
  name: 'Caddy',
  installed: hasProgram('caddy', 'version'),
  files: async (ports: Ports) => ({
    Caddyfile: adapted(await sample('caddy/Caddyfile'), ports).replace(
      'grace_period 10s',
      `grace_period 1s\n admin off\n default_bind 127.0.0.1\n http_port ${ports.http}\n https_port ${ports.https}`,
    ),
  }),
  command: ['caddy', 'run', '--config', 'Caddyfile', '--adapter', 'caddyfile'],
  stopSignal: 'SIGTERM',
} as const

const title = ({ name, installed }: typeof nginx | typeof caddy) =>
  installed ? `${name}, from its sample` : `${name}, from its sample (not run: it is not installed)`

describe.each([nginx, caddy].map((proxy) => ({ ...proxy, title: title(proxy) })))('$title', (proxy) => {
  const guarded = test.skipIf(!proxy.installed)
  let [api, folder, url] = [undefined as unknown as TestApi, '', '']
  let ports: Ports
  let stop = async () => {}

  beforeAll(async () => {
    if (!proxy.installed) return
    folder = await mkdtemp(join(tmpdir(), 'keyhook-proxy-'))
    await mkdir(join(folder, 'console'))
    await writeFile(join(folder, 'console/index.html'), '<!doctype html><title>Console</title>')
    const [http, https] = [await freePort(), await freePort()]
    url = `https://localhost:${https}`
    const settings = { KEYHOOK_TRUSTED_PROXIES: '127.0.0.1', KEYHOOK_PUBLIC_URL: url }
    api = await startApi(settings, undefined, join(folder, 'console'))
    ports = { http, https, keyhook: Number(new URL(api.url).port) }
    for (const [name, content] of Object.entries(await proxy.files(ports))) await writeFile(join(folder, name), content)
    const [program, ...args] = proxy.command
    const env = { PATH: process.env.PATH, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
    const child = spawn(program, args, { cwd: folder, env, stdio: ['ignore', 'ignore', 'pipe'] })
    let problems = ''
    child.stderr.setEncoding('utf8').on('data', (chunk) => {
      problems += chunk
    })
    const ended = once(child, 'exit')
    stop = async () => {
      child.kill(proxy.stopSignal)
      await ended
    }
    await vi.waitUntil(
      async () => {
        if (child.exitCode !== null) throw new Error(problems)
        return send('GET', '/readyz').then(
          ({ status }) => status === 200,
          () => false,
        )
      },
      { timeout: 60_000, interval: 100 },
    )
  })

  afterAll(async () => {
    await stop()
    await api?.close()
    if (folder !== '') await rm(folder, { recursive: true, force: true })
  })

  type Sent = { body?: unknown; token?: string; from?: string; headers?: Record<string, string> }

  /** A request to the proxy with a verified certificate, from an address of loopback. */
  const open = (method: string, path: string, { body, token, from = '127.0.0.1', headers }: Sent = {}) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      const sent = body === undefined ? undefined : JSON.stringify(body)
      const options = {
        method,
        path,
        host: '127.0.0.1',
        port: new URL(url).port,
        servername: 'localhost',
        ca: ca,
        localAddress: from,
        agent: false,
        headers: {
          host: new URL(url).host,
          ...(sent !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(sent) }),
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
          ...headers,
        },
      } as const
      request(options, resolve).on('error', reject).end(sent)
    })

  const send = async (method: string, path: string, sent: Sent = {}) => {
    const response = await open(method, path, sent)
    return { status: response.statusCode!, headers: response.headers, text: await text(response) }
  }

  const owner = async () => {
    const orgId = await api.organization()
    return { orgId, ...(await api.person([{ orgId, role: 'owner' }])) }
  }

  guarded(
    'a key is created and used, and the audit log has the address of the caller, whatever it claims',
    async () => {
      const { orgId, token } = await owner()
      const forged = { 'x-forwarded-for': '198.51.100.7', forwarded: 'for=198.51.100.7', 'x-real-ip': '198.51.100.7' }
      const made = await send('POST', `/api/v1/organizations/${orgId}/api-keys`, {
        token,
        body: { name: 'ci' },
        from: '127.0.0.5',
        headers: forged,
      })
      expect(made.status).toBe(201)
      const { api_key } = JSON.parse(made.text)
      expect((await send('GET', '/api/v1/organizations', { token: api_key })).text).toContain(orgId)
      const audit = await send('GET', `/platform/v1/organizations/${orgId}/audit-log`, { token })
      const entry = JSON.parse(audit.text).find((one: { action: string }) => one.action === 'key.created')
      expect(entry.actor.address).toBe('127.0.0.5')
    },
  )

  guarded('the console opens, and its cookie is Secure', async () => {
    const { userId } = await owner()
    const page = await send('GET', '/console/')
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('<title>Console</title>')])
    expect(page.headers['strict-transport-security']).toContain('max-age=')
    const body = { link: await linkFor(api, userId) }
    const headers = { origin: url, 'sec-fetch-site': 'same-origin' }
    const session = await send('POST', '/console/session', { body, headers })
    expect([session.status, session.headers['set-cookie']]).toEqual([204, [expect.stringMatching(/; Secure;/)]])
    const evil = { origin: 'https://evil.example', 'x-forwarded-host': 'evil.example' }
    expect((await send('POST', '/console/session', { body, headers: evil })).status).toBe(403)
  })

  guarded('an event arrives on an open stream', async () => {
    const { orgId, token } = await owner()
    const stream = await open('GET', `/platform/v1/organizations/${orgId}/events/stream`, { token })
    expect(stream.statusCode).toBe(200)
    let seen = ''
    stream.setEncoding('utf8').on('data', (chunk) => {
      seen += chunk
    })
    const event = { organization_id: orgId, type: 'invoice.paid', id: 'invoice-1', data: { invoice: '1' } }
    const operator = await api.operatorToken()
    expect((await send('POST', '/operator/v1/events', { token: operator, body: event })).status).toBe(202)
    await expect.poll(() => seen).toContain('invoice-1')
    stream.destroy()
  })

  guarded('large reports of events pass, and Keyhook itself refuses other bodies that are too large', async () => {
    const { orgId, token } = await owner()
    const operator = await api.operatorToken()
    const event = (id: string) => ({
      organization_id: orgId,
      type: 'invoice.paid',
      id,
      data: { a: 'x'.repeat(60_000) },
    })
    const many = Array.from({ length: 40 }, (_, i) => event(`big-${i}`))
    expect((await send('POST', '/operator/v1/events', { token: operator, body: many })).status).toBe(202)
    const path = `/api/v1/organizations/${orgId}/api-keys`
    const refused = await send('POST', path, { token, body: { name: 'x'.repeat(70_000) } })
    expect([refused.status, JSON.parse(refused.text).code]).toEqual([413, 'request.too_large'])
  })

  guarded('strangers do not reach /operator and /metrics, and http leads to https', async () => {
    const token = await api.operatorToken()
    for (const path of [
      '/operator/v1/organizations',
      '//operator/v1/organizations',
      '/api/../operator/v1/organizations',
    ]) {
      expect((await send('GET', path, { token, from: '127.0.0.5' })).status, path).toBe(403)
    }
    expect((await send('GET', '/operator/v1/organizations', { token })).status).toBe(200)
    expect((await send('GET', '/metrics')).status).toBe(404)
    const plain = await fetch(`http://localhost:${ports.http}/console/?a=1`, { redirect: 'manual' })
    expect([301, 308]).toContain(plain.status)
    expect(plain.headers.get('location')).toMatch(/^https:\/\/localhost(:\d+)?\/console\/\?a=1$/)
  })
})

const ca = await readFile(caFile)
