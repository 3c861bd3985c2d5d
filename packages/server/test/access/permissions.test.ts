import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { keyPermissions } from '../../src/access/restrictions.ts'
import { isRefusedToKeys, type Permission, permissions, permissionTable, roles } from '../../src/access/roles.ts'
import { createOpenApi } from '../../src/compose/openapi.ts'
import { guidePath, guides } from '../../src/http/guides.ts'
import type { Route } from '../../src/http/route.ts'
import { type IdPrefix, newId, type OrgId } from '../../src/lib/ids.ts'
import { captureLog } from '../kit/captured-log.ts'
import { call, type Reply } from '../kit/client.ts'
import { apiAlone, routesOf } from '../kit/composed.ts'
import { startApi, type TestApi } from '../kit/installation.ts'

/*
 * Every route with every kind of caller, compared with the permission table.
 */

let api: TestApi
let routes: Route[]
let orgId: OrgId
let elsewhere: OrgId
const callers: Record<string, string | null> = {}
let foreign: Record<string, string>

type Made = { id: string; api_key: string }

beforeAll(async () => {
  api = await startApi()
  routes = routesOf(api)
  for (const route of routes) prefixesOf.set(route, readPrefixes(route))
  orgId = await api.organization()
  elsewhere = await api.organization('Elsewhere')
  for (const role of roles) {
    const person = await api.person([{ orgId, role }])
    callers[role] = person.token
    const made = await call<Made>(`${api.url}/api/v1/organizations/${orgId}/api-keys`, {
      token: person.token,
      body: { name: role },
    })
    callers[`key of ${role}`] = made.body.api_key
  }
  const stranger = await api.person([{ orgId: elsewhere, role: 'owner' }])
  const there = `${api.url}/api/v1/organizations/${elsewhere}`
  const key = await call<Made>(`${there}/api-keys`, { token: stranger.token, body: { name: 'theirs' } })
  const revoked = await call<Made>(`${there}/api-keys`, { token: stranger.token, body: { name: 'revoked' } })
  await call(`${there}/api-keys/${revoked.body.id}`, { token: stranger.token, method: 'DELETE' })
  const hook = await call<Made>(`${there}/webhooks`, {
    token: stranger.token,
    body: { url: 'https://example.com/', event_types: ['invoice.paid'] },
  })
  foreign = { keyId: key.body.id, webhookId: hook.body.id, orgId: elsewhere }
  callers.stranger = stranger.token
  callers['key of stranger'] = key.body.api_key
  callers['revoked key'] = revoked.body.api_key
  callers.nonMember = (await api.person()).token
  callers.operator = await api.operatorToken()
  callers.garbage = 'garbage'
  callers['no token'] = null
})
afterAll(() => api.close())

/** The prefix of each id in a path, as /openapi.json documents it. Each document takes milliseconds, so there is one per route. */
const prefixesOf = new Map<Route, IdPrefix[]>()

function readPrefixes(route: Route): IdPrefix[] {
  const template = Object.values(createOpenApi([route]).paths)[0]!
  const { parameters } = Object.values(template)[0] as { parameters: { in: string; schema: { pattern: string } }[] }
  return parameters
    .filter((parameter) => parameter.in === 'path')
    .map(({ schema }) => (/^\^([a-z]+)_/.exec(schema.pattern)?.[1] ?? 'evt') as IdPrefix)
}

/** A path whose organization is ours and whose other ids name nothing, unless `ids` says otherwise. */
function pathOf(route: Route, ids: Record<string, string> = {}): string {
  const known = prefixesOf.get(route)!
  let place = 0
  return route.path.replace(/:(\w+)/g, (_, name: string) => {
    const prefix = known[place++]!
    return ids[name] ?? (name === 'orgId' ? orgId : newId(prefix))
  })
}

/** Sends a body that no route accepts, so that an allowed request changes nothing: it is answered 422. */
const knock = (route: Route, token: string | null, ids?: Record<string, string>): Promise<Reply<{ code: string }>> =>
  knockAt(route, token, pathOf(route, ids))

