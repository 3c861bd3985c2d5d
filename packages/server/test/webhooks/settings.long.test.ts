import { describe, expect, test } from 'vitest'
import type { WebhookId } from '../../src/lib/ids.ts'
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
} from '../delivery/support/delivering-api.ts'
import { receiverFor } from '../delivery/support/receiver.ts'
import { call } from '../kit/client.ts'
import { readDocumented } from '../kit/documented.ts'
import { until } from '../kit/until.ts'

type Shown = {
  id: string
  url: string
  status: string
  paused_until: string | null
  rate_limit: number | null
  description: string | null
  event_types: string[]
  health: { succeeded: number; failed: number; success_share: number | null; oldest_waiting_at: string | null }
}
type Problem = { errors: { pointer: string }[] }

const template = '/platform/v1/organizations/{org_id}/webhooks/{webhook_id}'

/** Calls an operation of one webhook, and checks the answer against /openapi.json. */
async function ask<T = Shown>(method: string, id: string, action = '', body?: object, token = owner.token) {
  const documented = await readDocumented(api.url)
  const url = `${platform}/webhooks/${id}${action}`
  return documented.call<T>(method, template + action, url, { token, ...(body && { body }) })
}

const show = async (id: string): Promise<Shown> => (await ask('GET', id, '', undefined, member.token)).body

describe('settings', () => {
  test('a webhook is shown alone and in the list, with the health of its deliveries', async () => {
    const { webhook, deliveries } = await webhookTo()
    await report(created())
    await settledHistory(deliveries, 1)
    const one = await show(webhook.id)
    expect(one).toMatchObject({ status: 'active', paused_until: null, rate_limit: null, description: null })
    expect(one.health).toMatchObject({ succeeded: 1, failed: 0, success_share: 1, oldest_waiting_at: null })
    const { body: list } = await call<Shown[]>(`${platform}/webhooks?limit=1`, { token: member.token })
    expect(list.map(({ id }) => id)).toEqual([webhook.id])
    expect(JSON.stringify([one, list])).not.toContain(webhook.secret)
  })

  test('given fields are changed, others stay, and null removes a value', async () => {
    const { webhook } = await webhookTo()
    const { url } = await show(webhook.id)
    await ask('PATCH', webhook.id, '', { description: 'Orders', rate_limit: 2.5 })
    const { body } = await ask('PATCH', webhook.id, '', { event_types: ['invoice.paid'] })
    expect(body).toMatchObject({ url, description: 'Orders', rate_limit: 2.5, event_types: ['invoice.paid'] })
    expect((await ask('PATCH', webhook.id, '', { description: null, rate_limit: null })).body).toMatchObject({
      description: null,
      rate_limit: null,
    })
  })

  test.each([
    ['an http:// URL', { url: 'http://example.com/' }, '/url'],
    ['an unknown event type', { event_types: ['x'] }, '/event_types/0'],
    ['a limit of zero', { rate_limit: 0 }, '/rate_limit'],
    ['a description with a line break', { description: 'a\nb' }, '/description'],
    ['a secret', { secret: 'whsec_' }, '/secret'],
  ])('%s is refused as on creation', async (_, body, pointer) => {
    const { webhook } = await webhookTo()
    const before = await show(webhook.id)
    const reply = await ask<Problem>('PATCH', webhook.id, '', body)
    expect(reply.status).toBe(422)
    expect(reply.body.errors.map((error) => error.pointer)).toContain(pointer)
    expect(await show(webhook.id)).toEqual({ ...before, health: { ...before.health, since: expect.any(String) } })
  })

  test('after a change of the URL is answered, no delivery goes to the old one, and the history shows both', async () => {
    const { receiver, webhook, deliveries } = await webhookTo()
    const next = await receiverFor()
    await ask('PATCH', webhook.id, '', { rate_limit: 20 })
    await report(Array.from({ length: 60 }, () => created()))
    await until(() => receiver.received.length > 5)
    await ask('PATCH', webhook.id, '', { url: next.url })
    const before = receiver.received.length
    const rows = await settledHistory(deliveries, 60)
    expect(receiver.received.length).toBe(before)
    expect(next.received.length).toBe(60 - before)
    expect(before).toBeLessThan(60)
    expect(rows.filter((row) => row.request.url === new URL(next.url).href)).toHaveLength(60 - before)
    expect(rows.filter((row) => row.request.url === new URL(receiver.url).href)).toHaveLength(before)
  })

  test('an event explains that a webhook was not subscribed to it then', async () => {
    const { webhook } = await webhookTo(undefined, ['invoice.paid'])
    const { body } = await report(created())
    await ask('PATCH', webhook.id, '', { event_types: ['database.created'] })
    const { body: event } = await call<{ not_delivered_to: { webhook_id: string; reason: string }[] }>(
      `${platform}/events/${body.id}`,
      { token: owner.token },
    )
    const found = event.not_delivered_to.find((one) => one.webhook_id === webhook.id)
    expect(found?.reason).toBe('not_subscribed')
  })
})

