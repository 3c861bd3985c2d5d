import { verify } from '@octokit/webhooks-methods'
import { Webhook } from 'standardwebhooks'
import { expect, test } from 'vitest'
import { eraseOldSecrets } from '../../src/delivery/lane-sql.ts'
import type { WebhookId } from '../../src/lib/ids.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { abandonSecrets, resealSecrets } from '../../src/startup/master-keys.ts'
import { anySecretUnder, findLastRotations, keyIdsInUse, rotateSecret } from '../../src/webhooks/secrets-sql.ts'
import { api, created, orgId, owner, platform, report, webhookTo } from '../delivery/support/delivering-api.ts'
import { deliveryTest } from '../delivery/support/delivery-test.ts'
import type { Receiver } from '../delivery/support/receiver.ts'
import { call } from '../kit/client.ts'
import { readDocumented } from '../kit/documented.ts'
import { until } from '../kit/until.ts'

type Rotation = { started_at: string; ends_at: string; switched: boolean } | null
type Rotated = { secret: string; secret_rotation: Rotation }

const template = '/platform/v1/organizations/{org_id}/webhooks/{webhook_id}'

async function ask<T>(method: string, id: string, action: string, body?: object) {
  const documented = await readDocumented(api.url)
  const url = `${platform}/webhooks/${id}${action}`
  return documented.call<T>(method, template + action, url, { token: owner.token, ...(body && { body }) })
}

const rotate = async (id: string, body?: object) => (await ask<Rotated>('POST', id, '/rotate-secret', body)).body
const rotationOf = async (id: string) => (await ask<{ secret_rotation: Rotation }>('GET', id, '')).body.secret_rotation

const sendTest = (id: string) => ask('POST', id, '/test', { event_type: 'database.created' })

const secondsLeft = (rotation: Rotation) => (Date.parse(rotation!.ends_at) - Date.now()) / 1_000

/** Publishes an event and returns which of the secrets its delivery is signed with, by the two kinds of signature. */
async function signedWith(
  receiver: Receiver,
  secrets: Record<string, string>,
  send: () => Promise<unknown> = () => report(created()),
) {
  const before = receiver.received.length
  await send()
  await until(() => receiver.received.length > before)
  const { body, headers } = receiver.received.at(-1)!
  const text = body.toString()
  const specified: string[] = []
  const standard: string[] = []
  for (const [name, secret] of Object.entries(secrets)) {
    if (await verify(secret, text, headers['x-service-signature']!)) specified.push(name)
    try {
      new Webhook(secret).verify(text, headers)
      standard.push(name)
    } catch {}
  }
  return { specified, standard, signatures: headers['webhook-signature']!.split(' ').length }
}

test('during the overlap both secrets verify; the specified signature changes when it is switched', async () => {
  const { receiver, webhook } = await webhookTo()
  const { secret, secret_rotation: rotation } = await rotate(webhook.id)
  expect(secret).not.toBe(webhook.secret)
  expect(Date.parse(rotation!.ends_at) - Date.parse(rotation!.started_at)).toBe(30 * 86_400_000)
  const secrets = { old: webhook.secret, new: secret }
  expect(await signedWith(receiver, secrets)).toEqual({ specified: ['old'], standard: ['old', 'new'], signatures: 2 })

  const switched = await ask<{ secret_rotation: Rotation }>('POST', webhook.id, '/switch-secret')
  expect(switched.body.secret_rotation).toMatchObject({ started_at: rotation!.started_at, switched: true })
  expect(secondsLeft(switched.body.secret_rotation)).toBeCloseTo(86_400, -2)
  expect(await signedWith(receiver, secrets)).toEqual({ specified: ['new'], standard: ['old', 'new'], signatures: 2 })
  expect((await ask('POST', webhook.id, '/switch-secret')).status).toBe(200)
  const list = await call(`${platform}/webhooks`, { token: owner.token })
  expect(list.text).not.toContain('whsec_')
})

test('a test event is signed with the new secret alone before the switch', async () => {
  const { receiver, webhook } = await webhookTo()
  const { secret } = await rotate(webhook.id)
  const secrets = { old: webhook.secret, new: secret }
  const tested = await signedWith(receiver, secrets, () => sendTest(webhook.id))
  expect(tested).toEqual({ specified: ['new'], standard: ['new'], signatures: 1 })
  expect(await signedWith(receiver, secrets)).toMatchObject({ specified: ['old'] })
})

test('before the switch, another rotation replaces the new secret and keeps the old one', async () => {
  const { receiver, webhook } = await webhookTo()
  const lost = await rotate(webhook.id)
  const { secret } = await rotate(webhook.id)
  const secrets = { old: webhook.secret, lost: lost.secret, new: secret }
  expect(await signedWith(receiver, secrets)).toEqual({ specified: ['old'], standard: ['old', 'new'], signatures: 2 })
})

test('the switch decides when the old secret ends, and another call changes it', async () => {
  const { receiver, webhook } = await webhookTo()
  const { secret } = await rotate(webhook.id)
  const change = async (body: object) =>
    (await ask<{ secret_rotation: Rotation }>('POST', webhook.id, '/switch-secret', body)).body.secret_rotation
  expect(secondsLeft(await change({ overlap_seconds: 7_200 }))).toBeCloseTo(7_200, -2)
  expect(await change({ overlap_seconds: 0 })).toBeNull()
  const secrets = { old: webhook.secret, new: secret }
  expect(await signedWith(receiver, secrets)).toEqual({ specified: ['new'], standard: ['new'], signatures: 1 })
})

