import { createHmac } from 'node:crypto'
import { StringDecoder } from 'node:string_decoder'
import type { MasterKeys } from '../../lib/master-keys.ts'
import type { Network } from '../../lib/network.ts'
import { readRetryAfter } from '../retry-schedule.ts'
import { SendError } from '../send-errors.ts'
import { createAddressGuard, createResolve } from './addresses.ts'
import {
  createHttp1Clients,
  type Http1Client,
  type Http1Limits,
  headerValues,
  type PostResponse,
  type PostResult,
  type RawHeaders,
  type Resolve,
} from './http1/client.ts'
import type { Exchange, OpenSender, RecordedResponse, Sender, SendRequest, SentContent, WebhookTarget } from './port.ts'

export type SenderSettings = {
  serviceName: string
  standardWebhooks: boolean
  /** Networks that deliveries may go to besides the public ones. */
  allowNetworks: readonly Network[]
  /** PEM of certificates that are trusted besides the usual ones. */
  extraCa: string | null
  limits: Http1Limits
}

type KeptSender = Sender & {
  webhookId: string
  version: number
  client: Http1Client
  inFlight: number
  usedAtMs: number
}

/** How long a sender with its connections is kept after its last request. */
const keptMs = 60_000

export type Senders = { open: OpenSender; close(): void }

/** The senders of all lanes that this process held lately: a lane that comes back finds its connections open. */
export function createSenders(deps: {
  masterKeys: MasterKeys
  settings: SenderSettings
  now(): number
  resolve?: Resolve
  onUnreadable(webhook: WebhookTarget, error: unknown): void
}): Senders {
  const { settings, now } = deps
  const headersOf = createRequestHeaders(settings)
  const openClient = createHttp1Clients({
    resolve: deps.resolve ?? createResolve(),
    isAllowed: createAddressGuard(settings.allowNetworks),
    extraCa: settings.extraCa,
    limits: settings.limits,
    now,
  })
  const kept = new Map<number, KeptSender>()

  /**
   * Which secret signs depends on the time: an overlap ends without a change of the settings. A test event, which has no
   * sequence, is signed with the new secret alone: it shows whether the receiver is ready for the switch.
   */
  function openSigners({ webhookId, secret, rotation }: WebhookTarget): (request: SendRequest) => Signer {
    const current = createSigner(deps.masterKeys.open(secret, webhookId))
    if (rotation === null) return () => current
    const old = createSigner(deps.masterKeys.open(rotation.oldSecret, webhookId))
    const both = createOverlappingSigner(current, old, rotation)
    return ({ startedAtMs, sequence }) => (sequence !== null && startedAtMs < rotation.overlapUntilMs ? both : current)
  }

  /** `previous`: requests with the settings of before may still be in flight. */
  function openSender(webhook: WebhookTarget, previous: KeptSender | null): KeptSender | null {
    let signerOf: (request: SendRequest) => Signer
    try {
      signerOf = openSigners(webhook)
    } catch (error) {
      deps.onUnreadable(webhook, error)
      return null
    }
    const client = openClient(new URL(webhook.url))
    const sender: KeptSender = {
      webhookId: webhook.webhookId,
      version: webhook.version,
      client,
      inFlight: 0,
      usedAtMs: now(),
      send(request, done) {
        // A lane that sent nothing for a minute was removed by the sweep, but is still held.
        if (!kept.has(webhook.laneId)) kept.set(webhook.laneId, sender)
        sender.inFlight += 1
        const headers = headersOf(signerOf(request), request)
        client.post(headers, request, (result) => {
          sender.inFlight -= 1
          sender.usedAtMs = now()
          done(exchangeOf(result, recordHeaders(headers), now()))
        })
      },
      interrupt() {
        previous?.interrupt()
        client.interrupt()
      },
    }
    return sender
  }

  const sweep = setInterval(() => {
    const beforeMs = now() - keptMs
    for (const [laneId, sender] of kept) {
      if (sender.inFlight > 0 || sender.usedAtMs > beforeMs) continue
      sender.client.closeIdle()
      kept.delete(laneId)
    }
  }, keptMs / 4)
  sweep.unref()

  return {
    open(webhook) {
      const known = kept.get(webhook.laneId)
      // A failover that lost a webhook may give its lane's number to another one.
      if (known?.webhookId === webhook.webhookId && known.version === webhook.version) return known
      known?.client.close()
      const sender = openSender(webhook, known !== undefined && known.inFlight > 0 ? known : null)
      if (sender === null) kept.delete(webhook.laneId)
      else kept.set(webhook.laneId, sender)
      return sender
    },
    close() {
      clearInterval(sweep)
      for (const sender of kept.values()) {
        // Requests of lanes that we lost may still be in flight; their new holder records them.
        sender.interrupt()
        sender.client.close()
      }
      kept.clear()
    },
  }
}

export type RequestHeaders = (signer: Signer, content: SentContent) => RawHeaders

/**
 * All headers of an attempt. They depend only on the arguments and these options, so that an attempt that was in flight in a
 * crash can still be recorded with what was sent.
 */
