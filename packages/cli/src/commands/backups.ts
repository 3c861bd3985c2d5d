import type { Backup, Client } from '@keyhook/client'
import { databaseIdOf } from '../arguments.ts'
import type { KeyhookCommand } from '../program.ts'
import { bytesText, untilEnded } from '../progress.ts'
import { confirm } from '../prompt.ts'
import { customerCommand } from '../session.ts'
import { statusText } from '../style.ts'
import { type Column, shortTime } from '../table.ts'
import { bytesOf, showRestore } from './databases.ts'

const columns: Column<Backup>[] = [
  { title: 'ID', of: ({ id }) => id },
  { title: 'DATABASE', of: ({ database_id }) => database_id, mayShrink: true },
  { title: 'STATUS', of: ({ status }) => status, style: statusText },
  { title: 'SIZE', of: ({ size_bytes }) => (size_bytes === null ? null : bytesText(size_bytes)) },
  { title: 'CREATED (UTC)', of: ({ created_at }) => shortTime(created_at) },
]

export function addCommands(program: KeyhookCommand): void {
  const backups = program.command('backups')
  customerCommand(backups, 'create', 'Create a backup of a database')
    .examples('npx keyhook backups create --database orders --wait')
    .requiredOption('--database <database>', 'Back up the database with this name or id')
    .option('--wait', 'Wait until the backup is complete')
    .run(async ({ client, output }, options: { database: string; wait?: true }) => {
      const created = await client.backups.create(await databaseIdOf(client, options.database))
      const backup = options.wait ? await untilComplete(client, created) : created
      const size = backup.size_bytes === null ? '' : ` (${bytesText(backup.size_bytes)})`
      const text = backup.status === 'completed' ? `is complete${size}` : 'has started'
      output.result(backup, `The backup ${backup.id} ${text}.`)
    })
  customerCommand(backups, 'list', 'List backups, newest first')
    .examples('npx keyhook backups list --database orders')
    .option('--database <database>', 'List only backups of the database with this name or id')
    .list(
      'backups',
      columns,
      'The organization has no such backups. Create a backup: npx keyhook backups create --database db_…',
      async (client, limit, { database }: { database?: string }) => {
        const only = database === undefined ? {} : { databaseId: await databaseIdOf(client, database) }
        return client.backups.list({ ...only, limit })
      },
    )
  customerCommand(backups, 'restore <backup>', 'Restore a backup into a new database')
    .examples('npx keyhook backups restore bak_… --name orders-copy --wait')
    .requiredOption('--name <name>', 'Give the new database this name')
    .option('--wait', 'Wait until the new database accepts connections')
    .run(async ({ client, output }, options: { name: string; wait?: true }, id: string) => {
      await showRestore(client, output, await client.restores.create(id, { name: options.name }), options)
    })
  customerCommand(backups, 'cancel <backup>', 'Cancel a running backup')
    .examples('npx keyhook backups cancel bak_…')
    .run(async ({ client, output }, _options: object, id: string) => {
      output.result(await client.backups.cancel(id), `The backup ${id} is cancelled.`)
    })
  customerCommand(backups, 'delete <backup>', 'Delete a backup')
    .examples('npx keyhook backups delete bak_… --yes')
    .option('--yes', 'Delete without asking for confirmation')
    .run(async ({ client, output }, options: { yes?: boolean }, id: string) => {
      await confirm(`This deletes the backup ${id}. A deleted backup cannot be restored.`, options)
      output.result(await client.backups.delete(id), `The backup ${id} is being deleted.`)
    })
}

const untilComplete = (client: Client, { id }: Backup): Promise<Backup> =>
  untilEnded(
    'backup',
    () => client.backups.get(id),
    (one) => bytesOf('Backup', one),
  )
