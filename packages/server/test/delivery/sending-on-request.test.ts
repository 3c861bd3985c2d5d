import { expect, onTestFinished, test, vi } from 'vitest'
import type { WebhookId } from '../../src/lib/ids.ts'
import { deleteWebhook } from '../../src/webhooks/sql.ts'
import { call } from '../kit/client.ts'
import { countRows } from '../kit/rows.ts'
import { until } from '../kit/until.ts'
import {
  api,
  created,
  history,
  member,
  orgId,
  owner,
  platform,
  report,
  settledHistory,
  webhookTo,
} from './support/delivering-api.ts'
import type { Reply } from './support/receiver.ts'

/*
 * Test events, redelivery and recovery.
 */

test('a test event of a suspended webhook is shown with its attempt and its end', async () => {
  const answers = [503, 200]
  const { webhook } = await webhookTo((_request, count) => ({ status: answers[count - 1]! }))
  await api.db`
    update keyhook.lanes set failures = 3, failing_since = now(), suspended_until = now() + interval '1 day',
      probe_at = now() + interval '1 hour'
    where webhook_id = ${webhook.id}`
  for (const [i, status] of ['failed', 'succeeded'].entries()) {
    const { body: sent } = await call<{ event_id: string }>(`${platform}/webhooks/${webhook.id}/test`, {
      token: owner.token,
      body: { event_type: 'backup.failed' },
    })
    type Explained = { delivered_to: { attempts: { status: string }[] }[] }
    const shown = await until(async () => {
      const { body } = await call<Explained>(`${platform}/events/${sent.event_id}`, { token: owner.token })
      return body.delivered_to[0]?.attempts.some((attempt) => attempt.status !== 'sending') && body.delivered_to
    })
    const attempt = { attempt: 1, status, response_status: answers[i] }
    expect(shown).toMatchObject([{ webhook_id: webhook.id, status, attempts: [attempt] }])
  }
})

test('a test event goes to one webhook, marked, signed and recorded', async () => {
  const { receiver, webhook, deliveries } = await webhookTo()
  const other = await webhookTo(undefined, ['invoice.paid'])
  const sent = await call<{ event_id: string }>(`${platform}/webhooks/${other.webhook.id}/test`, {
    token: owner.token,
    body: { event_type: 'backup.failed' },
  })
  expect(sent.status).toBe(202)
  await until(() => other.receiver.received.length === 1)
  const body = JSON.parse(other.receiver.received[0]!.body.toString())
  expect(body).toMatchObject({ id: sent.body.event_id, type: 'backup.failed', data: { test: true } })
  expect(receiver.received).toEqual([])
  expect(await history(deliveries)).toEqual([])
  const refused = { token: member.token, body: { event_type: 'backup.failed' } }
  expect((await call(`${platform}/webhooks/${webhook.id}/test`, refused)).status).toBe(403)
})

test('a delivery can be redelivered, and everything that never arrived can be recovered', async () => {
  let broken = true
  const { receiver, webhook, deliveries } = await webhookTo(() => ({ status: broken ? 500 : 200 }))
  const since = new Date(Date.now() - 60_000).toISOString()
  await report([created('r-1'), created('r-2'), created('r-3')])
  const failed = await settledHistory(deliveries, 3)
  expect(failed.map((one) => [one.status, one.error?.code])).toEqual(
    Array.from({ length: 3 }, () => ['failed', 'status_not_successful']),
  )
  broken = false
  const first = failed.find((one) => one.event_id === 'r-1')!
  const redeliver = `${platform}/webhooks/${webhook.id}/deliveries/${first.id}/redeliver`
  expect((await call(redeliver, { method: 'POST', token: owner.token })).status).toBe(202)
  // A valid id that does not exist.
  const unknownId = 'dlv_30000000000000000000000000'
  const missing = `${platform}/webhooks/${webhook.id}/deliveries/${unknownId}/redeliver`
  expect((await call(missing, { method: 'POST', token: owner.token })).status).toBe(404)
  const cursor = Buffer.from(unknownId).toString('base64url')
  expect((await call(`${deliveries}?limit=1&cursor=${cursor}`, { token: owner.token })).status).toBe(200)
  const again = await settledHistory(deliveries, 4)
  expect(again[0]).toMatchObject({ event_id: 'r-1', attempt: 2, status: 'succeeded' })

  const recover = `${platform}/webhooks/${webhook.id}/recover`
  const dry = await call(recover, { token: owner.token, body: { since, dry_run: true } })
  expect(dry.body).toEqual({ id: null, matching: 2 })
  const started = await call<{ id: string; matching: number }>(recover, { token: owner.token, body: { since } })
  expect(started.body.matching).toBe(2)
  const job = await until(async () => {
    const shown = await call<{ status: string; redelivered: number }>(
      `${platform}/webhooks/${webhook.id}/recoveries/${started.body.id}`,
      { token: owner.token },
    )
    return shown.body.status === 'finished' && shown.body
  })
  expect(job.redelivered).toBe(2)
  await until(() => receiver.received.length === 6)
  await settledHistory(deliveries, 6)
  const url = `${platform}/deliveries?webhook_id=${webhook.id}`
  const { body: all } = await call<{ attempt: number; redelivered: boolean }[]>(url, { token: owner.token })
  expect(all.map(({ attempt, redelivered }) => [attempt, redelivered])).toEqual([
    ...Array.from({ length: 3 }, () => [2, true]),
    ...Array.from({ length: 3 }, () => [1, false]),
  ])
  const explained = await call<{ delivered_to: { attempts: { redelivered: boolean }[] }[] }>(`${platform}/events/r-1`, {
    token: owner.token,
  })
  expect(explained.body.delivered_to[0]!.attempts.map(({ redelivered }) => redelivered)).toEqual([false, true])
  expect((await call(recover, { token: owner.token, body: { since: 'yesterday' } })).status).toBe(422)
  for (const [body, pointer] of [
    [{ since, until: since }, '/until'],
    [{ since, until: '2000-01-31T12:00:00Z', dry_run: true }, '/until'],
    [{ since: '2999-01-01T00:00:00Z' }, '/since'],
  ] as const) {
    const refused = await call(recover, { token: owner.token, body })
    expect([refused.status, refused.body], pointer).toMatchObject([422, { errors: [{ pointer }] }])
  }
})

