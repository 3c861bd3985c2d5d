import { createOutput, examples, exitOnSignal, UsageError } from '@keyhook/cli'
import type { Command } from 'commander'
import { ClusterExists } from '../embedded/restore-cluster.ts'
import { createEncryption } from '../platform/archive/encryption.ts'
import { backUpSelf, restoreSelf, SelfBackupProblem } from '../platform/self-backup.ts'
import { explainError } from '../startup/explain-error.ts'
import { addArchiveCommands, explain as explainArchive, openEncryption } from './archive-commands.ts'
import type { Environment } from './environment.ts'
import { withInstallation } from './with-installation.ts'

const notEmbedded =
  "DATABASE_URL names a PostgreSQL of your own: back it up and restore it with that server's tools, such as pg_dump or pg_basebackup."

export function addSelfBackupCommands(program: Command, environment: Environment): void {
  const backup = program.command('backup').description("Backups of Keyhook's own database, and archives by hand")
  addArchiveCommands(backup, environment)
  backup
    .command('self')
    .description("Back up Keyhook's own database into a file while it runs")
    .addHelpText(...examples('npx keyhook backup self --to keyhook-monday.tar.zst.age'))
    .requiredOption('--to <file>', 'A new file, encrypted under the master key, which is not in it: keep it too')
    .option('--json', 'Print one line of JSON')
    .action(async (options: { to: string; json?: boolean }) => {
      if (environment().database !== null) throw new UsageError(notEmbedded)
      await withInstallation(environment, options, async ({ target, masterKeys, config: { dataDir } }, output) => {
        const place = { dataDir, target, encryption: createEncryption(masterKeys) }
        const { file, bytes, files } = await backUpSelf(place, options.to).catch(explain)
        const keyId = masterKeys.currentKeyId
        output.result(
          { file, size_bytes: bytes, files, master_key_id: keyId },
          `Backed up into ${file} (${bytes} bytes). It is encrypted under the master key ${keyId}: keep that key elsewhere too.`,
        )
      })
    })
  backup
    .command('restore-self')
    .description('Restore a file of "backup self" into a data directory without a database')
    .addHelpText(...examples('npx keyhook backup restore-self --from keyhook-monday.tar.zst.age'))
    .requiredOption('--from <file>', 'What "backup self" has written')
    .option('--json', 'Print one line of JSON')
    .action((options: { from: string; json?: boolean }) => restore(environment, options))
}

async function restore(environment: Environment, options: { from: string; json?: boolean }): Promise<void> {
  const config = environment()
  if (config.database !== null) throw new UsageError(notEmbedded)
  const output = createOutput(options.json ?? false)
  await exitOnSignal(async () => {
    const encryption = await openEncryption(environment)
    const dataDir = await restoreSelf({ ...config, encryption }, options.from, output.note).catch(
      async (error: unknown) => {
        throw await explainError(config, await explain(error).catch((explained: unknown) => explained))
      },
    )
    output.result({ data_dir: dataDir }, `Restored into ${dataDir}. Start it with: npx keyhook serve`)
  })
}

async function explain(error: unknown): Promise<never> {
  const isPlain = error instanceof SelfBackupProblem || error instanceof ClusterExists
  throw isPlain ? new UsageError(error.message, { cause: error }) : explainArchive(error)
}
