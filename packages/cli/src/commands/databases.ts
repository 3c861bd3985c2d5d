import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type Backup,
  type Client,
  type CreatedRestore,
  type Database,
  type DatabaseStorage,
  KeyhookError,
  type Restore,
} from '@keyhook/client'
import { databaseIdOf } from '../arguments.ts'
import { OperationFailed, type Output, UsageError } from '../output.ts'
import type { KeyhookCommand } from '../program.ts'
import { bytesText, untilEnded } from '../progress.ts'
import { confirm, readInput } from '../prompt.ts'
import { customerCommand, type Session, type SessionOptions } from '../session.ts'
import { statusText, styled } from '../style.ts'
import { type Column, recordLines, timeText } from '../table.ts'

const columns: Column<Database>[] = [
  { title: 'ID', of: ({ id }) => id },
  { title: 'NAME', of: ({ name }) => name, mayShrink: true },
  { title: 'STATUS', of: ({ status }) => status, style: statusText },
  { title: 'ADDRESS', of: ({ host, port }) => (host === null ? null : `${host}:${port}`), mayShrink: true },
]

type RestoreOptions = SessionOptions & { name: string; to: string; wait?: true }

export function addCommands(program: KeyhookCommand): void {
  const databases = program.command('databases')
  customerCommand(databases, 'create', 'Create a PostgreSQL database; its password is shown once')
    .examples('npx keyhook databases create --name orders --wait')
    .requiredOption('--name <name>', 'Give the new database this name')
    .option('--wait', 'Wait until the new database accepts connections')
    .run(async ({ client, output }, options: { name: string; wait?: true }) => {
      const { password, ...created } = await client.databases.create({ name: options.name })
      const database = options.wait ? await untilAvailable(client, created) : created
      output.result({ ...database, password }, createdText(database, password))
    })
  customerCommand(databases, 'list', 'List databases, newest first')
    .examples('npx keyhook databases list')
    .list(
      'databases',
      columns,
      'The organization has no databases. Create a database: npx keyhook databases create --name orders',
      (client, limit) => client.databases.list({ limit }),
    )
  customerCommand(databases, 'show <database>', 'Show a database, its address and its storage')
    .examples('npx keyhook databases show orders')
    .run(async ({ client, output }, _options: object, name: string) => {
      const database = await client.databases.get(await databaseIdOf(client, name))
      output.result(database, details(database))
    })
  customerCommand(databases, 'connect <database>', 'Open psql on a database, or print how to connect')
    .examples(
      'npx keyhook databases connect orders',
      "npx keyhook databases connect orders --command 'select 1'",
      'npx keyhook databases connect orders --password-stdin < password.txt',
    )
    .option('--command <sql>', 'Run this SQL and exit, instead of opening a prompt')
    .option('--password-stdin', 'Read the password from standard input; by default psql asks for it')
    .option('--print', 'Print the connection string instead of opening psql')
    .run(connectToDatabase)
  customerCommand(databases, 'restore <database>', 'Restore the data of a database at a timestamp into a new database')
    .examples('npx keyhook databases restore db_… --to 2026-01-31T12:00:00Z --name before --wait')
    .requiredOption('--to <time>', 'Restore the data of this timestamp; "databases show" prints the range')
    .requiredOption('--name <name>', 'Give the new database this name')
    .option('--wait', 'Wait until the new database accepts connections')
    .run(async ({ client, output }, options: RestoreOptions, name: string) => {
      const id = await databaseIdOf(client, name)
      const created = await client.databases.restore(id, { name: options.name, to: options.to })
      await showRestore(client, output, created, options)
    })
  customerCommand(databases, 'delete <database>', 'Delete a database with all its data; its backups are kept')
    .examples('npx keyhook databases delete db_… --yes')
    .option('--yes', 'Delete without asking for confirmation')
    .run(async ({ client, output }, options: { yes?: boolean }, name: string) => {
      const id = await databaseIdOf(client, name)
      await confirm(`This deletes the database ${id} with all its data. Its backups are kept.`, options)
      output.result(await client.databases.delete(id), `The database ${id} is being deleted.`)
    })
}

const untilAvailable = (client: Client, { id, name }: Database): Promise<Database> =>
  untilEnded(
    'database',
    () => client.databases.get(id),
    ({ status }) => ({ label: `Database ${name}: ${status}` }),
  )

