import { WebhookVerificationError } from './webhook-error.ts'
import type { EventOf, WebhookEvent } from './webhook-event.ts'
import { type HeadersLike, readHeader } from './webhook-headers.ts'

export type VerifyOptions = {
  /** The body exactly as it arrived: bytes, or their text. */
  body: string | Uint8Array | ArrayBuffer
  headers: HeadersLike
  /** The secret of the webhook as it was shown, `whsec_` included; several while you rotate it. */
  secret: string | readonly string[]
  /**
   * Which signature has to be valid. By default that of the `webhook-` headers if the delivery has any of them, otherwise
   * `X-Service-Signature`. `standard` requires the `webhook-` headers: their signature covers the time, so an old delivery cannot
   * be sent again, also without these headers. `body` requires `X-Service-Signature`, which covers the body alone.
   */
  signature?: 'standard' | 'body' | undefined
  /** The word in `X-Service-Signature`, if your operator has set another. */
  service?: string | undefined
  /** How far the time of a delivery may be from now; 300 by default. */
  toleranceSeconds?: number | undefined
  /** Now, unless given. */
  now?: Date | undefined
}

/** Returns the event of a delivery, or throws a `WebhookVerificationError`. */
export async function verifyWebhook<Custom extends EventOf<string, object> = never>(
  options: VerifyOptions,
): Promise<WebhookEvent | Custom> {
  const body = bytesOf(options.body)
  const secrets = secretsOf(options.secret)
  const signature = options.signature ?? (hasStandardHeader(options.headers) ? 'standard' : 'body')
  if (signature === 'body') await checkBodySignature(options, body, secrets)
  else await checkStandardSignature(options, body, secrets)
  return readEvent(body) as WebhookEvent | Custom
}

const hasStandardHeader = (headers: HeadersLike): boolean =>
  ['webhook-id', 'webhook-timestamp', 'webhook-signature'].some((name) => readHeader(headers, name) !== null)

type Bytes = Uint8Array<ArrayBuffer>

const encoder = new TextEncoder()

function bytesOf(body: VerifyOptions['body']): Bytes {
  if (typeof body === 'string') return encoder.encode(body)
  // A copy: nobody can change it between the check and the parsing.
  if (body instanceof Uint8Array || body instanceof ArrayBuffer) return new Uint8Array(body)
  throw new WebhookVerificationError(
    'body_parsed',
    'The body must be the bytes or the text that arrived, not a parsed object: read it before a JSON parser does.',
  )
}

function secretsOf(secret: VerifyOptions['secret']): readonly string[] {
  const secrets = typeof secret === 'string' ? [secret] : secret
  if (Array.isArray(secrets) && secrets.length > 0 && secrets.every((one) => typeof one === 'string' && one !== '')) {
    return secrets
  }
  throw new WebhookVerificationError(
    'secret_missing',
    'No secret was given. Pass the secret that was shown when the webhook was created; is its environment variable set?',
  )
}

async function checkBodySignature(options: VerifyOptions, body: Bytes, secrets: readonly string[]): Promise<void> {
  const name = `X-${options.service ?? 'Service'}-Signature`
  const header = requireHeader(options.headers, name, 'If your operator uses another name, pass it as "service".')
  const [, hex] = /^sha256=([0-9a-f]{64})$/.exec(header) ?? []
  if (hex === undefined) throw malformed(name, 'sha256= and 64 hexadecimal digits')
  const signature = Uint8Array.from(hex.match(/../g)!, (pair) => Number.parseInt(pair, 16))
  // The key is the text of the secret as shown, with its prefix.
  const keys = secrets.map((secret) => encoder.encode(secret))
  if (!(await anyFits(keys, [signature], body))) throw mismatch(body, secrets)
}

