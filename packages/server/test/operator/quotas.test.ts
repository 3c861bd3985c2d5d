import { describe, expect, test } from 'vitest'
import { changeStorageLimit } from '../../src/databases/rules.ts'
import { type DatabaseId, newId, type OrgId } from '../../src/lib/ids.ts'
import { hookBody, preparePlatform } from '../http/support/changes.ts'
import { call } from '../kit/client.ts'
import { apiAlone } from '../kit/composed.ts'
import { type Person, testOperator } from '../kit/installation.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { until } from '../kit/until.ts'
import { createBrowser, signIn } from '../login/browser.ts'

/*
 * What one organization may have, in place of the settings. See entry 186.
 */

const api = ownedApi()
type Quota = { used: number | null; limit: number | null; is_own: boolean }
type Quotas = Record<string, Quota>
type Problem = { code: string; detail: string }
type Made = { id: string; api_key: string; user_id: string; link: string }

const template = '/operator/v1/organizations/{org_id}/quotas'
const operatorUrl = (orgId: OrgId) => `${api.url}/operator/v1/organizations/${orgId}/quotas`

async function limited(changes: Record<string, number | null>, orgId?: OrgId) {
  const id = orgId ?? (await api.organization())
  const reply = await api.documented.call<Quotas>('PATCH', template, operatorUrl(id), {
    token: await api.operatorToken(),
    body: changes,
  })
  expect(reply.status, reply.text).toBe(200)
  return { orgId: id, quotas: reply.body }
}

const ownerOf = (orgId: OrgId) => api.person([{ orgId, role: 'owner' }])
const at = (orgId: OrgId, path: string, surface = 'platform/v1', url = api.url) =>
  `${url}/${surface}/organizations/${orgId}/${path}`
const post = (url: string, { token }: Pick<Person, 'token'>, body: object = {}) =>
  call<Made & Problem>(url, { token, body })

/** Each record that counts, by the quota. */
const creations: Record<string, (orgId: OrgId, owner: Person, url?: string) => ReturnType<typeof post>> = {
  keys: (orgId, owner, url) => post(at(orgId, 'api-keys', 'api/v1', url), owner, { name: 'ci' }),
  webhooks: (orgId, owner, url) => post(at(orgId, 'webhooks', 'api/v1', url), owner, hookBody),
  databases: (orgId, owner, url) => post(at(orgId, 'databases', 'platform/v1', url), owner, { name: 'shop' }),
  members: (orgId, owner, url) =>
    post(at(orgId, 'service-members', 'platform/v1', url), owner, { name: 'bot', role: 'member' }),
}

describe.each([
  ['keys', 2, 'The operator has limited this organization to 2 active API keys. Revoke one first.'],
  ['webhooks', 2, 'The operator has limited this organization to 2 webhooks. Delete one first.'],
  [
    'databases',
    2,
    'The operator has limited this organization to 2 databases. Delete one first, failed ones count too.',
  ],
  [
    'members',
    3,
    'The operator has limited this organization to 3 members. Service members and open invitations count too.',
  ],
])('a quota of %s', (name, max, detail) => {
  const create = creations[name]!

  test('refuses what is more, with a text that says whose limit it is, until it is lifted', async () => {
    const { orgId } = await limited({ [name]: max })
    const owner = await ownerOf(orgId)
    const answers = []
    for (let i = 0; i < 3; i++) answers.push(await create(orgId, owner))
    expect(answers.map(({ status }) => status >= 400)).toEqual([false, false, true])
    expect(answers[2]!.body).toMatchObject({ code: 'limit.reached', detail })
    await limited({ [name]: null }, orgId)
    expect((await create(orgId, owner)).status).toBeLessThan(300)
  })

  test('is not passed by requests at the same time on two nodes, also while it is set', async () => {
    const orgId = await api.organization()
    const owner = await ownerOf(orgId)
    const second = apiAlone(api)
    const url = await second.app.listen({ host: '127.0.0.1', port: 0 })
    try {
      const many = Array.from({ length: 8 }, (_, i) => create(orgId, owner, i % 2 === 0 ? api.url : url))
      const { quotas } = await limited({ [name]: max }, orgId)
      const before = quotas[name]!.used!
      await Promise.all(many)
      const { body } = await call<Quotas>(at(orgId, 'quotas'), { token: owner.token })
      // What was created before the answer stays; nothing is created after it beyond the quota.
      expect(body[name]!.used).toBe(Math.max(before, max))
      const again = await Promise.all([api.url, url].map((node) => create(orgId, owner, node)))
      expect(again.map((reply) => reply.body.code)).toEqual(['limit.reached', 'limit.reached'])
    } finally {
      await second.close()
    }
  })

  test('below the present use keeps what is there, and refuses what is new', async () => {
    const orgId = await api.organization()
    const owner = await ownerOf(orgId)
    for (let i = 0; i < 3; i++) await create(orgId, owner)
    const { quotas } = await limited({ [name]: 1 }, orgId)
    expect(quotas[name]).toEqual({ used: name === 'members' ? 4 : 3, limit: 1, is_own: true })
    expect((await create(orgId, owner)).body.code).toBe('limit.reached')
  })
})

