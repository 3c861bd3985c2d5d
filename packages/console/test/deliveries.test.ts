import { createClient } from '@keyhook/client'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { receiverFor } from '../../server/test/delivery/support/receiver.ts'
import { addAttempts } from './support/attempts.ts'
import { api, consoleUrl, inBrowser, member, openAs, orgId, owner } from './support/console-test.ts'

const clientOf = () => createClient({ url: api.url, token: owner.token, organization: orgId })

async function failingWebhook() {
  let status = 503
  const receiver = await receiverFor(() => ({ status, body: '{"error":"maintenance"}' }))
  const client = clientOf()
  const webhook = await client.webhooks.create({ url: receiver.url, event_types: ['invoice.paid'] })
  return {
    webhook,
    receiver,
    recover: () => {
      status = 200
    },
    send: async () => (await client.webhooks.test(webhook.id, { event_type: 'invoice.paid' })).event_id,
  }
}

const rows = (page: Page) => page.getByRole('list', { name: 'Attempts, newest first' }).getByRole('button')

inBrowser('deliveries', () => {
  test('an attempt appears without a reload, and opens with its reason, its timeline and a redelivery', async () => {
    const { webhook, recover, receiver, send } = await failingWebhook()
    const page = await openAs(owner, `/deliveries?webhook=${webhook.id}`)
    await page.getByRole('heading', { name: 'No attempt matches these filters' }).waitFor()
    const eventId = await send()
    await rows(page).first().click()
    const panel = page.getByRole('complementary', { name: 'Attempt' })
    await panel.getByText('The endpoint is not available.').waitFor()
    await panel.getByText('"maintenance"').waitFor()
    await panel.getByText(/^Next attempt in [\d:]+$/).waitFor()
    await panel.getByText(eventId).first().waitFor()
    expect(page.url()).toContain('delivery=dlv_')

    recover()
    await panel.getByRole('button', { name: 'Redeliver' }).click()
    await panel.getByRole('button', { name: 'Attempt 2' }).click()
    await panel.getByText('Attempt 2, ').waitFor()
    await panel.getByText('Redelivered by hand').waitFor()
    await page.setViewportSize({ width: 390, height: 844 })
    expect(await page.locator('.panel-body').evaluate(({ scrollWidth }) => scrollWidth)).toBe(390)
    await page.setViewportSize({ width: 1280, height: 800 })
    expect(receiver.received).toHaveLength(2)
    await page.keyboard.press('Escape')
    await panel.waitFor({ state: 'detached' })
    await page.getByLabel('Outcome', { exact: true }).selectOption('Failed')
    await page.waitForURL(/status=failed/)
    await rows(page).getByText('Failed · 503').waitFor()
    expect(await rows(page).count()).toBe(1)
    await page.goBack()
    await rows(page).getByText('Succeeded · 200').waitFor()
  })

  test('a link to an attempt opens it, and an event is found by its id from anywhere', async () => {
    const { webhook, send } = await failingWebhook()
    const eventId = await send()
    const page = await openAs(owner, `/deliveries?webhook=${webhook.id}`)
    await rows(page).first().click()
    await page.waitForURL(/delivery=dlv_/)
    const id = new URL(page.url()).searchParams.get('delivery')!
    await page.goto(consoleUrl(`/deliveries?status=succeeded&delivery=${id}`))
    const panel = page.getByRole('complementary', { name: 'Attempt' })
    await panel.getByText(eventId).first().waitFor()
    await panel.getByText(/^Next attempt in [\d:]+$/).waitFor()
    await clientOf().webhooks.pause(webhook.id, {})
    await panel.getByText(/the webhook is paused and resumes in/).waitFor()

    await page.goto(consoleUrl('/keys'))
    await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor()
    await page.keyboard.press('Control+k')
    await page.getByPlaceholder('Search, or paste an id…').fill(eventId)
    await page.keyboard.press('Enter')
    await page.waitForURL(consoleUrl(`/events/${eventId}`))
    await page.getByText('Test event, ').waitFor()
    expect(await page.getByText('This test event was for another webhook.').count()).toBeGreaterThan(0)
  })

  test('the button of a recovery says how many it sends again, in the time zone of its fields, before anything is sent', async () => {
    const { webhook, receiver, recover, send } = await failingWebhook()
    await send()
    await expect.poll(() => receiver.received.length).toBe(1)
    recover()
    const page = await openAs(owner, `/deliveries?webhook=${webhook.id}`)
    await rows(page).first().waitFor()
    await page.getByRole('button', { name: 'Redeliver failed' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('1 delivery did not arrive. Nothing has been sent yet.').waitFor()
    const zone = await page.evaluate<string>('Intl.DateTimeFormat().resolvedOptions().timeZone')
    await dialog.getByText(`time zone of this browser: ${zone} (GMT`).waitFor()
    expect(receiver.received).toHaveLength(1)
    await dialog.getByLabel('Until').fill('2001-01-01T00:00')
    await dialog.getByText('The start must be before the end.').waitFor()
    expect(await dialog.getByRole('button', { name: 'Redeliver' }).isDisabled()).toBe(true)
    await dialog.getByLabel('Events from').fill('2000-01-01T00:00')
    await dialog.getByText('No failed delivery in this time range.').waitFor()
    expect(await dialog.getByRole('button', { name: 'Nothing to redeliver' }).isDisabled()).toBe(true)
    await dialog.getByLabel('Until').fill('2999-01-01T00:00')
    await dialog.getByRole('button', { name: 'Redeliver 1 delivery' }).click()
    await dialog.getByRole('heading', { name: 'Redelivery is under way' }).waitFor()
    await expect.poll(() => receiver.received.length).toBe(2)
  })

  test('attempts are found by answer, error and event, and grouped by their events; one sent by hand is marked', async () => {
    const { webhook, recover, send } = await failingWebhook()
    const eventId = await send()
    const other = await send()
    const page = await openAs(owner, `/deliveries?webhook=${webhook.id}`)
    await expect.poll(() => rows(page).getByText('Failed · 503').count()).toBe(2)
    await page.getByRole('region', { name: 'Attempts' }).getByText('Event and webhook').waitFor()
    const latency = page.getByRole('region', { name: 'Latency' })
    expect(await latency.locator('.legend').textContent()).toMatch(/^p50 ?[\d.]+ m?s ?p95 ?[\d.]+ m?s$/)
    recover()
    const client = clientOf()
    const failed = await client.deliveries.list({ webhookId: webhook.id, eventId }).toArray()
    await client.webhooks.redeliver(webhook.id, failed[0]!.id)
    await rows(page).getByText('by hand').waitFor()
    await page.getByRole('combobox', { name: 'HTTP status' }).selectOption('HTTP 5xx')
    await page.waitForURL(/answer=5xx/)
    await expect.poll(() => rows(page).count()).toBe(2)
    await page.getByRole('combobox', { name: 'Error' }).selectOption('The endpoint did not answer in time')
    await page.getByRole('button', { name: 'Clear filters' }).click()

    await page.getByLabel('Event id').fill(eventId)
    await page.keyboard.press('Enter')
    await page.waitForURL(/event=evt_/)
    await expect.poll(() => rows(page).count()).toBe(2)
    await rows(page).getByText('by hand').click()
    await page.getByText('The retry schedule started again with it').waitFor()
    await page.getByText('Redelivered by hand: the retry schedule started again').first().waitFor()
    await page.getByRole('button', { name: 'Close' }).click()

    await page.getByLabel('Event id').fill('')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Group by event' }).click()
    const groups = page.getByRole('list', { name: 'Events, newest attempt first' }).getByRole('button')
    const group = groups.filter({ hasText: eventId })
    await group.getByText('Succeeded · 200').waitFor()
    await groups.filter({ hasText: other }).getByText('Failed · 503').waitFor()
    const closed = await groups.count()
    await group.click()
    await expect.poll(() => groups.count()).toBe(closed + 2)
    await page.reload()
    await expect.poll(() => groups.count()).toBe(closed)
  })

  test('an attempt that has ended leaves the list of those being sent, and is followed where it is open', async () => {
    const { webhook, receiver, send } = await failingWebhook()
    await send()
    await expect.poll(() => receiver.received.length).toBe(1)
    const page = await openAs(owner, '/keys')
    let isSending = true
    await page.route(/platform\/v1\/.*\/deliveries[?/]/, async (route) => {
      if (!isSending) return route.continue()
      const response = await route.fetch({ url: route.request().url().replace('status=sending', 'status=failed') })
      const sending = (attempt: object) => ({ ...attempt, status: 'sending' })
      const body = await response.json()
      return route.fulfill({ response, json: Array.isArray(body) ? body.map(sending) : sending(body) })
    })
    await page.goto(consoleUrl(`/deliveries?webhook=${webhook.id}&status=sending`))
    await rows(page).getByText('Sending').click()
    await page.waitForURL(/delivery=dlv_/)
    const outside = page.url().replace('status=sending', 'error=timeout')
    isSending = false
    await page.getByRole('heading', { name: 'No attempt matches these filters' }).waitFor()
    const panel = page.getByRole('complementary', { name: 'Attempt' })
    await panel.getByText('The endpoint is not available.').waitFor()

    isSending = true
    await page.goto(outside)
    await panel.getByText('Sending').waitFor()
    isSending = false
    await panel.getByText('The endpoint is not available.').waitFor()
  })

  test('charts of more attempts than are counted say from when on they are', async () => {
    const { receiver, send } = await failingWebhook()
    await send()
    await expect.poll(() => receiver.received.length).toBe(1)
    const page = await openAs(owner, '/deliveries')
    const titles = page.locator('figcaption > strong')
    await expect.poll(() => titles.allTextContents()).toEqual(['Outcomes, last 24 hours', 'Latency, last 24 hours'])
    await page.route(/\/delivery-summary\?/, async (route) => {
      const response = await route.fetch()
      const since = new Date(Date.now() - 3_600_000).toISOString()
      return route.fulfill({ response, json: { ...(await response.json()), since } })
    })
    await page.reload()
    await titles.getByText(/^Outcomes, newest attempts, since [A-Z][a-z]+ \d+, \d\d:\d\d$/).waitFor()
    await page.goto(consoleUrl(''))
    await page.getByRole('heading', { name: /^Newest attempts, since [A-Z][a-z]+ \d+, \d\d:\d\d$/ }).waitFor()
  })

  test('a filter by a deleted webhook is shown, and a recovery starts with one that exists', async () => {
    const [kept, deleted] = [await failingWebhook(), await failingWebhook()]
    await clientOf().webhooks.delete(deleted.webhook.id)
    const page = await openAs(owner, `/deliveries?webhook=${deleted.webhook.id}`)
    await page.getByRole('button', { name: 'Redeliver failed' }).click()
    const dialog = page.getByRole('dialog')
    const chosen = await dialog.getByLabel('Webhook').inputValue()
    expect((await clientOf().webhooks.list().toArray()).map(({ id }) => id)).toContain(chosen)
    await dialog.getByText(/No failed delivery|did not arrive\. Nothing/).waitFor()
    await page.getByRole('button', { name: 'Cancel' }).click()
    const filter = page.getByRole('search').getByLabel('Webhook')
    expect(await filter.inputValue()).toBe(deleted.webhook.id)
    await filter.selectOption({ label: kept.webhook.url.replace('https://', '') })
    await page.waitForURL((url) => url.searchParams.get('webhook') === kept.webhook.id)
  })

  test('a long list holds what is seen, loads older attempts while one scrolls, and keeps them when it is not live', async () => {
    const { webhook, receiver, send } = await failingWebhook()
    await send()
    await expect.poll(() => receiver.received.length).toBe(1)
    await addAttempts(webhook.id, { count: 450, everySeconds: 120, failing: 7 })
    const page = await openAs(owner, `/deliveries?webhook=${webhook.id}`)
    await rows(page).first().waitFor()
    const requests = { newest: 0, older: 0 }
    let isBroken = true
    await page.route(/platform\/v1\/.*\/deliveries\?/, (route) => {
      const isOlder = route.request().url().includes('cursor=')
      requests[isOlder ? 'older' : 'newest'] += 1
      return isOlder && isBroken ? route.fulfill({ status: 500 }) : route.continue()
    })
    await page.mouse.wheel(0, 20_000)
    // A page that fails is not asked for again before somebody wants it.
    await page.getByText('The list could not be updated.').waitFor()
    const { newest, older } = requests
    await expect.poll(() => requests.newest).toBeGreaterThan(newest + 1)
    expect(requests.older).toBe(older)
    isBroken = false
    await page.getByRole('button', { name: 'Try again' }).click()
    await expect
      .poll(async () => {
        await page.mouse.wheel(0, 20_000)
        // Of the last page: nothing more is loaded afterwards.
        return rows(page).getByText('15 hr ago').count()
      })
      .toBeGreaterThan(0)
    expect(await rows(page).count()).toBeLessThan(60)

    const list = page.getByRole('list', { name: 'Attempts, newest first' })
    const height = await list.getAttribute('style')
    await page.getByRole('button', { name: 'Live', exact: true }).click()
    await page.getByRole('button', { name: 'Paused' }).click()
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor()
    const before = requests.newest
    await expect.poll(() => requests.newest).toBeGreaterThan(before + 1)
    expect(await list.getAttribute('style')).toBe(height)
  })

  test('a time is chosen with a click on a bar, or by hand, and stays in the address', async () => {
    const { webhook, receiver, send } = await failingWebhook()
    await send()
    await expect.poll(() => receiver.received.length).toBe(1)
    await addAttempts(webhook.id, { count: 20, everySeconds: 3_600, failing: 100 })
    const page = await openAs(owner, `/deliveries?webhook=${webhook.id}`)
    await rows(page).getByText('Succeeded').first().waitFor()
    await expect.poll(() => rows(page).count()).toBeGreaterThan(15)
    const bars = page.getByRole('region', { name: 'Outcomes' }).locator('.chart-target')
    await bars.nth(10).locator('..').click()
    await page.waitForURL(/since=.*until=/)
    await expect.poll(() => rows(page).count()).toBe(1)
    const clear = async (label: string) => {
      await page.getByLabel(label).fill('')
      await page.getByLabel(label).blur()
    }
    await clear('From')
    await page.waitForURL((url) => !url.searchParams.has('since') && url.searchParams.has('until'))
    await page.getByLabel('From').fill('2020-01-01T12:00')
    await page.waitForURL(/since=2020-01-01/)
    await clear('Until')
    await page.waitForURL((url) => !url.searchParams.has('until'))
    await expect.poll(() => rows(page).count()).toBeGreaterThan(5)
    // All of that is one step of the history.
    await page.goBack()
    await page.waitForURL((url) => !url.searchParams.has('since') && !url.searchParams.has('until'))
    await page.goForward()
    await page.reload()
    expect(await page.getByLabel('Time').inputValue()).toBe('chosen')
    await page.getByLabel('Time').selectOption('Last hour')
    await rows(page).getByText('Failed · 503').waitFor()
    await expect.poll(() => rows(page).count()).toBeLessThan(3)
    expect(page.url()).not.toContain('since=')
  })

  test('a member sees deliveries, and is not offered to send them again', async () => {
    const { webhook, send } = await failingWebhook()
    await send()
    const page = await openAs(member, `/deliveries?webhook=${webhook.id}`)
    await rows(page).first().click()
    await page.getByRole('button', { name: 'Copy as curl' }).waitFor()
    expect(await page.getByRole('button', { name: 'Redeliver' }).count()).toBe(0)
    expect(await page.getByRole('button', { name: 'Redeliver failed' }).count()).toBe(0)
  })
})
