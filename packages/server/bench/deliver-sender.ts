import { createHmac, createSecretKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Pool as UndiciPool } from 'undici'
import { composeDispatcher, composeHints } from '../src/compose/dispatcher.ts'
import { readConfig } from '../src/config.ts'
import { createSigner, type Signer } from '../src/domain/signature.ts'
import { createMasterKeys } from '../src/kernel/master-keys.ts'
import { createLog } from '../src/log.ts'
import { createMetrics } from '../src/metrics.ts'
import { keepHeapSmall } from '../src/startup/heap.ts'
import { type ConnectionTarget, connect } from '../src/store/database.ts'
import type { Engine } from '../src/webhooks/engine.ts'
import { createRequestHeaders } from '../src/webhooks/sending/request.ts'
import { caFile } from '../test/webhooks/support/receiver.ts'

// Not before the engine has mended it.
const { Pool } = await import('undici')

/*
 * The process that sends: the engine with everything that it does, or the least that could send the same requests. One at a
 * time, when told to.
 */
type Setup = { target: ConnectionTarget; masterKey: string; url: string; environment: Record<string, string> }
export type Side = 'engine' | 'bare' | 'leanest'
export type Pace = { eventsPerSecond: number; webhooksPerEvent: number; seconds: number }
type Order = { setup: Setup } | { run: Side | 'stop' } | { pace: Pace } | { ask: 'usage' }

type SignedRequest = { path: string; method: 'POST'; headers: string[]; body: Buffer }

const rawSecret = Buffer.alloc(32, 3)
const secret = `whsec_${rawSecret.toString('base64')}`
const webhooks = 64
const perWebhook = 4
let setup: Setup
let running: { stop(): Promise<void> } | null = null

const ours = createSigner(secret)
/** With what Node has for it. */
const textKey = createSecretKey(secret, 'utf8')
const rawKey = createSecretKey(rawSecret)
const plain: Signer = {
  body: (body) => `sha256=${createHmac('sha256', textKey).update(body).digest('hex')}`,
  standard: (id, seconds, body) =>
    `v1,${createHmac('sha256', rawKey).update(`${id}.${seconds}.`).update(body).digest('base64')}`,
}
const headersOf = createRequestHeaders({ serviceName: 'Service', standardWebhooks: true })

function signedRequest(signer: Signer, path: string, eventId = 'evt_01h455vb4pex5vsknk084sn02q'): SignedRequest {
  const delivery = { eventId, eventType: 'database.created' as const, body: sampleBody }
  return { path, method: 'POST', headers: headersOf(signer, delivery, Date.now()), body: sampleBody }
}

/** As many kept connections as the engine comes to have. */
const openPools = (): UndiciPool[] =>
  Array.from(
    { length: webhooks },
    () => new Pool(setup.url, { connections: perWebhook, allowH2: false, connect: { ca: readFileSync(caFile) } }),
  )

/** Signs and sends the same bodies, and does nothing else. */
function startBare(
  signer: Signer,
  send: (pool: UndiciPool, request: SignedRequest) => Promise<void>,
): { stop(): Promise<void> } {
  let going = true
  const pools = openPools()
  const loop = async (pool: UndiciPool, path: string): Promise<void> => {
    while (going) await send(pool, signedRequest(signer, path))
  }
  pools.forEach((pool, i) => {
    for (let n = 0; n < perWebhook; n++) loop(pool, `/w/${i}`).catch(() => {})
  })
  return {
    async stop() {
      going = false
      await Promise.all(pools.map((pool) => pool.destroy()))
    },
  }
}

let paced: UndiciPool[] | null = null

/** The same at a steady pace, each event to a few webhooks at once. Says when each was sent; connections are kept for the next time. */
async function sendAtPace({ eventsPerSecond, webhooksPerEvent, seconds }: Pace): Promise<[string, number][]> {
  paced ??= openPools()
  const now = () => performance.timeOrigin + performance.now()
  const sent: [string, number][] = []
  const sending: Promise<void>[] = []
  const begun = now()
  for (let i = 0; i < eventsPerSecond * seconds; i++) {
    const earlyMs = begun + (i * 1_000) / eventsPerSecond - now()
    if (earlyMs > 0) await sleep(earlyMs)
    const id = `evt_${i}`
    sent.push([id, now()])
    for (let n = 0; n < webhooksPerEvent; n++) {
      const webhook = (i * webhooksPerEvent + n) % webhooks
      sending.push(request(paced[webhook]!, signedRequest(plain, `/w/${webhook}`, id)))
    }
  }
  await Promise.all(sending)
  return sent
}

/** As undici's own page shows it. */
async function request(pool: UndiciPool, given: SignedRequest): Promise<void> {
  const { body } = await pool.request(given)
  await body.dump()
}

/** What that is made of, as the engine uses it: no streams, and nothing is read but the end. Signed as the engine does. */
const dispatch = (pool: UndiciPool, given: SignedRequest): Promise<void> =>
  new Promise((resolve, reject) => {
    pool.dispatch(given, {
      onRequestStart() {},
      onResponseStart() {},
      onResponseData() {},
      onResponseEnd: () => resolve(),
      onResponseError: (_controller, error) => reject(error),
    })
  })

const sampleBody = Buffer.from(
  JSON.stringify({
    id: 'evt_01h455vb4pex5vsknk084sn02q',
    type: 'database.created',
    timestamp: new Date().toISOString(),
    data: { database_id: 'db_01h455vb4pex5vsknk084sn02q', name: 'x'.repeat(130) },
  }),
)

/** As `serve` does. */
keepHeapSmall()

async function startDispatching(): Promise<Engine> {
  const config = readConfig({
    KEYHOOK_MASTER_KEY: setup.masterKey,
    KEYHOOK_DELIVERY_ALLOW_NETWORKS: '127.0.0.0/8',
    KEYHOOK_DELIVERY_CA_FILE: caFile,
    KEYHOOK_DELIVERY_DRAIN_MS: '300',
    ...setup.environment,
  })
  const db = connect(setup.target, { name: 'bench engine', connectionsMax: 2 })
  const installation = { config, db, target: setup.target, masterKeys: createMasterKeys(config.masterKeys!) }
  const log = createLog(config.logLevel)
  const whole = { ...installation, applied: [], isShared: false, announce() {}, close: async () => {} }
  const engine = await composeDispatcher(whole, { log, hints: composeHints(whole, log), metrics: createMetrics() })
  const { stop } = engine
  return Object.assign(engine, {
    async stop() {
      await stop()
      await db.end()
    },
  })
}

const start: Record<Side, () => { stop(): Promise<void> } | Promise<{ stop(): Promise<void> }>> = {
  engine: startDispatching,
  bare: () => startBare(plain, request),
  leanest: () => startBare(ours, dispatch),
}

process.on('message', async (order: Order) => {
  if ('setup' in order) setup = order.setup
  else if ('pace' in order) {
    process.send!({ sent: await sendAtPace(order.pace) })
    return
  } else if ('ask' in order) {
    const { user, system } = process.cpuUsage()
    process.send!({ rssMb: Math.round(process.memoryUsage.rss() / 1e6), cpuUs: user + system })
    return
  } else if (order.run === 'stop') {
    await running?.stop()
    running = null
  } else running = await start[order.run]()
  process.send!({})
})

process.on('disconnect', () => process.exit())
