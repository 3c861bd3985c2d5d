import { createApi } from './api.ts'
import { audit } from './resources/audit.ts'
import { backups } from './resources/backups.ts'
import { databases } from './resources/databases.ts'
import { deliveries } from './resources/deliveries.ts'
import { eventTypes } from './resources/event-types.ts'
import { events } from './resources/events.ts'
import { invoices } from './resources/invoices.ts'
import { keys } from './resources/keys.ts'
import { invitations, members, serviceMembers } from './resources/members.ts'
import { organizations } from './resources/organizations.ts'
import { restores } from './resources/restores.ts'
import { webhooks } from './resources/webhooks.ts'
import { createTransport, type TransportOptions } from './transport.ts'

export type ClientOptions = TransportOptions & {
  /** The organization that calls are about; a call can name another. */
  organization?: string | undefined
}

export type Client = ReturnType<typeof createClient>

/** A client of `/api/v1` and `/platform/v1`. It holds no connection and needs no closing. */
export function createClient(options: ClientOptions) {
  const api = createApi(createTransport(options), options.organization)
  return {
    organizations: organizations(api),
    members: members(api),
    serviceMembers: serviceMembers(api),
    invitations: invitations(api),
    keys: keys(api),
    webhooks: webhooks(api),
    deliveries: deliveries(api),
    events: events(api),
    eventTypes: eventTypes(api),
    databases: databases(api),
    backups: backups(api),
    restores: restores(api),
    invoices: invoices(api),
    audit: audit(api),
  }
}
