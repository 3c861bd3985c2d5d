import type { Logger } from 'pino'
import type { LineLog } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import { type Installation, silentMsMax } from '../startup/open.ts'
import { openFilesMax } from '../startup/open-files.ts'
import { connect, type Database } from '../store/database.ts'
import { createAttemptLog } from '../webhooks/attempt-log.ts'
import { type Engine, startEngine } from '../webhooks/engine.ts'
import { createHints, type Hints } from '../webhooks/hints.ts'
import { engineSettings } from './engine-settings.ts'

/** Connections that only the dispatcher uses: for news, reading, beginning and settling. Beside them there is one that listens. */
const dispatcherConnections = 6

/** "There may be something to deliver": one for the process, between those who publish and the dispatcher. */
export const composeHints = ({ db, masterKeys }: Installation, log: Logger): Hints =>
  createHints({ db, masterKeys, onError: (err) => log.debug({ err }, 'hints.not_given') })

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
