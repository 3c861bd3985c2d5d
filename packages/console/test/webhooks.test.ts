import { createClient, verifyWebhook } from '@keyhook/client'
import { expect, test, vi } from 'vitest'
import { receiverFor } from '../../server/test/delivery/support/receiver.ts'
import { call } from '../../server/test/kit/client.ts'
import { api, inBrowser, openAs, orgId, owner } from './support/console-test.ts'

type Webhook = {
  url: string
  event_types: string[]
  status: string
  rate_limit: number | null
  description: string | null
}

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
    const secret = await page.getByLabel('Signing secret', { exact: true }).inputValue()
    expect((await page.getByRole('tab').allTextContents()).slice(0, 3)).toEqual([
      'verifyWebhook',
      'Standard Webhooks',
      'Node',
    ])
    await page.getByText("from '@keyhook/client'").waitFor()
    await page.getByRole('tab', { name: 'Python' }).click()
    await page.getByText('hmac.compare_digest').waitFor()
    await page.getByRole('link', { name: 'Go to the webhook' }).click()
    await page.waitForURL(/webhooks\/wh_/)
    expect(await page.getByText(secret).count()).toBe(0)
    const id = page.url().split('/').at(-1)!

    // The page before has a button of this name, too.
    await page.getByRole('button', { name: 'Rotate secret' }).waitFor()
    await page.getByRole('button', { name: 'Send test event' }).click()
    const types = await dialog.getByLabel('Event type').getByRole('option').allTextContents()
    expect(types.slice(0, 2)).toEqual(['invoice.paid (subscribed)', 'database.created'])
    await dialog.getByText('"test": true').waitFor()
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
    await page.getByRole('button', { name: 'Pause' }).click()
    await dialog.getByRole('button', { name: 'Pause' }).click()
    await page.getByText('Paused; resumes by itself').waitFor()
    expect(await read(id)).toMatchObject({ status: 'paused' })
    await page.getByRole('note').getByRole('button', { name: 'Resume' }).click()
    await page.getByText('Paused; resumes by itself').waitFor({ state: 'detached' })

    await menu('Edit')
    await dialog.getByLabel('Description').fill('Billing')
    await dialog.getByLabel('Rate limit').fill('5000')
    await dialog.getByLabel('URL').fill('http://example.com/')
    await dialog.getByRole('checkbox', { name: /backup.failed/ }).check()
    await dialog.getByRole('button', { name: 'Save' }).click()
    await dialog.getByText('The URL must start with https://.').waitFor()
    await dialog.getByText('Enter a number from 0.1 to 1,000, or nothing.').waitFor()
    await dialog.getByLabel('URL').fill(`${receiver.url}/new`)
    await dialog.getByLabel('Rate limit').fill('5')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page.getByText('5 per second').waitFor()
    expect(await read(id)).toMatchObject({
      url: `${receiver.url}/new`,
      event_types: ['backup.failed', 'invoice.paid'],
      status: 'active',
      description: 'Billing',
      rate_limit: 5,
    })

    await menu('Delete')
    await dialog.getByRole('button', { name: 'Delete webhook' }).click()
    await page.getByRole('heading', { name: 'No webhooks yet' }).waitFor()
    await vi.waitFor(async () => expect(await read(id)).toMatchObject({ code: 'not_found' }))
  })

  test('is created with all events, a description and a rate limit, and a test event shows what the endpoint answers', async () => {
    let status = 503
    const receiver = await receiverFor(() => ({ status, body: `{"answer":${status}}` }))
    const page = await openAs(owner, '/webhooks/new')
    await page.getByLabel('URL').fill(receiver.url)
    await page.getByLabel('Description').fill('Everything')
    await page.getByLabel('Rate limit').fill('50')
    const all = page.getByRole('checkbox', { name: /^All events/ })
    const one = page.getByRole('checkbox', { name: /invoice.paid/ })
    await one.check()
    expect(await all.evaluate((box: { indeterminate: boolean }) => box.indeterminate)).toBe(true)
    await all.check()
    await one.uncheck()
    expect(await all.isChecked()).toBe(false)
    await all.check()
    await page.getByRole('button', { name: 'Create webhook' }).click()
    await page.getByRole('heading', { name: 'Webhook created' }).waitFor()
    const { id } = (
      await createClient({ url: api.url, token: owner.token, organization: orgId }).webhooks.list().page()
    ).items[0]!
    const { event_types: types, ...made } = await read(id)
    expect(made).toMatchObject({ description: 'Everything', rate_limit: 50 })
    expect(types.length).toBeGreaterThan(5)

    const result = page.getByRole('region', { name: 'Test' })
    await page.getByLabel('Event type').selectOption('backup.failed')
    await result.getByRole('button', { name: 'Send test event' }).click()
    await result.getByText('HTTP 503: The endpoint is not available').waitFor()
    await result.getByText('Failed · 503').waitFor()
    await result.getByText(/Attempt 1 took [\d.]+ m?s/).waitFor()
    await result.getByText('"answer": 503').waitFor()
    await result.getByText(/Next attempt in [\d:]+/).waitFor()
    status = 200
    await result.getByRole('button', { name: 'Send another test event' }).click()
    await result.getByText('Your endpoint accepted the test event.').waitFor()
    await result.getByText('"answer": 200').waitFor()
    expect(await result.getByText('"answer": 503').count()).toBe(0)
    expect(receiver.received.every(({ headers }) => headers['x-service-event'] === 'backup.failed')).toBe(true)
  })

  test('that cannot be saved whole is created all the same, with its secret and the reason', async () => {
    const page = await openAs(owner, '/webhooks/new')
    await page.route(/\/platform\/v1\/.*\/webhooks\/wh_[^/]+$/, (route) =>
      route.request().method() === 'PATCH' ? route.abort() : route.continue(),
    )
    await page.getByLabel('URL').fill('https://half.example.com/')
    await page.getByLabel('Description').fill('Half')
    await page.getByRole('checkbox', { name: /^All events/ }).check()
    await page.getByRole('button', { name: 'Create webhook' }).click()
    await page.getByText(/has no description and no rate limit: The server cannot be reached/).waitFor()
    expect(await page.getByLabel('Signing secret', { exact: true }).inputValue()).toMatch(/^whsec_/)
  })

  test('shows the attempts of its endpoint alone, what waits, when the next attempt is, and how old the secret is', async () => {
    const client = createClient({ url: api.url, token: owner.token, organization: orgId })
    const failing = await receiverFor(() => ({ status: 500 }))
    const other = await receiverFor()
    const make = (url: string) => client.webhooks.create({ url, event_types: ['invoice.paid'] })
    const [{ id }, another] = [await make(failing.url), await make(other.url)]
    for (const one of [id, id, another.id, another.id, another.id])
      await client.webhooks.test(one, { event_type: 'invoice.paid' })
    await expect.poll(async () => (await client.webhooks.get(id)).health.failed).toBe(2)
    await expect.poll(async () => (await client.webhooks.get(another.id)).health.succeeded).toBe(3)

    const page = await openAs(owner, `/webhooks/${id}`)
    const chart = page.getByRole('region', { name: 'Outcomes' })
    await expect.poll(() => chart.locator('.legend').innerText()).toMatch(/0 succeeded\s+2 failed/)
    expect(await chart.locator('.chart-grid text').allTextContents()).toEqual(['0', '1', '2', '3'])
    const health = page.getByRole('region', { name: 'Health' })
    await expect.poll(() => health.innerText()).toMatch(/0%\s+2 attempts in 24 hours/)
    await expect.poll(() => health.innerText()).toMatch(/Waiting\n2\n[\s\S]*Next attempt\nin \d+:\d\d/)
    const settings = page.getByRole('region', { name: 'Settings' })
    expect(await settings.innerText()).toMatch(/Secret\n+whsec_… made (just now|\d+ sec ago)/)
    await page.getByLabel('Time of the charts').selectOption('Last 7 days')
    await chart.getByRole('img', { name: 'Outcomes' }).waitFor()
    await client.webhooks.pause(id, {})
    await page.getByRole('button', { name: 'Resume' }).first().waitFor()
    await expect.poll(() => health.innerText()).toMatch(/Next attempt\nin 7 days/)
  })

  test('a secret is rotated in three steps, and a test event shows whether the endpoint is ready', async () => {
    const accepted: string[] = []
    const receiver = await receiverFor(async ({ body, headers }) => {
      const check = verifyWebhook({ body, headers, secret: accepted, signature: 'body' })
      return {
        status: await check.then(
          () => 200,
          () => 401,
        ),
      }
    })
    const client = createClient({ url: api.url, token: owner.token, organization: orgId })
    const { id, secret } = await client.webhooks.create({ url: receiver.url, event_types: ['invoice.paid'] })
    accepted.push(secret)
    const page = await openAs(owner, `/webhooks/${id}`)
    const dialog = page.getByRole('dialog')
    await page.getByRole('button', { name: 'Rotate secret' }).click()
    await dialog.getByRole('button', { name: 'Create new secret' }).click()
    const rotated = await dialog.getByLabel('New signing secret', { exact: true }).inputValue()
    await dialog.getByRole('tab', { name: 'Rust' }).click()
    await dialog.getByText('&[old_secret, new_secret]').waitFor()
    await client.webhooks.pause(id, {})
    await dialog.getByRole('button', { name: 'Send test event' }).click()
    await dialog.getByText(/The webhook is paused\. The test event is sent when it resumes, in \d+ days\./).waitFor()
    await client.webhooks.resume(id)
    await dialog.getByText('HTTP 401').waitFor()
    await dialog.getByText('A wrong secret is the usual reason').waitFor()

    // Closed and opened again, it continues where it was.
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: 'Continue the rotation' }).click()
    await dialog.getByRole('button', { name: 'Create another' }).click()
    const another = await dialog.getByLabel('New signing secret', { exact: true }).inputValue()
    expect(another).not.toBe(rotated)
    accepted.push(another)
    await dialog.getByRole('button', { name: 'Send test event' }).click()
    await dialog.getByText('Your endpoint accepts the new secret.').waitFor()
    await dialog.getByLabel('The old secret ends').selectOption('In 24 hours')
    await dialog.getByRole('button', { name: 'Switch to the new secret' }).click()
    await page.getByRole('note').getByText('The old one ends in 24 h').waitFor()
    accepted.shift()
    await client.webhooks.test(id, { event_type: 'invoice.paid' })
    await expect.poll(async () => (await client.webhooks.get(id)).secret_rotation?.switched).toBe(true)

    await page.getByRole('button', { name: 'Change the end' }).click()
    await dialog.getByLabel('The old secret ends').selectOption('At once')
    await dialog.getByRole('button', { name: 'Change the end' }).click()
    // The note is hidden while the dialog is open, before anything was sent.
    await expect.poll(async () => (await client.webhooks.get(id)).secret_rotation).toBeNull()
    await page.getByRole('note').waitFor({ state: 'detached' })
  })
})
