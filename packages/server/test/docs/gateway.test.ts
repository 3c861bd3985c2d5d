import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fastify from 'fastify'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { keyhook } from '../../../../examples/gateway/fastify-gateway.ts'
import { newId } from '../../src/kernel/ids.ts'
import { call } from '../support/client.ts'
import { ownedApi } from '../support/owned-api.ts'
import { sendRaw } from '../support/raw-http.ts'

/*
 * The gateways of examples/gateway, started as they are, in front of a product that repeats what it was sent.
 */

const api = ownedApi()
let operatorToken: string

beforeAll(async () => {
  operatorToken = await api.operatorToken()
})

async function newKey(): Promise<{ id: string; api_key: string }> {
  const url = `${api.url}/api/v1/organizations/${api.orgId}/api-keys`
  return (await call<{ id: string; api_key: string }>(url, { token: api.owner.token, body: { name: 'product' } })).body
}

const revoke = (id: string) =>
  call(`${api.url}/api/v1/organizations/${api.orgId}/api-keys/${id}`, { method: 'DELETE', token: api.owner.token })

describe('the Fastify plugin', () => {
  async function startGateway(url: string) {
    const app = fastify()
    await app.register(keyhook, {
      url,
      operatorToken,
      organizationOf: ({ params }) => (params as { org?: string }).org,
    })
    app.get('/organizations/:org/things', async ({ keyhook: caller }) => ({ role: caller!.role, key: caller!.key_id }))
    return { url: await app.listen({ host: '127.0.0.1', port: 0 }), close: () => app.close() }
  }

  test('lets a valid token in, and refuses a revoked one with the next request', async () => {
    const gateway = await startGateway(api.url)
    const key = await newKey()
    const ask = (org: string, token?: string) =>
      call(`${gateway.url}/organizations/${org}/things`, token === undefined ? {} : { token })
    expect(await ask(api.orgId, key.api_key)).toMatchObject({ status: 200, body: { role: 'owner', key: key.id } })
    expect((await ask(api.orgId)).status).toBe(401)
    expect((await ask(newId('org'), key.api_key)).status).toBe(401)
    expect((await ask('nonsense', key.api_key)).status).toBe(401)
    await revoke(key.id)
    expect((await ask(api.orgId, key.api_key)).status).toBe(401)
    await gateway.close()
  })

  test('answers 503 while Keyhook cannot be asked', async () => {
    const gateway = await startGateway('http://127.0.0.1:9')
    const { api_key: token } = await newKey()
    expect((await call(`${gateway.url}/organizations/${api.orgId}/things`, { token })).status).toBe(503)
    await gateway.close()
  })
})

const hasNginx = (() => {
  try {
    execFileSync('nginx', ['-v'], { stdio: 'ignore' })
    return true
  } catch {
    console.log('not run: the nginx example, because there is no nginx in PATH')
    return false
  }
})()

describe.skipIf(!hasNginx)('nginx with auth_request', () => {
  let folder: string
  let nginx: ChildProcess
  let url: string
  const product = createServer((request, response) => {
    response.end(JSON.stringify({ url: request.url, headers: request.headers }))
  })

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'keyhook-nginx-'))
    await once(product.listen(0, '127.0.0.1'), 'listening')
    const port = await freePort()
    url = `http://127.0.0.1:${port}`
    const example = await readFile(new URL('../../../../examples/gateway/nginx.conf', import.meta.url), 'utf8')
    const config = example
      .replace('127.0.0.1:8000', `127.0.0.1:${port}`)
      .replace('127.0.0.1:8080', new URL(api.url).host)
      .replace('127.0.0.1:3000', `127.0.0.1:${(product.address() as AddressInfo).port}`)
    await writeFile(join(folder, 'nginx.conf'), config)
    await writeFile(
      join(folder, 'operator-token.conf'),
      `proxy_set_header Authorization "Bearer ${operatorToken}";\n`,
      { mode: 0o600 },
    )
    nginx = spawn(
      'nginx',
      ['-p', folder, '-c', 'nginx.conf', '-e', 'stderr', '-g', 'daemon off; master_process off;'],
      {
        stdio: 'ignore',
      },
    )
    await vi.waitUntil(
      () =>
        fetch(url)
          .then(() => true)
          .catch(() => false),
      { timeout: 20_000 },
    )
  })

  afterAll(async () => {
    const ended = once(nginx, 'exit')
    nginx.kill('SIGQUIT')
    await ended
    product.closeAllConnections()
    product.close()
    await rm(folder, { recursive: true, force: true })
  })

  type Seen = { url: string; headers: Record<string, string> }
  const at = (path = 'things?a=1', org: string = api.orgId) => `${url}/organizations/${org}/${path}`

  test('passes a request on with who it is, and without the key', async () => {
    const key = await newKey()
    const reply = await fetch(at(), {
      method: 'POST',
      body: 'something',
      headers: { authorization: `Bearer ${key.api_key}`, 'x-keyhook-role': 'root', 'x-keyhook-user': 'usr_forged' },
    })
    const seen = (await reply.json()) as Seen
    expect(seen.url).toBe(`/organizations/${api.orgId}/things?a=1`)
    expect(seen.headers).toMatchObject({
      'x-keyhook-user': api.owner.userId,
      'x-keyhook-organization': api.orgId,
      'x-keyhook-role': 'owner',
      'x-keyhook-key': key.id,
      'x-keyhook-token-type': 'api_key',
    })
    expect(seen.headers.authorization).toBeUndefined()
    await revoke(key.id)
    expect((await call(at(), { token: key.api_key })).status).toBe(401)
  })

  test('refuses a missing token, one in another header, and another organization', async () => {
    const { api_key: token } = await newKey()
    const missing = await call(at())
    expect(missing.status).toBe(401)
    expect(missing.headers.get('www-authenticate')).toContain('Bearer')
    expect((await call(at(), { headers: { 'x-original-authorization': `Bearer ${token}` } })).status).toBe(401)
    expect((await call(at('things', await api.organization('Other')), { token })).status).toBe(403)
  })

  test('refuses paths that could name another organization after decoding', async () => {
    const { api_key: token } = await newKey()
    const other = await api.organization('Target')
    for (const path of [
      `/organizations/${other}/../${api.orgId}/things`,
      `/organizations/${other}/%2e%2e/${api.orgId}/things`,
      `/organizations/${api.orgId}/..%2f${other}/things`,
      `/organizations/${api.orgId}%26permission=keys:read/things`,
      `/organizations/${api.orgId}%0d%0aX-Injected:%20yes/things`,
      `//organizations/${api.orgId}/things`,
      '/keyhook-authorize',
    ]) {
      const request = `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${token}\r\n\r\n`
      expect((await sendRaw(url, request)).status, path).toBe(404)
    }
  })
})

async function freePort(): Promise<number> {
  const server = createTcpServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}
