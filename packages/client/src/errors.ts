/** Problem codes that the server answers with. New ones may be added, so a code can also be another text. */
export type ProblemCode =
  | 'request.malformed'
  | 'auth.required'
  | 'auth.invalid_token'
  | 'auth.permission_missing'
  | 'auth.login_required'
  | 'auth.key_restricted'
  | 'auth.address_refused'
  | 'auth.signature_invalid'
  | 'console.session_required'
  | 'console.origin_refused'
  | 'console.passkey_refused'
  | 'console.link_invalid'
  | 'not_found'
  | 'request.method_not_allowed'
  | 'backup.already_running'
  | 'backup.being_restored'
  | 'backup.not_completed'
  | 'backup.not_running'
  | 'backup.still_running'
  | 'database.not_available'
  | 'delivery.in_flight'
  | 'event_type.in_use'
  | 'events.id_taken'
  | 'invoice.month_not_over'
  | 'key.not_active'
  | 'mail.limit_reached'
  | 'mail.off'
  | 'member.last_owner'
  | 'restore.outside_window'
  | 'user.already_member'
  | 'user.email_taken'
  | 'user.service_member'
  | 'user.subject_taken'
  | 'user.unverified'
  | 'webhook.not_rotating'
  | 'webhook.old_secret_valid'
  | 'request.too_large'
  | 'request.unsupported_media_type'
  | 'request.expectation_failed'
  | 'request.invalid'
  | 'limit.reached'
  | 'request.rate_limited'
  | 'request.header_too_large'
  | 'request.timeout'
  | 'events.expired'
  | 'idempotency.key_reused'
  | 'internal'
  | 'service.unavailable'

/** Errors that the client finds itself, without a problem document of the server. */
export type ClientErrorCode =
  /** No connection, or it broke. */
  | 'client.network'
  /** No complete answer within `timeoutMs`. */
  | 'client.timeout'
  /** The `AbortSignal` of the call was aborted. */
  | 'client.aborted'
  /** The answer is not one of Keyhook's: a proxy, another program, or a redirect. */
  | 'client.unexpected_response'

export type ErrorCode = ProblemCode | ClientErrorCode | (string & {})

/** Where in the request a rule was broken: a JSON pointer into the body, or the name of a query parameter. */
export type FieldError = { pointer: string; detail: string } | { parameter: string; detail: string }

type ErrorDetails = {
  code: ErrorCode
  message: string
  status?: number | undefined
  errors?: readonly FieldError[] | undefined
  requestId?: string | undefined
  retryAfter?: number | undefined
  problem?: Readonly<Record<string, unknown>> | undefined
  cause?: unknown
}

/** Every error of the client. Test for `code`: codes never change their meaning, texts may. */
export class KeyhookError extends Error {
  override readonly name: string = 'KeyhookError'
  readonly code: ErrorCode
  /** The HTTP status; null when there was no answer. */
  readonly status: number | null
  /** The fields that broke a rule; empty for other errors. */
  readonly errors: readonly FieldError[]
  /** What to tell the operator; only errors of the server have one. */
  readonly requestId: string | null
  /** Seconds after which the server asks to try again. */
  readonly retryAfter: number | null
  /** The whole problem document (RFC 9457), if there was one. */
  readonly problem: Readonly<Record<string, unknown>> | null

  constructor(details: ErrorDetails) {
    super(details.message, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = details.code
    this.status = details.status ?? null
    this.errors = details.errors ?? []
    this.requestId = details.requestId ?? null
    this.retryAfter = details.retryAfter ?? null
    this.problem = details.problem ?? null
  }
}

/** `events.expired`: the position in the events is older than what the server keeps. */
export class EventsExpiredError extends KeyhookError {
  override readonly name = 'EventsExpiredError'
  /** The oldest event that is kept. */
  readonly oldestSequence: number | null

  constructor(details: ErrorDetails) {
    super(details)
    const oldest = details.problem?.oldest_sequence
    this.oldestSequence = typeof oldest === 'number' ? oldest : null
  }
}

export const networkError = (cause: unknown): KeyhookError =>
  new KeyhookError({ code: 'client.network', message: `The server cannot be reached: ${reasonOf(cause)}`, cause })

/** Node's fetch hides the reason, such as ECONNREFUSED, in the cause. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: { message?: string; code?: string } }
  return cause?.message || cause?.code || message || String(error)
}
