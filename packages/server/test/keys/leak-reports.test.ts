import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { disableOptionalTypes, enableOptionalTypes } from '../../src/delivery/event-types.ts'
import type { OrgId } from '../../src/lib/ids.ts'
import { hashApiKey, mintApiKey } from '../../src/lib/secrets.ts'
import { call } from '../kit/client.ts'
import { apiAlone } from '../kit/composed.ts'
import { type Person, startApi, startApiForTest, type TestApi } from '../kit/installation.ts'
import { mailingApi } from '../mail/support/mailing-api.ts'
import { fileWith, githubKeyPair, type Reported, report } from './support/leak-reports.ts'

const github = githubKeyPair()
const keysFile = fileWith(github.published, afterAll)
let api: TestApi
let orgId: OrgId
let owner: Person
beforeAll(async () => {
  api = await startApi({ KEYHOOK_LEAK_REPORT_KEYS_FILE: keysFile })
})
afterAll(() => api.close())
beforeEach(async () => {
  orgId = await api.organization()
  owner = await api.person([{ orgId, role: 'owner' }])
})

type Key = { id: string; name: string; key_prefix: string; api_key: string }
type Details = { status: string; leaked_at: string | null; leaked_url: string | null }
type Entry = { action: string; actor: { kind: string }; target_id: string; details: Record<string, unknown> }

const published = (path: string) => `${api.url}/api/v1/organizations/${orgId}/${path}`
const platform = (path: string) => `${api.url}/platform/v1/organizations/${orgId}/${path}`
const create = async (token = owner.token, body: object = { name: 'ci' }) =>
  (await call<Key>(platform('api-keys'), { token, body })).body
const statusOf = async (key: Key) => (await call(published('webhooks'), { token: key.api_key })).status
const detailsOf = async ({ id }: Key) => (await call<Details>(platform(`api-keys/${id}`), { token: owner.token })).body
const auditOf = async () =>
  (await call<Entry[]>(platform('audit-log'), { token: owner.token })).body.filter(({ action }) =>
    ['key.leaked', 'key.revoked'].includes(action),
  )
const events = async () => {
  const rows = await api.db<{ type: string; body: string }[]>`
    select type, body from keyhook.events where org_id = ${orgId} and type in ('key.leaked', 'key.revoked') order by seq`
  return rows.map(({ type, body }) => ({ type, data: JSON.parse(body).data }))
}

const place = 'https://github.com/octocat/Hello-World/blob/1234/deploy.sh'
const found = (token: string): Reported => ({ token, type: 'keyhook_api_key', url: place, source: 'content' })
const labelled = (token: string, label: string) => ({
  token_hash: hashApiKey(token),
  token_type: 'keyhook_api_key',
  label,
})

test('a key of an organization that is being deleted does not keep the other keys of a report', async () => {
  const gone = await create()
  const goneFrom = orgId
  orgId = await api.organization()
  owner = await api.person([{ orgId, role: 'owner' }])
  const other = await create()
  await api.db`update keyhook.organizations set deleted_at = now() where id = ${goneFrom}`
  expect((await report(api.url, github, [found(gone.api_key), found(other.api_key)])).status).toBe(200)
  expect(await statusOf(other)).toBe(401)
})

test('a reported key is revoked with its descendants at once, and the report says where it was found', async () => {
  await enableOptionalTypes(api.db, ['key.leaked', 'key.revoked'])
  const root = await create()
  const child = await create(root.api_key)
  const other = await create()
  const answer = await report(api.url, github, [found(root.api_key)])
  expect(answer).toMatchObject({ status: 200, body: [labelled(root.api_key, 'true_positive')] })
  expect(await Promise.all([root, child, other].map(statusOf))).toEqual([401, 401, 200])

  expect(await detailsOf(root)).toMatchObject({ status: 'revoked', leaked_at: expect.any(String), leaked_url: place })
  expect(await detailsOf(child)).toMatchObject({ status: 'revoked', leaked_at: null, leaked_url: null })
  expect(await auditOf()).toMatchObject([
    { action: 'key.revoked', target_id: child.id, details: { descendant_of: root.id } },
    { action: 'key.revoked', target_id: root.id, details: { reason: 'leaked' } },
    {
      action: 'key.leaked',
      actor: { kind: 'operator' },
      target_id: root.id,
      details: { found_at: place, source: 'content', reported_by: 'github' },
    },
  ])
  const named = ({ id, name, key_prefix }: Key) => ({ api_key_id: id, name, key_prefix })
  const expected = [
    { type: 'key.leaked', data: { ...named(root), found_at: place, also_revoked: 1 } },
    { type: 'key.revoked', data: { ...named(root), reason: 'leaked' } },
    { type: 'key.revoked', data: { ...named(child), reason: 'creator_revoked' } },
  ]
  expect(await events()).toEqual(expected)

  // A replay, and another place, change nothing.
  const audit = await auditOf()
  await report(api.url, github, [found(root.api_key)])
  await report(api.url, github, [{ ...found(root.api_key), url: 'https://example.com/' }])
  expect([await events(), await auditOf(), (await detailsOf(root)).leaked_url]).toEqual([expected, audit, place])
  await disableOptionalTypes(api.db, ['key.leaked', 'key.revoked'], { force: true })
})

