import type { OrgId, WebhookId } from '../../lib/ids.ts'
import type { SendErrorCode } from '../send-errors.ts'
import type { WebhookSettings } from '../statements/lease.ts'

/** What the dispatcher uses of the sender. A port, so that the same dispatcher runs in a simulation. */

export type SentContent = {
  eventId: string
  eventType: string
  body: Buffer
  /** Signed as webhook-timestamp. */
  startedAtMs: number
  /** Not signed. Null for a test event; the previous one also where there is none. */
  sequence: number | null
  previousSequence: number | null
}

export type SendRequest = SentContent & {
  /** The request leaves by then (wall clock) or not at all: deleting a webhook waits until then. */
  sendByMs: number
  /** Asked when connecting took longer than `sendByMs` allows: is the lane still ours and its webhook there? */
  mayStillSend(): Promise<boolean>
}

/** `headers` as they are recorded. `body` is text, cut at the cap; `complete` is false when more came or should have come. */
export type RecordedResponse = { status: number; headers: string; body: string; complete: boolean }

/** What came of an attempt. Times are null for steps that did not happen, such as connecting on a reused connection. */
export type Exchange = {
  /** As they are recorded; null when nothing was sent. */
  requestHeaders: string | null
  status: 'succeeded' | 'failed' | 'interrupted'
  durationUs: number | null
  dnsUs: number | null
  connectUs: number | null
  tlsUs: number | null
  firstByteUs: number | null
  address: string | null
  response: RecordedResponse | null
  error: { code: SendErrorCode; detail: string | null } | null
  /** 410: the receiver will never accept this. */
  gone: boolean
  retryAfterMs: number | null
}

export type Sender = {
  /** Calls `done` exactly once, and never throws. */
  send(request: SendRequest, done: (exchange: Exchange) => void): void
  /** Ends what is in flight as `interrupted`. */
  interrupt(): void
}

/** `version`: of the settings. */
export type WebhookTarget = Pick<WebhookSettings, 'url' | 'secret' | 'rotation'> & {
  laneId: number
  orgId: OrgId
  webhookId: WebhookId
  version: number
}

/** Null when no master key opens the webhook's secret. */
export type OpenSender = (webhook: WebhookTarget) => Sender | null