async function checkStandardSignature(options: VerifyOptions, body: Bytes, secrets: readonly string[]): Promise<void> {
  const { headers, toleranceSeconds = 300, now = new Date() } = options
  // A comparison with NaN is false, and every delivery would be young enough.
  if (!(toleranceSeconds >= 0)) throw new TypeError('toleranceSeconds must be a number of seconds')
  const hint = 'A proxy may have removed it. If your operator has switched these headers off, pass signature: "body".'
  const id = requireHeader(headers, 'webhook-id', hint)
  const timestamp = requireHeader(headers, 'webhook-timestamp', hint)
  const header = requireHeader(headers, 'webhook-signature', hint)
  if (!/^\d{1,12}$/.test(timestamp)) throw malformed('webhook-timestamp', 'seconds since 1970')
  const signatures = header.split(' ', signaturesMax).flatMap((one) => {
    const [version, text] = one.split(',', 2)
    return version === 'v1' && text !== undefined ? [decodeBase64(text)] : []
  })
  if (signatures.length === 0) throw malformed('webhook-signature', 'v1, and a signature in base64')
  const content = joined(encoder.encode(`${id}.${timestamp}.`), body)
  if (!(await anyFits(secrets.map(standardKey), signatures, content))) throw mismatch(body, secrets)
  const age = now.getTime() / 1_000 - Number(timestamp)
  if (age > toleranceSeconds) throw outOfTime('timestamp_too_old', age)
  if (-age > toleranceSeconds) throw outOfTime('timestamp_too_new', -age)
}

function joined(first: Bytes, second: Bytes): Bytes {
  const bytes = new Uint8Array(first.length + second.length)
  bytes.set(first)
  bytes.set(second, first.length)
  return bytes
}

/** During a rotation there are two. */
const signaturesMax = 8

/** Web Crypto compares in constant time. */
async function anyFits(
  keys: readonly Bytes[],
  signatures: readonly (Bytes | null)[],
  content: Bytes,
): Promise<boolean> {
  for (const bytes of keys) {
    const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
    for (const signature of signatures) {
      if (signature !== null && (await crypto.subtle.verify('HMAC', key, signature, content))) return true
    }
  }
  return false
}

/** The key is what the secret encodes, without its prefix. */
function standardKey(secret: string): Bytes {
  const key = decodeBase64(secret.replace(/^whsec_/, ''))
  if (key !== null && key.length > 0) return key
  throw new WebhookVerificationError(
    'secret_malformed',
    'The secret must be "whsec_" and base64, exactly as it was shown when the webhook was created.',
  )
}

function decodeBase64(text: string): Bytes | null {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0))
  } catch {
    return null
  }
}

function requireHeader(headers: HeadersLike, name: string, hint: string): string {
  const value = readHeader(headers, name)
  if (value !== null && value !== '') return value
  throw new WebhookVerificationError('header_missing', `The header ${name} is missing. ${hint}`)
}

const malformed = (name: string, form: string): WebhookVerificationError =>
  new WebhookVerificationError('header_malformed', `The header ${name} must be ${form}, once.`)

function outOfTime(reason: 'timestamp_too_old' | 'timestamp_too_new', seconds: number): WebhookVerificationError {
  const way = reason === 'timestamp_too_old' ? 'old' : 'ahead of this clock'
  return new WebhookVerificationError(
    reason,
    `The delivery is ${Math.round(seconds)} seconds ${way}: it was sent again by someone else, was held up on the way, or this clock is wrong.`,
  )
}

function mismatch(body: Bytes, secrets: readonly string[]): WebhookVerificationError {
  const hints = [
    secrets.some((secret) => !secret.startsWith('whsec_')) && 'A secret here does not start with "whsec_".',
    wasChanged(body) &&
      'The body has spaces or line breaks that Keyhook does not send: it was parsed and written again.',
  ].filter((hint) => hint !== false)
  return new WebhookVerificationError(
    'signature_mismatch',
    `The signature does not fit. Either this is not the secret of this webhook, or these are not the exact bytes that arrived. ${hints.join(' ')}`.trim(),
  )
}

/** Keyhook sends JSON without spaces between its parts. */
function wasChanged(body: Bytes): boolean {
  const text = new TextDecoder().decode(body)
  try {
    return text.length > JSON.stringify(JSON.parse(text)).length
  } catch {
    return false
  }
}

function readEvent(body: Bytes): unknown {
  try {
    const event = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
    const isText = (name: string) => typeof event[name] === 'string'
    if (isText('id') && isText('type') && typeof event.data === 'object' && event.data !== null) return event
  } catch {}
  throw new WebhookVerificationError('event_malformed', 'The body is signed, but it is not an event of Keyhook.')
}
