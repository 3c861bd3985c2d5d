import { createClient } from '@keyhook/client'
import { createOperatorClient } from '@keyhook/client/operator'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { receiverFor } from '../../server/test/delivery/support/receiver.ts'
import { api, consoleUrl, inBrowser, openAs, orgId, owner } from './support/console-test.ts'

const clientOf = () => createClient({ url: api.url, token: owner.token, organization: orgId })

/** Events of the platform itself, as a job of it would publish them. */
async function publish(type: 'invoice.paid' | 'backup.failed', ids: readonly string[]): Promise<void> {
  const operator = createOperatorClient({ url: api.url, token: await api.operatorToken() })
  await operator.events.publish(ids.map((id) => ({ organization_id: orgId, type, data: { note: id }, id })))
}

/** What the page of an event says about the webhook with this URL. */
const lane = (page: Page, url: string) =>
  page.getByRole('region', { name: 'Webhooks' }).locator('.lane', { hasText: url })

inBrowser('events', () => {
  test('are listed newest first, without gaps, as they happen, and are filtered at an address of their own', async () => {
    await publish('invoice.paid', ['first', 'second'])
    const page = await openAs(owner, '/events')
    const rows = page.getByRole('table', { name: 'Events' }).getByRole('row')
    await rows.getByRole('link', { name: 'invoice.paid' }).first().waitFor()
    // Without a reload.
    await publish('backup.failed', ['third'])
    await rows.getByRole('link', { name: 'backup.failed' }).waitFor()
    const texts = (await rows.allInnerTexts()).slice(1)
    expect(texts.map((text) => text.match(/first|second|third/)?.[0])).toEqual(['third', 'second', 'first'])
    const numbers = texts.map((text) => Number(/\s(\d+)\s/.exec(text)?.[1]))
    expect(numbers).toEqual([numbers[2]! + 2, numbers[2]! + 1, numbers[2]])

    await page.getByLabel('Event type').selectOption('backup.failed')
    await page.waitForURL(/type=backup.failed/)
    await rows.getByRole('link', { name: 'invoice.paid' }).first().waitFor({ state: 'detached' })
    await page.reload()
    await rows.getByRole('link', { name: 'backup.failed' }).click()
    await page.waitForURL(consoleUrl('/events/third'))
    await page.getByRole('heading', { name: 'The event was sent to no webhook' }).waitFor()
    await page.goBack()
    await rows.getByRole('link', { name: 'backup.failed' }).waitFor()
  })

  test('tell which webhooks got them, which did not, and why', async () => {
    const client = clientOf()
    let status = 503
    const receiver = await receiverFor(({ path }) => (path === '/hook/late' ? { status } : {}))
    const at = (path: string) => `${receiver.url}/${path}`
    const make = (path: string, type: 'invoice.paid' | 'backup.failed' = 'invoice.paid') =>
      client.webhooks.create({ url: at(path), event_types: [type] })
    await make('good')
    await make('late')
    await make('other', 'backup.failed')
    const paused = await make('paused')
    await client.webhooks.pause(paused.id, {})
    const deleted = await make('deleted')
    await client.webhooks.pause(deleted.id, {})
    await publish('invoice.paid', ['explained'])
    await client.webhooks.delete(deleted.id)
    await make('new')
    await expect.poll(() => receiver.received.map(({ path }) => path).sort()).toEqual(['/hook/good', '/hook/late'])

    const page = await openAs(owner, '/keys')
    await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor()
    // Found by an id that somebody else chose.
    await page.keyboard.press('Control+k')
    await page.getByPlaceholder('Search, or paste an id…').fill('explained')
    await page.keyboard.press('Enter')
    await page.waitForURL(consoleUrl('/events/explained'))
    await page.getByText(/^Number \d+, /).waitFor()
    await lane(page, at('good')).getByText('Succeeded · 200').waitFor()
    await lane(page, at('good')).getByText('Delivered').waitFor()
    await lane(page, at('late')).getByText('Failed · 503').waitFor()
    await lane(page, at('late')).getByText('Failing').waitFor()
    await lane(page, at('late'))
      .getByText(/Next attempt in [\d:]+/)
      .waitFor()
    await lane(page, at('paused'))
      .getByText(/the webhook is paused and resumes in/)
      .waitFor()
    await lane(page, at('other')).getByText('The webhook is not subscribed to this event type.').waitFor()
    await lane(page, at('new')).getByText('The webhook was created after the event.').waitFor()
    await lane(page, at('deleted')).getByText('the webhook was deleted').waitFor()
    // The list counts the same webhooks.
    const list = await openAs(owner, '/events')
    const row = list.getByRole('row').filter({ hasText: 'explained' })
    for (const text of ['1 delivered', '1 failing', '1 not delivered', '1 waiting']) await row.getByText(text).waitFor()
    await list.getByRole('row').filter({ hasText: 'third' }).getByText('No webhook').waitFor()
    expect(await lane(page, at('deleted')).getByRole('link').count()).toBe(0)
    await page.getByRole('region', { name: 'Body' }).getByText('"explained"').first().waitFor()

    // The page follows what happens.
    await client.webhooks.resume(paused.id)
    await lane(page, at('paused')).getByText('Delivered').waitFor()
    status = 200
    await lane(page, at('late')).getByRole('button', { name: 'Attempt 1' }).click()
    const panel = page.getByRole('complementary', { name: 'Attempt' })
    await panel.getByRole('button', { name: 'Redeliver' }).click()
    await panel.getByRole('button', { name: 'Attempt 2' }).waitFor()
    await panel.getByRole('link', { name: 'Show event' }).click()
    await lane(page, at('late')).getByText('Delivered', { exact: true }).waitFor()
  })

  test('that do not exist are said not to', async () => {
    const page = await openAs(owner, '/events/evt_nothing')
    await page.getByRole('heading', { name: 'This page does not exist' }).waitFor()
    expect(page.url()).toBe(consoleUrl('/events/evt_nothing'))
  })
})
