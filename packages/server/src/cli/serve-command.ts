import { createOutput, exitOnSignal, type KeyhookCommand, OperationFailed, stopSignal, UsageError } from '@keyhook/cli'
import { Option } from 'commander'
import { type Api, composeApi, composeProbes, type ReadStorage } from '../compose/api.ts'
import { composeDispatcher, composeHints } from '../compose/dispatcher.ts'
import { composeMail } from '../compose/mail.ts'
import { composeInstances, composeJobQueue, composePlatformNode } from '../compose/platform.ts'
import type { Database } from '../db/database.ts'
import { createLog } from '../lib/log.ts'
import { createSignInLink } from '../login/console-sessions.ts'
import { type Config, readConfig } from '../settings/config.ts'
import { explainError } from '../startup/explain-error.ts'
import { type Installation, openInstallation } from '../startup/open.ts'
import { consoleDirectory, limitHeapGrowth, version } from '../startup/process.ts'
import { ensureFirstOrganization, type FirstOrganization, welcome } from '../startup/welcome.ts'
import { createMetrics } from '../telemetry/metrics.ts'
import { startTracing } from '../telemetry/tracing.ts'

/** After this, the connections of unfinished requests are closed. */
const drainMsMax = 15_000
/** How long a supervisor should wait, as docs/deploying.md says, without the drain of deliveries. */
const stopMsMax = 140_000
const embeddedStopMsMax = 60_000

type Role = 'all' | 'api' | 'dispatcher' | 'jobs'
type Options = { role: Role; firstOrganization?: true; json?: boolean }

export function addCommands(program: KeyhookCommand): void {
  program
    .command('serve')
    .examples('npx keyhook serve', 'PORT=8090 npx keyhook serve --role api')
    .addOption(
      new Option('--role <role>', 'Run only this part of the server in this process')
        .choices(['all', 'api', 'dispatcher', 'jobs'])
        .default('all'),
    )
    .option('--first-organization', 'Create an organization and its owner if there is none (for DATABASE_URL)')
    .option('--json', 'Print one line of JSON when the server is ready')
    .action(serve)
}

