import { randomBytes } from 'node:crypto'
import { Agent, get } from 'node:http'
import { describe, expect, onTestFinished, test } from 'vitest'
import { newId, type OrgId, type UserId } from '../../src/lib/ids.ts'
import { removeMember, removeUser, setMember } from '../../src/organizations/rules.ts'
import { call } from '../kit/client.ts'
import { createInstallation, people, testOperator } from '../kit/installation.ts'
import { bridgeTo, serve } from '../kit/processes.ts'
import '../kit/server-limits.ts'
import { until } from '../kit/until.ts'

/*
 * Two server processes on one database. Clients send requests to both while their access is removed, through one of the nodes
 * or by the operator. A request that started after the change was answered must be refused.
 */

async function twoNodes() {
  const masterKey = randomBytes(32).toString('base64')
  const installation = await createInstallation({ KEYHOOK_MASTER_KEY: masterKey })
  onTestFinished(() => installation.close())
  const { url } = await bridgeTo(installation.target)
  const environment = { DATABASE_URL: url, KEYHOOK_MASTER_KEY: masterKey, KEYHOOK_LOG_LEVEL: 'silent' }
  const nodes = await Promise.all([1, 2].map(() => serve(environment, ['--json', '--role', 'api'])))
  return { ...installation, ...people(installation), nodes: nodes.map((node) => node.url) }
}

type Installation = Awaited<ReturnType<typeof twoNodes>>
type Asked = { startedAt: number; status: number }

const agent = new Agent({ keepAlive: true, maxSockets: 64 })

/** The status of a GET, with as little work as possible. */
const statusOf = (url: string, token: string): Promise<number> =>
  new Promise((resolve, reject) => {
    get(url, { agent, headers: { authorization: `Bearer ${token}` } }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode!))
    }).on('error', reject)
  })

/** Sends requests to both nodes, several at a time, until stopped. */
function hammer(nodes: string[], path: string, token: string, at: number) {
  const asked: Asked[] = []
  let running = true
  const client = async (node: string) => {
    while (running) {
      const startedAt = performance.now()
      asked.push({ startedAt, status: await statusOf(node + path, token) })
    }
  }
  const clients = Array.from({ length: at }, (_, i) => client(nodes[i % nodes.length]!))
  return {
    asked,
    async stop() {
      running = false
      await Promise.all(clients)
    },
  }
}

type Victim = {
  orgId: OrgId
  userId: UserId
  token: string
  apiKey: string
  keyId: string
  operatorToken: string
  service: { userId: UserId; ownerToken: string }
  serviceKey: string
}

async function victim(installation: Installation): Promise<Victim> {
  const orgId = await installation.organization()
  const { userId, token } = await installation.person([{ orgId, role: 'admin' }])
  const made = await call<{ id: string; api_key: string }>(
    `${installation.nodes[0]}/api/v1/organizations/${orgId}/api-keys`,
    { token, body: { name: 'victim' } },
  )
  const operatorToken = await installation.operatorToken()
  const { service, serviceKey } = await serviceMember(installation, orgId)
  return { orgId, userId, token, apiKey: made.body.api_key, keyId: made.body.id, operatorToken, service, serviceKey }
}

async function serviceMember(installation: Installation, orgId: OrgId) {
  const { token } = await installation.person([{ orgId, role: 'owner' }])
  const url = `${installation.nodes[1]}/platform/v1/organizations/${orgId}/service-members`
  const made = await call<{ user_id: UserId }>(url, { token, body: { name: 'deploy', role: 'admin' } })
  const userId = made.body.user_id
  const key = await call<{ api_key: string }>(`${url}/${userId}/api-keys`, { token, body: { name: 'ci' } })
  return { service: { userId, ownerToken: token }, serviceKey: key.body.api_key }
}

type Change = {
  what: string
  credential: 'apiKey' | 'token' | 'operatorToken' | 'serviceKey'
  path(victim: Victim): string
  after: number
  apply(installation: Installation, victim: Victim, round: number): Promise<unknown>
}

const webhooks = (v: Victim) => `/api/v1/organizations/${v.orgId}/webhooks`
const auditLog = (v: Victim) => `/platform/v1/organizations/${v.orgId}/audit-log`

const changeKey = ({ nodes }: Installation, v: Victim, round: number, body: object) =>
  call(`${nodes[round % 2]}/platform/v1/organizations/${v.orgId}/api-keys/${v.keyId}`, {
    token: v.token,
    method: 'PATCH',
    body,
  })

const deleteOrganization = ({ nodes }: Installation, v: Victim, round: number) =>
  call(`${nodes[round % 2]}/platform/v1/organizations/${v.orgId}/deletion`, {
    token: v.service.ownerToken,
    body: { confirm: 'Acme' },
  })

