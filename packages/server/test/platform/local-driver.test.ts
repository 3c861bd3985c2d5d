import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, onTestFinished } from 'vitest'
import { nodeOf, openHome } from '../../src/platform/local/home.ts'
import { createLocalDriver } from '../../src/platform/local/local-driver.ts'
import { driverConformance } from './driver-conformance.ts'
import { portRange, scratchFolder } from './support/platform.ts'

// One folder for all of them: they share its template, and each removes the databases that it made.
const folder = scratchFolder()
afterAll(async () => rm(await folder, { recursive: true, force: true }))
const [first, last] = portRange().split('-').map(Number)

driverConformance('the local driver', async () => {
  const { dataDir } = await nodeOf(join(await folder, 'data'))
  const open = () => {
    const driver = createLocalDriver({
      home: () => openHome(dataDir),
      host: '127.0.0.1',
      publicHost: '127.0.0.1',
      ports: { first: first!, last: last! },
      onEvent() {},
    })
    onTestFinished(async () => {
      for (const id of await driver.existing()) await driver.remove(id)
      await driver.close()
    })
    return driver
  }
  return { driver: open(), reopen: async () => open() }
})
