import { openHome } from '../../../src/platform/local/home.ts'
import { createLocalDriver, type LocalDriverOptions } from '../../../src/platform/local/local-driver.ts'
import { portRange } from './platform.ts'

/** Of the test file: whoever opens a directory again finds its databases where they were. */
const [first, last] = portRange().split('-').map(Number)

/** The databases of a data directory, without a node around them. */
export const openDriver = (dataDir: string, more: Partial<LocalDriverOptions> = {}) =>
  createLocalDriver({
    home: () => openHome(dataDir),
    host: '127.0.0.1',
    publicHost: '127.0.0.1',
    ports: { first: first!, last: last! },
    onEvent() {},
    ...more,
  })
