import { mkdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@keyhook/client'
import { expect, onTestFinished, test } from 'vitest'
import { uuid7 } from '../../server/src/kernel/uuid7.ts'
import { ensurePartitions } from '../../server/src/store/delivery/partitions.ts'
import { receiverFor } from '../../server/test/webhooks/support/receiver.ts'
import { api, inBrowser, openAs, orgId, owner } from './support/console-test.ts'

/*
 * The pictures of README and docs. They are written there with KEYHOOK_SCREENSHOTS=1, and checked otherwise.
 */
const folder = process.env.KEYHOOK_SCREENSHOTS
  ? join(import.meta.dirname, '../../../docs/images')
  : join(tmpdir(), 'keyhook-screenshots')

const hourMs = 3_600_000

/** A day of attempts: most succeed, and around noon some fail. */
async function addDay(webhookId: string, share: (hour: number) => number): Promise<void> {
  const now = Date.now()
  await ensurePartitions(api.db, now - 24 * hourMs)
  for (let hour = 1; hour < 24; hour++) {
    const count = 30 + Math.round(20 * Math.sin(hour / 3))
    for (let i = 0; i < count; i++) {
      const at = now - hour * hourMs + (i / count) * hourMs * 0.9
      const status = i / count < share(hour) ? 'succeeded' : 'failed'
      await api.db`
        insert into keyhook.attempts (lane_id, id, org_id, event_seq, attempt, status, started_at, duration_us)
        select w.lane_id, ${uuid7(Math.round(at))}, w.org_id, d.event_seq, 2, ${status}, to_timestamp(${at} / 1000.0),
          ${Math.round(40_000 + 30_000 * Math.abs(Math.sin(i)))}
        from keyhook.webhooks w join keyhook.deliveries d on d.lane_id = w.lane_id
        where w.org_id = ${orgId} and w.id = ${webhookId} limit 1`
    }
  }
}

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
    for (const name of ['orders', 'analytics']) await client.databases.create({ name })
    for (const name of ['deploy pipeline', 'billing export']) await client.keys.create({ name })
    for (let i = 0; i < 12; i++) {
      await client.webhooks.test(orders.id, { event_type: i % 3 === 0 ? 'invoice.paid' : 'database.created' })
    }
    await client.webhooks.test(billing.id, { event_type: 'invoice.paid' })
    await expect.poll(() => good.received.length + bad.received.length, { timeout: 10_000 }).toBe(13)
    await addDay(orders.id, (hour) => (hour > 10 && hour < 14 ? 0.8 : 1))
    await addDay(billing.id, () => 0.6)
    const [failed] = (await client.deliveries.list({ webhookId: billing.id, status: 'failed' }).page()).items

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
      await page.getByRole('heading', { level: 1 }).waitFor()
      await page.waitForTimeout(1_500)
      const file = join(folder, `console-${name}.png`)
      await page.screenshot({ path: file })
      // An empty page is a few kilobytes.
      expect((await stat(file)).size).toBeGreaterThan(20_000)
    }
  })
})
