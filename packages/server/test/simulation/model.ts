import type { OrgId, WebhookId } from '../../src/kernel/ids.ts'
import type { Announcement } from '../../src/store/delivery/announcements.ts'
import type { SettledAttempt } from '../../src/store/delivery/attempts.ts'
import type { BegunAttempt, Leftover } from '../../src/store/delivery/beginnings.ts'
import type { DueDelivery, ReadRequest } from '../../src/store/delivery/due.ts'
import type { HeldLane, LeasedLane } from '../../src/store/delivery/lanes.ts'
import type { DispatchStore } from '../../src/webhooks/dispatching/dispatch-store.ts'

/*
 * The tables of the delivery engine and the statements that dispatchers say to them, in memory. Each statement happens at
 * once, as a statement of PostgreSQL does. conformance.test.ts holds it against the real ones.
 */

type LaneRow = {
  id: number
  orgId: OrgId
  headSeq: number
  cursorSeq: number
  asked: number
  dueMs: number | null
  owner: string | null
  token: number
  server: number
  ended: boolean
  begun: readonly BegunAttempt[]
  begunNo: number
}
type RetryRow = { laneId: number; eventSeq: number; dueMs: number; attempt: number; tries: number }
type AttemptRow = { laneId: number; eventSeq: number; attempt: number; attemptId: string; status: string }

/** Every method of the dispatcher's store, without the waiting. */
export type Statements = {
  [Name in keyof DispatchStore]: (...given: Parameters<DispatchStore[Name]>) => Awaited<ReturnType<DispatchStore[Name]>>
}

const keyOf = (laneId: number, eventSeq: number) => `${laneId} ${eventSeq}`

export type Model = ReturnType<typeof createModel>

