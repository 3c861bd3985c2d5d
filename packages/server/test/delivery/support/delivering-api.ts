import { afterAll, beforeAll, onTestFinished } from 'vitest'
import type { OrgId } from '../../../src/lib/ids.ts'
import { call } from '../../kit/client.ts'
import { dispatcherAlone } from '../../kit/composed.ts'
import { type Person, startApi, type TestApi } from '../../kit/installation.ts'
import { until } from '../../kit/until.ts'
import { deliveryEnvironment } from './delivery-test.ts'
import { receiverFor } from './receiver.ts'

/*
 * An API with a dispatcher beside it, for the tests of one file: what is reported to it is delivered.
 */

export let api: TestApi
export let orgId: OrgId
export let owner: Person
export let member: Person
export let operatorToken: string
let engine: Awaited<ReturnType<typeof dispatcherAlone>>
export let published: string
export let platform: string

beforeAll(async () => {
  api = await startApi({ ...deliveryEnvironment, KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s' })
  orgId = await api.organization()
  owner = await api.person([{ orgId, role: 'owner' }])
  member = await api.person([{ orgId, role: 'member' }])
  operatorToken = await api.operatorToken()
  engine = await dispatcherAlone(api)
  published = `${api.url}/api/v1/organizations/${orgId}`
  platform = `${api.url}/platform/v1/organizations/${orgId}`
})
afterAll(async () => {
  await engine.stop()
  await api.close()
})

type Webhook = { id: string; secret: string }
export type Delivery = {
  id: string
  event_id: string
  attempt: number
  status: string
  started_at: string
  request: { headers: Record<string, string>; url: string; timings: Record<string, number | null>; address: string }
  response: { status: number; body: string; headers: Record<string, string> } | null
  error: { code: string } | null
  next_attempt_at: string | null
}

export async function webhookTo(reply?: Parameters<typeof receiverFor>[0], eventTypes = ['database.created']) {
  const receiver = await receiverFor(reply)
  const body = { url: receiver.url, event_types: eventTypes }
  const { body: webhook } = await call<Webhook>(`${published}/webhooks`, { token: owner.token, body })
  onTestFinished(async () => {
    await call(`${published}/webhooks/${webhook.id}`, { method: 'DELETE', token: owner.token })
  })
  return { receiver, webhook, deliveries: `${published}/webhooks/${webhook.id}/deliveries` }
}

export const report = (body: unknown, token = operatorToken) =>
  call<{ id: string } & { id: string }[]>(`${api.url}/operator/v1/events`, { token, body })
export const created = (id?: string, data: object = { database_id: 'db_1' }) => ({
  organization_id: orgId,
  type: 'database.created',
  data,
  ...(id && { id }),
})
export const history = async (deliveries: string) => (await call<Delivery[]>(deliveries, { token: member.token })).body
export const settledHistory = (deliveries: string, count: number) =>
  until(async () => {
    const rows = await history(deliveries)
    return rows.filter((row) => row.status !== 'sending').length >= count && rows
  })
