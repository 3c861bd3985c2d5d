import type { NewAttempt } from '../../src/delivery/statements/begin.ts'
import { takeOut } from '../../src/lib/lists.ts'
import type { Model } from './model.ts'
import type { AttemptRow, LaneRow } from './tables.ts'
import type { Host } from './timeline.ts'

export type Request = { host: Host; laneId: number; eventId: string; attemptId: string; token: number }

export type Checks = ReturnType<typeof createChecks>

/** What must hold at every step, and what must hold at the end. The first violation ends the run. */
export function createChecks(
  model: Model,
  { laneConcurrencyMax, tries, probeMs }: { laneConcurrencyMax: number; tries: number; probeMs(): number },
) {
  /** Attempts that are on disk and whose request has not left, by host, lane and event. */
  const unsent = new Map<string, { attemptId: string; token: number }[]>()
  const requests: Request[] = []
  const inFlight = new Set<Request>()
  const newestFirst = new Map<number, number>()
  /** When each suspended lane was last tried. */
  const probes = new Map<number, number>()
  const begunIds = new Set<string>()
  const goneIds = new Set<string>()
  /** A standby took over without these attempts. */
  const lostIds = new Set<string>()
  let violation: string | null = null

  const fail = (text: string) => {
    violation ??= text
  }
  const keyOf = (host: Host, laneId: number, eventSeq: number) => `${host.name} ${laneId} ${eventSeq}`
  /** Under one lease: a process that was paused past its lease may lease the lane again, beside its earlier requests. */
  const inFlightOf = (host: Host, laneId: number, token: number) =>
    [...inFlight].filter((one) => one.host === host && one.laneId === laneId && one.token === token).length

  return {
    requests,
    fail,
    get violation() {
      return violation
    },
    /** A lane is leased: it must have been free, or its lease expired. */
    leased({ id, owner, dueMs }: LaneRow, nowMs: number): void {
      if (owner !== null && dueMs! > nowMs) fail(`lane ${id} is leased while ${owner} holds it`)
    },
    /** These attempts are on disk: first attempts in order, none left out, none twice; no webhook is paused or has changed. */
    begun(host: Host, attempts: readonly NewAttempt[], answer: ReadonlyMap<string, number>, nowMs: number): void {
      for (const { laneId, eventSeq, attempt, attemptId, token, version, early } of attempts) {
        // The same statement may arrive twice.
        if (!answer.has(attemptId) || begunIds.has(attemptId)) continue
        begunIds.add(attemptId)
        const lane = model.lanes.get(laneId)!
        if (lane.pausedMs !== null && lane.pausedMs > nowMs) fail(`lane ${laneId} is paused, and ${attemptId} begins`)
        if (lane.version !== version) fail(`${attemptId} of lane ${laneId} begins with settings of before`)
        const isRequested = model.inFlight.get(`${laneId} ${eventSeq}`)?.requested === true
        if (model.isSuspended(lane) && !isRequested) checkProbe(laneId, attemptId, nowMs)
        const key = keyOf(host, laneId, eventSeq)
        const begun = unsent.get(key) ?? []
        begun.push({ attemptId, token })
        unsent.set(key, begun)
        if (attempt > 1 || early) continue
        const next = model.deliveries.get(laneId)!.find((seq) => seq > (newestFirst.get(laneId) ?? 0))
        if (eventSeq !== next)
          fail(`lane ${laneId}: the first attempt of event ${eventSeq} begins, but ${next} is next`)
        newestFirst.set(laneId, eventSeq)
      }
    },
    /** A request leaves: its attempt must be on disk, begun by this process and not sent before. */
    sent(host: Host, laneId: number, eventId: string): Request {
      const key = keyOf(host, laneId, Math.floor(Number(eventId)))
      const begun = unsent.get(key) ?? []
      // After a takeover or failover there may be two: one that is interrupted or lost, and its successor.
      const isOpen = (id: string) => !model.attempts.has(id) && !lostIds.has(id)
      const attempt = begun.find((one) => isOpen(one.attemptId)) ?? begun[0]
      if (attempt === undefined)
        fail(`${host.name} sends event ${eventId} to lane ${laneId} without an attempt on disk`)
      else takeOut(begun, attempt)
      const request = { host, laneId, eventId, attemptId: '', token: 0, ...attempt }
      requests.push(request)
      inFlight.add(request)
      const count = inFlightOf(host, laneId, request.token)
      if (count > laneConcurrencyMax) fail(`lane ${laneId} has ${count} requests in flight`)
      return request
    },
    answered: (request: Request) => void inFlight.delete(request),
    /** The receiver answered 410: this delivery is finished. */
    gone: (request: Request) => void goneIds.add(request.attemptId),
    /** An outcome is recorded: only under the lane's current lease. */
    settled(host: Host, { laneId, eventSeq, token, attemptId }: NewAttempt, laneToken: number): void {
      // It may have ended before its request left.
      const begun = unsent.get(keyOf(host, laneId, eventSeq)) ?? []
      const attempt = begun.find((one) => one.attemptId === attemptId)
      if (attempt !== undefined) takeOut(begun, attempt)
      if (token !== laneToken) fail(`${attemptId} of lane ${laneId} is settled under an old lease`)
    },
    /** A lane is given back: its next holder must not send beside requests of this one. */
    released(host: Host, held: readonly { laneId: number; token: number }[], released: readonly number[]): void {
      for (const { laneId, token } of held) {
        if (released.includes(laneId) && inFlightOf(host, laneId, token) > 0)
          fail(`${host.name} gives lane ${laneId} back with requests in flight`)
      }
    },
    /** A standby has taken over: what it did not receive is gone. */
    promoted(): void {
      newestFirst.clear()
      probes.clear()
      for (const { id, cursorSeq } of model.lanes.values()) newestFirst.set(id, cursorSeq)
      const known = new Set([...model.inFlight.values()].map((one) => one.attemptId))
      for (const id of begunIds) if (!known.has(id) && !model.attempts.has(id)) lostIds.add(id)
    },
    /** A suspended webhook with a new URL is tried at once. */
    moved: (laneId: number) => void probes.delete(laneId),
    died(host: Host): void {
      for (const request of inFlight) if (request.host === host) inFlight.delete(request)
    },
    /** Every delivery is finished: nothing is waiting or in flight, and nothing was left out. */
    isFinished: (): boolean =>
      model.retries.size === 0 &&
      model.inFlight.size === 0 &&
      [...model.lanes.values()].every(
        ({ id, ended, cursorSeq }) => ended || cursorSeq >= (model.deliveries.get(id)!.at(-1) ?? 0),
      ),
    unfinished: (): string =>
      JSON.stringify({
        retries: [...model.retries.values()],
        inFlight: [...model.inFlight.values()],
        lanes: [...model.lanes.values()],
        wakes: model.wakes,
      }),
    atTheEnd(): void {
      const byDelivery = Map.groupBy(model.attempts.values(), (one) => `${one.laneId} ${one.eventSeq}`)
      for (const [laneId, seqs] of model.deliveries) {
        if (model.lanes.get(laneId)!.ended) continue
        for (const eventSeq of seqs) checkDelivery(laneId, eventSeq, byDelivery.get(`${laneId} ${eventSeq}`) ?? [])
      }
      for (const { attemptId, laneId, eventId } of requests) {
        const row = model.attempts.get(attemptId)
        if (row === undefined && !lostIds.has(attemptId))
          fail(`the request for event ${eventId} to lane ${laneId} has no row`)
        if (row !== undefined && model.eventOf(laneId, row.eventSeq)?.eventId !== eventId)
          fail(`the request for event ${eventId} to lane ${laneId} is recorded for another event`)
      }
    },
  }

  function checkProbe(laneId: number, attemptId: string, nowMs: number): void {
    const beforeMs = probes.get(laneId) ?? Number.NEGATIVE_INFINITY
    if (nowMs < beforeMs + probeMs()) fail(`lane ${laneId} is suspended, and ${attemptId} begins too soon`)
    probes.set(laneId, nowMs)
  }

  function checkDelivery(laneId: number, eventSeq: number, attempts: readonly AttemptRow[]): void {
    const what = `event ${eventSeq} to lane ${laneId}: ${attempts.map((one) => one.status).join(', ') || 'no attempt'}`
    if (attempts.some((one, i) => one.attempt !== i + 1)) fail(`${what}: attempts are not numbered one by one`)
    if (attempts.at(-1)?.status === 'succeeded' || attempts.some((one) => goneIds.has(one.attemptId))) return
    // Interrupted attempts do not count. A redelivery starts the schedule again, so there may be more than the schedule has.
    const failed = attempts.filter((one) => one.status === 'failed').length
    if (failed < tries) fail(`${what}: given up before the ${tries} tries of the schedule`)
  }
}
