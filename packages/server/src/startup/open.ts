import { resolve } from 'node:path'
import { settleTls } from '../db/connection.ts'
import { type ConnectionTarget, connect, type Database } from '../db/database.ts'
import { checkSuitable, type Migration, migrate, readMigrations } from '../db/migrate.ts'
import type { MasterKeys } from '../lib/master-keys.ts'
import { openEmbedded } from '../postgres/index.ts'
import type { Config } from '../settings/config.ts'
import { explainError } from './explain-error.ts'
import { checkAuthorityKey, openMasterKeys, rememberKeyId } from './master-keys.ts'

/** An open installation: its database with the current schema, and its keys. */
export type Installation = {
  config: Config
  db: Database
  target: ConnectionTarget
  masterKeys: MasterKeys
  applied: Migration[]
  /** A `keyhook serve` runs on the data directory, and we use its PostgreSQL. */
  isShared: boolean
  /** Publishes the address of this process to other commands on the same data directory. */
  announce(url: string): void
  close(): Promise<void>
}

/** No statement of a running process takes longer, except intake of a thousand events for thousands of webhooks. */
export const silentMsMax = 120_000

/** Connections of the embedded server outside of the shared pool: authentication, deliveries, jobs and other commands. */
const otherConnections = 190

export type OpenOptions = {
  purpose: 'serve' | 'command'
  note: (text: string) => void
  /** Embedded: called when the data directory is locked and before its PostgreSQL starts. */
  onHeld?: () => void
  onDatabaseExit?: (why: string) => void
  /** For work that opens no webhook secret. */
  keysMayBeMissing?: boolean
  /** Some webhook secrets cannot be opened with the keys that are here. */
  onSomeMissing?: (keyIds: string[]) => void
  /** Some archives of backups cannot be decrypted with the keys that are here. */
  onArchiveKeysMissing?: (keyIds: string[]) => void
}

export async function openInstallation(config: Config, options: OpenOptions): Promise<Installation> {
  try {
    return await open(config, options)
  } catch (error) {
    throw await explainError(config, error)
  }
}

async function open(config: Config, options: OpenOptions): Promise<Installation> {
  const { target, isShared, announce, stop } = await openServer(config, options)
  const db = connect(target, {
    name: `keyhook ${options.purpose}`,
    connectionsMax: config.databaseConnections,
    silentMsMax,
  })
  const close = async () => {
    await db.end({ timeout: 5 })
    await stop()
  }
  try {
    await checkSuitable(db)
    const applied = await migrateSchema(target, config)
    const masterKeys = await openMasterKeys(db, config, options)
    const issuesCertificates = config.databasesTls !== 'off' && config.databasesCertificateFile === null
    if (options.purpose === 'serve' && issuesCertificates) await checkAuthorityKey(db, masterKeys)
    if (options.purpose === 'serve' && config.database === null)
      await rememberKeyId(config.dataDir, masterKeys.currentKeyId)
    return { config, db, target, masterKeys, applied, isShared, announce, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** On its own connection without a time limit: a migration, or that of another node, may take long. */
async function migrateSchema(target: ConnectionTarget, config: Config): Promise<Migration[]> {
  const db = connect(target, { name: 'keyhook migrate', connectionsMax: 1 })
  try {
    return await migrate(db, await readMigrations(), config.database === null ? resolve(config.dataDir) : null)
  } finally {
    await db.end({ timeout: 5 })
  }
}

async function openServer(
  config: Config,
  options: OpenOptions,
): Promise<{ target: ConnectionTarget; isShared: boolean; announce(url: string): void; stop(): Promise<void> }> {
  if (config.database !== null)
    return { target: await settleTls(config.database), isShared: false, announce() {}, async stop() {} }
  const embedded = await openEmbedded({
    dataDir: config.dataDir,
    postgresBin: config.postgresBin,
    purpose: options.purpose,
    note: options.note,
    settings: { max_connections: String(config.databaseConnections + otherConnections) },
    ...(options.onHeld && { onHeld: options.onHeld }),
    ...(options.onDatabaseExit && { onExit: options.onDatabaseExit }),
  })
  const { connection: target, owned, announce, stop } = embedded
  return { target, isShared: !owned, announce, stop }
}
