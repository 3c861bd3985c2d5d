import type { Api } from '../api.ts'
import type { CallOptions } from '../transport.ts'

export type Overview = {
  organizations: number
  users: number
  deliveries: { waiting: number; retries: number; in_flight: number; oldest_waiting_at: string | null }
  nodes: {
    id: string
    /** The host name or address that clients reach its databases at. */
    host: string | null
    databases: number
    databases_max: number
    seen_at: string
    is_silent: boolean
  }[]
  /** Webhooks with deliveries that are not finished; `lanes` has those that wait longest. */
  busy_lanes: number
  lanes: BusyLane[]
}

export type BusyLane = {
  organization_id: string
  organization_name: string
  webhook_id: string
  url: string
  oldest_waiting_at: string | null
  due_at: string | null
  leased_by: string | null
  paused_until: string | null
  suspended_until: string | null
  failing_since: string | null
}

/** What the installation is doing. */
export const overview =
  (api: Api) =>
  async (options: CallOptions = {}): Promise<Overview> =>
    api.get('/operator/v1/overview', options)
