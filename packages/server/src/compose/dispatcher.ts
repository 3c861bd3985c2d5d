import type { Logger } from 'pino'
import { connect, type Database } from '../db/database.ts'
import type { LineLog } from '../log.ts'
import { type Installation, silentMsMax } from '../startup/open.ts'
import { openFilesMax } from '../startup/open-files.ts'
import { traceAttempt } from '../telemetry/attempt-tracing.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { createAttemptLog } from '../webhooks/attempt-log.ts'
import { type Engine, startEngine } from '../webhooks/engine.ts'
import { createHints, type Hints } from '../webhooks/hints.ts'
import { engineSettings } from './engine-settings.ts'

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
  const line = createAttemptLog(lines)
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
        traceAttempt(one)
      },
      batch: observer.batch,
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
