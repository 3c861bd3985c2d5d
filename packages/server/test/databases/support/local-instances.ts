import { openHome } from '../../../src/databases/drivers/local/home.ts'
import type { LocalInstancesOptions } from '../../../src/databases/drivers/local/instance.ts'
import { createLocalInstances } from '../../../src/databases/drivers/local/instances.ts'
import { portRange } from './platform.ts'

/** One range for the test file, so that a directory that is opened again has the same ports. */
const [first, last] = portRange().split('-').map(Number)

/** The instances of a data directory, without a node. */
export const openInstances = (dataDir: string, more: Partial<LocalInstancesOptions> = {}) =>
  createLocalInstances({
    home: () => openHome(dataDir),
    host: '127.0.0.1',
    publicHost: '127.0.0.1',
    ports: { first: first!, last: last! },
    storageLimitBytes: 1024 ** 3,
    limits: { memoryBytes: 512 * 1024 ** 2, processesMax: 400, cpus: 1 },
    onEvent() {},
    ...more,
  })
