import { composeApi } from '../src/compose.ts'
import { readConfig } from '../src/config.ts'
import { createMasterKeys } from '../src/kernel/master-keys.ts'
import { createLog } from '../src/log.ts'
import { keepHeapSmall } from '../src/startup/heap.ts'
import { type ConnectionTarget, connect } from '../src/store/database.ts'

/** Keyhook's API as `serve` composes it, on a database that the bench has filled. */
keepHeapSmall()
const { target } = JSON.parse(process.argv[2]!) as { target: ConnectionTarget }
const config = readConfig({})
const db = connect(target, { name: 'bench api', connectionsMax: config.databaseConnections })
const masterKeys = createMasterKeys([Buffer.alloc(32)])
const installation = { config, db, target, masterKeys, applied: [], isShared: false, announce() {}, async close() {} }
const api = composeApi(installation, createLog(config.logLevel))
process.send!(await api.app.listen({ host: '127.0.0.1', port: 0 }))
process.once('SIGTERM', async () => {
  await api.close()
  process.exit(0)
})
