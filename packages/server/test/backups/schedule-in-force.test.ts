import { expect, test } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { readDocumented } from '../kit/documented.ts'
import { startApiForTest } from '../kit/installation.ts'

const path = '/platform/v1/organizations/{org_id}/databases/{database_id}/backup-schedule'

async function scheduleOf(environment: Record<string, string>) {
  const api = await startApiForTest(environment)
  const orgId = await api.organization()
  const { token, userId } = await api.person([{ orgId, role: 'owner' }])
  const id = newId('db')
  await api.db`
    insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
    values (${orgId}, ${id}, 'shop', 'available', 'of-no-machine', '127.0.0.1', 1, ${userId})`
  const documented = await readDocumented(api.url)
  const url = `${api.url}${path.replace('{org_id}', orgId).replace('{database_id}', id)}`
  return {
    read: async () => (await documented.call('GET', path, url, { token })).body,
    set: (body: object, by = token) => call<{ code: string }>(url, { token: by, method: 'PUT', body }),
    keyOf: async (permissions: string[]) => {
      const keys = `${api.url}/platform/v1/organizations/${orgId}/api-keys`
      return (await call<{ api_key: string }>(keys, { token, body: { name: 'x', permissions } })).body.api_key
    },
    backUpAt: (at: string) => api.db`
      insert into keyhook.backups (org_id, id, database_id, node, origin, status, size_bytes, sha256, created_at)
      values (${orgId}, ${newId('bak')}, ${id}, 'of-no-machine', 'scheduled', 'completed', 1, 'x', ${at})`,
  }
}

test('the schedule in force is that of the operator, then what the database has of its own, and counts from the last backup', async () => {
  const schedule = await scheduleOf({ KEYHOOK_BACKUP_EVERY_HOURS: '24', KEYHOOK_BACKUPS_KEPT: '5' })
  const own = { every_hours: null, keep: null }
  expect(await schedule.read()).toEqual({ ...own, in_force: { every_hours: 24, keep: 5, next_at: null } })
  await schedule.backUpAt('2026-01-31T02:00:00Z')
  expect(await schedule.read()).toMatchObject({ in_force: { next_at: '2026-02-01T02:00:00.000Z' } })
  await schedule.set({ every_hours: 6, keep: null })
  expect(await schedule.read()).toEqual({
    every_hours: 6,
    keep: null,
    in_force: { every_hours: 6, keep: 5, next_at: '2026-01-31T08:00:00.000Z' },
  })
})

test('without a setting of anybody no scheduled backup is due', async () => {
  const schedule = await scheduleOf({})
  await schedule.backUpAt('2026-01-31T02:00:00Z')
  expect(await schedule.read()).toMatchObject({ in_force: { every_hours: null, keep: 7, next_at: null } })
})

test('a key that may not delete backups sets no schedule that keeps fewer of them, or for a shorter time', async () => {
  const schedule = await scheduleOf({ KEYHOOK_BACKUPS_KEPT: '5' })
  const key = await schedule.keyOf(['backups:create', 'backups:read'])
  // Nothing can be lost before the first backup.
  expect((await schedule.set({ every_hours: 24, keep: 3 }, key)).status).toBe(200)
  await schedule.backUpAt('2026-01-31T02:00:00Z')
  const more = [
    { every_hours: 24, keep: 10 },
    { every_hours: 12, keep: 20 },
    { every_hours: null, keep: 20 },
  ]
  for (const body of more) {
    expect((await schedule.set(body, key)).status).toBe(200)
    const smaller = [
      { ...body, keep: 3 },
      { ...body, keep: null },
      { every_hours: 1, keep: body.keep },
    ]
    for (const less of smaller) {
      expect(await schedule.set(less, key), JSON.stringify(less)).toMatchObject({
        status: 403,
        body: { code: 'auth.key_restricted', detail: expect.stringContaining('backups:delete') },
      })
    }
    expect(await schedule.read()).toMatchObject(body)
  }
  const deleting = await schedule.keyOf(['backups:create', 'backups:delete'])
  expect((await schedule.set({ every_hours: 1, keep: 1 }, deleting)).status).toBe(200)
})
