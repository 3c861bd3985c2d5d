import { createClient } from '@keyhook/client'
import { expect, test } from 'vitest'
import { issueInvoice } from '../../server/src/billing/rules.ts'
import { testOperator } from '../../server/test/kit/installation.ts'
import { recordUsage } from '../../server/test/kit/usage.ts'
import { expectAccessible } from './support/axe.ts'
import { api, consoleUrl, inBrowser, newPage, openAs, orgId, owner, signInLink } from './support/console-test.ts'
import { settled } from './support/settled.ts'

const clientOf = () => createClient({ url: api.url, token: owner.token, organization: orgId })

inBrowser('an organization', () => {
  test('is renamed by an owner, and every page shows the new name', async () => {
    const page = await openAs(owner, '/settings')
    await page.getByRole('button', { name: 'Rename' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill(' ')
    await dialog.getByRole('button', { name: 'Rename' }).click()
    await dialog.getByText('Give the organization a name.').waitFor()
    await dialog.getByLabel('Name').fill('Acme & Co')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog', { name: 'Rename the organization' }).waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Organization Acme & Co' }).waitFor()
    expect(await clientOf().organizations.list().toArray()).toMatchObject([{ name: 'Acme & Co' }])
    await clientOf().organizations.update(orgId, { name: 'Acme' })
  })

  test('has an audit log that is filtered by action, person and time, at an address of its own', async () => {
    const made: string[] = []
    for (const name of ['audited', 'second', 'third']) made.push((await clientOf().keys.create({ name })).id)
    const page = await openAs(owner, '/audit')
    const rows = page.getByRole('table', { name: 'Audit log' }).getByRole('row')
    await rows.getByText('The operator created the organization Acme').waitFor()
    await page.getByLabel('Action').selectOption('API key created')
    await page.waitForURL(/action=key\.created/)
    await rows.getByText('The operator created the organization Acme').waitFor({ state: 'detached' })
    // One row for all three, which opens.
    await rows.getByText(/^You created the API key third \(kh_\w+…\) and 2 others$/).waitFor()
    await rows.getByText('3 times within a minute').waitFor()
    expect(await rows.getByText(/You created the API key audited/).count()).toBe(0)
    await page.getByLabel('Made by').selectOption('The operator')
    await page.getByRole('heading', { name: 'No entry matches these filters' }).waitFor()
    await page.goBack()
    await rows.getByRole('button', { name: 'Show all' }).waitFor()
    await page.getByLabel('Made by').selectOption('person-1@example.com')
    await page.getByLabel('Time').selectOption('Last hour')
    await page.waitForURL(/range=1h/)
    await page.reload()
    await rows.getByRole('button', { name: 'Show all' }).click()
    await rows
      .filter({ hasText: /^You created the API key audited/ })
      .getByRole('button', { name: 'Details' })
      .click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('127.0.0.1').first().waitFor()
    await dialog.getByRole('button', { name: `Copy ${made[0]}` }).waitFor()
    expect(await dialog.locator('code').textContent()).toContain('"audited"')
  })

  test('has invoices with their line items, which print without the rest of the page', async () => {
    const usage = { orgId, userId: owner.userId, from: '2020-10-01T00:00:00Z', to: '2020-10-03T12:00:00Z' }
    await recordUsage(api.db, { ...usage, name: 'shop' })
    const prices = { currency: 'EUR', hourPriceMinor: 5 }
    const issued = await issueInvoice({ db: api.db, prices }, testOperator, { orgId, month: '2020-10' })
    const page = await openAs(owner, '/invoices')
    await page.getByRole('row', { name: /October 2020 Open .* €3.00/ }).waitFor()
    await page.getByRole('link', { name: 'October 2020' }).click()
    await page.waitForURL(consoleUrl(`/invoices/${issued!.invoice.id}`))
    await page.getByRole('row', { name: 'shop 60 €0.05 €3.00' }).waitFor()
    await expectAccessible(page, 'an invoice')

    await page.emulateMedia({ media: 'print' })
    await page.getByRole('heading', { name: 'Invoice October 2020' }).waitFor()
    for (const hidden of [page.getByRole('navigation'), page.getByRole('button', { name: 'Print' })]) {
      await expect.poll(async () => (await hidden.all()).length).toBe(0)
    }
    const pdf = await page.pdf({ format: 'A4' })
    expect(pdf.subarray(0, 5).toString()).toBe('%PDF-')
    // One sheet: a second one would be the rest of the page.
    expect(pdf.toString('latin1').match(/\/Type\s*\/Page\b/g)).toHaveLength(1)
  })

  test('shows exact times on hover, copies ids on a click, and has an address for everything', async () => {
    const webhook = await clientOf().webhooks.create({ url: 'https://a.example/', event_types: ['invoice.paid'] })
    const page = await openAs(owner, `/webhooks/${webhook.id}`, { permissions: ['clipboard-read', 'clipboard-write'] })
    await settled(page)
    await page.getByRole('button', { name: /Copy wh_/ }).click()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(webhook.id)
    await page.getByRole('button', { name: /Copied/ }).waitFor()
    const time = page.getByRole('main').locator('time').first()
    expect(await time.getAttribute('title')).toMatch(/\d{4}.*\d+:\d\d:\d\d/)
    expect(await time.getAttribute('datetime')).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/)

    const nav = page.getByRole('navigation', { name: 'Main' })
    const places = ['Databases', 'Events', 'Settings']
    for (const name of places) {
      await nav.getByRole('link', { name }).click()
      await page.getByRole('heading', { name, level: 1 }).waitFor()
      expect(await page.title()).toBe(`${name} · Keyhook`)
    }
    await page.goBack()
    await page.getByRole('heading', { name: 'Events', level: 1 }).waitFor()
    await page.goForward()
    await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor()
    await page.goto(consoleUrl(`/webhooks/${webhook.id.slice(0, -4)}0000`))
    await page.getByRole('heading', { name: 'This page does not exist' }).waitFor()
  })

  test('is left in every browser by signing out everywhere', async () => {
    const other = await openAs(owner, '/keys')
    const page = await newPage()
    await page.goto(await signInLink(owner.userId))
    await page.waitForURL(consoleUrl(''))
    await page.goto(consoleUrl('/settings'))
    await page.getByRole('button', { name: 'Sign out everywhere' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Sign out everywhere' }).click()
    await page.getByRole('heading', { name: 'Sign in to Keyhook' }).waitFor()
    await other.reload()
    await other.getByRole('heading', { name: 'Sign in to Keyhook' }).waitFor()
    expect(other.url()).toBe(consoleUrl('/keys'))
  })
})
