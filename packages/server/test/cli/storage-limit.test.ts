import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { storageOfNode } from '../../src/databases/usage-sql.ts'
import { newId, type OrgId } from '../../src/lib/ids.ts'
import { startApi, type TestApi } from '../kit/installation.ts'
import { bridgeTo, keyhookHere } from '../kit/processes.ts'
import { recordUsage } from '../kit/usage.ts'

let api: TestApi
let environment: Record<string, string>
let cut: () => Promise<void>
beforeAll(async () => {
  const masterKey = randomBytes(32).toString('base64')
  api = await startApi({ KEYHOOK_MASTER_KEY: masterKey })
  const bridge = await bridgeTo(api.target, { keep: true })
  cut = bridge.cut
  environment = { DATABASE_URL: bridge.url, KEYHOOK_MASTER_KEY: masterKey }
})
afterAll(async () => {
  await cut()
  await api.close()
})

const run = (database: string, limit: string) =>
  keyhookHere(['storage-limit', '--database', database, '--limit', limit], environment)

const auditOf = (orgId: OrgId) => api.db`
  select details from keyhook.audit_entries
  where org_id = ${orgId} and action = 'database.storage_limit_changed' order by id`

test('the operator gives one database another limit, and takes it back', async () => {
  const orgId = await api.organization()
  const { userId } = await api.person([{ orgId, role: 'owner' }])
  const id = await recordUsage(api.db, { orgId, userId, from: '2020-01-31T22:00:00Z', to: null })
  const limitNow = async () => (await storageOfNode(api.db, 'n')).get(id)?.limitBytes

  expect(await run(id, '50GB')).toMatchObject({ code: 0, stdout: `${id} may now use 50GB.\n` })
  expect(await limitNow()).toBe(50 * 1024 ** 3)
  expect(await run(id, 'default')).toMatchObject({ code: 0 })
  expect(await limitNow()).toBeNull()
  // The same again is no change.
  expect(await run(id, 'default')).toMatchObject({ code: 0 })
  expect((await auditOf(orgId)).map((row) => row.details)).toEqual([
    { from: null, to: 50 * 1024 ** 3 },
    { from: 50 * 1024 ** 3, to: null },
  ])
})

test('an unknown database and a wrong size are refused with a reason', async () => {
  expect(await run(newId('db'), '50GB')).toMatchObject({ code: 2, stderr: expect.stringContaining('no database') })
  expect(await run(newId('db'), '5 apples')).toMatchObject({ code: 2, stderr: expect.stringContaining('128MB') })
})
