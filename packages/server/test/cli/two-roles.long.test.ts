import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, inject, onTestFinished, test } from 'vitest'
import { connect } from '../../src/db/database.ts'
import { dropPartitions, ensurePartitions } from '../../src/delivery/retention-sql.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { createLocalIssuer } from '../../src/login/login-tokens.ts'
import { deliveryEnvironment } from '../delivery/support/delivery-test.ts'
import { receiverFor } from '../delivery/support/receiver.ts'
import { blocksOf } from '../docs/blocks.ts'
import { call } from '../kit/client.ts'
import { bridgeTo, keyhook, serve } from '../kit/processes.ts'
import { until } from '../kit/until.ts'

const manual = readFileSync(new URL('../../../../docs/postgresql.md', import.meta.url), 'utf8')
const dayMs = 86_400_000

/** A database with one role that owns it and one that owns nothing. */
async function databaseWithTwoRoles() {
  const server = inject('postgres')
  const name = `two_${randomBytes(6).toString('hex')}`
  const [owner, app] = [`owner_${name}`, `app_${name}`]
  const admin = connect(server, { name: 'test admin', connectionsMax: 1 })
  for (const role of [owner, app]) await admin.unsafe(`create role ${role} login password 'x'`)
  await admin.unsafe(`create database ${name} owner ${owner}`)
  await admin.unsafe(`revoke all on database ${name} from public; grant connect on database ${name} to ${app}`)
  onTestFinished(async () => {
    await admin.unsafe(`drop database ${name} with (force)`)
    await admin.unsafe(`drop role ${owner}; drop role ${app}`)
    await admin.end()
  })
  const as = async (user: string) => {
    const target = { ...server, database: name, user, password: 'x' }
    const db = connect(target, { name: 'test', connectionsMax: 1 })
    onTestFinished(() => db.end({ timeout: 5 }))
    return { db, url: (await bridgeTo(target)).url }
  }
  return { owner: { name: owner, ...(await as(owner)) }, app: { name: app, ...(await as(app)) } }
}

test('processes run with a role that has only the rights in docs/postgresql.md', {
  timeout: 60_000,
}, async () => {
  const { owner, app } = await databaseWithTwoRoles()
  const masterKey = randomBytes(32)
  const common = {
    ...deliveryEnvironment,
    KEYHOOK_MASTER_KEY: masterKey.toString('base64'),
    KEYHOOK_LOG_LEVEL: 'error',
  }

  const first = await keyhook(['serve', '--role', 'api'], { ...common, DATABASE_URL: app.url })
  expect(first).toMatchObject({ code: 2, stdout: '' })
  expect(first.stderr).toMatch(
    /^DATABASE_URL: There is no schema yet, [^\n]+ run npx keyhook migrate as the role [^\n]+\n$/,
  )

  expect(await keyhook(['migrate'], { ...common, DATABASE_URL: owner.url })).toMatchObject({ code: 0, stderr: '' })
  const early = await keyhook(['serve', '--role', 'jobs'], { ...common, DATABASE_URL: app.url })
  expect([early.code, early.stderr]).toEqual([2, expect.stringMatching(/^DATABASE_URL: permission denied[^\n]*\n$/)])

  const [grants] = blocksOf(manual).filter(({ language }) => language === 'sql')
  await owner.db.unsafe(grants!.text.replaceAll(/\bapp\b/g, app.name).replaceAll(/\bowner\b/g, owner.name))
  const server = await serve({ ...common, DATABASE_URL: app.url })
  const { organization_id: orgId, owner_id: userId } = server.ready
  const issuer = createLocalIssuer({ masterKeys: createMasterKeys([masterKey]), now: () => new Date() })
  const token = await issuer.issue({ subject: userId as never, ttlSeconds: 600 })
  const receiver = await receiverFor()
  const body = { url: receiver.url, event_types: ['database.created'] }
  const webhook = await call<{ id: string }>(`${server.url}/api/v1/organizations/${orgId}/webhooks`, { token, body })
  const platform = `${server.url}/platform/v1/organizations/${orgId}`
  const sample = { token, body: { event_type: 'backup.completed' } }
  expect((await call(`${platform}/webhooks/${webhook.body.id}/test`, sample)).status).toBe(202)
  expect((await call(`${platform}/databases`, { token, body: { name: 'first' } })).status).toBe(202)
  const settled = async () => (await owner.db`select 1 from keyhook.attempts where status = 'succeeded'`).length
  // The test event, and the event of the new database: the job was done.
  await until(async () => (await settled()) === 2)
  await server.stop()

  // The same role creates later partitions and drops old ones.
  expect(await ensurePartitions(app.db, Date.now() + 100 * dayMs)).not.toEqual([])
  expect(await dropPartitions(app.db, Date.now() + 200 * dayMs)).not.toEqual([])
  await expect(app.db`select keyhook.drop_attempts_partition('events')`).rejects.toThrow(/not the name of a partition/)
  await expect(app.db.unsafe('drop table keyhook.events')).rejects.toThrow(/owner/)
})
