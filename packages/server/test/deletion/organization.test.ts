import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { existingOrganizations } from '../../src/delivery/event-log-sql.ts'
import type { OrgId } from '../../src/lib/ids.ts'
import { newId } from '../../src/lib/ids.ts'
import { api, type Delivery, operatorToken } from '../delivery/support/delivering-api.ts'
import { receiverFor } from '../delivery/support/receiver.ts'
import { call } from '../kit/client.ts'
import type { Person } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import { type Deletion, eraseAll, linesAbout } from './support/erasing.ts'
import '../kit/server-limits.ts'

const deletionOf = (orgId: string) => `${api.url}/platform/v1/organizations/${orgId}/deletion`
/** A minute whose counts no process removes yet. */
const later = 2_000_000_000
const operatorUrl = (path: string) => `${api.url}/operator/v1${path}`
const report = (orgId: string, token = operatorToken) =>
  call(operatorUrl('/events'), {
    token,
    body: { organization_id: orgId, type: 'database.created', data: { database_id: 'db_1' } },
  })

type Filled = { orgId: OrgId; owner: Person; member: Person; apiKey: string; secret: string; history: string }

/** What people have typed in, of this organization only. */
const textsOf = (name: string) =>
  [name, `invited@${name}.example`, `unverified@${name}.example`, `https://earlier.${name}.example`] as const

/** With a row in every table that an API and a dispatcher write, and in the others by hand. */
async function filled(name: string): Promise<Filled> {
  const [, invited, unverified, earlierUrl] = textsOf(name)
  const orgId = await api.organization(name)
  const owner = await api.person([{ orgId, role: 'owner' }])
  const member = await api.person([{ orgId, role: 'member' }])
  const published = `${api.url}/api/v1/organizations/${orgId}`
  const platform = `${api.url}/platform/v1/organizations/${orgId}`
  const post = async <T>(url: string, body: object, token = owner.token) => {
    const reply = await call<T>(url, { token, body, headers: { 'idempotency-key': randomUUID() } })
    expect(reply.status, `${url} ${reply.text}`).toBeLessThan(300)
    return reply.body
  }
  const { api_key: apiKey, id: keyId } = await post<{ api_key: string; id: string }>(`${published}/api-keys`, { name })
  // A key that a key has made.
  await post(`${published}/api-keys`, { name: `${name} child` }, apiKey)
  const receiver = await receiverFor()
  const hook = { url: receiver.url, event_types: ['database.created'] }
  const { id, secret } = await post<{ id: string; secret: string }>(`${published}/webhooks`, hook)
  const history = `${published}/webhooks/${id}/deliveries`
  await report(orgId)
  await until(async () => (await call<Delivery[]>(history, { token: owner.token })).body.length > 0)
  await post(`${platform}/service-members`, { name: `${name} service`, role: 'member' })
  await post(`${platform}/invitations`, { email: invited, role: 'member' })
  const userId = newId('usr')
  await api.db`insert into keyhook.users (id, email, invited_to) values (${userId}, ${unverified}, ${orgId})`
  await api.db`insert into keyhook.memberships (org_id, user_id, role) values (${orgId}, ${userId}, 'member')`
  await api.db`
    insert into keyhook.mails (org_id, user_id, address, kind, send_by) values
      (${orgId}, null, ${invited}, 'invitation', now() + interval '1 day'),
      (null, ${userId}, ${unverified}, 'confirmation', now() + interval '1 day')`
  await call(`${platform}/webhooks/${id}`, { token: owner.token, method: 'PATCH', body: { description: name } })
  const [lane] = await api.db<{ id: string }[]>`select lane_id as id from keyhook.webhooks where org_id = ${orgId}`
  await api.db`insert into keyhook.earlier_urls (lane_id, until, url) values (${lane!.id}, now(), ${earlierUrl})`
  await api.db`insert into keyhook.webhook_changes (org_id, webhook_id, kind, since) values (${orgId}, ${id}, 'failing', now())`
  await api.db`insert into keyhook.retries (lane_id, event_seq, org_id, due_at, attempt, try) values (${lane!.id}, 9, ${orgId}, now() + interval '1 day', 1, 1)`
  await api.db`insert into keyhook.expired_events (org_id, last_sequence) values (${orgId}, 0)`
  await api.db`insert into keyhook.organization_quotas (org_id, keys) values (${orgId}, 9)`
  await api.db`insert into keyhook.request_counts (minute, subject, count) values (${later}, ${keyId}, 1), (${later}, ${orgId}, 1)`
  await api.db`
    insert into keyhook.recoveries (org_id, id, lane_id, since, until, last_seq, finished_at)
    values (${orgId}, ${newId('rcv')}, ${lane!.id}, now(), now(), 1, now())`
  const invoiceId = newId('inv')
  await api.db`
    insert into keyhook.invoices (org_id, id, month, status, currency, total_minor)
    values (${orgId}, ${invoiceId}, '2026-01', 'issued', 'EUR', 1)`
  await api.db`
    insert into keyhook.invoice_lines (org_id, invoice_id, database_id, name, seconds, hour_price_minor, amount_minor)
    values (${orgId}, ${invoiceId}, ${newId('db')}, ${name}, 1, 1, 1)`
  return { orgId, owner, member, apiKey, secret, history }
}

