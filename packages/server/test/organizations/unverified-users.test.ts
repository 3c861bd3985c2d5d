import { describe, expect, test } from 'vitest'
import type { OrgId, UserId } from '../../src/lib/ids.ts'
import { createUser } from '../../src/organizations/rules.ts'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { createBrowser, tokenOf } from '../login/browser.ts'

/*
 * Whoever may invite can open the link, so a user who came by one may be anybody. See entry 163.
 */

const api = ownedApi()
let operatorToken: string | undefined
const operate = async <T>(method: string, template: string, path = template, body?: object) => {
  operatorToken ??= await api.operatorToken()
  const base = '/operator/v1/'
  return api.documented.call<T>(method, base + template, api.url + base + path, {
    token: operatorToken,
    ...(body && { body }),
  })
}

const newAddress = () => `victim-${crypto.randomUUID()}@example.com`
type Browser = ReturnType<typeof createBrowser>

async function invite(orgId: OrgId, token: string, email: string): Promise<string> {
  const url = `${api.url}/platform/v1/organizations/${orgId}/invitations`
  const { body } = await call<{ link: string }>(url, { token, body: { email, role: 'admin' } })
  return body.link.split('#')[1]!
}
const accept = (browser: Browser, invitation: string) =>
  browser.send<{ code: string }>('POST', '/console/invitation', { body: { invitation } })

/** A new organization whose owner has invited the address and opened the link, too. */
async function impostor(email: string) {
  const orgId = await api.organization()
  const owner = await api.person([{ orgId, role: 'owner' }])
  const browser = createBrowser(api.url)
  const accepted = await accept(browser, await invite(orgId, owner.token, email))
  const { user, token } = (await tokenOf(browser)).body as { user: { id: UserId } | null; token: string }
  return { orgId, owner, browser, status: accepted.status, userId: user?.id as UserId, token }
}

type Shown = { id: UserId; user_id: UserId; verified: boolean }
const membersOf = async (orgId: OrgId, token: string) =>
  (await call<Shown[]>(`${api.url}/platform/v1/organizations/${orgId}/members`, { token })).body
const verify = (userId: string) =>
  operate<Shown & { code: string }>('POST', 'users/{user_id}/verify', `users/${userId}/verify`)

describe('a user who was made by an invitation link', () => {
  test('is shown as unverified to members and to the operator, until the operator confirms the address', async () => {
    const { orgId, owner, userId } = await impostor(newAddress())
    const shown = async () => (await membersOf(orgId, owner.token)).map((one) => [one.user_id, one.verified])
    expect(await shown()).toEqual(
      expect.arrayContaining([
        [userId, false],
        [owner.userId, true],
      ]),
    )
    expect((await operate<Shown>('GET', 'users/{user_id}', `users/${userId}`)).body.verified).toBe(false)

    for (const _ of ['once', 'again']) {
      expect(await verify(userId)).toMatchObject({ status: 200, body: { id: userId, verified: true } })
    }
    expect(await shown()).toEqual(expect.arrayContaining([[userId, true]]))
    const entries = await api.db`
      select actor_kind, details from keyhook.audit_entries where org_id = ${orgId} and action = 'user.verified'`
    expect([...entries]).toEqual([{ actor_kind: 'operator', details: { by: 'operator' } }])
  })

  test('cannot be added to another organization before that, neither by the operator nor by an invitation', async () => {
    const { userId, browser } = await impostor(newAddress())
    const add = () =>
      operate<{ code: string }>('PUT', 'members/{org_id}/{user_id}', `members/${api.orgId}/${userId}`, {
        role: 'member',
      })
    const invitation = await invite(api.orgId, api.owner.token, newAddress())
    expect(await add()).toMatchObject({ status: 409, body: { code: 'user.unverified' } })
    expect(await accept(browser, invitation)).toMatchObject({ status: 409, body: { code: 'user.unverified' } })
    const members = await membersOf(api.orgId, api.owner.token)
    expect(members.map(({ user_id }) => user_id)).not.toContain(userId)

    await verify(userId)
    // The refusal has not used up the link.
    expect((await accept(browser, invitation)).status).toBe(200)
    expect((await add()).status).toBe(200)
  })

  test('does not take the address from anybody in another organization, or from the operator', async () => {
    const email = newAddress()
    const first = await impostor(email)
    const second = await impostor(email.toUpperCase())
    expect([first.status, second.status]).toEqual([200, 200])
    expect(second.userId).not.toBe(first.userId)
    const made = await operate<Shown>('POST', 'users', undefined, { email })
    expect(made).toMatchObject({ status: 201, body: { verified: true } })
    expect(await verify(first.userId)).toMatchObject({ status: 409, body: { code: 'user.email_taken' } })
    const listed = await operate<Shown[]>('GET', 'users', `users?email=${email}`)
    expect(listed.body.map(({ id }) => id).sort()).toEqual([first.userId, second.userId, made.body.id].sort())
  })

  test('is never signed in by another link of the same organization', async () => {
    const email = newAddress()
    const { orgId, owner } = await impostor(email)
    const again = await accept(createBrowser(api.url), await invite(orgId, owner.token, email))
    expect(again).toMatchObject({ status: 401, body: { code: 'console.session_required' } })
  })

  test('does not stop the owner of the address from being created after the operator has removed it', async () => {
    const email = newAddress()
    const { userId } = await impostor(email)
    await operate('DELETE', 'users/{user_id}', `users/${userId}`)
    const made = await api.db.begin((tx) => createUser(tx, { email, name: null, subject: null }))
    expect(made.verified_by).toBe('operator')
  })
})

describe('removing a member', () => {
  const keyOf = async (token: string) =>
    (
      await call<{ id: string; api_key: string }>(`${api.url}/api/v1/organizations/${api.orgId}/api-keys`, {
        token,
        body: { name: 'theirs' },
      })
    ).body
  const statusOf = async (key: string) => (await call(`${api.url}/api/v1/organizations`, { token: key })).status
  const setMember = (userId: string) =>
    operate('PUT', 'members/{org_id}/{user_id}', `members/${api.orgId}/${userId}`, { role: 'member' })

  const ways = {
    'a member': (userId: string, query: string) =>
      call(`${api.url}/platform/v1/organizations/${api.orgId}/members/${userId}${query}`, {
        token: api.owner.token,
        method: 'DELETE',
      }),
    'the operator': (userId: string, query: string) =>
      operate('DELETE', 'members/{org_id}/{user_id}', `members/${api.orgId}/${userId}${query}`),
  }
  test.each(Object.entries(ways))('by %s revokes their keys for good if asked, and only then', async (_, remove) => {
    const { token, userId } = await api.person([{ orgId: api.orgId, role: 'member' }])
    const key = await keyOf(token)
    expect((await remove(userId, '')).status).toBe(204)
    expect(await statusOf(key.api_key)).toBe(401)
    await setMember(userId)
    expect(await statusOf(key.api_key)).toBe(200)

    const child = await keyOf(key.api_key)
    expect((await remove(userId, '?revoke_keys=maybe')).status).toBe(422)
    expect((await remove(userId, '?revoke_keys=true')).status).toBe(204)
    await setMember(userId)
    expect([await statusOf(key.api_key), await statusOf(child.api_key)]).toEqual([401, 401])
    const entries = await api.db<{ target_id: string }[]>`
      select target_id from keyhook.audit_entries
      where action = 'key.revoked' and details ->> 'member_removed' = ${userId}`
    expect(entries.map(({ target_id }) => target_id).sort()).toEqual([key.id, child.id].sort())
  })
})
