import { expect, test } from 'vitest'
import { call } from '../../server/test/kit/client.ts'
import { api, inBrowser, member, openAs, owner } from './support/console-test.ts'

const statusWith = async (token: string) => (await call(`${api.url}/api/v1/organizations`, { token })).status

inBrowser('API keys', () => {
  test('a created key is shown once, works, and is refused after it was revoked by its name', async () => {
    const page = await openAs(owner, '/keys')
    await page.getByRole('heading', { name: 'No API keys yet' }).waitFor()
    await page.getByRole('button', { name: 'Create key' }).first().click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: 'Create key' }).click()
    await dialog.getByText('Give the key a name.').waitFor()
    await dialog.getByLabel('Name').fill('deploy pipeline')
    await page.keyboard.press('Enter')
    const key = await dialog.getByLabel('API key', { exact: true }).inputValue()
    expect(await statusWith(key)).toBe(200)
    await dialog.getByText('It will not be shown again').waitFor()
    expect(await dialog.getByText('curl -H').textContent()).toContain(key)
    await dialog.getByRole('button', { name: 'Done' }).click()

    const row = page.getByRole('row', { name: /deploy pipeline/ })
    expect(await row.textContent()).toContain(key.slice(0, 11))
    expect(await page.content()).not.toContain(key)
    await row.getByRole('button', { name: 'Revoke' }).click()
    await dialog.getByRole('heading', { name: 'Revoke “deploy pipeline”?' }).waitFor()
    await dialog.getByRole('button', { name: 'Revoke key' }).click()
    // While the dialog is open, the rows below it are hidden from roles anyway.
    await page.getByRole('dialog', { name: /^Revoke/ }).waitFor({ state: 'detached' })
    await row.waitFor({ state: 'detached' })
    expect(await statusWith(key)).toBe(401)
  })

  test('revoking with descendants ends the keys that were created with it', async () => {
    const page = await openAs(owner, '/keys#create')
    await page.getByLabel('Name').fill('parent')
    await page.keyboard.press('Enter')
    const parent = await page.getByLabel('API key', { exact: true }).inputValue()
    const [organization] = (await call<{ id: string }[]>(`${api.url}/api/v1/organizations`, { token: parent })).body
    const path = `${api.url}/api/v1/organizations/${organization!.id}/api-keys`
    const { body: child } = await call<{ api_key: string }>(path, { token: parent, body: { name: 'child' } })
    await page.getByRole('button', { name: 'Done' }).click()
    await page.reload()
    await page.getByText('with parent').waitFor()
    await page.getByRole('button', { name: 'Revoke parent' }).click()
    await page.getByRole('checkbox', { name: /every key that was created with this key/ }).check()
    await page.getByRole('button', { name: 'Revoke key' }).click()
    await page.getByText('2 keys are revoked').waitFor()
    expect([await statusWith(parent), await statusWith(child.api_key)]).toEqual([401, 401])
  })

  test('a member is offered own keys, and no page or action beyond the role', async () => {
    const page = await openAs(member, '/keys')
    await page.getByText('Keys that you created.').waitFor()
    const main = page.getByRole('navigation', { name: 'Main' })
    expect(await main.getByRole('link').allTextContents()).toEqual([
      'Home',
      'Webhooks',
      'Deliveries',
      'Events',
      'API keys',
      'Databases',
      'Members',
      'Settings',
    ])
    await main.getByRole('link', { name: 'Webhooks' }).click()
    await page.getByRole('heading', { name: 'No webhooks yet' }).waitFor()
    expect(await page.getByText('Create webhook').count()).toBe(0)
    await main.getByRole('link', { name: 'Databases' }).click()
    await page.getByRole('heading', { name: 'No databases yet' }).waitFor()
    expect(await page.getByText('Create database').count()).toBe(0)
  })
})
