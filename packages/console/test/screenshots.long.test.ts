import { mkdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@keyhook/client'
import { createOperatorClient } from '@keyhook/client/operator'
import type { Page } from 'playwright-core'
import { expect, onTestFinished, test } from 'vitest'
import { startNode } from '../../server/test/databases/support/platform.ts'
import { receiverFor } from '../../server/test/delivery/support/receiver.ts'
import { atLocalhost } from '../../server/test/login/support/passkeys.ts'
import { addAttempts } from './support/attempts.ts'
import { api, inBrowser, member, newPage, orgId, owner, signInLink } from './support/console-test.ts'
import { settled } from './support/settled.ts'

/*
 * The pictures of README and docs. They are written there with KEYHOOK_SCREENSHOTS=1, and checked otherwise.
 */
const folder = process.env.KEYHOOK_SCREENSHOTS
  ? join(import.meta.dirname, '../../../docs/images')
  : join(tmpdir(), 'keyhook-screenshots')

type Shot = {
  name: string
  /** Below the organization, or below `/console` for the operator. */
  path: string
  height?: number
  theme?: 'light' | 'dark'
  width?: number
  /** What is to be done on the page first. */
  open?: (page: Page) => Promise<unknown>
}

const answer = (status: number, body: string) => ({ status, body, headers: { 'content-type': 'application/json' } })

/** People, an organization in use for days, one webhook that fails and one that is suspended. */
async function fill() {
  const client = createClient({ url: api.url, token: owner.token, organization: orgId })
  const operator = createOperatorClient({ url: api.url, token: await api.operatorToken() })
  await api.db`
    update keyhook.users u set email = p.email, name = p.name, created_at = now() - interval '40 days'
    from (values (${owner.userId}, 'ada@acme.example', 'Ada Lovelace'), (${member.userId}, 'grace@acme.example', 'Grace Hopper'))
      p (id, email, name)
    where u.id = p.id`
  await api.db`update keyhook.memberships set created_at = now() - interval '40 days'`
  await api.db`
    insert into keyhook.passkeys (id, user_id, rp_id, credential_id, public_key, sign_count, transports, name, created_at, last_used_at)
    values ('psk_a', ${owner.userId}, 'localhost', 'a', '', 0, '{}', 'Laptop', now() - interval '40 days', now() - interval '5 hours'),
      ('psk_b', ${owner.userId}, 'localhost', 'b', '', 0, '{}', 'Security key', now() - interval '39 days', null)`
  const good = await receiverFor(() => answer(200, '{"received":true}'))
  const bad = await receiverFor(() => answer(503, '{"error":"maintenance"}'))
  const create = async (url: string, event_types: ('database.created' | 'invoice.paid')[], description: string) => {
    const webhook = await client.webhooks.create({ url, event_types })
    await client.webhooks.update(webhook.id, { description })
    return webhook.id
  }
  const reports = await create(bad.url, ['database.created'], 'Weekly reports')
  const orders = await create(good.url, ['database.created', 'invoice.paid'], 'Orders to the warehouse')
  const billing = await create(bad.url, ['invoice.paid'], 'Billing')
  const send = (id: string, event_type: 'database.created' | 'invoice.paid') => client.webhooks.test(id, { event_type })
  const failedOf = async (id: string) =>
    (await client.deliveries.list({ webhookId: id, status: 'failed' }).page()).items

  const { event_id: oldest } = await send(reports, 'database.created')
  await send(billing, 'invoice.paid')
  await expect.poll(async () => (await failedOf(reports)).length + (await failedOf(billing)).length).toBe(2)
  await api.db`update keyhook.events set created_at = now() - interval '5 days' where id = ${oldest}`
  const fail = (id: string, hours: number, suspended: boolean) => api.db`
    update keyhook.lanes set failures = 3, failing_since = now() - ${hours} * interval '1 hour',
      suspended_until = case when ${suspended} then now() + interval '25 days' end,
      probe_at = case when ${suspended} then now() + interval '40 minutes' end
    where webhook_id = ${id}`
  await fail(reports, 119, true)

  const environment = { KEYHOOK_DATABASES_PUBLIC_HOST: 'db1.example.com', KEYHOOK_POINT_IN_TIME_RESTORE: 'on' }
  await startNode(api, { environment: { ...environment, KEYHOOK_WAL_EVERY_SECONDS: '1' } })
  for (const name of ['orders', 'analytics']) await client.databases.create({ name })
  await expect
    .poll(async () => (await client.databases.list().toArray()).map(({ status }) => status))
    .toEqual(['available', 'available'])
  const database = (await client.databases.list().toArray()).find(({ name }) => name === 'orders')!.id
  const { id: backup } = await client.backups.create(database)
  await client.backups.setSchedule(database, { every_hours: 24, keep: 7 })
  await api.db`
    insert into keyhook.database_history (org_id, database_id, hour, size_bytes, connections)
    select ${orgId}, ${database}, date_trunc('hour', now()) - h * interval '1 hour',
      (7.3 - h / 40.0) * 1048576, 6 + (5 * sin(h / 3.8))::int from generate_series(1, 167) h
    on conflict do nothing`

  const pipeline = await client.keys.create({ name: 'deploy pipeline' })
  await createClient({ url: api.url, token: pipeline.api_key, organization: orgId }).webhooks.update(orders, {
    rate_limit: 50,
  })
  await client.keys.createRestricted({
    name: 'billing export',
    permissions: ['databases:read', 'invoices:read'],
    allowed_networks: ['203.0.113.0/24'],
    expires_at: new Date(Date.now() + 30 * 86_400_000).toISOString(),
  })
  const service = await client.serviceMembers.create({ name: 'CI', role: 'member' })
  await client.serviceMembers.createKey(service.user_id, { name: 'nightly tests' })
  await client.invitations.create({ email: 'linus@acme.example', role: 'admin' })

  for (let i = 0; i < 12; i++) await send(orders, i < 4 ? 'invoice.paid' : 'database.created')
  await send(billing, 'invoice.paid')
  await operator.events.publish(
    ['2026-0042', '2026-0043', '2026-0044', '2026-0045'].map((invoice) => {
      return { organization_id: orgId, type: 'invoice.paid', data: { invoice } }
    }),
  )
  // Besides the events of the databases.
  await expect.poll(() => good.received.length).toBeGreaterThanOrEqual(16)
  await expect.poll(async () => (await failedOf(billing)).length).toBe(6)
  await expect.poll(async () => (await client.backups.get(backup)).status).toBe('completed')
  await api.db`update keyhook.backups set origin = 'scheduled' where id = ${backup}`
  await expect.poll(async () => (await client.databases.get(database)).recovery_window).not.toBeNull()
  await fail(billing, 2, false)
  await addAttempts(orders, { count: 800, everySeconds: 100, failing: 399 })
  await addAttempts(billing, { count: 300, everySeconds: 270, failing: 9 })
  await addAttempts(reports, { count: 30, everySeconds: 3_600, failing: 1 })
  await api.db`
    update keyhook.attempts a
    set status = case when a.started_at > l.failing_since then 'failed' else a.status end, address = '203.0.113.7',
      response_status = case when a.status = 'failed' or a.started_at > l.failing_since then 503 else 200 end
    from keyhook.lanes l where l.id = a.lane_id`
  await api.db`
    update keyhook.webhooks w set url = 'https://acme.example/' || u.name
    from (values (${orders}, 'orders'), (${billing}, 'billing'), (${reports}, 'reports')) u (id, name) where w.id = u.id`
  await api.db`update keyhook.webhooks set created_at = now() - interval '40 days'`
  await api.db`update keyhook.databases set created_at = now() - interval '40 days'`
  await api.organization('Globex')
  return { billing, database, failed: (await failedOf(billing))[0]!.id, endpoint: atLocalhost(good.url) }
}

inBrowser('pictures', () => {
  test('show the main pages with records, also dark and on a phone', { timeout: 300_000 }, async () => {
    const { billing, database, failed, endpoint } = await fill()
    await mkdir(folder, { recursive: true })
    onTestFinished(async () => {
      if (!process.env.KEYHOOK_SCREENSHOTS) await rm(folder, { recursive: true })
    })
    const take = async (page: Page, base: string, shot: Shot) => {
      const { name, path, height = 800, theme = 'light', width = 1280, open } = shot
      await page.setViewportSize({ width, height })
      await page.emulateMedia({ colorScheme: theme })
      // Through an empty page, or a path that differs in its fragment alone would not be loaded again.
      await page.goto('about:blank')
      await page.goto(`${base}${path}`)
      await settled(page)
      await open?.(page)
      await settled(page)
      const file = join(folder, `console-${name}.png`)
      await page.screenshot({ path: file })
      // An empty page is a few kilobytes.
      expect((await stat(file)).size).toBeGreaterThan(20_000)
    }

    const elsewhere = await newPage({
      userAgent:
        'Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.0 Mobile/15E148 Safari/604.1',
    })
    await elsewhere.goto(atLocalhost(await signInLink(owner.userId)))
    await elsewhere.waitForURL(`**/console/${orgId}`)
    await api.db`update keyhook.console_sessions set address = '203.0.113.80'`
    const page = await newPage()
    await page.goto(atLocalhost(await signInLink(owner.userId)))
    await page.waitForURL(`**/console/${orgId}`)
    const shots: Shot[] = [
      { name: 'home', path: '', height: 660 },
      { name: 'home-dark', path: '', height: 660, theme: 'dark' },
      { name: 'webhooks', path: '/webhooks', height: 640 },
      { name: 'phone', path: '/webhooks', theme: 'dark', width: 390, height: 1020 },
      { name: 'webhook', path: `/webhooks/${billing}`, height: 1040 },
      { name: 'deliveries', path: `/deliveries?webhook=${billing}&delivery=${failed}` },
      { name: 'events', path: '/events', height: 640 },
      { name: 'database', path: `/databases/${database}`, height: 1120 },
      {
        name: 'keys',
        path: '/keys#create',
        height: 1080,
        open: async (one) => {
          await one.getByLabel('Name').fill('warehouse')
          await one.getByRole('radio', { name: /^Webhooks and deliveries/ }).check()
        },
      },
      { name: 'key-list', path: '/keys', height: 640 },
      { name: 'members', path: '/members', height: 720 },
      { name: 'audit', path: '/audit', height: 720 },
      { name: 'settings', path: '/settings', height: 1240 },
      { name: 'account', path: '/account', height: 640 },
    ]
    const base = atLocalhost(`${api.url}/console/${orgId}`)
    for (const shot of shots) await take(page, base, shot)

    const operator = await newPage()
    await operator.goto(await signInLink(null))
    await operator.waitForURL('**/console/operator')
    await take(operator, `${api.url}/console`, { name: 'operator', path: '/operator', height: 640 })
    await take(operator, `${api.url}/console`, {
      name: 'operator-organization',
      path: '/operator/organizations',
      height: 700,
      open: async (one) => {
        await one.getByRole('button', { name: 'Open Acme' }).click()
        await one.getByRole('dialog').getByRole('button', { name: 'Open' }).click()
        await one.getByText('You read this organization as the operator').waitFor()
      },
    })
    // Last, or the webhook would be in the other pictures.
    await take(page, base, {
      name: 'new-webhook',
      path: '/webhooks/new',
      height: 1200,
      open: async (one) => {
        await one.getByLabel('URL').fill(endpoint)
        await one.getByRole('checkbox', { name: /^invoice\.paid/ }).check()
        await one.getByRole('button', { name: 'Create webhook' }).click()
        await one.getByRole('button', { name: 'Send test event' }).click()
        await one.getByText('Your endpoint accepted the test event.').waitFor()
        await one.getByText('received').waitFor()
      },
    })
  })
})
