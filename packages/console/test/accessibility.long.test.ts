import { createClient } from '@keyhook/client'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { expectAccessible, widths } from './support/axe.ts'
import { api, consoleUrl, inBrowser, newPage, openAs, orgId, owner, signInLink } from './support/console-test.ts'
import { settled } from './support/settled.ts'

const paths = [
  '',
  '/keys',
  '/webhooks',
  '/webhooks/new',
  '/deliveries',
  '/events',
  '/databases',
  '/invoices',
  '/audit',
  '/members',
  '/settings',
  '/account',
]

/** Records with long names, a suspended webhook among them, and the paths of their pages. */
async function fill() {
  const client = createClient({ url: api.url, token: owner.token, organization: orgId })
  await client.keys.create({ name: 'a key with a long name that needs more than one line on a phone' })
  await client.keys.createRestricted({
    name: 'restricted',
    permissions: ['webhooks:read', 'deliveries:read', 'databases:read', 'databases:delete'],
    allowed_networks: ['203.0.113.0/24', '2001:db8::/32'],
    expires_at: '2099-01-01T00:00:00Z',
  })
  const url = `https://${'long-'.repeat(12)}name.example.com/webhooks/with/a/path?and=query`
  const webhook = await client.webhooks.create({ url, event_types: ['invoice.paid', 'database.created'] })
  const { event_id } = await client.webhooks.test(webhook.id, { event_type: 'invoice.paid' })
  const database = await client.databases.create({ name: 'orders' })
  const service = await client.serviceMembers.create({ name: 'a service member', role: 'member' })
  await client.serviceMembers.createKey(service.user_id, { name: 'a key that acts as a service member' })
  await client.invitations.create({ email: 'grace@example.com', role: 'member' })
  await expect
    .poll(async () => (await client.deliveries.list({ status: 'failed' }).page()).items.length)
    .toBeGreaterThan(0)
  const [delivery] = (await client.deliveries.list().page()).items
  await api.db`
    update keyhook.lanes set failures = 3, failing_since = now() - interval '30 hours',
      suspended_until = now() + interval '29 days', probe_at = now() + interval '40 minutes'
    where webhook_id = ${webhook.id}`
  return {
    webhook: `/webhooks/${webhook.id}`,
    event: `/events/${event_id}`,
    delivery: `/deliveries?delivery=${delivery!.id}`,
    byEvent: '/deliveries?group=event',
    allKeys: '/keys?status=all',
    database: `/databases/${database.id}`,
  }
}

const click = (name: string | RegExp) => (page: Page) => page.getByRole('button', { name }).first().click()

/** Up to the answer to a test event. */
async function createWebhook(page: Page): Promise<void> {
  await page.getByLabel('URL').fill(`https://${'long-'.repeat(12)}name.example.com/another`)
  await page.getByRole('checkbox', { name: /^All events/ }).check()
  await click('Create webhook')(page)
  await click('Send test event')(page)
  await page.getByText('The host name could not be found').waitFor()
}

const ofKey = (action: string) => async (page: Page) => {
  await click(/^More actions for/)(page)
  await page.getByRole('menuitem', { name: action }).click()
  await page.getByRole('dialog').waitFor()
}

