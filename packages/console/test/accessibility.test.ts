import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createClient } from '@keyhook/client'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { api, inBrowser, newPage, openAs, orgId, owner } from './support/console-test.ts'

const axePath = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

/** What axe-core finds. It is run by the debugger: the policy of the page allows no foreign script. */
async function violations(page: Page): Promise<string[]> {
  const debug = await page.context().newCDPSession(page)
  await debug.send('Runtime.evaluate', { expression: await readFile(axePath, 'utf8') })
  const expression = `axe.run(document).then(({ violations }) => JSON.stringify(violations.map(
    ({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target.join(' ')).join(', '))))`
  const answer = await debug.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true })
  return JSON.parse(answer.result.value as string) as string[]
}

const isTooWide = (page: Page) => page.evaluate<boolean>('document.documentElement.scrollWidth > innerWidth')

const paths = [
  '',
  '/keys',
  '/keys#create',
  '/webhooks',
  '/webhooks/new',
  '/deliveries',
  '/events',
  '/databases',
  '/invoices',
  '/audit',
  '/members',
  '/settings',
]
/** Each width and each theme. */
const views = [
  { theme: 'light', width: 1280 },
  { theme: 'dark', width: 390 },
] as const

async function fill(): Promise<string[]> {
  const client = createClient({ url: api.url, token: owner.token, organization: orgId })
  await client.keys.create({ name: 'a key with a long name that needs more than one line on a phone' })
  const url = `https://${'long-'.repeat(12)}name.example.com/webhooks/with/a/path?and=query`
  const webhook = await client.webhooks.create({ url, event_types: ['invoice.paid', 'database.created'] })
  const { event_id } = await client.webhooks.test(webhook.id, { event_type: 'invoice.paid' })
  const database = await client.databases.create({ name: 'orders' })
  await expect
    .poll(async () => (await client.deliveries.list({ status: 'failed' }).page()).items.length)
    .toBeGreaterThan(0)
  const [delivery] = (await client.deliveries.list().page()).items
  return [
    `/webhooks/${webhook.id}`,
    `/events/${event_id}`,
    `/deliveries?delivery=${delivery!.id}`,
    `/databases/${database.id}`,
  ]
}

inBrowser('every page', () => {
  test.for(views)('is accessible and fits while empty, %o', { timeout: 90_000 }, async ({ theme, width }) => {
    const page = await openAs(owner, '', { colorScheme: theme, viewport: { width, height: 800 } })
    for (const path of paths) {
      await page.goto(`${api.url}/console/${orgId}${path}`)
      await page.waitForLoadState('networkidle')
      expect([path, await violations(page), await isTooWide(page)]).toEqual([path, [], false])
    }
  })

  test('is accessible and fits with records', { timeout: 180_000 }, async () => {
    const full = await fill()
    for (const { theme, width } of views) {
      const page = await openAs(owner, '', { colorScheme: theme, viewport: { width, height: 800 } })
      for (const path of [...paths, ...full]) {
        await page.goto(`${api.url}/console/${orgId}${path}`)
        await page.waitForTimeout(400)
        expect([path, theme, width, await violations(page), await isTooWide(page)]).toEqual([
          path,
          theme,
          width,
          [],
          false,
        ])
      }
    }
  })

  test('also the one to sign in', async () => {
    const page = await newPage({ viewport: { width: 390, height: 800 } })
    await page.goto(`${api.url}/console/`)
    await page.getByRole('heading', { name: 'Sign in to Keyhook' }).waitFor()
    expect(await violations(page)).toEqual([])
  })
})
