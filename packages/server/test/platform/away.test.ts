import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { composeJobQueue, composePlatformNode } from '../../src/compose.ts'
import { readConfig } from '../../src/config.ts'
import type { Installation } from '../../src/startup/open.ts'
import { connect } from '../../src/store/database.ts'
import { captureLog } from '../support/captured-log.ts'
import { call } from '../support/client.ts'
import { createInstallation, people } from '../support/installation.ts'
import { bridgeTo, serve } from '../support/processes.ts'
import { createDatabase, portRange, scratchFolder, until } from './support/platform.ts'

/*
 * PostgreSQL goes away under a node: at its start, and while it runs.
 */
const masterKey = randomBytes(32).toString('base64')
let installation: Installation
beforeAll(async () => {
  installation = await createInstallation({ KEYHOOK_MASTER_KEY: masterKey })
})
afterAll(() => installation.close())

async function dataDirectory(): Promise<string> {
  const folder = await scratchFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return join(folder, 'data')
}

async function startNode(url: string) {
  const environment = { KEYHOOK_DATA_DIR: await dataDirectory(), KEYHOOK_DATABASES_PORTS: portRange() }
  const db = connect({ url }, { name: 'test node', connectionsMax: 2 })
  const { log, lines } = captureLog()
  const reached = { ...installation, db, target: { url }, config: readConfig(environment) }
  const node = await composePlatformNode(reached, log, composeJobQueue(reached, log))
  onTestFinished(async () => {
    await node.close()
    await db.end({ timeout: 1 })
  })
  const said = (message: string) =>
    until(
      async () => lines().map((line) => line.msg),
      (messages) => messages.includes(message),
    )
  return { ...node, said }
}

test('a node that starts while PostgreSQL is away waits for it, and is ready when it is back', async () => {
  const bridge = await bridgeTo(installation.target)
  await bridge.cut()
  const node = await startNode(bridge.url)
  await node.said('node.waits_for_postgresql')
  await bridge.mend()
  await node.ready
  await node.said('platform.ready')
})

test('a node that waits for PostgreSQL can be stopped, and that is no failure', async () => {
  const bridge = await bridgeTo(installation.target)
  await bridge.cut()
  const node = await startNode(bridge.url)
  await node.said('node.waits_for_postgresql')
  await node.close()
  await node.ready
})

test('a server whose PostgreSQL goes away as soon as it is up lives on, and makes databases when it is back', async () => {
  const bridge = await bridgeTo(installation.target)
  const server = await serve({
    DATABASE_URL: bridge.url,
    KEYHOOK_MASTER_KEY: masterKey,
    KEYHOOK_DATA_DIR: await dataDirectory(),
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
  await bridge.mend()
  await until(
    () => status('/readyz'),
    (answer) => answer === 200,
  )
  const who = people(installation)
  const orgId = await who.organization()
  const { token } = await who.person([{ orgId, role: 'owner' }])
  const base = `${server.url}/platform/v1/organizations/${orgId}`
  const request = <T>(path: string, more: { body?: unknown } = {}) => call<T>(`${base}${path}`, { token, ...more })
  expect(await createDatabase({ request }, 'after')).toMatchObject({ status: 'available' })
  expect(server.child.exitCode).toBeNull()
  expect((await server.stop()).code).toBe(0)
}, 60_000)
