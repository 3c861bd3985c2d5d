import type { Clock } from '../../lib/clock.ts'
import type { OrgId } from '../../lib/ids.ts'
import type { OpenSender } from '../sender/port.ts'
import type { ReleasedLane, RenewedLane } from '../statements/held-lanes.ts'
import type { LeasedLane, UsedLane } from '../statements/lease.ts'
import { firstWake } from '../statements/wake.ts'
import { change, changeReading, isClosed, type Lane, learn, openLane } from './lane.ts'
import type { DispatchStore, Retry } from './ports.ts'

const lanesPerLease = 500
/** Taken when the process is full: one lane each of organizations that have none here. */
const lanesWhenFull = 32
const lanesPerRenewal = 500
/** A lane whose secret cannot be opened here is left to other processes for that long. Every lease names them all, so few. */
const unopenedMs = 60_000
const unopenedMax = 500

/** The lanes that this process holds, by id and by organization. */
export function createHeldLanes() {
  const byId = new Map<number, Lane>()
  const byOrg = new Map<OrgId, Set<Lane>>()
  return {
    get size() {
      return byId.size
    },
    get: (laneId: number): Lane | undefined => byId.get(laneId),
    all: (): Lane[] => [...byId.values()],
    organizations: (): OrgId[] => [...byOrg.keys()],
    of: (orgId: OrgId): Iterable<Lane> => byOrg.get(orgId) ?? [],
    holdsAnyOf: (orgId: OrgId): boolean => byOrg.has(orgId),
    add(lane: Lane): void {
      const { laneId, orgId } = lane.lease
      byId.set(laneId, lane)
      const lanes = byOrg.get(orgId)
      if (lanes === undefined) byOrg.set(orgId, new Set([lane]))
      else lanes.add(lane)
    },
    /** Another lease of the same lane stays. */
    remove(lane: Lane): void {
      const { laneId, orgId } = lane.lease
      if (byId.get(laneId) === lane) byId.delete(laneId)
      const lanes = byOrg.get(orgId)
      lanes?.delete(lane)
      if (lanes?.size === 0) byOrg.delete(orgId)
    },
  }
}
type HeldLanes = ReturnType<typeof createHeldLanes>

