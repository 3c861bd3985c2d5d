import { createClient } from '@keyhook/client'
import { createOperatorClient } from '@keyhook/client/operator'
import { expect, test } from 'vitest'
import { receiverFor } from '../../server/test/delivery/support/receiver.ts'
import { api, consoleUrl, inBrowser, newPage, openAs, orgId, owner, signInLink } from './support/console-test.ts'
import { addDatabase } from './support/database-rows.ts'
import { settled } from './support/settled.ts'

const html = '<img src=x onerror="window.attacked=1"><script>window.attacked=1</script><b class="injected">bold</b>'

inBrowser('what others wrote', () => {
  test('is text on every page, whatever is in it', { timeout: 240_000 }, async () => {
    const client = createClient({ url: api.url, token: owner.token, organization: orgId })
    const operator = createOperatorClient({ url: api.url, token: await api.operatorToken() })
    const receiver = await receiverFor(() => ({
      status: 500,
      body: html,
      headers: { 'content-type': 'text/html', 'x-note': html },
    }))
    await client.organizations.update(orgId, { name: html.slice(0, 60) })
    const key = await client.keys.create({ name: html.slice(0, 100) })
    const url = `${receiver.url}?q=%3Cscript%3E'"javascript:alert(1)`
    const webhook = await client.webhooks.create({ url, event_types: ['invoice.paid'] })
    await client.webhooks.update(webhook.id, { description: html })
    const database = await addDatabase(html, 'failed')
    await client.invitations.create({ email: '"<b/class=injected>"@example.com', role: 'member' }).catch(() => null)
    await operator.events.publish([
      { organization_id: orgId, type: 'invoice.paid', data: { [html]: html }, id: 'evil' },
    ])
    const failed = () => client.deliveries.list({ status: 'failed' }).toArray()
    await expect.poll(async () => (await failed()).length).toBeGreaterThan(0)
    const [attempt] = await failed()

    const page = await openAs(owner, '')
    const paths = [
      '',
      '/keys',
      '/webhooks',
      `/webhooks/${webhook.id}`,
      '/deliveries',
      `/deliveries?delivery=${attempt!.id}`,
    ]
    paths.push('/events', '/events/evil', '/databases', `/databases/${database}`, '/members', '/audit', '/settings')
    for (const path of paths) {
      await page.goto(consoleUrl(path))
      await settled(page)
      const found = await page.evaluate('[window.attacked, document.querySelectorAll(".injected, img").length]')
      expect([path, found]).toEqual([path, [undefined, 0]])
      const links = await page.locator('a').evaluateAll('links => links.map((link) => link.protocol)')
      expect([path, [...new Set(links as string[])].filter((one) => one !== 'http:')]).toEqual([path, []])
    }
    await page.goto(consoleUrl(`/deliveries?delivery=${attempt!.id}`))
    const panel = page.getByRole('complementary', { name: 'Attempt' })
    await panel.getByRole('region', { name: 'Response' }).getByText('window.attacked=1').first().waitFor()
    await panel.getByRole('button', { name: 'Raw' }).click()
    await panel.getByRole('region', { name: 'Response' }).getByText(html).first().waitFor()
    expect(await page.evaluate('window.attacked')).toBeUndefined()
    await page.goto(consoleUrl('/keys'))
    await page.getByRole('row', { name: new RegExp(key.key_prefix) }).waitFor()
    await client.organizations.update(orgId, { name: 'Acme' })
  })

  test('in an address leads to no other site and runs nothing', async () => {
    const page = await newPage()
    const wrong = [
      '/console/sign-in?return_to=https://evil.example/&error=%3Cscript%3E',
      '/console//evil.example/',
      '/console/sign-in?error=javascript:alert(1)',
      '/console/invitation?return_to=//evil.example#javascript:alert(1)',
      `/console/${encodeURIComponent(html)}`,
    ]
    for (const path of wrong) {
      await page.goto(`${api.url}${path}`)
      await page.locator('h1').first().waitFor()
      expect(new URL(page.url()).origin).toBe(api.url)
      expect(await page.evaluate('[window.attacked, document.querySelectorAll(".injected").length]')).toEqual([
        undefined,
        0,
      ])
    }
  })
})

inBrowser('after signing out', () => {
  test('no other tab and no step back shows what was on the page', async () => {
    await createClient({ url: api.url, token: owner.token, organization: orgId }).keys.create({ name: 'private name' })
    const page = await openAs(owner, '/keys')
    await page.getByRole('row', { name: /private name/ }).waitFor()
    const other = await page.context().newPage()
    await other.goto(consoleUrl('/keys'))
    await other.getByRole('row', { name: /private name/ }).waitFor()
    await page.goto(consoleUrl('/settings'))
    await page.getByRole('button', { name: /^Account/ }).click()
    await page.getByRole('menuitem', { name: 'Sign out', exact: true }).click()
    await page.getByRole('heading', { name: 'Sign in to Keyhook' }).waitFor()
    await other.getByRole('heading', { name: 'Sign in to Keyhook' }).waitFor()
    expect(await other.content()).not.toContain('private name')
    await page.goBack()
    await page.waitForURL(consoleUrl('/keys'))
    await page.getByRole('heading', { name: 'Sign in to Keyhook' }).waitFor()
    expect(await page.content()).not.toContain('private name')
  })

  test('another person who signs in with the same browser sees nothing of the first, in any tab', async () => {
    const stranger = await api.person([{ orgId: await api.organization('Elsewhere'), role: 'owner' }])
    const page = await openAs(owner, '/keys')
    await page.getByRole('row', { name: /private name/ }).waitFor()
    const other = await page.context().newPage()
    await other.goto(await signInLink(stranger.userId))
    await other.getByRole('heading', { name: 'Elsewhere', level: 1 }).waitFor()
    await page.getByRole('heading', { name: 'This page does not exist' }).waitFor({ timeout: 100_000 })
    expect(await page.content()).not.toContain('private name')
  })
})
