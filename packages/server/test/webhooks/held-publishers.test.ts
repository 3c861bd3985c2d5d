import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/db/database.ts'
import type { OrgId } from '../../src/kernel/ids.ts'
import { call } from '../support/client.ts'
import { holdPublishers } from '../support/hold-publishers.ts'
import { startApiForTest } from '../support/installation.ts'
import { until } from './support/delivery-test.ts'

/** An API with four connections, and organizations in which a node elsewhere is publishing and does not come to an end. */
async function heldOrganizations(count: number) {
  const api = await startApiForTest({ KEYHOOK_DATABASE_CONNECTIONS: '4' })
  const elsewhere = connect(api.target, { name: 'elsewhere', connectionsMax: count })
  onTestFinished(() => elsewhere.end({ timeout: 1 }))
  const operator = await api.issuer.issue({ subject: 'operator', ttlSeconds: 60, operator: true })
  const orgs: OrgId[] = []
  for (let i = 0; i < count; i++) orgs.push(await api.organization())
  const letGo = await Promise.all(orgs.map((orgId) => holdPublishers(elsewhere, orgId)))
  const reportNamed = (...of: { organization_id: OrgId; id?: string }[]) =>
    call(`${api.url}/operator/v1/events`, {
      token: operator,
      body: of.map((one) => ({ ...one, type: 'invoice.paid', data: {} })),
    })
  return {
    api,
    orgs,
    letGo,
    letAllGo: () => Promise.all(letGo.map((one) => one())),
    report: (...of: OrgId[]) => reportNamed(...of.map((organization_id) => ({ organization_id }))),
    reportNamed,
  }
}

/** A report of each that is held. The first two wait, which is as many as may; the others stand in line behind them, for seconds. */
async function reportHeld({ api, orgs, report }: Awaited<ReturnType<typeof heldOrganizations>>) {
  const answered: OrgId[] = []
  const reportOne = async (orgId: OrgId) => {
    const { status } = await report(orgId)
    answered.push(orgId)
    return status
  }
  const first = orgs.slice(0, 2).map(reportOne)
  const waiting = () => api.db`
    select from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`
  await until(async () => (await waiting()).length === 2, 'two that wait')
  const reports = [...first, ...orgs.slice(2).map(reportOne)]
  // They are in line.
  await sleep(200)
  return { reports, answered }
}

// Seen to fail without a limit of those that wait: the list gets no connection before they are done.
test('reports that wait for publishers elsewhere leave connections to everybody else, and are told to come again', async () => {
  const { api, orgs, letAllGo, report } = await heldOrganizations(6)
  const other = await api.organization()
  const { token } = await api.person([{ orgId: other, role: 'owner' }])
  let answered = 0
  const begun = performance.now()
  const reports = orgs.map(async (orgId) => {
    const reply = await report(orgId)
    answered += 1
    return { ...reply, ms: performance.now() - begun }
  })
  await sleep(200)
  expect((await call(`${api.url}/api/v1/organizations/${other}/webhooks`, { token })).status).toBe(200)
  expect((await call(`${api.url}/readyz`)).status).toBe(200)
  expect(answered).toBe(0)
  const first = await Promise.race(reports)
  expect(first.status).toBe(503)
  expect(first.headers.get('retry-after')).not.toBeNull()
  expect(first.ms).toBeGreaterThan(2_500)
  await letAllGo()
  const statuses = (await Promise.all(reports)).map(({ status }) => status)
  // As many as may wait at a time were told so; the others came to their turn.
  expect(statuses.filter((status) => status === 503).length).toBeLessThanOrEqual(2)
  expect(statuses.filter((status) => status === 202).length).toBeGreaterThanOrEqual(4)
}, 30_000)

// Seen to fail without the bound of the waiting: it is answered when the last of them is let go.
test('a report of several organizations waits for each of them as briefly, and all that it held is free again', async () => {
  const { api, orgs, letAllGo, report } = await heldOrganizations(1)
  const free = await api.organization()
  expect((await report(free, ...orgs)).status).toBe(503)
  expect((await report(free)).status).toBe(202)
  await letAllGo()
  expect((await report(...orgs, free)).status).toBe(202)
  const events = await api.db`select org_id, count(*)::int as events from keyhook.events group by 1 order by 2`
  expect(events).toEqual([
    { org_id: orgs[0], events: 1 },
    { org_id: free, events: 2 },
  ])
}, 30_000)

// Seen to fail when all have to stand in line for a place: the twelve that are held are answered first.
test('reports of organizations in which nobody else publishes do not wait for those that are held', async () => {
  const held = await heldOrganizations(12)
  const { api, letAllGo, report, reportNamed } = held
  const free: OrgId[] = []
  for (let i = 0; i < 5; i++) free.push(await api.organization())
  const [alone, young, known, large, together] = free as [OrgId, OrgId, OrgId, OrgId, OrgId]
  await report(alone)
  await reportNamed({ organization_id: known, id: 'known' })
  const { reports, answered } = await reportHeld(held)
  expect((await report(alone)).status).toBe(202)
  expect((await report(young)).status).toBe(202)
  expect((await reportNamed({ organization_id: known, id: 'known' })).status).toBe(202)
  expect((await report(...Array<OrgId>(17).fill(large))).status).toBe(202)
  expect((await report(together, alone)).status).toBe(202)
  // Usually none: it would take six seconds until these are.
  expect(answered.length).toBeLessThanOrEqual(4)
  await letAllGo()
  const taken = (await Promise.all(reports)).filter((status) => status === 202)
  const events = await api.db<{ org_id: OrgId; events: number }[]>`
    select org_id, count(*)::int as events from keyhook.events group by 1`
  const counts = new Map(events.map((row) => [row.org_id, row.events]))
  expect(free.map((orgId) => counts.get(orgId))).toEqual([3, 1, 1, 17, 1])
  expect(events.length).toBe(free.length + taken.length)
}, 60_000)

// Seen to fail when those that stand in line try it once only.
test('what stands in line is written when its organization is let go, in order, also while the others are held', async () => {
  const held = await heldOrganizations(12)
  const { api, orgs, letGo, letAllGo, reportNamed } = held
  const { reports, answered } = await reportHeld(held)
  const last = orgs.at(-1)!
  const behind: Promise<number>[] = []
  for (const id of ['a', 'b', 'c']) {
    behind.push(reportNamed({ organization_id: last, id }).then(({ status }) => status))
    await sleep(20)
  }
  await letGo.at(-1)!()
  expect(await Promise.all([reports.at(-1), ...behind])).toEqual([202, 202, 202, 202])
  expect(answered.length).toBeLessThanOrEqual(5)
  const events = await api.db`select seq, id from keyhook.events where org_id = ${last} order by seq`
  expect(events.map((row) => row.seq)).toEqual(['1', '2', '3', '4'])
  expect(events.slice(1).map((row) => row.id)).toEqual(['a', 'b', 'c'])
  await letAllGo()
  await Promise.all(reports)
}, 60_000)
