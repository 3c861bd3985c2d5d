import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { startApiForTest } from '../kit/installation.ts'
import { openRaw } from '../kit/raw-http.ts'
import { until } from '../kit/until.ts'
import { someIds, startLimited, startLimits, withinOneMinute } from './support/request-limits.ts'

describe('a limit of each key', () => {
  test('refuses further requests of the key with 429, Retry-After and the limit; other keys and logins go on', async () => {
    const { api, orgId, owner, create, list, statuses } = await startLimited({
      KEYHOOK_KEY_REQUESTS_PER_MINUTE_MAX: '3',
    })
    const [first, second] = [await create(), await create()]
    await withinOneMinute(api.db, 5)
    expect(await statuses(first.api_key, 4)).toEqual([200, 200, 200, 429])
    const refused = await list(first.api_key)
    expect(refused.status).toBe(429)
    expect(refused.headers.get('content-type')).toContain('application/problem+json')
    expect(refused.body).toMatchObject({ status: 429, code: 'request.rate_limited' })
    const seconds = Number(refused.headers.get('retry-after'))
    expect(seconds).toBeGreaterThanOrEqual(1)
    expect(seconds).toBeLessThanOrEqual(60)
    expect(refused.body.detail).toBe(
      `This API key has sent 3 requests in this minute, the most that are allowed. Try again in ${seconds} seconds.`,
    )
    expect(await statuses(second.api_key, 2)).toEqual([200, 200])
    expect(await statuses(owner.token, 5)).toEqual(Array(5).fill(200))
    // The owner can end a key that runs wild.
    const path = `${api.url}/api/v1/organizations/${orgId}/api-keys/${first.id}`
    expect((await call(path, { method: 'DELETE', token: owner.token })).status).toBe(204)
    expect((await list(first.api_key)).status).toBe(401)
  })

  test('counts every answer to the key, and a request once: not that of another address, nor a question of a gateway', async () => {
    const { api, orgId, create, list, statuses } = await startLimited({ KEYHOOK_KEY_REQUESTS_PER_MINUTE_MAX: '3' })
    const { api_key: key } = await create({ allowed_networks: ['127.0.0.0/8'] })
    const operator = await api.operatorToken()
    await withinOneMinute(api.db, 8)
    for (let i = 0; i < 4; i++) {
      expect((await list(key, '203.0.113.7')).status).toBe(403)
      const asked = await call(`${api.url}/operator/v1/introspect`, { token: operator, body: { token: key } })
      expect(asked.body).toMatchObject({ active: true })
    }
    // Access is checked when the head has arrived, and again after the body.
    const body = JSON.stringify({ name: 'slow' })
    const connection = openRaw(api.url)
    onTestFinished(() => void connection.socket.destroy())
    connection.socket.write(
      `POST /api/v1/organizations/${orgId}/api-keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 3)}`,
    )
    await sleep(300)
    connection.socket.write(body.slice(3))
    await until(() => connection.received().includes('HTTP/1.1 201'))
    // Answered 404 for another organization, which is an answer too.
    const other = `${api.url}/api/v1/organizations/${newId('org')}/api-keys`
    expect((await call(other, { token: key })).status).toBe(404)
    expect(await statuses(key, 2)).toEqual([200, 429])
  })
})

test('a limit of the organization counts the requests of all its keys, and of no other organization', async () => {
  const { api, create, list, statuses } = await startLimited({ KEYHOOK_ORG_REQUESTS_PER_MINUTE_MAX: '4' })
  const [first, second] = [await create(), await create()]
  const orgId = await api.organization()
  const other = await api.person([{ orgId, role: 'owner' }])
  const url = `${api.url}/api/v1/organizations/${orgId}/api-keys`
  const elsewhere = await call<{ api_key: string }>(url, { token: other.token, body: { name: 'ci' } })
  await withinOneMinute(api.db, 5)
  expect(await statuses(first.api_key, 2)).toEqual([200, 200])
  expect(await statuses(second.api_key, 3)).toEqual([200, 200, 429])
  expect((await list(first.api_key)).body.detail).toContain(
    'The API keys of this organization have together sent 4 requests in this minute',
  )
  expect((await list(elsewhere.body.api_key)).status).toBe(200)
})

