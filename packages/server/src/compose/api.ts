import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { createAccessLookup } from '../access/access.ts'
import { type Authenticate, createAuthenticate } from '../access/authenticate.ts'
import { findAuthority } from '../databases/certificates.ts'
import { deadAfterSeconds } from '../databases/node-sql.ts'
import { addDatabaseCa } from '../databases/routes.ts'
import type { StorageReport } from '../databases/storage-rules.ts'
import { connect, createTransact, type Database } from '../db/database.ts'
import { createEventTypeCheck } from '../delivery/event-type-schemas.ts'
import { listEventTypes, listEveryTypeName } from '../delivery/event-types.ts'
import { createEventFeed, type Hints } from '../delivery/hints.ts'
import { createApp } from '../http/app.ts'
import { addReference } from '../http/reference.ts'
import { createHttpServer } from '../http/server.ts'
import type { JobQueue } from '../jobs/queue.ts'
import { readJobMetrics } from '../jobs/worker.ts'
import { createKeyExpiry } from '../keys/expiry.ts'
import { addLeakReports } from '../keys/leak-report-routes.ts'
import { createRequestLimits } from '../keys/request-limits.ts'
import { createKeyUses } from '../keys/uses.ts'
import { isTracing } from '../lib/tracing.ts'
import { addConsole } from '../login/console.ts'
import { isOperatorSession } from '../login/console-sessions.ts'
import { createLocalIssuer, createLoginTokens } from '../login/login-tokens.ts'
import {
  createFromLogin,
  createOpenIdClient,
  createOpenIdIssuer,
  type OpenIdPerson,
  pinSubject,
} from '../login/openid.ts'
import { createOperatorTokenLookup } from '../operator/token-sql.ts'
import { createHoldOrganization } from '../organizations/rules.ts'
import { findOrganization } from '../organizations/sql.ts'
import type { Config } from '../settings/config.ts'
import { type Installation, silentMsMax } from '../startup/open.ts'
import { openFilesMax } from '../startup/process.ts'
import { type ClusterReading, readClusterMetrics } from '../telemetry/cluster-metrics.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { addHealthRoutes, addMetricsRoute } from '../telemetry/probes.ts'
import { addRequestTracing } from '../telemetry/tracing.ts'
import { createWebhookHealth } from '../webhooks/health.ts'
import { createServedDocument } from './openapi.ts'
import { composeRoutes } from './routes.ts'

/** Connections that only authentication uses: a slow list on the shared pool must not hold up who may come in. */
const accessConnections = 2

/** Connections that only event intake uses: its publishers may wait for those of other nodes. */
const intakeConnections = 4

/** Share of the files that a process may have open. Deliveries take up to nine tenths. */
const streamFilesShare = 0.05

export type Api = {
  app: FastifyInstance
  /** Tells proxies to send requests elsewhere, and goes on serving those that arrive until they know. */
  drain(): Promise<void>
  close(): Promise<void>
}

