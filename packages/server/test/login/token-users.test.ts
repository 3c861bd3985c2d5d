import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { OrgId, UserId } from '../../src/lib/ids.ts'
import { createUser, removeUser, setMember } from '../../src/organizations/rules.ts'
import { call } from '../kit/client.ts'
import { startApi, type TestApi, testOperator } from '../kit/installation.ts'
import { forge } from './support/forge.ts'
import { audience, newSigningKey, person, type RealIssuer, startRealIssuer } from './support/real-issuer.ts'

let real: RealIssuer
let api: TestApi
let orgId: OrgId
let robot: string

beforeAll(async () => {
  real = await startRealIssuer({ signingKey: await newSigningKey() })
  api = await startApi({ KEYHOOK_OIDC_ISSUER: real.issuer, KEYHOOK_OIDC_AUDIENCE: audience })
  orgId = await api.organization()
  robot = await real.robotToken()
})
afterAll(async () => {
  await api.close()
  await real.stop()
})

let count = 0
async function member(user: { email?: string; subject?: string } = {}): Promise<UserId> {
  const { email = `member-${count++}@example.com`, subject = null } = user
  const { id } = await api.db.begin((tx) => createUser(tx, { email, name: null, subject }))
  await setMember(api.db, testOperator, { orgId, userId: id, role: 'owner' })
  return id
}

/** A token of the OpenID issuer with these claims. */
const openId = (claims: { sub: string; email?: string; email_verified?: boolean }) =>
  forge(robot, { key: real.signingKey, claims })
const local = (subject: string) => api.issuer.issue({ subject, ttlSeconds: 60 })

/** The user of a token, read from a key that it creates; null if it is refused. */
async function userOf(token: string): Promise<string | null> {
  const made = await call<{ id: string }>(`${api.url}/api/v1/organizations/${orgId}/api-keys`, {
    token,
    body: { name: 'mine' },
  })
  if (made.status === 401) return null
  const [row] = await api.db`select created_by from keyhook.api_keys where id = ${made.body.id}`
  return row!.created_by
}

describe('a token of the OpenID issuer', () => {
  it('is refused when its subject is one of our user ids', async () => {
    expect(await userOf(await openId({ sub: await member() }))).toBeNull()
    expect(await userOf(await openId({ sub: await member({ subject: 'recorded' }) }))).toBeNull()
  })

  it('belongs to the user with its recorded subject, even if that looks like the id of another user', async () => {
    const other = await member()
    const grace = await member({ subject: other })
    expect(await userOf(await openId({ sub: other }))).toBe(grace)
  })

  it('belongs to the user with its verified address, unless another subject is recorded for that user', async () => {
    const plain = await member({ email: 'plain@example.com' })
    await member({ email: 'bound@example.com', subject: 'bound' })
    const verified = (sub: string, email: string) => openId({ sub, email, email_verified: true })
    expect(await userOf(await verified('newcomer', 'Plain@example.com'))).toBe(plain)
    expect(await userOf(await verified('second', 'bound@example.com'))).toBeNull()
    expect(await userOf(await openId({ sub: 'third', email: 'bound@example.com', email_verified: false }))).toBeNull()
  })

  // U+212A is a k to Unicode's lower case, U+0130 an i with a dot.
  it('is refused when its address equals that of a user only by Unicode case folding', async () => {
    const ivy = await member({ email: 'ivy.kane@example.com' })
    const verified = (email: string) => openId({ sub: `lookalike of ${email}`, email, email_verified: true })
    expect(await userOf(await verified('ivy.\u212Aane@example.com'))).toBeNull()
    expect(await userOf(await verified('\u0130vy.kane@example.com'))).toBeNull()
    expect(await userOf(await verified('IVY.Kane@example.com'))).toBe(ivy)
    const other = await member({ email: 'ivy.\u212Aane@example.com' })
    expect(await userOf(await verified('ivy.\u212Aane@example.com'))).toBe(other)
    await expect(member({ email: 'Ivy.Kane@Example.com' })).rejects.toThrow()
  })

  it('belongs to the person who logged in there', async () => {
    const ada = await member({ email: person.email, subject: person.subject })
    expect(await userOf((await real.logIn()).accessToken)).toBe(ada)
    await removeUser(api.db, testOperator, { userId: ada })
    expect(await userOf((await real.logIn()).accessToken)).toBeNull()
  })
})

describe('a token of the local issuer', () => {
  it('belongs to the user with its id, whatever subject is recorded for that user', async () => {
    for (const user of [await member(), await member({ subject: 'also-elsewhere' })]) {
      expect(await userOf(await local(user))).toBe(user)
    }
  })

  it('is refused when its subject is one that was recorded for the OpenID issuer', async () => {
    await member({ subject: 'of-the-openid-issuer' })
    expect(await userOf(await local('of-the-openid-issuer'))).toBeNull()
  })
})
