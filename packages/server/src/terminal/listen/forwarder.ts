import { setTimeout } from 'node:timers/promises'
import type { EventRecord } from '@keyhook/client'
import type { EventType } from '../../domain/event-types.ts'
import { createSigner } from '../../domain/signature.ts'
import { createRequestHeaders } from '../../webhooks/sender/request.ts'

export type Attempt = {
  at: string
  event_id: string
  type: string
  sequence: number
  attempt: number
  attempts_max: number
  /** The program's answer; null when there was none. */
  status: number | null
  error: string | null
  duration_ms: number
  retry_in_ms: number | null
}

export type Forwarder = {
  /** Resolves when the program answered 2xx, or attempts are used up. */
  forward(event: EventRecord, previousSequence: number | null): Promise<void>
}

/** As long as Keyhook itself waits for a receiver. */
const attemptMsMax = 15_000
const firstDelayMs = 500
const delayMsMax = 30_000
const waitMs = 1_000

/** Posts events to a local program as Keyhook does: the same headers, both signatures, and the same id in every attempt. */
export function createForwarder(deps: {
  target: string
  secret: string
  serviceName: string
  attemptsMax: number
  onAttempt(attempt: Attempt): void
  /** Nothing listens at the target. */
  onWaiting(event: EventRecord): void
}): Forwarder {
  const signer = createSigner(deps.secret)
  const headersOf = createRequestHeaders({ serviceName: deps.serviceName, standardWebhooks: true })

  async function post(event: EventRecord, previousSequence: number | null): Promise<Response> {
    const body = Buffer.from(event.body)
    const sent = { eventId: event.id, eventType: event.type as EventType, body, startedAtMs: Date.now() }
    const list = headersOf(signer, { ...sent, sequence: event.sequence, previousSequence }) as string[]
    const headers = list.flatMap((name, i) => (i % 2 === 0 ? [[name, list[i + 1]!] as [string, string]] : []))
    const signal = AbortSignal.timeout(attemptMsMax)
    const response = await fetch(deps.target, { method: 'POST', headers, body, redirect: 'manual', signal })
    await response.arrayBuffer()
    return response
  }

  return {
    async forward(event, previousSequence) {
      let isWaiting = false
      for (let attempt = 1; ; attempt += 1) {
        const [at, startedAt] = [new Date().toISOString(), performance.now()]
        let [status, error]: [number | null, string | null] = [null, null]
        try {
          status = (await post(event, previousSequence)).status
        } catch (reason) {
          error = reasonOf(reason)
        }
        if (error === 'ECONNREFUSED') {
          // The program is not running, which is no attempt: events wait until it is.
          if (!isWaiting) deps.onWaiting(event)
          isWaiting = true
          attempt -= 1
          await setTimeout(waitMs)
          continue
        }
        const isDone = status !== null && status >= 200 && status < 300
        const isLast = attempt >= deps.attemptsMax
        const retryInMs = isDone || isLast ? null : Math.min(delayMsMax, firstDelayMs * 2 ** (attempt - 1))
        deps.onAttempt({
          at,
          event_id: event.id,
          type: event.type,
          sequence: event.sequence,
          attempt,
          attempts_max: deps.attemptsMax,
          status,
          error,
          duration_ms: Math.round(performance.now() - startedAt),
          retry_in_ms: retryInMs,
        })
        if (retryInMs === null) return
        await setTimeout(retryInMs)
      }
    },
  }
}

function reasonOf(error: unknown): string {
  const { name, message, cause } = error as Error & { cause?: { code?: string; message?: string } }
  if (name === 'TimeoutError') return `no answer within ${attemptMsMax / 1_000} s`
  return cause?.code ?? cause?.message ?? message
}
