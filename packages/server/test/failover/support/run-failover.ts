import { expect } from 'vitest'
import { type ConnectionTarget, connect } from '../../../src/db/database.ts'
import { call } from '../../kit/client.ts'
import { until } from '../../kit/until.ts'
import { type Fleet, startFleet } from './fleet.ts'
import { findViolations, type History } from './history.ts'
import { startLoad } from './load.ts'
import { readStored, untilSettled, whenAvailable } from './stored.ts'

const eventsPerPhase = 100
const revocationsPerPhase = 10

/**
 * Load, `fail` in the middle of it, and load again. `fail` resolves when the new primary takes writes at the address, and says
 * when it was promoted. Returns what is broken afterwards.
 */
export async function runFailover(request: {
  name: string
  url: string
  fail(fleet: Fleet): Promise<{ promotedAtMs: number }>
  current(): Promise<ConnectionTarget>
  afterwards?(history: History): Promise<void>
  /** False: without jobs, whose rows an asynchronous standby may lack. */
  withJobs?: boolean
}): Promise<string[]> {
  const { withJobs = true } = request
  const fleet = await startFleet(request.url)
  const { history, processes } = fleet
  const load = startLoad(fleet)
  await progress(history)
  const databases: string[] = []
  if (withJobs) databases.push(await createDatabase(fleet, 'before'))
  const { promotedAtMs } = await request.fail(fleet)
  await progress(history)
  if (withJobs) databases.push(await createDatabase(fleet, 'after'))
  await load.stop()

  const db = connect(await request.current(), { name: 'test', connectionsMax: 2 })
  try {
    // The job queue works on: one job was in the middle of the failover, the other came later.
    for (const id of databases) {
      await until(async () => {
        const rows = await db`select 1 from keyhook.events where type = 'database.created' and strpos(body, ${id}) > 0`
        return rows.length === 1
      })
    }
    await untilSettled(db)
    await load.useEveryKey()
    await request.afterwards?.(history)
    // Connections are lost, processes are not.
    expect(processes.map(({ child }) => child.exitCode)).toEqual(processes.map(() => null))
    const stored = await whenAvailable(() => readStored(db, fleet.webhooks))
    report(request.name, history, promotedAtMs)
    return findViolations(history, stored)
  } finally {
    await db.end({ timeout: 5 })
  }
}

/** Until so much has happened again, and requests of it are in flight. */
async function progress(history: History): Promise<void> {
  const revoked = () => history.keys.filter(({ revokedAtMs }) => revokedAtMs !== null).length
  const wanted = {
    accepted: history.accepted.length + eventsPerPhase,
    revoked: revoked() + revocationsPerPhase,
    received: history.received.length + eventsPerPhase,
  }
  await until(
    () =>
      history.accepted.length >= wanted.accepted &&
      revoked() >= wanted.revoked &&
      history.received.length >= wanted.received,
  )
}

/** Repeated under one key until it is accepted, so it exists once. */
async function createDatabase({ apis, organizations }: Fleet, name: string): Promise<string> {
  const { orgId, owner } = organizations[0]!
  const reply = await until(async () => {
    const options = { token: owner, body: { name }, headers: { 'idempotency-key': name } }
    const made = await call<{ id: string }>(`${apis[0]}/platform/v1/organizations/${orgId}/databases`, options)
    return made.status === 202 && made
  })
  return reply.body.id
}

/** Figures for a person; no test depends on them. */
function report(name: string, { accepted, received, keys, uses }: History, promotedAtMs: number): void {
  const later = accepted.filter(({ atMs }) => atMs > promotedAtMs)
  const ids = new Set(later.map(({ eventId }) => eventId))
  const delivered = received.find(({ delivery, atMs }) => atMs > promotedAtMs && ids.has(delivery.split(' ')[1]!))
  const after = (atMs: number | undefined) => `${Math.round((atMs ?? Number.NaN) - promotedAtMs)} ms`
  const revoked = keys.filter(({ revokedAtMs }) => revokedAtMs !== null).length
  console.log(
    `${name}: first event accepted ${after(later[0]?.atMs)} after the promotion, delivered ${after(delivered?.atMs)}; ` +
      `${accepted.length} events, ${received.length} requests to receivers, ${revoked} keys revoked, ${uses.length} keys checked`,
  )
}
