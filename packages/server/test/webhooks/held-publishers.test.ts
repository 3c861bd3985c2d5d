import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { OrgId } from '../../src/kernel/ids.ts'
import { connect } from '../../src/store/database.ts'
import { call } from '../support/client.ts'
import { holdPublishers } from '../support/hold-publishers.ts'
import { startApiForTest } from '../support/installation.ts'

/** An API with four connections, and organizations in which a node elsewhere is publishing and does not come to an end. */
async function heldOrganizations(count: number) {
  const api = await startApiForTest({ KEYHOOK_DATABASE_CONNECTIONS: '4' })
  const elsewhere = connect(api.target, { name: 'elsewhere', connectionsMax: count })
  onTestFinished(() => elsewhere.end({ timeout: 1 }))
  const operator = await api.issuer.issue({ subject: 'operator', ttlSeconds: 60, operator: true })
  const orgs: OrgId[] = []
  for (let i = 0; i < count; i++) orgs.push(await api.organization())
  const letGo = await Promise.all(orgs.map((orgId) => holdPublishers(elsewhere, orgId)))
  return {
    api,
    orgs,
    letAllGo: () => Promise.all(letGo.map((one) => one())),
    report: (...of: OrgId[]) =>
      call(`${api.url}/operator/v1/events`, {
        token: operator,
        body: of.map((organization_id) => ({ organization_id, type: 'invoice.paid', data: {} })),
      }),
  }
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
