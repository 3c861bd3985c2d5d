import { createHash, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { captureLog } from '../kit/captured-log.ts'
import { call, type Reply } from '../kit/client.ts'
import { routesOf } from '../kit/composed.ts'
import { startApiForTest } from '../kit/installation.ts'
import { sendRaw } from '../kit/raw-http.ts'
import { dumpDatabase } from '../kit/rows.ts'

type Key = { id: string; key_prefix: string; api_key: string }
type Hook = { id: string; secret: string }

/** A secret in every encoding that can be read back. */
function readableForms(secret: string): string[] {
  const bytes = Buffer.from(secret)
  return [secret, bytes.toString('hex'), bytes.toString('base64').replace(/=+$/, ''), encodeURIComponent(secret)]
}

test('api_key and secret appear in the create response and nowhere else: no answer, log line, audit entry or row', async () => {
  const { log, text: logged } = captureLog()
  const api = await startApiForTest({}, log)
  const orgId = await api.organization()
  const owner = await api.person([{ orgId, role: 'owner' }])
  const member = await api.person([{ orgId, role: 'member' }])
  const org = `${api.url}/api/v1/organizations/${orgId}`
  const auditLog = `${api.url}/platform/v1/organizations/${orgId}/audit-log`
  const others: string[] = []
  const recorded = async <T>(reply: Promise<Reply<T>>): Promise<Reply<T>> => {
    const answer = await reply
    others.push(answer.text, JSON.stringify([...answer.headers]))
    return answer
  }

  const key = await call<Key>(`${org}/api-keys`, { token: owner.token, body: { name: 'first' } })
  const second = await call<Key>(`${org}/api-keys`, { token: key.body.api_key, body: { name: 'second' } })
  const event_types = ['invoice.paid']
  const hook = await call<Hook>(`${org}/webhooks`, {
    token: key.body.api_key,
    body: { url: 'https://example.com/', event_types },
  })
  others.push(JSON.stringify([...key.headers, ...second.headers, ...hook.headers]))
  const token = key.body.api_key

  // Every other operation, successful.
  for (const query of ['', '?status=all', '?limit=1']) await recorded(call(`${org}/api-keys${query}`, { token }))
  await recorded(call(`${org}/webhooks`, { token }))
  await recorded(call(`${org}/webhooks/${hook.body.id}/deliveries`, { token }))
  await recorded(call(`${api.url}/api/v1/organizations`, { token }))
  await recorded(call(auditLog, { token }))
  // Failing: the secrets in every place of a request where a client may put them by mistake.
  const secrets = [key.body.api_key, second.body.api_key, hook.body.secret]
  for (const secret of secrets) {
    const encoded = encodeURIComponent(secret)
    for (const { method, path } of routesOf(api)) {
      const place = path.replace(':orgId', orgId).replaceAll(/:\w+/g, encoded)
      if (place.includes(encoded)) await recorded(call(api.url + place, { token, method }))
    }
    await recorded(call(`${api.url}/api/v1/organizations/${encoded}/api-keys`, { token }))
    await recorded(call(`${api.url}/${encoded}`, { token }))
    await recorded(call(`${org}/api-keys?cursor=${encoded}`, { token }))
    await recorded(call(`${org}/api-keys`, { token, raw: `{"name":${secret}}` }))
    await recorded(call(`${org}/webhooks`, { token, body: { url: secret, event_types: [secret] } }))
    await recorded(call(`${org}/webhooks`, { token: member.token, body: { url: secret, event_types } }))
    await recorded(call(`${org}/api-keys`, { token: `${secret}x` }))
    others.push((await sendRaw(api.url, `GET /${secret}%zz HTTP/1.1\r\nHost: x\r\nX-Key ${secret}\r\n\r\n`)).text)
    others.push((await sendRaw(api.url, `GET /${secret}%zz HTTP/1.1\r\nHost: x\r\nX-Key: ${secret}\r\n\r\n`)).text)
  }
  // A database error in the middle of a change is logged, with its parameters.
  await api.db`alter table keyhook.webhooks rename to webhooks_away`
  await api.db`alter table keyhook.audit_entries rename to audit_away`
  const failed = await recorded(call(`${org}/webhooks`, { token, body: { url: 'https://example.com/', event_types } }))
  const failedKey = await recorded(call(`${org}/api-keys`, { token, body: { name: 'fails' } }))
  expect([failed.status, failedKey.status]).toEqual([500, 500])
  await api.db`alter table keyhook.webhooks_away rename to webhooks`
  await api.db`alter table keyhook.audit_away rename to audit_entries`
  await recorded(call(`${org}/webhooks/${hook.body.id}`, { token, method: 'DELETE' }))
  await recorded(call(`${org}/api-keys/${second.body.id}`, { token, method: 'DELETE' }))
  await recorded(call(`${org}/api-keys/${key.body.id}`, { token, method: 'DELETE' }))
  await recorded(call(`${org}/api-keys`, { token }))
  await recorded(call(auditLog, { token: owner.token }))

  const keepers = { answers: others.join('\n'), log: logged(), database: await dumpDatabase(api.db) }
  expect(keepers.log).toContain('request.answered')
  expect(keepers.database).toContain(key.body.key_prefix)
  const parts = secrets.flatMap((secret) => [secret, secret.split('_').at(-1)!])
  for (const [place, text] of Object.entries(keepers)) {
    for (const form of parts.flatMap(readableForms)) {
      expect(text.includes(form), `${form} was found in ${place}`).toBe(false)
    }
  }
  // Login tokens and Authorization headers are secrets too.
  expect(keepers.log).not.toContain(owner.token.split('.')[2])
})

test('a key is stored as its SHA-256, a webhook secret under the master key, bound to its webhook', async () => {
  const master = randomBytes(32)
  const api = await startApiForTest({ KEYHOOK_MASTER_KEY: master.toString('base64') })
  const orgId = await api.organization()
  const owner = await api.person([{ orgId, role: 'owner' }])
  const org = `${api.url}/api/v1/organizations/${orgId}`
  const key = await call<Key>(`${org}/api-keys`, { token: owner.token, body: { name: 'ci' } })
  const hook = await call<Hook>(`${org}/webhooks`, {
    token: owner.token,
    body: { url: 'https://example.com/', event_types: ['invoice.paid'] },
  })

  const [keyRow] = await api.db`select hash from keyhook.api_keys where id = ${key.body.id}`
  expect(keyRow!.hash).toEqual(createHash('sha256').update(key.body.api_key).digest())

  const [row] = await api.db`select secret_key_id, secret_box from keyhook.webhooks where id = ${hook.body.id}`
  const sealed = { keyId: row!.secret_key_id as string, box: row!.secret_box as Buffer }
  const other = randomBytes(32)
  expect(createMasterKeys([master]).open(sealed, hook.body.id)).toBe(hook.body.secret)
  expect(createMasterKeys([other, master]).open(sealed, hook.body.id)).toBe(hook.body.secret)
  expect(() => createMasterKeys([other]).open(sealed, hook.body.id)).toThrow(/does not list/)
  expect(() => createMasterKeys([master]).open(sealed, 'wh_somebody_elses')).toThrow()

  await call(`${org}/webhooks/${hook.body.id}`, { token: owner.token, method: 'DELETE' })
  const [gone] = await api.db`select secret_key_id, secret_box from keyhook.webhooks where id = ${hook.body.id}`
  expect(gone).toEqual({ secret_key_id: null, secret_box: null })
})