test('at the end of the overlap the new secret alone signs, and the old one is erased', async () => {
  const { receiver, webhook } = await webhookTo()
  const { secret } = await rotate(webhook.id, { overlap_seconds: 1 })
  const secrets = { old: webhook.secret, new: secret }
  await until(async () => (await rotationOf(webhook.id)) === null)
  expect(await signedWith(receiver, secrets)).toEqual({ specified: ['new'], standard: ['new'], signatures: 1 })
  const stored = () => api.db`select from keyhook.webhooks where id = ${webhook.id} and old_box is not null`
  expect(await stored()).toHaveLength(1)
  expect(await eraseOldSecrets(api.db)).toBe(1)
  expect(await stored()).toHaveLength(0)
  expect(await signedWith(receiver, secrets)).toEqual({ specified: ['new'], standard: ['new'], signatures: 1 })
})

test('without an overlap the old secret ends at once, also during an overlap', async () => {
  const { receiver, webhook } = await webhookTo()
  const second = await rotate(webhook.id)
  await ask('POST', webhook.id, '/switch-secret')
  expect(await ask('POST', webhook.id, '/rotate-secret')).toMatchObject({
    status: 409,
    body: { code: 'webhook.old_secret_valid' },
  })
  const third = await rotate(webhook.id, { overlap_seconds: 0 })
  expect(third.secret_rotation).toBeNull()
  const secrets = { first: webhook.secret, second: second.secret, third: third.secret }
  expect(await signedWith(receiver, secrets)).toEqual({ specified: ['third'], standard: ['third'], signatures: 1 })
  expect(await ask('POST', webhook.id, '/switch-secret')).toMatchObject({
    status: 409,
    body: { code: 'webhook.not_rotating' },
  })
})

test('both secrets are resealed, and a key that only an old secret needs counts as in use', async () => {
  const [first, second] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  const { db, orgId, addWebhook } = await deliveryTest({ KEYHOOK_MASTER_KEY: first.toString('base64') })
  const { id, secret } = await addWebhook('https://example.com/')
  const next = createMasterKeys([second])
  const sealed = next.seal('whsec_new', id)
  await db.begin((tx) => rotateSecret(tx, orgId, id, { secret: sealed, overlapSeconds: 60 }))
  const oldKey = createMasterKeys([first]).currentKeyId
  expect((await keyIdsInUse(db)).sort()).toEqual([oldKey, next.currentKeyId].sort())
  expect(await anySecretUnder(db, [oldKey])).toBe(true)

  expect(await resealSecrets(db, createMasterKeys([second, first]))).toBe(1)
  const [row] = await db`select secret_key_id, secret_box, old_key_id, old_box from keyhook.webhooks`
  expect(next.open({ keyId: row!.old_key_id, box: row!.old_box }, id)).toBe(secret)
  expect(next.open({ keyId: row!.secret_key_id, box: row!.secret_box }, id)).toBe('whsec_new')
  expect(await keyIdsInUse(db)).toEqual([next.currentKeyId])
})

test('when the key of an old secret is lost, the overlap ends and the webhook stays', async () => {
  const { receiver, webhook } = await webhookTo()
  const { secret } = await rotate(webhook.id)
  await api.db`update keyhook.webhooks set old_key_id = 'lost' where id = ${webhook.id}`
  expect(await abandonSecrets(api.db, 'lost')).toBe(0)
  expect(await rotationOf(webhook.id)).toBeNull()
  const secrets = { old: webhook.secret, new: secret }
  expect(await signedWith(receiver, secrets)).toEqual({ specified: ['new'], standard: ['new'], signatures: 1 })
})

test('the time when the newest secret was made outlasts the rotation', async () => {
  const { webhook } = await webhookTo()
  const other = (await webhookTo()).webhook
  const read = async (id: string) => (await ask<{ created_at: string; secret_created_at: string }>('GET', id, '')).body
  const madeAt = async (id: string) => (await read(id)).secret_created_at
  expect(await madeAt(webhook.id)).toBe((await read(webhook.id)).created_at)
  const { secret_rotation: rotation } = await rotate(webhook.id)
  expect(await madeAt(webhook.id)).toBe(rotation!.started_at)
  await rotate(webhook.id, { overlap_seconds: 0 })
  expect(await rotationOf(webhook.id)).toBeNull()
  expect(Date.parse(await madeAt(webhook.id))).toBeGreaterThan(Date.parse(rotation!.started_at))
  expect(await madeAt(other.id)).toBe((await read(other.id)).created_at)

  // Beyond the newest rotations that are searched, it is not known.
  const search = (searched: number) =>
    api.db.begin((tx) => findLastRotations(tx, orgId, [webhook.id, other.id] as WebhookId[], searched))
  await rotate(other.id, { overlap_seconds: 0 })
  const { rotated, knownSince } = await search(1)
  expect([...rotated.keys()]).toEqual([other.id])
  expect(knownSince).toEqual(rotated.get(other.id as WebhookId))
  expect([...(await search(10_000)).rotated.keys()].sort()).toEqual([webhook.id, other.id].sort())
  expect((await search(10_000)).knownSince).toBeNull()
})