const knockAt = (route: Route, token: string | null, path: string): Promise<Reply<{ code: string }>> =>
  call(api.url + path + (isStream(route) ? '?nobody_takes_this=true' : ''), {
    method: route.method,
    token,
    ...(route.body && { body: { nobody_takes_this: true } }),
  })

/** Its answer has no end. */
const isStream = (route: Route): boolean => route.success.mediaType === 'text/event-stream'

const letIn = (route: Route): number[] => {
  if (route.body || isStream(route)) return [422]
  // The caller's token is missing.
  if (route.path === '/operator/v1/authorize') return [401]
  const subordinate = route.path.replace(':orgId', '').includes(':')
  return subordinate ? [404] : [200, 202, 204]
}

const isRefusedKey = ({ needs }: Route, caller: string): boolean =>
  needs !== 'operator' && caller.startsWith('key of ') && isRefusedToKeys(needs, { keysRequireLogin: false })

/** Whether a caller with a role is answered 403 in the organization. */
function hiddenFrom(route: Route, caller: string): boolean {
  if (route.needs === 'operator') return false
  const role = caller.replace('key of ', '')
  return isRefusedKey(route, caller) || (permissionTable[route.needs] as Record<string, string>)[role] === 'none'
}

function expected(route: Route, caller: string): number[] {
  if (['no token', 'garbage', 'revoked key'].includes(caller)) return [401]
  const isKey = caller.startsWith('key of ')
  if (route.needs === 'operator') {
    if (caller === 'operator') return letIn(route)
    return isKey ? [401] : [403]
  }
  if (caller === 'operator') return [401]
  if (!route.path.includes(':orgId')) return letIn(route)
  const role = caller.replace('key of ', '')
  if (!(roles as readonly string[]).includes(role)) return [404]
  return hiddenFrom(route, caller) ? [403] : letIn(route)
}

test('every route answers every kind of caller as the permission table says', async () => {
  expect(routes.length).toBeGreaterThanOrEqual(8)
  const wrong: string[] = []
  for (const route of routes) {
    const walked = Object.entries(callers).map(async ([caller, token]) => ({
      caller,
      reply: await knock(route, token),
    }))
    for (const { caller, reply } of await Promise.all(walked)) {
      const wanted = expected(route, caller)
      if (!wanted.includes(reply.status)) {
        wrong.push(`${route.method} ${route.path} as ${caller}: ${reply.status}, not ${wanted.join(' or ')}`)
      }
      const scope = isRefusedKey(route, caller) ? `(${route.needs}|login)` : route.needs
      if (reply.status === 403) expect(reply.headers.get('www-authenticate')).toMatch(new RegExp(`scope="${scope}"`))
      if (reply.status === 401) expect(reply.headers.get('www-authenticate')).toMatch(/^Bearer realm/)
    }
  }
  expect(wrong).toEqual([])
})

test('a key that has every permission but the one that a route needs is refused there', async () => {
  const without = new Map<Permission, string>()
  for (const permission of permissions) {
    const others = keyPermissions.filter((one) => one !== permission && one !== `${permission}:own`)
    const made = await call<Made>(`${api.url}/platform/v1/organizations/${orgId}/api-keys`, {
      token: callers.owner!,
      body: { name: permission, permissions: others },
    })
    without.set(permission, made.body.api_key)
  }
  for (const route of routes) {
    if (route.needs === 'operator') continue
    const { status, body, headers } = await knock(route, without.get(route.needs)!)
    const answer = [status, body.code, headers.get('www-authenticate')]
    const isRefused = isRefusedToKeys(route.needs, { keysRequireLogin: false })
    const [code, scope] = isRefused ? ['auth.login_required', 'login'] : ['auth.key_restricted', route.needs]
    const header = expect.stringContaining(`scope="${scope}"`)
    expect(answer, `${route.method} ${route.path}`).toEqual([403, code, header])
  }
})

test('every permission of the table is used by a route, and names every role', () => {
  const asked = new Set(routes.map((route) => route.needs))
  for (const [permission, reaches] of Object.entries(permissionTable)) {
    expect(Object.keys(reaches).sort(), permission).toEqual([...roles].sort())
    expect(asked.has(permission as never), permission).toBe(true)
  }
})

