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