describe('pause', () => {
  test('events wait, test events too, and are sent in order once the webhook is resumed', async () => {
    const { receiver, webhook, deliveries } = await webhookTo()
    const { body: paused } = await ask('POST', webhook.id, '/pause')
    expect(paused.status).toBe('paused')
    const days = (Date.parse(paused.paused_until!) - Date.now()) / 86_400_000
    expect(days).toBeGreaterThan(6.9)
    expect(days).toBeLessThan(7.1)
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.push((await report(created())).body.id)
    const sample = await ask<{ event_id: string }>('POST', webhook.id, '/test', { event_type: 'invoice.paid' })
    ids.push(sample.body.event_id)
    // The wakes are taken, and the lane is not due before the end of the pause.
    await until(async () => (await api.db`select from keyhook.wakes where org_id = ${orgId}`).count === 0)
    expect((await show(webhook.id)).health.oldest_waiting_at).not.toBeNull()
    const [lane] = await api.db<{ due: boolean }[]>`
      select due_at = paused_until as due from keyhook.lanes where webhook_id = ${webhook.id as WebhookId}`
    expect(lane!.due).toBe(true)
    expect(await history(deliveries)).toEqual([])
    expect((await ask('POST', webhook.id, '/resume')).body).toMatchObject({ status: 'active', paused_until: null })
    const rows = await settledHistory(deliveries, 6)
    expect(rows.map((row) => row.event_id).reverse()).toEqual(ids)
    expect(receiver.received.length).toBe(6)
  })

  test('after the answer no attempt starts, and at its end the pause ends by itself', async () => {
    const { receiver, webhook, deliveries } = await webhookTo()
    await ask('PATCH', webhook.id, '', { rate_limit: 20 })
    await report(Array.from({ length: 50 }, () => created()))
    await until(() => receiver.received.length > 5)
    const end = new Date(Date.now() + 2_500).toISOString()
    await ask('POST', webhook.id, '/pause', { until: end })
    const answeredAt = new Date().toISOString()
    const rows = await settledHistory(deliveries, 50)
    expect(rows.filter((row) => row.started_at > answeredAt && row.started_at < end)).toEqual([])
    expect(rows.filter((row) => row.started_at >= end).length).toBeGreaterThan(0)
    expect(rows.filter((row) => row.started_at <= answeredAt).length).toBeGreaterThan(5)
  })

  test.each([
    ['in the past', '2020-01-01T00:00:00Z'],
    ['more than 30 days ahead', new Date(Date.now() + 31 * 86_400_000).toISOString()],
    ['no time', 'tomorrow'],
  ])('an end %s is refused', async (_, end) => {
    const { webhook } = await webhookTo()
    const reply = await ask<Problem>('POST', webhook.id, '/pause', { until: end })
    expect(reply.status).toBe(422)
    expect(reply.body.errors[0]!.pointer).toBe('/until')
  })
})
