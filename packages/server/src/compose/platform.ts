import { type Logger, pino } from 'pino'
import { createWalArchive } from '../archives/wal-archive.ts'
import {
  type CertificateSource,
  certificateFromFiles,
  issuedCertificate,
  openAuthority,
} from '../databases/certificates.ts'
import { NodeForgotten } from '../databases/dead-nodes.ts'
import type { LocalInstances } from '../databases/drivers/driver.ts'
import { type Isolation, isolationOf, nodeOf, openHome } from '../databases/drivers/local/home.ts'
import { createLocalInstances } from '../databases/drivers/local/instances.ts'
import type { LimitReport } from '../databases/drivers/local/limiter.ts'
import { createLocalDriver } from '../databases/drivers/local/local-driver.ts'
import { listNodes } from '../databases/node-sql.ts'
import { createTransact, isUnavailable } from '../db/database.ts'
import type { Hints } from '../delivery/hints.ts'
import { createJobQueue, type JobQueue } from '../jobs/queue.ts'
import { isRoot } from '../postgres/account.ts'
import type { Config } from '../settings/config.ts'
import type { Installation } from '../startup/open.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { composeArchives, composeKubernetesDriver, storeIdentity } from './archives.ts'
import { type PlatformNode, type PlatformNodeOptions, startPlatformNode } from './node.ts'

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

const isWildcard = (address: string): boolean => /^(0\.0\.0\.0|[0:]+)$/.test(address)

const publicHostOf = (config: Config): string => config.databasesPublicHost ?? config.databasesHost

/** `limits`: what limits the databases, once that is known. */
type ComposedInstances = LocalInstances & { limits?: Promise<LimitReport> }

/** The PostgreSQL servers of this machine. Touches nothing before it is asked to. */
export function composeInstances(config: Config, log: Logger): ComposedInstances {
  const limits = Promise.withResolvers<LimitReport>()
  const instances = createLocalInstances({
    home: async () => openHome((await nodeOf(config.dataDir)).dataDir, config.databasesUids, config.postgresBin),
    host: config.databasesHost,
    publicHost: publicHostOf(config),
    ports: config.databasesPorts,
    storageLimitBytes: config.databaseStorageMax,
    limits: {
      memoryBytes: config.databaseMemoryMax,
      processesMax: config.databaseProcessesMax,
      cpus: config.databaseCpusMax,
    },
    archivesWal: config.pointInTimeRestore === 'on',
    onLimits: limits.resolve,
    tlsAccept: config.databasesTls === 'required' ? 'encrypted' : 'any',
    onCertificateProblem: (err) => log.error({ err }, 'databases.certificate_not_renewed'),
    onEvent: (databaseId, { kind, ...about }) => log.warn({ databaseId, ...about }, `instance.${kind}`),
  })
  return Object.assign(instances, { limits: limits.promise })
}

/** Null: databases have no TLS. */
function composeCertificates({
  config,
  db,
  masterKeys,
}: Pick<Installation, 'config' | 'db' | 'masterKeys'>): CertificateSource | null {
  const { databasesTls, databasesCertificateFile: certificate, databasesKeyFile: key } = config
  const host = publicHostOf(config)
  if (databasesTls === 'off') return null
  if (certificate !== null && key !== null) return certificateFromFiles({ certificate, key }, host)
  // For clients on the same network or machine, which may not know the public name.
  const names = new Set([host, config.databasesHost].filter((name) => !isWildcard(name)))
  if (names.has('127.0.0.1') || names.has('::1')) names.add('localhost')
  const now = () => new Date()
  const authority = () => openAuthority(db, masterKeys, now())
  return issuedCertificate({ authority, names: [...names], now })
}

function reportIsolation(isolation: Isolation, log: Logger): void {
  if (isolation.mode !== 'shared') {
    log.info(isolation, 'databases.isolated')
    return
  }
  const risk = 'All databases run as one user: whoever gets a shell in one can read the others and the master key.'
  log.warn({ ...isolation, risk, see: 'docs/isolation.md' }, 'databases.share_a_user')
}

type PlatformParts = { log: Logger; queue: JobQueue; instances: ComposedInstances; hints: Hints; metrics?: Metrics }

/** The databases of this machine or of a Kubernetes namespace, and the jobs about them. It closes its queue. */
export async function composePlatformNode(installation: Installation, parts: PlatformParts): Promise<PlatformNode> {
  const { config, db } = installation
  const { log, queue, hints, metrics } = parts
  const { node, lockName, dataDir } = await nodeOf(config.dataDir)
  // While PostgreSQL is away, a node waits for it. Its first heartbeat finds out then.
  const nodes = await listNodes(db).catch((error) => {
    if (isUnavailable(error)) return []
    throw error
  })
  if (nodes.some(({ id, state }) => id === node && state === 'forgotten')) throw new NodeForgotten()
  const isLocal = config.databaseDriver === 'local'
  const restoresToTime = config.pointInTimeRestore === 'on'
  return startPlatformNode({
    db,
    transact: createTransact(db, hints.give),
    dataDir,
    lockName,
    ...(isLocal
      ? { node, isShared: false, ...(await composeLocal(installation, dataDir, parts)) }
      : { ...sharedNode(config), local: null, driver: await composeKubernetesDriver(installation, log) }),
    walEverySeconds: restoresToTime ? config.walEverySeconds : null,
    walBytesPerBaseMax: config.walBytesPerBaseMax,
    archivesPerOrgMax: config.archivesPerOrgMax,
    archivesAreLocal: config.s3Bucket === null,
    store: isLocal && restoresToTime ? await storeIdentity(config, dataDir) : null,
    host: isLocal ? publicHostOf(config) : null,
    onWalArchived: (id, until) => metrics?.walArchived(id, until),
    queue,
    ...(metrics && { observeJobs: { attempted: metrics.jobAttempted, failed: metrics.jobFailed } }),
    databasesPerNodeMax: config.databasesPerNodeMax,
    patienceSeconds: config.nodePatienceSeconds,
    backupSchedule: { everyHours: config.backupEveryHours, keep: config.backupsKept },
    prices: { currency: config.currency, hourPriceMinor: config.databaseHourPriceMinor },
    log,
  })
}

/** All processes that reach the namespace are one node: each of them may do every job about its databases. */
const sharedNode = ({ kubernetesNamespace }: Config) => ({ node: `kubernetes-${kubernetesNamespace}`, isShared: true })

async function composeLocal(
  { config, db, masterKeys }: Installation,
  dataDir: string,
  { log, instances }: PlatformParts,
): Promise<Pick<PlatformNodeOptions, 'driver' | 'local'>> {
  reportIsolation(await isolationOf(dataDir, config.databasesUids), log)
  // An ordinary user seldom may create cgroups; there it is no reason to worry.
  void instances.limits?.then((report) =>
    log[report.problem !== null && isRoot() ? 'warn' : 'info'](report, 'databases.limits'),
  )
  const archives = await composeArchives(config, { dataDir, masterKeys, log })
  const wal = createWalArchive(archives)
  return {
    driver: createLocalDriver({ instances, archives: archives.backups, wal, db }),
    local: {
      instances,
      certificates: composeCertificates({ config, db, masterKeys }),
      storage: {
        limitBytes: config.databaseStorageMax,
        floorBytes: config.diskFreeMin,
        reserveBytes: config.diskReserve,
      },
    },
  }
}
