import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { scramVerifier } from '../../src/domain/scram.ts'
import { newId } from '../../src/kernel/ids.ts'
import { nodeOf, openHome } from '../../src/platform/local/home.ts'
import { createLocalDriver } from '../../src/platform/local/local-driver.ts'
import { clientOf } from './support/customer.ts'
import { portRange, scratchFolder } from './support/platform.ts'
import { inTime } from './support/program.ts'
import { getStuck } from './support/stuck.ts'

/*
 * A customer's session that cannot be cancelled holds up its own database, and nobody and nothing else.
 */
const folder = scratchFolder()
afterAll(async () => rm(await folder, { recursive: true, force: true }))

/** A database with such a session, at a driver of its own. */
async function stuckDatabase() {
  const { dataDir } = await nodeOf(join(await folder, 'data'))
  const [first, last] = portRange().split('-').map(Number)
  const driver = createLocalDriver({
    home: () => openHome(dataDir),
    host: '127.0.0.1',
    publicHost: '127.0.0.1',
    ports: { first: first!, last: last! },
    onEvent() {},
  })
  const id = newId('db')
  onTestFinished(() => driver.remove(id).finally(driver.close))
  const passwordVerifier = await scramVerifier('secret')
  const { host, port } = await driver.provision(id, { passwordVerifier, signal: new AbortController().signal })
  await getStuck(clientOf({ connection_string: `postgres://app@${host}:${port}/app`, password: 'secret' }, 2))
  return { driver, id }
}

test('a database whose session cannot be cancelled is removed at once', async () => {
  const { driver, id } = await stuckDatabase()
  await inTime(driver.remove(id), 'removed', 20_000)
  expect(await driver.existing()).toEqual([])
}, 120_000)
