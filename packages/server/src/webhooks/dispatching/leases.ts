import type { LeasedLane } from '../../store/delivery/lanes.ts'
import type { Clock } from './clock.ts'
import type { DispatchStore } from './dispatch-store.ts'
import type { Flow } from './flow.ts'
import { createGroup } from './group.ts'
import type { Insist } from './insist.ts'
import { isIdle, type Lane, type LaneSender, openLane } from './lane.ts'

const lanesPerLease = 500
/** Lanes of organizations that have none here, taken although there is no room. */
const strangersPerLease = 32
/** Few: a statement that waits for one lane that is being written to holds up all those that it has already locked. */
const lanesPerRenewal = 16
/** Few: what was on its way in all of them is in memory at once, with its bodies. */
const lanesPerTakeOver = 16
/** How long an idle lane is kept: taking and giving back cost a statement each, and a busy webhook is idle for moments. */
export const lingerMs = 1_000

/** For how long a lane that cannot be sent from here is left to others, and how many of them: every lease names them all. */
const leftToOthersMs = 60_000
const leftToOthersMax = 500

/** Takes lanes, keeps them and gives them back. */
export function createLeases(deps: {
  store: Pick<DispatchStore, 'lease' | 'leftovers' | 'renew' | 'release'>
  clock: Clock
  insist: Insist
  owner: string
  lanes: Map<number, Lane>
  flow: Flow
  limits: { inFlightMax: number; waitingMax: number; lanesMax: number; laneWidthMax: number; leaseMs: number }
  /** Null when the lane cannot be sent from here. */
  open(leased: LeasedLane): LaneSender | null
  tell(lane: Lane, news: { headSeq: number; asked: number }): void
  /** There is room again for lanes that were left to others. */
  onRoom(): void
}) {
  const { store, clock, insist, lanes, flow, limits } = deps
  const releases = createGroup<Lane>({ clock, sizeMax: 500, atOnceMax: 1, run: release })
  /** Lanes that somebody else has to send from, and until when. */
  const leftToOthers = new Map<number, number>()
  const returns = createGroup<LeasedLane>({ clock, sizeMax: 500, atOnceMax: 1, run: giveUnopened })
  /** The last look left lanes to others for want of room. */
  let full = false

  const held = ({ leased: { laneId, token } }: Lane) => ({ laneId, token })
  const released = (lane: Lane, { abandon }: { abandon: boolean }) => {
    const { asked, begunNo, unsettled } = lane
    return { ...held(lane), asked, begunNo, settled: unsettled.length === 0, abandon }
  }

  function drop(lane: Lane): void {
    lane.gone = true
    flow.forget(lane)
    if (lanes.get(lane.leased.laneId) === lane) lanes.delete(lane.leased.laneId)
    // It may be refused to us and still nobody else's: after a restart of the server every lane is. Once what was on its way
    // is recorded, the next may have it. Where somebody has it already, its token is another.
    if (lane.unsettled.length === 0) giveBack(lane)
  }

  /** Says whether there may be more to take. */
  async function lease(): Promise<boolean> {
    // No more than could be sent from right now: what one process cannot get to, another can. But one lane of every
    // organization, or one whose receivers hang would keep the others from ever getting a turn here.
    const room = Math.min(limits.inFlightMax - flow.inFlight, limits.waitingMax - flow.waiting, lanesPerLease)
    full = room <= 0
    const lanesMax = Math.min(full ? strangersPerLease : room, limits.lanesMax - lanes.size)
    if (lanesMax <= 0) return false
    const exceptOrgs = full ? [...new Set(Array.from(lanes.values(), (lane) => lane.leased.orgId))] : []
    for (const [laneId, untilMs] of leftToOthers) if (untilMs <= clock.now()) leftToOthers.delete(laneId)
    const exceptLanes = [...leftToOthers.keys()]
    const leased = await store.lease({ owner: deps.owner, lanesMax, leaseMs: limits.leaseMs, exceptOrgs, exceptLanes })
    for (const lane of leased.filter((one) => !one.takenOver).flatMap((one) => open(one) ?? [])) flow.consider(lane)
    const taken = leased.filter((one) => one.takenOver)
    for (let start = 0; start < taken.length; start += lanesPerTakeOver) {
      await takeOver(taken.slice(start, start + lanesPerTakeOver))
    }
    return leased.length === lanesMax
  }

  async function takeOver(taken: readonly LeasedLane[]): Promise<void> {
    // Before any of them is opened: what a lane begins next takes the place of what is left in it.
    const left = await insist('leftovers', () => store.leftovers(taken))
    const opened = taken.flatMap((one) => open(one) ?? [])
    for (const one of left) {
      const lane = lanes.get(one.laneId)
      if (lane !== undefined) flow.interruptLeftover(lane, one)
    }
    for (const lane of opened) flow.consider(lane)
  }

  function open(leased: LeasedLane): Lane | null {
    // A lease that ran out under us comes back with a new token: the old lane is done for.
    const old = lanes.get(leased.laneId)
    if (old !== undefined) drop(old)
    const sender = leased.webhook === null ? nobody : deps.open(leased)
    if (sender === null) {
      leaveToOthers(leased)
      return null
    }
    const lane = openLane(leased, sender, limits.laneWidthMax)
    lanes.set(leased.laneId, lane)
    return lane
  }

  /** Given back as it was, so that whoever has its key need not wait for our lease to run out; and not taken again at once. */
  function leaveToOthers(leased: LeasedLane): void {
    if (leftToOthers.size >= leftToOthersMax) return
    leftToOthers.set(leased.laneId, clock.now() + leftToOthersMs)
    returns.add(leased)
  }

  async function giveUnopened(unopened: readonly LeasedLane[]): Promise<void> {
    // What a holder before us left in it is still there to be found.
    const asFound = { begunNo: 0, settled: false, abandon: true }
    const leaving = unopened.map(({ laneId, token, asked }) => ({ laneId, token, asked, ...asFound }))
    await insist('release', () => store.release(leaving))
  }

  async function renew(mine: readonly Lane[]): Promise<void> {
    for (let start = 0; start < mine.length; start += lanesPerRenewal) {
      const chunk = mine.slice(start, start + lanesPerRenewal).filter((lane) => !lane.gone)
      if (chunk.length === 0) continue
      const renewed = await insist('renew', () => store.renew(chunk.map(held), limits.leaseMs))
      const byId = new Map(renewed.map((one) => [one.laneId, one]))
      for (const lane of chunk) {
        const now = byId.get(lane.leased.laneId)
        // One that is being given back is seen to there.
        if (lane.releasing) continue
        if (now === undefined) drop(lane)
        else deps.tell(lane, now)
      }
    }
  }

  function giveBack(lane: Lane): void {
    if (lane.releasing) return
    lane.releasing = true
    releases.add(lane)
  }

  async function release(idle: Lane[]): Promise<void> {
    const leaving = idle.map((lane) => released(lane, { abandon: lane.gone }))
    const left = new Set(await insist('release', () => store.release(leaving)))
    for (const lane of idle) if (left.has(lane.leased.laneId)) drop(lane)
    // The others have news, or are lost: the renewal says which.
    const kept = idle.filter((lane) => !lane.gone)
    for (const lane of kept) lane.releasing = false
    await renew(kept)
    if (full) deps.onRoom()
  }

  return {
    lease,
    giveBack,
    drop,
    renewAll: () => renew([...lanes.values()].filter((lane) => !lane.releasing)),
    /** Lanes that have had nothing to do for a while go back to whoever finds them due next. */
    giveBackIdle(): void {
      const before = clock.now() - lingerMs
      for (const lane of lanes.values()) {
        if (lane.idleSince === null || lane.idleSince > before) continue
        if (isIdle(lane)) giveBack(lane)
        else lane.idleSince = null
      }
    },
    /** Gives everything back as it is, once what is being given back has been. */
    async abandonAll(): Promise<void> {
      await Promise.all([releases.settled(), returns.settled()])
      const rest = [...lanes.values()]
      if (rest.length > 0) await store.release(rest.map((lane) => released(lane, { abandon: true })))
      lanes.clear()
    },
  }
}

/** The lane of a deleted webhook: it is leased once more only to settle what was left, and sends nothing. */
const nobody: LaneSender = { width: { now: 0, bestUs: 0 }, headers: () => [], send() {}, interrupt() {} }
