import { expect, onTestFinished, test } from 'vitest'
import { composeMail } from '../../server/src/compose/mail.ts'
import { readMailServer } from '../../server/src/lib/mail-server.ts'
import { isMailOn } from '../../server/src/mail/queue-sql.ts'
import { createMetrics } from '../../server/src/telemetry/metrics.ts'
import { captureLog } from '../../server/test/kit/captured-log.ts'
import { until } from '../../server/test/kit/until.ts'
import { startMailServer } from '../../server/test/mail/support/mail-server.ts'
import { expectAccessible } from './support/axe.ts'
import { api, consoleUrl, inBrowser, newPage, openAs, orgId, owner } from './support/console-test.ts'

/** A mail server, and what sends to it. The links lead to the server of the test. */
async function mailServer() {
  const server = await startMailServer()
  const mail = { mailFrom: { name: '', address: 'keyhook@example.com' }, publicUrl: api.url }
  const config = { ...api.config, ...mail, smtpUrl: readMailServer(`smtp://127.0.0.1:${server.port}`) }
  const sender = composeMail({ ...api, config }, { log: captureLog().log, metrics: createMetrics() })!
  onTestFinished(async () => {
    await sender.close()
    await server.stop()
  })
  await until(() => isMailOn(api.db))
  return async (to: string): Promise<string> => {
    const [mail] = await until(
      () => server.to(to),
      ({ length }) => length > 0,
    )
    return /http:\S+#[\w-]+/.exec(mail!.text)![0]
  }
}

inBrowser('with a mail server', () => {
  test('somebody signs in with a link that was mailed, by its button only, once', async () => {
    const linkTo = await mailServer()
    const { email } = await api.db<
      { email: string }[]
    >`select email from keyhook.users where id = ${owner.userId}`.one()
    const page = await newPage()
    await page.goto(`${api.url}/console/`)
    await page.getByLabel('Email').fill('nobody')
    await page.getByRole('button', { name: 'E-mail me a sign-in link' }).click()
    await page.getByText('Enter an email address.').waitFor()
    await page.getByLabel('Email').fill(email)
    await page.getByRole('button', { name: 'E-mail me a sign-in link' }).click()
    await page.getByText(`If ${email} is the confirmed address`).waitFor()
    await expectAccessible(page, 'the sign-in page with mail')
    const link = await linkTo(email)
    const scanner = await newPage()
    await scanner.goto(link)
    await scanner.getByRole('button', { name: 'Sign in' }).waitFor()
    await page.goto(link)
    await expectAccessible(page, 'the page of a mailed link')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.waitForURL(`**/console/${orgId}`)
    await scanner.getByRole('button', { name: 'Sign in' }).click()
    await scanner.getByText('The link was used already, or is older than 15 minutes. It works once').waitFor()
    await scanner.getByRole('link', { name: 'Ask for another link' }).click()
    await scanner.getByRole('button', { name: 'E-mail me a sign-in link' }).waitFor()
  })

  test('somebody is invited by mail; somebody else confirms the address afterwards', async () => {
    const linkTo = await mailServer()
    const page = await openAs(owner, '/members#invite')
    await page.getByLabel('Email').fill('mailed@example.com')
    await page.getByText('Send it by mail').click()
    await page.getByRole('button', { name: 'Send invitation' }).click()
    await page.getByText('The invitation is sent to mailed@example.com').waitFor()
    const invited = await newPage()
    await invited.goto(await linkTo('mailed@example.com'))
    await invited.getByRole('button', { name: 'Accept invitation' }).click()
    await invited.waitForURL(consoleUrl(''))
    expect(await invited.getByText('is not confirmed').count()).toBe(0)

    await page.getByRole('button', { name: 'Invite' }).click()
    await page.getByLabel('Email').fill('shown@example.com')
    await page.getByRole('button', { name: 'Create link' }).click()
    const shown = await page.getByLabel('Link', { exact: true }).inputValue()
    const other = await newPage()
    await other.goto(shown)
    await other.getByRole('button', { name: 'Accept invitation' }).click()
    await other.getByText('Your address shown@example.com is not confirmed').waitFor()
    await expectAccessible(other, 'a page of an unverified user')
    await other.getByRole('button', { name: 'E-mail me a link' }).click()
    await other.goto(await linkTo('shown@example.com'))
    await other.getByRole('button', { name: 'Confirm the address' }).click()
    await other.getByText('The address is confirmed').waitFor()
    expect(await other.getByText('is not confirmed').count()).toBe(0)
  })
})