test('each owner gets one mail, with the key and the place', async () => {
  const mailing = await mailingApi({ KEYHOOK_LEAK_REPORT_KEYS_FILE: keysFile })
  const org = await mailing.api.organization()
  const { userId, token } = await mailing.api.person([{ orgId: org, role: 'owner' }])
  await mailing.api.person([{ orgId: org, role: 'admin' }])
  const url = `${mailing.api.url}/api/v1/organizations/${org}/api-keys`
  const { body: key } = await call<Key>(url, { token, body: { name: 'ci' } })
  for (let i = 0; i < 2; i++) await report(mailing.api.url, github, [found(key.api_key)])
  await mailing.sent()
  const [user] = await mailing.api.db<{ email: string }[]>`select email from keyhook.users where id = ${userId}`
  expect(mailing.server.mails.map(({ to }) => to)).toEqual([[user!.email]])
  expect(mailing.server.mails[0]!.text).toContain(`“ci” (${key.key_prefix}…) was found in public at ${place}`)
})

test('keys of any organization, restricted keys and keys of former members are found in one report', async () => {
  const restricted = await create(owner.token, { name: 'narrow', permissions: ['keys:read'] })
  const member = await api.person([{ orgId, role: 'member' }])
  const left = await create(member.token)
  await call(platform(`members/${member.userId}`), { token: owner.token, method: 'DELETE' })
  const elsewhere = await api.organization()
  const stranger = await api.person([{ orgId: elsewhere, role: 'owner' }])
  const theirs = await call<Key>(`${api.url}/api/v1/organizations/${elsewhere}/api-keys`, {
    token: stranger.token,
    body: { name: 'theirs' },
  })
  const tokens = [restricted, left, theirs.body].map(({ api_key }) => api_key)
  const { body } = await report(api.url, github, tokens.map(found))
  expect(body.map(({ label }) => label)).toEqual(Array(3).fill('true_positive'))
  expect(await statusOf(restricted)).toBe(401)
  expect((await call(`${api.url}/api/v1/organizations`, { token: theirs.body.api_key })).status).toBe(401)
  // It would have worked again with the membership.
  expect(await detailsOf(left)).toMatchObject({ status: 'revoked', leaked_url: place })
})

test('of a key that is revoked already the place is recorded, and its descendants end', async () => {
  const root = await create()
  const child = await create(root.api_key)
  await call(published(`api-keys/${root.id}`), { token: owner.token, method: 'DELETE' })
  expect(await statusOf(child)).toBe(200)
  for (let i = 0; i < 2; i++) {
    const { body } = await report(api.url, github, [found(root.api_key)])
    expect(body).toEqual([labelled(root.api_key, 'true_positive')])
  }
  expect(await detailsOf(root)).toMatchObject({ leaked_url: place })
  expect(await statusOf(child)).toBe(401)
  const leaked = (await auditOf()).filter(({ action }) => action === 'key.leaked')
  expect(leaked).toHaveLength(1)
})

test('the same report on two nodes at the same time is recorded once', async () => {
  const second = apiAlone(api)
  const url = await second.app.listen({ host: '127.0.0.1', port: 0 })
  try {
    const key = await create()
    const answers = await Promise.all(
      [api.url, url, api.url, url].map((node) => report(node, github, [found(key.api_key)])),
    )
    expect(answers.map(({ status, body }) => [status, body[0]!.label])).toEqual(Array(4).fill([200, 'true_positive']))
    expect((await auditOf()).map(({ action }) => action)).toEqual(['key.revoked', 'key.leaked'])
  } finally {
    await second.close()
  }
})

