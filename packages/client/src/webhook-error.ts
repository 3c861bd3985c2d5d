export type VerificationFailure =
  /** No secret was given, for example because an environment variable is not set. */
  | 'secret_missing'
  /** The secret is not `whsec_` and base64. */
  | 'secret_malformed'
  /** The body was parsed before it was checked. */
  | 'body_parsed'
  | 'header_missing'
  | 'header_malformed'
  /** No signature fits: another secret, or other bytes. */
  | 'signature_mismatch'
  | 'timestamp_too_old'
  | 'timestamp_too_new'
  /** Signed, but not an event. */
  | 'event_malformed'

/** The delivery must not be trusted. `reason` is for programs, the message says what to do. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError'
  readonly reason: VerificationFailure

  constructor(reason: VerificationFailure, message: string) {
    super(message)
    this.reason = reason
  }
}
