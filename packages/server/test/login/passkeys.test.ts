import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { OrgId } from '../../src/lib/ids.ts'
import { endSessionsOf } from '../../src/login/console-sessions.ts'
import { removeUser } from '../../src/organizations/rules.ts'
import { lockUser } from '../../src/organizations/users.ts'
import { captureLog } from '../kit/captured-log.ts'
import { holdOpen } from '../kit/hold-open.ts'
import { type Person, startApi, startApiForTest, type TestApi, testOperator } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import { type Browser, createBrowser, linkFor, signIn, tokenOf } from './browser.ts'
import { createAuthenticator } from './support/authenticator.ts'
import { add, answerTo, atLocalhost, options, signInWith } from './support/passkeys.ts'

/*
 * Passkeys against a software authenticator, which makes real signatures. The console is at http://localhost, as after `npm start`.
 */

let api: TestApi
let orgId: OrgId
let ada: Person
let url: string

beforeAll(async () => {
  api = await startApi()
  url = atLocalhost(api.url)
  orgId = await api.organization()
  ada = await api.person([{ orgId, role: 'owner' }])
})
afterAll(() => api.close())

const session = (person = ada) => signIn(api, person.userId, createBrowser(url))
const codeOf = ({ body }: { body: unknown }) => (body as { code?: string }).code
const refusal = [403, 'console.passkey_refused']

