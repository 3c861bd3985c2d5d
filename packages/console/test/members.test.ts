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
    await page.getByLabel('Role of grace@example.com').selectOption('Admin')
    await page.getByText('grace@example.com is now admin').waitFor()
    await guest.goto(consoleUrl('/audit'))
    await guest.getByRole('row', { name: /Role changed/ }).waitFor()
    await page.getByRole('button', { name: 'Remove grace@example.com' }).click()
    await dialog.getByRole('button', { name: 'Remove member' }).click()
    await page.getByRole('dialog', { name: /^Remove/ }).waitFor({ state: 'detached' })
    await page.getByRole('row', { name: /grace@example.com/ }).waitFor({ state: 'detached' })
    await guest.reload()
    await guest.getByText('There is nothing here').waitFor()
  })

  test('a member sees who is there, and changes nobody', async () => {
    const page = await openAs(member, '/members')
    await page.getByRole('row', { name: /person-1@example.com/ }).waitFor()
    expect(await page.getByRole('main').getByRole('button').count()).toBe(0)
    expect(await page.getByRole('combobox').count()).toBe(0)
  })
})
