import { type KeyhookCommand, UsageError } from '@keyhook/cli'
import { operator } from '../access/audit.ts'
import { countArchivesUnder } from '../backups/sql.ts'
import { prepareJobQueue } from '../compose/platform.ts'
import { changeStorageLimit } from '../databases/rules.ts'
import { UnknownMasterKey } from '../lib/master-keys.ts'
import { settings } from '../settings/config.ts'
import { abandonSecrets, forgetKeyId, resealSecrets } from '../startup/master-keys.ts'
import type { Installation } from '../startup/open.ts'
import { countSecretsUnder } from '../webhooks/secrets-sql.ts'
import { idOption } from './directory-commands.ts'
import { operatorCommand } from './installation.ts'

export function addCommands(program: KeyhookCommand): void {
  operatorCommand(program, 'migrate')
    .examples('npx keyhook migrate')
    .withoutKeys()
    .run(async (installation, output) => {
      await prepareJobQueue(installation)
      const names = installation.applied.map(({ version, name }) => `${String(version).padStart(4, '0')}_${name}`)
      output.result(
        { applied: names },
        names.length === 0 ? 'The schema is up to date.' : `Applied ${names.join(', ')}.`,
      )
    })
  const secrets = program.command('secrets')
  operatorCommand(secrets, 'reseal', 'Seal every secret of webhooks and databases under the current (first) master key')
    .examples('npx keyhook secrets reseal')
    .run(async ({ db, masterKeys }, output) => {
      const resealed = await resealSecrets(db, masterKeys).catch((error: unknown) => {
        if (!(error instanceof UnknownMasterKey)) throw error
        throw new UsageError(`A secret is ${error.message}. List the old key too: KEYHOOK_MASTER_KEY=<new>,<old>`)
      })
      const older = masterKeys.keyIds.filter((id) => id !== masterKeys.currentKeyId)
      const archives = await countArchivesUnder(db, older)
      const kept = archives === 0 ? '' : ` Keep the older master keys: ${archives} archives of backups need them.`
      output.result(
        { resealed, archives_under_older_keys: archives },
        `Resealed ${resealed} secret${resealed === 1 ? '' : 's'}.${kept}`,
      )
    })
  operatorCommand(secrets, 'abandon', 'Delete all webhooks whose secrets are sealed under a lost master key')
    .examples(
      'npx keyhook secrets abandon --key 1a2b3c4d',
      'npx keyhook secrets abandon --key 1a2b3c4d --lost-for-good',
    )
    .requiredOption('--key <id>', 'Delete what this master key sealed; "serve" prints the id of a missing key')
    .option('--lost-for-good', 'Confirm that no server and no backup has the key; the deletion is final')
    .withoutKeys()
    .run(async (installation, output, options: { key: string; lostForGood?: true }) => {
      await checkAbandoning(installation, options)
      const deleted = await abandonSecrets(installation.db, options.key)
      const { database, dataDir } = installation.config
      if (database === null) await forgetKeyId(dataDir, options.key)
      output.result({ deleted }, `Deleted ${webhooks(deleted)}.`)
    })
}

/** Deletion is final, and a key that is missing here may be in use by a server. */
async function checkAbandoning(
  { db, config, masterKeys, isShared }: Installation,
  { key, lostForGood }: { key: string; lostForGood?: true },
): Promise<void> {
  if (masterKeys.keyIds.includes(key))
    throw new UsageError(`--key: master key ${key} is not lost: the settings or the data directory here have it.`)
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

const { databaseStorageMax } = settings

export function addStorageLimitCommand(program: KeyhookCommand): void {
  operatorCommand(program, 'storage-limit')
    .examples(
      'npx keyhook storage-limit --database db_… --limit 50GB',
      'npx keyhook storage-limit --database db_… --limit default',
    )
    .requiredOption('--database <db>', 'Set the limit of this database (db_…)')
    .requiredOption(
      '--limit <size>',
      `Set this size, such as 50GB; "default" is the value of ${databaseStorageMax.variable}`,
    )
    .run(async ({ db, config }, output, options: { database: string; limit: string }) => {
      const id = idOption('db', '--database', options.database)
      const limitBytes = options.limit === 'default' ? null : sizeOption(options.limit)
      await changeStorageLimit(db, operator, config, { id, limitBytes })
      const limit = limitBytes === null ? `the limit of its node (${databaseStorageMax.variable})` : options.limit
      output.result({ database: id, limit_bytes: limitBytes }, `${id} may now use ${limit}.`)
    })
}

function sizeOption(text: string): number {
  try {
    return databaseStorageMax.parse(text, {})
  } catch (error) {
    throw new UsageError(`--limit: ${JSON.stringify(text)} ${(error as Error).message}`)
  }
}