describe('a passkey', () => {
  test('signs in as the person who added it, without naming anybody', async () => {
    const authenticator = createAuthenticator()
    const { status, body } = await add(await session(), authenticator, 'Security key')
    expect([status, body]).toEqual([201, expect.objectContaining({ name: 'Security key', host: 'localhost' })])

    const browser = createBrowser(url)
    const asked = (await options(browser, 'passkey-challenge')).body
    expect(asked).toMatchObject({ rpId: 'localhost', userVerification: 'required' })
    expect(asked.allowCredentials ?? []).toEqual([])
    const reply = await signInWith(browser, authenticator)
    expect(reply.status).toBe(204)
    expect(reply.headers.getSetCookie().find((line) => line.startsWith('keyhook_console'))).toMatch(
      /^keyhook_console=[\w-]{43}; Max-Age=1209600; HttpOnly; SameSite=Strict$/,
    )
    expect((await tokenOf(browser)).body.user).toMatchObject({ id: ada.userId })
  })

  test('is asked for with user verification and kept by the authenticator, for any authenticator and no second time', async () => {
    const browser = await session()
    const authenticator = createAuthenticator()
    await add(browser, authenticator)
    const { body } = await options(browser, 'passkey-options')
    expect(body).toMatchObject({
      attestation: 'none',
      rp: { id: 'localhost' },
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    })
    expect(body.excludeCredentials.map(({ id }) => id)).toContain(authenticator.id)
    expect(Buffer.from(body.user.id, 'base64url').toString()).toBe(ada.userId)
  })

  test('is listed, renamed and removed by its person alone, and is refused from then on', async () => {
    const authenticator = createAuthenticator()
    const browser = await session()
    const { id } = (await add(browser, authenticator, 'Phone')).body
    const grace = await session(await api.person([{ orgId, role: 'owner' }]))
    const path = `/console/passkeys/${id}`
    expect((await grace.send('PATCH', path, { body: { name: 'Mine' } })).status).toBe(404)
    expect((await grace.send('DELETE', path)).status).toBe(404)
    expect((await grace.send<{ passkeys: object[] }>('GET', '/console/passkeys')).body.passkeys).toEqual([])

    expect((await browser.send('PATCH', path, { body: { name: 'Old phone' } })).body).toMatchObject({
      name: 'Old phone',
    })
    expect((await signInWith(createBrowser(url), authenticator)).status).toBe(204)
    const listed = async () =>
      (await browser.send<{ passkeys: { id: string }[] }>('GET', '/console/passkeys')).body.passkeys
    expect(await listed()).toContainEqual(
      expect.objectContaining({ id, name: 'Old phone', last_used_at: expect.any(String) }),
    )
    expect((await browser.send('DELETE', path)).status).toBe(204)
    expect((await listed()).map((one) => one.id)).not.toContain(id)
    const reply = await signInWith(createBrowser(url), authenticator)
    expect([reply.status, codeOf(reply), reply.headers.get('set-cookie')]).toEqual([...refusal, null])
  })

  test('is in the audit log when it is added and removed', async () => {
    const browser = await session()
    const { id } = (await add(browser, createAuthenticator(), 'Audited')).body
    await browser.send('DELETE', `/console/passkeys/${id}`)
    const rows = await api.db`
      select action, user_id, target_id, details from keyhook.audit_entries
      where org_id = ${orgId} and details ->> 'passkey' = ${id} order by id`
    const common = { user_id: ada.userId, target_id: ada.userId, details: { passkey: id, name: 'Audited' } }
    expect([...rows]).toEqual([
      { action: 'user.passkey_added', ...common },
      { action: 'user.passkey_removed', ...common },
    ])
  })

  test('is not added by a session that ends in the meantime', async () => {
    const person = await api.person([{ orgId, role: 'member' }])
    const browser = await session(person)
    const unlock = await holdOpen(api.db, (tx) => lockUser(tx, person.userId))
    const adding = add(browser, createAuthenticator())
    await until(
      () => api.db`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      ({ length }) => length > 0,
    )
    await api.db.begin((tx) => endSessionsOf(tx, person.userId))
    await unlock()
    expect((await adding).status).not.toBe(201)
    expect(await api.db`select 1 from keyhook.passkeys where user_id = ${person.userId}`).toHaveLength(0)
  })

  test('of a person who was removed signs nobody in', async () => {
    const gone = await api.person([{ orgId, role: 'member' }])
    const authenticator = createAuthenticator()
    await add(await session(gone), authenticator)
    await removeUser(api.db, testOperator, { userId: gone.userId })
    const reply = await signInWith(createBrowser(url), authenticator)
    expect([reply.status, codeOf(reply)]).toEqual(refusal)
    expect(await api.db`select 1 from keyhook.passkeys where user_id = ${gone.userId}`).toHaveLength(0)
  })

  test('never signs in as a service member, whatever is in the table', async () => {
    const authenticator = createAuthenticator()
    const person = await api.person([{ orgId, role: 'member' }])
    await add(await session(person), authenticator)
    expect((await signInWith(createBrowser(url), authenticator)).status).toBe(204)
    await api.db`
      update keyhook.users set is_service = true, email = null, name = 'robot', verified_by = null, invited_to = ${orgId}
      where id = ${person.userId}`
    const reply = await signInWith(createBrowser(url), authenticator)
    expect([reply.status, codeOf(reply)]).toEqual(refusal)
  })

  test('is one of twenty at most', async () => {
    const browser = await session(await api.person())
    for (let n = 0; n < 20; n++) expect((await add(browser, createAuthenticator())).status).toBe(201)
    const reply = await add(browser, createAuthenticator())
    expect([reply.status, reply.text]).toEqual([403, expect.stringContaining('at most 20 passkeys')])
  })

  test('cannot be added by a token, by the operator, or by a page of another site', async () => {
    const browser = await session()
    const { body } = await options(browser, 'passkey-options')
    const answer = createAuthenticator().create(body, { origin: url })
    const byToken = await createBrowser(url).send('POST', '/console/passkeys', {
      body: { name: 'x', answer },
      headers: { authorization: `Bearer ${ada.token}` },
    })
    expect([byToken.status, codeOf(byToken)]).toEqual([401, 'console.session_required'])
    const operator = await signIn(api, null, createBrowser(url))
    expect((await options(operator, 'passkey-options')).status).toBe(401)
    const evil = await browser.send('POST', '/console/passkeys', {
      body: { name: 'x', answer },
      headers: { origin: 'https://evil.example' },
    })
    expect([evil.status, codeOf(evil)]).toEqual([403, 'console.origin_refused'])
  })
})

describe('an answer', () => {
  const authenticator = createAuthenticator()
  beforeAll(async () => void (await add(await session(), authenticator)))

  /** Sent by a browser that asked; refused, and nobody is signed in. */
  async function refused(change: (asked: { challenge: string; origin: string; rpId: string }) => object) {
    const browser = createBrowser(url)
    const { challenge } = (await options(browser, 'passkey-challenge')).body
    const answer = change({ challenge, origin: url, rpId: 'localhost' })
    const reply = await browser.send('POST', '/console/passkey-session', { body: { answer } })
    expect([reply.status, codeOf(reply), browser.cookie]).toEqual([...refusal, null])
  }

  test('works once, also for many requests at the same time', async () => {
    const browser = createBrowser(url)
    const answer = await answerTo(browser, authenticator)
    const kept = `keyhook_passkey=${browser.cookies.get('keyhook_passkey')}`
    const send = () =>
      createBrowser(url).send('POST', '/console/passkey-session', { body: { answer }, headers: { cookie: kept } })
    const replies = await Promise.all(Array.from({ length: 10 }, send))
    expect(replies.map(({ status }) => status).sort()).toEqual([204, ...new Array(9).fill(403)])
    expect((await send()).status).toBe(403)
  })

  test('is refused after five minutes', async () => {
    const browser = createBrowser(url)
    const answer = await answerTo(browser, authenticator)
    const [keyId, box] = browser.cookies.get('keyhook_passkey')!.split('.')
    const context = 'passkey challenge'
    const content = JSON.parse(api.masterKeys.open({ keyId: keyId!, box: Buffer.from(box!, 'base64url') }, context))
    expect(content.expiresMs - Date.now()).toBeLessThanOrEqual(300_000)
    const late = api.masterKeys.seal(JSON.stringify({ ...content, expiresMs: Date.now() }), context)
    browser.cookies.set('keyhook_passkey', `${late.keyId}.${late.box.toString('base64url')}`)
    const reply = await browser.send('POST', '/console/passkey-session', { body: { answer } })
    expect([reply.status, codeOf(reply)]).toEqual(refusal)
  })

  test('to the challenge of another browser is refused, and without any', async () => {
    const [mine, theirs] = [createBrowser(url), createBrowser(url)]
    const answer = await answerTo(theirs, authenticator)
    await options(mine, 'passkey-challenge')
    for (const browser of [mine, createBrowser(url)]) {
      const reply = await browser.send('POST', '/console/passkey-session', { body: { answer } })
      expect([reply.status, codeOf(reply)]).toEqual(refusal)
    }
  })

  test('to a challenge for adding a passkey does not sign in, and none for signing in adds one', async () => {
    const browser = await session()
    const adding = (await options(browser, 'passkey-options')).body
    const answer = authenticator.get({ challenge: adding.challenge, origin: url, rpId: 'localhost' })
    expect((await browser.send('POST', '/console/passkey-session', { body: { answer } })).status).toBe(403)
    const { challenge } = (await options(browser, 'passkey-challenge')).body
    const made = createAuthenticator().create({ ...adding, challenge }, { origin: url })
    expect((await browser.send('POST', '/console/passkeys', { body: { name: 'x', answer: made } })).status).toBe(403)
  })

  test('of a page at another origin is refused, also at another port of localhost', async () => {
    await refused((asked) => authenticator.get({ ...asked, origin: 'https://evil.example' }))
    await refused((asked) => authenticator.get({ ...asked, origin: 'http://localhost:1' }))
    await refused((asked) => authenticator.get({ ...asked, origin: `${url}/` }))
  })

  test('for another host is refused', () => refused((asked) => authenticator.get({ ...asked, rpId: 'evil.example' })))

  test('with a signature of another key is refused', () =>
    refused((asked) => {
      const { id, rawId, response } = authenticator.get(asked)
      const forged = createAuthenticator().get(asked, { userHandle: response.userHandle })
      return { ...forged, id, rawId }
    }))

  test('that names another person is refused', async () => {
    const { userId } = await api.person()
    await refused((asked) => authenticator.get(asked, { userHandle: Buffer.from(userId).toString('base64url') }))
  })

  test('without a PIN or a finger is refused', () =>
    refused((asked) => authenticator.get(asked, { userVerified: false })))

  test('whose count goes back or stands still is refused, if the authenticator counts', async () => {
    const counting = createAuthenticator()
    await add(await session(), counting)
    const statusWith = async (signCount: number) =>
      (await signInWith(createBrowser(url), counting, { signCount })).status
    expect([await statusWith(0), await statusWith(0), await statusWith(5)]).toEqual([204, 204, 204])
    expect([await statusWith(5), await statusWith(4), await statusWith(0)]).toEqual([403, 403, 403])
    expect(await statusWith(6)).toBe(204)
  })
})

describe('a new passkey', () => {
  const addWith = async (browser: Browser, change: Parameters<ReturnType<typeof createAuthenticator>['create']>[1]) => {
    const { body } = await options(browser, 'passkey-options')
    const answer = createAuthenticator().create(body, change)
    return browser.send('POST', '/console/passkeys', { body: { name: 'x', answer } })
  }

  test('is refused from another origin, for another host, and without user verification', async () => {
    const browser = await session()
    for (const change of [
      { origin: 'https://evil.example' },
      { origin: url, rpId: 'evil.example' },
      { origin: url, userVerified: false },
    ]) {
      const reply = await addWith(browser, change)
      expect([reply.status, codeOf(reply)]).toEqual(refusal)
    }
    expect((await addWith(browser, { origin: url })).status).toBe(201)
  })

  test('answers the challenge of this session, once', async () => {
    const browser = await session()
    const { body } = await options(browser, 'passkey-options')
    const kept = browser.cookies.get('keyhook_passkey')!
    const other = await session()
    other.cookies.set('keyhook_passkey', kept)
    const answer = () => createAuthenticator().create(body, { origin: url })
    const send = (from: Browser) => from.send('POST', '/console/passkeys', { body: { name: 'x', answer: answer() } })
    expect((await send(other)).status).toBe(403)
    expect([(await send(browser)).status, (await send(browser)).status]).toEqual([201, 403])
  })

  test('with a certificate is refused before its content is looked at', async () => {
    const { log, lines } = captureLog()
    const logged = await startApiForTest({}, log)
    const at = atLocalhost(logged.url)
    const browser = await signIn(logged, (await logged.person()).userId, createBrowser(at))
    const { body } = await options(browser, 'passkey-options')
    const attestation = { format: 'packed', certificate: Buffer.from('no certificate') }
    const answer = createAuthenticator().create(body, { origin: at }, attestation)
    const reply = await browser.send('POST', '/console/passkeys', { body: { name: 'x', answer } })
    expect([reply.status, codeOf(reply)]).toEqual(refusal)
    expect(lines().map(({ why }) => why)).toContain('Error: an attestation of the form packed was not asked for')
  })

  test('signed by itself is accepted: some browsers leave that', async () => {
    const browser = await session()
    const { body } = await options(browser, 'passkey-options')
    const answer = createAuthenticator().create(body, { origin: url }, { format: 'packed' })
    expect((await browser.send('POST', '/console/passkeys', { body: { name: 'x', answer } })).status).toBe(201)
  })
})

test('one is offered in a session that came by a link, until it is added or declined', async () => {
  const { userId } = await api.person([{ orgId, role: 'member' }])
  const offers = async (browser: Browser) =>
    (await browser.send<{ offers_passkey: boolean }>('POST', '/console/token')).body.offers_passkey
  const [one, two] = [await session({ userId, token: '' }), await session({ userId, token: '' })]
  expect([await offers(one), await offers(two)]).toEqual([true, true])
  // Where there can be none, none is offered.
  const elsewhere = await signIn(api, userId)
  expect(await offers(elsewhere)).toBe(false)
  await one.send('DELETE', '/console/passkey-offer')
  expect([await offers(one), await offers(two)]).toEqual([false, false])

  const again = await session({ userId, token: '' })
  expect(await offers(again)).toBe(true)
  const authenticator = createAuthenticator()
  await add(again, authenticator)
  expect(await offers(again)).toBe(false)
  expect(await offers(await session({ userId, token: '' }))).toBe(false)
})

test('one is added within 15 minutes after signing in, and neither offered nor added later', async () => {
  const { userId } = await api.person([{ orgId, role: 'member' }])
  const browser = await session({ userId, token: '' })
  const pass = (minutes: number) => api.db`
    update keyhook.console_sessions set created_at = created_at - make_interval(mins => ${minutes}) where user_id = ${userId}`
  const offers = async () =>
    (await browser.send<{ offers_passkey: boolean }>('POST', '/console/token')).body.offers_passkey
  await pass(14)
  expect(await offers()).toBe(true)
  expect((await options(browser, 'passkey-options')).status).toBe(200)
  await pass(1)
  expect(await offers()).toBe(false)
  const reply = await options(browser, 'passkey-options')
  expect([reply.status, codeOf(reply), reply.text]).toEqual([
    ...refusal,
    expect.stringContaining('Sign in again to add'),
  ])
  expect((await add(await session({ userId, token: '' }), createAuthenticator())).status).toBe(201)
})

test('a link that signs in still works for a person with passkeys, who can add another one', async () => {
  const person = await api.person()
  await add(await session(person), createAuthenticator())
  const browser = createBrowser(url)
  await browser.send('POST', '/console/session', { body: { link: await linkFor(api, person.userId) } })
  expect((await add(browser, createAuthenticator())).status).toBe(201)
})
