import { createClient, readSequence, verifyWebhook } from '@keyhook/client'
import { createOperatorClient } from '@keyhook/client/operator'
import { expect, onTestFinished, test, vi } from 'vitest'
import { api, operatorToken, orgId, owner } from '../../server/test/delivery/support/delivering-api.ts'
import { receiverFor } from '../../server/test/delivery/support/receiver.ts'

/*
 * The client against a real server with a dispatcher.
 */

const clientOf = () => createClient({ url: api.url, token: owner.token, organization: orgId })
const operatorOf = () => createOperatorClient({ url: api.url, token: operatorToken })
const paid = (number: number) => ({ organization_id: orgId, type: 'invoice.paid', data: { number } })

async function webhookTo(receiver: { url: string }) {
  const client = clientOf()
  const webhook = await client.webhooks.create({ url: receiver.url, event_types: ['invoice.paid'] })
  onTestFinished(() => client.webhooks.delete(webhook.id))
  return webhook
}

test('a webhook is read, changed, tested, and its deliveries are sent again', async () => {
  const client = clientOf()
  const receiver = await receiverFor()
  const { id, secret } = await webhookTo(receiver)
  expect(await client.webhooks.update(id, { description: 'Billing' })).toMatchObject({ id, description: 'Billing' })

  const { event_id: eventId } = await client.webhooks.test(id, { event_type: 'invoice.paid' })
  const delivery = await vi.waitFor(async () => {
    const [first] = await client.webhooks.deliveries(id).toArray()
    expect(first).toMatchObject({ event_id: eventId, status: 'succeeded' })
    return first!
  }, 10_000)
  const { body, headers } = receiver.received[0]!
  expect(await verifyWebhook({ body, headers, secret })).toMatchObject({ id: eventId, data: { test: true } })
  expect(await client.events.get(eventId)).toMatchObject({ test: true, sequence: null })

  expect(await client.webhooks.redeliver(id, delivery.id)).toEqual({ delivery_id: delivery.id })
  await vi.waitFor(() => expect(receiver.received).toHaveLength(2), 10_000)

  const range = { since: new Date(Date.now() - 60_000).toISOString() }
  const { id: recovery } = await client.webhooks.recover(id, range)
  expect(await client.webhooks.recovery(id, recovery!)).toMatchObject({ id: recovery })
  const [listed] = await client.webhooks.list().toArray()
  expect(listed).toEqual({ ...(await client.webhooks.get(id)), health: listed!.health })
  expect(listed).toMatchObject({ description: 'Billing' })
})

test('a webhook is paused and resumed, and its secret replaced while both are valid', async () => {
  const client = clientOf()
  const receiver = await receiverFor()
  const { id, secret: old } = await webhookTo(receiver)
  expect(await client.webhooks.pause(id)).toMatchObject({ status: 'paused' })
  expect(await client.webhooks.resume(id)).toMatchObject({ status: 'active', paused_until: null })

  const { secret, secret_rotation: rotation } = await client.webhooks.rotateSecret(id, { overlap_seconds: 3_600 })
  expect(rotation).toMatchObject({ switched: false })
  const deliver = async (count: number) => {
    await client.webhooks.test(id, { event_type: 'invoice.paid' })
    await vi.waitFor(() => expect(receiver.received).toHaveLength(count), 10_000)
    return receiver.received.at(-1)!
  }
  const during = await deliver(1)
  for (const one of [secret, [old, secret]]) {
    expect(await verifyWebhook({ ...during, secret: one })).toMatchObject({ type: 'invoice.paid' })
    await verifyWebhook({ ...during, secret: one, signature: 'body' })
  }
  // A receiver that has the old secret alone is not ready.
  await expect(verifyWebhook({ ...during, secret: old })).rejects.toMatchObject({ reason: 'signature_mismatch' })

  expect(await client.webhooks.switchSecret(id)).toMatchObject({ secret_rotation: { switched: true } })
  const after = await deliver(2)
  await verifyWebhook({ ...after, secret, signature: 'body' })
  await expect(verifyWebhook({ ...after, secret: old, signature: 'body' })).rejects.toMatchObject({
    reason: 'signature_mismatch',
  })
})

