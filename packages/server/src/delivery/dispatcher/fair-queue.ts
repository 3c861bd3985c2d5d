import { takeOut } from '../../lib/lists.ts'

/**
 * Whose turn is it? Organizations take turns first, then the lanes of one: an organization with a thousand busy webhooks
 * gets no more turns than one with a single webhook. A lane that is taken goes to the back when it is added again.
 */
export type FairQueue<L> = {
  /** Does nothing for a lane that is already waiting. */
  add(lane: L): void
  remove(lane: L): void
  next(): L | undefined
  readonly size: number
}

/** Whether a lane waits is a field of it, which `setQueued` writes. */
export function createFairQueue<L extends { readonly isQueued: boolean }>(
  organizationOf: (lane: L) => string,
  setQueued: (lane: L, isQueued: boolean) => void,
): FairQueue<L> {
  /** The lanes of each organization, the longest-waiting first; none of them empty. */
  const waiting = new Map<string, L[]>()
  /** Organizations in the order of their turns. */
  const turns: string[] = []
  let size = 0

  return {
    add(lane) {
      if (lane.isQueued) return
      setQueued(lane, true)
      size += 1
      const organization = organizationOf(lane)
      const lanes = waiting.get(organization)
      if (lanes !== undefined) {
        lanes.push(lane)
        return
      }
      waiting.set(organization, [lane])
      turns.push(organization)
    },
    remove(lane) {
      if (!lane.isQueued) return
      setQueued(lane, false)
      size -= 1
      const organization = organizationOf(lane)
      const lanes = waiting.get(organization)!
      takeOut(lanes, lane)
      if (lanes.length > 0) return
      waiting.delete(organization)
      takeOut(turns, organization)
    },
    next() {
      const organization = turns.shift()
      if (organization === undefined) return undefined
      const lanes = waiting.get(organization)!
      const lane = lanes.shift()!
      if (lanes.length > 0) turns.push(organization)
      else waiting.delete(organization)
      setQueued(lane, false)
      size -= 1
      return lane
    },
    get size() {
      return size
    },
  }
}
