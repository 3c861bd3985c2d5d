import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { SpanKind, SpanStatusCode } from '@opentelemetry/api'
import type { Logger } from 'pino'
import { type Database, isDataError } from '../db/database.ts'
import { systemClock, within } from '../lib/clock.ts'
import { attemptIdOf, uuid7 } from '../lib/ids.ts'
import type { LineLog } from '../lib/log.ts'
import type { MasterKeys } from '../lib/master-keys.ts'
import { contextOf, isTracing, tracer } from '../lib/tracing.ts'
import { createDispatcher } from './dispatcher/dispatcher.ts'
import type { Lane } from './dispatcher/lane.ts'
import type { DispatcherLimits, DispatchStore } from './dispatcher/ports.ts'
import type { Attempted, DispatchObserver } from './dispatcher/work.ts'
import type { Hints } from './hints.ts'
import { createMaintenance } from './maintenance.ts'
import type { RetrySchedule } from './retry-schedule.ts'
import { createSenders, type SenderSettings } from './sender/senders.ts'
import { beginAttempts } from './statements/begin.ts'
import { fetchDue } from './statements/fetch.ts'
import { isLaneHeld, releaseLanes, renewLanes } from './statements/held-lanes.ts'
import { leaseLanes } from './statements/lease.ts'
import { interruptAttempts, settleAttempts } from './statements/settle.ts'
import { wakeLanes } from './statements/wake.ts'

const wakesPerCall = 1_000

export const createDispatchStore = (
  db: Database,
  { leaseMs, probeMs }: Pick<DispatcherLimits, 'leaseMs' | 'probeMs'>,
): DispatchStore => ({
  wake: (after) => wakeLanes(db, after, wakesPerCall),
  lease: (request) => leaseLanes(db, request),
  interrupt: (held) => interruptAttempts(db, held),
  renew: (held) => renewLanes(db, held, leaseMs),
  release: (held) => releaseLanes(db, held),
  isHeld: (held) => isLaneHeld(db, held),
  fetch: (requests) => fetchDue(db, requests),
  begin: (attempts) => beginAttempts(db, attempts, { leaseMs, probeMs }),
  settle: (attempts) => settleAttempts(db, attempts),
})

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
  observe: DispatchObserver
}): Promise<Engine> {
  const { db, settings, log, hints } = deps
  const onError = (err: unknown, step: string) => log.warn({ err, step }, 'dispatcher.retrying')
  const senders = createSenders({
    masterKeys: deps.masterKeys,
    settings: settings.sender,
    now: Date.now,
    onUnreadable: ({ webhookId }, err) => log.error({ err, webhookId }, 'dispatcher.secret_unreadable'),
  })
  const maintenance = createMaintenance({
    db,
    retentionDays: settings.retentionDays,
    now: Date.now,
    leaseMs: settings.limits.leaseMs,
    hint: (orgId) => hints.give([orgId]),
    onClockSetBack: (lanes) => log.warn({ lanes }, 'dispatcher.clock_was_set_back'),
    onError,
  })
  const dispatcher = createDispatcher({
    store: createDispatchStore(db, settings.limits),
    clock: systemClock,
    random: Math.random,
    newAttemptId: uuid7,
    owner: `${hostname()} ${process.pid} ${randomBytes(4).toString('hex')}`,
    limits: settings.limits,
    schedule: settings.schedule,
    openSender: senders.open,
    async ensurePartitions() {
      await maintenance.ensurePartitions().catch((error) => onError(error, 'partitions'))
    },
    isDataError,
    onError,
    observe: deps.observe,
  })
  await maintenance.start()
  dispatcher.start()
  const stopHints = hints.onHint(dispatcher.hint)
  // Not awaited: a pooler that swallows LISTEN must not keep deliveries from starting.
  const listening = hints.listen().catch((error) => {
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
      stopHints()
      await dispatcher.stop()
      // While PostgreSQL cannot be reached its statements wait for a connection, and nothing that they do is lost.
      await within(systemClock, 1_000, maintenance.stop())
      senders.close()
      const stopped = listening.then((stopListening) => stopListening())
      await within(systemClock, 1_000, stopped).catch(() => {})
    },
  }
}

export function createObserver(lines: LineLog, metrics: DispatchObserver): DispatchObserver {
  const line = createAttemptLog(lines)
  return {
    attempted(one) {
      metrics.attempted(one)
      line.attempted(one)
      traceAttempt(one)
    },
    batch: metrics.batch,
  }
}

/**
 * One line an attempt. Never the URL's query, a header or a body: any of them may hold a secret of the receiver's. Put together
 * here, of ids, codes and numbers, none of which needs to be escaped: field by field it cost a dispatcher a twentieth of its time.
 */
export function createAttemptLog(log: LineLog): Pick<DispatchObserver, 'attempted'> {
  // What is the same in all lines of a lane is written out once.
  const whose = new WeakMap<Lane, string>()

  function whoseOf(lane: Lane): string {
    const known = whose.get(lane)
    if (known !== undefined) return known
    const { orgId, webhookId } = lane.lease
    const made = `"orgId":"${orgId}","webhookId":"${webhookId}"`
    whose.set(lane, made)
    return made
  }

  return {
    attempted({ lane, delivery, attempt, exchange, retryMs }: Attempted) {
      if (!log.isOn()) return
      const { status, response, error, durationUs, address } = exchange
      const answer = response === null ? '' : `,"responseStatus":${response.status}`
      const failure = error === null ? '' : `,"error":"${error.code}"`
      const durationMs = durationUs === null ? null : durationUs / 1_000
      const from = address === null ? 'null' : `"${address}"`
      // `deliveryId`: as lists of deliveries have it.
      log.write(
        `${whoseOf(lane)},"eventId":"${delivery.eventId}","type":"${delivery.eventType}","attempt":${attempt.attempt},"deliveryId":"${attemptIdOf(attempt.attemptId)}","status":"${status}"${answer}${failure},"durationMs":${durationMs},"address":${from},"retryMs":${retryMs},"msg":"delivery.attempted"`,
      )
    },
  }
}

/** A span for an attempt that has ended, in the trace of what published its event. */
function traceAttempt({ lane, delivery, attempt, exchange, retryMs }: Attempted): void {
  const { traceparent, eventType } = delivery
  if (traceparent === null || !isTracing()) return
  const { response, error, address } = exchange
  const host = hostOf(lane, attempt.version)
  const span = tracer.startSpan(
    `deliver ${eventType}`,
    {
      kind: SpanKind.CLIENT,
      startTime: attempt.startedAtMs,
      attributes: {
        'http.request.method': 'POST',
        ...(host !== null && { 'server.address': host }),
        ...(address !== null && { 'network.peer.address': address }),
        ...(response !== null && { 'http.response.status_code': response.status }),
        ...(error !== null && { 'error.type': error.code }),
        'keyhook.organization.id': lane.lease.orgId,
        'keyhook.webhook.id': lane.lease.webhookId,
        'keyhook.event.id': delivery.eventId,
        'keyhook.delivery.id': attemptIdOf(attempt.attemptId),
        'keyhook.delivery.attempt': attempt.attempt,
        'keyhook.delivery.finished': retryMs === null,
      },
    },
    contextOf(traceparent),
  )
  if (exchange.status !== 'succeeded') span.setStatus({ code: SpanStatusCode.ERROR, message: error?.code ?? '' })
  span.end()
}

/** The host only: path and query of a receiver's URL may hold a secret. Null if the settings have changed since the lease. */
const hostOf = ({ lease }: Lane, version: number): string | null =>
  lease.webhook === null || lease.version !== version ? null : new URL(lease.webhook.url).hostname
