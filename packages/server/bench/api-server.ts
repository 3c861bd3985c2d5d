import { composeApi } from '../src/compose/api.ts'
import { composeDispatcher, composeHints } from '../src/compose/dispatcher.ts'
import { composeJobQueue } from '../src/compose/platform.ts'
import { type ConnectionTarget, connect } from '../src/db/database.ts'
import { createLog } from '../src/lib/log.ts'
import { createMasterKeys } from '../src/lib/master-keys.ts'
import { readConfig } from '../src/settings/config.ts'
import { limitHeapGrowth } from '../src/startup/process.ts'
import { createMetrics } from '../src/telemetry/metrics.ts'
import { caFile } from '../test/delivery/support/receiver.ts'

/** Keyhook's API as `serve` composes it, on a database that the bench has filled; with `delivers`, the dispatcher too. */
limitHeapGrowth()
const { target, delivers = false } = JSON.parse(process.argv[2]!) as { target: ConnectionTarget; delivers?: boolean }
const config = readConfig({ KEYHOOK_DELIVERY_ALLOW_NETWORKS: '127.0.0.0/8', KEYHOOK_DELIVERY_CA_FILE: caFile })
const db = connect(target, { name: 'bench api', connectionsMax: config.databaseConnections })
const masterKeys = createMasterKeys([Buffer.alloc(32)])
const installation = { config, db, target, masterKeys, applied: [], isShared: false, announce() {}, async close() {} }
const { log, lines } = await createLog(config)
const queue = composeJobQueue(installation, { log, worksOnJobs: false })
const hints = composeHints(installation, log)
const metrics = createMetrics()
const engine = delivers ? await composeDispatcher(installation, { log, lines, hints, metrics }) : null
const api = composeApi(installation, { log, queue, hints, metrics, pools: [], consoleDirectory: null })
process.send!(await api.app.listen({ host: '127.0.0.1', port: 0 }))
process.once('SIGTERM', async () => {
  await api.close()
  await engine?.stop()
  await queue.close()
  process.exit(0)
})
