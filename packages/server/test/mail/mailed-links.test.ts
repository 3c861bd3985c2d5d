import { describe, expect, test } from 'vitest'
import type { UserId } from '../../src/lib/ids.ts'
import { captureLog } from '../kit/captured-log.ts'
import { call } from '../kit/client.ts'
import { startApiForTest, type TestApi } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import { createBrowser, linkFor, signIn, tokenOf } from '../login/browser.ts'
import { createAuthenticator } from '../login/support/authenticator.ts'
import { add } from '../login/support/passkeys.ts'
import { linkIn } from './support/mail-server.ts'
import { mailingApi } from './support/mailing-api.ts'

const emailOf = async (api: TestApi, id: UserId) =>
  (await api.db<{ email: string }[]>`select email from keyhook.users where id = ${id}`.one()).email
const codeOf = ({ body }: { body: unknown }) => (body as { code: string }).code
const askFor = (api: TestApi, email: string, browser = createBrowser(api.url)) =>
  browser.send('POST', '/console/sign-in-mail', { body: { email } })
const use = (api: TestApi, link: string, browser = createBrowser(api.url)) =>
  browser.send('POST', '/console/session', { body: { link, mailed: true } })

describe('a sign-in link by mail', () => {
  test('signs in once; looking at its page uses nothing, and neither the database nor a log has it', async () => {
    const { log, text } = captureLog()
    const { api, server } = await mailingApi({}, log)
    const { userId } = await api.person()
    const email = await emailOf(api, userId)
    expect((await askFor(api, email)).status).toBe(202)
    const [mail] = await until(
      () => server.to(email),
      ({ length }) => length > 0,
    )
    const link = linkIn(mail!)
    expect(mail!.text).toContain(`https://keyhook.example.com/db/console/mailed-sign-in#${link}`)
    for (let scans = 0; scans < 3; scans += 1) await fetch(`${api.url}/console/mailed-sign-in`)
    const stored =
      await api.db`select l::text as text from keyhook.console_links l union all select m::text from keyhook.mails m`
    for (const place of [JSON.stringify(stored), text()]) {
      expect(place).not.toContain(link)
      expect(place).not.toContain(email)
    }
    const browser = createBrowser(api.url)
    expect((await use(api, link, browser)).status).toBe(204)
    expect((await tokenOf(browser)).body.user).toMatchObject({ id: userId, verified: true })
    expect((await use(api, link)).status).toBe(410)
  })

  test('goes to the address that the user has, however it was typed', async () => {
    const { api, server, sent } = await mailingApi()
    const { userId } = await api.person()
    const email = await emailOf(api, userId)
    await askFor(api, email.toUpperCase())
    await sent()
    expect(server.mails.map(({ to }) => to)).toEqual([[email]])
  })

  test('works only where the page asks first, so that nobody is sent into the session of somebody else', async () => {
    const { api, server } = await mailingApi()
    const { userId } = await api.person()
    const email = await emailOf(api, userId)
    await askFor(api, email)
    const [mail] = await until(
      () => server.to(email),
      ({ length }) => length > 0,
    )
    const link = linkIn(mail!)
    const atOnce = await createBrowser(api.url).send('POST', '/console/session', { body: { link } })
    expect(atOnce.status).toBe(410)
    expect((await use(api, link)).status).toBe(204)
  })

  test('is refused after fifteen minutes', async () => {
    const { api, server } = await mailingApi()
    const { userId } = await api.person()
    const email = await emailOf(api, userId)
    await askFor(api, email)
    const [mail] = await until(
      () => server.to(email),
      ({ length }) => length > 0,
    )
    await api.db`update keyhook.console_links set expires_at = expires_at - interval '15 minutes'`
    expect((await use(api, linkIn(mail!))).status).toBe(410)
  })

  test('is asked for with the same answer and the same statements for every address, and goes to confirmed users only', async () => {
    const { api, server, sent } = await mailingApi()
    const { userId } = await api.person()
    const orgId = await api.organization()
    const email = await emailOf(api, userId)
    await api.db`
      insert into keyhook.users (id, email, invited_to) values ('usr_unverified', 'unverified@example.com', ${orgId})`
    const answers = []
    for (const address of [email, 'nobody@example.com', 'unverified@example.com', 'a,b@example.com']) {
      const { status, text, headers } = await askFor(api, address)
      answers.push([status, text, [...headers.keys()].sort().join()])
    }
    expect(new Set(answers.map((answer) => answer.join())).size).toBe(1)
    await sent()
    expect(server.mails.map(({ to }) => to)).toEqual([[email]])
  })

  test('is refused beyond the number of an hour: alike for every address, and for one client with many addresses', async () => {
    const { api } = await mailingApi({ KEYHOOK_MAIL_PER_ADDRESS_MAX: '2' })
    const { userId } = await api.person()
    for (const address of [await emailOf(api, userId), 'nobody@example.com']) {
      const replies = []
      for (const form of [address, address.toUpperCase(), address]) replies.push(await askFor(api, form))
      expect(replies.map(({ status }) => status)).toEqual([202, 202, 429])
      expect(codeOf(replies[2]!)).toBe('mail.limit_reached')
      expect(Number(replies[2]!.headers.get('retry-after'))).toBeGreaterThan(0)
    }
    const statuses = []
    for (let i = 0; i < 30; i += 1) statuses.push((await askFor(api, `many-${i}@example.com`)).status)
    expect(statuses.at(-1)).toBe(429)
    await api.db`update keyhook.mail_counts set hour = hour - 1`
    expect((await askFor(api, 'nobody@example.com')).status).toBe(202)
  })

  test('is for pages of the console only, and not offered without mail or beside an OpenID issuer', async () => {
    const off = await startApiForTest()
    const ways = async (api: TestApi) => (await call(`${api.url}/console/config.json`)).body
    expect(await ways(off)).toMatchObject({ openid: false, mail: false, mail_sign_in: false })
    expect(codeOf(await askFor(off, 'a@example.com'))).toBe('mail.off')
    const { api } = await mailingApi()
    expect(await ways(api)).toMatchObject({ openid: false, mail: true, mail_sign_in: true })
    expect(codeOf(await askFor(api, 'a@example.com', createBrowser(api.url, 'https://evil.example')))).toBe(
      'console.origin_refused',
    )
    const oidc = { KEYHOOK_OIDC_ISSUER: 'https://login.example.com', KEYHOOK_OIDC_AUDIENCE: 'x' }
    const beside = await mailingApi(oidc)
    expect(await ways(beside.api)).toMatchObject({ openid: false, mail: true, mail_sign_in: false })
    expect(codeOf(await askFor(beside.api, 'a@example.com'))).toBe('mail.off')
  })
})

