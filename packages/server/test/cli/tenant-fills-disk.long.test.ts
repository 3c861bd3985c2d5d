import { join } from 'node:path'
import { expect, test } from 'vitest'
import { portRange } from '../databases/support/platform.ts'
import { deliveryEnvironment } from '../delivery/support/delivery-test.ts'
import { receiverFor } from '../delivery/support/receiver.ts'
import { call } from '../kit/client.ts'
import { customerSql } from '../kit/customer-sql.ts'
import { keyhook, serve } from '../kit/processes.ts'
import { smallDisk } from '../kit/small-disk.ts'
import { until } from '../kit/until.ts'

type DatabaseBody = { id: string; status: string; connection_string: string; password: string; storage: Storage | null }
type Storage = { state: string; message: string | null }

const writers = 6
/** Keys that are revoked after the tenant was stopped for the first time. */
const revocationsAfter = 15

/** Writes as fast as it can, with read-only switched off, and connects again whenever its session was ended. */
async function fill(url: string, password: string, name: string, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const sql = customerSql(url, password)
    try {
      await sql.unsafe('set default_transaction_read_only = off')
      await sql.unsafe(`create unlogged table if not exists ${name} (content text)`)
      await sql.unsafe(`alter table ${name} alter content set storage external`)
      while (!isOver()) {
        await sql.unsafe(`insert into ${name} select repeat('x', 1000000) from generate_series(1, 50)`)
      }
    } catch {
      await new Promise((done) => setTimeout(done, 100))
    } finally {
      await sql.end({ timeout: 1 })
    }
  }
}

test('a tenant who fills the disk stops neither revocation nor delivery of another', {
  timeout: 300_000,
}, async (context) => {
  const disk = await smallDisk('size=2g')
  if (disk === null) return context.skip('no small file system can be mounted here')
  const environment = {
    ...deliveryEnvironment,
    KEYHOOK_DATA_DIR: join(disk, 'data'),
    KEYHOOK_DATABASES_PORTS: portRange(),
    KEYHOOK_DATABASES_TLS: 'off',
    // As fast as the machine allows. What is on this disk is memory, and would count.
    KEYHOOK_DATABASE_MEMORY_MAX: '64GB',
    KEYHOOK_DATABASE_CPUS_MAX: '64',
  }
  const server = await serve({ ...environment, KEYHOOK_LOG_LEVEL: 'warn' })
  const command = async <T>(...args: string[]): Promise<T> => {
    const ended = await keyhook([...args, '--json'], environment)
    expect(ended, args.join(' ')).toMatchObject({ code: 0 })
    return JSON.parse(ended.stdout)
  }
  const tokenOf = async (user: string) =>
    (await command<{ token: string }>('token', 'issue', '--user', user, '--ttl', '1h')).token
  const tenant = { orgId: server.ready.organization_id, token: await tokenOf(server.ready.owner_id) }
  const other = await command<{ id: string }>('org', 'create', '--name', 'Other')
  const person = await command<{ id: string }>('user', 'create', '--email', 'other@example.com', '--name', 'Other')
  await command('member', 'set', '--org', other.id, '--user', person.id, '--role', 'owner')
  const token = await tokenOf(person.id)

  const databases = `${server.url}/platform/v1/organizations/${tenant.orgId}/databases`
  const created = await call<DatabaseBody>(databases, { token: tenant.token, body: { name: 'greedy' } })
  const read = async () => (await call<DatabaseBody>(`${databases}/${created.body.id}`, { token: tenant.token })).body
  let database = await read()
  while (database.status === 'provisioning') database = await read()
  expect(database.status).toBe('available')

  const receiver = await receiverFor()
  const keys = `${server.url}/api/v1/organizations/${other.id}/api-keys`
  const hook = await call<{ id: string }>(`${server.url}/api/v1/organizations/${other.id}/webhooks`, {
    token,
    body: { url: receiver.url, event_types: ['database.created'] },
  })
  const sendTest = () =>
    call<{ event_id: string }>(`${server.url}/platform/v1/organizations/${other.id}/webhooks/${hook.body.id}/test`, {
      token,
      body: { event_type: 'database.created' },
    })

  let isOver = false
  const { connection_string: url } = database
  const filling = Array.from({ length: writers }, (_, i) => fill(url, created.body.password, `t${i}`, () => isOver))
  let stopped: Storage | null = null
  let [revoked, after, sent] = [0, 0, 0]
  try {
    while (after < revocationsAfter) {
      const key = await call<{ id: string; api_key: string }>(keys, { token, body: { name: 'short-lived' } })
      expect(key.status).toBe(201)
      expect((await call(`${keys}/${key.body.id}`, { method: 'DELETE', token })).status).toBe(204)
      expect((await call(keys, { token: key.body.api_key })).status).toBe(401)
      revoked += 1
      expect((await sendTest()).status).toBe(202)
      sent += 1
      const { storage } = await read()
      if (storage?.state === 'stopped') stopped = storage
      if (stopped !== null) after += 1
    }
    const ready = await call<{ status: string; disk: { state: string } }>(`${server.url}/readyz`)
    expect(ready).toMatchObject({ status: 200, body: { status: 'ok', disk: { free_bytes: expect.any(Number) } } })
    expect(stopped!.message).toContain('nearly full')
  } finally {
    isOver = true
    await Promise.all(filling)
  }
  await until(() => receiver.received.length >= sent)
  expect(revoked).toBeGreaterThanOrEqual(revocationsAfter)
  expect(server.child.exitCode).toBeNull()
  expect(server.output().stderr).not.toMatch(/No space left|ENOSPC|request\.failed/)
})