test('a token without the form or checksum of a key costs no query; one that is no key of ours changes nothing', async () => {
  const key = await create()
  const wrong = `${key.api_key.slice(0, -1)}${key.api_key.endsWith('0') ? '1' : '0'}`
  const answers = await api.db.begin(async (tx) => {
    // Whoever reads a key now waits until the end of this transaction.
    await tx`lock table keyhook.api_keys in access exclusive mode`
    return report(api.url, github, [found(wrong), found(`${key.api_key}x`), found('ghp_0123456789'), found('')])
  })
  expect(answers.status).toBe(200)
  expect(answers.body.map(({ label }) => label)).toEqual(Array(4).fill('false_positive'))
  const unknown = mintApiKey('kh').apiKey
  const both = await report(api.url, github, [found(unknown), found(key.api_key)])
  expect(both.body).toEqual([labelled(unknown, 'false_positive'), labelled(key.api_key, 'true_positive')])
})

test('a report is refused, always alike, unless a configured key has signed exactly its bytes', async () => {
  const key = await create()
  const body = JSON.stringify([found(key.api_key)])
  const other = githubKeyPair(github.id)
  const refused = [
    await report(api.url, other, body),
    await report(api.url, { ...github, id: 'b'.repeat(64) }, body),
    await report(api.url, github, body, { body: `${body} ` }),
    await report(api.url, github, body, { body: body.replace('deploy', 'delete') }),
    await report(api.url, github, body, { headers: { 'Github-Public-Key-Signature': '' } }),
    await report(api.url, github, body, { headers: { 'Github-Public-Key-Signature': 'not base64!' } }),
    await call(`${api.url}/operator/v1/leak-reports/github`, { raw: body }),
    // An operator token is no signature.
    await call(`${api.url}/operator/v1/leak-reports/github`, { raw: body, token: await api.operatorToken() }),
  ]
  expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 403))
  expect(new Set(refused.map(({ text }) => text))).toHaveLength(1)
  expect(refused[0]!.body).toMatchObject({ code: 'auth.signature_invalid' })
  expect(await statusOf(key)).toBe(200)
  expect((await report(api.url, github, body)).status).toBe(200)
  expect(await statusOf(key)).toBe(401)
})

test('a signed body that is no list of reports is refused with a reason, and so is one that is too long', async () => {
  const send = async (body: string | Buffer) => {
    const { status, body: problem } = await report(api.url, github, body)
    return [status, problem.code]
  }
  expect(await send('{')).toEqual([400, 'request.malformed'])
  expect(await send(Buffer.from([0x5b, 0xff, 0x5d]))).toEqual([400, 'request.malformed'])
  expect(await send('{}')).toEqual([422, 'request.invalid'])
  expect(await send('[{"type":"x"}]')).toEqual([422, 'request.invalid'])
  expect(await send(JSON.stringify(Array(4_001).fill({ token: 'x' })))).toEqual([422, 'request.invalid'])
  expect(await send(JSON.stringify([{ token: 'x'.repeat(1_100_000) }]))).toEqual([413, 'request.too_large'])
  expect((await report(api.url, github, '[]')).body).toEqual([])
  // GitHub may add fields, and the place may be empty.
  expect((await report(api.url, github, '[{"token":"x","url":"","more":1}]')).body).toMatchObject([
    { token_type: null, label: 'false_positive' },
  ])
})

test('a hostile place is stored as a text without control characters', async () => {
  const key = await create()
  const url = `javascript:alert(1)\u001b[31m\u0000\u202e<script>\ud800${'x'.repeat(5_000)}`
  expect((await report(api.url, github, [{ token: key.api_key, url, source: '\u0000' }])).status).toBe(200)
  const { leaked_url } = await detailsOf(key)
  expect(leaked_url).toMatch(/^javascript:alert\(1\)\[31m<script>\ufffdx+$/)
  expect(leaked_url!.length).toBe(2_000)
  const [entry] = (await auditOf()).filter(({ action }) => action === 'key.leaked')
  expect(entry!.details).toEqual({ found_at: leaked_url, source: null, reported_by: 'github' })
})

test('without the setting there is no such route', async () => {
  const without = await startApiForTest()
  expect((await report(without.url, github, [])).status).toBe(404)
})