/** Reads the routes from the server itself: a route that is not in the table would appear here only. */
function registered(tree: string): Set<string> {
  const found = new Set<string>()
  const trail: string[] = []
  for (const line of tree.split('\n')) {
    const [, indent, segment, methods] = /^([│ ]*)(?:├── |└── )(\S*)(?: \((.*)\))?/.exec(line) ?? []
    if (segment === undefined) continue
    const depth = indent!.length / 4
    trail.splice(depth, Number.POSITIVE_INFINITY, segment)
    for (const method of methods?.split(', ') ?? []) if (method !== 'HEAD') found.add(`${method} ${trail.join('')}`)
  }
  return found
}

test('nothing is served besides the route table, the console, the public pages and the metrics', async () => {
  const { app, close } = apiAlone(api, captureLog().log)
  await app.ready()
  const served = registered(app.printRoutes({ commonPrefix: false }))
  await close()
  const listed = routes.map((route) => `${route.method} ${route.path}`)
  const open = [
    '/',
    '/healthz',
    '/readyz',
    '/openapi.json',
    '/database-ca.pem',
    '/docs',
    '/docs/scalar.js',
    '/docs/decisions',
    ...guides.map(guidePath),
    '/metrics',
  ].map((path) => `GET ${path}`)
  // The tree has a wildcard without the slash before it.
  const console = [
    ...['GET /console', 'GET /console*', 'POST /console/session', 'POST /console/token'],
    ...['POST /console/invitation', 'POST /console/invitation-preview', 'GET /console/config.json'],
    ...['POST /console/authorizations', 'POST /console/authorizations/token'],
    ...['POST /console/sign-in-mail', 'POST /console/confirmation-mail', 'POST /console/confirmation'],
    ...['DELETE /console/session', 'DELETE /console/sessions', 'GET /console/sessions'],
    ...['DELETE /console/sessions/:sessionId', 'DELETE /console/other-sessions', 'DELETE /console/passkey-offer'],
    ...['POST /console/passkey-challenge', 'POST /console/passkey-session', 'POST /console/passkey-options'],
    ...['GET /console/passkeys', 'POST /console/passkeys'],
    ...['PATCH /console/passkeys/:passkeyId', 'DELETE /console/passkeys/:passkeyId'],
  ]
  expect([...served].sort()).toEqual([...listed, ...open, ...console].sort())
})

/** Everything of the answer, except that what the path asked for may be repeated. */
const bytesOf = (reply: Reply, path: string): string => {
  const asked = path.split('/').slice(1).map(decodeURIComponent)
  const text = asked.reduce((rest, id) => rest.replace(`'${id}'`, 'with this id'), reply.text)
  const headers = [...reply.headers].filter(([name]) => name !== 'date' && name !== 'content-length')
  return JSON.stringify([reply.status, headers, text])
}

const malformed = ['x', 'org_', '%00', `${'7'.repeat(300)}`, 'key_0123', '__proto__', "'--"]

describe('the id of another organization, an unknown id and an invalid id are answered the same, except that an id may be repeated', () => {
  test.each(['owner', 'member', 'key of admin', 'stranger'])('for %s', async (caller) => {
    for (const route of routes.filter((one) => one.needs !== 'operator')) {
      const names = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => name!)
      const hidden = hiddenFrom(route, caller)
      for (const name of names) {
        // A role without the permission gets 403 in its own organization, whatever the rest of the path names.
        if (name !== 'orgId' && hidden) continue
        if (route.body && name !== 'orgId') continue
        const theirs = caller === 'stranger' && name === 'orgId' ? orgId : foreign[name]
        const asked = [...malformed, undefined, ...(theirs === undefined ? [] : [theirs])]
        const nothing = name === 'orgId' ? newId('org') : undefined
        const base = caller === 'stranger' && name !== 'orgId' ? { orgId: elsewhere } : {}
        const answers = new Set<string>()
        const knocked = asked
          .filter((id) => !(caller === 'stranger' && id === theirs && name !== 'orgId'))
          .map(async (id) => {
            const given = id ?? nothing
            const ids = { ...base, ...(given !== undefined && { [name]: given }) }
            const path = pathOf(route, ids)
            const reply = await knockAt(route, callers[caller]!, path)
            expect(reply.status, `${route.method} ${route.path} with ${name}=${given}`).toBe(404)
            answers.add(bytesOf(reply, path))
          })
        await Promise.all(knocked)
        expect([...answers], `${route.method} ${route.path} by ${name}`).toHaveLength(1)
      }
    }
  })
})

