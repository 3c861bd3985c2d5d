import { resolve } from 'node:path'
import type { Config } from '../config.ts'
import { settleTls } from '../db/connection/settle-tls.ts'
import { type ConnectionTarget, connect, type Database } from '../db/database.ts'
import { openEmbedded } from '../embedded/index.ts'
import type { MasterKeys } from '../kernel/master-keys.ts'
import { type Migration, migrate, readMigrations } from '../store/migrate.ts'
import { checkSuitable } from '../store/suitable.ts'
import { explained } from './explained.ts'
import { rememberKeyId } from './master-key-file.ts'
import { openMasterKeys } from './open-master-keys.ts'

/** An installation that is open for work: its database, migrated, and its keys. */
export type Installation = {
  config: Config
  db: Database
  target: ConnectionTarget
  masterKeys: MasterKeys
  applied: Migration[]
  /** A `keyhook serve` runs on the data directory, and its PostgreSQL is the one that we use. */
  isShared: boolean
  /** Tells the data directory's other visitors where this process can be found. */
  announce(url: string): void
  close(): Promise<void>
}

/** No statement of a running process takes as long, but for a batch of a thousand events to thousands of webhooks. */
export const silentMsMax = 120_000

/** Of the embedded server, for what does not share the pool: authentication, deliveries, jobs, and commands beside them. */
const otherConnections = 190

export type OpenOptions = {
  purpose: 'serve' | 'command'
  note: (text: string) => void
  /** Embedded: the data directory is ours, and its PostgreSQL is about to be started. */
  onHeld?: () => void
  onDatabaseExit?: (why: string) => void
  /** For work that opens no webhook secret. */
  keysMayBeMissing?: boolean
  /** Some webhook secrets cannot be opened with the keys that are here. */
  onSomeMissing?: (keyIds: string[]) => void
}

export async function openInstallation(config: Config, options: OpenOptions): Promise<Installation> {
  try {
    return await open(config, options)
  } catch (error) {
    throw await explained(config, error)
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
    const applied = await migrateInPeace(target, config)
    const masterKeys = await openMasterKeys(db, config, options)
    if (options.purpose === 'serve' && config.database === null)
      await rememberKeyId(config.dataDir, masterKeys.currentKeyId)
    return { config, db, target, masterKeys, applied, isShared, announce, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** On a connection of its own, which waits for as long as a migration, or another node's, may take. */
async function migrateInPeace(target: ConnectionTarget, config: Config): Promise<Migration[]> {
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
    purpose: options.purpose,
    note: options.note,
    settings: { max_connections: String(config.databaseConnections + otherConnections) },
    ...(options.onHeld && { onHeld: options.onHeld }),
    ...(options.onDatabaseExit && { onExit: options.onDatabaseExit }),
  })
  const { connection: target, owned, announce, stop } = embedded
  return { target, isShared: !owned, announce, stop }
}
