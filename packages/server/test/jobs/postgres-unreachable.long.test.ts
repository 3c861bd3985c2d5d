import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/db/database.ts'
import type { Installation } from '../../src/startup/open.ts'
import { customerOf } from '../databases/support/customer.ts'
import { portRange, scratchFolder, startNode } from '../databases/support/platform.ts'
import { captureLog } from '../kit/captured-log.ts'
import { call } from '../kit/client.ts'
import { createInstallation, people } from '../kit/installation.ts'
import { bridgeTo, serve } from '../kit/processes.ts'
import { until } from '../kit/until.ts'

/*
 * PostgreSQL becomes unreachable for a node: at its start, and while it runs.
 */
const masterKey = randomBytes(32).toString('base64')
let installation: Installation
beforeAll(async () => {
  installation = await createInstallation({ KEYHOOK_MASTER_KEY: masterKey })
})
afterAll(() => installation.close())

/** Starts a node while PostgreSQL is unreachable. */
async function startWithoutPostgres() {
  const bridge = await bridgeTo(installation.target)
  await bridge.cut()
  const db = connect(bridge.target, { name: 'test node', connectionsMax: 2 })
  onTestFinished(() => db.end({ timeout: 1 }))
  const { log, lines } = captureLog()
  const node = await startNode({ ...installation, db, target: bridge.target }, { log })
  const logged = (message: string) =>
    until(
      async () => lines().map((line) => line.msg),
      (messages) => messages.includes(message),
    )
  await logged('node.waits_for_postgresql')
  return { node, logged, bridge }
}

test('a node that starts while PostgreSQL is unreachable waits, and is ready when PostgreSQL is back', async () => {
  const { node, logged, bridge } = await startWithoutPostgres()
  await bridge.reopen()
  await node.ready
  expect(await logged('platform.ready')).toContain('platform.ready')
})

test('a node that waits for PostgreSQL can be stopped without an error', async () => {
  const { node } = await startWithoutPostgres()
  await node.close()
  await expect(node.ready).resolves.toBeUndefined()
})

test('a server whose PostgreSQL becomes unreachable keeps running, and creates databases when PostgreSQL is back', async () => {
  const folder = await scratchFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const bridge = await bridgeTo(installation.target)
  const server = await serve({
    DATABASE_URL: bridge.url,
    KEYHOOK_MASTER_KEY: masterKey,
    KEYHOOK_DATA_DIR: join(folder, 'data'),
    KEYHOOK_DATABASES_PORTS: portRange(),
    KEYHOOK_LOG_LEVEL: 'fatal',
  })
  await bridge.cut()
  const status = (path: string) => call(`${server.url}${path}`).then((reply) => reply.status)
  await until(
    () => status('/readyz'),
    (answer) => answer === 503,
  )
  expect(await status('/healthz')).toBe(200)
  await bridge.reopen()
  await until(
    () => status('/readyz'),
    (answer) => answer === 200,
  )
  const who = people(installation)
  const orgId = await who.organization()
  const { token } = await who.person([{ orgId, role: 'owner' }])
  const base = `${server.url}/platform/v1/organizations/${orgId}`
  const customer = customerOf((path, more) => call(`${base}${path}`, { token, ...more }))
  expect(await customer.createDatabase('after')).toMatchObject({ status: 'available' })
  expect(server.child.exitCode).toBeNull()
  expect((await server.stop()).code).toBe(0)
})