// The body is checked before the webhook is looked up.
test.each([
  [{ since: 'yesterday' }, '/since'],
  [{ since: '2026-01-31T12:00:00Z', until: 'today' }, '/until'],
  [{ since: '2026-01-31T12:00:00Z', until: '2026-01-31T12:00:00Z' }, '/until'],
  [{ since: '2999-01-01T00:00:00Z' }, '/since'],
])('a recovery with the body %j is rejected, whether or not the webhook exists', async (body, pointer) => {
  for (const id of ['wh_01h455vb4pex5vsknk084sn02q', 'nothing']) {
    const recover = `${platform}/webhooks/${id}/recover`
    const refused = await call(recover, { token: owner.token, body })
    expect([refused.status, refused.body]).toMatchObject([422, { errors: [{ pointer }] }])
    const past = { since: '2026-01-31T12:00:00Z' }
    expect((await call(recover, { token: owner.token, body: past })).status).toBe(404)
  }
})

test('a redelivery is refused while an attempt of the delivery is in flight', async () => {
  const answer = Promise.withResolvers<Reply>()
  const { webhook, deliveries } = await webhookTo(() => answer.promise)
  await report(created('busy-1'))
  const [sending] = await until(async () => {
    const rows = await history(deliveries)
    return rows.length === 1 && rows
  })
  expect(sending!.status).toBe('sending')
  const redeliver = `${platform}/webhooks/${webhook.id}/deliveries/${sending!.id}/redeliver`
  const refused = await call(redeliver, { method: 'POST', token: owner.token })
  expect([refused.status, refused.body]).toMatchObject([409, { code: 'delivery.in_flight' }])
  answer.resolve({ status: 200 })
  await settledHistory(deliveries, 1)
  expect((await call(redeliver, { method: 'POST', token: owner.token })).status).toBe(202)
  await settledHistory(deliveries, 2)
})

// The webhook is looked up inside the transaction.
test.each([
  ['test', { event_type: 'backup.failed' }],
  ['recover', { since: '2026-01-01T00:00:00Z' }],
])('%s of a webhook that is deleted meanwhile is refused and stores nothing', async (what, body) => {
  const { webhook } = await webhookTo()
  const deleting = Promise.withResolvers<void>()
  const mayCommit = Promise.withResolvers<void>()
  const deletion = api.db.begin(async (tx) => {
    expect(await deleteWebhook(tx, orgId, webhook.id as WebhookId)).toBe(true)
    deleting.resolve()
    await mayCommit.promise
  })
  await deleting.promise
  const before = await countRows(api.db)
  const asked = call(`${platform}/webhooks/${webhook.id}/${what}`, { token: owner.token, body })
  await until(async () => {
    const [row] = await api.db`select count(*)::int as waiting from pg_locks where not granted`
    return row!.waiting > 0
  })
  mayCommit.resolve()
  await deletion
  expect((await asked).status).toBe(404)
  expect(await countRows(api.db)).toEqual(before)
})

test('a recovery without an end lasts until now by the clock of the database, not of this node', async () => {
  const { webhook, deliveries } = await webhookTo(() => ({ status: 500 }))
  await report(created())
  await settledHistory(deliveries, 1)
  const since = new Date(Date.now() - 20_000).toISOString()
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 50_000 })
  onTestFinished(() => void vi.useRealTimers())
  const body = { since, dry_run: true }
  const counted = await call(`${platform}/webhooks/${webhook.id}/recover`, { token: owner.token, body })
  expect([counted.status, counted.body]).toEqual([202, { id: null, matching: 1 }])
})