async function serve(options: Options): Promise<void> {
  limitHeapGrowth()
  const config = readConfig(process.env)
  const output = createOutput(options)
  const { log, lines } = await createLog(config)
  const stopped = stopSignal()
  // Closed in reverse order: each part after those that need it.
  await using parts = new AsyncDisposableStack()
  if (isTraced(config)) parts.defer(await startTracing({ version: version(), log }))
  const instances = composeInstances(config, log)
  parts.defer(() => instances.close())
  const worksOnJobs = options.role === 'all' || options.role === 'jobs'
  const usesInstances = worksOnJobs && config.databaseDriver === 'local'
  const opening = () =>
    openInstallation(config, {
      purpose: 'serve',
      note: output.note,
      // While our own PostgreSQL is prepared, so that the first database does not have to wait for its template.
      onHeld: () =>
        usesInstances && void instances.prepare().catch((err) => log.debug({ err }, 'platform.not_prepared')),
      onSomeMissing: (keyIds) => log.warn({ keyIds }, 'webhooks.secrets_cannot_be_opened'),
      onArchiveKeysMissing: (keyIds) => log.error({ keyIds }, 'archives.keys_missing'),
      onDatabaseExit: (why) => stopped.now(why),
    })
  const installation = await exitOnSignal(opening)
  parts.defer(() => installation.close())
  const mayCreate = config.database === null || (options.firstOrganization ?? false)
  const first = await ensureFirstOrganization(installation.db, { mayCreate })
  const hints = composeHints(installation, log)
  const metrics = createMetrics()
  metrics.describeProcess(version(), options.role === 'all' ? ['api', 'dispatcher', 'jobs'] : [options.role])
  const mail = composeMail(installation, { log, metrics })
  if (mail !== null) parts.defer(() => mail.close())
  const pools: Database[] = []
  if (options.role === 'all' || options.role === 'dispatcher') {
    const engine = await composeDispatcher(installation, { log, lines, hints, metrics })
    pools.push(engine.pool)
    parts.defer(() => engine.stop())
  }
  let storage: ReadStorage | undefined
  const queue = composeJobQueue(installation, { log, worksOnJobs })
  if (worksOnJobs) {
    const node = await composePlatformNode(installation, { log, queue, instances, hints, metrics })
    parts.defer(() => node.close())
    storage = node.storage
    metrics.watchStorage(node.storage)
    // Not awaited: starting many databases takes a while, and nothing else depends on it.
    node.ready.catch((error: unknown) => stopped.now(error instanceof Error ? error.message : String(error)))
    if (options.role === 'jobs') await Promise.race([node.ready, stopped.promise])
  } else parts.defer(() => queue.close())
  const consoleFiles = consoleDirectory()
  let url: string | null = null
  let metricsUrl: string | null = null
  let drain = async (): Promise<void> => {}
  if (options.role === 'all' || options.role === 'api') {
    const api = composeApi(installation, {
      log,
      queue,
      hints,
      metrics,
      pools,
      storage,
      consoleDirectory: consoleFiles,
    })
    parts.defer(async () => {
      setTimeout(() => api.app.server.closeAllConnections(), drainMsMax).unref()
      await api.close()
    })
    drain = api.drain
    url = await listen(api.app, { ...config, setting: 'PORT' })
    metricsUrl = `${url}/metrics`
    installation.announce(url)
  } else if (config.metricsPort !== null) {
    const probes = composeProbes(installation, { log, metrics, pools, ...(storage && { storage }) })
    parts.defer(() => probes.close())
    const where = { host: config.host, port: config.metricsPort, setting: 'KEYHOOK_METRICS_PORT' }
    metricsUrl = `${await listen(probes, where)}/metrics`
  }
  const ids = { organization_id: first?.orgId ?? null, owner_id: first?.ownerId ?? null }
  const consoleUrl = url === null || consoleFiles === null ? null : await consoleAddress(installation, url, first)
  // With port 0 this is the only place that shows the port.
  const metricsAt = metricsUrl === null ? '' : ` Metrics: ${metricsUrl}`
  output.result(
    { url, ...ids, console_url: consoleUrl, metrics_url: metricsUrl },
    url === null
      ? `Keyhook is running (${options.role}).${metricsAt} Ctrl-C stops it.`
      : welcome(config, url, first, consoleUrl),
  )
  const why = await stopped.promise
  log.info({ why }, 'server.stopping')
  output.note('Stopping: the server finishes the requests in flight first.')
  // A supervisor stops us by SIGTERM, and proxies need time to notice. Who presses Ctrl-C waits for us.
  if (why === 'SIGTERM') await drain()
  // Each part has its own time limit, except for a database that accepts statements and never answers.
  setTimeout(
    () => {
      log.error('server.stop_timed_out')
      process.exit(1)
    },
    config.deliveryDrainMsMax + stopMsMax + (config.database === null ? embeddedStopMsMax : 0),
  ).unref()
  await parts.disposeAsync()
  if (stopped.failure !== null) throw await explainError(config, new OperationFailed(stopped.failure))
}

/** As the specification of OpenTelemetry says: with an address, unless it is turned off. */
const isTraced = ({ otlpEndpoint, otlpTracesEndpoint, otelSdkDisabled }: Config): boolean =>
  (otlpEndpoint !== null || otlpTracesEndpoint !== null) && otelSdkDisabled !== 'true'

/**
 * With the embedded database and without an OpenID issuer, a link that signs in the first owner. Elsewhere what a process prints is
 * collected in logs, where a link could be used by those who read them.
 */
async function consoleAddress(
  { config, db }: Installation,
  url: string,
  first: FirstOrganization | null,
): Promise<string> {
  const address = config.publicUrl ?? url
  const isLocal = config.database === null && config.oidcIssuer === null
  return address + (isLocal && first !== null ? await createSignInLink(db, first.ownerId) : '/console')
}

async function listen(
  app: Api['app'],
  { host, port, setting }: { host: string; port: number; setting: string },
): Promise<string> {
  try {
    return publicUrl(await app.listen({ host, port }), host)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE')
      throw new UsageError(`${setting}: another program uses port ${port} on ${host}. Set ${setting} to a free port.`)
    if (code === 'EACCES')
      throw new UsageError(`${setting}: this user may not listen on port ${port}. Set ${setting} to 1024 or above.`)
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
      throw new UsageError(`HOST: "${host}" is not an address of this machine. Set HOST to one, or to 0.0.0.0 for all.`)
    throw error
  }
}

/** Clients cannot connect to a wildcard address, and an IP address can have no passkeys. */
const publicUrl = (listening: string, host: string): string =>
  ['127.0.0.1', '::1', '0.0.0.0', '::'].includes(host) ? `http://localhost:${new URL(listening).port}` : listening
