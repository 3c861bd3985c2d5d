import { expect, onTestFinished, test } from 'vitest'
import { interrupted } from '../../src/delivery/dispatcher/outcome.ts'
import type { DispatchStore } from '../../src/delivery/dispatcher/ports.ts'
import { createDispatchStore } from '../../src/delivery/engine.ts'
import type { NewAttempt } from '../../src/delivery/statements/begin.ts'
import type { DueDelivery } from '../../src/delivery/statements/fetch.ts'
import { wakeLanes } from '../../src/delivery/statements/wake.ts'
import { type OrgId, uuid7 } from '../../src/lib/ids.ts'
import { elevenDaysMs, modelRows, sorted } from './comparable.ts'
import { createDatabaseTables } from './database-tables.ts'
import { createModel, type Statements } from './model.ts'
import { type Random, seededRandom } from './random.ts'
import { keyOf } from './tables.ts'

/*
 * The simulation is only as good as its model of the database. Here the model and the real statements get the same calls, in an
 * order that is drawn from a seed, and have to give the same answers and hold the same rows. Every delay is zero or eleven days, so
 * that the result does not depend on the speed of the machine.
 */

const steps = 500
const wakesMax = 2

type Tokens = { model: number; real: number }
type Held = { laneId: number; redeliveryRequests: number; version: number; tokens: Tokens }
type Begun = Omit<NewAttempt, 'token'> & { tokens: Tokens }

const counts = new Map<string, number>()
const count = (what: string, times: number) => void counts.set(what, (counts.get(what) ?? 0) + times)

