import { afterAll, beforeAll, expect, test } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { type CommandsBeside, commandsBeside } from './support/commands-beside.ts'

let beside: CommandsBeside

beforeAll(async () => {
  beside = await commandsBeside()
})
afterAll(() => beside.close())

type Quotas = Record<string, { used: number | null; limit: number | null; is_own: boolean }>

test('the operator sets quotas of an organization, sees its use beside them, and takes one back', {
  timeout: 60_000,
}, async () => {
  const { api, json, run } = beside
  const orgId = await api.organization()
  await api.person([{ orgId, role: 'owner' }])
  const set = (...args: string[]) => json<Quotas>('quota', 'set', '--org', orgId, ...args)
  const both = await set('--keys', '5', '--database-storage', '200GB', '--key-requests', '60')
  expect(both).toMatchObject({
    keys: { used: 0, limit: 5, is_own: true },
    members: { used: 1, limit: null, is_own: false },
    database_bytes: { used: 0, limit: 200 * 1024 ** 3, is_own: true },
    key_requests: { used: null, limit: 60, is_own: true },
  })
  const { stdout } = await run('quota', 'show', '--org', orgId)
  expect(stdout).toMatch(/^ +USED +LIMIT\nActive API keys +0 +5 {2}of this organization\nWebhooks +0 +10,000\n/)
  expect(stdout).toMatch(/^Storage of databases +0 MiB +200 GiB {2}of this organization$/m)
  expect(stdout).toMatch(/^Requests per minute +no limit$/m)
  expect(await set('--keys', 'default')).toMatchObject({ keys: { limit: 10_000, is_own: false } })
})

test('a wrong quota, none, and an unknown organization are refused with a reason', { timeout: 60_000 }, async () => {
  const { api, run } = beside
  const orgId = await api.organization()
  for (const [args, reason] of [
    [['--org', orgId], 'No quota is given. Add one of --keys, --webhooks'],
    [['--org', orgId, '--keys', '-1'], 'or "default"'],
    [['--org', orgId, '--members', '0'], '--members: "0" is not a number of members'],
    [['--org', orgId, '--archive-storage', '5 apples'], '--archive-storage: "5 apples" is not a size'],
    [['--org', newId('org'), '--keys', '1'], 'There is no organization'],
    [['--org', 'acme', '--keys', '1'], '--org: "acme" is not an id'],
  ] as const) {
    const ended = await run('quota', 'set', ...args)
    expect([ended.code, ended.stdout], args.join(' ')).toEqual([2, ''])
    expect(ended.stderr).toContain(reason)
  }
})
