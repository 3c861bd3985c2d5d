import { expect, test } from 'vitest'
import { createTransact } from '../../src/db/database.ts'
import { enableOptionalTypes } from '../../src/delivery/event-types.ts'
import { deliveryTest } from '../delivery/support/delivery-test.ts'
import { passHours, runHealthWorkers } from '../delivery/support/suspension.ts'
import { call } from '../kit/client.ts'
import { startApiForTest } from '../kit/installation.ts'

test('other webhooks and the stream are told once that a webhook was suspended, with how much waits', async () => {
  const { db, orgId, transact, addWebhook, publishOne } = await deliveryTest()
  await enableOptionalTypes(db, ['webhook.suspended'])
  const { id } = await addWebhook('https://example.com/hooks?token=secret')
  const told = await addWebhook('https://example.com/told', { types: ['webhook.suspended'] })
  await publishOne()
  await publishOne()
  await db`update keyhook.lanes set failures = 3, failing_since = '2026-01-31T12:00:00Z' where webhook_id = ${id}`
  await runHealthWorkers(transact)
  await runHealthWorkers(transact)
  const events = await db<{ body: string; webhooks: string[] }[]>`
    select e.body, array_agg(l.webhook_id) as webhooks from keyhook.events e
    join keyhook.deliveries d on d.org_id = e.org_id and d.event_seq = e.seq join keyhook.lanes l on l.id = d.lane_id
    where e.org_id = ${orgId} and e.type = 'webhook.suspended' group by e.seq, e.body`
  expect(events.map(({ body, webhooks }) => [JSON.parse(body).data, webhooks])).toEqual([
    [
      {
        webhook_id: id,
        url: 'https://example.com/hooks',
        failing_since: '2026-01-31T12:00:00.000Z',
        waiting: 2,
      },
      [told.id],
    ],
  ])
})

test('the hours that an owner sets count for the webhooks of the organization, instead of those of the operator', async () => {
  const api = await startApiForTest()
  const orgId = await api.organization()
  const { token } = await api.person([{ orgId, role: 'owner' }])
  const body = { url: 'https://example.com', event_types: ['database.created'] }
  const { id } = (await call<{ id: string }>(`${api.url}/api/v1/organizations/${orgId}/webhooks`, { token, body })).body
  const platform = `${api.url}/platform/v1/organizations/${orgId}`
  await api.db`update keyhook.lanes set failures = 3, failing_since = now()`
  await passHours(api.db, 5)
  const statusWith = async (after_hours: number | null) => {
    const set = await call(`${platform}/webhook-suspension`, { token, method: 'PUT', body: { after_hours } })
    expect(set.body).toEqual({ after_hours, operator_after_hours: 24 })
    await runHealthWorkers(createTransact(api.db, () => {}))
    return (await call<{ status: string }>(`${platform}/webhooks/${id}`, { token })).body.status
  }
  expect([await statusWith(null), await statusWith(6), await statusWith(0)]).toEqual(['failing', 'failing', 'failing'])
  expect(await statusWith(5)).toBe('suspended')
})
