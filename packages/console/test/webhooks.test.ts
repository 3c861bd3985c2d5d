import { verifyWebhook } from '@keyhook/client'
import { expect, test, vi } from 'vitest'
import { call } from '../../server/test/support/client.ts'
import { receiverFor } from '../../server/test/webhooks/support/receiver.ts'
import { api, inBrowser, openAs, orgId, owner } from './support/console-test.ts'

type Webhook = { status: string; rate_limit: number | null; description: string | null }

const read = async (id: string) =>
  (await call<Webhook>(`${api.url}/platform/v1/organizations/${orgId}/webhooks/${id}`, { token: owner.token })).body

inBrowser('webhooks', () => {
  test('errors are shown at their fields, the server’s too', async () => {
    const page = await openAs(owner, '/webhooks/new')
    await page.getByRole('checkbox', { name: /invoice.paid/ }).waitFor()
    await page.getByRole('button', { name: 'Create webhook' }).click()
    await page.getByText('Enter the URL of your endpoint.').waitFor()
    await page.getByText('Choose at least one event type.').waitFor()
    await page.getByLabel('URL').fill('https://user:password@example.com/')
    await page.getByRole('checkbox', { name: /invoice.paid/ }).check()
    await page.getByRole('button', { name: 'Create webhook' }).click()
    await page.getByText('must not contain a user name or password').waitFor()
    expect(await page.getByLabel('URL').getAttribute('aria-invalid')).toBe('true')
  })

  test('from creation with a secret that verifies deliveries to deletion', async () => {
    const receiver = await receiverFor()
    const page = await openAs(owner, '/webhooks/new')
    await page.getByLabel('URL').fill(receiver.url)
    await page.getByRole('checkbox', { name: /invoice.paid/ }).check()
    await page.getByRole('button', { name: 'Create webhook' }).click()
    const dialog = page.getByRole('dialog')
    const secret = await dialog.getByLabel('Signing secret', { exact: true }).inputValue()
    await dialog.getByRole('tab', { name: 'Python' }).click()
    await dialog.getByText('hmac.compare_digest').waitFor()
    await dialog.getByRole('button', { name: 'Done' }).click()
    await page.waitForURL(/webhooks\/wh_/)
    const id = page.url().split('/').at(-1)!

    await page.getByRole('button', { name: 'Send test event' }).click()
    await dialog.getByRole('button', { name: 'Send', exact: true }).click()
    await page.waitForURL(/events\/evt_/)
    await page.getByText('Delivered').waitFor()
    const [{ body, headers }] = receiver.received as [(typeof receiver.received)[0]]
    expect(await verifyWebhook({ body, headers, secret })).toMatchObject({ type: 'invoice.paid' })

    await page.goBack()
    const menu = async (item: string) => {
      await page.getByRole('button', { name: 'More actions' }).click()
      await page.getByRole('menuitem', { name: item }).click()
    }
    await menu('Pause')
    await dialog.getByRole('button', { name: 'Pause' }).click()
    await page.getByText('Paused; resumes by itself').waitFor()
    expect(await read(id)).toMatchObject({ status: 'paused' })
    await page.getByRole('note').getByRole('button', { name: 'Resume' }).click()
    await page.getByText('Paused; resumes by itself').waitFor({ state: 'detached' })

    await menu('Edit')
    await dialog.getByLabel('Description').fill('Billing')
    await dialog.getByLabel('Rate limit').fill('5')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page.getByText('5 per second').waitFor()
    expect(await read(id)).toMatchObject({ status: 'active', description: 'Billing', rate_limit: 5 })

    await menu('Rotate secret')
    await dialog.getByRole('button', { name: 'Rotate secret' }).click()
    const rotated = await dialog.getByLabel('Signing secret', { exact: true }).inputValue()
    expect(rotated).not.toBe(secret)
    await dialog.getByRole('button', { name: 'Done' }).click()
    await page.getByRole('button', { name: 'Use the new secret' }).click()
    await page.getByText('X-Service-Signature uses the new secret.').waitFor()

    await menu('Delete')
    await dialog.getByRole('button', { name: 'Delete webhook' }).click()
    await page.getByRole('heading', { name: 'No webhooks yet' }).waitFor()
    await vi.waitFor(async () => expect(await read(id)).toMatchObject({ code: 'not_found' }))
  })
})
