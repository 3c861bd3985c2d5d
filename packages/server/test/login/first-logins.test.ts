import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { newId, type OrgId } from '../../src/lib/ids.ts'
import { insertSession } from '../../src/login/console-sessions.ts'
import { createUser, removeUser, setMember } from '../../src/organizations/rules.ts'
import { forgetSubject, insertUser } from '../../src/organizations/users.ts'
import { captureLog } from '../kit/captured-log.ts'
import { call } from '../kit/client.ts'
import { startApi, type TestApi, testOperator } from '../kit/installation.ts'
import { forge } from './support/forge.ts'
import { audience, newSigningKey, person, type RealIssuer, startRealIssuer } from './support/real-issuer.ts'

let real: RealIssuer
let robot: string

beforeAll(async () => {
  real = await startRealIssuer({ signingKey: await newSigningKey() })
  robot = await real.robotToken()
})
afterAll(() => real.stop())

const settings = () => ({ KEYHOOK_OIDC_ISSUER: real.issuer, KEYHOOK_OIDC_AUDIENCE: audience })
const tokenOf = (sub: string, email: string, claims: object = {}) =>
  forge(robot, { key: real.signingKey, claims: { sub, email, email_verified: true, ...claims } })

async function start(environment: Record<string, string> = {}) {
  const captured = captureLog()
  const api = await startApi({ ...settings(), ...environment }, captured.log)
  onTestFinished(() => api.close())
  const whyRefused = () =>
    captured.lines().flatMap(({ msg, why }) => (msg === 'request.answered' && why ? [String(why)] : []))
  return { api, whyRefused }
}

const organizations = (api: TestApi, token: string) =>
  call<{ id: string }[]>(`${api.url}/api/v1/organizations`, { token })
const userWith = async (api: TestApi, email: string, orgId: OrgId) => {
  const { id } = await api.db.begin((tx) => createUser(tx, { email, name: null, subject: null }))
  await setMember(api.db, testOperator, { orgId, userId: id, role: 'owner' })
  return id
}

describe('the first login by e-mail', () => {
  test('pins the subject: later the address alone is not enough, and the subject alone is', async () => {
    const { api } = await start()
    const orgId = await api.organization()
    const ada = await userWith(api, person.email, orgId)
    const { accessToken } = await real.logIn()
    expect((await organizations(api, accessToken)).body.map(({ id }) => id)).toEqual([orgId])
    const [row] = await api.db`select subject from keyhook.users where id = ${ada}`
    expect(row!.subject).toBe(person.subject)
    expect((await organizations(api, await tokenOf('successor', person.email))).status).toBe(401)
    expect((await organizations(api, await tokenOf(person.subject, 'renamed@example.com'))).status).toBe(200)
    const entries = await api.db`
      select actor_kind, user_id, target_id, details from keyhook.audit_entries where action = 'user.subject_pinned'`
    expect([...entries]).toEqual([
      { actor_kind: 'login', user_id: ada, target_id: ada, details: { subject: person.subject } },
    ])
    await forgetSubject(api.db, ada)
    expect((await organizations(api, await tokenOf('successor', person.email))).status).toBe(200)
  })

  test('of two subjects with one address at the same time pins one, and refuses the other', async () => {
    const { api } = await start()
    await userWith(api, 'shared@example.com', await api.organization())
    const tokens = await Promise.all(['one', 'two'].map((sub) => tokenOf(sub, 'shared@example.com')))
    const answers = await Promise.all(Array.from({ length: 10 }, (_, n) => organizations(api, tokens[n % 2]!)))
    expect(new Set(answers.map(({ status }, n) => `${n % 2} ${status}`)).size).toBe(2)
    expect([...new Set(answers.map(({ status }) => status))].sort()).toEqual([200, 401])
  })

  test('confirms the address of a user who came by an invitation, and ends the sessions and passkeys of whoever used it', async () => {
    const { api } = await start()
    const orgId = await api.organization()
    const email = 'invited@example.com'
    const userId = newId('usr')
    const unverified = { id: userId, email, name: null, subject: null, verified_by: null, invited_to: orgId }
    await api.db.begin((tx) => insertUser(tx, unverified))
    await setMember(api.db, testOperator, { orgId, userId, role: 'member' })
    const session = { hash: randomBytes(32), userId, way: 'invitation', address: '::1', userAgent: null } as const
    await api.db.begin((tx) => insertSession(tx, session))
    await api.db`
      insert into keyhook.passkeys (id, user_id, rp_id, credential_id, public_key, sign_count, transports, name)
      values (${newId('pas')}, ${userId}, 'localhost', 'x', 'x', 0, '{}', 'Of whoever had the link')`

    const token = await tokenOf('owner-of-the-address', email)
    expect((await organizations(api, token)).body.map(({ id }) => id)).toEqual([orgId])
    const [row] = await api.db`select subject, verified_by from keyhook.users where id = ${userId}`
    expect(row).toEqual({ subject: 'owner-of-the-address', verified_by: 'openid' })
    expect(await api.db`select 1 from keyhook.console_sessions where user_id = ${userId}`).toHaveLength(0)
    expect(await api.db`select 1 from keyhook.passkeys where user_id = ${userId}`).toHaveLength(0)
    const entries = await api.db`select details from keyhook.audit_entries where action = 'user.verified'`
    expect([...entries]).toEqual([{ details: { by: 'openid' } }])
  })

  test('never makes somebody the user of an invitation if a verified user has the address', async () => {
    const { api } = await start()
    const orgId = await api.organization()
    const email = 'known@example.com'
    const known = await userWith(api, email, orgId)
    const other = { id: newId('usr'), email, name: null, subject: null, verified_by: null, invited_to: orgId }
    await api.db.begin((tx) => insertUser(tx, other))
    expect((await organizations(api, await tokenOf('first', email))).status).toBe(200)
    // The verified user has a subject now, so this login is nobody.
    expect((await organizations(api, await tokenOf('second', email))).status).toBe(401)
    const rows = await api.db`select id, subject, verified_by from keyhook.users order by id`
    expect([...rows]).toEqual([
      { id: known, subject: 'first', verified_by: 'operator' },
      { id: other.id, subject: null, verified_by: null },
    ])
  })

  test('does nothing with an address that is not verified', async () => {
    const { api, whyRefused } = await start()
    await userWith(api, 'u@example.com', await api.organization())
    const token = await tokenOf('stranger', 'u@example.com', { email_verified: false })
    expect((await organizations(api, token)).status).toBe(401)
    expect(whyRefused()).toEqual([
      'login token: user: no user has the subject "stranger", it has no verified e-mail address',
    ])
  })
})

