import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/db/database.ts'
import type { OrgId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { holdOpen } from '../kit/hold-open.ts'
import { holdPublishers } from '../kit/hold-publishers.ts'
import { startApiForTest } from '../kit/installation.ts'

/** An API with four connections, and organizations in which a publisher of another node never ends. */
async function heldOrganizations(count: number) {
  const lines: { msg: string; status?: number; why?: string }[] = []
  const log = pino({ level: 'info' }, { write: (line) => void lines.push(JSON.parse(line)) })
  const api = await startApiForTest({ KEYHOOK_DATABASE_CONNECTIONS: '4' }, log)
  const elsewhere = connect(api.target, { name: 'elsewhere', connectionsMax: count })
  onTestFinished(() => elsewhere.end({ timeout: 1 }))
  const operator = await api.operatorToken()
  const orgs: OrgId[] = []
  for (let i = 0; i < count; i++) orgs.push(await api.organization())
  const release = await Promise.all(orgs.map((orgId) => holdPublishers(elsewhere, orgId)))
  const sendNamed = (...of: { organization_id: OrgId; id?: string }[]) =>
    call(`${api.url}/operator/v1/events`, {
      token: operator,
      body: of.map((one) => ({ ...one, type: 'invoice.paid', data: {} })),
    })
  return {
    api,
    lines,
    orgs,
    release,
    releaseAll: () => Promise.all(release.map((one) => one())),
    send: (...of: OrgId[]) => sendNamed(...of.map((organization_id) => ({ organization_id }))),
    sendNamed,
  }
}

/** One request for each organization that is held. They are waiting when it returns. */
async function sendToHeld({ orgs, send }: Awaited<ReturnType<typeof heldOrganizations>>) {
  const answered: OrgId[] = []
  const begun = performance.now()
  const requests = orgs.map(async (orgId) => {
    const reply = await send(orgId)
    answered.push(orgId)
    return { ...reply, ms: performance.now() - begun }
  })
  await sleep(200)
  return { requests, answered }
}

// Seen to fail when waiting publishers use the API's connections: the list is answered after three seconds.
test('requests wait for held publishers without the API’s connections, and are refused with 503 after 3 seconds', async () => {
  const held = await heldOrganizations(6)
  const { api, lines, orgs, release, releaseAll } = held
  const other = await api.organization()
  const { token } = await api.person([{ orgId: other, role: 'owner' }])
  const { requests, answered } = await sendToHeld(held)
  expect((await call(`${api.url}/api/v1/organizations/${other}/webhooks`, { token })).status).toBe(200)
  expect((await call(`${api.url}/readyz`)).status).toBe(200)
  expect(answered).toEqual([])
  await sleep(300)
  await Promise.all(release.slice(0, 3).map((one) => one()))
  const replies = await Promise.all(requests)
  expect(replies.map(({ status }) => status)).toEqual([202, 202, 202, 503, 503, 503])
  // Released organizations do not wait for the others to give up.
  expect(new Set(answered.slice(0, 3))).toEqual(new Set(orgs.slice(0, 3)))
  for (const reply of replies.slice(3)) {
    expect(reply.headers.get('retry-after')).not.toBeNull()
    expect(reply.ms).toBeGreaterThan(2_500)
  }
  // The log names the organization and the cause of each.
  const reasons = lines.filter(({ msg, status }) => msg === 'request.answered' && status === 503).map(({ why }) => why)
  expect(reasons.sort()).toEqual(
    orgs
      .slice(3)
      .map((orgId) => `for 3000 ms, other sessions held an event counter of ${orgId}`)
      .sort(),
  )
  await releaseAll()
  const events = await api.db`select org_id from keyhook.events`
  expect(events).toHaveLength(3)
})

// Seen to fail without a limit of the wait: it is answered when the last of them is released.
test('a request for several organizations waits as briefly, and what it had locked is free again', async () => {
  const { api, orgs, releaseAll, send } = await heldOrganizations(1)
  const free = await api.organization()
  const waiting = send(free, ...orgs)
  // While it waits for the second organization, it does not keep the first one locked.
  expect((await send(free)).status).toBe(202)
  expect((await waiting).status).toBe(503)
  await releaseAll()
  expect((await send(...orgs, free)).status).toBe(202)
  const events = await api.db`select org_id, count(*)::int as events from keyhook.events group by 1 order by 2`
  expect(events).toEqual([
    { org_id: orgs[0], events: 1 },
    { org_id: free, events: 2 },
  ])
})

// Seen to fail when publishers wait with a connection: the twelve that are held are answered first.
test('events of other organizations do not wait for those that are held', async () => {
  const held = await heldOrganizations(12)
  const { api, releaseAll, send, sendNamed } = held
  const free: OrgId[] = []
  for (let i = 0; i < 5; i++) free.push(await api.organization())
  const [alone, young, known, large, together] = free as [OrgId, OrgId, OrgId, OrgId, OrgId]
  await send(alone)
  await sendNamed({ organization_id: known, id: 'known' })
  const { requests, answered } = await sendToHeld(held)
  expect((await send(alone)).status).toBe(202)
  expect((await send(young)).status).toBe(202)
  expect((await sendNamed({ organization_id: known, id: 'known' })).status).toBe(202)
  expect((await send(...Array<OrgId>(17).fill(large))).status).toBe(202)
  expect((await send(together, alone)).status).toBe(202)
  expect(answered).toEqual([])
  await releaseAll()
  const accepted = (await Promise.all(requests)).filter(({ status }) => status === 202)
  const events = await api.db<{ org_id: OrgId; events: number }[]>`
    select org_id, count(*)::int as events from keyhook.events group by 1`
  const counts = new Map(events.map((row) => [row.org_id, row.events]))
  expect(free.map((orgId) => counts.get(orgId))).toEqual([3, 1, 1, 17, 1])
  expect(events.length).toBe(free.length + accepted.length)
})

// Their order is that of their arrival, which only the tests of the intake know.
test('events that waited are written once their organization is released, while others are still held', async () => {
  const held = await heldOrganizations(12)
  const { api, orgs, release, releaseAll, sendNamed } = held
  const { requests, answered } = await sendToHeld(held)
  const last = orgs.at(-1)!
  const behind = ['a', 'b', 'c'].map((id) => sendNamed({ organization_id: last, id }).then(({ status }) => status))
  await release.at(-1)!()
  expect(await Promise.all([requests.at(-1)!.then(({ status }) => status), ...behind])).toEqual([202, 202, 202, 202])
  expect(answered).toEqual([last])
  const events = await api.db`select seq, id from keyhook.events where org_id = ${last} order by seq`
  expect(events.map((row) => row.seq)).toEqual(['1', '2', '3', '4'])
  expect(events.map((row) => row.id)).toEqual(expect.arrayContaining(['a', 'b', 'c']))
  await releaseAll()
  await Promise.all(requests)
})

// Seen to fail when each of them waits for the counter: they take the four connections for events.
test('requests with an Idempotency-Key wait for a held publisher with one connection, and are all accepted after it', async () => {
  const { api, orgs, releaseAll } = await heldOrganizations(1)
  const token = await api.operatorToken()
  const body = { organization_id: orgs[0], type: 'invoice.paid', data: {} }
  const requests = Array.from({ length: 50 }, (_, i) =>
    call(`${api.url}/operator/v1/events`, { token, body, headers: { 'idempotency-key': `request-${i}` } }),
  )
  let most = 0
  for (let look = 0; look < 20; look++) {
    const waiting = await api.db`
      select from pg_stat_activity where application_name = 'keyhook intake' and wait_event_type = 'Lock'`
    most = Math.max(most, waiting.count)
    await sleep(10)
  }
  expect(most).toBeLessThanOrEqual(1)
  await releaseAll()
  const replies = await Promise.all(requests)
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([202]))
})

// Seen to fail when every try waits for 20 ms: the counter is never free in them.
test('a request is accepted though publishers of other nodes hold the counter all the time, one after the other', async () => {
  const { api, orgs, releaseAll } = await heldOrganizations(1)
  const elsewhere = connect(api.target, { name: 'elsewhere', connectionsMax: 2 })
  const token = await api.operatorToken()
  let isOver = false
  const holders = [1, 2].map(async () => {
    while (!isOver) {
      // Nothing is changed, so that PostgreSQL gives the lock in the order of arrival.
      const release = await holdOpen(
        elsewhere,
        (tx) => tx`select from keyhook.event_counters where org_id = ${orgs[0]!} for update`,
      )
      await sleep(100)
      await release()
    }
  })
  onTestFinished(async () => {
    isOver = true
    await Promise.all(holders)
    await elsewhere.end({ timeout: 1 })
  })
  await releaseAll()
  const body = { organization_id: orgs[0], type: 'invoice.paid', data: {} }
  for (const headers of [{}, { 'idempotency-key': 'a' }]) {
    expect((await call(`${api.url}/operator/v1/events`, { token, body, headers })).status).toBe(202)
  }
})
