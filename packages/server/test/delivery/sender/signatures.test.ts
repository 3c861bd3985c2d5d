import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { verify } from '@octokit/webhooks-methods'
import { Webhook } from 'standardwebhooks'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../kit/until.ts'
import { deliveryTest } from '../support/delivery-test.ts'
import { receiverFor } from '../support/receiver.ts'

async function receiveOne(environment: Record<string, string> = {}) {
  const receiver = await receiverFor()
  const world = await deliveryTest(environment)
  const webhook = await world.addWebhook(`${receiver.url}?a=1&b=ü`.replace('ü', '%C3%BC'))
  await world.startDispatcher()
  const eventId = await world.publishOne(world.orgId, 'Größe "42" \u2028 \\ 😀')
  await until(() => receiver.received.length > 0)
  return { world, webhook, eventId, request: receiver.received[0]! }
}

test('the specified headers are byte-exact, and third-party libraries verify the signatures', async () => {
  const { webhook, eventId, request } = await receiveOne()
  expect(request.path).toBe('/hook?a=1&b=%C3%BC')
  expect(request.headers['x-service-event']).toBe('database.created')
  expect(request.headers['x-service-signature']).toMatch(/^sha256=[0-9a-f]{64}$/)
  expect(request.headers['content-type']).toBe('application/json')
  expect(request.headers['user-agent']).toMatch(/^Keyhook\//)
  const text = request.body.toString('utf8')
  expect(await verify(webhook.secret, text, request.headers['x-service-signature']!)).toBe(true)
  expect(await verify(webhook.secret, `${text} `, request.headers['x-service-signature']!)).toBe(false)
  expect(new Webhook(webhook.secret).verify(text, request.headers)).toMatchObject({ id: eventId })
  expect(request.headers['webhook-id']).toBe(eventId)
})

test('openssl computes the same signature from the received bytes', async () => {
  const { webhook, request } = await receiveOne()
  const folder = mkdtempSync(join(tmpdir(), 'keyhook-signature-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'body'), request.body)
  const printed = execFileSync('openssl', ['dgst', '-sha256', '-hmac', webhook.secret, join(folder, 'body')], {
    encoding: 'utf8',
  })
  expect(`sha256=${printed.trim().split('= ').at(-1)}`).toBe(request.headers['x-service-signature'])
})

test('the service name is a setting, and the Standard Webhooks headers can be switched off', async () => {
  const { request, webhook } = await receiveOne({
    KEYHOOK_SERVICE_NAME: 'Acme-Cloud',
    KEYHOOK_DELIVERY_STANDARD_WEBHOOKS: 'off',
  })
  expect(request.headers['x-acme-cloud-event']).toBe('database.created')
  expect(await verify(webhook.secret, request.body.toString(), request.headers['x-acme-cloud-signature']!)).toBe(true)
  expect(Object.keys(request.headers).filter((name) => name.startsWith('webhook-'))).toEqual([])
})
