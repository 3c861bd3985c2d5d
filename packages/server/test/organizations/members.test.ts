import { describe, expect, test } from 'vitest'
import type { Role } from '../../src/access/roles.ts'
import { call } from '../kit/client.ts'
import { startApiForTest } from '../kit/installation.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { createBrowser, signIn, tokenOf } from '../login/browser.ts'

const api = ownedApi()
const org = () => `${api.url}/platform/v1/organizations/${api.orgId}`
const as = (role: Role) => api.person([{ orgId: api.orgId, role }])
const setRole = (token: string, userId: string, role: Role) =>
  call<{ code: string; role: string }>(`${org()}/members/${userId}`, { token, method: 'PUT', body: { role } })
const remove = (token: string, userId: string) =>
  call<{ code: string }>(`${org()}/members/${userId}`, { token, method: 'DELETE' })

type Invited = { id: string; link: string }
const invite = (token: string, role: Role = 'member', email = `new-${crypto.randomUUID()}@example.com`) =>
  call<Invited>(`${org()}/invitations`, { token, body: { email, role } })
const secretOf = ({ body }: { body: Invited }) => body.link.split('#')[1]!
const accept = (browser: ReturnType<typeof createBrowser>, invitation: string) =>
  browser.send<{ organization_id: string; code: string }>('POST', '/console/invitation', { body: { invitation } })

describe('members', () => {
  test('are listed with their roles for everybody in the organization', async () => {
    const { token, userId } = await as('member')
    const path = '/platform/v1/organizations/{org_id}/members'
    const { body } = await api.documented.call<{ user_id: string; role: string }[]>('GET', path, `${org()}/members`, {
      token,
    })
    const roles = Object.fromEntries(body.map((one) => [one.user_id, one.role]))
    expect(roles).toMatchObject({ [userId]: 'member', [api.owner.userId]: 'owner' })
  })

  test('get another role at once, in their keys too, and lose all access when they are removed', async () => {
    const { token, userId } = await as('member')
    const key = await call<{ api_key: string }>(`${api.url}/api/v1/organizations/${api.orgId}/api-keys`, {
      token,
      body: { name: 'theirs' },
    })
    const audit = async () => (await call(`${org()}/audit-log?limit=1`, { token: key.body.api_key })).status
    expect(await audit()).toBe(403)
    expect(await setRole(api.owner.token, userId, 'admin')).toMatchObject({ status: 200, body: { role: 'admin' } })
    expect(await audit()).toBe(200)
    expect((await remove(api.owner.token, userId)).status).toBe(204)
    expect(await audit()).toBe(401)
    expect((await remove(api.owner.token, userId)).status).toBe(404)
  })

  test('with the role admin cannot make, change, remove or invite owners', async () => {
    const { token, userId } = await as('admin')
    const other = await as('member')
    for (const refused of [
      await setRole(token, userId, 'owner'),
      await setRole(token, other.userId, 'owner'),
      await setRole(token, api.owner.userId, 'member'),
      await remove(token, api.owner.userId),
      await invite(token, 'owner'),
    ]) {
      expect(refused).toMatchObject({ status: 403, body: { code: 'auth.permission_missing' } })
    }
    expect((await setRole(token, other.userId, 'admin')).status).toBe(200)
  })

  test('keep one owner, whoever asks, also when two owners remove each other at the same time', async () => {
    const last = await startApiForTest()
    const orgId = await last.organization()
    const [a, b] = [await last.person([{ orgId, role: 'owner' }]), await last.person([{ orgId, role: 'owner' }])]
    const url = `${last.url}/platform/v1/organizations/${orgId}/members`
    const replies = await Promise.all([
      call(`${url}/${b.userId}`, { token: a.token, method: 'DELETE' }),
      call(`${url}/${a.userId}`, { token: b.token, method: 'PUT', body: { role: 'member' } }),
    ])
    const [row] = await last.db<{ count: number }[]>`
      select count(*)::int as count from keyhook.memberships where org_id = ${orgId} and role = 'owner'`
    expect(row!.count).toBe(1)
    expect(replies.filter(({ status }) => status < 300)).toHaveLength(1)
    const left = replies[0]!.status < 300 ? a : b
    const leaving = await call(`${url}/${left.userId}`, { token: left.token, method: 'DELETE' })
    expect(leaving).toMatchObject({ status: 409, body: { code: 'member.last_owner' } })
  })

  test('are not managed with an API key, whatever its role', async () => {
    const key = await call<{ api_key: string }>(`${api.url}/api/v1/organizations/${api.orgId}/api-keys`, {
      token: api.owner.token,
      body: { name: 'owner' },
    })
    const { userId } = await as('member')
    for (const refused of [
      await invite(key.body.api_key),
      await setRole(key.body.api_key, userId, 'admin'),
      await remove(key.body.api_key, userId),
    ])
      expect(refused).toMatchObject({ status: 403, body: { code: 'auth.login_required' } })
  })
})

