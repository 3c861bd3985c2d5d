import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../kit/free-port.ts'
import { startApi, type TestApi } from '../kit/installation.ts'
import { linkFor } from '../login/browser.ts'
import { choosePorts, proxyPrograms, type RunningProxy, startProxy } from './proxy-programs.ts'

describe.each(proxyPrograms)('$title', (proxy) => {
  const guarded = test.skipIf(!proxy.installed)
  let [api, running] = [undefined as unknown as TestApi, undefined as unknown as RunningProxy]
  let [folder, url] = ['', '']

  beforeAll(async () => {
    if (!proxy.installed) return
    folder = await mkdtemp(join(tmpdir(), 'keyhook-console-'))
    await writeFile(join(folder, 'index.html'), '<!doctype html><title>Console</title>')
    const ports = await choosePorts()
    url = ports.url
    const settings = { KEYHOOK_TRUSTED_PROXIES: '127.0.0.1', KEYHOOK_PUBLIC_URL: url }
    api = await startApi(settings, undefined, folder)
    // Nothing listens on the second port, so every other request needs the second attempt.
    const keyhook = [Number(new URL(api.url).port), await freePort()] as const
    running = await startProxy(proxy, { ...ports, keyhook })
  })

  afterAll(async () => {
    await running?.stop()
    await api?.close()
    if (folder !== '') await rm(folder, { recursive: true, force: true })
  })

  const open: RunningProxy['open'] = (...args) => running.open(...args)
  const send: RunningProxy['send'] = (...args) => running.send(...args)

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
    const plain = await fetch(`http://localhost:${running.ports.http}/console/?a=1`, { redirect: 'manual' })
    expect([301, 308]).toContain(plain.status)
    expect(plain.headers.get('location')).toMatch(/^https:\/\/localhost(:\d+)?\/console\/\?a=1$/)
  })
})
