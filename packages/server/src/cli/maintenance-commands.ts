import { examples, UsageError } from '@keyhook/cli'
import type { Command } from 'commander'
import { prepareJobQueue } from '../compose/platform.ts'
import { UnknownMasterKey } from '../kernel/master-keys.ts'
import { abandonSecrets } from '../operator/abandon.ts'
import { resealSecrets } from '../operator/reseal.ts'
import { forgetKeyId } from '../startup/master-key-file.ts'
import type { Installation } from '../startup/open.ts'
import { countArchivesUnder } from '../store/platform/backups.ts'
import { countSecretsUnder } from '../store/webhook-secrets.ts'
import type { Environment } from './environment.ts'
import { withInstallation } from './with-installation.ts'

export function addMaintenanceCommands(program: Command, environment: Environment): void {
  program
    .command('migrate')
    .description('Bring the database schema up to date (serve does this by itself)')
    .addHelpText(...examples('npx keyhook migrate'))
    .option('--json', 'Print one line of JSON')
    .action((options: { json?: boolean }) =>
      withInstallation(
        environment,
        options,
        async (installation, output) => {
          const { applied } = installation
          await prepareJobQueue(installation)
          const names = applied.map(({ version, name }) => `${String(version).padStart(4, '0')}_${name}`)
          output.result(
            { applied: names },
            names.length === 0 ? 'The schema is up to date.' : `Applied ${names.join(', ')}.`,
          )
        },
        { keysMayBeMissing: true },
      ),
    )
  const secrets = program.command('secrets').description('Secrets at rest')
  secrets
    .command('reseal')
    .description('Seal every secret of webhooks and databases under the current (first) master key')
    .addHelpText(...examples('npx keyhook secrets reseal'))
    .option('--json', 'Print one line of JSON')
    .action((options: { json?: boolean }) =>
      withInstallation(environment, options, async ({ db, masterKeys }, output) => {
        const resealed = await resealSecrets(db, masterKeys).catch((error: unknown) => {
          if (!(error instanceof UnknownMasterKey)) throw error
          throw new UsageError(`A secret is ${error.message}. List the old key too: KEYHOOK_MASTER_KEY=<new>,<old>`)
        })
        const older = masterKeys.keyIds.filter((id) => id !== masterKeys.currentKeyId)
        const archives = await countArchivesUnder(db, older)
        const kept = archives === 0 ? '' : ` Keep the older keys: ${archives} archives of backups need them.`
        output.result(
          { resealed, archives_under_older_keys: archives },
          `Resealed ${resealed} secret${resealed === 1 ? '' : 's'}.${kept}`,
        )
      }),
    )
  secrets
    .command('abandon')
    .description('Delete every webhook whose secret is sealed under a master key that is lost for good')
    .addHelpText(
      ...examples(
        'npx keyhook secrets abandon --key 1a2b3c4d',
        'npx keyhook secrets abandon --key 1a2b3c4d --lost-for-good',
      ),
    )
    .requiredOption('--key <id>', 'The id of the lost key, as serve names it')
    .option('--lost-for-good', 'No server and no backup has it: what it sealed can never be read again')
    .option('--json', 'Print one line of JSON')
    .action((options: { key: string; lostForGood?: true; json?: boolean }) =>
      withInstallation(
        environment,
        options,
        async (installation, output) => {
          await checkAbandoning(installation, options)
          const deleted = await abandonSecrets(installation.db, options.key)
          const { database, dataDir } = installation.config
          if (database === null) await forgetKeyId(dataDir, options.key)
          output.result({ deleted }, `Deleted ${webhooks(deleted)}.`)
        },
        { keysMayBeMissing: true },
      ),
    )
}

/** Deletion is final, and a key that is missing here may be in use by a server. */
async function checkAbandoning(
  { db, config, masterKeys, isShared }: Installation,
  { key, lostForGood }: { key: string; lostForGood?: true },
): Promise<void> {
  if (masterKeys.keyIds.includes(key))
    throw new UsageError(`--key: master key ${key} is not lost; it is among those that are used here.`)
  if (isShared) {
    throw new UsageError(
      `A Keyhook server runs on the data directory ${config.dataDir}, and may have master key ${key}: stop it first.`,
    )
  }
  if (lostForGood) return
  const count = await countSecretsUnder(db, key)
  throw new UsageError(
    `This would delete ${webhooks(count)}, whose secrets are sealed under master key ${key}. If no server and no backup ` +
      'has that key any more, add --lost-for-good.',
  )
}

const webhooks = (count: number): string => `${count} webhook${count === 1 ? '' : 's'}`
