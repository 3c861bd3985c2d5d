import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { access, constants, link, open, rm } from 'node:fs/promises'
import { createOutput, exitOnSignal, type KeyhookCommand, UsageError } from '@keyhook/cli'
import { createEncryption, type Encryption, readLabel } from '../archives/encryption.ts'
import { backUpSelf, ourOwn, restoreSelf, SelfBackupProblem } from '../backups/self-backup.ts'
import { isId } from '../lib/ids.ts'
import { createMasterKeys } from '../lib/master-keys.ts'
import { StepFailure } from '../lib/step-failure.ts'
import { ClusterExists } from '../postgres/cluster.ts'
import { readConfig } from '../settings/config.ts'
import { explainError } from '../startup/explain-error.ts'
import { masterKeyPath, readMasterKey } from '../startup/master-keys.ts'
import { withInstallation } from './installation.ts'

/** Archives by hand. They need the master key and no running server: the database of Keyhook may be lost. */
function addArchiveCommands(backup: KeyhookCommand): void {
  backup
    .command('decrypt')
    .description('Decrypt an archive that was copied out of the store')
    .argument('<file>', 'Decrypt this archive, whose name ends with .age')
    .examples('npx keyhook backup decrypt bak_….tar.zst.age --to orders.tar.zst')
    .requiredOption('--to <file>', 'Write the decrypted archive to this new file; protect the file like the database')
    .option('--json', 'Print one line of JSON')
    .action((file: string, options: { to: string; json?: boolean }) =>
      exitOnSignal(async () => {
        const output = createOutput(options)
        const encryption = await openEncryption()
        await access(file, constants.R_OK).catch(explainArchive)
        const label = await readLabel(createReadStream(file))
        if (label === null) throw new UsageError(`${file} is not an archive that Keyhook has encrypted.`)
        const bytes = await writeNew(options.to, encryption.decrypt(label.name, createReadStream(file))).catch(
          explainArchive,
        )
        output.result(
          { file: options.to, size_bytes: bytes, object: label.name, key_id: label.keyId },
          `Decrypted ${label.name} into ${options.to} (${bytes} bytes).`,
        )
      }),
    )
  backup
    .command('identity')
    .description('Print the secret with which the age tool decrypts the archives of one database')
    .argument(
      '<database id>',
      `Print the secret of this database; "${ourOwn}" prints the one for files of "backup self"`,
    )
    .examples('npx keyhook backup identity db_… > identity.txt')
    .option('--json', 'Print one line of JSON')
    .action(async (databaseId: string, options: { json?: boolean }) => {
      if (!isId('db', databaseId) && databaseId !== ourOwn)
        throw new UsageError(`${databaseId} is not the id of a database.`)
      const identities = (await openEncryption()).identitiesOf(databaseId)
      createOutput(options).result({ database_id: databaseId, identities }, identities.join('\n'))
    })
}

/** With the keys of the settings, or of the data directory. */
async function openEncryption(): Promise<Encryption> {
  const config = readConfig(process.env)
  const file = config.masterKeys === null ? await readMasterKey(config.dataDir) : null
  const keys = config.masterKeys ?? (file === null ? null : ([file] as const))
  if (keys !== null) return createEncryption(createMasterKeys(keys))
  throw new UsageError(`There is no master key: set KEYHOOK_MASTER_KEY, or put ${masterKeyPath(config.dataDir)} back.`)
}

/** The file gets its name when all of it is verified, and replaces none. */
async function writeNew(path: string, content: AsyncIterable<Uint8Array>): Promise<number> {
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  const file = await open(draft, 'wx', 0o600)
  try {
    let bytes = 0
    for await (const part of content) {
      await file.writeFile(part)
      bytes += part.length
    }
    await file.sync()
    await link(draft, path)
    return bytes
  } finally {
    await file.close()
    await rm(draft, { force: true })
  }
}

export function explainArchive(error: unknown): never {
  const { code, path, dest } = error as NodeJS.ErrnoException & { dest?: string }
  if (code === 'EEXIST') throw new UsageError(`${dest ?? path} exists already; name a new file.`)
  if (code !== undefined && path !== undefined) throw new UsageError(`${path} cannot be used (${code}).`)
  if (!(error instanceof StepFailure)) throw error
  const why = error.cause instanceof Error && error.name === 'StepFailure' ? ` (${error.cause.message})` : ''
  throw new UsageError(`${error.message}${why}`, { cause: error })
}

const notEmbedded =
  "DATABASE_URL names a PostgreSQL of your own: back it up and restore it with that server's tools, such as pg_dump or pg_basebackup."

export function addCommands(program: KeyhookCommand): void {
  const backup = program.command('backup')
  addArchiveCommands(backup)
  backup
    .command('self')
    .description("Back up Keyhook's own database into a file, while the server runs or not")
    .examples('npx keyhook backup self --to keyhook-monday.tar.zst.age')
    .requiredOption(
      '--to <file>',
      'Write to this new file, encrypted under the master key; store the master key separately',
    )
    .option('--json', 'Print one line of JSON')
    .action(async (options: { to: string; json?: boolean }) => {
      if (readConfig(process.env).database !== null) throw new UsageError(notEmbedded)
      await withInstallation(options, async ({ target, masterKeys, config: { dataDir } }, output) => {
        const place = { dataDir, target, encryption: createEncryption(masterKeys) }
        const { file, bytes, files } = await backUpSelf(place, options.to).catch(explain)
        const keyId = masterKeys.currentKeyId
        output.result(
          { file, size_bytes: bytes, files, master_key_id: keyId },
          `The backup is in ${file} (${bytes} bytes). The file is encrypted under master key ${keyId}: store a copy of that key elsewhere.`,
        )
      })
    })
  backup
    .command('restore-self')
    .description('Restore a file of "backup self" into a data directory without a database')
    .examples('npx keyhook backup restore-self --from keyhook-monday.tar.zst.age')
    .requiredOption('--from <file>', 'Restore this file, which "backup self" has written')
    .option('--json', 'Print one line of JSON')
    .action((options: { from: string; json?: boolean }) => restore(options))
}

async function restore(options: { from: string; json?: boolean }): Promise<void> {
  const config = readConfig(process.env)
  if (config.database !== null) throw new UsageError(notEmbedded)
  const output = createOutput(options)
  await exitOnSignal(async () => {
    const encryption = await openEncryption()
    const dataDir = await restoreSelf({ ...config, encryption }, options.from, output.note).catch(
      async (error: unknown) => {
        throw await explainError(config, await explain(error).catch((explained: unknown) => explained))
      },
    )
    output.result(
      { data_dir: dataDir },
      `The backup was restored into ${dataDir}. Start the server with: npx keyhook serve`,
    )
  })
}

async function explain(error: unknown): Promise<never> {
  const isPlain = error instanceof SelfBackupProblem || error instanceof ClusterExists
  throw isPlain ? new UsageError(error.message, { cause: error }) : explainArchive(error)
}
