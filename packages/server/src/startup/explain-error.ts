import { statfs } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { NodeForgotten } from '../databases/dead-nodes.ts'
import { isLoginRejected, isUnavailable, UnsuitableDatabase } from '../db/database.ts'
import { isTlsFailure, tlsFailureText } from '../db/errors.ts'
import { SchemaMismatch } from '../db/migrate.ts'
import { Fault } from '../lib/faults.ts'
import { inMegabytes } from '../lib/units.ts'
import { MachineUnfit, machineProblem, pathsFromRoot } from '../postgres/account.ts'
import { DataDirectoryInUse } from '../postgres/data-directory-lock.ts'
import { DirectoryUnusable, unusable } from '../postgres/ownership.ts'
import { type Config, ConfigProblems } from '../settings/config.ts'
import { MasterKeyDamaged, MasterKeyMissing } from './master-keys.ts'
import { openFilesMax } from './process.ts'

/** Replaces an error that the machine causes, such as a full disk, by one whose message says in one line what to do. */
export async function explainError(config: Pick<Config, 'database' | 'dataDir'>, error: unknown): Promise<unknown> {
  // The PostgreSQL of DATABASE_URL runs on another machine.
  if (config.database !== null) return error
  const directory = { path: resolve(config.dataDir), setting: 'KEYHOOK_DATA_DIR' }
  switch (machineProblem(error)) {
    case 'no-room':
      // The cluster may be behind a link, on another disk.
      return unusable(directory, await diskFullAt(join(directory.path, 'postgres')), error)
    case 'read-only':
      return unusable(directory, readOnly, error)
    case 'nameless-user':
      return new MachineUnfit(userWithoutName(error as Error), { cause: error })
    case 'only-root':
      return new MachineUnfit(onlyRoot(error as Error), { cause: error })
    case 'few-files':
      return new MachineUnfit(tooFewFiles(), { cause: error })
    case null:
      return error
  }
}

const readOnly = 'the file system is mounted read-only. Mount it for writing, or choose a directory elsewhere'

const tooFewFiles = (): string =>
  `A process may have too few files open here (${openFilesMax() ?? 'the limit is unknown'}): allow 1024 or more ` +
  '(ulimit -n 1024; for systemd, LimitNOFILE=1024) and start again.'

/** Takes the id from PostgreSQL's message: under root, PostgreSQL runs as another user than we do. */
function userWithoutName({ message }: Error): string {
  const id = /user ID (\d+)/.exec(message)?.[1]
  return (
    `PostgreSQL makes no database for a user without a name, and the user with id ${id} has none: give it one (as root: ` +
    `useradd --uid ${id} NAME), run Keyhook as another user, or set DATABASE_URL to a PostgreSQL server of your own.`
  )
}

/** Root of a user namespace with one id, or without the capabilities. */
const onlyRoot = ({ message }: Error): string =>
  `PostgreSQL refuses to run as root, and this process may not run it as another user (${message.split('\n').at(-1)}): start ` +
  'Keyhook as an ordinary user; or give it CAP_CHOWN, CAP_SETUID and CAP_SETGID, and in a user namespace more than one user id; ' +
  'or set DATABASE_URL to a PostgreSQL server of your own.'

/** What a disk has left. `files` is null where the file system has no fixed number of inodes. */
type Free = { bytes: number; files: number | null }

/** Needed by a new installation, with the template of customers' databases. */
const bytesNeeded = 200 * 1024 ** 2
const filesNeeded = 3_000

async function diskFullAt(path: string): Promise<string> {
  for (const step of pathsFromRoot(path).reverse()) {
    const found = await statfs(step).catch(() => null)
    if (found === null) continue
    return diskFull({ bytes: found.bavail * found.bsize, files: found.files === 0 ? null : found.ffree })
  }
  return diskFull({ bytes: 0, files: null })
}

/** Measured after the failed attempt was cleaned up, so some of what ran out may be free again. */
export function diskFull({ bytes, files }: Free): string {
  const lacksFiles = files !== null && files < filesNeeded
  const lacksBytes = bytes < bytesNeeded
  if (files === 0 || (lacksFiles && !lacksBytes))
    return `too few inodes are left on the disk. Remove files (a new installation takes ${filesNeeded}) and start again`
  const needed = `${inMegabytes(bytesNeeded)}${lacksFiles ? ` and ${filesNeeded} inodes` : ''}`
  return `there is no room left on the disk. Make some (a new installation takes ${needed}) and start again`
}

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
export function explainInstallationError(error: unknown): { text: string; code: number } {
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
