import type { OrgId } from '../../kernel/ids.ts'
import type { Lane } from './lane.ts'

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
export type HeldLanes = ReturnType<typeof createHeldLanes>