type Mailing = Awaited<ReturnType<typeof mailingApi>>
type Created = { id: string; link?: string; mailed: boolean; code?: string }

async function owned({ api }: Mailing) {
  const orgId = await api.organization()
  const owner = await api.person([{ orgId, role: 'owner' }])
  const invite = (email: string, mail?: boolean) =>
    call<Created>(`${api.url}/platform/v1/organizations/${orgId}/invitations`, {
      token: owner.token,
      body: { email, role: 'member', ...(mail !== undefined && { mail }) },
    })
  return { orgId, owner, invite }
}
const accept = (browser: ReturnType<typeof createBrowser>, invitation: string) =>
  browser.send<{ code: string }>('POST', '/console/invitation', { body: { invitation } })
const whoIn = async (browser: ReturnType<typeof createBrowser>) =>
  (await tokenOf(browser)).body.user as { id: UserId; email: string; verified: boolean } | null

describe('an invitation by mail', () => {
  test('shows its link to nobody else, and confirms the address of whoever accepts it', async () => {
    const mailing = await mailingApi()
    const { api, server } = mailing
    const { orgId, invite } = await owned(mailing)
    const { status, body } = await invite('grace@example.com', true)
    expect([status, body.link, body.mailed]).toEqual([201, undefined, true])
    const [mail] = await until(
      () => server.to('grace@example.com'),
      ({ length }) => length > 0,
    )
    const browser = createBrowser(api.url)
    expect((await accept(browser, linkIn(mail!))).status).toBe(200)
    expect(await whoIn(browser)).toMatchObject({ email: 'grace@example.com', verified: true })
    const rows = await api.db`select verified_by, invited_to from keyhook.users where email = 'grace@example.com'`
    expect([...rows]).toEqual([{ verified_by: 'email', invited_to: null }])
    const [entry] = await api.db`
      select details from keyhook.audit_entries where org_id = ${orgId} and action = 'member.invited'`
    expect(entry!.details).toEqual({ email: 'grace@example.com', role: 'member', sent: 'mail' })
  })

  test('whose link was shown confirms nothing, also with mail', async () => {
    const mailing = await mailingApi()
    const { invite } = await owned(mailing)
    const { body } = await invite('grace@example.com', false)
    const browser = createBrowser(mailing.api.url)
    await accept(browser, body.link!.split('#')[1]!)
    expect(await whoIn(browser)).toMatchObject({ verified: false })
  })

  test('confirms a user who is signed in with the same address, and nobody with another one', async () => {
    const mailing = await mailingApi()
    const { api, server } = mailing
    const [first, second] = [await owned(mailing), await owned(mailing)]
    const browser = createBrowser(api.url)
    await accept(browser, (await first.invite('grace@example.com')).body.link!.split('#')[1]!)
    await second.invite('other@example.com', true)
    const [other] = await until(
      () => server.to('other@example.com'),
      ({ length }) => length > 0,
    )
    expect(codeOf(await accept(browser, linkIn(other!)))).toBe('user.unverified')
    await second.invite('Grace@example.com', true)
    const [mail] = await until(
      () => server.to('Grace@example.com'),
      ({ length }) => length > 0,
    )
    const { id } = (await whoIn(browser))!
    expect((await browser.send('DELETE', '/console/passkey-offer')).status).toBe(204)
    // Whoever made the first link, and came with it before.
    const impostor = createBrowser(api.url)
    await impostor.send('POST', '/console/session', { body: { link: await linkFor(api, id) } })
    expect((await accept(browser, linkIn(mail!))).status).toBe(200)
    expect(await whoIn(browser)).toMatchObject({ verified: true })
    expect((await impostor.send('POST', '/console/token')).status).toBe(401)
    expect(await api.db`select way, offers_passkey from keyhook.console_sessions where user_id = ${id}`).toEqual([
      { way: 'invitation', offers_passkey: true },
    ])
  })

  test('of an impostor who came before does not keep the reader of the address out', async () => {
    const mailing = await mailingApi()
    const { api, server } = mailing
    const { invite } = await owned(mailing)
    const impostor = createBrowser(api.url)
    await accept(impostor, (await invite('grace@example.com')).body.link!.split('#')[1]!)
    await invite('grace@example.com', true)
    const [mail] = await until(
      () => server.to('grace@example.com'),
      ({ length }) => length > 0,
    )
    const grace = createBrowser(api.url)
    expect((await accept(grace, linkIn(mail!))).status).toBe(200)
    expect(await whoIn(grace)).toMatchObject({ verified: true })
    expect(await whoIn(impostor)).toMatchObject({ verified: false })
    expect((await whoIn(grace))!.id).not.toBe((await whoIn(impostor))!.id)
  })

  test.each(['grace@example.com,', '"grace"@example.com', 'a,b@example.com'])('is refused for %s', async (address) => {
    const { invite } = await owned(await mailingApi())
    const refused = await invite(address, true)
    expect([refused.status, codeOf(refused)]).toEqual([422, 'request.invalid'])
    expect(refused.text).toContain('/email')
    expect((await invite(address)).status).toBe(201)
  })

  test('is refused without mail and beyond the numbers of an hour, and its link names no address to a stranger', async () => {
    const off = await startApiForTest()
    expect((await (await owned({ api: off } as Mailing)).invite('a@example.com', true)).body.code).toBe('mail.off')
    const mailing = await mailingApi({ KEYHOOK_MAIL_PER_ADDRESS_MAX: '1' })
    const { invite, orgId } = await owned(mailing)
    await mailing.api.db`update keyhook.organizations set name = 'Win at https://evil.example' where id = ${orgId}`
    expect((await invite('a@example.com', true)).status).toBe(201)
    expect((await invite('a@example.com', true)).body.code).toBe('mail.limit_reached')
    const [mail] = await until(
      () => mailing.server.to('a@example.com'),
      ({ length }) => length > 0,
    )
    expect(mail!.raw).not.toContain('evil')
    expect(mail!.text).toContain('to join an organization at')
  })
})