test('without a limit nothing is counted', async () => {
  const { api, create, statuses } = await startLimited({})
  const { api_key: key } = await create()
  expect(new Set(await statuses(key, 20))).toEqual(new Set([200]))
  await sleep(1_500)
  expect(await api.db`select from keyhook.request_counts`).toHaveLength(0)
})

test('without PostgreSQL a node goes on with its own counts, and merges them later', async () => {
  const api = await startApiForTest()
  const [orgId, keyId] = someIds()
  const errors: unknown[] = []
  await withinOneMinute(api.db, 10)
  await api.db.unsafe('alter table keyhook.request_counts rename to away')
  const count = startLimits(api, { perKey: 20 }, (error) => errors.push(error))
  const tryAll = (requests: number) => Array.from({ length: requests }, () => count(orgId, keyId))
  expect(tryAll(15)).not.toContain(false)
  await until(() => errors.length)
  await sleep(2_500)
  // One line for an outage, and not one each second.
  expect(errors).toHaveLength(1)
  expect(tryAll(6).filter(Boolean)).toHaveLength(5)
  await api.db.unsafe('alter table keyhook.away rename to request_counts')
  await until(
    async () => (await api.db`select from keyhook.request_counts where subject = ${keyId} and count = 20`).length,
  )
  // A failover empties the table.
  await api.db`truncate keyhook.request_counts`
  expect(count(orgId, keyId)).toBe(false)
})

test('the next minute begins with nothing', async () => {
  const api = await startApiForTest()
  const [orgId, keyId] = someIds()
  const count = startLimits(api, { perKey: 1, perOrganization: 1 })
  onTestFinished(() => void vi.useRealTimers())
  vi.useFakeTimers({ toFake: ['Date'], now: new Date('2030-01-01T00:00:59.900Z') })
  expect([count(orgId, keyId), count(orgId, keyId)]).toEqual([true, false])
  vi.setSystemTime('2030-01-01T00:01:00Z')
  expect([count(orgId, keyId), count(orgId, keyId)]).toEqual([true, false])
})

test('counts of earlier minutes are deleted', async () => {
  const api = await startApiForTest()
  await api.db`
    insert into keyhook.request_counts
    select date_part('epoch', now()) / 60 - n, ${randomUUID()}, 1 from generate_series(2, 1000) n`
  const count = startLimits(api, { perKey: 20 })
  expect(count(...someIds())).toBe(true)
  await until(
    async () => (await api.db`select from keyhook.request_counts`).length,
    (left) => left > 0 && left <= 2,
  )
})

test('counts of earlier minutes are deleted, also by a process that has nothing to count', async () => {
  const api = await startApiForTest()
  await api.db`insert into keyhook.request_counts select date_part('epoch', now()) / 60 - 2, 'x', 1`
  startLimits(api, {})
  await expect.poll(() => api.db`select from keyhook.request_counts`, { timeout: 10_000 }).toHaveLength(0)
})

test('the memory of a node has a bound: more keys than it can count are not limited', async () => {
  const api = await startApiForTest()
  const orgId = newId('org')
  const ids = Array.from({ length: 50_001 }, () => newId('key'))
  await withinOneMinute(api.db, 10)
  const count = startLimits(api, { perKey: 1 })
  for (const id of ids) expect(count(orgId, id)).toBe(true)
  expect(count(orgId, ids[0]!)).toBe(false)
  expect(count(orgId, ids.at(-1)!)).toBe(true)
})

test('an organization may have limits of its own, which each node follows within seconds', async () => {
  const { api, orgId, create, statuses } = await startLimited({})
  const { api_key: key } = await create()
  await withinOneMinute(api.db, 15)
  await api.db`insert into keyhook.organization_quotas (org_id, key_requests) values (${orgId}, 2)`
  await until(async () => (await statuses(key, 3)).includes(429))
  await api.db`update keyhook.organization_quotas set key_requests = null, changed_at = clock_timestamp()`
  await until(async () => !(await statuses(key, 3)).includes(429))
})