test('an unknown id with a valid body is answered 404 too, also for the operator', async () => {
  const bodies: Record<string, object> = {
    test: { event_type: 'invoice.paid' },
    recover: { since: '2026-01-31T12:00:00Z' },
    ':backupId/restore': { name: 'copy' },
    ':databaseId/restore': { name: 'then', to: '2026-01-31T12:00:00Z' },
    ':userId': { role: 'member' },
    ':userId/api-keys': { name: 'ci' },
    revoke: { descendants: true },
    deletion: { confirm: 'x' },
    'backup-schedule': { every_hours: 6, keep: 3 },
  }
  for (const route of routes.filter((one) => one.body !== undefined || one.needs === 'operator')) {
    const token = callers[route.needs === 'operator' ? 'operator' : 'owner']!
    const [above, last] = route.path.split('/').slice(-2)
    const body = route.body && (bodies[`${above}/${last}`] ?? bodies[last!])
    for (const [, name] of route.path.replace(':orgId', '').matchAll(/:(\w+)/g)) {
      const answers = new Set<string>()
      for (const id of [undefined, ...malformed]) {
        const place = pathOf(route, id === undefined ? {} : { [name!]: id })
        const reply = await call(api.url + place, { method: route.method, token, ...(body && { body }) })
        expect(reply.status, `${route.method} ${place}`).toBe(404)
        answers.add(bytesOf(reply, place))
      }
      if (route.needs !== 'operator') expect([...answers], `${route.method} ${route.path} by ${name}`).toHaveLength(1)
    }
  }
})

test('one id is answered byte for byte the same while another organization has it and when nobody does', async () => {
  const theirs = { url: `${api.url}/api/v1/organizations/${elsewhere}/webhooks`, token: callers.stranger! }
  const body = { url: 'https://example.com/', event_types: ['invoice.paid'] }
  const { id } = (await call<Made>(theirs.url, { token: theirs.token, body })).body
  const ask = async () => {
    const own = `${api.url}/platform/v1/organizations/${orgId}/webhooks/${id}`
    const { status, headers, text } = await call(own, { token: callers.owner! })
    return { status, headers: [...headers].filter(([name]) => name !== 'date'), text }
  }
  const before = await ask()
  expect(JSON.parse(before.text).detail).toBe(`No webhook '${id}' in this organization.`)
  expect((await call(`${theirs.url}/${id}`, { token: theirs.token, method: 'DELETE' })).status).toBe(204)
  expect(await ask()).toEqual(before)
})

test.each([
  ['platform/v1/organizations/ORG/databases/db_ID', "No database 'db_ID' in this organization."],
  ['api/v1/organizations/ORG/webhooks/wh_ID/deliveries', "No webhook 'wh_ID' in this organization."],
  [
    'platform/v1/organizations/ORG/webhooks/wh_ID/recoveries/rcv_ID',
    "No recovery 'rcv_ID' of webhook 'wh_ID' in this organization.",
  ],
  ['platform/v1/organizations/ORG/databases/second', 'No database with this id in this organization.'],
  ['platform/v1/organizations/ORG/events/evt_ID', 'No event with this id in this organization.'],
  ['platform/v1/organizations/org_ID/databases/db_ID', "No organization 'org_ID' that you have access to."],
  ['platform/v1/nothing', 'There is nothing at this path.'],
])('the answer to %s names what was asked for', async (template, text) => {
  const [path, detail] = [template, text].map((one) => one.replaceAll('ID', '01h455vb4pex5vsknk084sn02q'))
  const reply = await call(`${api.url}/${path!.replace('ORG', orgId)}`, { token: callers.owner! })
  expect([reply.status, (reply.body as { detail: string }).detail]).toEqual([404, detail])
})
