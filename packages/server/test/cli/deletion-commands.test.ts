import { afterAll, beforeAll, expect, test } from 'vitest'
import { eraseAll } from '../deletion/support/erasing.ts'
import { call } from '../kit/client.ts'
import { until } from '../kit/until.ts'
import { type CommandsBeside, commandsBeside } from './support/commands-beside.ts'

let beside: CommandsBeside

beforeAll(async () => {
  beside = await commandsBeside()
})
afterAll(() => beside.close())

type Printed = { id: string; target_id: string; finished_at: string | null; deleted: Record<string, number> }

test('an organization is deleted by its name, and the command tells what was erased', { timeout: 60_000 }, async () => {
  const { api, json, run } = beside
  const orgId = await api.organization('Globex')
  const owner = await api.person([{ orgId, role: 'owner' }])
  const wrong = await run('org', 'delete', '--org', orgId, '--confirm', 'globex')
  expect([wrong.code, wrong.stdout]).toEqual([2, ''])
  expect(wrong.stderr).toContain('must be the name of the organization')
  const deleting = run('org', 'delete', '--org', orgId, '--confirm', 'Globex')
  await until(async () => (await call(`${api.url}/api/v1/organizations/${orgId}/webhooks`, owner)).status === 404)
  await eraseAll(api.db)
  expect(await deleting).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/is deleted and erased: .*1 memberships/),
  })
  expect(await run('org', 'delete', '--org', orgId, '--confirm', 'Globex')).toMatchObject({ code: 2, stdout: '' })

  const user = await json<Printed>(
    'user',
    'delete',
    '--user',
    owner.userId,
    '--confirm',
    'person-1@example.com',
    '--no-wait',
  )
  expect(user).toMatchObject({ target_id: owner.userId, finished_at: null })
  await eraseAll(api.db)
  const [row] = await api.db`select email from keyhook.users where id = ${owner.userId}`
  expect(row!.email).toBeNull()
})
