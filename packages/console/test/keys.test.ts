import { createClient } from '@keyhook/client'
import { expect, test } from 'vitest'
import { call } from '../../server/test/kit/client.ts'
import { api, consoleUrl, inBrowser, member, openAs, orgId, owner } from './support/console-test.ts'
import { addDatabase } from './support/database-rows.ts'

const statusWith = async (token: string) => (await call(`${api.url}/api/v1/organizations`, { token })).status

const clientOf = () => createClient({ url: api.url, token: owner.token, organization: orgId })

const dayOf = (time: string | null) =>
  new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' }).format(Date.parse(time!))

inBrowser('API keys', () => {
  test('a created key is shown once, works, and is refused after it was revoked by its name', async () => {
    const page = await openAs(owner, '/keys')
    await page.getByRole('heading', { name: 'No active API keys' }).waitFor()
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

  test('a read-only key with an end is created, edited and rotated, and says in a sentence what it may do', async () => {
    const page = await openAs(owner, '/keys#create')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('nightly report')
    await dialog.getByRole('radio', { name: /^Read only/ }).check()
    await dialog.getByLabel('Expires').selectOption('30')
    await dialog.getByText(/^May read everything that its user may read, until .* 20\d\d\.$/).waitFor()
    await dialog.getByLabel('Networks').fill('127.0.0.1/32, somewhere')
    await dialog.getByRole('button', { name: 'Create key' }).click()
    await dialog.getByText('“somewhere” is no address').waitFor()
    await dialog.getByLabel('Networks').fill('300.0.0.1/8')
    await dialog.getByText('“300.0.0.1/8” is no address').waitFor()
    await dialog.getByLabel('Networks').fill('127.0.0.0/8, ::1')
    await dialog.getByRole('button', { name: 'Create key' }).click()
    const first = await dialog.getByLabel('API key', { exact: true }).inputValue()
    const [key] = await clientOf().keys.details().toArray()
    expect(key).toMatchObject({ name: 'nightly report', allowed_networks: ['127.0.0.0/8', '::1/128'] })
    expect(Date.parse(key!.expires_at!) - Date.now()).toBeLessThan(30 * 86_400_000 + 60_000)
    const end = `until ${dayOf(key!.expires_at)}.`
    await dialog.getByText(`May read everything that its user may read, from 127.0.0.0/8 or ::1, ${end}`).waitFor()
    await dialog.getByRole('button', { name: 'Done' }).click()
    const row = page.getByRole('row', { name: /nightly report/ })
    await row.getByText(`May read everything that its user may read, from 127.0.0.0/8 or ::1, ${end}`).waitFor()
    const keysPath = `${api.url}/api/v1/organizations/${orgId}/api-keys`
    const create = () => call<{ code: string }>(keysPath, { token: first, body: { name: 'more' } })
    expect(await create()).toMatchObject({ status: 403, body: { code: 'auth.key_restricted' } })

    await row.getByRole('button', { name: 'More actions for nightly report' }).click()
    await page.getByRole('menuitem', { name: 'Edit' }).click()
    expect(await dialog.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true)
    await dialog.getByLabel('Name').fill('delivery report')
    await dialog.getByRole('radio', { name: /^Choose/ }).check()
    for (const name of await dialog.getByRole('checkbox').all()) await name.uncheck()
    await dialog.getByRole('button', { name: 'Save' }).click()
    await dialog.getByText('Choose at least one permission.').waitFor()
    await dialog.getByRole('checkbox', { name: 'Read webhooks' }).check()
    await dialog.getByRole('checkbox', { name: 'Read deliveries' }).check()
    await dialog.getByLabel('Networks').fill('')
    await dialog.getByText(`May read webhooks and deliveries, ${end}`).waitFor()
    await dialog.getByRole('button', { name: 'Save' }).click()
    const edited = page.getByRole('row', { name: /delivery report/ })
    await edited.getByText(`May read webhooks and deliveries, ${end}`).waitFor()
    const changed = { permissions: ['webhooks:read', 'deliveries:read'], allowed_networks: null }
    expect(await clientOf().keys.get(key!.id)).toMatchObject({ ...changed, expires_at: key!.expires_at })
    expect(await statusWith(first)).toBe(403)

    await edited.getByRole('button', { name: 'More actions for delivery report' }).click()
    await page.getByRole('menuitem', { name: 'Rotate' }).click()
    await dialog.getByLabel('The old key stays valid for').selectOption('Not at all')
    await dialog.getByRole('button', { name: 'Rotate key' }).click()
    const second = await dialog.getByLabel('API key', { exact: true }).inputValue()
    await dialog.getByText('The old key is refused from now on.').waitFor()
    expect([await statusWith(first), await statusWith(second)]).toEqual([401, 403])
    const [successor] = await clientOf().keys.details().toArray()
    expect(successor).toMatchObject({ ...changed, name: 'delivery report', expires_at: key!.expires_at })
    await clientOf().keys.revoke(successor!.id)
  })

  test('a key for some databases reaches these, and the form says so', async () => {
    const orders = await addDatabase('orders', 'available')
    const analytics = await addDatabase('analytics', 'available')
    const page = await openAs(owner, '/keys#create')
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('orders only')
    await dialog.getByRole('radio', { name: /^Read only/ }).check()
    await dialog.getByRole('checkbox', { name: /^Only some databases/ }).check()
    await dialog.getByText('for no database yet (choose at least one), until').waitFor()
    await dialog.getByRole('button', { name: 'Create key' }).click()
    await dialog.getByText('Choose at least one database.').waitFor()
    await dialog.getByRole('checkbox', { name: 'orders', exact: true }).check()
    await dialog.getByText('May read databases, backups and events, only for the database “orders”').waitFor()
    await dialog.getByRole('button', { name: 'Create key' }).click()
    const token = await dialog.getByLabel('API key', { exact: true }).inputValue()
    const [key] = await clientOf().keys.details().toArray()
    expect(key).toMatchObject({ name: 'orders only', databases: [orders] })
    const other = createClient({ url: api.url, token, organization: orgId }).databases.get(analytics)
    await expect(other).rejects.toMatchObject({ code: 'auth.key_restricted' })
    await clientOf().keys.revoke(key!.id)
  })

  test('the form for a key of a service member says that an owner can allow it more', async () => {
    const { user_id } = await clientOf().serviceMembers.create({ name: 'deploy', role: 'member' })
    const { id } = await clientOf().serviceMembers.createKey(user_id, { name: 'pipeline' })
    const admin = await api.person([{ orgId, role: 'admin' }])
    const textFor = async (person: typeof owner) => {
      const page = await openAs(person, '/keys')
      await page.getByRole('button', { name: 'More actions for pipeline' }).click()
      await page.getByRole('menuitem', { name: 'Edit' }).click()
      return page.getByRole('dialog').getByText('every request that starts after you save').textContent()
    }
    expect(await textFor(owner)).toMatch(/after you save\.$/)
    expect(await textFor(admin)).toMatch(/allow it less; only an owner can allow it more\.$/)
    await clientOf().keys.revoke(id)
  })

  test('the owner limits how long new keys last, and the form offers no more', async () => {
    const page = await openAs(owner, '/settings')
    await page.getByRole('button', { name: 'Change limit' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Days').fill('4000')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await dialog.getByText('Enter a whole number from 1 to 3,650, or nothing.').waitFor()
    await dialog.getByLabel('Days').fill('60')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page.getByText('They expire after 60 days at most.').waitFor()
    expect(await clientOf().keys.lifetime()).toEqual({ days_max: 60, operator_days_max: null })

    await page.goto(consoleUrl('/keys#create'))
    await dialog.getByText('New keys of this organization last at most 60 days.').waitFor()
    expect(await dialog.getByLabel('Expires').getByRole('option').allTextContents()).toEqual([
      'In 30 days',
      'In 60 days',
    ])
    await dialog.getByLabel('Name').fill('short')
    await dialog.getByRole('button', { name: 'Create key' }).click()
    await dialog.getByLabel('API key', { exact: true }).waitFor()
    const [key] = await clientOf().keys.details().toArray()
    expect(Date.parse(key!.expires_at!) - Date.now()).toBeGreaterThan(59 * 86_400_000)
    await clientOf().keys.setLifetime({ days_max: null })
    await clientOf().keys.revoke(key!.id)
  })

  test('the list shows keys that have expired, that nobody uses, and whose address was refused', async () => {
    const { keys } = clientOf()
    const expired = await keys.createRestricted({ name: 'old one', expires_at: '2099-01-01T00:00:00Z' })
    await api.db`update keyhook.api_keys set expires_at = now() - interval '1 hour' where id = ${expired.id}`
    const idle = await keys.create({ name: 'idle one' })
    await api.db`update keyhook.api_keys set created_at = now() - interval '120 days' where id = ${idle.id}`
    const fixed = await keys.createRestricted({ name: 'fixed one', allowed_networks: ['203.0.113.0/24'] })
    for (const _ of [1, 2]) expect(await statusWith(fixed.api_key)).toBe(403)
    await expect.poll(async () => (await keys.get(fixed.id)).refused.count).toBe(2)

    const page = await openAs(owner, '/keys?status=all')
    await page
      .getByRole('row', { name: /old one/ })
      .getByText('Expired', { exact: true })
      .waitFor()
    await page
      .getByRole('row', { name: /idle one/ })
      .getByText('Unused for 120 days')
      .waitFor()
    const text = await page.getByRole('row', { name: /fixed one/ }).textContent()
    expect(text).toMatch(/2 requests refused, last from (127\.0\.0\.1|::1|::ffff:127\.0\.0\.1)/)
    expect(await page.getByRole('button', { name: /old one/ }).count()).toBe(0)
    for (const { id } of [idle, fixed]) await keys.revoke(id)
  })
})