/** Takes lanes, keeps their leases and gives them back. Says which lanes were taken or lost; what follows is the caller's. */
export function createLeases(deps: {
  store: Pick<DispatchStore, 'wake' | 'lease' | 'interrupt' | 'renew' | 'release'>
  clock: Clock
  retry: Retry
  owner: string
  held: HeldLanes
  leaseMs: number
  lanesMax: number
  laneConcurrencyMax: number
  openSender: OpenSender
  ensurePartitions(): Promise<void>
  isDataError(error: unknown): boolean
}) {
  const { store, clock, retry, held } = deps
  let wakeCursor = firstWake
  /** Lanes that cannot be sent from here, and until when they are left to others. */
  const unopened = new Map<number, number>()

  async function wake(): Promise<void> {
    do {
      const { next } = await store.wake(wakeCursor)
      wakeCursor = next ?? firstWake
    } while (wakeCursor !== firstWake)
  }

  /**
   * Takes no more lanes than could send right now (`room`): what this process cannot get to, another can. But also when it is full,
   * one lane of every organization, or one whose receivers hang would keep the others from getting a turn.
   */
  async function lease(room: number): Promise<{ opened: Lane[]; mayBeMore: boolean }> {
    const isFull = room <= 0
    const lanesMax = Math.min(isFull ? lanesWhenFull : room, lanesPerLease, deps.lanesMax - held.size)
    if (lanesMax <= 0) return { opened: [], mayBeMore: false }
    for (const [laneId, untilMs] of unopened) if (untilMs <= clock.now()) unopened.delete(laneId)
    const leased = await store.lease({
      owner: deps.owner,
      lanesMax,
      leaseMs: deps.leaseMs,
      exceptOrgs: isFull ? held.organizations() : [],
      exceptLanes: [...unopened.keys()],
    })
    const opened = (await withoutStale(leased)).flatMap((one) => open(one) ?? [])
    await giveBackUnopened(leased.filter((one) => unopened.has(one.laneId)))
    return { opened, mayBeMore: leased.length === lanesMax }
  }

  /** Interrupts what an earlier holder left in flight, before anything begins. Where the row is locked, the lease is left to expire. */
  async function withoutStale(leased: readonly LeasedLane[]): Promise<readonly LeasedLane[]> {
    const takenOver = leased.filter((one) => one.takenOver)
    if (takenOver.length === 0) return leased
    // The clock of the earlier holder may have been wrong by weeks; without this no lane would be taken until the partition exists.
    const repair = async (error: unknown) => {
      if (deps.isDataError(error)) await deps.ensurePartitions()
    }
    const clean = new Set(await retry('interrupt', () => store.interrupt(takenOver), repair))
    return leased.filter((one) => !one.takenOver || clean.has(one.laneId))
  }

  function open(leased: LeasedLane): Lane | null {
    const { webhook, ...target } = leased
    const sender = webhook === null ? null : deps.openSender({ ...target, ...webhook })
    const limits = { nowMs: clock.now(), concurrencyMax: deps.laneConcurrencyMax }
    if (webhook === null || sender !== null) return openLane(leased, sender, limits)
    // With no room to remember it, its lease is left to expire.
    if (unopened.size < unopenedMax) unopened.set(leased.laneId, clock.now() + unopenedMs)
    return null
  }

  /** At once, so that a process that has the key need not wait for this lease to expire. */
  async function giveBackUnopened(lanes: readonly LeasedLane[]): Promise<void> {
    if (lanes.length > 0) await retry('release', () => store.release(lanes.map((one) => ({ ...one, abandon: true }))))
  }

  /** Extends the leases, and returns the lanes that are lost or whose webhook is gone. */
  async function renew(lanes: readonly Lane[]): Promise<Lane[]> {
    const lost: Lane[] = []
    for (let start = 0; start < lanes.length; start += lanesPerRenewal) {
      const chunk = lanes.slice(start, start + lanesPerRenewal)
      const renewed = await retry('renew', () => store.renew(chunk.map(used)))
      const byId = new Map(renewed.map((one) => [one.laneId, one]))
      for (const lane of chunk) {
        const now = byId.get(lane.lease.laneId)
        if (now === undefined || (now.ended && lane.sender !== null) || !isUsable(lane, now)) lost.push(lane)
      }
    }
    return lost
  }

  /** False when the new secret of the webhook cannot be opened here. */
  function isUsable(lane: Lane, renewed: RenewedLane): boolean {
    const { changed } = renewed
    const sender = changed && deps.openSender({ ...lane.lease, ...changed })
    if (changed !== null && sender === null) return false
    learn(lane, sender, renewed, clock.now())
    return true
  }

  /** Gives lanes back. Those that have new work are kept, and read again; the others are returned as gone or lost. */
  async function release(lanes: readonly Lane[]): Promise<{ gone: Lane[]; kept: Lane[]; lost: Lane[] }> {
    const given = new Set(
      await retry('release', () =>
        store.release(lanes.map((lane) => released(lane, lane.state === 'lost' || isClosed(lane)))),
      ),
    )
    const isGone = (lane: Lane) => lane.state === 'lost' || given.has(lane.lease.laneId)
    const kept = lanes.filter((lane) => !isGone(lane))
    for (const lane of kept) {
      change(lane, 'keep')
      changeReading(lane, 'hint')
    }
    return { gone: lanes.filter(isGone), kept, lost: await renew(kept) }
  }

  /** Without retries: when PostgreSQL cannot be reached, the leases expire by themselves. */
  const abandon = (lanes: readonly Lane[]): Promise<unknown> => store.release(lanes.map((lane) => released(lane, true)))

  return { wake, lease, renew, release, abandon }
}

const used = ({ lease, version }: Lane): UsedLane => ({ laneId: lease.laneId, token: lease.token, version })

const released = (lane: Lane, abandon: boolean): ReleasedLane => ({
  laneId: lane.lease.laneId,
  token: lane.lease.token,
  redeliveryRequests: lane.redeliveryRequests,
  abandon,
})
