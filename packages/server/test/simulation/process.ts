import type { RetrySchedule } from '../../src/domain/retry-schedule.ts'
import type { LeasedLane } from '../../src/store/delivery/lanes.ts'
import { unknownOutcome } from '../../src/webhooks/dispatching/attempt-record.ts'
import type { DispatchStore } from '../../src/webhooks/dispatching/dispatch-store.ts'
import { createDispatcher, type Dispatcher, type DispatcherLimits } from '../../src/webhooks/dispatching/dispatcher.ts'
import type { LaneSender } from '../../src/webhooks/dispatching/lane.ts'
import { newWidth } from '../../src/webhooks/dispatching/width.ts'
import type { Exchange } from '../../src/webhooks/sender/port.ts'
import type { Checks } from './checks.ts'
import type { Model } from './model.ts'
import type { Random } from './random.ts'
import type { Host, Timeline } from './timeline.ts'

/** What one receiver does with one request. */
export type Behaviour = {
  latencyMs: number
  status: 'succeeded' | 'failed'
  retryAfterMs?: number | null
  gone?: boolean
}

export type World = {
  timeline: Timeline
  random: Random
  model: Model
  checks: Checks
  limits: DispatcherLimits
  schedule: RetrySchedule
  attemptMsMax: number
  receive(laneId: number): Behaviour
  /** Whether a process has the key of a lane's webhook. */
  opens?(processName: string, laneId: number): boolean
  /** How PostgreSQL is doing: how long a statement takes on its way, and how often one is lost. */
  database: { isDown: boolean; latencyMs(): number; lossChance: number }
  tellHolders(from: Host): void
  /** What happens, step by step, for whoever replays a seed. */
  trace(text: string): void
}

export type Process = { host: Host; dispatcher: Dispatcher; kill(): void; pause(ms: number): void }

/** How late a statement that was given up may still happen. */
export const lateMsMax = 4_000

const unavailable = Object.assign(new Error('PostgreSQL is away'), { code: 'CONNECTION_CLOSED' })

/** One dispatcher as it runs in production, with everything that it touches simulated. */
export function startProcess(world: World, name: string): Process {
  const { timeline, random, checks } = world
  const host: Host = { name, alive: true, pausedUntilMs: 0, clockSkewMs: random.int(-2_000, 2_000) }
  const senders = new Map<number, LaneSender>()
  const dispatcher = createDispatcher({
    store: storeOf(world, host),
    clock: timeline.clockOf(host),
    random: random.next,
    owner: name,
    limits: world.limits,
    schedule: world.schedule,
    open(leased) {
      if (world.opens?.(name, leased.laneId) === false) return null
      const sender = senders.get(leased.laneId) ?? senderOf(world, host, leased)
      senders.set(leased.laneId, sender)
      return sender
    },
    mend: async () => {},
    isUnavailable: (error) => error === unavailable,
    isDataError: () => false,
    onError() {},
    observe: { attempted() {}, grouped() {} },
    tellHolders: () => world.tellHolders(host),
  })
  dispatcher.start()
  return {
    host,
    dispatcher,
    kill() {
      world.trace(`${name} ends`)
      host.alive = false
      checks.died(host)
    },
    pause(ms) {
      world.trace(`${name} is paused for ${ms} ms`)
      host.pausedUntilMs = Math.max(host.pausedUntilMs, timeline.now() + ms)
    },
  }
}

const shown = [
  'laneId',
  'token',
  'no',
  'fresh',
  'unsettled',
  'eventSeq',
  'attempt',
  'attempts',
  'status',
  'retryMs',
  'takenOver',
  'abandon',
  'headSeq',
]
const brief = (value: unknown): string =>
  JSON.stringify(value instanceof Set ? [...value] : value, (key, one) =>
    key === '' || /^\d+$/.test(key) || shown.includes(key) ? one : undefined,
  ) ?? ''

