import type { Client, Database, DatabaseStorage } from '@keyhook/client'
import type { Command } from 'commander'
import { connectToDatabase } from './connect-database.ts'
import { createdText } from './created-database.ts'
import { customerCommand, inSession } from './customer-command.ts'
import { OperationFailed } from './explain-client-error.ts'
import { limitDefault, pageSize, printList } from './list-output.ts'
import { bytesText, waitFor } from './progress.ts'
import { confirm } from './prompt.ts'
import { databaseIdOf } from './record-arguments.ts'
import type { SessionOptions } from './session.ts'
import { showRestore } from './show-restore.ts'
import { statusText } from './style.ts'
import { type Column, recordLines, timeText } from './table.ts'

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
    .requiredOption('--name <name>', 'A label for people')
    .option('--wait', 'Wait until it accepts connections')
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { name: string; wait?: true }) => {
        const { password, ...created } = await client.databases.create({ name: options.name })
        const database = options.wait ? await untilAvailable(client, created) : created
        output.result({ ...database, password }, createdText(database, password))
      }),
    )
  customerCommand(databases, 'list', 'List databases, newest first', 'npx keyhook databases list')
    .option('--limit <n>', 'How many, or "all"', String(limitDefault))
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { limit: string }) => {
        const list = client.databases.list({ limit: pageSize(options.limit) })
        await printList(
          output,
          options,
          list,
          columns,
          'No databases. Create one: npx keyhook databases create --name orders',
        )
      }),
    )
  customerCommand(databases, 'show <database>', 'Show a database', 'npx keyhook databases show orders').action(
    inSession(async ({ client, output }, _options: SessionOptions, name: string) => {
      const database = await client.databases.get(await databaseIdOf(client, name))
      output.result(database, details(database))
    }),
  )
  customerCommand(
    databases,
    'connect <database>',
    'Open psql, or print how to connect',
    'npx keyhook databases connect orders',
    "npx keyhook databases connect orders --command 'select 1'",
    'npx keyhook databases connect orders --password-stdin < password.txt',
  )
    .option('--command <sql>', 'Run this SQL instead of opening a prompt')
    .option('--password-stdin', 'Read the password from standard input; psql asks for it otherwise')
    .option('--print', 'Print the connection string even if psql is installed')
    .action(inSession(connectToDatabase))
  customerCommand(
    databases,
    'restore <database>',
    'Make a new database with what this one had at a time',
    'npx keyhook databases restore db_… --to 2026-01-31T12:00:00Z --name before --wait',
  )
    .requiredOption('--to <time>', 'The time; "databases show" has the range')
    .requiredOption('--name <name>', 'Name of the new database')
    .option('--wait', 'Wait until it accepts connections')
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
    'Delete a database with all its data; backups stay',
    'npx keyhook databases delete db_… --yes',
  )
    .option('--yes', 'Do not ask')
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { yes?: boolean }, name: string) => {
        const id = await databaseIdOf(client, name)
        await confirm(`This deletes the database ${id} with all its data. Its backups stay.`, options)
        output.result(await client.databases.delete(id), `${id} is being deleted.`)
      }),
    )
}

export async function untilAvailable(client: Client, created: Database): Promise<Database> {
  const database = await waitFor(
    () => client.databases.get(created.id),
    ({ status }) => status === 'available' || status === 'failed',
    ({ status }) => ({ label: `${created.name}: ${status}` }),
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