const changes: Change[] = [
  {
    what: 'a key is limited to other permissions',
    credential: 'apiKey',
    path: webhooks,
    after: 403,
    apply: (installation, v, round) => changeKey(installation, v, round, { permissions: ['keys:read'] }),
  },
  {
    what: 'a key is limited to other networks',
    credential: 'apiKey',
    path: webhooks,
    after: 403,
    apply: (installation, v, round) => changeKey(installation, v, round, { allowed_networks: ['203.0.113.0/24'] }),
  },
  {
    what: 'a key is limited to some databases',
    credential: 'apiKey',
    path: webhooks,
    after: 403,
    apply: async (installation, v, round) => {
      const id = newId('db')
      await installation.db`
        insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
        values (${v.orgId}, ${id}, 'shop', 'available', 'of-no-machine', '127.0.0.1', 1, ${v.userId})`
      await changeKey(installation, v, round, { databases: [id] })
    },
  },
  {
    what: 'the end of a key comes',
    credential: 'apiKey',
    path: webhooks,
    after: 401,
    async apply(installation, v, round) {
      // The clock of PostgreSQL is that of this machine.
      const end = Date.now() + 300
      await changeKey(installation, v, round, { expires_at: new Date(end).toISOString() })
      await until(() => Date.now() >= end)
    },
  },
  {
    what: 'a key is rotated without an overlap',
    credential: 'apiKey',
    path: webhooks,
    after: 401,
    apply: ({ nodes }, v, round) =>
      call(`${nodes[round % 2]}/platform/v1/organizations/${v.orgId}/api-keys/${v.keyId}/rotate`, {
        token: v.token,
        body: { overlap_seconds: 0 },
      }),
  },
  {
    what: 'a key is revoked over the API of one node',
    credential: 'apiKey',
    path: () => '/api/v1/organizations',
    after: 401,
    apply: ({ nodes }, v, round) =>
      call(`${nodes[round % 2]}/api/v1/organizations/${v.orgId}/api-keys/${v.keyId}`, {
        token: v.token,
        method: 'DELETE',
      }),
  },
  {
    what: 'the role behind a key is lowered',
    credential: 'apiKey',
    path: auditLog,
    after: 403,
    apply: ({ db }, v) => setMember(db, testOperator, { orgId: v.orgId, userId: v.userId, role: 'member' }),
  },
  {
    what: 'the role behind a login token is lowered',
    credential: 'token',
    path: auditLog,
    after: 403,
    apply: ({ db }, v) => setMember(db, testOperator, { orgId: v.orgId, userId: v.userId, role: 'member' }),
  },
  {
    what: 'the member behind a key is removed',
    credential: 'apiKey',
    path: webhooks,
    after: 401,
    apply: ({ db }, v) => removeMember(db, testOperator, { orgId: v.orgId, userId: v.userId }),
  },
  {
    what: 'the member behind a login token is removed',
    credential: 'token',
    path: webhooks,
    after: 404,
    apply: ({ db }, v) => removeMember(db, testOperator, { orgId: v.orgId, userId: v.userId }),
  },
  {
    what: 'the service member behind a key is removed over the API of one node',
    credential: 'serviceKey',
    path: webhooks,
    after: 401,
    apply: ({ nodes }, v, round) =>
      call(`${nodes[round % 2]}/platform/v1/organizations/${v.orgId}/members/${v.service.userId}`, {
        token: v.service.ownerToken,
        method: 'DELETE',
      }),
  },
  {
    what: 'the user behind a key is removed',
    credential: 'apiKey',
    path: () => '/api/v1/organizations',
    after: 401,
    apply: ({ db }, v) => removeUser(db, testOperator, { userId: v.userId }),
  },
  {
    what: 'the user behind a login token is removed',
    credential: 'token',
    path: () => '/api/v1/organizations',
    after: 401,
    apply: ({ db }, v) => removeUser(db, testOperator, { userId: v.userId }),
  },
  {
    what: 'the organization of a key is deleted over the API of one node',
    credential: 'apiKey',
    path: webhooks,
    after: 401,
    apply: (installation, v, round) => deleteOrganization(installation, v, round),
  },
  {
    what: 'the organization of a login token is deleted over the API of one node',
    credential: 'token',
    path: webhooks,
    after: 404,
    apply: (installation, v, round) => deleteOrganization(installation, v, round),
  },
  {
    what: 'an operator token is revoked over the API of one node',
    credential: 'operatorToken',
    path: () => '/operator/v1/tokens?limit=1',
    after: 401,
    async apply({ nodes, operatorToken }, v, round) {
      const id = JSON.parse(Buffer.from(v.operatorToken.split('.')[1]!, 'base64url').toString()).jti
      await call(`${nodes[round % 2]}/operator/v1/tokens/${id}`, { token: await operatorToken(), method: 'DELETE' })
    },
  },
]

describe('a request that starts after access was removed is refused by every node', () => {
  test('for every kind of change', async () => {
    const installation = await twoNodes()
    let requests = 0
    const holes: string[] = []
    for (const change of changes) {
      for (let round = 0; round < 4; round++) {
        const v = await victim(installation)
        const clients = hammer(installation.nodes, change.path(v), v[change.credential], 24)
        const startedSince = (at: number) => clients.asked.filter((one) => one.startedAt > at).length
        await expect.poll(() => startedSince(0)).toBeGreaterThan(50 + Math.random() * 50)
        await change.apply(installation, v, round)
        const answeredAt = performance.now()
        await expect.poll(() => startedSince(answeredAt)).toBeGreaterThan(50)
        await clients.stop()
        const late = clients.asked.filter((one) => one.startedAt > answeredAt)
        const early = clients.asked.filter((one) => one.startedAt <= answeredAt)
        requests += clients.asked.length
        // There must be requests before and after the change.
        expect(early.filter((one) => one.status === 200).length, change.what).toBeGreaterThan(10)
        expect(late.length, change.what).toBeGreaterThan(10)
        const wrong = late.filter((one) => one.status !== change.after)
        if (wrong.length > 0) holes.push(`${change.what}: ${wrong.length} of ${late.length} got ${wrong[0]!.status}`)
        expect(clients.asked.filter((one) => ![200, change.after].includes(one.status))).toEqual([])
      }
    }
    expect(holes).toEqual([])
    expect(requests).toBeGreaterThan(3_000)
  })
})