export function createRequestHeaders(options: { serviceName: string; standardWebhooks: boolean }): RequestHeaders {
  const eventHeader = `X-${options.serviceName}-Event`
  const signatureHeader = `X-${options.serviceName}-Signature`
  const sequenceHeader = `X-${options.serviceName}-Sequence`
  const previousHeader = `X-${options.serviceName}-Previous-Sequence`
  return (signer, { eventId, eventType, body, startedAtMs, sequence, previousSequence }) => {
    const headers = [
      'Content-Type',
      'application/json',
      'User-Agent',
      'Keyhook/1',
      'Accept-Encoding',
      'identity',
      eventHeader,
      eventType,
      signatureHeader,
      signer.body(body),
    ]
    if (sequence !== null) headers.push(sequenceHeader, String(sequence))
    if (previousSequence !== null) headers.push(previousHeader, String(previousSequence))
    if (options.standardWebhooks) {
      const seconds = Math.floor(startedAtMs / 1_000)
      headers.push('webhook-id', eventId, 'webhook-timestamp', String(seconds))
      headers.push('webhook-signature', signer.standard(eventId, seconds, body))
    }
    return headers
  }
}

/*
 * Two signatures of one body. The specified one covers the body alone, and its key is the text of the secret. The one of Standard
 * Webhooks also covers id and time against replays, and its key is the decoded secret.
 */
export type Signer = {
  /** `sha256=<hex>` of exactly these bytes. */
  body(body: Uint8Array): string
  /** `v1,<base64>` of `<id>.<seconds>.<body>`; two of them, separated by a space, while two secrets are valid. */
  standard(id: string, seconds: number, body: Uint8Array): string
}

export function createSigner(secret: string): Signer {
  const decoded = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  return {
    body: (body) => `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
    standard: (id, seconds, body) =>
      `v1,${createHmac('sha256', decoded).update(`${id}.${seconds}.`).update(body).digest('base64')}`,
  }
}

/** While a secret is being replaced: Standard Webhooks has room for both signatures, the specified header for one. */
const createOverlappingSigner = (current: Signer, old: Signer, { switched }: { switched: boolean }): Signer => ({
  body: (switched ? current : old).body,
  standard: (id, seconds, body) => `${current.standard(id, seconds, body)} ${old.standard(id, seconds, body)}`,
})

/** Turns the result of a POST into what is recorded and what decides about a retry. */
function exchangeOf(result: PostResult, requestHeaders: string, nowMs: number): Exchange {
  const { response } = result
  const error = result.error ?? responseError(response!)
  return {
    requestHeaders,
    status: error === null ? 'succeeded' : error.code === 'interrupted' ? 'interrupted' : 'failed',
    durationUs: result.durationUs,
    dnsUs: result.dnsUs,
    connectUs: result.connectUs,
    tlsUs: result.tlsUs,
    firstByteUs: result.firstByteUs,
    address: result.address,
    response: response && recordResponse(response),
    error: error && { code: error.code, detail: error.message },
    gone: response?.status === 410,
    retryAfterMs: error === null || response === null ? null : retryAfterMs(response, nowMs),
  }
}

/** 304 is not one: it has no location. */
const redirects = new Set([300, 301, 302, 303, 305, 307, 308])

function responseError(response: PostResponse): SendError | null {
  const { status } = response
  if (status >= 200 && status < 300) return null
  if (redirects.has(status)) {
    return new SendError('redirect_not_followed', `The receiver redirects (${status}); deliveries are not redirected.`)
  }
  return new SendError('status_not_successful', `The receiver answered ${status}.`)
}

function retryAfterMs(response: PostResponse, nowMs: number): number | null {
  const values = headerValues(response, 'retry-after')
  return readRetryAfter(values.length === 1 ? values[0] : undefined, nowMs)
}

const recordResponse = (response: PostResponse): RecordedResponse => {
  // We decompress nothing, as the content could have any size; and compressed bytes cannot be kept as text.
  const isOmitted = isEncoded(response) && response.body.length > 0
  return {
    status: response.status,
    headers: recordHeaders(response.headers),
    body: isOmitted ? '' : recordText(response.body, response.isTruncated),
    complete: response.isComplete && !response.isTruncated && !isOmitted,
  }
}

function isEncoded(response: PostResponse): boolean {
  const encoding = headerValues(response, 'content-encoding').join(',').trim().toLowerCase()
  return encoding !== '' && encoding !== 'identity'
}

/**
 * PostgreSQL's text cannot hold NUL, and bytes that are not UTF-8 become U+FFFD. Where we truncated the body, half a character
 * at the end is left out.
 */
function recordText(bytes: Buffer, isTruncated: boolean): string {
  if (bytes.length === 0) return ''
  const text = isTruncated ? new StringDecoder('utf8').write(bytes) : bytes.toString('utf8')
  return text.replaceAll('\0', '\ufffd')
}

/*
 * Headers as they are recorded: one line each, as on the wire. JSON has many quotes, and escaping them for the database cost a
 * twentieth of all that sending takes.
 */

/** `flat` is name, value, name, value, without line breaks. */
export function recordHeaders(flat: readonly string[]): string {
  const lines: string[] = []
  for (let i = 0; i < flat.length; i += 2) lines.push(`${flat[i]}: ${flat[i + 1]}`)
  return lines.join('\n')
}

export type ReadHeaders = Record<string, string | string[]>

export function readHeaders(record: string): ReadHeaders {
  const headers: ReadHeaders = {}
  for (const line of record.split('\n')) {
    const end = line.indexOf(': ')
    if (end > 0) add(headers, line.slice(0, end), line.slice(end + 2))
  }
  return headers
}

function add(headers: ReadHeaders, name: string, value: string): void {
  const earlier = Object.hasOwn(headers, name) ? headers[name]! : null
  const now = earlier === null ? value : [earlier, value].flat()
  // Not by assignment: a header may be named __proto__.
  Object.defineProperty(headers, name, { value: now, enumerable: true, configurable: true, writable: true })
}
