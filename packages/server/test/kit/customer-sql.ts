import { onTestFinished } from 'vitest'
import { readConnectionUrl } from '../../src/db/connection-url.ts'
import { connect, type Database } from '../../src/db/database.ts'

/** A customer's client: the printed connection string, and the password beside it. `databases/tls.long.test.ts` checks certificates. */
export function customerSql(url: string, password: string, connectionsMax = 1): Database {
  const read = readConnectionUrl(url.replace('sslmode=verify-full', 'sslmode=require'), { PGPASSWORD: password })
  if ('problems' in read) throw new Error(read.problems.join(', '))
  return connect({ ...read.target, connectSeconds: 5 }, { name: 'customer', connectionsMax })
}

/** The same, closed when the test ends. */
export function customerSqlForTest(url: string, password: string, connectionsMax = 1): Database {
  const sql = customerSql(url, password, connectionsMax)
  onTestFinished(() => sql.end({ timeout: 1 }))
  return sql
}
