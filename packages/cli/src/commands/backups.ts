import type { Backup, Client } from '@keyhook/client'
import type { Command } from 'commander'
import { databaseIdOf } from '../arguments.ts'
import { OperationFailed } from '../output.ts'
import { bytesText, waitFor } from '../progress.ts'
import { confirm } from '../prompt.ts'
import { customerCommand, inSession, type SessionOptions } from '../session.ts'
import { statusText } from '../style.ts'
import { type Column, limitOption, pageSize, printList, shortTime } from '../table.ts'
import { bytesOf, isOver, showRestore } from './databases.ts'

const columns: Column<Backup>[] = [
  { title: 'ID', of: ({ id }) => id },
  { title: 'DATABASE', of: ({ database_id }) => database_id, mayShrink: true },
  { title: 'STATUS', of: ({ status }) => status, style: statusText },
  { title: 'SIZE', of: ({ size_bytes }) => (size_bytes === null ? null : bytesText(size_bytes)) },
  { title: 'CREATED (UTC)', of: ({ created_at }) => shortTime(created_at) },
]

type ListOptions = SessionOptions & { limit: string; database?: string }

export function addBackupsCommands(program: Command): void {
  const backups = program.command('backups')
  customerCommand(
    backups,
    'create',
    'Create a backup of a database',
    'npx keyhook backups create --database orders --wait',
  )
    .requiredOption('--database <database>', 'Back up the database with this name or id')
    .option('--wait', 'Wait until the backup is complete')
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { database: string; wait?: true }) => {
        const created = await client.backups.create(await databaseIdOf(client, options.database))
        const backup = options.wait ? await untilComplete(client, created) : created
        const size = backup.size_bytes === null ? '' : ` (${bytesText(backup.size_bytes)})`
        const text = backup.status === 'completed' ? `is complete${size}` : 'has started'
        output.result(backup, `The backup ${backup.id} ${text}.`)
      }),
    )
  customerCommand(backups, 'list', 'List backups, newest first', 'npx keyhook backups list --database orders')
    .option('--database <database>', 'List only backups of the database with this name or id')
    .option(...limitOption('backups'))
    .action(
      inSession(async ({ client, output }, options: ListOptions) => {
        const only = options.database === undefined ? {} : { databaseId: await databaseIdOf(client, options.database) }
        const list = client.backups.list({ ...only, limit: pageSize(options.limit) })
        await printList(
          output,
          options,
          list,
          columns,
          'The organization has no such backups. Create a backup: npx keyhook backups create --database db_…',
        )
      }),
    )
  customerCommand(
    backups,
    'restore <backup>',
    'Restore a backup into a new database',
    'npx keyhook backups restore bak_… --name orders-copy --wait',
  )
    .requiredOption('--name <name>', 'Give the new database this name')
    .option('--wait', 'Wait until the new database accepts connections')
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { name: string; wait?: true }, id: string) => {
        await showRestore(client, output, await client.restores.create(id, { name: options.name }), options)
      }),
    )
  customerCommand(backups, 'cancel <backup>', 'Cancel a running backup', 'npx keyhook backups cancel bak_…').action(
    inSession(async ({ client, output }, _options: SessionOptions, id: string) => {
      output.result(await client.backups.cancel(id), `The backup ${id} is cancelled.`)
    }),
  )
  customerCommand(backups, 'delete <backup>', 'Delete a backup', 'npx keyhook backups delete bak_… --yes')
    .option('--yes', 'Delete without asking for confirmation')
    .action(
      inSession(async ({ client, output }, options: SessionOptions & { yes?: boolean }, id: string) => {
        await confirm(`This deletes the backup ${id}. A deleted backup cannot be restored.`, options)
        output.result(await client.backups.delete(id), `The backup ${id} is being deleted.`)
      }),
    )
}

async function untilComplete(client: Client, created: Backup): Promise<Backup> {
  const backup = await waitFor(
    () => client.backups.get(created.id),
    isOver,
    (one: Backup) => bytesOf('Backup', one),
  )
  if (backup.status === 'failed') throw new OperationFailed(`The backup ${backup.id} failed: ${backup.failure}`)
  return backup
}
