import { describe, expect, test } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { wake } from '../delivery/support/leased-lane.ts'
import { call } from '../kit/client.ts'
import { routesOf } from '../kit/composed.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { signIn, tokenOf } from '../login/browser.ts'

const api = ownedApi()
const openUrl = (orgId: string) => `${api.url}/operator/v1/organizations/${orgId}/open`
type Opened = { token: string; expires_at: string }
const open = async (token: string) =>
  (await api.documented.call<Opened>('POST', '/operator/v1/organizations/{org_id}/open', openUrl(api.orgId), { token }))
    .body.token

describe('an organization that an operator has opened', () => {
  test('is read, and not changed: every GET is let in, everything else is refused', async () => {
    const reader = await open(await api.operatorToken())
    const wrong: string[] = []
    for (const { method, path, needs, body, success } of routesOf(api)) {
      if (needs === 'operator' || success.mediaType === 'text/event-stream') continue
      const url = path.replace(':orgId', api.orgId).replace(/:(\w+)Id/g, () => newId('wh'))
      const { status } = await call(`${api.url}${url}`, { token: reader, method, ...(body && { body: {} }) })
      const isRead = method === 'GET' && path.includes(':orgId')
      if (isRead ? ![200, 404].includes(status) : status !== 403) wrong.push(`${method} ${path}: ${status}`)
    }
    expect(wrong).toEqual([])
  })

  test('has an entry in its audit log that its members see, with the operator token', async () => {
    const operator = await api.operatorToken()
    await open(operator)
    const { body } = await call<{ action: string; actor: object }[]>(
      `${api.url}/platform/v1/organizations/${api.orgId}/audit-log?limit=1`,
      { token: api.owner.token },
    )
    const { jti } = JSON.parse(Buffer.from(operator.split('.')[1]!, 'base64url').toString())
    expect(body[0]).toMatchObject({ action: 'organization.opened', actor: { kind: 'operator', credential: jti } })
  })

  test('is the only one: others, and the operations of operators, are closed to the token', async () => {
    const reader = await open(await api.operatorToken())
    const other = await api.organization()
    expect((await call(`${api.url}/api/v1/organizations/${other}/webhooks`, { token: reader })).status).toBe(404)
    expect((await call(`${api.url}/operator/v1/overview`, { token: reader })).status).toBe(403)
    const introspected = await call(`${api.url}/operator/v1/introspect`, {
      token: await api.operatorToken(),
      body: { token: reader },
    })
    expect(introspected.body).toEqual({ active: false })
    expect((await call(openUrl(newId('org')), { token: await api.operatorToken(), method: 'POST' })).status).toBe(404)
  })

  test('is closed when the operator token is revoked or the console session ends', async () => {
    const status = async (token: string) =>
      (await call(`${api.url}/api/v1/organizations/${api.orgId}/webhooks`, { token })).status
    const operator = await api.operatorToken()
    const { jti } = JSON.parse(Buffer.from(operator.split('.')[1]!, 'base64url').toString())
    const byToken = await open(operator)
    const browser = await signIn(api, null)
    const bySession = await open((await tokenOf(browser)).body.token)
    expect([await status(byToken), await status(bySession)]).toEqual([200, 200])
    await call(`${api.url}/operator/v1/tokens/${jti}`, { token: await api.operatorToken(), method: 'DELETE' })
    await browser.send('DELETE', '/console/session')
    expect([await status(byToken), await status(bySession)]).toEqual([401, 401])
  })
})

test('the overview shows what waits longest, and the nodes', async () => {
  const token = await api.operatorToken()
  const overview = async () =>
    (
      await api.documented.call<{
        busy_lanes: number
        deliveries: { waiting: number }
        lanes: object[]
        nodes: object[]
      }>('GET', '/operator/v1/overview', `${api.url}/operator/v1/overview`, { token })
    ).body
  expect(await overview()).toMatchObject({ busy_lanes: 0, deliveries: { waiting: 0, oldest_waiting_at: null } })
  const hook = await call<{ id: string }>(`${api.url}/api/v1/organizations/${api.orgId}/webhooks`, {
    token: api.owner.token,
    body: { url: 'https://example.com/', event_types: ['invoice.paid'] },
  })
  await call(`${api.url}/platform/v1/organizations/${api.orgId}/webhooks/${hook.body.id}/test`, {
    token: api.owner.token,
    body: { event_type: 'invoice.paid' },
  })
  await wake(api.db)
  await api.db`
    insert into keyhook.nodes (id, databases_max, host, seen_at)
    values ('alive', 5, 'db-1.example.com', now()), ('silent', 5, null, now() - interval '1 hour')`
  const shown = await overview()
  expect(shown).toMatchObject({
    busy_lanes: 1,
    deliveries: { waiting: 1 },
    lanes: [{ organization_id: api.orgId, webhook_id: hook.body.id, oldest_waiting_at: expect.any(String) }],
    nodes: [
      { id: 'alive', host: 'db-1.example.com', is_silent: false },
      { id: 'silent', host: null, is_silent: true },
    ],
  })
  await api.db`
    update keyhook.lanes set failures = 3, failing_since = now() - interval '30 hours', probe_at = now(),
      suspended_until = now() + interval '29 days', paused_until = now() - interval '1 second'
    where webhook_id = ${hook.body.id}`
  expect((await overview()).lanes).toMatchObject([
    { paused_until: null, suspended_until: expect.any(String), failing_since: expect.any(String) },
  ])
  await api.db`update keyhook.lanes set suspended_until = null, failing_since = null, failures = 0, probe_at = null where webhook_id = ${hook.body.id}`
  expect((await overview()).lanes).toMatchObject([{ suspended_until: null, failing_since: null }])
})
