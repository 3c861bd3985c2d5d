import type { Database } from '../db/database.ts'
import { correctDatabaseHost } from '../store/platform/databases.ts'
import type { DatabaseDriver } from './driver.ts'

/**
 * A driver whose instances come back under the name that this node has now. The rows have the one that it had when they
 * were made, and its settings may have changed since.
 */
export const withCurrentHost = (driver: DatabaseDriver, deps: { db: Database; host: string }): DatabaseDriver => ({
  ...driver,
  async resume(id, options) {
    await driver.resume(id, options)
    await correctDatabaseHost(deps.db, id, deps.host)
  },
})
