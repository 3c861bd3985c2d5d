import { expect, test } from 'vitest'
import { api, consoleUrl, inBrowser, member, newPage, openAs, orgId, owner } from './support/console-test.ts'

inBrowser('members', () => {
  test('somebody is invited, joins with the link once, gets another role and is removed', async () => {
    const page = await openAs(owner, '/members')
    await page.getByRole('button', { name: 'Invite' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Email').fill('grace')
    await dialog.getByRole('button', { name: 'Create link' }).click()
    await dialog.getByText('Enter an email address.').waitFor()
    await dialog.getByLabel('Email').fill('grace@example.com')
    await dialog.getByRole('button', { name: 'Create link' }).click()
    const link = await dialog.getByLabel('Link', { exact: true }).inputValue()
    expect(link).toContain(`${api.url}/console/invitation#`)
    await dialog.getByRole('button', { name: 'Done' }).click()
    await page.getByRole('row', { name: /grace@example.com Member/ }).waitFor()

    const guest = await newPage()
    await guest.goto(link)
    await guest.getByRole('heading', { name: 'Join Acme' }).waitFor()
    expect(guest.url()).not.toContain('#')
    await guest.getByRole('button', { name: 'Accept invitation' }).click()
    await guest.waitForURL(`**/console/${orgId}`)
    const late = await newPage()
    await late.goto(link)
    await late.getByText('The invitation was accepted or withdrawn').waitFor()

    await page.reload()
    await page.getByRole('row', { name: /grace@example.com Unverified/ }).waitFor()
    await page.getByLabel('Role of grace@example.com').selectOption('Admin')
    await page.getByText('grace@example.com is now admin').waitFor()
    await guest.goto(consoleUrl('/audit'))
    await guest.getByRole('row', { name: /changed the role of .*grace@example.com.* from member to admin/ }).waitFor()
    await page.getByRole('button', { name: 'Remove grace@example.com' }).click()
    expect(await dialog.getByRole('checkbox', { name: 'Revoke their API keys' }).isChecked()).toBe(true)
    await dialog.getByRole('button', { name: 'Remove member' }).click()
    await page.getByRole('dialog', { name: /^Remove/ }).waitFor({ state: 'detached' })
    await page.getByRole('row', { name: /grace@example.com/ }).waitFor({ state: 'detached' })
    await guest.reload()
    await guest.getByText('This page does not exist').waitFor()
  })

  test('an owner creates a service member and keys for it, and removing it names and revokes them', async () => {
    const page = await openAs(owner, '/members')
    await page.getByRole('button', { name: 'Create service member' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: 'Create service member' }).click()
    await dialog.getByText('Give the service member a name.').waitFor()
    await dialog.getByLabel('Name').fill('deploy pipeline')
    await dialog.getByRole('radio', { name: /^Admin/ }).check()
    await dialog.getByRole('button', { name: 'Create service member' }).click()
    const row = page.getByRole('region', { name: 'Service members' }).getByRole('row', { name: /deploy pipeline/ })
    await row.getByText('None').waitFor()
    expect(await row.getByLabel('Role of deploy pipeline').inputValue()).toBe('admin')
    expect(await page.getByRole('region', { name: 'Members', exact: true }).getByText('deploy pipeline').count()).toBe(
      0,
    )

    const tokens: string[] = []
    for (const name of ['staging', 'production']) {
      await row.getByRole('button', { name: 'Create key for deploy pipeline' }).click()
      await dialog.getByText('The key acts as the service member “deploy pipeline”').waitFor()
      await dialog.getByLabel('Name').fill(name)
      await dialog.getByRole('radio', { name: /^Webhooks and deliveries/ }).check()
      await dialog.getByRole('button', { name: 'Create key' }).click()
      tokens.push(await dialog.getByLabel('API key', { exact: true }).inputValue())
      await dialog.getByRole('button', { name: 'Done' }).click()
      await row.getByText(name).waitFor()
    }
    const webhooks = (token: string) =>
      fetch(`${api.url}/api/v1/organizations/${orgId}/webhooks`, { headers: { authorization: `Bearer ${token}` } })
    expect(await Promise.all(tokens.map(async (token) => (await webhooks(token)).status))).toEqual([200, 200])
    // An owner rotates its keys, in place of the user who cannot sign in.
    await row.getByRole('button', { name: 'More actions for staging' }).click()
    await page.getByRole('menuitem', { name: 'Rotate' }).waitFor()
    await page.keyboard.press('Escape')

    await row.getByRole('button', { name: 'Remove deploy pipeline' }).click()
    await dialog.getByText('Its 2 API keys are revoked: “production”, “staging”. This cannot be undone.').waitFor()
    await dialog.getByRole('button', { name: 'Remove service member' }).click()
    await page.getByRole('heading', { name: 'No service members yet' }).waitFor()
    expect(await Promise.all(tokens.map(async (token) => (await webhooks(token)).status))).toEqual([401, 401])
  })

  test('a member sees who is there, and changes nobody', async () => {
    const page = await openAs(member, '/members')
    await page.getByRole('row', { name: /person-1@example.com Verified/ }).waitFor()
    expect(await page.getByRole('main').getByRole('button').count()).toBe(0)
    expect(await page.getByRole('combobox').count()).toBe(0)
  })
})