test('events are listed page by page, and missed ones are read oldest first', async () => {
  const client = clientOf()
  const before = (await client.events.list({ limit: 1 }).page()).items[0]?.sequence ?? 0
  await operatorOf().events.publish([1, 2, 3].map(paid))
  const sequences = async (list: AsyncIterable<{ sequence: number }>) => {
    const found: number[] = []
    for await (const { sequence } of list) found.push(sequence - before)
    return found
  }
  expect(await sequences(client.events.list({ after: before, limit: 1 }))).toEqual([3, 2, 1])
  expect(await sequences(client.events.reconcile({ after: before + 1 }))).toEqual([2, 3])
  const none = client.events.reconcile({ after: before, eventTypes: ['backup.failed', 'database.failed'] })
  expect(await sequences(none)).toEqual([])
})

test('each delivery tells which event was sent to the webhook before it', async () => {
  const receiver = await receiverFor()
  await webhookTo(receiver)
  const reported = [paid(1), { ...paid(2), type: 'backup.failed' }, paid(3)]
  await operatorOf().events.publish(reported)
  await vi.waitFor(() => expect(receiver.received).toHaveLength(2), 10_000)
  const [first, second] = receiver.received
    .map(({ headers }) => readSequence(headers)!)
    .toSorted((a, b) => a.sequence - b.sequence)
  expect(first!.previous).toBeNull()
  expect(second).toEqual({ sequence: first!.sequence + 2, previous: first!.sequence })
})

test('a stream yields events as they happen, and its position is never lost', async () => {
  const client = clientOf()
  const before = (await client.events.list({ limit: 1 }).page()).items[0]?.sequence ?? 0
  const iterator = client.events.stream()[Symbol.asyncIterator]()
  const first = iterator.next()
  // Until the stream is open, an event would not be in it.
  await vi.waitFor(async () => {
    await operatorOf().events.publish([paid(1)])
    await expect(Promise.race([first, Promise.reject(new Error('not yet'))])).resolves.toBeDefined()
  }, 10_000)
  const { value: event } = await first
  expect(JSON.parse(event.body)).toMatchObject({ type: 'invoice.paid', data: { number: 1 } })
  expect(event.sequence).toBeGreaterThan(before)
  await iterator.return?.()

  await operatorOf().events.publish([paid(2), paid(3)])
  const sequences: number[] = []
  for await (const { sequence } of client.events.stream({ after: event.sequence, eventTypes: ['invoice.paid'] })) {
    sequences.push(sequence)
    if (sequences.length === 2) break
  }
  expect(sequences).toEqual([event.sequence + 1, event.sequence + 2])
})

test('a revoked key ends its stream', async () => {
  const { id, api_key: token } = await clientOf().keys.create({ name: 'stream' })
  const client = createClient({ url: api.url, token, organization: orgId })
  const ended = client.events.stream()[Symbol.asyncIterator]().next()
  await clientOf().keys.revoke(id)
  await expect(ended).rejects.toMatchObject({ code: 'auth.invalid_token' })
})

test('databases, backups, restores, invoices and the audit log are called as documented', async () => {
  const client = clientOf()
  const { password, ...database } = await client.databases.create({ name: 'orders' })
  expect(password).toHaveLength(32)
  expect(await client.databases.get(database.id)).toEqual(database)
  expect(await client.databases.list().toArray()).toEqual([database])
  await expect(client.backups.create(database.id)).rejects.toMatchObject({
    code: 'database.not_available',
    status: 409,
  })
  expect(await client.backups.list({ databaseId: database.id }).toArray()).toEqual([])
  await expect(client.backups.get('bak_01m7n2bnh4fk2tjd96xr5ny6p3')).rejects.toMatchObject({ code: 'not_found' })
  await expect(client.restores.create('bak_01m7n2bnh4fk2tjd96xr5ny6p3', { name: 'copy' })).rejects.toMatchObject({
    code: 'not_found',
  })
  expect(await client.restores.list().toArray()).toEqual([])
  expect(await client.invoices.list().toArray()).toEqual([])
  await client.databases.delete(database.id)
  const actions = (await client.audit.list().toArray()).map(({ action }) => action)
  expect(actions).toEqual(expect.arrayContaining(['database.created', 'database.deleted']))
})