test('people, service members and open invitations share one quota, whoever adds them', async () => {
  const { orgId } = await limited({ members: 3 })
  const owner = await ownerOf(orgId)
  const invite = () => post(at(orgId, 'invitations'), owner, { email: 'grace@example.com', role: 'member' })
  const invited = await invite()
  expect((await creations.members!(orgId, owner)).status).toBe(201)
  const person = await api.person()
  const add = (role: string) =>
    call<Problem>(`${api.url}/operator/v1/members/${orgId}/${person.userId}`, {
      token: operatorToken,
      method: 'PUT',
      body: { role },
    })
  const operatorToken = await api.operatorToken()
  const refused = [await invite(), await creations.members!(orgId, owner), await add('member')]
  expect(refused.map(({ body }) => body.code)).toEqual(Array(3).fill('limit.reached'))

  // Whoever was invited has a place, unless a lower quota took it away.
  const accept = async () => {
    const body = { invitation: invited.body.link.split('#')[1] }
    return (await signIn(api, person.userId, createBrowser(api.url))).send('POST', '/console/invitation', { body })
  }
  await limited({ members: 2 }, orgId)
  expect(await accept()).toMatchObject({ status: 422, body: { code: 'limit.reached' } })
  await limited({ members: 3 }, orgId)
  expect((await accept()).status).toBe(200)
  // A change of role adds nobody.
  await limited({ members: 1 }, orgId)
  expect((await add('admin')).status).toBe(200)
})

const gb = 1024 ** 3

test('the storage limits of all databases stay within the quota', async () => {
  await preparePlatform(api)
  const { orgId } = await limited({ database_bytes: 25 * gb })
  const owner = await ownerOf(orgId)
  const create = () => creations.databases!(orgId, owner)
  const made = [await create(), await create(), await create()]
  expect(made.map(({ status }) => status)).toEqual([202, 202, 422])
  expect(made[2]!.body).toMatchObject({
    code: 'limit.reached',
    detail:
      'The databases of this organization could then use 30,720 MiB together, by their storage limits. The operator has limited this organization to 25,600 MiB. Delete a database, or ask the operator for more.',
  })
  // A database with a lower limit of its own leaves room for others.
  await api.db`update keyhook.databases set storage_limit_bytes = ${5 * gb} where id = ${made[0]!.body.id}`
  expect((await create()).status).toBe(202)
  const { body } = await call<Quotas>(at(orgId, 'quotas'), { token: owner.token })
  expect(body).toMatchObject({ databases: { used: 3 }, database_bytes: { used: 25 * gb, limit: 25 * gb } })
})

test('the storage limit of one database is not raised beyond what the quota leaves', async () => {
  await preparePlatform(api)
  const { orgId } = await limited({ database_bytes: 25 * gb })
  const owner = await ownerOf(orgId)
  const id = (await creations.databases!(orgId, owner)).body.id as DatabaseId
  await creations.databases!(orgId, owner)
  const change = (gigabytes: number | null) =>
    changeStorageLimit(api.db, testOperator, api.config, { id, limitBytes: gigabytes && gigabytes * gb })
  await expect(change(16)).rejects.toMatchObject({ code: 'limit.reached' })
  await change(15)
  const { body } = await call<Quotas>(at(orgId, 'quotas'), { token: owner.token })
  expect(body.database_bytes!.used).toBe(25 * gb)
  // Less is always allowed, and so is the setting again where that is less.
  await limited({ database_bytes: 1 * gb }, orgId)
  await change(null)
})

