import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { Logger } from 'pino'
import { type Database, isDataError, isUnavailable } from '../db/database.ts'
import type { Network } from '../domain/network.ts'
import type { RetrySchedule } from '../domain/retry-schedule.ts'
import type { MasterKeys } from '../kernel/master-keys.ts'
import { systemClock, within } from './dispatching/clock.ts'
import { createDispatchStore } from './dispatching/dispatch-store.ts'
import { createDispatcher, type DispatcherLimits } from './dispatching/dispatcher.ts'
import type { FlowObserver } from './dispatching/flow.ts'
import type { Hints } from './hints.ts'
import { createMaintenance } from './maintenance.ts'
import { createAddressGuard } from './sending/address-guard.ts'
import type { SendLimits } from './sending/attempt.ts'
import { createConnect } from './sending/connector.ts'
import { createRequestHeaders } from './sending/request.ts'
import { createResolve } from './sending/resolve.ts'
import { createDeliveryContext } from './sending/secure-context.ts'
import { createSenders } from './sending/senders.ts'

export type DeliverySettings = {
  serviceName: string
  standardWebhooks: boolean
  allowNetworks: readonly Network[]
  /** PEM of certificates that are trusted besides the usual ones. */
  extraCa: string | null
  connectMsMax: number
  schedule: RetrySchedule
  retentionDays: number | null
  /** `idleMax`: most connections that are kept between requests. */
  limits: DispatcherLimits & { idleMax: number }
  send: SendLimits
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
    connect: createConnect({
      resolve: createResolve(),
      allows: createAddressGuard(settings.allowNetworks),
      secureContext: createDeliveryContext(settings.extraCa),
      connectMsMax: settings.connectMsMax,
    }),
    limits: settings.send,
    idleMax: settings.limits.idleMax,
    requestHeaders: createRequestHeaders(settings),
    now,
    onUnreadable: ({ webhookId }, err) => log.error({ err, webhookId }, 'dispatcher.secret_unreadable'),
  })
  const maintenance = createMaintenance({
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
    open: (leased) => senders.open(leased),
    async mend() {
      await maintenance.ensurePartitions().catch((error) => onError(error, 'mend'))
    },
    isUnavailable,
    isDataError,
    onError,
    observe: deps.observe,
    tellHolders: deps.hints.giveHolders,
  })
  await maintenance.start()
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
      await within(systemClock, 1_000, maintenance.stop())
      senders.close()
      const unlistened = listening.then((unlisten) => unlisten())
      await within(systemClock, 1_000, unlistened).catch(() => {})
    },
  }
}
