/**
 * Every way a request or command can be refused, in one place. A code is part of the interface: it never changes meaning.
 * The title is the same for every occurrence of a code; what happened this time goes into the fault's public text.
 * `when` and `advice` are for docs/errors.md, which `npm run docs` makes from this table.
 */
export const faultCatalogue = {
  'request.malformed': {
    status: 400,
    title: 'The request cannot be read',
    when: 'The request is not valid HTTP/1.1 or JSON, or the body did not arrive.',
    advice: 'Correct the program that sends it.',
  },
  'auth.required': {
    status: 401,
    title: 'Authentication is required',
    when: 'There is no `Authorization: Bearer` header.',
    advice: 'Send an API key or a login token.',
  },
  'auth.invalid_token': {
    status: 401,
    title: 'The token is not valid',
    when: 'The token is malformed, expired, revoked or unknown. All four are answered alike.',
    advice: 'Use another key, or log in again. Repeating the request does not help.',
  },
  'console.session_required': {
    status: 401,
    title: 'Nobody is signed in to the console',
    when: 'Nobody is signed in to the console, or the session has ended. Only paths below `/console` answer this.',
    advice: 'Sign in again.',
  },
  'auth.permission_missing': {
    status: 403,
    title: 'Permission is missing',
    when: 'The role of the caller does not have the permission that `detail` names, or an operator route was called without an operator token.',
    advice: 'Ask an owner or admin of the organization.',
  },
  'auth.login_required': {
    status: 403,
    title: 'A login token is required',
    when: 'Managing members takes a login token, and so do creating and revoking API keys if the operator has set that. The request had an API key.',
    advice: 'Log in, and send that token.',
  },
  not_found: {
    status: 404,
    title: 'Not found',
    when: 'The path does not exist, or it names a record that does not exist or belongs to another organization. `detail` is the same in both cases.',
    advice: 'Check the id and the organization.',
  },
  'request.method_not_allowed': {
    status: 405,
    title: 'Method not allowed',
    when: 'The path has no such method. `Allow` lists those that it has.',
    advice: 'Correct the program.',
  },
  'backup.already_running': {
    status: 409,
    title: 'A backup of the database is being taken already',
    when: 'A backup of this database is being taken.',
    advice: 'Wait until it ends, or cancel it.',
  },
  'backup.being_restored': {
    status: 409,
    title: 'A restore is reading the backup',
    when: 'A restore is reading the backup, so it cannot be deleted.',
    advice: 'Delete the backup when the restore has ended.',
  },
  'backup.not_completed': {
    status: 409,
    title: 'The backup is not completed',
    when: 'Only a completed backup can be restored. This one is running, has failed or is being deleted.',
    advice: 'Wait until it ends, or restore another backup.',
  },
  'backup.not_running': {
    status: 409,
    title: 'The backup is not running',
    when: 'Only a running backup can be cancelled. This one has ended.',
    advice: 'Nothing, or delete the backup.',
  },
  'backup.still_running': {
    status: 409,
    title: 'The backup is still being taken',
    when: 'The backup is still being taken, so it cannot be deleted.',
    advice: 'Wait until it ends, or cancel it.',
  },
  'database.not_available': {
    status: 409,
    title: 'The database is not available',
    when: 'Only a database that is `available` can be backed up. `detail` has its status.',
    advice: 'Wait until it is available.',
  },
  'delivery.in_flight': {
    status: 409,
    title: 'An attempt of the delivery is in flight',
    when: 'An attempt of the delivery is in flight, so it cannot be sent again.',
    advice: 'Wait until the attempt ends.',
  },
  'event_type.in_use': {
    status: 409,
    title: 'Webhooks are subscribed to the event type',
    when: 'Webhooks are subscribed to an event type that would be removed. Nothing was changed.',
    advice: 'Keep the type, or add `--force`: these webhooks then get no more events of it.',
  },
  'events.id_taken': {
    status: 409,
    title: 'There is an event with this id and other content',
    when: 'The organization has an event with this `id` and other content.',
    advice: 'Use one `id` for each event, and repeat an event with the same content.',
  },
  'invoice.month_not_over': {
    status: 409,
    title: 'The month is not over',
    when: 'The month of the invoice (UTC) is not over, so its total is not known.',
    advice: 'Issue the invoice after the month.',
  },
  'member.last_owner': {
    status: 409,
    title: 'The organization would have no owner',
    when: 'The organization would have no owner.',
    advice: 'Make somebody else an owner first.',
  },
  'restore.outside_window': {
    status: 409,
    title: 'The database cannot be restored to this time',
    when: 'The database cannot be restored to this time. `detail` has the reason and the possible times.',
    advice: 'Choose a time in `recovery_window`. A time that is not stored yet is available after about a minute.',
  },
  'user.already_member': {
    status: 409,
    title: 'The user is a member of the organization already',
    when: 'The user who accepts the invitation is a member of the organization already.',
    advice: 'Nothing. An owner or admin can change the role.',
  },
  'user.email_taken': {
    status: 409,
    title: 'Another user has this e-mail address',
    when: 'Another user has this e-mail address, and it is confirmed. `detail` has the id of that user.',
    advice: 'Use that user.',
  },
  'user.subject_taken': {
    status: 409,
    title: 'Another user has this subject',
    when: 'Another user has this subject. `detail` has the id of that user.',
    advice: 'Use that user.',
  },
  'user.unverified': {
    status: 409,
    title: 'The e-mail address of the user is not confirmed',
    when: 'Nobody has confirmed the e-mail address of a user who joined with an invitation link. Such a user can belong to that organization only.',
    advice: 'The operator runs `npx keyhook user verify`, or the user logs in at the OpenID issuer.',
  },
  'webhook.not_rotating': {
    status: 409,
    title: 'The webhook has one secret only',
    when: 'The webhook has one secret, so there is nothing to switch to.',
    advice: 'Rotate the secret first.',
  },
  'webhook.old_secret_valid': {
    status: 409,
    title: 'The old secret of the webhook is still valid',
    when: 'The webhook was switched to its new secret, and the old secret is still valid.',
    advice: 'Wait until the old secret ends, end it with another switch, or rotate with an `overlap_seconds` of 0.',
  },
  'console.origin_refused': {
    status: 403,
    title: 'The request comes from another site',
    when: 'A page of another site made the request. Only paths below `/console` answer this.',
    advice: 'If the page is the console itself, the operator sets `KEYHOOK_PUBLIC_URL` to its address.',
  },
  'console.link_invalid': {
    status: 410,
    title: 'The link is used, expired or unknown',
    when: 'A link to the console, an invitation or a login code of a terminal is used, expired or unknown.',
    advice: 'Make another one: `npx keyhook console link`, a new invitation, or `npx keyhook login`.',
  },
  'events.expired': {
    status: 410,
    title: 'Events after this position are no longer kept',
    when: 'The position is older than the oldest event that is kept, which `oldest_sequence` names.',
    advice: 'Continue from `oldest_sequence`. Earlier events can no longer be read.',
  },
  'request.too_large': {
    status: 413,
    title: 'The request body is too large',
    when: 'The request body is larger than the server accepts.',
    advice: 'Send less, for example events in smaller batches.',
  },
  'request.unsupported_media_type': {
    status: 415,
    title: 'The request body must be JSON',
    when: 'The body is not JSON.',
    advice: 'Send it with `Content-Type: application/json`.',
  },
  'request.expectation_failed': {
    status: 417,
    title: 'The Expect header cannot be met',
    when: 'The request has an `Expect` header other than `100-continue`.',
    advice: 'Leave the header out.',
  },
  'request.invalid': {
    status: 422,
    title: 'The request breaks a rule',
    when: 'A field or parameter breaks a rule. `errors` names each of them.',
    advice: 'Correct these fields.',
  },
  'idempotency.key_reused': {
    status: 422,
    title: 'The Idempotency-Key belongs to another request',
    when: 'The `Idempotency-Key` was used for another request within the last 24 hours.',
    advice: 'Use a new key for every creation.',
  },
  'limit.reached': {
    status: 422,
    title: 'A limit of the organization is reached',
    when: 'The organization has reached its limit of keys, webhooks, databases or backup storage.',
    advice: 'Remove a record, or ask the operator for a higher limit.',
  },
  'request.header_too_large': {
    status: 431,
    title: 'The request header is too large',
    when: 'The header of the request is too large.',
    advice: 'Send fewer or shorter headers.',
  },
  'request.timeout': {
    status: 408,
    title: 'The request took too long to arrive',
    when: 'The request took more than 30 seconds to arrive.',
    advice: 'Send it again.',
  },
  internal: {
    status: 500,
    title: 'Something went wrong on our side',
    when: 'The server failed.',
    advice: 'Try again. If it fails again, tell the operator the `request_id`.',
  },
  'service.unavailable': {
    status: 503,
    title: 'The service cannot answer right now',
    when: 'The server cannot reach its database, or is too busy.',
    advice: 'Send the request again after `Retry-After` seconds.',
  },
} as const satisfies Record<string, { status: number; title: string; when: string; advice: string }>

export type FaultCode = keyof typeof faultCatalogue
