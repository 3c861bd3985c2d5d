import type { Client, List, ListOptions, StreamOptions, SummaryOptions } from '@keyhook/client'
import type { OperatorClient } from '@keyhook/client/operator'

// biome-ignore lint/suspicious/noExplicitAny: any method of the client.
type Method = (...args: any[]) => unknown

/** What the server answers to a method. */
type AnswerOf<M extends Method> =
  ReturnType<M> extends List<infer T> ? T[] : ReturnType<M> extends Promise<infer T> ? Exclude<T, void> : never

type Snake<S> = S extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${Snake<Rest>}`
  : S

/** Options that are no query parameters. */
type Local = keyof ListOptions | keyof StreamOptions
type QueryOf<M extends Method> =
  ReturnType<M> extends AsyncIterable<unknown>
    ? Snake<Exclude<keyof Extract<Parameters<M>[number], object>, Exclude<Local, 'after' | 'eventTypes'>>>
    : never

/** A method, and which of its parameters is the body; or the body itself, if the method makes it. */
type Call<M extends Method, Body = null> = {
  answer: AnswerOf<M>
  body: Body extends number ? NonNullable<Parameters<M>[Body]> : Body extends null ? never : Body
  query: QueryOf<M>
}

/** Not a list, so its query is named: an option of the method. */
type Removal<M extends Method> = Omit<Call<M>, 'query'> & {
  query: Snake<keyof Extract<Parameters<M>[number], { revokeKeys?: boolean }> & 'revokeKeys'>
}

type Api = Client
type Operator = OperatorClient

/** Each operation of the server, and the method of the client that calls it. */
export type Offered = {
  'GET /api/v1/organizations': Call<Api['organizations']['list']>
  'PATCH /platform/v1/organizations/{org_id}': Call<Api['organizations']['update'], 1>
  'GET /platform/v1/organizations/{org_id}/quotas': Call<Api['organizations']['quotas']>
  'POST /platform/v1/organizations/{org_id}/deletion': Call<Api['organizations']['delete'], 1>
  'POST /api/v1/organizations/{org_id}/api-keys': Call<Api['keys']['create'], 0>
  'GET /api/v1/organizations/{org_id}/api-keys': Call<Api['keys']['list']>
  'DELETE /api/v1/organizations/{org_id}/api-keys/{api_key_id}': Call<Api['keys']['revoke']>
  'POST /api/v1/organizations/{org_id}/webhooks': Call<Api['webhooks']['create'], 0>
  'GET /api/v1/organizations/{org_id}/webhooks/{webhook_id}/deliveries': Call<Api['webhooks']['deliveries']>
  'DELETE /api/v1/organizations/{org_id}/webhooks/{webhook_id}': Call<Api['webhooks']['delete']>
  'POST /platform/v1/organizations/{org_id}/api-keys/{api_key_id}/revoke': Call<
    Api['keys']['revokeWithDescendants'],
    { descendants?: boolean }
  >
  'POST /platform/v1/organizations/{org_id}/api-keys': Call<Api['keys']['createRestricted'], 0>
  'GET /platform/v1/organizations/{org_id}/api-keys': Call<Api['keys']['details']>
  'GET /platform/v1/organizations/{org_id}/api-keys/{api_key_id}': Call<Api['keys']['get']>
  'PATCH /platform/v1/organizations/{org_id}/api-keys/{api_key_id}': Call<Api['keys']['update'], 1>
  'POST /platform/v1/organizations/{org_id}/api-keys/{api_key_id}/rotate': Call<Api['keys']['rotate'], 1>
  'GET /platform/v1/organizations/{org_id}/webhook-suspension': Call<Api['webhooks']['suspension']>
  'PUT /platform/v1/organizations/{org_id}/webhook-suspension': Call<Api['webhooks']['setSuspension'], 0>
  'GET /platform/v1/organizations/{org_id}/key-lifetime': Call<Api['keys']['lifetime']>
  'PUT /platform/v1/organizations/{org_id}/key-lifetime': Call<Api['keys']['setLifetime'], 0>
  'GET /platform/v1/organizations/{org_id}/webhooks': Call<Api['webhooks']['list']>
  'GET /platform/v1/organizations/{org_id}/webhooks/{webhook_id}': Call<Api['webhooks']['get']>
  'PATCH /platform/v1/organizations/{org_id}/webhooks/{webhook_id}': Call<Api['webhooks']['update'], 1>
  'POST /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/pause': Call<Api['webhooks']['pause'], 1>
  'POST /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/resume': Call<Api['webhooks']['resume']>
  'POST /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/rotate-secret': Call<
    Api['webhooks']['rotateSecret'],
    1
  >
  'POST /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/switch-secret': Call<
    Api['webhooks']['switchSecret'],
    1
  >
  'POST /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/test': Call<Api['webhooks']['test'], 1>
  'POST /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver': Call<
    Api['webhooks']['redeliver']
  >
  'POST /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/recover': Call<Api['webhooks']['recover'], 1>
  'GET /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/recoveries/{recovery_id}': Call<
    Api['webhooks']['recovery']
  >
  'GET /platform/v1/organizations/{org_id}/deliveries': Call<Api['deliveries']['list']>
  'GET /platform/v1/organizations/{org_id}/delivery-summary': Omit<Call<Api['deliveries']['summary']>, 'query'> & {
    query: Snake<Exclude<keyof SummaryOptions, keyof ListOptions>>
  }
  'GET /platform/v1/organizations/{org_id}/deliveries/{delivery_id}': Call<Api['deliveries']['get']>
  'GET /platform/v1/organizations/{org_id}/members': Call<Api['members']['list']>
  'PUT /platform/v1/organizations/{org_id}/members/{user_id}': Call<Api['members']['update'], 1>
  'DELETE /platform/v1/organizations/{org_id}/members/{user_id}': Removal<Api['members']['remove']>
  'POST /platform/v1/organizations/{org_id}/service-members': Call<Api['serviceMembers']['create'], 0>
  'POST /platform/v1/organizations/{org_id}/service-members/{user_id}/api-keys': Call<
    Api['serviceMembers']['createKey'],
    1
  >
  'POST /platform/v1/organizations/{org_id}/invitations': Call<Api['invitations']['create'], 0>
  'GET /platform/v1/organizations/{org_id}/invitations': Call<Api['invitations']['list']>
  'DELETE /platform/v1/organizations/{org_id}/invitations/{invitation_id}': Call<Api['invitations']['delete']>
  'GET /platform/v1/organizations/{org_id}/events': Call<Api['events']['list']>
  'GET /platform/v1/organizations/{org_id}/events/stream': Call<Api['events']['stream']>
  'GET /platform/v1/organizations/{org_id}/events/{event_id}': Call<Api['events']['get']>
  'GET /platform/v1/organizations/{org_id}/event-types': Call<Api['eventTypes']['list']>
  'GET /platform/v1/organizations/{org_id}/audit-log': Call<Api['audit']['list']>
  'POST /platform/v1/organizations/{org_id}/databases': Call<Api['databases']['create'], 0>
  'GET /platform/v1/organizations/{org_id}/databases': Call<Api['databases']['list']>
  'GET /platform/v1/organizations/{org_id}/databases/{database_id}': Call<Api['databases']['get']>
  'GET /platform/v1/organizations/{org_id}/databases/{database_id}/stats': Call<Api['databases']['stats']>
  'GET /platform/v1/organizations/{org_id}/databases/{database_id}/usage': Call<Api['databases']['usage']>
  'DELETE /platform/v1/organizations/{org_id}/databases/{database_id}': Call<Api['databases']['delete']>
  'POST /platform/v1/organizations/{org_id}/databases/{database_id}/restore': Call<Api['databases']['restore'], 1>
  'POST /platform/v1/organizations/{org_id}/databases/{database_id}/backups': Call<Api['backups']['create']>
  'GET /platform/v1/organizations/{org_id}/databases/{database_id}/backup-schedule': Call<Api['backups']['schedule']>
  'PUT /platform/v1/organizations/{org_id}/databases/{database_id}/backup-schedule': Call<
    Api['backups']['setSchedule'],
    1
  >
  'GET /platform/v1/organizations/{org_id}/backups': Call<Api['backups']['list']>
  'GET /platform/v1/organizations/{org_id}/backups/{backup_id}': Call<Api['backups']['get']>
  'POST /platform/v1/organizations/{org_id}/backups/{backup_id}/cancel': Call<Api['backups']['cancel']>
  'DELETE /platform/v1/organizations/{org_id}/backups/{backup_id}': Call<Api['backups']['delete']>
  'POST /platform/v1/organizations/{org_id}/backups/{backup_id}/restore': Call<Api['restores']['create'], 1>
  'GET /platform/v1/organizations/{org_id}/restores': Call<Api['restores']['list']>
  'GET /platform/v1/organizations/{org_id}/restores/{restore_id}': Call<Api['restores']['get']>
  'GET /platform/v1/organizations/{org_id}/invoices': Call<Api['invoices']['list']>
  'GET /platform/v1/organizations/{org_id}/invoices/{invoice_id}': Call<Api['invoices']['get']>
  'POST /operator/v1/invoices/{invoice_id}/pay': Call<Operator['invoices']['pay']>
  'POST /operator/v1/organizations': Call<Operator['organizations']['create'], 0>
  'GET /operator/v1/organizations': Call<Operator['organizations']['list']>
  'GET /operator/v1/organizations/{org_id}': Call<Operator['organizations']['get']>
  'POST /operator/v1/organizations/{org_id}/deletion': Call<Operator['organizations']['delete'], 1>
  'GET /operator/v1/deletions': Call<Operator['deletions']['list']>
  'GET /operator/v1/deletions/{deletion_id}': Call<Operator['deletions']['get']>
  'GET /operator/v1/overview': Call<Operator['overview']>
  'GET /operator/v1/organizations/{org_id}/quotas': Call<Operator['organizations']['quotas']>
  'PATCH /operator/v1/organizations/{org_id}/quotas': Call<Operator['organizations']['setQuotas'], 1>
  'POST /operator/v1/organizations/{org_id}/open': Call<Operator['organizations']['open']>
  'POST /operator/v1/users': Call<Operator['users']['create'], 0>
  'GET /operator/v1/users': Call<Operator['users']['list']>
  'GET /operator/v1/users/{user_id}': Call<Operator['users']['get']>
  'POST /operator/v1/users/{user_id}/verify': Call<Operator['users']['verify']>
  'DELETE /operator/v1/users/{user_id}': Call<Operator['users']['delete']>
  'POST /operator/v1/users/{user_id}/deletion': Call<Operator['users']['erase'], 1>
  'GET /operator/v1/members': Call<Operator['members']['list']>
  'PUT /operator/v1/members/{org_id}/{user_id}': Call<Operator['members']['set'], 2>
  'DELETE /operator/v1/members/{org_id}/{user_id}': Removal<Operator['members']['remove']>
  'POST /operator/v1/tokens': Call<Operator['tokens']['create'], 0>
  'GET /operator/v1/tokens': Call<Operator['tokens']['list']>
  'DELETE /operator/v1/tokens/{token_id}': Call<Operator['tokens']['revoke']>
  'POST /operator/v1/introspect': Call<Operator['introspect'], 0>
  'POST /operator/v1/introspect/batch': Call<Operator['introspectBatch'], 0>
}
