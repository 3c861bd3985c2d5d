import type { Beginning, MayGo } from '../../src/store/delivery/beginnings.ts'
import type { Model } from './model.ts'
import type { Host } from './timeline.ts'

export type Request = { host: Host; laneId: number; eventId: string; attemptId: string; token: number }

type Attempt = { attemptId: string; attempt: number; status: string }

export type Checks = ReturnType<typeof createChecks>

/** What must hold at every step, and what must hold at the end. A violation ends the run. */
export function createChecks(model: Model, { laneWidthMax, tries }: { laneWidthMax: number; tries: number }) {
  /** Intents that are on disk and whose request has not left, by host, lane and event. */
  const intents = new Map<string, { attemptId: string; token: number }>()
  const requests: Request[] = []
  const inFlight = new Set<Request>()
  const firstBegun = new Map<number, number>()
  const begunIds = new Set<string>()
  /** By the attempt's id. */
  const gone = new Set<string>()
  /** A standby took over without them: nobody can find them any more. */
  const lost = new Set<string>()
  let violation: string | null = null

  const fail = (text: string) => {
    violation ??= text
  }
  const keyOf = (host: Host, laneId: number, eventSeq: number) => `${host.name} ${laneId} ${eventSeq}`
  /** Under one lease: a process that was paused past it may find the lane again, beside what it had sent before. */
  const inFlightOf = (host: Host, laneId: number, token: number) =>
    [...inFlight].filter((one) => one.host === host && one.laneId === laneId && one.token === token).length

  return {
    requests,
    get violation() {
      return violation
    },
    /** The database has taken these intents. */
    begun(host: Host, beginnings: readonly Beginning[], mayGo: MayGo): void {
      for (const { laneId, eventSeq, attempt, attemptId, token } of beginnings.flatMap(({ fresh }) => fresh)) {
        const outcome = mayGo.get(laneId)
        if (outcome === undefined || typeof outcome === 'string') continue
        // Said once more, after an answer that was lost.
        if (begunIds.has(attemptId)) continue
        begunIds.add(attemptId)
        intents.set(keyOf(host, laneId, eventSeq), { attemptId, token })
        if (attempt > 1) continue
        const due = model.deliveries.get(laneId)!.find((seq) => seq > (firstBegun.get(laneId) ?? 0))
        if (eventSeq !== due) fail(`lane ${laneId}: the first attempt of event ${eventSeq} began, and ${due} is next`)
        firstBegun.set(laneId, eventSeq)
      }
    },
    /** A lane changes hands: it must have been free, or its lease must have run out. */
    leased(lane: { id: number; owner: string | null; dueMs: number | null }, nowMs: number): void {
      if (lane.owner !== null && lane.dueMs! > nowMs) fail(`lane ${lane.id} is taken from ${lane.owner}, who holds it`)
    },
    /** A request leaves: there must be an intent of this process for it, and no other request of the same. */
    sent(host: Host, laneId: number, eventId: string): Request {
      const key = keyOf(host, laneId, Math.floor(Number(eventId)))
      const intent = intents.get(key)
      if (intent === undefined) fail(`${host.name} sends event ${eventId} to lane ${laneId} without an intent`)
      intents.delete(key)
      const request = { host, laneId, eventId, attemptId: '', token: 0, ...intent }
      requests.push(request)
      inFlight.add(request)
      if (inFlightOf(host, laneId, request.token) > laneWidthMax) fail(`lane ${laneId} has more in flight than it may`)
      return request
    },
    answered: (request: Request) => void inFlight.delete(request),
    /** The receiver said 410: this delivery ends here. */
    refusedForGood: (request: Request) => void gone.add(request.attemptId),
    /** A standby has taken over: what it has not got has never been. */
    tookOver(): void {
      firstBegun.clear()
      for (const { id, cursorSeq } of model.lanes.values()) firstBegun.set(id, cursorSeq)
      const known = new Set([...model.lanes.keys()].flatMap((id) => model.sendingOf(id).map((one) => one.attemptId)))
      for (const id of begunIds) if (!known.has(id) && !model.attempts.has(id)) lost.add(id)
    },
    died(host: Host): void {
      for (const request of inFlight) if (request.host === host) inFlight.delete(request)
    },
    /** A lane was given back: whoever takes it next must not send beside requests of the one before. */
    released(host: Host, held: readonly { laneId: number; token: number }[], released: readonly number[]): void {
      for (const { laneId, token } of held) {
        if (released.includes(laneId) && inFlightOf(host, laneId, token) > 0)
          fail(`${host.name} gives lane ${laneId} back with requests in flight`)
      }
    },
    /** Every delivery is finished: nothing waits, nothing is on its way, and nothing was left out. */
    isFinished(): boolean {
      return (
        model.retries.size === 0 &&
        [...model.lanes.values()].every(({ id, ended, begun, cursorSeq }) =>
          // Of a lane that has ended nobody would ever look at what is still listed as on its way.
          ended
            ? begun.length === 0
            : model.sendingOf(id).length === 0 && cursorSeq >= (model.deliveries.get(id)!.at(-1) ?? 0),
        )
      )
    },
    unfinished: (): string =>
      JSON.stringify({ retries: [...model.retries.values()], lanes: [...model.lanes.values()] }),
    atTheEnd(): void {
      const byDelivery = Map.groupBy(model.attempts.values(), (one) => `${one.laneId} ${one.eventSeq}`)
      for (const [laneId, seqs] of model.deliveries) {
        if (model.lanes.get(laneId)!.ended) continue
        for (const eventSeq of seqs) checkDelivery(laneId, eventSeq, byDelivery.get(`${laneId} ${eventSeq}`) ?? [])
      }
      for (const { attemptId, laneId, eventId } of requests) {
        const row = model.attempts.get(attemptId)
        if (row === undefined && !lost.has(attemptId))
          fail(`the request for event ${eventId} to lane ${laneId} has no row`)
        if (row !== undefined && model.eventOf(laneId, row.eventSeq)?.eventId !== eventId)
          fail(`the request for event ${eventId} to lane ${laneId} is recorded as another's`)
      }
    },
  }

  function checkDelivery(laneId: number, eventSeq: number, attempts: readonly Attempt[]) {
    const what = `event ${eventSeq} to lane ${laneId}: ${attempts.map((one) => one.status).join(', ') || 'nothing'}`
    if (attempts.some((one, i) => one.attempt !== i + 1)) fail(`${what}: its attempts are not counted one by one`)
    if (attempts.at(-1)?.status === 'succeeded' || attempts.some((one) => gone.has(one.attemptId))) return
    // Interrupted ones do not count; a redelivery begins the schedule anew, so there may be more.
    const failed = attempts.filter((one) => one.status === 'failed').length
    if (failed < tries) fail(`${what}: given up before the schedule of ${tries} was used up`)
  }
}
