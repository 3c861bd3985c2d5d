import { openHome } from '../../../src/platform/local/home.ts'
import { createLocalDriver, type LocalDriverOptions } from '../../../src/platform/local/local-driver.ts'
import { portRange } from './platform.ts'

/** One range for the test file, so that a directory that is opened again has the same ports. */
const [first, last] = portRange().split('-').map(Number)

/** A driver on a data directory, without a node. */
export const openDriver = (dataDir: string, more: Partial<LocalDriverOptions> = {}) =>
  createLocalDriver({
    home: () => openHome(dataDir),
    host: '127.0.0.1',
    publicHost: '127.0.0.1',
    ports: { first: first!, last: last! },
    storageLimitBytes: 1024 ** 3,
    limits: { memoryBytes: 512 * 1024 ** 2, processesMax: 400, cpus: 1 },
    onEvent() {},
    ...more,
  })
