import { createClient } from '@keyhook/client'
import { expect, test } from 'vitest'
import { receiverFor } from '../../server/test/delivery/support/receiver.ts'
import { api, inBrowser, newPage, openAs, orgId, owner, signInLink } from './support/console-test.ts'

inBrowser('the operator', () => {
  test('sees what waits, and opens an organization to read, which its audit log shows', async () => {
    const receiver = await receiverFor(() => ({ status: 503 }))
    const client = createClient({ url: api.url, token: owner.token, organization: orgId })
    const webhook = await client.webhooks.create({ url: receiver.url, event_types: ['invoice.paid'] })
    await client.webhooks.test(webhook.id, { event_type: 'invoice.paid' })
    await expect.poll(() => receiver.received.length).toBe(1)

    await api.db`
      insert into keyhook.nodes (id, databases_max, host, seen_at)
      values ('machine-1', 5, 'db-1.example.com', now() + interval '1 hour'), ('machine-2', 0, null, now() - interval '1 hour')`

    const page = await newPage()
    await page.goto(await signInLink(null))
    await page.waitForURL('**/console/operator')
    const row = page.getByRole('row', { name: new RegExp(receiver.url) })
    await row.waitFor()
    await row.getByText('Waiting', { exact: true }).waitFor()
    await api.db`
      update keyhook.lanes set failures = 3, failing_since = now() - interval '3 hours' where webhook_id = ${webhook.id}`
    await row.getByText('Failing', { exact: true }).waitFor()
    await api.db`
      update keyhook.lanes set suspended_until = now() + interval '29 days', probe_at = due_at where webhook_id = ${webhook.id}`
    await row.getByText('Suspended').waitFor()
    expect(await row.getByRole('link', { name: receiver.url }).getAttribute('href')).toContain(webhook.id)
    expect(await row.getByRole('link', { name: 'Acme' }).getAttribute('href')).toContain(orgId)
    await page.getByRole('row', { name: /db-1\.example\.com Node .*machine-1.* Running 0 of 5/ }).waitFor()
    await page.getByRole('row', { name: /Without an address .* Does not answer 0, takes no new ones/ }).waitFor()
    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Organizations' }).click()
    await page.getByRole('button', { name: 'Open Acme' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Open' }).click()
    await page.waitForURL(`**/console/${orgId}`)
    await page.getByText('You read this organization as the operator').waitFor()
    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Webhooks' }).click()
    await page.getByRole('link', { name: receiver.url }).click()
    await page.getByRole('heading', { name: 'Latest attempts' }).waitFor()
    expect(await page.getByRole('button', { name: /Send test event|More actions|Edit/ }).count()).toBe(0)
    const entries = await client.audit.list().toArray()
    expect(entries.filter(({ action }) => action === 'organization.opened')).toHaveLength(1)
  })

  test('is a page of its own, which members do not get', async () => {
    const page = await openAs(owner, '')
    await page.goto(`${api.url}/console/operator`)
    await page.getByRole('heading', { name: 'This page does not exist' }).waitFor()
    expect(await page.getByText('Overview').count()).toBe(0)
  })
})
