import type { Backup, Client, CreatedRestore, Database, DatabaseStorage, Restore } from '@keyhook/client'
import type { Command } from 'commander'
import { databaseIdOf } from '../arguments.ts'
import { OperationFailed, type Output } from '../output.ts'
import { bytesText, waitFor } from '../progress.ts'
import { confirm } from '../prompt.ts'
import { customerCommand, inSession, type SessionOptions } from '../session.ts'
import { statusText, styled } from '../style.ts'
import { type Column, limitOption, pageSize, printList, recordLines, timeText } from '../table.ts'
import { connectToDatabase } from './connect-database.ts'

const columns: Column<Database>[] = [
  { title: 'ID', of: ({ id }) => id },
  { title: 'NAME', of: ({ name }) => name, mayShrink: true },
  { title: 'STATUS', of: ({ status }) => status, style: statusText },
  { title: 'ADDRESS', of: ({ host, port }) => (host === null ? null : `${host}:${port}`), mayShrink: true },
]

type RestoreOptions = SessionOptions & { name: string; to: string; wait?: true }

export function addDatabasesCommands(program: Command): void {
  const databases = program.command('databases')
  customerCommand(
    databases,
    'create',
    'Create a PostgreSQL database; its password is shown once',
    'npx keyhook databases create --name orders --wait',
  )
    .requiredOption('--name <name>', 'Give the new database this name')
    .option('--wait', 'Wait until the new database accepts connections')
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { name: string; wait?: true }) => {
        const { password, ...created } = await client.databases.create({ name: options.name })
        const database = options.wait ? await untilAvailable(client, created) : created
        output.result({ ...database, password }, createdText(database, password))
      }),
    )
  customerCommand(databases, 'list', 'List databases, newest first', 'npx keyhook databases list')
    .option(...limitOption('databases'))
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { limit: string }) => {
        const list = client.databases.list({ limit: pageSize(options.limit) })
        await printList(
          output,
          options,
          list,
          columns,
          'The organization has no databases. Create a database: npx keyhook databases create --name orders',
        )
      }),
    )
  customerCommand(
    databases,
    'show <database>',
    'Show a database, its address and its storage',
    'npx keyhook databases show orders',
  ).action(
    inSession(async ({ client, output }, _options: SessionOptions, name: string) => {
      const database = await client.databases.get(await databaseIdOf(client, name))
      output.result(database, details(database))
    }),
  )
  customerCommand(
    databases,
    'connect <database>',
    'Open psql on a database, or print how to connect',
    'npx keyhook databases connect orders',
    "npx keyhook databases connect orders --command 'select 1'",
    'npx keyhook databases connect orders --password-stdin < password.txt',
  )
    .option('--command <sql>', 'Run this SQL and exit, instead of opening a prompt')
    .option('--password-stdin', 'Read the password from standard input; by default psql asks for it')
    .option('--print', 'Print the connection string instead of opening psql')
    .action(inSession(connectToDatabase))
  customerCommand(
    databases,
    'restore <database>',
    'Restore the data of a database at a timestamp into a new database',
    'npx keyhook databases restore db_… --to 2026-01-31T12:00:00Z --name before --wait',
  )
    .requiredOption('--to <time>', 'Restore the data of this timestamp; "databases show" prints the range')
    .requiredOption('--name <name>', 'Give the new database this name')
    .option('--wait', 'Wait until the new database accepts connections')
    .action(
      inSession(async ({ client, output }, options: RestoreOptions, name: string) => {
        const id = await databaseIdOf(client, name)
        const created = await client.databases.restore(id, { name: options.name, to: options.to })
        await showRestore(client, output, created, options)
      }),
    )
  customerCommand(
    databases,
    'delete <database>',
    'Delete a database with all its data; its backups are kept',
    'npx keyhook databases delete db_… --yes',
  )
    .option('--yes', 'Delete without asking for confirmation')
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { yes?: boolean }, name: string) => {
        const id = await databaseIdOf(client, name)
        await confirm(`This deletes the database ${id} with all its data. Its backups are kept.`, options)
        output.result(await client.databases.delete(id), `The database ${id} is being deleted.`)
      }),
    )
}

async function untilAvailable(client: Client, created: Database): Promise<Database> {
  const database = await waitFor(
    () => client.databases.get(created.id),
    ({ status }) => status === 'available' || status === 'failed',
    ({ status }) => ({ label: `Database ${created.name}: ${status}` }),
  )
  if (database.status === 'failed') throw new OperationFailed(`The database ${database.id} failed: ${database.failure}`)
  return database
}

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

export const isOver = ({ status }: { status: string }): boolean => status === 'completed' || status === 'failed'

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
  const restore = await untilRestored(client, created.restore)
  const database = { ...(await client.databases.get(restore.database_id)), password: created.database.password }
  output.result({ restore, database }, createdText(database, database.password))
}

async function untilRestored(client: Client, created: Restore): Promise<Restore> {
  const restore = await waitFor(
    () => client.restores.get(created.id),
    isOver,
    (one: Restore) => bytesOf('Restore', one),
  )
  if (restore.status === 'failed') throw new OperationFailed(`The restore ${restore.id} failed: ${restore.failure}`)
  return restore
}