/** `freshMax`: how much news comes in full. Small, so that stories meet both sides of it. */
export function createModel(now: () => number, freshMax = 12) {
  const lanes = new Map<number, LaneRow>()
  const deliveries = new Map<number, number[]>()
  const events = new Map<string, { eventId: string; publishedMs: number }>()
  const lastSeq = new Map<OrgId, number>()
  const retries = new Map<string, RetryRow>()
  const attempts = new Map<string, AttemptRow>()
  let wakes: { orgId: OrgId; eventSeq: number }[] = []
  /** Lanes that somebody else has the lock of. Statements pass them over: how long they wait before that is nothing here. */
  const locked = new Set<number>()
  /** What a crash of the server could take back: commits that nobody has waited for, in their order. */
  let undo: (() => void)[] = []
  /** The how-manieth server this is: one that takes over from another, or is started again, is another. */
  let server = 1

  const onDisk = () => {
    undo = []
  }

  /** Changes lanes and wake-ups in a commit that does not wait for the disk. */
  function lazily<T>(change: () => T): T {
    const lanesBefore = [...lanes.values()].map((lane) => ({ ...lane }))
    const wakesBefore = wakes
    undo.push(() => {
      for (const lane of lanesBefore) Object.assign(lanes.get(lane.id)!, lane)
      wakes = wakesBefore
    })
    return change()
  }

  const retriesOf = (laneId: number) => [...retries.values()].filter((row) => row.laneId === laneId)
  /** Attempts that are on their way. */
  const sendingOf = (laneId: number) => lanes.get(laneId)!.begun.filter(({ attemptId }) => !attempts.has(attemptId))
  const heldBy = ({ laneId, token }: HeldLane) => {
    const lane = lanes.get(laneId)!
    return lane.token === token ? lane : undefined
  }
  const eventOf = (laneId: number, eventSeq: number) => events.get(`${lanes.get(laneId)!.orgId} ${eventSeq}`)!
  const dueDelivery = (laneId: number, eventSeq: number, row?: Pick<RetryRow, 'attempt' | 'tries'>): DueDelivery => ({
    laneId,
    eventSeq,
    eventId: eventOf(laneId, eventSeq).eventId,
    eventType: 'database.created',
    body: Buffer.alloc(0),
    publishedAtMs: eventOf(laneId, eventSeq).publishedMs,
    attempts: row?.attempt ?? 0,
    tries: row?.tries ?? 0,
  })

  const deliveriesOf = ({ orgId, eventSeq }: (typeof wakes)[number]) =>
    [...lanes.values()].flatMap((lane) =>
      lane.orgId === orgId && deliveries.get(lane.id)!.includes(eventSeq) ? [{ lane, eventSeq }] : [],
    )

  const statements: Statements = {
    news(owner, seen) {
      const told = wakes.filter(({ orgId, eventSeq }) => eventSeq > (seen.get(orgId) ?? 0))
      const published = told.flatMap(deliveriesOf)
      if (published.length > freshMax) return { lanes: [], seen: new Map(), forFree: false, complete: false }
      const fresh = new Map<LaneRow, DueDelivery[]>()
      for (const { lane, eventSeq } of published) {
        if (lane.owner === owner) fresh.set(lane, [...(fresh.get(lane) ?? []), dueDelivery(lane.id, eventSeq)])
      }
      return {
        lanes: [...fresh].map(([{ id, headSeq }, deliveries]) => {
          return { laneId: id, writtenSeq: headSeq, fresh: deliveries.toSorted((a, b) => a.eventSeq - b.eventSeq) }
        }),
        seen: new Map(told.map(({ orgId, eventSeq }) => [orgId, eventSeq])),
        forFree: published.some(({ lane }) => lane.owner === null),
        complete: true,
      }
    },

    wake: () =>
      lazily(() => {
        const woken = new Set<LaneRow>()
        for (const { lane, eventSeq } of wakes.flatMap(deliveriesOf)) {
          if (locked.has(lane.id) || eventSeq <= lane.headSeq) continue
          woken.add(lane)
          lane.headSeq = eventSeq
          if (!lane.ended && lane.owner === null && eventSeq > lane.cursorSeq)
            lane.dueMs = Math.min(lane.dueMs ?? now(), now())
        }
        wakes = wakes.filter((wake) =>
          deliveriesOf(wake).some(({ lane, eventSeq }) => locked.has(lane.id) && eventSeq > lane.headSeq),
        )
        const told = [...woken].map(({ id, headSeq, owner }) => ({ laneId: id, headSeq, held: owner !== null }))
        return { lanes: told, more: false }
      }),

    lease: ({ owner, lanesMax, leaseMs, exceptOrgs = [], exceptLanes = [] }) =>
      lazily(() => {
        const oldest = [...lanes.values()]
          .filter((lane) => lane.dueMs !== null && lane.dueMs <= now())
          .filter((lane) => !exceptOrgs.includes(lane.orgId) && !exceptLanes.includes(lane.id))
          .sort((a, b) => a.dueMs! - b.dueMs!)
          .slice(0, lanesMax * 4)
        const turns = new Map<OrgId, number>()
        const byTurn = oldest.map((lane) => {
          const turn = turns.get(lane.orgId) ?? 0
          turns.set(lane.orgId, turn + 1)
          return { lane, turn }
        })
        byTurn.sort((a, b) => a.turn - b.turn || a.lane.dueMs! - b.lane.dueMs!)
        const free = byTurn.slice(0, lanesMax).filter(({ lane }) => !locked.has(lane.id))
        return free.map(({ lane }): LeasedLane => {
          const takenOver = lane.begun.length > 0
          const token = Math.max(lane.token + 1, Math.floor(now() * 1_000))
          Object.assign(lane, { owner, token, dueMs: now() + leaseMs, begunNo: 0, server })
          const { id, orgId, cursorSeq, headSeq, asked } = lane
          const webhook = lane.ended ? null : { url: '', secret: { keyId: '', box: Buffer.alloc(0) } }
          const webhookId = `wh_${id}` as WebhookId
          const place = { laneId: id, orgId, webhookId, token, server: String(server) }
          return { ...place, cursorSeq, headSeq, asked, takenOver, webhook }
        })
      }),

    leftovers: (held) =>
      held.flatMap(({ laneId }) =>
        sendingOf(laneId).map((begun): Leftover => {
          const { attemptId, startedAtMs } = begun
          return { ...dueDelivery(laneId, begun.eventSeq, begun), attemptId, startedAtMs }
        }),
      ),

    read(requests) {
      const found = requests.flatMap(({ laneId, afterSeq, firstsMax, retriesMax }: ReadRequest) => [
        ...deliveries
          .get(laneId)!
          .filter((eventSeq) => eventSeq > afterSeq)
          .slice(0, firstsMax)
          .map((eventSeq) => dueDelivery(laneId, eventSeq)),
        ...retriesOf(laneId)
          .filter((row) => row.dueMs <= now())
          .sort((a, b) => a.dueMs - b.dueMs)
          .slice(0, retriesMax)
          .map((row) => dueDelivery(laneId, row.eventSeq, row)),
      ])
      return found.sort((a, b) => a.eventSeq - b.eventSeq)
    },

    begin(beginnings) {
      onDisk()
      const mayGo = new Map<number, ReadonlyMap<number, number> | 'locked' | 'gap'>()
      for (const { laneId, token, no, fresh, unsettled, surmised } of beginnings) {
        const lane = heldBy({ laneId, token })
        if (lane === undefined || lane.ended || lane.owner === null) continue
        if (lane.begunNo > no || lane.server !== server) continue
        const newestSeq = Math.max(...fresh.filter(({ attempt }) => attempt === 1).map(({ eventSeq }) => eventSeq))
        const isAfter = (seq: number) => surmised !== null && seq > surmised.afterSeq && seq <= newestSeq
        if (surmised !== null && deliveries.get(laneId)!.filter(isAfter).length !== surmised.count) {
          mayGo.set(laneId, 'gap')
          continue
        }
        if (locked.has(laneId)) {
          mayGo.set(laneId, 'locked')
          continue
        }
        const tries = new Map<number, number>()
        mayGo.set(laneId, tries)
        Object.assign(lane, { begun: unsettled, begunNo: no })
        for (const { eventSeq, attempt } of fresh) {
          const retry = retries.get(keyOf(laneId, eventSeq))
          if (attempt === 1) {
            lane.cursorSeq = Math.max(lane.cursorSeq, eventSeq)
            lane.headSeq = Math.max(lane.headSeq, eventSeq)
          } else if (retry !== undefined && retry.attempt < attempt) {
            retries.delete(keyOf(laneId, eventSeq))
            tries.set(eventSeq, retry.tries)
          }
        }
      }
      return mayGo
    },

    settle(settled: readonly SettledAttempt[]) {
      onDisk()
      let ours = 0
      for (const { begun, outcome, tries, retryMs } of settled) {
        const { laneId, eventSeq, attemptId, attempt, token, begunNo } = begun
        const lane = heldBy({ laneId, token })
        if (lane === undefined || lane.begunNo < begunNo || attempts.has(attemptId)) continue
        ours += 1
        attempts.set(attemptId, { laneId, eventSeq, attempt, attemptId, status: outcome.status })
        if (retryMs === null || lane.ended || retries.has(keyOf(laneId, eventSeq))) continue
        retries.set(keyOf(laneId, eventSeq), { laneId, eventSeq, dueMs: now() + retryMs, attempt, tries })
      }
      return ours
    },

    isHeld(held) {
      const lane = heldBy(held)
      return lane !== undefined && !lane.ended && lane.owner !== null && lane.server === server
    },

    renew: (held, leaseMs) =>
      lazily(() =>
        held.flatMap((one) => {
          const lane = heldBy(one)
          if (lane === undefined || lane.owner === null || lane.server !== server) return []
          if (!locked.has(lane.id)) lane.dueMs = now() + leaseMs
          return [{ laneId: lane.id, headSeq: lane.headSeq, asked: lane.asked }]
        }),
      ),

    peek: (held) =>
      held.flatMap(({ laneId, headSeq, asked }) => {
        const lane = lanes.get(laneId)!
        const hasNews = lane.headSeq > headSeq || lane.asked !== asked
        return hasNews ? [{ laneId, headSeq: lane.headSeq, asked: lane.asked }] : []
      }),

    release: (held) =>
      lazily(() =>
        held.flatMap((one) => {
          const lane = heldBy(one)
          if (lane === undefined || locked.has(lane.id)) return []
          const isQuiet = lane.ended || (lane.headSeq <= lane.cursorSeq && lane.asked === one.asked)
          const isAsHeld = lane.begunNo === one.begunNo && lane.server === server
          if (!one.abandon && !(isQuiet && isAsHeld)) return []
          lane.owner = null
          if (one.settled && isAsHeld) lane.begun = []
          const waiting = retriesOf(lane.id).map((row) => row.dueMs)
          if (lane.ended) lane.dueMs = lane.begun.length > 0 ? now() : null
          else if (one.abandon) lane.dueMs = now()
          else lane.dueMs = waiting.length > 0 ? Math.min(...waiting) : null
          return [lane.id]
        }),
      ),
  }

  return {
    statements,
    lanes,
    locked,
    deliveries,
    retries,
    attempts,
    sendingOf,
    eventOf,
    get server() {
      return server
    },
    addLane(orgId: OrgId): number {
      const id = lanes.size + 1
      const nothing = {
        headSeq: 0,
        cursorSeq: 0,
        asked: 0,
        dueMs: null,
        owner: null,
        token: 0,
        server: 0,
        ended: false,
      }
      lanes.set(id, { id, orgId, ...nothing, begun: [], begunNo: 0 })
      deliveries.set(id, [])
      return id
    },
    /** An event for every lane of the organization whose webhook is there, or a sample for one of them. */
    publish(orgId: OrgId, only?: number): number {
      onDisk()
      const eventSeq = (lastSeq.get(orgId) ?? 0) + 1
      lastSeq.set(orgId, eventSeq)
      // Of two servers that give the same number, each has its own event.
      events.set(`${orgId} ${eventSeq}`, { eventId: `${eventSeq}.${server}`, publishedMs: now() })
      for (const lane of lanes.values()) {
        if (lane.orgId === orgId && !lane.ended && (only ?? lane.id) === lane.id)
          deliveries.get(lane.id)!.push(eventSeq)
      }
      wakes = [...wakes, { orgId, eventSeq }]
      return eventSeq
    },
    /** What their publisher says of events. */
    announce(orgId: OrgId, seqs: readonly number[]): Announcement {
      const announced = seqs.map((seq) => {
        const laneIds = deliveriesOf({ orgId, eventSeq: seq }).map(({ lane }) => lane.id)
        const { eventId, publishedMs } = events.get(`${orgId} ${seq}`)!
        return { id: eventId, type: 'database.created' as const, body: '', seq, publishedAtMs: publishedMs, laneIds }
      })
      return { orgId, server: String(server), events: announced }
    },
    /** Deletes the webhook of a lane. */
    end(laneId: number): void {
      onDisk()
      const lane = lanes.get(laneId)!
      lane.ended = true
      if (lane.owner === null) lane.dueMs = lane.begun.length > 0 ? now() : null
      for (const { eventSeq } of retriesOf(laneId)) retries.delete(keyOf(laneId, eventSeq))
    },
    redeliver(laneId: number, eventSeq: number): boolean {
      onDisk()
      const lane = lanes.get(laneId)!
      const key = keyOf(laneId, eventSeq)
      const isIts = (one: { laneId: number; eventSeq: number }) => one.laneId === laneId && one.eventSeq === eventSeq
      const made = [...attempts.values()].filter(isIts).map((one) => one.attempt)
      if (lane.ended || made.length === 0 || sendingOf(laneId).some(isIts)) return false
      const attempt = Math.max(...made)
      retries.set(key, { laneId, eventSeq, attempt, ...retries.get(key), dueMs: now(), tries: 0 })
      lane.asked += 1
      if (lane.owner === null) lane.dueMs = Math.min(lane.dueMs ?? now(), now())
      return true
    },
    /** The server crashes: of the commits that nobody waited for, the last few are lost. Only one that ended is started again. */
    crash(lost: (commits: number) => number, ends: boolean): void {
      for (let count = lost(undo.length); count > 0; count--) undo.pop()!()
      if (ends) server += 1
    },
    /** What a standby has got so far. The function it returns makes it the primary: all that was committed since is lost. */
    standBy(): () => void {
      const tables = [lanes, deliveries, events, lastSeq, retries, attempts] as Map<unknown, unknown>[]
      const copies = structuredClone(tables)
      const wakesThen = wakes
      return () => {
        tables.forEach((table, i) => {
          table.clear()
          for (const [key, row] of copies[i]!) table.set(key, row)
        })
        wakes = wakesThen
        undo = []
        server += 1
      }
    },
  }
}
