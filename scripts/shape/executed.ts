import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:https'
import { Session } from 'node:inspector/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'

export type Executed = Record<'a key creation' | 'a list of keys' | 'a delivered event', string[]>

const certificates = fileURLToPath(
  new URL('../../packages/server/test/delivery/support/certificates/', import.meta.url),
)
/** A file counts if most repetitions executed it: timers that happen to fire are left out. */
const repetitions = 9

/** Runs a real server in this process, and returns the files of `source` in which a function was called. */
export async function executedFiles(source: string): Promise<Executed> {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  const prefix = pathToFileURL(source).href

  /** Also starts to count again. */
  async function takeCalled(): Promise<Set<string>> {
    const { result } = await session.post('Profiler.takePreciseCoverage')
    const called = result.filter(({ url, functions }) => {
      // The function without a name that spans the file is the module itself: it ran when it was imported.
      const own = functions.filter(({ functionName, ranges }) => functionName !== '' || ranges[0]!.startOffset > 0)
      return url.startsWith(prefix) && own.some(({ ranges }) => ranges[0]!.count > 0)
    })
    return new Set(called.map(({ url }) => url.slice(prefix.length)))
  }

  async function filesOf(prepare: () => Promise<void>, work: () => Promise<void>): Promise<string[]> {
    const counts = new Map<string, number>()
    for (let i = 0; i <= repetitions; i++) {
      await prepare()
      await takeCalled()
      await work()
      const called = await takeCalled()
      // The first one loads what is loaded late.
      if (i > 0) for (const file of called) counts.set(file, (counts.get(file) ?? 0) + 1)
    }
    return [...counts].flatMap(([file, count]) => (count > repetitions / 2 ? [file] : [])).sort()
  }

  const server = await startServer()
  try {
    const nothing = async () => {}
    return {
      'a key creation': await filesOf(nothing, server.createKey),
      'a list of keys': await filesOf(nothing, server.listKeys),
      'a delivered event': await filesOf(server.addReceiver, server.deliverEvent),
    }
  } finally {
    await server.close()
  }
}

/** What `keyhook serve` composes, without databases, and an organization with an owner. */
async function startServer() {
  const [{ readConfig }, { openInstallation }, { composeApi }, dispatching, { composeJobQueue }] = await Promise.all([
    import('../../packages/server/src/settings/config.ts'),
    import('../../packages/server/src/startup/open.ts'),
    import('../../packages/server/src/compose/api.ts'),
    import('../../packages/server/src/compose/dispatcher.ts'),
    import('../../packages/server/src/compose/platform.ts'),
  ])
  const { createLog } = await import('../../packages/server/src/lib/log.ts')
  const { createMetrics } = await import('../../packages/server/src/telemetry/metrics.ts')
  const directory = await import('../../packages/server/src/organizations/rules.ts')
  const { createLocalIssuer } = await import('../../packages/server/src/login/login-tokens.ts')
  const { createTransact } = await import('../../packages/server/src/db/database.ts')
  const { publish } = await import('../../packages/server/src/delivery/publish.ts')
  const { newId } = await import('../../packages/server/src/lib/ids.ts')

  const dataDir = await mkdtemp(join(tmpdir(), 'keyhook-shape-'))
  const config = readConfig({
    KEYHOOK_DATA_DIR: dataDir,
    KEYHOOK_LOG_LEVEL: 'silent',
    KEYHOOK_DELIVERY_ALLOW_NETWORKS: '127.0.0.0/8',
    KEYHOOK_DELIVERY_CA_FILE: `${certificates}ca.pem`,
  })
  const installation = await openInstallation(config, { purpose: 'serve', note() {} })
  const { log, lines } = await createLog(config)
  const queue = composeJobQueue(installation, { log, worksOnJobs: false })
  const hints = dispatching.composeHints(installation, log)
  const metrics = createMetrics()
  const api = composeApi(installation, { log, queue, hints, metrics, pools: [], consoleDirectory: null })
  const url = await api.app.listen({ host: '127.0.0.1', port: 0 })

  const transact = createTransact(installation.db, hints.give)
  const operator = { kind: 'operator', tokenId: null, address: null } as const
  const { db, masterKeys } = installation
  const orgId = await db.begin(async (tx) => (await directory.createOrganization(tx, operator, { name: 'Acme' })).id)
  const user = await db.begin((tx) =>
    directory.createUser(tx, { email: 'owner@example.com', name: null, subject: null }),
  )
  await directory.setMember(db, operator, { orgId, userId: user.id, role: 'owner' })
  const issuer = createLocalIssuer({ masterKeys, now: () => new Date() })
  const login = await issuer.issue({ subject: user.id, ttlSeconds: 3_600 })
  const [key, cert] = await Promise.all([
    readFile(`${certificates}receiver.key`),
    readFile(`${certificates}receiver.pem`),
  ])
  let [webhooks, expected, received] = [0, 0, 0]
  const receiver = createServer({ key, cert }, (request, response) => {
    received += 1
    request.resume().on('end', () => response.end())
  })
  await new Promise<void>((listening) => void receiver.listen(0, '127.0.0.1', listening))
  const keys = `${url}/api/v1/organizations/${orgId}/api-keys`
  let created = 0

  async function send(to: string, token: string, body?: object): Promise<{ api_key?: string }> {
    const response = await fetch(to, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
    if (!response.ok) throw new Error(`${to}: ${response.status} ${await response.text()}`)
    return (await response.json()) as { api_key?: string }
  }

  const { api_key: apiKey } = await send(keys, login, { name: 'first' })
  let engine: Awaited<ReturnType<typeof dispatching.composeDispatcher>> | null = null

  return {
    createKey: async () => void (await send(keys, apiKey!, { name: `key ${created++}` })),
    listKeys: async () => void (await send(keys, apiKey!)),
    /** A webhook of its own for each event: so each one needs a lease. */
    async addReceiver() {
      engine ??= await dispatching.composeDispatcher(installation, { log, lines, hints, metrics })
      await send(`${url}/api/v1/organizations/${orgId}/webhooks`, login, {
        url: `https://localhost:${(receiver.address() as AddressInfo).port}/`,
        event_types: ['database.created'],
      })
      webhooks += 1
    },
    async deliverEvent() {
      // As a step of a job does: in the transaction of the change.
      const data = { database_id: newId('db'), name: 'shape' }
      await transact((tx) => publish(tx, { orgId, type: 'database.created', data }))
      expected += webhooks
      for (let inFlight = 1; inFlight > 0 || received < expected; await sleep(20)) {
        const [row] = await db<{ count: number }[]>`select count(*)::int as count from keyhook.in_flight`
        inFlight = row!.count
      }
      // The notification and the log line may be late.
      await sleep(50)
    },
    async close() {
      await engine?.stop()
      await api.close()
      await queue.close()
      await installation.close()
      receiver.close()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}