inBrowser('every page', () => {
  test('is accessible and fits while empty', { timeout: 300_000 }, async () => {
    const page = await openAs(owner, '')
    for (const width of widths) {
      await page.setViewportSize({ width, height: 800 })
      for (const path of paths) {
        await page.goto(consoleUrl(path))
        await expectAccessible(page, `${path} at ${width}`)
      }
    }
  })

  test('is accessible and fits with records, dialogs and menus', { timeout: 600_000 }, async () => {
    const full = await fill()
    const opened: [string, (page: Page) => Promise<unknown>][] = [
      ['/keys#create', async () => {}],
      ['/keys#create', (page) => page.getByRole('radio', { name: /^Choose/ }).check()],
      ['/keys', click(/^Revoke/)],
      ['/keys', ofKey('Edit')],
      ['/keys', ofKey('Rotate')],
      ['/settings', click('Change limit')],
      ['/databases#create', async () => {}],
      ['/members#invite', async () => {}],
      ['/members', click('Create service member')],
      ['/members', click('Create key for a service member')],
      ['/members', click('Remove a service member')],
      ['/audit', click('Details')],
      ['/deliveries', click('Redeliver failed')],
      ['/deliveries?since=2026-01-01T00:00:00Z', async () => {}],
      [full.webhook, click('More actions')],
      [full.webhook, click('Send test event')],
      [full.webhook, click('Pause')],
      [full.webhook, click('Rotate secret')],
      ['/webhooks/new', createWebhook],
      [full.database, click('Delete')],
      [full.database, click('Change schedule')],
      ['', (page) => page.keyboard.press('Control+k')],
    ]
    const page = await openAs(owner, '')
    for (const width of widths) {
      await page.setViewportSize({ width, height: 800 })
      for (const path of [...paths, ...Object.values(full)]) {
        await page.goto(consoleUrl(path))
        await expectAccessible(page, `${path} at ${width}`)
      }
      for (const [path, open] of opened) {
        // Through an empty page, or a path that differs in its fragment alone would not be loaded again.
        await page.goto('about:blank')
        await page.goto(consoleUrl(path))
        await settled(page)
        await open(page)
        if (!path.includes('since=') && open !== createWebhook)
          await page.getByRole('dialog').or(page.getByRole('menu')).first().waitFor()
        await expectAccessible(page, `${path}, opened, at ${width}`)
      }
    }
    await page.goto(consoleUrl(''))
    await click('Open the menu')(page)
    await page.getByRole('dialog', { name: 'Menu' }).waitFor()
    await expectAccessible(page, 'the menu of a phone')
    await page.getByRole('button', { name: /^Account/ }).click()
    await page.getByRole('menuitem', { name: 'Sign out', exact: true }).waitFor()
    await expectAccessible(page, 'the menu of the account')
  })

  test('of the operator is accessible too, and so are those before signing in', { timeout: 300_000 }, async () => {
    const guest = await newPage()
    await guest.goto(`${api.url}/console/`)
    const page = await newPage()
    await page.goto(await signInLink(null))
    await page.waitForURL('**/console/operator')
    for (const width of widths) {
      for (const one of [guest, page]) await one.setViewportSize({ width, height: 800 })
      await expectAccessible(guest, `sign-in at ${width}`)
      for (const path of ['', '/organizations', '/users', '/tokens']) {
        await page.goto(`${api.url}/console/operator${path}`)
        await expectAccessible(page, `operator${path} at ${width}`)
      }
      await page.goto(consoleUrl('/webhooks'))
      await page.getByRole('heading', { name: 'Open “Acme” to read?' }).waitFor()
      await expectAccessible(page, `opening an organization at ${width}`)
    }
    await guest.goto(`${api.url}/console/invitation#no-such-invitation`)
    await guest.getByRole('alert').or(guest.locator('.notice')).first().waitFor()
    await expectAccessible(guest, 'an invitation that is over')
  })

  test('has landmarks, one main heading, and names for everything', async () => {
    const page = await openAs(owner, '/webhooks')
    await settled(page)
    expect(await page.getByRole('main').count()).toBe(1)
    expect(await page.getByRole('navigation', { name: 'Main' }).count()).toBe(1)
    expect(await page.getByRole('heading', { level: 1 }).count()).toBe(1)
    const tree = await page.locator('body').ariaSnapshot()
    expect(tree).toContain('heading "Webhooks" [level=1]')
    expect(tree).toContain('button "Search Ctrl K"')
    // A control without a name would be a line of its role alone.
    expect(tree.match(/^\s*- (button|link|textbox|combobox|checkbox)$/gm)).toBeNull()
  })

  test('says what failed, and loads after "Try again"', async () => {
    const page = await openAs(owner, '/settings')
    for (const path of paths.filter((one) => !['/settings', '/webhooks/new', '/account'].includes(one))) {
      await page.route(/\/(api|platform)\/v1\//, (route) => route.abort())
      await page.goto(consoleUrl(path))
      const again = page.getByRole('main').getByRole('button', { name: 'Try again' })
      await again.first().waitFor()
      await page.getByText('The server cannot be reached.').first().waitFor()
      await page.unrouteAll()
      await expect
        .poll(async () => {
          if ((await again.count()) > 0) await again.first().click()
          return again.count()
        })
        .toBe(0)
      await settled(page)
    }
  })
})
