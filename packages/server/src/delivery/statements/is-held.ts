import type { Database } from '../../db/database.ts'
import type { UsedLane } from './lease.ts'

/** Whether a lane still belongs to its holder, and its webhook exists, is not paused and has these settings, now. */
export const isLaneHeld = async (db: Database, { laneId, token, version }: UsedLane): Promise<boolean> => {
  const rows = await db`
    select from keyhook.lanes
    where id = ${laneId} and lease_token = ${token} and lease_owner is not null and ended_at is null
      and version = ${version} and (paused_until > now()) is not true
      and lease_server = pg_postmaster_start_time()`
  return rows.count > 0
}
