import { examples, UsageError } from '@keyhook/cli'
import type { Command } from 'commander'
import { settings } from '../config.ts'
import { operator } from '../domain/audit.ts'
import { changeStorageLimit } from '../operator/storage-limit.ts'
import { idOption } from './directory-commands.ts'
import type { Environment } from './environment.ts'
import { withInstallation } from './with-installation.ts'

const { databaseStorageMax } = settings

export function addStorageLimitCommand(program: Command, environment: Environment): void {
  program
    .command('storage-limit')
    .description('Set how much disk one database may use')
    .addHelpText(
      ...examples(
        'npx keyhook storage-limit --database db_… --limit 50GB',
        'npx keyhook storage-limit --database db_… --limit default',
      ),
    )
    .requiredOption('--database <db>', 'The database')
    .requiredOption('--limit <size>', `A size such as 50GB, or "default" for ${databaseStorageMax.variable}`)
    .option('--json', 'Print one line of JSON')
    .action((options: { database: string; limit: string; json?: boolean }) =>
      withInstallation(environment, options, async ({ db }, output) => {
        const id = idOption('db', '--database', options.database)
        const limitBytes = options.limit === 'default' ? null : sizeOption(options.limit)
        await changeStorageLimit(db, operator, { id, limitBytes })
        const limit = limitBytes === null ? `the limit of its node (${databaseStorageMax.variable})` : options.limit
        output.result({ database: id, limit_bytes: limitBytes }, `${id} may now use ${limit}.`)
      }),
    )
}

function sizeOption(text: string): number {
  try {
    return databaseStorageMax.parse(text, {})
  } catch (error) {
    throw new UsageError(`--limit: ${JSON.stringify(text)} ${(error as Error).message}`)
  }
}