test.each([1, 2, 3, 4, 5, 6])('the model behaves like the real statements (seed %i)', async (seed) => {
  const random = seededRandom(seed)
  const real = await createDatabaseTables()
  onTestFinished(real.close)
  const { db } = real
  let leaseMs = 0
  let probeMs = 0
  let nowMs = 1_700_000_000_000
  const model = createModel({ now: () => nowMs++, leaseMs: () => leaseMs, probeMs: () => probeMs, wakesMax })
  const orgs = ['org_a', 'org_b'] as OrgId[]
  for (const org of orgs) for (let i = 0; i < 3; i++) await real.addLane(org, model.addLane(org))

  const held: Held[] = []
  const due: DueDelivery[] = []
  const begun: Begun[] = []
  const cursors = [{ orgId: '', firstSeq: 0 }]

  const storeWith = (ms: number): DispatchStore => ({
    ...createDispatchStore(db, { leaseMs: ms, probeMs }),
    wake: (after) => wakeLanes(db, after, wakesMax),
  })
  /** Calls both with their own tokens, and compares the answers. */
  async function both<Name extends keyof DispatchStore>(
    name: Name,
    args: (side: 'model' | 'real') => Parameters<DispatchStore[Name]>,
    comparable: (answer: Awaited<ReturnType<DispatchStore[Name]>>) => unknown = (answer) => answer,
  ) {
    leaseMs = random.pick([0, elevenDaysMs])
    probeMs = random.pick([0, elevenDaysMs])
    const statement = storeWith(leaseMs)[name] as (...given: unknown[]) => Promise<never>
    const fromReal = await statement(...args('real'))
    const modelled = (model.statements[name] as (...given: unknown[]) => never)(...args('model'))
    expect(sorted(comparable(modelled)), `${name} (seed ${seed})`).toEqual(sorted(comparable(fromReal)))
    return { modelled, fromReal } as {
      modelled: ReturnType<Statements[Name]>
      fromReal: Awaited<ReturnType<DispatchStore[Name]>>
    }
  }
  const withToken = <T extends { tokens: Tokens }>({ tokens, ...rest }: T, side: 'model' | 'real') => ({
    ...rest,
    token: tokens[side],
  })
  /** Statements do not order what they return, and the next draws depend on it. */
  const inOrder = <T extends { laneId: number; eventSeq?: number }>(answer: readonly T[]) =>
    answer.toSorted((a, b) => a.laneId - b.laneId || (a.eventSeq ?? 0) - (b.eventSeq ?? 0))
  const pickSome = <T>(draw: Random, from: readonly T[]) => from.filter(() => draw.chance(0.5))
  /** The newest lease of a lane, or now and then an old one. */
  const tokensOf = (draw: Random, laneId: number) => {
    const all = held.filter((one) => one.laneId === laneId)
    return (draw.chance(0.9) ? all.at(-1) : all[0])?.tokens
  }

  const isSuspended = (laneId: number) => model.isSuspended(model.lanes.get(laneId)!)
  const lanesOf = (org: OrgId) => [...model.lanes.values()].flatMap((lane) => (lane.orgId === org ? lane.id : []))

  const statements: ((draw: Random) => Promise<unknown>)[] = [
    async (draw) => {
      const [org, count] = [draw.pick(orgs), draw.chance(0.03) ? 1_001 : draw.int(1, 3)]
      const suspended = lanesOf(org).filter((id) => isSuspended(id) && !model.locked.has(id))
      // A test event for a suspended webhook waits for the lock of its lane.
      const others = lanesOf(org).filter((id) => !isSuspended(id))
      const to = suspended.length > 0 && draw.chance(0.8) ? suspended : others
      const only = to.length > 0 && draw.chance(to === suspended ? 0.6 : 0.3) ? draw.pick(to) : undefined
      const events = { count: only === undefined ? count : 1, only }
      model.publish(org, events)
      await real.publish(org, events)
    },
    async (draw) => {
      const after = draw.pick(cursors)
      const { modelled } = await both('wake', () => [after])
      if (modelled.next !== null) cursors.push(modelled.next)
      count('woken', modelled.free)
    },
    async (draw) => {
      const request = {
        owner: draw.pick(['a', 'b']),
        lanesMax: 100,
        leaseMs: draw.chance(0.8) ? elevenDaysMs : 0,
        exceptOrgs: draw.chance(0.2) ? [draw.pick(orgs)] : [],
        exceptLanes: draw.chance(0.2) ? [draw.pick([...model.lanes.keys()])] : [],
      }
      const { modelled, fromReal } = await both(
        'lease',
        () => [request],
        (lanes) => lanes.map(({ token, webhookId, webhook, ...lane }) => ({ ...lane, limit: webhook?.rateLimit })),
      )
      for (const { laneId, token, redeliveryRequests, version } of inOrder(fromReal)) {
        const tokens = { real: token, model: modelled.find((lane) => lane.laneId === laneId)!.token }
        held.push({ laneId, redeliveryRequests, version, tokens })
      }
    },
    (draw) => {
      const some = pickSome(draw, held)
      return both('interrupt', (side) => [some.map((lane) => withToken(lane, side))])
    },
    async (draw) => {
      const requests = pickSome(draw, [...model.lanes.values()]).map(({ id, orgId, cursorSeq }) => ({
        laneId: id,
        orgId,
        afterSeq: draw.chance(0.8) ? cursorSeq : draw.int(0, 5),
        firstsMax: draw.int(0, 5),
        retriesMax: draw.pick([0, 100, 100]),
        suspended: draw.chance(0.9) === isSuspended(id),
      }))
      const { fromReal } = await both(
        'fetch',
        () => [requests],
        (found) =>
          found.map(({ laneId, eventSeq, eventId, attempts, tries, requested, early }) => ({
            laneId,
            eventSeq,
            eventId,
            attempts,
            tries,
            requested,
            early,
          })),
      )
      due.push(...inOrder(fromReal))
    },
    async (draw) => {
      const retries = due.filter((one) => one.attempts > 0).slice(-2)
      const deliveries = new Map(
        [...due.splice(-draw.int(1, 4)), ...retries].map((one) => [`${one.laneId} ${one.eventSeq}`, one]),
      )
      const lanes = new Map([...model.lanes.keys()].map((laneId) => [laneId, tokensOf(draw, laneId)]))
      // Now and then the settings have changed since the holder read them.
      const versions = new Map(
        [...model.lanes.values()].map(({ id, version }) => [id, draw.chance(0.95) ? version : version - 1]),
      )
      const suspended = new Map(lanes.keys().map((id) => [id, draw.chance(0.95) === isSuspended(id)]))
      const given: Begun[] = []
      for (const { laneId, eventSeq, attempts, tries, early } of deliveries.values()) {
        const tokens = lanes.get(laneId)
        const attempt = attempts + (draw.chance(0.95) ? 1 : 2)
        if (tokens === undefined) continue
        const version = versions.get(laneId)!
        const attemptId = uuid7(Date.now())
        const what = { laneId, eventSeq, attempt, tries, early, suspended: suspended.get(laneId)! }
        given.push({ ...what, tokens, version, attemptId, startedAtMs: Date.now() })
      }
      const call = () =>
        both(
          'begin',
          (side) => [given.map((one) => withToken(one, side))],
          (answer) => [...answer.lanes, ...answer.begun].map(String),
        )
      const { modelled } = await call()
      // Now and then twice, as after an answer that was lost.
      if (draw.chance(0.3)) count('begun again', (await call()).modelled.begun.size)
      begun.push(...given)
      const isBegun = (one: Begun) => modelled.begun.has(one.attemptId)
      count('first attempts', given.filter((one) => isBegun(one) && one.attempt === 1).length)
      count('retries', given.filter((one) => isBegun(one) && one.attempt > 1).length)
      count('begun while suspended', given.filter((one) => isBegun(one) && one.suspended).length)
      count(
        'test events before their turn',
        given.filter((one) => isBegun(one) && one.early && one.attempt === 1).length,
      )
    },
    async (draw) => {
      const some = draw.chance(0.8) ? begun.splice(-draw.int(1, 3)) : pickSome(draw, begun.slice(-3))
      const settled = some.map((attempt) => {
        const { isFailing } = model.lanes.get(attempt.laneId)!
        const status = draw.chance(isFailing ? 0.6 : 0.95)
          ? ('failed' as const)
          : draw.pick(['succeeded', 'interrupted'] as const)
        const code = draw.pick(['timeout', 'timeout', 'timeout', 'sender_exhausted'] as const)
        const outcome = { ...interrupted, status, error: status === 'failed' ? { code, detail: null } : null }
        return { attempt, outcome, retryMs: draw.pick([null, 0, 0, elevenDaysMs]) }
      })
      await both(
        'settle',
        (side) => [
          settled.map(({ attempt, outcome, retryMs }) => ({
            attempt: withToken(attempt, side),
            outcome,
            tries: attempt.tries + 1,
            retryMs,
          })),
        ],
        ({ recorded, postponed }) => [recorded, ...postponed],
      )
      begun.push(
        ...some.filter((one) => model.inFlight.get(keyOf(one.laneId, one.eventSeq))?.attemptId === one.attemptId),
      )
    },
    (draw) => {
      const some = pickSome(draw, held)
      return both(
        'renew',
        (side) => [some.map((lane) => withToken(lane, side))],
        (lanes) =>
          lanes.map(({ changed, ...lane }) => ({ ...lane, to: changed && [changed.version, changed.rateLimit] })),
      )
    },
    async (draw) => {
      if (held.length === 0) return
      const lane = draw.pick(held.slice(-6))
      await both(
        'isHeld',
        (side) => [withToken(lane, side)],
        (isHeld) => [isHeld],
      )
    },
    async (draw) => {
      const some = pickSome(draw, held.slice(-4)).map((lane) => {
        const current = model.lanes.get(lane.laneId)!.redeliveryRequests
        return {
          ...lane,
          abandon: draw.chance(0.2),
          redeliveryRequests: draw.chance(0.7) ? current : lane.redeliveryRequests,
        }
      })
      const once = new Map(some.map((lane) => [lane.laneId, lane]))
      const { modelled } = await both('release', (side) => [[...once.values()].map((lane) => withToken(lane, side))])
      count('released', modelled.length)
    },
  ]

  const suspending: typeof statements = [
    async (draw) => {
      // Failures of different times would seldom follow each other.
      const lane = draw.pick([...model.lanes.values()])
      if (lane.ended || model.locked.has(lane.id)) return
      lane.failures = Math.max(lane.failures, 2)
      await db`update keyhook.lanes set failures = greatest(failures, 2) where id = ${lane.id}`
    },
    async (draw) => {
      const times = {
        probeMs: draw.pick([0, 0, elevenDaysMs]),
        suspensionMs: draw.pick([0, elevenDaysMs, elevenDaysMs]),
      }
      const suspended = model.suspendFailing(times)
      expect(await real.suspendFailing(times)).toBe(suspended)
      count('suspended', suspended)
    },
    async (draw) => {
      // The receiver of one has answered. A success of its own would seldom follow.
      const suspended = [...model.lanes.values()].filter(({ suspendedMs, ended }) => suspendedMs !== null && !ended)
      if (suspended.length > 0 && draw.chance(0.2)) {
        const lane = draw.pick(suspended)
        lane.resumes = true
        await db`update keyhook.lanes set resumes = true where id = ${lane.id}`
      }
      const ended = model.endSuspensions()
      expect(await real.endSuspensions()).toBe(ended)
      count('suspensions that ended', ended)
    },
  ]

  const actions: ((draw: Random) => Promise<unknown>)[] = [
    ...statements,
    // Most of the time attempts begin and end.
    ...statements.slice(4, 7),
    ...statements.slice(4, 7),
    ...statements.slice(4, 7),
    // Another transaction has a lane locked while statements run.
    async (draw) => {
      const laneId = draw.pick([...model.lanes.keys()])
      model.locked.add(laneId)
      await real.whileLocked(laneId, async () => {
        for (let i = 0; i < 4; i++) await draw.pick(statements)(draw)
      })
      model.locked.delete(laneId)
    },
    async (draw) => {
      if (model.attempts.size === 0) return
      const { laneId, eventSeq, attemptId } = draw.pick([...model.attempts.values()])
      expect(model.redeliver(laneId, eventSeq)).toBe(await real.redeliver(laneId, attemptId))
    },
    async (draw) => {
      if (draw.chance(0.5)) return
      const laneId = draw.pick([...model.lanes.keys()])
      const ms = draw.pick([-1, elevenDaysMs])
      if (model.lanes.get(laneId)!.ended) return
      model.pause(laneId, nowMs + ms)
      await real.pause(laneId, ms)
      count(ms > 0 ? 'paused' : 'pauses that ended', 1)
    },
    ...suspending,
    ...suspending,
    ...suspending,
    async (draw) => {
      const laneId = draw.pick([...model.lanes.keys()])
      if (model.lanes.get(laneId)!.ended) return
      model.resume(laneId)
      await real.resume(laneId)
    },
    async (draw) => {
      const suspended = [...model.lanes.keys()].filter(isSuspended)
      const laneId = draw.pick(suspended.length > 0 && draw.chance(0.5) ? suspended : [...model.lanes.keys()])
      const rateLimit = draw.pick([null, 0.5, 100])
      const moves = isSuspended(laneId) || draw.chance(0.2)
      if (draw.chance(moves ? 0.1 : 0.5) || model.lanes.get(laneId)!.ended) return
      if (moves && isSuspended(laneId)) count('moved while suspended', 1)
      model.change(laneId, rateLimit, moves)
      await real.change(laneId, rateLimit, moves)
    },
    async (draw) => {
      if (draw.chance(0.9)) return
      // Another server takes over; the leases were granted by its predecessor.
      model.standby()()
      await real.changeServer()
    },
    async (draw) => {
      if (draw.chance(0.95)) return
      const laneId = draw.pick([...model.lanes.keys()])
      model.end(laneId)
      await real.end(laneId)
    },
  ]

  for (let step = 0; step < steps; step++) {
    await random.pick(actions)(random)
    const rows = await real.rows()
    for (const table of ['lanes', 'wakes', 'retries', 'inFlight', 'attempts', 'changes'] as const) {
      expect(sorted(modelRows(model)[table]), `${table} after step ${step} (seed ${seed})`).toEqual(sorted(rows[table]))
    }
  }
  for (const { status } of model.attempts.values()) count(status, 1)
  for (const { kind } of model.changes) count(kind, 1)
})

test('the runs above begin, settle, interrupt, retry, wake and release', () => {
  for (const what of [
    'woken',
    'first attempts',
    'retries',
    'begun again',
    'failed',
    'interrupted',
    'released',
    'paused',
    'failing',
    'suspended',
    'suspensions that ended',
    'recovered',
    'begun while suspended',
    'moved while suspended',
    'test events before their turn',
  ]) {
    expect(counts.get(what), what).toBeGreaterThan(5)
  }
})
