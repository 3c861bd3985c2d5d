import { expect, test } from 'vitest'
import { eraseAll } from '../../server/test/deletion/support/erasing.ts'
import { expectAccessible } from './support/axe.ts'
import { api, inBrowser, newPage, signInLink } from './support/console-test.ts'
import { settled } from './support/settled.ts'

inBrowser('deleting', () => {
  test('an owner types the name, sees what goes, and has no organization any more', async () => {
    const orgId = await api.organization('Globex')
    const owner = await api.person([{ orgId, role: 'owner' }])
    const page = await newPage()
    await page.goto(await signInLink(owner.userId))
    await page.waitForURL(`**/console/${orgId}`)
    await page.goto(`${api.url}/console/${orgId}/settings`)
    await settled(page)
    await page.getByRole('button', { name: 'Delete organization' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('Members: 1').waitFor()
    const confirm = dialog.getByRole('button', { name: 'Delete organization' })
    await dialog.getByLabel('Type Globex to confirm').fill('globex')
    expect(await confirm.isDisabled()).toBe(true)
    await dialog.getByLabel('Type Globex to confirm').fill('Globex')
    await expectAccessible(page, 'the dialog')
    await confirm.click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByText('You are in no organization').waitFor()
  })

  test('the operator deletes an organization and a user, and sees how far it is', async () => {
    const orgId = await api.organization('Initech')
    const { userId } = await api.person([{ orgId, role: 'owner' }])
    const page = await newPage()
    await page.goto(await signInLink(null))
    await page.waitForURL('**/console/operator')
    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Organizations' }).click()
    await page.getByRole('button', { name: 'Delete Initech' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Type Initech to confirm').fill('Initech')
    await dialog.getByRole('button', { name: 'Delete organization' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByText(orgId).waitFor()
    await page.getByText('Running').first().waitFor()
    await eraseAll(api.db)
    await expect.poll(() => page.getByText('Running').count()).toBe(0)
    await page
      .getByText(/^memberships: 1 · entries of/)
      .first()
      .waitFor()
    await settled(page)
    await page.setViewportSize({ width: 390, height: 844 })
    await expectAccessible(page, 'the list of deletions')
    const [user] = await api.db<{ email: string }[]>`select email from keyhook.users where id = ${userId}`
    await page.goto(page.url().replace('/organizations', '/users'))
    await page.getByRole('button', { name: `Delete ${user!.email}` }).click()
    await dialog.getByLabel(`Type ${user!.email} to confirm`).fill(user!.email)
    await dialog.getByRole('button', { name: 'Delete user' }).click()
    await page.getByText('The user is deleted').waitFor()
  })
})
