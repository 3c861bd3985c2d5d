import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/db/database.ts'
import { readHeaders } from '../../src/delivery/sender/senders.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { createLocalIssuer } from '../../src/login/login-tokens.ts'
import { openEmbedded } from '../../src/postgres/index.ts'
import { isPostgresOn, readLockFile } from '../../src/postgres/lock-file.ts'
import { call } from '../kit/client.ts'
import { bridgeTo, keyhook, type Running, serve } from '../kit/processes.ts'
import { until } from '../kit/until.ts'
import { dataDirectory } from '../postgres/support/scratch.ts'
import { deliveryEnvironment } from './support/delivery-test.ts'
import { eventIdOf, receiverFor } from './support/receiver.ts'

/** A PostgreSQL that this test may crash, behind an address that stays. */
async function crashablePostgres() {
  const dataDir = await dataDirectory()
  const start = () => openEmbedded({ dataDir, purpose: 'serve', settings: { fsync: 'off' } })
  let server = await start()
  onTestFinished(() => server.stop())
  const target = { ...server.connection }
  const bridge = await bridgeTo(target)
  return {
    target,
    url: bridge.url,
    /** An immediate shutdown: what was not on disk is gone, as after a power failure. */
    async crash(): Promise<void> {
      const { pid } = (await readLockFile(join(dataDir, 'postgres')))!
      process.kill(pid, 'SIGQUIT')
      await until(async () => !(await isPostgresOn(join(dataDir, 'postgres'), pid)))
      await server.stop()
    },
    async restart(): Promise<void> {
      server = await start()
      Object.assign(target, server.connection)
    },
  }
}

const masterKey = Buffer.alloc(32, 9)
const webhooks = 4
const eventsPerPhase = 25

/*
 * Breaks that this test has been seen to notice: beginning an attempt with `synchronous_commit` off (a request without a
 * row), treating a lost connection as a rejected statement (the process ends or a delivery stays where it is), and releasing a lane
 * without looking for what a dead holder began.
 */
test('PostgreSQL crashes under deliveries in flight, alone and together with Keyhook: every event arrives, every request has a row', async () => {
  const postgres = await crashablePostgres()
  const environment = {
    ...deliveryEnvironment,
    DATABASE_URL: postgres.url,
    KEYHOOK_MASTER_KEY: masterKey.toString('base64'),
    KEYHOOK_LOG_LEVEL: 'silent',
    KEYHOOK_DELIVERY_TIMEOUT_MS: '20000',
  }
  // Slow enough that requests are always in flight.
  const receiver = await receiverFor(() => ({ delayMs: 150 }))
  let running: Running = await serve(environment)
  const { organization_id: orgId, owner_id: ownerId } = running.ready
  const issuer = createLocalIssuer({ masterKeys: createMasterKeys([masterKey]), now: () => new Date() })
  const owner = await issuer.issue({ subject: ownerId as never, ttlSeconds: 600 })
  const issued = await keyhook(['token', 'issue', '--operator', '--json'], environment)
  const operator = (JSON.parse(issued.stdout) as { token: string }).token
  for (let i = 0; i < webhooks; i++) {
    const body = { url: `${receiver.url}?webhook=${i}`, event_types: ['database.created'] }
    const made = await call(`${running.url}/api/v1/organizations/${orgId}/webhooks`, { token: owner, body })
    expect(made.status).toBe(201)
  }

  /** As an at-least-once publisher does: the same name until it is taken. */
  async function publish(id: string): Promise<void> {
    const body = { organization_id: orgId, type: 'database.created', data: { id }, id }
    await until(async () => {
      const reply = await call(`${running.url}/operator/v1/events`, { token: operator, body }).catch(() => null)
      return reply?.status === 202
    })
  }
  const ids: string[] = []
  const publishing = async () => {
    for (let i = 0; i < eventsPerPhase; i++) {
      ids.push(`e-${ids.length}`)
      await publish(ids.at(-1)!)
    }
  }
  const inFlight = async () => {
    const before = receiver.received.length
    await until(() => receiver.received.length > before + webhooks)
  }

  if (process.env.TEST_LOG)
    onTestFinished(() =>
      console.log(running.output().stderr.slice(-3000), running.child.exitCode, running.child.signalCode),
    )
  // PostgreSQL alone, twice.
  for (let round = 0; round < 2; round++) {
    const published = publishing()
    await inFlight()
    await postgres.crash()
    await postgres.restart()
    await published
  }
  expect(running.child.exitCode).toBeNull()

  // Both at once.
  const published = publishing()
  await inFlight()
  await postgres.crash()
  running.child.kill('SIGKILL')
  await postgres.restart()
  running = await serve(environment)
  await published

  const db = connect(postgres.target, { name: 'test', connectionsMax: 2 })
  onTestFinished(() => db.end({ timeout: 5 }))
  const expected = ids.length * webhooks
  const keyOf = (one: (typeof receiver.received)[number]) => `${one.path} ${eventIdOf(one)}`
  await until(() => new Set(receiver.received.map(keyOf)).size === expected)
  await until(async () => {
    const waiting = await db`select event_seq from keyhook.in_flight union select event_seq from keyhook.retries`
    const behind = await db`select 1 from keyhook.lanes where cursor_seq < ${ids.length}`
    return waiting.length + behind.length === 0
  })

  const rows = await db<{ key: string; status: string; attempt: number; headers: string | null; started_at: Date }[]>`
    select '/hook?webhook=' || split_part(w.url, '=', 2) || ' ' || e.id as key, a.status, a.attempt,
      a.request_headers as headers, a.started_at
    from keyhook.attempts a
    join keyhook.webhooks w on w.lane_id = a.lane_id
    join keyhook.events e on e.org_id = a.org_id and e.seq = a.event_seq
    order by a.id`
  const byDelivery = Map.groupBy(rows, (row) => row.key)
  expect(byDelivery.size).toBe(expected)
  for (const [key, attempts] of byDelivery) {
    // Attempts are counted without a gap; the receiver always accepts, so all but the last can only be interrupted.
    expect(attempts.map((one) => one.attempt)).toEqual(attempts.map((_, i) => i + 1))
    expect(
      attempts.map((one) => one.status),
      key,
    ).toEqual([...attempts.slice(1).map(() => 'interrupted'), 'succeeded'])
  }
  for (const [key, requests] of Map.groupBy(receiver.received, keyOf)) {
    const attempts = byDelivery.get(key)!
    expect(requests.length, `requests seen for ${key}`).toBeLessThanOrEqual(attempts.length)
    // The headers of an attempt whose dispatcher died are not known; its time is, which is part of them.
    const recorded = attempts.map(({ headers, started_at }) =>
      headers === null ? String(Math.floor(started_at.getTime() / 1_000)) : readHeaders(headers)['webhook-signature'],
    )
    for (const { headers } of requests) {
      expect(recorded.some((one) => one === headers['webhook-signature'] || one === headers['webhook-timestamp'])).toBe(
        true,
      )
    }
  }
  // The kill cut off what was in flight.
  expect(rows.filter((row) => row.status === 'interrupted').length).toBeGreaterThan(0)
})
