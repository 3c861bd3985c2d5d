// Keyhook's own server and databases, in a process of another user or with fewer rights. Reports on stdout, one JSON line at a time; each line on
// stdin is a shell command that runs inside of the first database's server, or inside of Keyhook's own.
import { join } from 'node:path'
import { argv, stdin, stdout } from 'node:process'
import { createInterface } from 'node:readline'
import { scramVerifier } from '../../../src/databases/database.ts'
import { nodeOf, openHome } from '../../../src/databases/drivers/local/home.ts'
import { createLocalInstances } from '../../../src/databases/drivers/local/instances.ts'
import { connect, type Database } from '../../../src/db/database.ts'
import type { DatabaseId } from '../../../src/lib/ids.ts'
import { isRoot } from '../../../src/postgres/account.ts'
import { openEmbedded } from '../../../src/postgres/index.ts'
import { readLockFile } from '../../../src/postgres/lock-file.ts'
import { whyNoNamespaces } from '../../../src/postgres/start-program.ts'
import { makeMasterKey } from '../../../src/startup/master-keys.ts'

const [folder, first, ...ids] = argv.slice(2) as [string, string, ...DatabaseId[]]
const report = (line: object) => stdout.write(`${JSON.stringify(line)}\n`)
const { signal } = new AbortController()

const why = await whyNoNamespaces()
if (why !== null && !isRoot()) {
  report({ why })
  process.exit(0)
}
const { dataDir } = await nodeOf(folder)
await makeMasterKey(dataDir)
const own = await openEmbedded({ dataDir, purpose: 'serve', settings: { fsync: 'off' } })
const ports = { first: Number(first), last: Number(first) + 39 }
const instances = createLocalInstances({
  home: () => openHome(dataDir),
  host: '127.0.0.1',
  publicHost: '127.0.0.1',
  ports,
  storageLimitBytes: 1024 ** 3,
  limits: { memoryBytes: 512 * 1024 ** 2, processesMax: 400, cpus: 1 },
  onEvent: (_id, event) => report({ event: event.kind }),
})
const passwordVerifier = await scramVerifier('secret')
const clusterOf = (id: string) => join(dataDir, 'databases', id, 'cluster')
const addresses = []
for (const id of ids) addresses.push(await instances.provision(id, { passwordVerifier, signal }))
const pids = await Promise.all(
  [...ids.map(clusterOf), join(dataDir, 'postgres')].map(async (path) => (await readLockFile(path))!.pid),
)
report({ ready: true, dataDir, pids })

const control = {
  host: clusterOf(ids[0]!),
  port: addresses[0]!.port,
  user: 'keyhook',
  password: '',
  database: 'postgres',
}

/** What a superuser can do, or whoever breaks out of SQL. */
async function run(sql: Database, command: string): Promise<string> {
  await sql.unsafe('create temporary table if not exists output (line text)')
  await sql.unsafe('truncate output')
  const program = `${command} 2>&1; true`.replaceAll("'", "''")
  await sql.unsafe(`copy output from program '${program}'`)
  return (await sql<{ line: string }[]>`select line from output`).map(({ line }) => line).join('\n')
}

createInterface({ input: stdin }).on('line', async (line) => {
  const { where, command } = JSON.parse(line) as { where: 'own' | 'database'; command: string }
  const sql = connect(where === 'own' ? own.connection : control, { name: 'attack', connectionsMax: 1 })
  report({ output: await run(sql, command).catch(String) })
  await sql.end()
})
process.once('SIGTERM', async () => {
  await instances.close()
  await own.stop()
  process.exit(0)
})