describe('the confirmation of an address by mail', () => {
  /** Somebody who came by a link that was shown, and asked for the mail. */
  async function asking(mailing: Mailing, origin = mailing.api.url) {
    const { api, server } = mailing
    const { orgId, invite } = await owned(mailing)
    const browser = createBrowser(api.url, origin)
    await accept(browser, (await invite('grace@example.com')).body.link!.split('#')[1]!)
    expect((await browser.send('POST', '/console/confirmation-mail')).status).toBe(202)
    const [mail] = await until(
      () => server.to('grace@example.com'),
      ({ length }) => length > 0,
    )
    const confirm = (by: typeof browser) =>
      by.send<{ code: string }>('POST', '/console/confirmation', { body: { link: linkIn(mail!) } })
    return { orgId, browser, confirm, link: linkIn(mail!) }
  }

  test('works once, for whoever is signed in as the user, and ends the other sessions', async () => {
    const mailing = await mailingApi()
    const { api } = mailing
    const { orgId, browser, confirm, link } = await asking(mailing)
    const { id } = (await whoIn(browser))!
    const elsewhere = await signIn(api, id)
    // A reader of the mail who is not the user confirms nothing: an impostor would have the address.
    expect(codeOf(await confirm(createBrowser(api.url)))).toBe('console.session_required')
    const other = await signIn(api, (await api.person()).userId)
    expect(codeOf(await confirm(other))).toBe('console.link_invalid')
    expect((await use(api, link)).status).toBe(410)
    expect((await confirm(browser)).status).toBe(204)
    expect(await whoIn(browser)).toMatchObject({ verified: true })
    expect(await whoIn(elsewhere)).toBeUndefined()
    expect(codeOf(await confirm(browser))).toBe('console.link_invalid')
    const entries = await api.db`
      select user_id, details from keyhook.audit_entries where org_id = ${orgId} and action = 'user.verified'`
    expect([...entries]).toEqual([{ user_id: id, details: { by: 'email' } }])
  })

  test('removes the passkeys of before, and offers to add one again, however old the session was', async () => {
    const mailing = await mailingApi()
    const { browser, confirm } = await asking(mailing, 'https://keyhook.example.com')
    const offers = async () => ((await tokenOf(browser)).body as unknown as { offers_passkey: boolean }).offers_passkey
    expect((await add(browser, createAuthenticator())).status).toBe(201)
    expect(await offers()).toBe(false)
    await mailing.api.db`update keyhook.console_sessions set created_at = created_at - interval '1 hour'`
    expect((await confirm(browser)).status).toBe(204)
    expect((await browser.send<{ passkeys: object[] }>('GET', '/console/passkeys')).body.passkeys).toEqual([])
    expect(await offers()).toBe(true)
    expect((await add(browser, createAuthenticator())).status).toBe(201)
  })

  test('is refused when another user has the address by then, and after a day', async () => {
    const mailing = await mailingApi()
    const { browser, confirm } = await asking(mailing)
    await mailing.api.db`
      insert into keyhook.users (id, email, verified_by) values ('usr_first', 'GRACE@example.com', 'operator')`
    expect(codeOf(await confirm(browser))).toBe('user.email_taken')
    await mailing.api.db`delete from keyhook.users where id = 'usr_first'`
    await mailing.api.db`update keyhook.confirmation_links set expires_at = expires_at - interval '24 hours'`
    expect(codeOf(await confirm(browser))).toBe('console.link_invalid')
    expect(await whoIn(browser)).toMatchObject({ verified: false })
  })
})