describe('an invitation', () => {
  test('makes a new user with its address a member, who is signed in', async () => {
    const email = 'newcomer@example.com'
    const made = await invite(api.owner.token, 'admin', email)
    const browser = createBrowser(api.url)
    const preview = await browser.send('POST', '/console/invitation-preview', {
      body: { invitation: secretOf(made) },
    })
    expect(preview.body).toEqual({ organization: 'Acme', email, role: 'admin' })
    expect((await accept(browser, secretOf(made))).body).toEqual({ organization_id: api.orgId })
    const { user, organizations } = (await tokenOf(browser)).body as {
      user: unknown
      organizations: { role: string }[]
    }
    expect(user).toMatchObject({ email })
    expect(organizations.map(({ role }) => role)).toEqual(['admin'])
    const list = await call<{ id: string }[]>(`${org()}/invitations`, { token: api.owner.token })
    expect(list.body.map(({ id }) => id)).not.toContain(made.body.id)
  })

  test('is for the user who is signed in, whatever address it names', async () => {
    const stranger = await api.person()
    const browser = await signIn(api, stranger.userId)
    const before = browser.cookie
    expect((await accept(browser, secretOf(await invite(api.owner.token)))).status).toBe(200)
    expect(browser.cookie).toBe(before)
    const [row] = await api.db`select role from keyhook.memberships where user_id = ${stranger.userId}`
    expect(row!.role).toBe('member')
    const again = await accept(browser, secretOf(await invite(api.owner.token, 'admin')))
    expect(again).toMatchObject({ status: 409, body: { code: 'user.already_member' } })
  })

  test('never signs in an existing user: whoever made the link could otherwise become anyone', async () => {
    const [row] = await api.db<{ email: string }[]>`select email from keyhook.users where id = ${api.owner.userId}`
    const made = await invite(api.owner.token, 'member', row!.email.toUpperCase())
    const refused = await accept(createBrowser(api.url), secretOf(made))
    expect(refused).toMatchObject({ status: 401, body: { code: 'console.session_required' } })
    expect(refused.headers.get('set-cookie')).toBeNull()
  })

  test('works once, and not after it was withdrawn or has expired', async () => {
    const once = secretOf(await invite(api.owner.token))
    const replies = await Promise.all([1, 2, 3].map(() => accept(createBrowser(api.url), once)))
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 410, 410])

    const withdrawn = await invite(api.owner.token)
    await call(`${org()}/invitations/${withdrawn.body.id}`, { token: api.owner.token, method: 'DELETE' })
    expect((await accept(createBrowser(api.url), secretOf(withdrawn))).status).toBe(410)

    const late = await invite(api.owner.token)
    await api.db`update keyhook.invitations set expires_at = now() where id = ${late.body.id}`
    expect((await accept(createBrowser(api.url), secretOf(late))).status).toBe(410)
  })

  test('is refused from a page of another site, and its secret is stored as a hash', async () => {
    const made = await invite(api.owner.token)
    const evil = await accept(createBrowser(api.url, 'https://evil.example'), secretOf(made))
    expect([evil.status, evil.body.code]).toEqual([403, 'console.origin_refused'])
    const rows = await api.db<{ text: string }[]>`select i::text as text from keyhook.invitations i`
    for (const { text } of rows) expect(text).not.toContain(secretOf(made))
  })

  test('creates no user where an OpenID issuer knows the people', async () => {
    const openId = await startApiForTest({
      KEYHOOK_OIDC_ISSUER: 'https://login.example',
      KEYHOOK_OIDC_AUDIENCE: 'keyhook',
    })
    const orgId = await openId.organization()
    const { token } = await openId.person([{ orgId, role: 'owner' }])
    const made = await call<Invited>(`${openId.url}/platform/v1/organizations/${orgId}/invitations`, {
      token,
      body: { email: 'new@example.com', role: 'member' },
    })
    expect((await accept(createBrowser(openId.url), secretOf(made))).status).toBe(401)
  })
})
