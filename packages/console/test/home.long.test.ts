import { createClient } from '@keyhook/client'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { receiverFor } from '../../server/test/delivery/support/receiver.ts'
import { addAttempts } from './support/attempts.ts'
import { api, consoleUrl, inBrowser, member, openAs, orgId, owner } from './support/console-test.ts'
import { addDatabase, addStorage } from './support/database-rows.ts'

const clientOf = () => createClient({ url: api.url, token: owner.token, organization: orgId })

const region = (page: Page, name: string) => page.getByRole('region', { name })
const titles = (page: Page, name: string) =>
  region(page, name).getByRole('listitem').getByRole('link').allTextContents()

inBrowser('home', () => {
  test('of an empty organization offers next steps that lead on, and go away when they are done', async () => {
    const page = await openAs(owner, '')
    const steps = region(page, 'Next steps')
    await steps.getByRole('link', { name: 'Create database' }).click()
    await page.waitForURL(consoleUrl('/databases#create'))
    await page.getByRole('dialog', { name: 'Create database' }).waitFor()
    await page.goto(consoleUrl(''))
    await steps.getByRole('link', { name: 'Create webhook' }).click()
    await page.getByRole('heading', { name: 'Create webhook' }).waitFor()
    await page.goto(consoleUrl(''))
    await steps.getByRole('link', { name: 'Create key' }).click()
    await page.getByRole('dialog').getByLabel('Name').fill('first')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByRole('button', { name: 'Done' }).click()

    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Home' }).click()
    const done = steps.getByRole('listitem').filter({ has: page.getByLabel('Done') })
    await done.getByText('Create an API key').waitFor()
    expect(await done.count()).toBe(1)
    expect(await steps.getByRole('link', { name: 'Create key' }).count()).toBe(0)
    // Without a reload: somebody else does the rest.
    await clientOf().databases.create({ name: 'first' })
    await clientOf().webhooks.create({ url: 'https://quiet.example/', event_types: ['backup.failed'] })
    await steps.waitFor({ state: 'detached' })
    await region(page, 'Databases').getByRole('link', { name: 'first' }).waitFor()
  })

  test('counts the attempts of the last day by outcome, and the list has the same ones', async () => {
    const client = clientOf()
    const receiver = await receiverFor(({ path }) => ({ status: path === '/hook/bad' ? 500 : 200 }))
    const make = (path: string) =>
      client.webhooks.create({ url: `${receiver.url}${path}`, event_types: ['invoice.paid'] })
    const [good, bad] = [await make('/good'), await make('/bad')]
    for (const { id } of [good, good, good, bad]) await client.webhooks.test(id, { event_type: 'invoice.paid' })
    const failed = () => client.deliveries.list({ status: 'failed' }).toArray()
    const succeeded = () => client.deliveries.list({ status: 'succeeded' }).toArray()
    await expect.poll(async () => [(await succeeded()).length, (await failed()).length]).toEqual([3, 1])
    // One each hour for 30 hours: 23 of them within the day, and 4 of those have failed.
    await addAttempts(good.id, { count: 30, everySeconds: 3_600, failing: 5 })

    const page = await openAs(owner, '')
    const card = region(page, 'Attempts of the last day')
    await expect.poll(() => card.locator('.legend').innerText()).toMatch(/22 succeeded\s+5 failed/)
    const cells = await card.getByRole('table').locator('td').allTextContents()
    const sum = (from: number) =>
      cells.filter((_, index) => index % 2 === from).reduce((all, one) => all + Number(one), 0)
    expect([sum(0), sum(1)]).toEqual([22, 5])

    await card.getByRole('link', { name: '5 failed' }).click()
    await page.waitForURL(/status=failed/)
    const rows = page.getByRole('list', { name: 'Attempts, newest first' }).getByRole('button')
    await expect.poll(() => rows.count()).toBe(5)
  })

  test('shows failing endpoints first, then paused ones, and unhealthy databases first', async () => {
    await addDatabase('fine', 'available')
    await addStorage(await addDatabase('full', 'available'), 'stopped', 120 * 1024 ** 2)
    await addDatabase('broken', 'failed')
    await addStorage(await addDatabase('nearly full', 'available'), 'read_only', 95 * 1024 ** 2)
    const page = await openAs(owner, '')
    await region(page, 'Databases').getByText('Read-only').waitFor()
    expect((await titles(page, 'Databases')).slice(0, 3)).toEqual(['broken', 'full', 'nearly full'])
    expect(await region(page, 'Databases').getByRole('listitem').first().innerText()).toContain('Failed')
    const urls = await titles(page, 'Endpoints')
    expect(urls.map((url) => url.replace(/^.*\//, ''))).toEqual(['bad', 'good', ''])
    await region(page, 'Endpoints').getByRole('listitem').first().getByText('Only failures').waitFor()
    // It has worked since, so most of its attempts may have failed.
    const good = (await clientOf().webhooks.list().toArray()).find(({ url }) => url.endsWith('/good'))!
    await addAttempts(good.id, { count: 60, everySeconds: 60, failing: 1 })
    await page.reload()
    const second = region(page, 'Endpoints').getByRole('listitem').nth(1)
    await second.getByText('Active, with failures').waitFor()
    expect((await clientOf().webhooks.get(good.id)).health.success_share).toBeLessThan(0.5)
    const quiet = (await clientOf().webhooks.list().toArray()).find(({ url }) => url === 'https://quiet.example/')
    await clientOf().webhooks.pause(quiet!.id)
    await api.db`
      update keyhook.lanes l set failures = 3, failing_since = now() - interval '3 hours'
      from keyhook.webhooks w where w.lane_id = l.id and w.url like '%/good'`
    for (const status of ['Failing', 'Suspended']) {
      if (status === 'Suspended') {
        await api.db`
          update keyhook.lanes set suspended_until = now() + interval '29 days', probe_at = now() + interval '40 minutes'
          where failing_since is not null`
      }
      await page.reload()
      await region(page, 'Endpoints').getByRole('listitem').first().getByText(status).waitFor()
      await region(page, 'Endpoints').getByRole('listitem').nth(1).getByText('Paused').waitFor()
      expect((await titles(page, 'Endpoints')).map((url) => url.replace(/^.*\//, ''))).toEqual(['good', '', 'bad'])
    }
    await region(page, 'Endpoints').getByRole('listitem').first().getByRole('link').click()
    await page.getByRole('alert').getByText('Suspended: every attempt has failed since').waitFor()
    await page.getByRole('heading', { name: 'Latest attempts' }).waitFor()
  })

  test('offers a member only the steps of the role', async () => {
    const page = await openAs(member, '')
    await region(page, 'Databases').getByText('broken').waitFor()
    expect(
      await region(page, 'Next steps')
        .getByRole('link', { name: /database|webhook/ })
        .count(),
    ).toBe(0)
  })
})
