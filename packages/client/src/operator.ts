import { type Api, createApi, pathOf } from './api.ts'
import { deletions } from './operator/deletions.ts'
import { events } from './operator/events.ts'
import { introspection } from './operator/introspection.ts'
import { members } from './operator/members.ts'
import { organizations } from './operator/organizations.ts'
import { overview } from './operator/overview.ts'
import { tokens } from './operator/tokens.ts'
import { users } from './operator/users.ts'
import type { Invoice } from './resources/invoices.ts'
import { type CallOptions, createTransport, type TransportOptions } from './transport.ts'

export type { AcceptedEvent, NewEvent } from './operator/events.ts'
export type { Introspection, IntrospectionBatch, IntrospectionRequest } from './operator/introspection.ts'
export type { Member, NewMember, Role } from './operator/members.ts'
export type { OperatorCreationOptions } from './operator/options.ts'
export type { NewOrganization, OpenedOrganization, QuotaChanges } from './operator/organizations.ts'
export type { BusyLane, Overview } from './operator/overview.ts'
export type { IssuedOperatorToken, NewOperatorToken, OperatorToken } from './operator/tokens.ts'
export type { NewUser, User } from './operator/users.ts'

export type { Confirmation, Deletion } from './resources/organizations.ts'

export type OperatorClient = ReturnType<typeof createOperatorClient>

/** A client of `/operator/v1`. Its token is an operator token. */
export function createOperatorClient(options: TransportOptions) {
  const api = createApi(createTransport(options))
  return {
    ...introspection(api),
    overview: overview(api),
    organizations: organizations(api),
    users: users(api),
    members: members(api),
    tokens: tokens(api),
    deletions: deletions(api),
    events: events(api),
    invoices: invoices(api),
  }
}

const invoices = (api: Api) => ({
  /** Marks an invoice paid, once. */
  pay: async (id: string, options: CallOptions = {}): Promise<Invoice> =>
    api.idempotent(pathOf('/operator/v1/invoices', id, 'pay'), undefined, options),
})
