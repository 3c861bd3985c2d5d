import type { EventType } from '../../domain/event-types.ts'
import type { OrgId, WebhookId } from '../../kernel/ids.ts'
import type { Sealed } from '../../kernel/master-keys.ts'
import type { AttemptOutcome } from '../sql/settle.ts'

/** One attempt as the sender needs it. */
export type SendRequest = {
  eventId: string
  eventType: EventType
  body: Buffer
  /** Signed as webhook-timestamp. */
  startedAtMs: number
  /** The request leaves by then (wall clock) or not at all: whoever deletes a webhook waits until then. */
  sendByMs: number
  /** Asked when connecting took longer than `sendByMs` allows: is the lane still ours and its webhook there? */
  mayStillSend(): Promise<boolean>
}

/** What came of an attempt. `gone`: the receiver answered 410. */
export type Exchange = AttemptOutcome & { gone: boolean; retryAfterMs: number | null }

export type Sender = {
  /** Never throws; calls back once. */
  send(request: SendRequest, done: (exchange: Exchange) => void): void
  /** Ends what is in flight as `interrupted`. */
  interrupt(): void
}

export type SenderTarget = { laneId: number; orgId: OrgId; webhookId: WebhookId; url: string; secret: Sealed }

/** Null when no master key opens the webhook's secret. */
export type OpenSender = (target: SenderTarget) => Sender | null
