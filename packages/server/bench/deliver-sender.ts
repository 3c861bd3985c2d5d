import { createHmac, createSecretKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { composeDispatcher, composeHints, engineSettings } from '../src/compose/dispatcher.ts'
import { type ConnectionTarget, connect, type Database } from '../src/db/database.ts'
import type { Hints } from '../src/delivery/hints.ts'
import type { Sender } from '../src/delivery/sender/port.ts'
import { createRequestHeaders, createSenders, type Signer } from '../src/delivery/sender/senders.ts'
import { newId } from '../src/lib/ids.ts'
import { createLog } from '../src/lib/log.ts'
import { createMasterKeys } from '../src/lib/master-keys.ts'
import { readConfig } from '../src/settings/config.ts'
import { limitHeapGrowth } from '../src/startup/process.ts'
import { createMetrics } from '../src/telemetry/metrics.ts'
import { caFile } from '../test/delivery/support/receiver.ts'
import { type Publishing, publishAtPace } from './deliver-publishing.ts'
import { now } from './now.ts'

/*
 * The sending process: the whole engine, or the least code that can send the same requests. One of them at a
 * time, on command.
 */
type Setup = { target: ConnectionTarget; masterKey: string; url: string; environment: Record<string, string> }
export type Side = 'engine' | 'bare' | 'leanest'
export type Pace = { eventsPerSecond: number; webhooksPerEvent: number; seconds: number }
type Order = { setup: Setup } | { run: Side | 'stop' } | { pace: Pace } | { publish: Publishing } | { ask: 'usage' }

type SignedRequest = { path: string; method: 'POST'; headers: string[]; body: Buffer }

const rawSecret = Buffer.alloc(32, 3)
const secret = `whsec_${rawSecret.toString('base64')}`
const webhooks = 64
const perWebhook = 4
let setup: Setup
let running: { stop(): Promise<void> } | null = null

/** Signatures with `node:crypto`. */
const textKey = createSecretKey(secret, 'utf8')
const rawKey = createSecretKey(rawSecret)
const plain: Signer = {
  body: (body) => `sha256=${createHmac('sha256', textKey).update(body).digest('hex')}`,
  standard: (id, seconds, body) =>
    `v1,${createHmac('sha256', rawKey).update(`${id}.${seconds}.`).update(body).digest('base64')}`,
}
const headersOf = createRequestHeaders({ serviceName: 'Service', standardWebhooks: true })

const sampleId = 'evt_01h455vb4pex5vsknk084sn02q'
const signedHeaders = (eventId = sampleId): string[] =>
  headersOf(plain, { eventId, ...sample, startedAtMs: Date.now() })

const signedRequest = (path: string, eventId?: string): SignedRequest => ({
  path,
  method: 'POST',
  headers: signedHeaders(eventId),
  body: sampleBody,
})

/** As many kept connections as the engine reaches. */
const openPools = (): Pool[] =>
  Array.from(
    { length: webhooks },
    () => new Pool(setup.url, { connections: perWebhook, allowH2: false, connect: { ca: readFileSync(caFile) } }),
  )

/** Signs and sends the same bodies, and does nothing else: a fixed number at a time to each webhook, until it is stopped. */
function loop(send: (webhook: number) => Promise<unknown>, close: () => unknown): { stop(): Promise<void> } {
  let going = true
  const keepOn = async (webhook: number): Promise<void> => {
    while (going) await send(webhook)
  }
  for (let i = 0; i < webhooks * perWebhook; i++) keepOn(i % webhooks).catch(() => {})
  return {
    async stop() {
      going = false
      await close()
    },
  }
}

function startBare(): { stop(): Promise<void> } {
  const pools = openPools()
  return loop(
    (webhook) => request(pools[webhook]!, signedRequest(`/w/${webhook}`)),
    () => Promise.all(pools.map((pool) => pool.destroy())),
  )
}

/** With the engine's sender alone. */
function startLeanest(): { stop(): Promise<void> } {
  const masterKeys = createMasterKeys([Buffer.alloc(32, 7)])
  const settings = engineSettings(deliveryConfig()).sender
  const senders = createSenders({ masterKeys, settings, now: Date.now, onUnreadable() {} })
  const open = (webhook: number): Sender => {
    const webhookId = newId('wh')
    const target = { laneId: webhook, orgId: newId('org'), webhookId, version: 0, url: `${setup.url}/w/${webhook}` }
    return senders.open({ ...target, rotation: null, secret: masterKeys.seal(secret, webhookId) })!
  }
  const opened = Array.from({ length: webhooks }, (_, webhook) => open(webhook))
  const request = {
    eventId: sampleId,
    ...sample,
    sendByMs: Number.POSITIVE_INFINITY,
    mayStillSend: async () => true,
  }
  return loop(
    (webhook) => new Promise((done) => opened[webhook]!.send({ ...request, startedAtMs: Date.now() }, done)),
    () => senders.close(),
  )
}

let paced: Pool[] | null = null

/** The same at a steady pace, each event to a few webhooks at once. Returns when each was sent; connections are kept for the next run. */
async function sendAtPace({ eventsPerSecond, webhooksPerEvent, seconds }: Pace): Promise<[string, number][]> {
  paced ??= openPools()
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
      sending.push(request(paced[webhook]!, signedRequest(`/w/${webhook}`, id)))
    }
  }
  await Promise.all(sending)
  return sent
}

/** As undici's documentation shows it. */
async function request(pool: Pool, given: SignedRequest): Promise<void> {
  const { body } = await pool.request(given)
  await body.dump()
}

const sampleBody = Buffer.from(
  JSON.stringify({
    id: sampleId,
    type: 'database.created',
    timestamp: new Date().toISOString(),
    data: { database_id: 'db_01h455vb4pex5vsknk084sn02q', name: 'x'.repeat(130) },
  }),
)
const sample = { eventType: 'database.created' as const, body: sampleBody, sequence: 2, previousSequence: 1 }

/** As `serve` does. */
limitHeapGrowth()

const deliveryConfig = () =>
  readConfig({
    KEYHOOK_MASTER_KEY: setup.masterKey,
    KEYHOOK_DELIVERY_ALLOW_NETWORKS: '127.0.0.0/8',
    KEYHOOK_DELIVERY_CA_FILE: caFile,
    KEYHOOK_DELIVERY_DRAIN_MS: '300',
    ...setup.environment,
  })

/** For publishing in this process while its engine runs. */
let publisher: { db: Database; hints: Hints }

async function startDispatching(): Promise<{ stop(): Promise<void> }> {
  const config = deliveryConfig()
  const db = connect(setup.target, { name: 'bench engine', connectionsMax: 4 })
  const installation = { config, db, target: setup.target, masterKeys: createMasterKeys(config.masterKeys!) }
  const { log, lines } = await createLog(config)
  const whole = { ...installation, applied: [], isShared: false, announce() {}, close: async () => {} }
  const hints = composeHints(whole, log)
  const engine = await composeDispatcher(whole, { log, lines, hints, metrics: createMetrics() })
  publisher = { db, hints }
  return {
    async stop() {
      await engine.stop()
      await db.end()
    },
  }
}

const start: Record<Side, () => { stop(): Promise<void> } | Promise<{ stop(): Promise<void> }>> = {
  engine: startDispatching,
  bare: startBare,
  leanest: startLeanest,
}

process.on('message', async (order: Order) => {
  if ('setup' in order) setup = order.setup
  else if ('pace' in order) {
    process.send!({ sent: await sendAtPace(order.pace) })
    return
  } else if ('publish' in order) {
    process.send!(await publishAtPace(publisher, order.publish))
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