/** The interface over HTTP. `pools` are those of other parts of the process, without which it is not ready either. */
export function composeApi(
  installation: Installation,
  parts: {
    log: Logger
    queue: JobQueue
    hints: Hints
    metrics: Metrics
    pools: readonly Database[]
    consoleDirectory: string | null
    storage?: ReadStorage | undefined
  },
): Api {
  const { config, db, target, masterKeys } = installation
  const { log, metrics, pools } = parts
  const accessDb = connect(target, {
    name: 'keyhook access',
    connectionsMax: accessConnections,
    // Its one statement takes a millisecond, and every request waits for it.
    silentMsMax: 10_000,
  })
  const keyUses = createKeyUses({ db, now, onError: (err) => log.warn({ err }, 'key_uses.not_written') })
  const requestLimits = createRequestLimits({
    db,
    limit: { perKey: config.keyRequestsPerMinuteMax, perOrganization: config.orgRequestsPerMinuteMax },
    onAway: (err) => log.warn({ err }, 'request_limits.not_merged'),
  })
  const keyExpiry = createKeyExpiry({
    transact: createTransact(db, parts.hints.give),
    onError: (err) => log.warn({ err }, 'key_expiry.failed'),
  })
  const webhookHealth = createWebhookHealth({
    transact: createTransact(db, parts.hints.give),
    suspendAfterHours: config.webhookSuspendAfterHours,
    onError: (err) => log.warn({ err }, 'webhook_health.failed'),
  })
  const intakeDb = connect(target, { name: 'keyhook intake', connectionsMax: intakeConnections, silentMsMax })
  const feed = createEventFeed({
    db,
    hints: parts.hints,
    limits: {
      readersMax: Math.min(
        config.streamsMax,
        Math.floor((openFilesMax() ?? Number.POSITIVE_INFINITY) * streamFilesShare),
      ),
      readersPerOrgMax: config.streamsPerOrgMax,
    },
    onError: (err) => log.debug({ err }, 'events.poll_failed'),
  })
  const local = createLocalIssuer({ masterKeys, now })
  const authenticate = createAuthenticate({
    lookup: createAccessLookup(accessDb),
    isOperatorToken: createOperatorTokenLookup(accessDb),
    firstLogins: {
      pin: (userId, subject, actor) => pinSubject(db, userId, subject, actor),
      async create(login) {
        if (config.oidcCreateUsers === 'off') return false
        const userId = await createFromLogin(db, login)
        if (userId !== null) log.info({ userId, subject: login.subject }, 'login.user_created')
        return true
      },
    },
    loginTokens: createLoginTokens({ issuers: [local, ...openIdIssuers(config)] }),
    isOperatorSession: (id) => isOperatorSession(accessDb, id),
    findOrganization: (id) => findOrganization(accessDb, id),
  })
  const routes = composeRoutes(installation, { ...parts, intakeDb, authenticate, keyUses, feed })
  const draining = new AbortController()
  const app = createHttpServer({
    routes,
    authenticate,
    keyUses,
    requestLimits,
    keysRequireLogin: config.keysRequireLogin === 'on',
    recheckBody: createEventTypeCheck(async () => (await listEventTypes(db)).map(({ name }) => name)),
    limits: { requestBytesMax: config.requestBytesMax },
    trustedProxies: config.trustedProxies,
    log,
    draining: draining.signal,
    onAnswer: metrics.answered,
  })
  if (isTracing()) addRequestTracing(app)
  addProbes(app, {
    config,
    db,
    log,
    metrics,
    pools: [db, accessDb, intakeDb, ...pools],
    storage: parts.storage,
    draining: draining.signal,
  })
  const readEventTypes = async () => ({ custom: await listEventTypes(db), everyName: await listEveryTypeName(db) })
  if (config.leakReportKeys !== null) {
    // A queue of its own: reports must not wait for creations.
    const holdOrganization = createHoldOrganization(createTransact(db, parts.hints.give))
    addLeakReports(app, { db, holdOrganization, keys: config.leakReportKeys, log })
  }
  addDatabaseCa(app, async () => {
    if (config.databasesTls === 'off') return null
    if (config.databasesCertificateFile === null) return (await findAuthority(db))?.certificate ?? null
    return config.databasesCaFile === null ? null : readFile(config.databasesCaFile, 'utf8')
  })
  addReference(app, createServedDocument({ routes, serviceName: config.serviceName, readEventTypes }))
  addConsole(app, {
    db,
    issueToken: ({ userId, ...session }) =>
      local.issue({ subject: userId ?? 'operator', operator: userId === null, ...session }),
    publicUrl: config.publicUrl,
    openId: openIdLogin(config, authenticate),
    peopleAreElsewhere: config.oidcIssuer !== null,
    passkeys: config.passkeys === 'on' || (config.passkeys === 'auto' && config.oidcIssuer === null),
    masterKeys,
    mailPerAddressMax: config.mailPerAddressMax,
    directory: parts.consoleDirectory,
    log,
  })
  return {
    app,
    async drain() {
      draining.abort()
      await sleep(config.httpDrainMs)
    },
    async close() {
      // Streams have no end of their own, and closing the server waits for all answers.
      await Promise.all([feed.close(), app.close()])
      await Promise.all([keyUses.close(), requestLimits.close(), keyExpiry.close(), webhookHealth.close()])
      await Promise.all([accessDb.end({ timeout: 5 }), intakeDb.end({ timeout: 5 })])
    },
  }
}

const now = (): Date => new Date()

function openIdIssuers({ oidcIssuer: issuer, ...config }: Config) {
  if (issuer === null) return []
  const form = {
    type: config.oidcTokenType,
    clients: config.oidcClients,
    emailClaim: config.oidcEmailClaim,
    emailVerifiedClaim: config.oidcEmailVerifiedClaim,
  }
  return [createOpenIdIssuer({ issuer, audience: config.oidcAudience!, form, now })]
}

/** How people sign in to the console; null without a client at the issuer. */
function openIdLogin({ oidcIssuer: issuer, oidcClientId: clientId, ...config }: Config, { person }: Authenticate) {
  if (issuer === null || clientId === null) return null
  const client = createOpenIdClient({
    issuer,
    clientId,
    clientSecret: config.oidcClientSecret,
    redirectUri: `${config.publicUrl}/console/callback`,
    emailClaim: config.oidcEmailClaim,
    emailVerifiedClaim: config.oidcEmailVerifiedClaim,
  })
  return { client, userOf: (who: OpenIdPerson, address: string) => person({ issuer, ...who }, address) }
}

/** In a process that runs databases. */
export type ReadStorage = () => StorageReport

/** What a process without the API answers: whether it lives, whether it can work, and how it does. */
export function composeProbes(
  { db, config }: Installation,
  { log, ...parts }: { log: Logger; metrics: Metrics; pools: readonly Database[]; storage?: ReadStorage },
): FastifyInstance {
  const limits = { requestBytesMax: config.requestBytesMax }
  const { app } = createApp({ limits, trustedProxies: config.trustedProxies, log })
  addProbes(app, { config, db, log, ...parts, pools: [db, ...parts.pools] })
  return app
}

async function readCluster({ db, log }: { db: Database; log: Logger }): Promise<ClusterReading> {
  try {
    const metrics = await readClusterMetrics(db, { deadAfterSeconds })
    return { ...metrics, jobs: await readJobMetrics(db) }
  } catch (err) {
    log.warn({ err }, 'metrics.cluster_not_read')
    throw err
  }
}

function addProbes(
  app: FastifyInstance,
  parts: {
    config: Config
    db: Database
    log: Logger
    metrics: Metrics
    pools: readonly Database[]
    storage?: ReadStorage | undefined
    draining?: AbortSignal
  },
): void {
  const { config, pools, storage, draining, metrics } = parts
  addHealthRoutes(app, { pools, storage, draining })
  metrics.watchPools(pools)
  metrics.watchCluster(() => readCluster(parts))
  addMetricsRoute(app, { metrics: metrics.text, contentType: metrics.contentType, token: config.metricsToken })
}
