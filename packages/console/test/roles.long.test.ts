import { createClient } from '@keyhook/client'
import { expect, test } from 'vitest'
import { permissionsOf, type Role, roles } from '../../server/src/access/roles.ts'
import { receiverFor } from '../../server/test/delivery/support/receiver.ts'
import type { Person } from '../../server/test/kit/installation.ts'
import { api, consoleUrl, inBrowser, newPage, openAs, orgId, owner, signInLink } from './support/console-test.ts'
import { settled } from './support/settled.ts'

type Action = { path: string; name: string; role?: 'link' | 'button'; needs: string }

/** Every action that depends on the role, where it is offered. */
async function actions(): Promise<Action[]> {
  const client = createClient({ url: api.url, token: owner.token, organization: orgId })
  const receiver = await receiverFor()
  const webhook = await client.webhooks.create({ url: receiver.url, event_types: ['invoice.paid'] })
  await client.webhooks.test(webhook.id, { event_type: 'invoice.paid' })
  const database = await client.databases.create({ name: 'orders' })
  await expect.poll(async () => (await client.deliveries.list().page()).items.length).toBe(1)
  const [delivery] = (await client.deliveries.list().page()).items
  return [
    { path: '', role: 'link', name: 'Invoices', needs: 'invoices:read' },
    { path: '', role: 'link', name: 'Audit log', needs: 'audit:read' },
    { path: '', role: 'link', name: 'Webhooks', needs: 'webhooks:read' },
    { path: '/keys', name: 'Create key', needs: 'keys:create' },
    { path: '/webhooks', role: 'link', name: 'Create webhook', needs: 'webhooks:create' },
    { path: `/webhooks/${webhook.id}`, name: 'Send test event', needs: 'deliveries:send' },
    { path: `/webhooks/${webhook.id}`, name: 'Pause', needs: 'webhooks:update' },
    { path: `/webhooks/${webhook.id}`, name: 'Rotate secret', needs: 'webhooks:update' },
    { path: `/webhooks/${webhook.id}`, name: 'More actions', needs: 'webhooks:update' },
    { path: '/deliveries', name: 'Redeliver failed', needs: 'deliveries:send' },
    { path: `/deliveries?delivery=${delivery!.id}`, name: 'Redeliver', needs: 'deliveries:send' },
    { path: '/databases', name: 'Create database', needs: 'databases:create' },
    { path: `/databases/${database.id}`, name: 'Delete database', needs: 'databases:delete' },
    { path: `/databases/${database.id}`, name: 'Change schedule', needs: 'backups:create' },
    { path: '/members', name: 'Invite', needs: 'members:manage' },
    { path: '/members', name: 'Create service member', needs: 'service-members:manage' },
    { path: '/settings', name: 'Rename', needs: 'organizations:update' },
    { path: '/settings', name: 'Change limit', needs: 'keys:limit' },
    { path: '/settings', name: 'Delete organization', needs: 'organizations:delete' },
  ]
}

inBrowser('a role', () => {
  test('is offered what it may do, and nothing else', async () => {
    const all = await actions()
    for (const role of roles) {
      const person = await api.person([{ orgId, role }])
      const page = await openAs(person, '')
      const allowed = permissionsOf(role).map((permission) => permission.replace(':own', ''))
      for (const { path, name, needs, role: kind = 'button' } of all) {
        if (page.url() !== consoleUrl(path)) await page.goto(consoleUrl(path))
        await settled(page)
        const shown = page.getByRole(kind, { name, exact: true })
        if (allowed.includes(needs)) await shown.first().waitFor()
        expect([role, path, name, (await shown.count()) > 0]).toEqual([role, path, name, allowed.includes(needs)])
      }
    }
  })

  test('of an admin reaches no owner, and of a member no page by its address', async () => {
    const as = (role: Role): Promise<Person> => api.person([{ orgId, role }])
    const admin = await openAs(await as('admin'), '/members')
    await admin.getByRole('row', { name: /person-1@example.com/ }).waitFor()
    await admin.getByLabel('Role of person-2@example.com').waitFor()
    expect(await admin.getByLabel('Role of person-1@example.com').count()).toBe(0)
    const roleOptions = admin.getByLabel('Role of person-2@example.com').getByRole('option')
    expect(await roleOptions.allTextContents()).toEqual(['Admin', 'Member'])

    const page = await openAs(await as('member'), '/audit')
    await page.getByText('Your role does not allow this.').waitFor()
    await page.goto(consoleUrl('/webhooks/new'))
    await settled(page)
    expect(await page.getByRole('button', { name: 'Create webhook' }).count()).toBe(0)
    await page.keyboard.press('Control+k')
    await page.getByRole('option', { name: 'Create API key' }).waitFor()
    expect(await page.getByRole('option', { name: /Create (webhook|database)|Audit log|Invoices/ }).count()).toBe(0)
  })

  test('of the operator reads an organization by its address after a question, and changes nothing', async () => {
    const page = await newPage()
    await page.goto(await signInLink(null))
    await page.waitForURL('**/console/operator')
    await page.goto(consoleUrl('/keys'))
    await page.getByRole('heading', { name: 'Open “Acme” to read?' }).waitFor()
    await page.getByRole('button', { name: 'Open', exact: true }).click()
    await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor()
    expect(page.url()).toBe(consoleUrl('/keys'))
    for (const path of ['Webhooks', 'Deliveries', 'Databases', 'Members', 'API keys']) {
      await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: path }).click()
      await page.getByRole('heading', { name: path, level: 1 }).waitFor()
      await settled(page)
      const changes = page
        .getByRole('main')
        .getByRole('button', { name: /Create|Invite|Redeliver|Revoke|Remove|Withdraw/ })
      expect([path, await changes.count()]).toEqual([path, 0])
    }
  })
})