test('a leaked key is revoked with all keys that were created with it', async () => {
  const client = clientOf()
  const leaked = await client.keys.create({ name: 'leaked' })
  const thief = createClient({ url: api.url, token: leaked.api_key, organization: orgId })
  const hidden = await thief.keys.create({ name: 'hidden' })
  expect(await client.keys.list({ limit: 1 }).toArray()).toMatchObject([
    { id: hidden.id, created_by_key: leaked.id },
    { id: leaked.id, created_by_key: null },
  ])
  const { revoked } = await client.keys.revokeWithDescendants(leaked.id)
  expect(revoked.toSorted()).toEqual([leaked.id, hidden.id].toSorted())
  expect(await client.keys.list().toArray()).toEqual([])
})

test('an operator sees what a token may do', async () => {
  const operator = operatorOf()
  expect(await operator.introspect({ token: owner.token, organization_id: orgId })).toMatchObject({
    active: true,
    token_type: 'login',
    sub: owner.userId,
    role: 'owner',
  })
  expect(await operator.introspectBatch({ tokens: ['kh_nothing', owner.token] })).toMatchObject([
    { active: false },
    { active: true },
  ])
})

/** The server gets the first request, and its answer is lost. */
function losingFirstAnswer(): typeof fetch {
  let count = 0
  return async (...request) => {
    const response = await fetch(...request)
    count += 1
    if (count > 1) return response
    await response.body?.cancel()
    throw new TypeError('the connection broke')
  }
}

test('a creation whose answer was lost is repeated, and happens once', async () => {
  const receiver = await receiverFor()
  const { id } = await webhookTo(receiver)
  const client = createClient({ url: api.url, token: owner.token, organization: orgId, fetch: losingFirstAnswer() })
  const { event_id: eventId } = await client.webhooks.test(id, { event_type: 'invoice.paid' })
  const tests = (await client.audit.list().toArray()).filter(
    (entry) => entry.action === 'webhook.tested' && entry.target_id === id,
  )
  expect(tests).toHaveLength(1)
  await vi.waitFor(() => expect(receiver.received).toHaveLength(1), 10_000)
  expect(receiver.received[0]!.headers['webhook-id']).toBe(eventId)
})

test('a key whose answer was lost exists, and is not created a second time', async () => {
  const client = createClient({ url: api.url, token: owner.token, organization: orgId, fetch: losingFirstAnswer() })
  await expect(client.keys.create({ name: 'lost' })).rejects.toMatchObject({ code: 'client.network' })
  const [lost, ...others] = (await client.keys.list().toArray()).filter(({ name }) => name === 'lost')
  expect(others).toEqual([])
  await client.keys.revoke(lost!.id)
})

test('a repetition under an idempotency key is the first record, without its secret', async () => {
  const client = clientOf()
  const idempotencyKey = crypto.randomUUID()
  const { password, ...first } = await client.databases.create({ name: 'once' }, { idempotencyKey })
  expect(password).toHaveLength(32)
  expect(await client.databases.create({ name: 'once' }, { idempotencyKey })).toEqual(first)
  await expect(client.databases.create({ name: 'other' }, { idempotencyKey })).rejects.toMatchObject({
    code: 'idempotency.key_reused',
    status: 422,
  })
  await client.databases.delete(first.id)
})

test('an operator manages organizations, users, members and tokens', async () => {
  const operator = operatorOf()
  const organization = await operator.organizations.create({ name: 'Globex' })
  expect(await operator.organizations.get(organization.id)).toEqual(organization)
  const user = await operator.users.create({ email: 'hank@example.com', name: 'Hank' })
  expect(await operator.users.list({ email: 'hank@example.com' }).toArray()).toEqual([user])
  const member = await operator.members.set(organization.id, user.id, { role: 'owner' })
  expect(await operator.members.list({ organizationId: organization.id }).toArray()).toEqual([member])
  await operator.members.remove(organization.id, user.id)
  await operator.users.delete(user.id)
  expect(await operator.members.list({ organizationId: organization.id }).toArray()).toEqual([])

  const { id, token } = await operator.tokens.create({ name: 'gateway', ttl_seconds: 60 })
  const gateway = createOperatorClient({ url: api.url, token })
  expect(await gateway.tokens.list({ limit: 1 }).toArray()).toContainEqual(expect.objectContaining({ id }))
  await operator.tokens.revoke(id)
  await expect(gateway.tokens.list().toArray()).rejects.toMatchObject({ code: 'auth.invalid_token' })
})
