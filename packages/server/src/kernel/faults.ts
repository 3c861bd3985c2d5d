/**
 * Every way a request or command can be refused, in one place. A code is part of the interface: it never changes meaning.
 * The title is the same for every occurrence of a code; what happened this time goes into the fault's public text.
 */
export const faultCatalogue = {
  'request.malformed': { status: 400, title: 'The request cannot be read' },
  'auth.required': { status: 401, title: 'Authentication is required' },
  'auth.invalid_token': { status: 401, title: 'The token is not valid' },
  'console.session_required': { status: 401, title: 'Nobody is signed in to the console' },
  'auth.permission_missing': { status: 403, title: 'Permission is missing' },
  'auth.login_required': { status: 403, title: 'A login token is required' },
  not_found: { status: 404, title: 'Not found' },
  'request.method_not_allowed': { status: 405, title: 'Method not allowed' },
  'backup.already_running': { status: 409, title: 'A backup of the database is being taken already' },
  'backup.being_restored': { status: 409, title: 'A restore is reading the backup' },
  'backup.not_completed': { status: 409, title: 'The backup is not completed' },
  'backup.not_running': { status: 409, title: 'The backup is not running' },
  'backup.still_running': { status: 409, title: 'The backup is still being taken' },
  'database.not_available': { status: 409, title: 'The database is not available' },
  'delivery.in_flight': { status: 409, title: 'An attempt of the delivery is in flight' },
  'event_type.in_use': { status: 409, title: 'Webhooks are subscribed to the event type' },
  'events.id_taken': { status: 409, title: 'There is an event with this id and other content' },
  'invoice.month_not_over': { status: 409, title: 'The month is not over' },
  'member.last_owner': { status: 409, title: 'The organization would have no owner' },
  'restore.outside_window': { status: 409, title: 'The database cannot be restored to this time' },
  'user.already_member': { status: 409, title: 'The user is a member of the organization already' },
  'user.email_taken': { status: 409, title: 'Another user has this e-mail address' },
  'user.subject_taken': { status: 409, title: 'Another user has this subject' },
  'user.unverified': { status: 409, title: 'The e-mail address of the user is not confirmed' },
  'webhook.not_rotating': { status: 409, title: 'The webhook has one secret only' },
  'webhook.old_secret_valid': { status: 409, title: 'The old secret of the webhook is still valid' },
  'console.origin_refused': { status: 403, title: 'The request comes from another site' },
  'console.link_invalid': { status: 410, title: 'The link is used, expired or unknown' },
  'events.expired': { status: 410, title: 'Events after this position are no longer kept' },
  'request.too_large': { status: 413, title: 'The request body is too large' },
  'request.unsupported_media_type': { status: 415, title: 'The request body must be JSON' },
  'request.expectation_failed': { status: 417, title: 'The Expect header cannot be met' },
  'request.invalid': { status: 422, title: 'The request breaks a rule' },
  'idempotency.key_reused': { status: 422, title: 'The Idempotency-Key belongs to another request' },
  'limit.reached': { status: 422, title: 'A limit of the organization is reached' },
  'request.header_too_large': { status: 431, title: 'The request header is too large' },
  'request.timeout': { status: 408, title: 'The request took too long to arrive' },
  internal: { status: 500, title: 'Something went wrong on our side' },
  'service.unavailable': { status: 503, title: 'The service cannot answer right now' },
} as const satisfies Record<string, { status: number; title: string }>

export type FaultCode = keyof typeof faultCatalogue

/** Where in the request a rule was broken: a JSON pointer into the body, or the name of a query parameter. */
export type FieldError = { pointer: string; detail: string } | { parameter: string; detail: string }

/** An expected error. `public` is for the caller; `internal` goes to the log and never leaves the process. */
export class Fault extends Error {
  readonly code: FaultCode
  readonly public: string
  readonly internal: string | undefined
  readonly errors: readonly FieldError[] | undefined
  readonly headers: Readonly<Record<string, string>>
  /** Further members of the problem. */
  readonly members: Readonly<Record<string, number>>

  constructor(
    code: FaultCode,
    text: {
      public: string
      internal?: string
      errors?: readonly FieldError[]
      headers?: Record<string, string>
      members?: Record<string, number>
      cause?: unknown
    },
  ) {
    super(text.internal ?? text.public, { cause: text.cause })
    this.name = 'Fault'
    this.code = code
    this.public = text.public
    this.internal = text.internal
    this.errors = text.errors
    this.headers = text.headers ?? {}
    this.members = text.members ?? {}
  }

  get status(): number {
    return faultCatalogue[this.code].status
  }
}

/** The text for the caller is made of the request's path alone (`nameMissing`): what is stored must not change it. */
export class NotFound extends Fault {
  constructor(internal: string) {
    super('not_found', { public: 'There is nothing at this path.', internal })
  }
}

/** The one answer for what does not exist and for what belongs to another organization, so that ids cannot be probed. */
export const notFound = (internal: string): Fault => new NotFound(internal)

export const invalid = (errors: readonly [FieldError, ...FieldError[]]): Fault =>
  new Fault('request.invalid', { public: errors.map(describe).join('; '), errors })

const describe = (error: FieldError): string =>
  `${'pointer' in error ? error.pointer.slice(1).replaceAll('/', '.') || 'body' : error.parameter}: ${error.detail}`
