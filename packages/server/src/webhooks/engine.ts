import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import type { RetrySchedule } from '../domain/retry-schedule.ts'
import type { MasterKeys } from '../kernel/master-keys.ts'
import { type Database, isDataRefused, isUnavailable, learnTypesOnce } from '../store/database.ts'
import { systemClock, within } from './dispatching/clock.ts'
import { createDispatchStore } from './dispatching/dispatch-store.ts'
import { createDispatcher, type DispatcherLimits } from './dispatching/dispatcher.ts'
import type { FlowObserver } from './dispatching/flow.ts'
import { adaptSenders } from './dispatching/sender-adapter.ts'
import type { Hints } from './hints.ts'
import { createHousekeeping } from './housekeeping.ts'
import { createSenders, type SenderSettings } from './sender/senders.ts'

export type DeliverySettings = {
  sender: SenderSettings
  schedule: RetrySchedule
  retentionDays: number | null
  limits: DispatcherLimits
}

export type Engine = { readonly lanes: number; readonly inFlight: number; stop(): Promise<void> }

/** A dispatcher with everything that it needs, running. */
export async function startEngine(deps: {
  /** Connections of its own: a slow list in the API must not hold up a delivery. */
  db: Database
  masterKeys: MasterKeys
  settings: DeliverySettings
  hints: Hints
  log: Logger
  observe: FlowObserver
}): Promise<Engine> {
  const { db, settings, log } = deps
  const onError = (err: unknown, what: string) => log.warn({ err, what }, 'dispatcher.retrying')
  const now = () => Date.now()
  const senders = createSenders({
    masterKeys: deps.masterKeys,
    settings: settings.sender,
    now,
    onUnreadable: ({ webhookId }, err) => log.error({ err, webhookId }, 'dispatcher.secret_unreadable'),
  })
  const housekeeping = createHousekeeping({
    db,
    retentionDays: settings.retentionDays,
    now,
    leaseMs: settings.limits.leaseMs,
    hint: () => deps.hints.give(),
    onClockSetBack: (lanes) => log.warn({ lanes }, 'dispatcher.clock_was_set_back'),
    onError,
  })
  const dispatcher = createDispatcher({
    store: createDispatchStore(db, settings.limits.leaseMs),
    clock: systemClock,
    random: Math.random,
    owner: `${hostname()} ${process.pid} ${randomBytes(4).toString('hex')}`,
    limits: settings.limits,
    schedule: settings.schedule,
    open: adaptSenders(senders.open),
    async mend(attemptIds) {
      await housekeeping.ensureRoom(attemptIds).catch((error) => onError(error, 'mend'))
    },
    isUnavailable,
    isDataRefused,
    onError,
    observe: deps.observe,
    tellHolders: deps.hints.giveHolders,
  })
  await learnTypesOnce(db)
  await housekeeping.start()
  dispatcher.start()
  const deafen = deps.hints.hear((hint) => {
    if (hint.kind === 'work') return dispatcher.hint(hint.announcements)
    dispatcher.hintHeld()
    return false
  })
  // Not waited for: a pooler that swallows LISTEN must not keep deliveries from starting.
  const listening = deps.hints.listen().catch((error) => {
    onError(error, 'listen')
    return async () => {}
  })
  return {
    get lanes() {
      return dispatcher.lanes
    },
    get inFlight() {
      return dispatcher.inFlight
    },
    async stop() {
      deafen()
      await dispatcher.stop()
      // With PostgreSQL away its statements wait for a connection, and nothing that they do is lost.
      await within(systemClock, 1_000, housekeeping.stop())
      senders.close()
      const unlistened = listening.then((unlisten) => unlisten())
      await within(systemClock, 1_000, unlistened).catch(() => {})
    },
  }
}
