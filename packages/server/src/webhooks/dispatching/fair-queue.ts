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

export function createFairQueue<L>(organizationOf: (lane: L) => string): FairQueue<L> {
  // Maps and sets keep the order of insertion: the first is the one that has waited longest.
  const waiting = new Map<string, Set<L>>()
  let size = 0

  return {
    add(lane) {
      const organization = organizationOf(lane)
      let lanes = waiting.get(organization)
      if (lanes === undefined) {
        lanes = new Set()
        waiting.set(organization, lanes)
      }
      if (lanes.has(lane)) return
      lanes.add(lane)
      size += 1
    },
    remove(lane) {
      const organization = organizationOf(lane)
      const lanes = waiting.get(organization)
      if (lanes?.delete(lane)) size -= 1
      if (lanes?.size === 0) waiting.delete(organization)
    },
    next() {
      for (const [organization, lanes] of waiting) {
        waiting.delete(organization)
        for (const lane of lanes) {
          lanes.delete(lane)
          size -= 1
          if (lanes.size > 0) waiting.set(organization, lanes)
          return lane
        }
      }
      return undefined
    },
    get size() {
      return size
    },
  }
}
