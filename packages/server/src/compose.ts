import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { type Logger, pino } from 'pino'
import type { Config } from './config.ts'
import { hostOf } from './embedded/host.ts'
import { createApp } from './http/app.ts'
import { createAuthenticate } from './http/authenticate.ts'
import { addHealthRoutes } from './http/health.ts'
import { addMetricsRoute } from './http/metrics-route.ts'
import { createOpenApi } from './http/openapi/openapi.ts'
import { operatorEventRoutes } from './http/operator/events.ts'
import { operatorInvoiceRoutes } from './http/operator/invoices.ts'
import { auditLogRoutes } from './http/platform/audit-log.ts'
import { backupRoutes } from './http/platform/backups.ts'
import { databaseRoutes } from './http/platform/databases.ts'
import { invoiceRoutes } from './http/platform/invoices.ts'
import { restoreRoutes } from './http/platform/restores.ts'
import { webhookEventRoutes } from './http/platform/webhook-events.ts'
import { webhookSendingRoutes } from './http/platform/webhook-sending.ts'
import { apiKeyRoutes } from './http/published/api-keys.ts'
import { deliveryRoutes } from './http/published/deliveries.ts'
import { organizationRoutes } from './http/published/organizations.ts'
import { webhookRoutes } from './http/published/webhooks.ts'
import { addReference } from './http/reference/reference.ts'
import type { Route } from './http/route.ts'
import { createHttpServer } from './http/server.ts'
import { linesOf } from './log.ts'
import { createLocalIssuer } from './login/local-issuer.ts'
import { createLoginTokens } from './login/login-tokens.ts'
import { createOpenIdIssuer } from './login/openid-issuer.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { checkArchiveDirectory, createArchiveDirectory } from './platform/archive/archive-directory.ts'
import { withCurrentHost } from './platform/current-host.ts'
import type { DatabaseDriver } from './platform/driver.ts'
import { payInvoice } from './platform/invoices.ts'
import { createJobQueue, type JobQueue } from './platform/jobs/queue.ts'
import { nodeOf, openHome } from './platform/local/home.ts'
import { createLocalDriver } from './platform/local/local-driver.ts'
import { type PlatformNode, startPlatformNode } from './platform/node.ts'
import { type Installation, silentMsMax } from './startup/open.ts'
import { openFilesMax } from './startup/open-files.ts'
import { createAccessLookup } from './store/access-batch.ts'
import { connect, type Database, learnTypesOnce } from './store/database.ts'
import { createHoldOrganization } from './store/hold-organization.ts'
import { createKeyUses } from './store/key-uses.ts'
import { createAttemptLog } from './webhooks/attempt-log.ts'
import { type DeliverySettings, type Engine, startEngine } from './webhooks/engine.ts'
import { createHints, type Hints } from './webhooks/hints.ts'
import { publish, publishSample } from './webhooks/publishing/publish.ts'
import { createReporting } from './webhooks/publishing/reporting.ts'

/*
 * Puts everything together. The parts know each other by what they need, and only this file by name.
 */

/** Connections that only authentication uses: a slow list on the shared pool must not hold up who may come in. */
const accessConnections = 2

export type Api = { app: FastifyInstance; close(): Promise<void> }

/** `queue` is only opened by the first request that needs it. */
export function composeRoutes(
  { db, masterKeys, config, target }: Installation,
  queue: JobQueue = createJobQueue({ target, supervise: false, log: pino({ level: 'silent' }) }),
  hints: Hints = createHints({ db, onError() {} }),
): Route[] {
  const { databasesPerOrgMax } = config
  // Half of the connections, so that those who wait for nobody have the other half.
  const waitingMax = Math.max(1, Math.floor(config.databaseConnections / 2))
  const { report } = createReporting({ db, waitingMax, hint: hints.give })
  const holdOrganization = createHoldOrganization(db)
  return [
    ...organizationRoutes({ db }),
    ...apiKeyRoutes({ db, holdOrganization, keyTag: config.keyTag, keysPerOrgMax: config.keysPerOrgMax }),
    ...webhookRoutes({ db, holdOrganization, masterKeys, webhooksPerOrgMax: config.webhooksPerOrgMax }),
    ...deliveryRoutes({ db }),
    ...webhookSendingRoutes({ db, holdOrganization, publishSample, hint: hints.give }),
    ...webhookEventRoutes({ db }),
    ...operatorEventRoutes({ db, report, eventBytesMax: config.eventBytesMax }),
    ...auditLogRoutes({ db }),
    ...databaseRoutes({ db, holdOrganization, enqueue: queue.enqueue, publish, hint: hints.give, databasesPerOrgMax }),
    ...backupRoutes({ db, enqueue: queue.enqueue }),
    ...restoreRoutes({ db, holdOrganization, enqueue: queue.enqueue, databasesPerOrgMax }),
    ...invoiceRoutes({ db }),
    ...operatorInvoiceRoutes({ db, pay: (actor, id) => payInvoice(db, actor, id) }),
  ]
}

