import { afterAll, beforeAll, expect, test } from 'vitest'
import { call } from '../kit/client.ts'
import { type CommandsBeside, commandsBeside } from './support/commands-beside.ts'

let beside: CommandsBeside

beforeAll(async () => {
  beside = await commandsBeside()
})
afterAll(() => beside.close())

test('an operator token is issued, listed and revoked, and the running server applies it at once', {
  timeout: 60_000,
}, async () => {
  const { api, json, run, text } = beside
  expect(await json('token', 'list')).toEqual([])
  const { token } = await json<{ token: string }>('token', 'issue', '--operator', '--name', 'gateway', '--ttl', '1h')
  const [row] = await json<{ id: string }[]>('token', 'list')
  const times = { created_at: expect.any(String), expires_at: expect.any(String) }
  expect(row).toEqual({ id: row!.id, name: 'gateway', created_by: null, revoked_at: null, ...times })
  expect((await run('token', 'list')).stdout).toMatch(/^tok_\w+ {2}active {3}\S+ to \S+ {2}gateway\n$/)
  const status = async () => (await call(`${api.url}/operator/v1/users`, { token })).status
  expect(await status()).toBe(200)
  await text(/^Revoked the operator token tok_/, 'token', 'revoke', '--token', row!.id)
  expect(await status()).toBe(401)
  expect((await run('token', 'list')).stdout).toContain('revoked')
  const unknown = row!.id.replace(/....$/, '0000')
  expect(await run('token', 'revoke', '--token', unknown)).toMatchObject({ code: 2, stdout: '' })
  expect(await run('token', 'issue', '--user', 'usr_x', '--name', 'x')).toMatchObject({ code: 2 })
})

test('no command lets somebody log in as a service member, and the list of users marks it', {
  timeout: 60_000,
}, async () => {
  const { api, run } = beside
  const orgId = await api.organization()
  const owner = await api.person([{ orgId, role: 'owner' }])
  const made = await call<{ user_id: string }>(`${api.url}/platform/v1/organizations/${orgId}/service-members`, {
    token: owner.token,
    body: { name: 'deploy', role: 'member' },
  })
  const id = made.body.user_id
  for (const command of [
    ['token', 'issue', '--user', id],
    ['console', 'link', '--user', id],
    ['user', 'verify', '--user', id],
    ['member', 'set', '--org', orgId, '--user', id, '--role', 'owner'],
  ]) {
    const ended = await run(...command)
    expect([ended.code, ended.stdout], command.join(' ')).toEqual([2, ''])
    expect(ended.stderr).toContain('is a service member')
  }
  expect(await run('user', 'unlink', '--user', id)).toMatchObject({ code: 2, stdout: '' })
  expect((await run('user', 'list')).stdout).toMatch(new RegExp(`^${id} .* deploy \\(service member\\)$`, 'm'))
})
