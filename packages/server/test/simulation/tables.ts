import type { OrgId } from '../../src/lib/ids.ts'

export type LaneRow = {
  id: number
  orgId: OrgId
  headSeq: number
  cursorSeq: number
  redeliveryRequests: number
  dueMs: number | null
  owner: string | null
  token: number
  server: number
  ended: boolean
  version: number
  pausedMs: number | null
  rateLimit: number | null
  failures: number
  isFailing: boolean
  suspendedMs: number | null
  probeMs: number | null
  resumes: boolean
}
/** `attempt`: the complement of the number for a test event that does not wait for its turn, so -1 before its first attempt. */
export type RetryRow = {
  laneId: number
  eventSeq: number
  dueMs: number
  attempt: number
  tries: number
  redelivered: boolean
}
export type InFlightRow = {
  laneId: number
  eventSeq: number
  attemptId: string
  token: number
  attempt: number
  tries: number
  startedAtMs: number
  redelivered: boolean
  requested: boolean
}
export type AttemptRow = { laneId: number; eventSeq: number; attempt: number; attemptId: string; status: string }
type WakeRow = { orgId: OrgId; firstSeq: number; lastSeq: number }

export const keyOf = (laneId: number, eventSeq: number) => `${laneId} ${eventSeq}`

/** The tables of the delivery engine in memory, and what others than dispatchers do with them. */
export function createTables(now: () => number) {
  const lanes = new Map<number, LaneRow>()
  const deliveries = new Map<number, number[]>()
  const events = new Map<string, { eventId: string; publishedMs: number; sequence: number | null }>()
  const lastSeq = new Map<OrgId, number>()
  const lastSequence = new Map<OrgId, number>()
  const retries = new Map<string, RetryRow>()
  const inFlight = new Map<string, InFlightRow>()
  const attempts = new Map<string, AttemptRow>()
  let wakes: readonly WakeRow[] = []
  /** Lanes whose row another transaction has locked. */
  const locked = new Set<number>()
  /** How to take back the asynchronous commits since the last flush, oldest first. */
  let unflushed: (() => void)[][] = []
  let undo: (() => void)[] = []
  /** Counts starts of the server: a restarted one and a promoted standby are new ones. */
  let server = 1

  /** A commit that waits for the disk. It takes all earlier ones with it. */
  const flush = () => {
    unflushed = []
    undo = []
  }

  /** A commit that does not wait for the disk. */
  function asynchronous<T>(change: () => T): T {
    undo = []
    const result = change()
    if (undo.length > 0) unflushed.push(undo)
    undo = []
    return result
  }

  function update(lane: LaneRow, values: Partial<LaneRow>): void {
    const before = { ...lane }
    undo.push(() => Object.assign(lane, before))
    Object.assign(lane, values)
  }

  function deleteWakes(done: readonly WakeRow[]): void {
    const before = wakes
    undo.push(() => {
      wakes = before
    })
    wakes = wakes.filter((wake) => !done.includes(wake))
  }

  const retriesOf = (laneId: number) => [...retries.values()].filter((row) => row.laneId === laneId)
  const inFlightOf = (laneId: number) => [...inFlight.values()].filter((row) => row.laneId === laneId)

  const isSuspended = ({ suspendedMs }: LaneRow) => suspendedMs !== null && suspendedMs > now()

  /** The holder of the lane, or the next one, looks for what is due. */
  function request(lane: LaneRow): void {
    lane.redeliveryRequests += 1
    becomeDue(lane)
  }

  function becomeDue(lane: LaneRow): void {
    if (lane.owner !== null) return
    lane.dueMs = Math.min(lane.dueMs ?? Number.POSITIVE_INFINITY, Math.max(now(), lane.pausedMs ?? 0))
  }

  const eventOf = (laneId: number, eventSeq: number) => events.get(`${lanes.get(laneId)!.orgId} ${eventSeq}`)

  return {
    lanes,
    deliveries,
    retries,
    inFlight,
    attempts,
    locked,
    get wakes() {
      return wakes
    },
    get server() {
      return server
    },
    flush,
    asynchronous,
    update,
    deleteWakes,
    retriesOf,
    inFlightOf,
    eventOf,
    /** The public number of the event that the lane got before this one. */
    previousSequence(laneId: number, eventSeq: number): number | null {
      const isEarlier = (seq: number) => seq < eventSeq && eventOf(laneId, seq)!.sequence !== null
      const earlier = deliveries.get(laneId)!.findLast(isEarlier)
      return earlier === undefined ? null : eventOf(laneId, earlier)!.sequence
    },
    addLane(orgId: OrgId): number {
      const id = lanes.size + 1
      lanes.set(id, {
        id,
        orgId,
        headSeq: 0,
        cursorSeq: 0,
        redeliveryRequests: 0,
        dueMs: null,
        owner: null,
        token: 0,
        server: 0,
        ended: false,
        version: 0,
        pausedMs: null,
        rateLimit: null,
        failures: 0,
        isFailing: false,
        suspendedMs: null,
        probeMs: null,
        resumes: false,
      })
      deliveries.set(id, [])
      return id
    },
    /** Events for every lane of the organization whose webhook exists, or test events for one of them. */
    publish(orgId: OrgId, { count = 1, only }: { count?: number; only?: number | undefined } = {}): number[] {
      const firstSeq = (lastSeq.get(orgId) ?? 0) + 1
      const seqs = Array.from({ length: count }, (_, i) => firstSeq + i)
      lastSeq.set(orgId, firstSeq + count - 1)
      // Two servers may give the same number to two events.
      for (const seq of seqs) {
        const sequence = only === undefined ? (lastSequence.get(orgId) ?? 0) + 1 : null
        if (sequence !== null) lastSequence.set(orgId, sequence)
        events.set(`${orgId} ${seq}`, { eventId: `${seq}.${server}`, publishedMs: now(), sequence })
      }
      const suspended = only !== undefined && isSuspended(lanes.get(only)!) ? lanes.get(only)! : null
      if (suspended !== null && !suspended.ended) {
        for (const eventSeq of seqs) {
          const row = { laneId: suspended.id, eventSeq, dueMs: now(), attempt: -1, tries: 0, redelivered: false }
          retries.set(keyOf(suspended.id, eventSeq), row)
          request(suspended)
        }
        flush()
        return seqs
      }
      for (const lane of lanes.values()) {
        if (lane.orgId === orgId && !lane.ended && (only ?? lane.id) === lane.id) deliveries.get(lane.id)!.push(...seqs)
      }
      wakes = [...wakes, { orgId, firstSeq, lastSeq: firstSeq + count - 1 }]
      flush()
      return seqs
    },
    /** Deletes the webhook of a lane. */
    end(laneId: number): void {
      const lane = lanes.get(laneId)!
      if (lane.owner === null) lane.dueMs = inFlightOf(laneId).length > 0 ? now() : null
      lane.ended = true
      for (const { eventSeq } of retriesOf(laneId)) retries.delete(keyOf(laneId, eventSeq))
      flush()
    },
    pause(laneId: number, untilMs: number): void {
      const lane = lanes.get(laneId)!
      if (lane.ended) return
      lane.pausedMs = untilMs
      if (lane.owner === null) lane.dueMs = inFlightOf(laneId).length > 0 ? now() : untilMs
      flush()
    },
    resume(laneId: number): void {
      const lane = lanes.get(laneId)!
      if (lane.ended) return
      lane.pausedMs = null
      if (lane.owner === null) lane.dueMs = now()
      flush()
    },
    /** Suspends every webhook that fails and was not suspended since its last success. Returns how many. */
    suspendFailing(times: { probeMs: number; suspensionMs: number }): number {
      const isPaused = ({ pausedMs }: LaneRow) => pausedMs !== null && pausedMs > now()
      const failing = [...lanes.values()].filter(
        (lane) => lane.isFailing && lane.suspendedMs === null && !lane.ended && !isPaused(lane) && !locked.has(lane.id),
      )
      for (const lane of failing) {
        lane.suspendedMs = now() + times.suspensionMs
        lane.probeMs = now() + times.probeMs
        if (lane.owner === null) lane.dueMs = Math.min(lane.dueMs ?? Number.POSITIVE_INFINITY, lane.probeMs)
      }
      flush()
      return failing.length
    },
    isSuspended,
    request,
    /** Changes what is sent and how, and the URL too if `moves`. */
    change(laneId: number, rateLimit: number | null, moves = false): void {
      const lane = lanes.get(laneId)!
      if (lane.ended) return
      lane.rateLimit = rateLimit
      lane.version += 1
      if (moves && isSuspended(lane)) {
        lane.probeMs = now()
        becomeDue(lane)
      }
      flush()
    },
    /** Returns false when an attempt is in flight, or none was made, or the webhook is deleted. */
    redeliver(laneId: number, eventSeq: number): boolean {
      const lane = lanes.get(laneId)!
      const key = keyOf(laneId, eventSeq)
      const made = [...attempts.values()].filter((one) => one.laneId === laneId && one.eventSeq === eventSeq)
      if (lane.ended || made.length === 0 || inFlight.has(key)) return false
      const attempt = Math.max(...made.map((one) => one.attempt))
      retries.set(key, { laneId, eventSeq, attempt, ...retries.get(key), dueMs: now(), tries: 0, redelivered: true })
      request(lane)
      flush()
      return true
    },
    /** The server crashes and loses the last asynchronous commits. Unless `restarts`, the postmaster survives. */
    crash(lost: (commits: number) => number, restarts: boolean): void {
      for (let count = lost(unflushed.length); count > 0; count--) {
        for (const restore of unflushed.pop()!.reverse()) restore()
      }
      unflushed = []
      if (restarts) server += 1
    },
    /** What a standby has received so far. The returned function promotes it: everything committed since is lost. */
    standby(): () => void {
      const tables = [lanes, deliveries, events, lastSeq, lastSequence, retries, inFlight, attempts] as Map<
        unknown,
        unknown
      >[]
      const copies = structuredClone(tables)
      const wakesThen = wakes
      return () => {
        tables.forEach((table, i) => {
          table.clear()
          for (const [key, row] of copies[i]!) table.set(key, row)
        })
        wakes = wakesThen
        flush()
        server += 1
      }
    },
  }
}
