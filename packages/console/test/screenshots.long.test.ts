import { mkdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@keyhook/client'
import { expect, onTestFinished, test } from 'vitest'
import { startNode } from '../../server/test/databases/support/platform.ts'
import { receiverFor } from '../../server/test/delivery/support/receiver.ts'
import { addAttempts } from './support/attempts.ts'
import { api, inBrowser, openAs, orgId, owner } from './support/console-test.ts'
import { settled } from './support/settled.ts'

/*
 * The pictures of README and docs. They are written there with KEYHOOK_SCREENSHOTS=1, and checked otherwise.
 */
const folder = process.env.KEYHOOK_SCREENSHOTS
  ? join(import.meta.dirname, '../../../docs/images')
  : join(tmpdir(), 'keyhook-screenshots')

inBrowser('pictures', () => {
  test('show the main pages with records, in both themes and two widths', { timeout: 180_000 }, async () => {
    const client = createClient({ url: api.url, token: owner.token, organization: orgId })
    const good = await receiverFor(() => ({
      body: '{"received":true}',
      headers: { 'content-type': 'application/json' },
    }))
    const bad = await receiverFor(() => ({ status: 503, body: '{"error":"maintenance"}' }))
    const orders = await client.webhooks.create({ url: good.url, event_types: ['database.created', 'invoice.paid'] })
    const billing = await client.webhooks.create({ url: bad.url, event_types: ['invoice.paid'] })
    await client.webhooks.update(orders.id, { description: 'Orders to the warehouse' })
    await client.webhooks.update(billing.id, { description: 'Billing' })
    await startNode(api)
    for (const name of ['orders', 'analytics']) await client.databases.create({ name })
    await expect
      .poll(async () => (await client.databases.list().toArray()).map(({ status }) => status))
      .toEqual(['available', 'available'])
    for (const name of ['deploy pipeline', 'billing export']) await client.keys.create({ name })
    for (let i = 0; i < 12; i++) {
      await client.webhooks.test(orders.id, { event_type: i % 3 === 0 ? 'invoice.paid' : 'database.created' })
    }
    await client.webhooks.test(billing.id, { event_type: 'invoice.paid' })
    // Besides the events of the databases.
    await expect.poll(() => good.received.length + bad.received.length).toBeGreaterThanOrEqual(13)
    await addAttempts(orders.id, { count: 800, everySeconds: 100, failing: 41 })
    await addAttempts(billing.id, { count: 300, everySeconds: 270, failing: 3 })
    const refused = async () =>
      (await client.deliveries.list({ webhookId: billing.id }).page()).items.find(
        ({ response }) => response?.status === 503,
      )
    await expect.poll(refused).toBeDefined()
    const failed = await refused()

    await mkdir(folder, { recursive: true })
    onTestFinished(async () => {
      if (!process.env.KEYHOOK_SCREENSHOTS) await rm(folder, { recursive: true })
    })
    const shots = [
      { name: 'home', path: '', theme: 'light', width: 1280 },
      { name: 'home-dark', path: '', theme: 'dark', width: 1280 },
      {
        name: 'deliveries',
        path: `/deliveries?webhook=${billing.id}&delivery=${failed!.id}`,
        theme: 'light',
        width: 1280,
      },
      { name: 'webhooks', path: '/webhooks', theme: 'light', width: 1280 },
      { name: 'phone', path: '/webhooks', theme: 'dark', width: 390 },
    ] as const
    for (const { name, path, theme, width } of shots) {
      const page = await openAs(owner, path, {
        colorScheme: theme,
        viewport: { width, height: width === 390 ? 844 : 800 },
      })
      await settled(page)
      const file = join(folder, `console-${name}.png`)
      await page.screenshot({ path: file })
      // An empty page is a few kilobytes.
      expect((await stat(file)).size).toBeGreaterThan(20_000)
    }
  })
})
