import type { Database } from '../db/database.ts'
import { uuid7Ms } from '../kernel/uuid7.ts'
import { databaseNowMs } from '../store/clock.ts'
import { farAtOnce, mendFarLanes, mendFarRetries } from '../store/delivery/far-times.ts'
import { deleteFinishedEvents, listOldEvents } from '../store/delivery/old-events.ts'
import { dropPartitions, ensurePartitions, weekStartMs } from '../store/delivery/partitions.ts'
import { stepRecovery } from '../store/delivery/recoveries.ts'

const recoveryMs = 500
const mendTimesMs = 300_000
const tidyMs = 3_600_000
const dayMs = 86_400_000

/** What dispatchers see to beside sending: room for attempts to come, the leaving of old ones, recoveries, and wrong times. */
export function createHousekeeping(deps: {
  db: Database
  retentionDays: number | null
  leaseMs: number
  now(): number
  hint(): void
  /** PostgreSQL's clock was ahead, and so many lanes would have stood still until it is there again. */
  onClockSetBack(lanes: number): void
  onError(error: unknown, what: string): void
}) {
  const timers: NodeJS.Timeout[] = []
  let stopped = false
  const running = new Set<Promise<void>>()

  async function tidy(): Promise<void> {
    await ensurePartitions(deps.db, deps.now())
    if (deps.retentionDays === null) return
    // Whole weeks, for events too: one whose attempts are still in the history is not to be looked at every hour.
    // By a clock that all nodes share: one that is months ahead would delete everything.
    const olderThanMs = weekStartMs((await databaseNowMs(deps.db)) - deps.retentionDays * dayMs)
    await dropPartitions(deps.db, olderThanMs)
    for (const { orgId, upToSeq } of await listOldEvents(deps.db, olderThanMs)) {
      for (let afterSeq: number | null = 0; afterSeq !== null && !stopped; ) {
        afterSeq = await deleteFinishedEvents(deps.db, orgId, { afterSeq, upToSeq })
      }
    }
  }

  async function recover(): Promise<void> {
    for (;;) {
      const stepped = await deps.db.begin((tx) => stepRecovery(tx))
      if (!stepped || stopped) return
      deps.hint()
    }
  }

  async function mendTimes(): Promise<void> {
    // Retries first: a lane that is given back takes its time from them.
    for (const step of [mendFarRetries, (db: Database) => mendFarLanes(db, deps.leaseMs)]) {
      for (let lanes = farAtOnce; lanes === farAtOnce && !stopped; ) {
        lanes = await step(deps.db)
        if (lanes > 0) deps.onClockSetBack(lanes)
      }
    }
  }

  async function run(what: string, work: () => Promise<void>): Promise<void> {
    const done = work().catch((error) => deps.onError(error, what))
    running.add(done)
    await done
    running.delete(done)
  }

  function every(ms: number, what: string, work: () => Promise<void>): void {
    let busy = false
    const timer = setInterval(async () => {
      if (busy || stopped) return
      busy = true
      await run(what, work)
      busy = false
    }, ms)
    timer.unref()
    timers.push(timer)
  }

  return {
    /** Resolves when there is room for this week's attempts; sending must not begin before. */
    async start(): Promise<void> {
      await ensurePartitions(deps.db, deps.now())
      every(recoveryMs, 'recover', recover)
      every(mendTimesMs, 'times', mendTimes)
      every(tidyMs, 'tidy', tidy)
      void run('tidy', tidy)
    },
    ensureRoom: (attemptIds: readonly string[]) => ensurePartitions(deps.db, deps.now(), attemptIds.map(uuid7Ms)),
    /** Otherwise once an hour. */
    tidy: () => run('tidy', tidy),
    /** Otherwise every five minutes. */
    mendTimes: () => run('times', mendTimes),
    async stop(): Promise<void> {
      stopped = true
      for (const timer of timers) clearInterval(timer)
      await Promise.all(running)
    },
  }
}
