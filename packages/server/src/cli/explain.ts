import type { Explained } from '@keyhook/cli'
import { NodeForgotten } from '../databases/dead-nodes.ts'
import { isLoginRejected, isUnavailable, UnsuitableDatabase } from '../db/database.ts'
import { isTlsFailure, tlsFailureText } from '../db/errors.ts'
import { SchemaMismatch } from '../db/migrate.ts'
import { Fault } from '../lib/faults.ts'
import { MachineUnfit } from '../postgres/account.ts'
import { DataDirectoryInUse } from '../postgres/index.ts'
import { DirectoryUnusable } from '../postgres/ownership.ts'
import { ConfigProblems } from '../settings/config.ts'
import { MasterKeyDamaged, MasterKeyMissing } from '../startup/master-keys.ts'

/** Errors that the operator can fix; the message says how. */
const userErrors = [
  DataDirectoryInUse,
  DirectoryUnusable,
  MachineUnfit,
  MasterKeyDamaged,
  MasterKeyMissing,
  NodeForgotten,
  SchemaMismatch,
  UnsuitableDatabase,
]

/** What to tell an operator about an error of the installation. */
export function explainInstallationError(error: unknown): Explained {
  if (error instanceof ConfigProblems) return { text: error.problems.join('\n'), code: 2 }
  if (error instanceof Fault) return { text: error.public, code: 2 }
  if (userErrors.some((kind) => error instanceof kind)) return { text: (error as Error).message, code: 2 }
  const hasUrl = Boolean(process.env.DATABASE_URL || process.env.DATABASE_URL_FILE)
  const server = hasUrl ? 'DATABASE_URL' : 'The embedded PostgreSQL'
  if (isLoginRejected(error)) return { text: `${server}: ${error.message}`, code: 2 }
  if (isTlsFailure(error)) return { text: `${server}: ${tlsFailureText(error)}`, code: 2 }
  if (isUnavailable(error)) {
    const where = hasUrl ? ' (DATABASE_URL)' : ''
    const { message, code } = error as NodeJS.ErrnoException
    return { text: `PostgreSQL cannot be reached${where}: ${message || code}`, code: 1 }
  }
  return { text: error instanceof Error ? (error.stack ?? error.message) : String(error), code: 1 }
}