/** The dispatcher's store: each statement travels to the model, happens there at one moment, and its answer travels back. */
function storeOf({ timeline, random, model, checks, database, trace }: World, host: Host): DispatchStore {
  function say<T>(what: string, given: unknown, statement: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const answer = (run: () => void) => timeline.after(database.latencyMs(), run, host)
      const { server } = model
      timeline.after(database.latencyMs(), () => {
        // Of a process that died in the meantime, what had left it still arrives.
        if (!host.alive && random.chance(0.5)) return
        if (database.isDown) return answer(() => reject(unavailable))
        if (random.chance(database.lossChance)) {
          // Given up by us; the server may be at it still, behind a lock, and be done when nobody thinks of it any more.
          if (random.chance(0.3))
            timeline.after(random.int(1, lateMsMax), () => {
              if (database.isDown || model.server !== server) return
              trace(`${host.name} ${what} ${brief(given)}, late -> ${brief(statement())}`)
            })
          return answer(() => reject(unavailable))
        }
        const result = statement()
        trace(`${host.name} ${what} ${brief(given)} -> ${brief(result)}`)
        // Done, and the connection is lost before anybody hears of it.
        if (random.chance(database.lossChance)) answer(() => reject(unavailable))
        else answer(() => resolve(result))
      })
    })
  }
  const { statements } = model
  return {
    news: (owner, seen) => say('news', [...seen], () => statements.news(owner, seen)),
    wake: () => say('wake', '', () => statements.wake()),
    lease: (request) =>
      say('lease', request, () => {
        const before = new Map([...model.lanes].map(([id, lane]) => [id, { ...lane }]))
        const leased = statements.lease(request)
        for (const { laneId } of leased) checks.leased(before.get(laneId)!, timeline.now())
        return leased
      }),
    leftovers: (lanes) => say('leftovers', lanes, () => statements.leftovers(lanes)),
    read: (requests) => say('read', requests, () => statements.read(requests)),
    begin: (beginnings) =>
      say('begin', beginnings, () => {
        const mayGo = statements.begin(beginnings)
        checks.begun(host, beginnings, mayGo)
        return mayGo
      }),
    settle: (attempts) => say('settle', attempts, () => statements.settle(attempts)),
    renew: (held, leaseMs) => say('renew', held, () => statements.renew(held, leaseMs)),
    isHeld: (held) => say('isHeld', held, () => statements.isHeld(held)),
    peek: (held) => say('peek', held, () => statements.peek(held)),
    release: (held) =>
      say('release', held, () => {
        const released = statements.release(held)
        checks.released(host, held, released)
        return released
      }),
  }
}

function senderOf(world: World, host: Host, { laneId }: LeasedLane): LaneSender {
  const { timeline, checks } = world
  const cuts = new Set<() => void>()
  return {
    width: newWidth(),
    headers: ({ eventId }) => ['event', eventId],
    send(headers, _body, done) {
      world.trace(`${host.name} sends event ${headers[1]} to lane ${laneId}`)
      const request = checks.sent(host, laneId, headers[1]!)
      const behaviour = world.receive(laneId)
      const inTime = behaviour.latencyMs < world.attemptMsMax
      const ms = inTime ? behaviour.latencyMs : world.attemptMsMax
      const end = (exchange: Exchange) => {
        world.trace(`${host.name} hears of event ${headers[1]} at lane ${laneId}: ${exchange.status}`)
        cuts.delete(cut)
        cancel()
        checks.answered(request)
        done(exchange)
      }
      const cut = () => end(exchangeOf('interrupted', 0))
      const cancel = timeline.after(
        ms,
        () => {
          if (!inTime) return end(exchangeOf('failed', ms))
          if (behaviour.gone) checks.refusedForGood(request)
          const { status, gone = false, retryAfterMs = null } = behaviour
          end({ ...exchangeOf(status, ms), gone, retryAfterMs })
        },
        host,
      )
      cuts.add(cut)
    },
    interrupt() {
      for (const cut of [...cuts]) cut()
    },
  }
}

const exchangeOf = (status: Exchange['status'], ms: number): Exchange => ({
  ...unknownOutcome,
  status,
  durationUs: ms * 1_000,
  error: status === 'succeeded' ? null : { code: status === 'failed' ? 'timeout' : 'interrupted', detail: '' },
})