test('a wrong name is refused, and so are everybody but an owner, and every API key', async () => {
  const { orgId, owner, member, apiKey } = await filled('Kept')
  const remove = async (token: string, body: object) => (await call(deletionOf(orgId), { token, body })).status
  for (const confirm of ['kept', 'Kept ', '']) expect(await remove(owner.token, { confirm })).toBe(422)
  expect(await remove(owner.token, {})).toBe(422)
  expect(await remove(member.token, { confirm: 'Kept' })).toBe(403)
  expect(await remove(apiKey, { confirm: 'Kept' })).toBe(403)
  expect(
    (await call(operatorUrl(`/organizations/${orgId}/deletion`), { token: operatorToken, body: { confirm: 'x' } }))
      .status,
  ).toBe(422)
  expect((await call(`${api.url}/api/v1/organizations`, { token: apiKey })).status).toBe(200)
})

test('after the answer an organization is unknown to everybody, and nothing of it is left in any table', async () => {
  const other = await filled('Neighbour')
  // Leases and uses are written, and changes of webhooks told, at any time.
  const neighbour = async () =>
    (await linesAbout(api.db, [other.orgId])).filter(
      (line) => !/^(lanes|api_key_uses|in_flight|attempts|webhook_changes)/.test(line),
    )
  const before = await neighbour()
  const { orgId, owner, apiKey, secret, history } = await filled('Globex-4711')
  expect((await linesAbout(api.db, [orgId, 'Globex-4711'])).length).toBeGreaterThan(20)
  const answer = await call<Deletion>(deletionOf(orgId), { token: owner.token, body: { confirm: 'Globex-4711' } })
  expect(answer.status).toBe(202)
  expect(answer.body).toMatchObject({ kind: 'organization', target_id: orgId, finished_at: null })

  // The key is refused, and the owner is answered what a stranger is answered, byte for byte.
  expect((await call(`${api.url}/api/v1/organizations`, { token: apiKey })).status).toBe(401)
  const unknown = newId('org')
  const stranger = await api.person()
  for (const path of ['/api-keys', '/webhooks']) {
    const ask = (id: string, token: string) => call(`${api.url}/api/v1/organizations/${id}${path}`, { token })
    const [known, never, strangers] = [
      await ask(orgId, owner.token),
      await ask(unknown, owner.token),
      await ask(orgId, stranger.token),
    ]
    const plain = (text: string) => text.replaceAll(/(org|req)_\w+/g, '').replaceAll(/"request_id":"[^"]*"/g, '')
    expect([known.status, plain(known.text)]).toEqual([404, plain(never.text)])
    expect(plain(strangers.text)).toBe(plain(known.text))
  }
  expect((await call(deletionOf(orgId), { token: owner.token, body: { confirm: 'Globex-4711' } })).status).toBe(404)
  expect((await call(history, { token: owner.token })).status).toBe(404)
  for (const path of ['', '/open']) {
    const method = path === '' ? 'GET' : 'POST'
    const reply = await call(operatorUrl(`/organizations/${orgId}${path}`), { token: operatorToken, method })
    expect(reply.status, path).toBe(404)
  }
  expect(
    (await call<{ id: string }[]>(operatorUrl('/organizations?limit=1000'), { token: operatorToken })).body.map(
      ({ id }) => id,
    ),
  ).not.toContain(orgId)
  // Nothing can be published into it, nobody joins it, and it is no organization of anybody.
  const toUnknown = await report(unknown)
  expect([(await report(orgId)).status, toUnknown.status]).toEqual([toUnknown.status, toUnknown.status])
  expect(await existingOrganizations(api.db, [orgId])).toEqual(new Set())
  const join = await call(operatorUrl(`/members/${orgId}/${stranger.userId}`), {
    token: operatorToken,
    method: 'PUT',
    body: { role: 'owner' },
  })
  expect(join.status).toBe(404)

  await eraseAll(api.db)
  expect(await linesAbout(api.db, [orgId, secret, ...textsOf('Globex-4711')])).toEqual([])
  const read = await call<Deletion>(operatorUrl(`/deletions/${answer.body.id}`), { token: operatorToken })
  expect(read.body).toMatchObject({ id: answer.body.id, waits_for: null, finished_at: expect.any(String) })
  expect(read.body.deleted).toMatchObject({
    api_keys: 2,
    webhooks: 1,
    events: 1,
    attempts: 1,
    mails: 1,
    users: 2,
    invoices: 1,
    invoice_lines: 1,
  })
  expect(JSON.stringify(read.body)).not.toContain('Globex')
  const listed = await call<Deletion[]>(operatorUrl('/deletions'), { token: operatorToken })
  expect(listed.body[0]).toEqual(read.body)
  // The people of it are users still; others lost nothing.
  expect((await call(operatorUrl(`/users/${owner.userId}`), { token: operatorToken })).status).toBe(200)
  expect(await neighbour()).toEqual(before)
})

