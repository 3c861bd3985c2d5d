import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { operator } from '../../src/domain/audit.ts'
import type { OrgId } from '../../src/kernel/ids.ts'
import { removeMember, removeUser, setMember } from '../../src/operator/directory.ts'
import { call } from '../support/client.ts'
import { startApiForTest, type TestApi } from '../support/installation.ts'

const counted = (api: TestApi) => api.db`
  select o.id, coalesce(c.api_keys, 0)::int as api_keys, coalesce(c.webhooks, 0)::int as webhooks
  from keyhook.organizations o left join keyhook.organization_counts c on c.org_id = o.id order by 1`

const there = (api: TestApi) => api.db`
  select o.id,
    (select count(*)::int from keyhook.api_keys k where k.org_id = o.id and k.revoked_at is null) as api_keys,
    (select count(*)::int from keyhook.webhooks w where w.org_id = o.id and w.deleted_at is null) as webhooks
  from keyhook.organizations o order by 1`

// Seen to fail without the trigger on revocations.
test('the counts of keys and webhooks match the rows after every kind of change', async () => {
  const api = await startApiForTest()
  const orgs = [await api.organization(), await api.organization()] as const
  const { token, userId } = await api.person(orgs.map((orgId) => ({ orgId, role: 'owner' })))
  const other = await api.person(orgs.map((orgId) => ({ orgId, role: 'admin' })))
  const hook = { url: 'https://example.com', event_types: ['database.created'] }
  const made: string[] = []
  const add = async (orgId: OrgId, what: 'api-keys' | 'webhooks') => {
    const path = `/api/v1/organizations/${orgId}/${what}`
    const body = what === 'webhooks' ? hook : { name: 'x' }
    const { body: record } = await call<{ id: string }>(api.url + path, { token, body })
    made.push(`${path}/${record.id}`)
  }
  await Promise.all(
    orgs.flatMap((orgId) => Array.from({ length: 10 }, (_, n) => add(orgId, n % 2 ? 'webhooks' : 'api-keys'))),
  )
  const remove = (path: string) => call(api.url + path, { method: 'DELETE', token })
  // Not in the order of their answers: of either kind some have to stay.
  await Promise.all(
    made
      .toSorted()
      .filter((_, n) => n % 3 === 0)
      .flatMap((path) => [remove(path), remove(path)]),
  )
  expect(await counted(api)).toEqual(await there(api))
  await api.db`
    insert into keyhook.api_keys (org_id, id, name, key_prefix, hash, created_by, role, revoked_at)
    select o, 'key_' || n, 'x', 'kh_' || lpad(n::text, 8, '0'), sha256(n::text::bytea), ${other.userId}, 'admin',
      case when n % 4 = 0 then now() end
    from unnest(${[...orgs]}::text[]) o cross join generate_series(1, 40) n`
  await setMember(api.db, operator, { orgId: orgs[0], userId: other.userId, role: 'member' })
  await removeMember(api.db, operator, { orgId: orgs[0], userId: other.userId })
  await removeUser(api.db, operator, { userId })
  await api.db`update keyhook.api_keys set revoked_at = null where id like 'key_%4'`
  await api.db`delete from keyhook.api_keys where id in ('key_7', 'key_8')`
  expect(await counted(api)).toEqual(await there(api))
  expect((await counted(api)).map((row) => row.api_keys > 30 && row.webhooks > 1)).toEqual([true, true])
})

// Seen to fail with triggers that count at once: the revocation waits for the lane, too.
test('a slow webhook deletion does not delay a revocation', async () => {
  const api = await startApiForTest()
  const orgId = await api.organization()
  const { token } = await api.person([{ orgId, role: 'owner' }])
  const path = `${api.url}/api/v1/organizations/${orgId}`
  const hook = { url: 'https://example.com', event_types: ['database.created'] }
  const webhook = await call<{ id: string }>(`${path}/webhooks`, { token, body: hook })
  const key = await call<{ id: string }>(`${path}/api-keys`, { token, body: { name: 'x' } })
  const held = Promise.withResolvers<void>()
  const letGo = Promise.withResolvers<void>()
  const holding = api.db.begin(async (tx) => {
    await tx`select from keyhook.lanes where org_id = ${orgId} for update`
    held.resolve()
    await letGo.promise
  })
  await held.promise
  const deleted = call(`${path}/webhooks/${webhook.body.id}`, { method: 'DELETE', token })
  await sleep(100)
  expect((await call(`${path}/api-keys/${key.body.id}`, { method: 'DELETE', token })).status).toBe(204)
  letGo.resolve()
  await holding
  expect((await deleted).status).toBe(204)
  expect(await counted(api)).toEqual([{ id: orgId, api_keys: 0, webhooks: 0 }])
})
