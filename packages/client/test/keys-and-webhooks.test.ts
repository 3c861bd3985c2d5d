import { createClient, KeyhookError } from '@keyhook/client'
import { expect, test } from 'vitest'
import { ownedApi } from '../../server/test/kit/owned-api.ts'

const api = ownedApi()
const clientOf = () => createClient({ url: api.url, token: api.owner.token, organization: api.orgId })

test('a key is created, listed and revoked', async () => {
  const client = clientOf()
  const { id, api_key: token } = await client.keys.create({ name: 'ci' })
  expect(await client.keys.list().toArray()).toMatchObject([{ id, name: 'ci', status: 'active' }])

  const asKey = createClient({ url: api.url, token })
  expect(await asKey.organizations.list().toArray()).toMatchObject([{ id: api.orgId }])

  await client.keys.revoke(id)
  await expect(asKey.organizations.list().toArray()).rejects.toMatchObject({ code: 'auth.invalid_token', status: 401 })
  expect(await client.keys.list().toArray()).toEqual([])
  expect(await client.keys.list({ status: 'revoked' }).toArray()).toMatchObject([{ id }])
})

test('a restricted key is shown, changed and rotated, and a repeated creation does not show it again', async () => {
  const { keys } = clientOf()
  const key = { name: 'report', preset: 'read_only', allowed_networks: ['203.0.113.0/24'] } as const
  const body = { ...key, allowed_networks: [...key.allowed_networks] }
  const made = await keys.createRestricted(body, { idempotencyKey: 'report' })
  const { api_key, ...shown } = made
  expect(api_key).toMatch(/^kh_/)
  expect(await keys.createRestricted(body, { idempotencyKey: 'report' })).toEqual(shown)
  const elsewhere = createClient({ url: api.url, token: api_key! })
  await expect(elsewhere.organizations.list().toArray()).rejects.toMatchObject({ code: 'auth.address_refused' })

  const changed = await keys.update(made.id, {
    name: 'reports',
    allowed_networks: null,
    permissions: ['webhooks:read'],
  })
  expect(changed).toMatchObject({ name: 'reports', allowed_networks: null, permissions: ['webhooks:read'] })
  await expect(elsewhere.organizations.list().toArray()).rejects.toMatchObject({ code: 'auth.key_restricted' })
  const next = await keys.rotate(made.id, { overlap_seconds: 0 })
  expect(await keys.get(next.id)).toMatchObject({ name: 'reports', permissions: ['webhooks:read'], expired: false })
  expect(await keys.details().toArray()).toMatchObject([{ id: next.id }])
  expect(await keys.details({ unusedDays: 1 }).toArray()).toEqual([])
  await expect(keys.update(made.id, { name: 'old' })).rejects.toMatchObject({ code: 'key.not_active' })
  await keys.revoke(next.id)
})

test('a new key lasts no longer than the organization allows', async () => {
  const { keys } = clientOf()
  expect(await keys.setLifetime({ days_max: 7 })).toEqual(await keys.lifetime())
  const { id } = await keys.create({ name: 'short' })
  expect(Date.parse((await keys.get(id)).expires_at!)).toBeLessThanOrEqual(Date.now() + 7 * 86_400_000 + 60_000)
  await keys.setLifetime({ days_max: null })
})

test('a webhook is created, listed and deleted', async () => {
  const client = clientOf()
  const { secret, ...shown } = await client.webhooks.create({
    url: 'https://example.com/hooks',
    event_types: ['invoice.paid'],
  })
  expect(secret).toMatch(/^whsec_/)
  expect(await client.webhooks.deliveries(shown.id).toArray()).toEqual([])
  await client.webhooks.delete(shown.id)
  await expect(client.webhooks.delete(shown.id)).rejects.toMatchObject({ code: 'not_found', status: 404 })
})

test('a refused field is named by its pointer', async () => {
  const error = await clientOf()
    .webhooks.create({ url: 'http://example.com', event_types: ['invoice.paid'] })
    .catch((error) => error)
  expect(error).toBeInstanceOf(KeyhookError)
  expect(error).toMatchObject({ code: 'request.invalid', status: 422, errors: [{ pointer: '/url' }] })
})