describe('a login without a user', () => {
  test('is refused unless the operator wants users to be created', async () => {
    const { api, whyRefused } = await start()
    expect((await organizations(api, await tokenOf('new', 'new@example.com'))).status).toBe(401)
    expect(whyRefused()).toEqual(['login token: user: no user has the subject "new", nor the address new@example.com'])
    expect(await api.db`select 1 from keyhook.users`).toHaveLength(0)
  })

  test('creates the user once, without an organization', async () => {
    const { api } = await start({ KEYHOOK_OIDC_CREATE_USERS: 'on' })
    const token = await tokenOf('new', 'new@example.com')
    const answers = await Promise.all(Array.from({ length: 8 }, () => organizations(api, token)))
    expect(answers.map(({ status, body }) => [status, body])).toEqual(Array(8).fill([200, []]))
    const users = await api.db`select email, subject from keyhook.users`
    expect([...users]).toEqual([{ email: 'new@example.com', subject: 'new' }])
  })

  test('creates nobody without a verified address, nor a user whom the operator removed', async () => {
    const { api } = await start({ KEYHOOK_OIDC_CREATE_USERS: 'on' })
    const unverified = await tokenOf('x', 'x@example.com', { email_verified: false })
    expect((await organizations(api, unverified)).status).toBe(401)
    const token = await tokenOf('gone', 'gone@example.com')
    expect((await organizations(api, token)).status).toBe(200)
    const [user] = await api.db`select id from keyhook.users`
    await removeUser(api.db, testOperator, { userId: user!.id })
    expect((await organizations(api, token)).status).toBe(401)
    expect((await organizations(api, await tokenOf('again', 'GONE@example.com'))).status).toBe(401)
    expect(await api.db`select 1 from keyhook.users`).toHaveLength(1)
  })
})

test('the log names the check that a token failed, and callers see the same 401', async () => {
  const { api, whyRefused } = await start()
  const sub = 'x'
  const change = (claims: object, header: object = {}) =>
    forge(robot, { key: real.signingKey, claims: { sub, ...claims }, header: header as Record<string, unknown> })
  const old = Math.floor(Date.now() / 1000) - 3_600
  const stranger = { ...(await newSigningKey()), kid: real.signingKey.kid! }
  const cases: [check: string, token: string, detail: RegExp][] = [
    ['issuer', await change({ iss: `${real.issuer}/` }), /expected "urn:keyhook:local" or "http.*", found "http.*\/"/],
    ['audience', await change({ aud: 'other' }), /expected ".*", found "other"/],
    ['type', await change({}, { typ: 'JWT' }), /expected at\+jwt, found "JWT"/],
    ['time', await change({ exp: old }), /expired at \d+/],
    ['time', await change({ nbf: old + 90_000 }), /found \d+|not valid before/],
    ['signature', await forge(robot, { key: stranger }), /does not fit/],
    ['key', await change({}, { kid: 'unknown' }), /no key/],
    ['subject', await change({ sub: undefined }), /sub/],
    ['client', await change({ client_id: undefined }), /client/],
    ['user', await change({}), /no user has the subject "x"/],
    ['form', 'a.b.c', /not a JWT/],
  ]
  const answers = new Set<string>()
  for (const [, token] of cases) {
    const { status, text } = await organizations(api, token)
    answers.add(`${status} ${text}`)
  }
  expect([...answers]).toHaveLength(1)
  const found = whyRefused()
  expect(found.map((why) => why.split(': ')[1])).toEqual(cases.map(([check]) => check))
  cases.forEach(([check, , detail], n) => void expect(found[n], check).toMatch(detail))
})