test('a quota of archives refuses backups, with its own text', async () => {
  await preparePlatform(api)
  const { orgId } = await limited({ archive_bytes: 5 * 1024 ** 2 })
  const owner = await ownerOf(orgId)
  const id = newId('db')
  await api.db`
    insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
    values (${orgId}, ${id}, 'shop', 'available', 'of-no-machine', '127.0.0.1', 1, ${owner.userId})`
  await api.db`
    insert into keyhook.backups (org_id, id, database_id, node, origin, status, size_bytes, sha256)
    values (${orgId}, ${newId('bak')}, ${id}, 'of-no-machine', 'requested', 'completed', ${6 * 1024 ** 2}, 'x')`
  const backup = () => post(at(orgId, `databases/${id}/backups`), owner)
  expect((await backup()).body).toMatchObject({
    code: 'limit.reached',
    detail:
      'The backups and write-ahead logs of this organization take 6 MiB, and the operator has limited this organization to 5 MiB. Delete backups, or ask the operator for more.',
  })
  await limited({ archive_bytes: null }, orgId)
  expect((await backup()).status).toBe(202)
})

test('a quota of requests holds within seconds, and ends as fast', async () => {
  const { orgId } = await limited({ key_requests: 1 })
  const owner = await ownerOf(orgId)
  const { api_key: token } = (await creations.keys!(orgId, owner)).body
  const statusNow = async () => (await call(`${api.url}/api/v1/organizations`, { token })).status
  await until(async () => (await statusNow()) === 429)
  await limited({ key_requests: null }, orgId)
  await until(async () => (await statusNow()) === 200)
  const always = [await statusNow(), await statusNow(), await statusNow()]
  expect(always).toEqual([200, 200, 200])
})

test('the operator sets and reads quotas, members read those of their organization, and the audit log has each change', async () => {
  const { orgId, quotas } = await limited({ keys: 7, archive_bytes: 10 * gb })
  expect(quotas).toMatchObject({
    keys: { used: 0, limit: 7, is_own: true },
    webhooks: { used: 0, limit: 10_000, is_own: false },
    members: { used: 0, limit: null, is_own: false },
    archive_bytes: { used: 0, limit: 10 * gb, is_own: true },
    key_requests: { used: null, limit: null, is_own: false },
  })
  const token = await api.operatorToken()
  expect((await api.documented.call('GET', template, operatorUrl(orgId), { token })).body).toEqual(quotas)
  // What is absent stays, and the same again is no change.
  await limited({ keys: 7 }, orgId)
  const changed = await limited({ keys: null, requests: 100 }, orgId)
  expect(changed.quotas).toMatchObject({
    keys: { limit: 10_000 },
    archive_bytes: { is_own: true },
    requests: { limit: 100 },
  })

  const owner = await ownerOf(orgId)
  const member = await api.person([{ orgId, role: 'member' }])
  const path = '/platform/v1/organizations/{org_id}/quotas'
  const own = await api.documented.call<Quotas>('GET', path, at(orgId, 'quotas'), { token: member.token })
  expect(own.body).toEqual({ ...changed.quotas, members: { used: 2, limit: null, is_own: false } })
  expect((await call(at(orgId, 'quotas'), { token: api.owner.token })).status).toBe(404)
  for (const method of ['GET', 'PATCH']) {
    const reply = await call(operatorUrl(orgId), {
      token: owner.token,
      method,
      ...(method === 'PATCH' && { body: {} }),
    })
    expect(reply.status, method).toBe(403)
  }
  type Entry = { action: string; target_id: string; details: object }
  const log = await call<Entry[]>(at(orgId, 'audit-log?action=organization.quotas_set'), { token: owner.token })
  expect(log.body.map(({ target_id, details }) => [target_id, details])).toEqual([
    [orgId, { keys: null, requests: 100 }],
    [orgId, { keys: 7, archive_bytes: 10 * gb }],
  ])
})

test('wrong quotas are refused, and so is an unknown organization', async () => {
  const token = await api.operatorToken()
  const patch = async (body: object, orgId = api.orgId) => {
    const reply = await call<Problem>(operatorUrl(orgId), { token, method: 'PATCH', body })
    return [reply.status, reply.body.code]
  }
  for (const body of [
    { keys: -1 },
    { keys: 1.5 },
    { keys: '5' },
    { members: 0 },
    { requests: 0 },
    { unknown: 1 },
    { archive_bytes: 2 ** 60 },
  ]) {
    expect(await patch(body), JSON.stringify(body)).toEqual([422, 'request.invalid'])
  }
  expect(await patch({ keys: 1 }, newId('org'))).toEqual([404, 'not_found'])
  expect((await call(operatorUrl(newId('org')), { token })).status).toBe(404)
})
