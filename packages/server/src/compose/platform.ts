import { join } from 'node:path'
import { type Logger, pino } from 'pino'
import type { Config } from '../config.ts'
import { foreignOwnerOf } from '../embedded/ownership.ts'
import { createBackupArchives } from '../platform/archive/backup-archives.ts'
import { checkArchiveDirectory, createDirectoryStore } from '../platform/archive/directory-store.ts'
import type { DatabaseDriver } from '../platform/driver.ts'
import { createJobQueue, type JobQueue } from '../platform/jobs/queue.ts'
import { nodeOf, openHome } from '../platform/local/home.ts'
import { createLocalDriver } from '../platform/local/local-driver.ts'
import { type PlatformNode, startPlatformNode } from '../platform/node.ts'
import type { Installation } from '../startup/open.ts'
import { createTransact } from '../store/publishing-transaction.ts'
import type { Hints } from '../webhooks/hints.ts'

/** Jobs that this process hands out, and works on as well if it says so. Opened by the first who needs it. */
export const composeJobQueue = (
  { target }: Installation,
  { log, worksOnJobs }: { log: Logger; worksOnJobs: boolean },
): JobQueue => createJobQueue({ target, supervise: worksOnJobs, log })

/** The schema of jobs, too: the role of the processes may have no right to create it. */
export async function prepareJobQueue(installation: Installation): Promise<void> {
  const queue = composeJobQueue(installation, { log: pino({ level: 'silent' }), worksOnJobs: false })
  await queue.boss()
  await queue.close()
}

const publicHostOf = (config: Config): string => config.databasesPublicHost ?? config.databasesHost

/** Who makes databases real. Touches nothing before it is asked to. */
export const composeDatabaseDriver = (config: Config, log: Logger): DatabaseDriver =>
  createLocalDriver({
    home: async () => openHome((await nodeOf(config.dataDir)).dataDir),
    host: config.databasesHost,
    publicHost: publicHostOf(config),
    ports: config.databasesPorts,
    onEvent: (databaseId, { kind, ...about }) => log.warn({ databaseId, ...about }, `instance.${kind}`),
  })

/** The databases of this machine, and the jobs about them. It closes its queue. */
export async function composePlatformNode(
  { config, db }: Installation,
  { log, queue, driver, hints }: { log: Logger; queue: JobQueue; driver: DatabaseDriver; hints: Hints },
): Promise<PlatformNode> {
  const { node, lockName, dataDir } = await nodeOf(config.dataDir)
  const [archivesDir, owner] = [config.archivesDir ?? join(dataDir, 'archives'), await foreignOwnerOf(dataDir)]
  const { problem } = await checkArchiveDirectory(archivesDir, owner)
  if (problem !== null) log.error({ err: problem }, 'archives.cannot_be_used')
  return startPlatformNode({
    db,
    transact: createTransact(db, hints.give),
    dataDir,
    node,
    lockName,
    publicHost: publicHostOf(config),
    driver,
    archives: createBackupArchives(createDirectoryStore(archivesDir, owner)),
    queue,
    databasesPerNodeMax: config.databasesPerNodeMax,
    patienceSeconds: config.nodePatienceSeconds,
    backupSchedule: { everyHours: config.backupEveryHours, keep: config.backupsKept },
    prices: { currency: config.currency, hourPriceMinor: config.databaseHourPriceMinor },
    log,
  })
}
