import { createClient } from '@keyhook/client'
import { expect, test } from 'vitest'
import { createTransact } from '../../server/src/db/database.ts'
import { reportLeaks } from '../../server/src/keys/leaks.ts'
import { createHoldOrganization } from '../../server/src/organizations/rules.ts'
import { testOperator } from '../../server/test/kit/installation.ts'
import { api, inBrowser, newPage, openAs, orgId, owner, signInLink } from './support/console-test.ts'

inBrowser('the console', () => {
  test('sets quotas of an organization, and shows its members what they use and may use', async () => {
    const page = await newPage()
    await page.goto(await signInLink(null))
    await page.waitForURL('**/console/operator')
    await page.goto(`${api.url}/console/operator/organizations`)
    await page.getByRole('button', { name: 'Quotas of Acme' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Active API keys').fill('five')
    await dialog.getByLabel('Storage limits of all databases').fill('200GB')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await dialog.getByText('Enter a whole number, or nothing.').waitFor()
    await dialog.getByLabel('Active API keys').fill('5')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The quotas of “Acme” were changed').waitFor()
    // What was set is there again, and what was not is still empty.
    await page.getByRole('button', { name: 'Quotas of Acme' }).click()
    expect(await dialog.getByLabel('Active API keys').inputValue()).toBe('5')
    expect(await dialog.getByLabel('Storage limits of all databases').inputValue()).toBe('200GB')
    expect(await dialog.getByLabel('Webhooks').inputValue()).toBe('')
    await dialog.getByText('0 used, the limit of the settings is 10,000.').first().waitFor()

    const settings = await openAs(owner, '/settings')
    await settings.getByRole('row', { name: /Active API keys 0 5/ }).waitFor()
    await settings.getByRole('row', { name: /Members and open invitations 2 No limit/ }).waitFor()
    await settings.getByRole('row', { name: /Storage limits of all databases 0 bytes 200 GiB/ }).waitFor()
  })

  test('marks a leaked key, and shows a hostile place as a text', async () => {
    const client = createClient({ url: api.url, token: owner.token, organization: orgId })
    const key = await client.keys.create({ name: 'pushed' })
    const url = 'javascript:alert(1)//<img src=x onerror=alert(1)>'
    const holdOrganization = createHoldOrganization(createTransact(api.db, () => {}))
    const reporter = { reportedBy: 'github', actor: testOperator }
    await reportLeaks({ db: api.db, holdOrganization }, reporter, [{ token: key.api_key, url, source: 'content' }])
    const page = await openAs(owner, '/keys?status=all')
    const row = page.getByRole('row', { name: /pushed/ })
    await row.getByText('Leaked, revoked').waitFor()
    await row.getByText(`found at ${url}`).waitFor()
    expect((await row.getByRole('link').count()) + (await row.locator('img').count())).toBe(0)
  })
})