export function composeApi(
  installation: Installation,
  log: Logger,
  sharedQueue?: JobQueue,
  {
    hints = composeHints(installation, log),
    metrics = createMetrics(),
    pools = [],
  }: { hints?: Hints; metrics?: Metrics; pools?: readonly Database[] } = {},
): Api {
  const queue = sharedQueue ?? createJobQueue({ target: installation.target, supervise: false, log })
  const { config, db, target, masterKeys } = installation
  const now = () => new Date()
  const accessDb = connect(target, {
    name: 'keyhook access',
    connectionsMax: accessConnections,
    // Its one statement takes a millisecond, and every request waits for it.
    silentMsMax: 10_000,
  })
  learnTypesOnce(accessDb).catch((err: unknown) => log.warn({ err }, 'access.not_ready'))
  const keyUses = createKeyUses({ db, now, onError: (err) => log.warn({ err }, 'key_uses.not_written') })
  const issuers = [
    createLocalIssuer({ masterKeys, now }),
    ...(config.oidcIssuer === null
      ? []
      : [createOpenIdIssuer({ issuer: config.oidcIssuer, audience: config.oidcAudience!, now })]),
  ]
  const routes = composeRoutes(installation, queue, hints)
  const app = createHttpServer({
    routes,
    authenticate: createAuthenticate({
      lookup: createAccessLookup(accessDb),
      loginTokens: createLoginTokens({ issuers }),
    }),
    keyUses,
    limits: { requestBytesMax: config.requestBytesMax },
    trustedProxies: config.trustedProxies,
    log,
    onAnswer: metrics.answered,
  })
  addHealthRoutes(app, { pools: [db, accessDb, ...pools] })
  addMetrics(app, metrics, config)
  addReference(app, createOpenApi(routes, { serviceName: config.serviceName }))
  return {
    app,
    async close() {
      await app.close()
      await keyUses.close()
      if (sharedQueue === undefined) await queue.close()
      await accessDb.end({ timeout: 5 })
    },
  }
}

/** The schema of jobs, too: whoever runs the processes may have no right to make it. */
export async function prepareJobQueue({ target }: Installation): Promise<void> {
  const queue = createJobQueue({ target, supervise: false, log: pino({ level: 'silent' }) })
  await queue.boss()
  await queue.close()
}

/** Jobs that this process works on as well as hands out. */
export const composeJobQueue = ({ target }: Installation, log: Logger): JobQueue =>
  createJobQueue({ target, supervise: true, log })

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

/** The databases of this machine, and the jobs about them. */
export async function composePlatformNode(
  { config, db }: Installation,
  log: Logger,
  queue: JobQueue,
  driver: DatabaseDriver = composeDatabaseDriver(config, log),
): Promise<PlatformNode> {
  const { node, holdName, dataDir } = await nodeOf(config.dataDir)
  const [archivesDir, owner] = [config.archivesDir ?? join(dataDir, 'archives'), await hostOf(dataDir)]
  const { problem } = await checkArchiveDirectory(archivesDir, owner)
  if (problem !== null) log.error({ err: problem }, 'archives.cannot_be_used')
  return startPlatformNode({
    db,
    dataDir,
    node,
    holdName,
    driver: withCurrentHost(driver, { db, host: publicHostOf(config) }),
    archives: createArchiveDirectory(archivesDir, owner),
    queue,
    databasesPerNodeMax: config.databasesPerNodeMax,
    patienceSeconds: config.nodePatienceSeconds,
    backupSchedule:
      config.backupEveryHours === null ? null : { everyHours: config.backupEveryHours, keep: config.backupsKept },
    prices: { currency: config.currency, hourPriceMinor: config.databaseHourPriceMinor },
    log,
  })
}