const details = (database: Database): string =>
  recordLines({
    Id: database.id,
    Name: database.name,
    Status: database.status,
    Address: database.host === null ? undefined : `${database.host}:${database.port}`,
    User: database.user,
    Database: database.database,
    Connection: database.connection_string ?? undefined,
    Storage: database.storage === null ? undefined : storageText(database.storage),
    Failure: database.failure ?? undefined,
    Restorable: database.recovery_window
      ? `${timeText(database.recovery_window.from)} to ${timeText(database.recovery_window.to)}`
      : undefined,
    Recovery: database.recovery_problem ?? undefined,
    Created: timeText(database.created_at),
  }).join('\n')

function storageText({ used_bytes, limit_bytes, state, message }: DatabaseStorage): string {
  const used = `${bytesText(used_bytes)} of ${bytesText(limit_bytes)}`
  return state === 'normal' ? used : `${used}. ${message}`
}

const createdText = (database: Database, password: string): string =>
  [
    database.status === 'available'
      ? `The database ${database.id} (${database.name}) is available.`
      : `The database ${database.id} (${database.name}) is being created, until "npx keyhook databases show ${database.id}" shows the status available.`,
    'Its password is shown once, so store the password now:',
    '',
    `  ${styled('bold', password)}`,
    '',
    `Connect: npx keyhook databases connect ${database.id}`,
  ].join('\n')

export const bytesOf = (label: string, { bytes_done, bytes_total }: Backup | Restore) => ({
  label,
  done: bytes_done,
  total: bytes_total,
})

/** Prints a restore that has started, or with `wait` the database when the restore has ended. */
export async function showRestore(
  client: Client,
  output: Output,
  created: CreatedRestore,
  options: { wait?: true },
): Promise<void> {
  if (!options.wait) return output.result(created, createdText(created.database, created.database.password))
  const restore = await untilEnded(
    'restore',
    () => client.restores.get(created.restore.id),
    (one) => bytesOf('Restore', one),
  )
  const database = { ...(await client.databases.get(restore.database_id)), password: created.database.password }
  output.result({ restore, database }, createdText(database, database.password))
}

type ConnectOptions = SessionOptions & { command?: string; passwordStdin?: true; print?: true }

/**
 * Runs psql, which asks for the password itself. A password from standard input goes through the environment: arguments are
 * visible to every user of the machine.
 */
async function connectToDatabase({ client, output }: Session, options: ConnectOptions, name: string): Promise<void> {
  const id = await databaseIdOf(client, name)
  const database = await client.databases.get(id)
  const address = database.connection_string
  if (address === null)
    throw new UsageError(`The database ${id} accepts no connections yet: its status is ${database.status}.`)
  if (options.json) return output.result(database, '')
  if (options.print) return output.result(database, address)
  const env = { ...process.env }
  if (options.passwordStdin) env.PGPASSWORD = await readInput()
  // A server that asks for the password itself is not ours. libpq before 16 does not know this.
  env.PGREQUIREAUTH ??= 'scram-sha-256'
  const authority = env.PGSSLROOTCERT === undefined ? await authorityOf(client) : null
  if (authority === null) return runPsql(database, address, options, env, output)
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-'))
  try {
    env.PGSSLROOTCERT = join(folder, 'database-ca.pem')
    await writeFile(env.PGSSLROOTCERT, authority)
    await runPsql(database, address, options, env, output)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function runPsql(
  database: Database,
  address: string,
  options: ConnectOptions,
  env: NodeJS.ProcessEnv,
  output: Output,
): Promise<void> {
  const args = [...(options.command === undefined ? [] : ['--command', options.command]), address]
  const psql = spawn('psql', args, { stdio: options.passwordStdin ? ['ignore', 'inherit', 'inherit'] : 'inherit', env })
  // Ctrl-C is for the query that runs in psql.
  const ignore = () => {}
  process.on('SIGINT', ignore)
  try {
    const [code] = await once(psql, 'exit')
    if (code !== 0) throw new OperationFailed(`psql ended with ${code === null ? 'a signal' : `exit code ${code}`}.`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    output.note(
      'psql is not installed (Debian: apt-get install postgresql-client, macOS: brew install libpq). The connection string is:',
    )
    output.result(database, address)
  } finally {
    process.off('SIGINT', ignore)
  }
}

/** The certificate of the authority that signs for databases; null if that is a public authority. */
const authorityOf = (client: Client): Promise<string | null> =>
  client.databases.certificateAuthority().catch((error: unknown) => {
    if (error instanceof KeyhookError && error.code === 'not_found') return null
    throw error
  })