test('an event stream ends when its organization is deleted', async () => {
  const { orgId, owner } = await filled('Streamed')
  const stream = await fetch(`${api.url}/platform/v1/organizations/${orgId}/events/stream`, {
    headers: { authorization: `Bearer ${owner.token}` },
  })
  const ended = stream.text()
  await call(operatorUrl(`/organizations/${orgId}/deletion`), { token: operatorToken, body: { confirm: 'Streamed' } })
  expect(await ended).toContain('retry:')
  await eraseAll(api.db)
})

test('what a transaction writes that began before the deletion is erased too', async () => {
  const { orgId, owner } = await filled('Late')
  const [write, written] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const late = api.db.begin(async (tx) => {
    await tx`set local idle_in_transaction_session_timeout = '60s'`
    await tx`select pg_current_xact_id()`
    written.resolve()
    await write.promise
    await tx`
      insert into keyhook.audit_entries (org_id, id, action, actor_kind, target_id)
      values (${orgId}, ${newId('aud')}, 'late', 'operator', 'x')`
  })
  onTestFinished(() => late)
  await written.promise
  const { body } = await call<Deletion>(deletionOf(orgId), { token: owner.token, body: { confirm: 'Late' } })
  const erasing = eraseAll(api.db)
  await until(async () => {
    const { body: now } = await call<Deletion>(operatorUrl(`/deletions/${body.id}`), { token: operatorToken })
    return now.waits_for === 'changes that began before the deletion'
  })
  write.resolve()
  await late
  await erasing
  expect(await linesAbout(api.db, [orgId])).toEqual([])
})

test('creations at the moment of the deletion are refused or erased', async () => {
  const { orgId, owner, apiKey } = await filled('Raced')
  const published = `${api.url}/api/v1/organizations/${orgId}`
  let running = true
  const statuses = new Set<number>()
  const create = async (path: string, body: object, token: string) => {
    while (running) statuses.add((await call(`${published}${path}`, { token, body })).status)
  }
  const publishing = async () => {
    while (running) await report(orgId)
  }
  const hook = { url: 'https://example.com/x', event_types: ['database.created'] }
  const racing = [
    create('/api-keys', { name: 'x' }, apiKey),
    create('/api-keys', { name: 'x' }, owner.token),
    create('/webhooks', hook, owner.token),
    publishing(),
    publishing(),
  ]
  onTestFinished(async () => {
    running = false
    await Promise.allSettled(racing)
  })
  await until(async () => statuses.has(201))
  await call(deletionOf(orgId), { token: owner.token, body: { confirm: 'Raced' } })
  await until(async () => statuses.has(404))
  await eraseAll(api.db)
  running = false
  await Promise.all(racing)
  expect([...statuses].filter((status) => ![201, 401, 404, 422].includes(status))).toEqual([])
  expect(await linesAbout(api.db, [orgId])).toEqual([])
})
