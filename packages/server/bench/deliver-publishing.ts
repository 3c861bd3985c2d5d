import { setTimeout as sleep } from 'node:timers/promises'
import { createTransact, type Database } from '../src/db/database.ts'
import type { Hints } from '../src/delivery/hints.ts'
import { publish } from '../src/delivery/publish.ts'
import { newId, type OrgId } from '../src/lib/ids.ts'
import { now } from './now.ts'

export type Publishing = { orgs: readonly OrgId[]; eventsPerSecond: number; seconds: number }
/** When each event was committed, and the rate that was reached. */
export type Published = { committed: [string, number][]; tookS: number }

/** Idle lanes have to be leased again first; the steady state is measured. */
const leadS = 1

/** Publishes at a steady pace, each event in its own transaction. */
export async function publishAtPace(
  { db, hints }: { db: Database; hints: Hints },
  { orgs, eventsPerSecond, seconds }: Publishing,
): Promise<Published> {
  const transact = createTransact(db, hints.give)
  const committed: [string, number][] = []
  const begun = now()
  const lead = Math.round(eventsPerSecond * leadS)
  const total = lead + Math.round(eventsPerSecond * seconds)
  const publishing: Promise<void>[] = []
  for (let i = 0; i < total; i++) {
    const earlyMs = begun + (i * 1_000) / eventsPerSecond - now()
    if (earlyMs > 0) await sleep(earlyMs)
    const orgId = orgs[i % orgs.length]!
    const data = { database_id: newId('db'), name: 'x'.repeat(130) }
    publishing.push(
      transact((tx) => publish(tx, { orgId, type: 'database.created', data })).then((id) => {
        if (i >= lead) committed.push([id, now()])
      }),
    )
  }
  await Promise.all(publishing)
  return { committed, tookS: (now() - begun) / 1_000 - leadS }
}
