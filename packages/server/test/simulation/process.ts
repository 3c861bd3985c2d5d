import { createDispatcher, type Dispatcher } from '../../src/delivery/dispatcher/dispatcher.ts'
import { interrupted } from '../../src/delivery/dispatcher/outcome.ts'
import type { DispatchStore } from '../../src/delivery/dispatcher/ports.ts'
import type { Exchange, Sender, SendRequest } from '../../src/delivery/sender/port.ts'
import type { Host } from './timeline.ts'
import type { World } from './world.ts'

export type Process = {
  host: Host
  dispatcher: Dispatcher
  /** Stops in order, and then closes its connections; timers that are left still fire for a while. */
  stop(): Promise<void>
  kill(): void
  pause(ms: number): void
}

/** How late a statement of a connection that was given up may still run. */
export const lateMsMax = 4_000

const afterStopMs = 5_000

const unavailable = new Error('PostgreSQL is away')
const dataError = new Error('PostgreSQL cannot store this')

/** One dispatcher as it runs in production. Everything that it touches is simulated. */
export function startProcess(world: World, name: string): Process {
  const { timeline, random, checks } = world
  const host: Host = { name, alive: true, stopped: false, pausedUntilMs: 0, clockSkewMs: random.int(-2_000, 2_000) }
  const senders = new Map<number, Sender>()
  let attempts = 0
  const dispatcher = createDispatcher({
    store: createStore(world, host),
    clock: timeline.clockOf(host),
    random: random.next,
    newAttemptId: () => `${name} ${++attempts}`,
    owner: name,
    limits: world.limits,
    schedule: world.schedule,
    openSender({ laneId }) {
      if (!world.opens(name, laneId)) return null
      const sender = senders.get(laneId) ?? createSender(world, host, laneId)
      senders.set(laneId, sender)
      return sender
    },
    async ensurePartitions() {
      world.database.lacksPartition = false
    },
    isDataError: (error) => error === dataError,
    onError(error, step) {
      if (error !== unavailable && error !== dataError) checks.fail(`${name}, ${step}: ${(error as Error).stack}`)
    },
    observe: { attempted() {}, batch() {} },
  })
  dispatcher.start()
  const kill = () => {
    if (!host.alive) return
    world.trace(`${name} ends`)
    host.alive = false
    checks.died(host)
  }
  return {
    host,
    dispatcher,
    async stop() {
      await dispatcher.stop()
      world.trace(`${name} has stopped`)
      host.stopped = true
      timeline.after(afterStopMs, kill)
    },
    kill,
    pause(ms) {
      world.trace(`${name} is paused for ${ms} ms`)
      host.pausedUntilMs = Math.max(host.pausedUntilMs, timeline.now() + ms)
    },
  }
}

const shown = new Set([
  ...[
    'laneId',
    'token',
    'eventSeq',
    'attempt',
    'attemptId',
    'attempts',
    'status',
    'outcome',
    'retryMs',
    'tries',
    'takenOver',
  ],
  ...[
    'abandon',
    'free',
    'next',
    'lanes',
    'begun',
    'afterSeq',
    'redeliveryRequests',
    'ended',
    'cursorSeq',
    'version',
    'paused',
    'suspended',
    'requested',
    'early',
    'postponed',
    'recorded',
  ],
])
const brief = (value: unknown): string =>
  JSON.stringify(value, (key, one) => {
    if (key !== '' && !/^\d+$/.test(key) && !shown.has(key)) return undefined
    return one instanceof Set || one instanceof Map ? [...one] : one
  }) ?? ''