/** Connections that only the dispatcher uses: for news, reading, beginning and settling. Beside them there is one that listens. */
const dispatcherConnections = 6

/** "There may be something to deliver": one for the process, between those who publish and the dispatcher. */
export const composeHints = ({ db }: Installation, log: Logger): Hints =>
  createHints({ db, onError: (err) => log.debug({ err }, 'hints.not_given') })

/** The delivery engine, running until `stop`. */
export async function composeDispatcher(
  { config, target, masterKeys }: Installation,
  log: Logger,
  hints: Hints,
  metrics: Metrics = createMetrics(),
): Promise<Engine & { pool: Database }> {
  const db = connect(target, {
    name: 'keyhook dispatcher',
    connectionsMax: dispatcherConnections,
    silentMsMax,
  })
  const settings = engineSettings(config)
  const { inFlightMax } = settings.limits
  if (inFlightMax < config.deliveryInFlightMax) {
    const wanted = config.deliveryInFlightMax
    log.warn({ inFlightMax, wanted, openFilesMax: openFilesMax() }, 'dispatcher.few_open_files')
  }
  const line = createAttemptLog(linesOf(log, 'info'))
  const { observer } = metrics
  const engine = await startEngine({
    db,
    masterKeys,
    settings,
    hints,
    log,
    observe: {
      attempted(one) {
        observer.attempted(one)
        line.attempted(one)
      },
      grouped: observer.grouped,
    },
  })
  metrics.watch(engine)
  const { stop } = engine
  return Object.assign(engine, {
    pool: db,
    async stop() {
      await stop()
      await db.end({ timeout: 5 })
    },
  })
}

/** Of the files that a process may have open. The rest is for whoever else has connections to us, or we to them. */
const shares = { inFlight: 0.6, idle: 0.3 }

const receiversMax = ({ deliveryInFlightMax }: Config, share: number): number =>
  Math.min(deliveryInFlightMax, Math.floor((openFilesMax() ?? Number.POSITIVE_INFINITY) * share))

const engineSettings = (config: Config): DeliverySettings => ({
  serviceName: config.serviceName,
  standardWebhooks: config.deliveryStandardWebhooks === 'on',
  allowNetworks: config.deliveryAllowNetworks ?? [],
  extraCa: config.deliveryCa,
  connectMsMax: config.deliveryConnectMsMax,
  schedule: config.deliverySchedule,
  retentionDays: config.retentionDays,
  limits: {
    inFlightMax: receiversMax(config, shares.inFlight),
    idleMax: receiversMax(config, shares.idle),
    // As many lanes as requests would do if every lane had one in flight; the rest are waiting for a turn.
    lanesMax: receiversMax(config, shares.inFlight) + 1_000,
    laneWidthMax: config.deliveryLaneWidthMax,
    leaseMs: config.deliveryLeaseMs,
    pollMs: 100,
    drainMsMax: config.deliveryDrainMsMax,
  },
  send: {
    attemptMsMax: config.deliveryMsMax,
    responseKeptBytesMax: config.deliveryResponseKeptBytesMax,
    responseBytesMax: config.deliveryResponseBytesMax,
    responseHeaderBytesMax: 16_384,
  },
})

/** What a process without the API answers: whether it lives, whether it can work, and how it does. */
export function composeProbes(
  { db, config }: Installation,
  log: Logger,
  metrics: Metrics,
  pools: readonly Database[],
): FastifyInstance {
  const limits = { requestBytesMax: config.requestBytesMax }
  const { app } = createApp({ limits, trustedProxies: config.trustedProxies, log })
  addHealthRoutes(app, { pools: [db, ...pools] })
  addMetrics(app, metrics, config)
  return app
}

const addMetrics = (app: FastifyInstance, { registry }: Metrics, { metricsToken }: Config): void =>
  addMetricsRoute(app, { metrics: () => registry.metrics(), contentType: registry.contentType, token: metricsToken })
