import type { Logger } from 'pino'
import { connect, type Database } from '../db/database.ts'
import { createObserver, type DeliverySettings, type Engine, startEngine } from '../delivery/engine.ts'
import { createHints, type Hints } from '../delivery/hints.ts'
import { probeMs } from '../delivery/retry-schedule.ts'
import type { LineLog } from '../lib/log.ts'
import type { Config } from '../settings/config.ts'
import { type Installation, silentMsMax } from '../startup/open.ts'
import { openFilesMax } from '../startup/process.ts'
import type { Metrics } from '../telemetry/metrics.ts'

/** Connections that only the dispatcher uses: to wake, lease, fetch, begin and settle. One more listens for hints. */
const dispatcherConnections = 6

/** One for the process, between what publishes and the dispatcher. */
export const composeHints = ({ db }: Installation, log: Logger): Hints =>
  createHints({ db, onError: (err) => log.debug({ err }, 'hints.not_given') })

/** The delivery engine, running until `stop`. */
export async function composeDispatcher(
  { config, target, masterKeys }: Installation,
  { log, lines, hints, metrics }: { log: Logger; lines: LineLog; hints: Hints; metrics: Metrics },
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
  const engine = await startEngine({
    db,
    masterKeys,
    settings,
    hints,
    log,
    observe: createObserver(lines, metrics.observer),
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

/** Shares of the files that a process may have open. The rest is for other connections. */
const shares = { inFlight: 0.6, idle: 0.3 }

const receiversMax = ({ deliveryInFlightMax }: Config, share: number): number =>
  Math.min(deliveryInFlightMax, Math.floor((openFilesMax() ?? Number.POSITIVE_INFINITY) * share))

export const engineSettings = (config: Config): DeliverySettings => ({
  sender: {
    serviceName: config.serviceName,
    standardWebhooks: config.deliveryStandardWebhooks === 'on',
    allowNetworks: config.deliveryAllowNetworks ?? [],
    extraCa: config.deliveryCa,
    limits: {
      attemptMsMax: config.deliveryMsMax,
      connectMsMax: config.deliveryConnectMsMax,
      responseKeptBytesMax: config.deliveryResponseKeptBytesMax,
      responseBytesMax: config.deliveryResponseBytesMax,
      responseHeaderBytesMax: 16_384,
      idleMax: receiversMax(config, shares.idle),
    },
  },
  schedule: config.deliverySchedule,
  retentionDays: config.retentionDays,
  limits: {
    inFlightMax: receiversMax(config, shares.inFlight),
    // As many lanes as requests would do if every lane had one in flight; the rest are waiting for a turn.
    lanesMax: receiversMax(config, shares.inFlight) + 1_000,
    laneConcurrencyMax: config.deliveryLaneConcurrencyMax,
    leaseMs: config.deliveryLeaseMs,
    probeMs,
    pollMs: 100,
    drainMsMax: config.deliveryDrainMsMax,
  },
})
