import type { Database } from '../store/database.ts'
import { askLane } from '../store/lanes.ts'
import { deleteOldEvents, dropPartitions, ensurePartitions } from '../store/partitions.ts'
import { stepRecovery } from '../store/redeliveries.ts'

const recoveryMs = 500
const tidyMs = 3_600_000
const dayMs = 86_400_000

/** What dispatchers see to beside sending: room for attempts to come, the leaving of old ones, and recoveries. */
export function createHousekeeping(deps: {
  db: Database
  retentionDays: number | null
  now(): number
  hint(): void
  onError(error: unknown, what: string): void
}) {
  const timers: NodeJS.Timeout[] = []
  let stopped = false
  let running: Promise<void> = Promise.resolve()

  async function tidy(): Promise<void> {
    await ensurePartitions(deps.db, deps.now())
    if (deps.retentionDays === null) return
    const olderThanMs = deps.now() - deps.retentionDays * dayMs
    await dropPartitions(deps.db, olderThanMs)
    while (!stopped && (await deleteOldEvents(deps.db, olderThanMs)) > 0);
  }

  async function recover(): Promise<void> {
    for (;;) {
      const lane = await deps.db.begin(async (tx) => {
        const stepped = await stepRecovery(tx)
        if (stepped !== null) await askLane(tx, stepped.orgId, stepped.laneId)
        return stepped
      })
      if (lane === null || stopped) return
      deps.hint()
    }
  }

  function every(ms: number, what: string, work: () => Promise<void>): void {
    let busy = false
    const timer = setInterval(() => {
      if (busy || stopped) return
      busy = true
      running = work()
        .catch((error) => deps.onError(error, what))
        .finally(() => {
          busy = false
        })
    }, ms)
    timer.unref()
    timers.push(timer)
  }

  return {
    /** Resolves when there is room for this week's attempts; sending must not begin before. */
    async start(): Promise<void> {
      await ensurePartitions(deps.db, deps.now())
      every(recoveryMs, 'recover', recover)
      every(tidyMs, 'tidy', tidy)
      void tidy().catch((error) => deps.onError(error, 'tidy'))
    },
    ensureRoom: () => ensurePartitions(deps.db, deps.now()),
    async stop(): Promise<void> {
      stopped = true
      for (const timer of timers) clearInterval(timer)
      await running
    },
  }
}