/** Each statement travels to the model, happens there at one moment, and its answer travels back. */
function createStore(world: World, host: Host): DispatchStore {
  const { timeline, random, model, checks, database, trace } = world
  function send<T>(name: string, given: unknown, statement: () => T): Promise<T> {
    if (host.stopped) return Promise.reject(unavailable)
    return new Promise((resolve, reject) => {
      const answer = (run: () => void) => timeline.after(database.latencyMs(), run, host)
      const { server } = model
      timeline.after(database.latencyMs(), () => {
        // What a process sent before it died may still arrive.
        if (!host.alive && random.chance(0.5)) return
        if (database.isDown) return answer(() => reject(unavailable))
        if (random.chance(database.lossChance)) {
          // The process gives the connection up; the server may still be busy with the statement and finish it later.
          if (random.chance(0.3))
            timeline.after(random.int(1, lateMsMax), () => {
              if (database.isDown || model.server !== server) return
              trace(`${host.name} ${name} ${brief(given)}, late -> ${brief(statement())}`)
            })
          return answer(() => reject(unavailable))
        }
        let result: T
        try {
          result = statement()
        } catch (error) {
          return answer(() => reject(error))
        }
        trace(`${host.name} ${name} ${brief(given)} -> ${brief(result)}`)
        // Committed, and the answer is lost.
        if (random.chance(database.lossChance)) answer(() => reject(unavailable))
        else answer(() => resolve(result))
      })
    })
  }
  const { statements } = model
  return {
    wake: (after) => send('wake', after, () => statements.wake(after)),
    lease: (request) =>
      send('lease', request, () => {
        const before = new Map([...model.lanes].map(([id, lane]) => [id, { ...lane }]))
        const leased = statements.lease(request)
        for (const { laneId } of leased) checks.leased(before.get(laneId)!, timeline.now())
        return leased
      }),
    interrupt: (held) =>
      send('interrupt', held, () => {
        if (database.lacksPartition) throw dataError
        return statements.interrupt(held)
      }),
    renew: (held) => send('renew', held, () => statements.renew(held)),
    release: (held) =>
      send('release', held, () => {
        const released = statements.release(held)
        checks.released(host, held, released)
        return released
      }),
    isHeld: (held) => send('isHeld', held, () => statements.isHeld(held)),
    fetch: (requests) => send('fetch', requests, () => statements.fetch(requests)),
    begin(attempts) {
      const given = attempts.map((one) => ({ ...one }))
      return send('begin', given, () => {
        const answer = statements.begin(given)
        checks.begun(host, given, answer.begun, timeline.now())
        return answer
      })
    },
    settle: (attempts) =>
      send('settle', attempts, () => {
        if (database.lacksPartition || attempts.some(world.isUnstorable)) throw dataError
        const tokens = new Map([...model.lanes].map(([id, lane]) => [id, lane.token]))
        const known = new Set(model.attempts.keys())
        const recorded = statements.settle(attempts)
        for (const { attempt } of attempts) {
          const isNew = model.attempts.has(attempt.attemptId) && !known.has(attempt.attemptId)
          if (isNew) checks.settled(host, attempt, tokens.get(attempt.laneId)!)
        }
        return recorded
      }),
  }
}

/** A receiver's side of one lane. */
function createSender(world: World, host: Host, laneId: number): Sender {
  const { timeline, checks } = world
  const interrupts = new Set<() => void>()

  function send({ eventId, sendByMs, mayStillSend }: SendRequest, done: (exchange: Exchange) => void): void {
    const behaviour = world.receive(laneId)
    let cancel = () => {}
    let isDone = false
    let request: ReturnType<typeof checks.sent> | null = null
    const end = (exchange: Exchange) => {
      if (isDone) return
      isDone = true
      world.trace(`${host.name}: event ${eventId} to lane ${laneId} ${exchange.status}`)
      interrupts.delete(interrupt)
      cancel()
      cancelDeadline()
      if (request !== null) checks.answered(request)
      done(exchange)
    }
    const interrupt = () => end(exchangeOf('interrupted', 0))
    interrupts.add(interrupt)

    const leave = () => {
      if (isDone) return
      world.trace(`${host.name} sends event ${eventId} to lane ${laneId}`)
      request = checks.sent(host, laneId, eventId)
      const { status, latencyMs, gone = false, retryAfterMs = null } = behaviour
      if (latencyMs >= world.attemptMsMax) return
      const answer = () => {
        if (gone) checks.gone(request!)
        end({ ...exchangeOf(status, latencyMs), gone, retryAfterMs })
      }
      cancel = timeline.after(latencyMs, answer, host)
    }
    const leaveIfAllowed = async () => {
      if (timeline.clockOf(host).now() <= sendByMs || (await mayStillSend().catch(() => false))) leave()
      else interrupt()
    }
    // One deadline covers everything, as in the real sender.
    const cancelDeadline = timeline.after(world.attemptMsMax, () => end(exchangeOf('failed', world.attemptMsMax)), host)
    const { connectMs = 0 } = behaviour
    if (connectMs === 0) void leaveIfAllowed()
    else cancel = timeline.after(connectMs, () => void leaveIfAllowed(), host)
  }

  return {
    send,
    interrupt() {
      for (const interrupt of [...interrupts]) interrupt()
    },
  }
}

const exchangeOf = (status: Exchange['status'], ms: number): Exchange => ({
  ...interrupted,
  status,
  durationUs: ms * 1_000,
  error: status === 'succeeded' ? null : { code: status === 'failed' ? 'timeout' : 'interrupted', detail: '' },
})
