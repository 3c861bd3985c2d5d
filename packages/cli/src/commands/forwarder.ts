import { createHmac } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type { EventRecord } from '@keyhook/client'
import { OperationFailed } from '../output.ts'

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

type Forwarder = {
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
  /** No program listens at the target. */
  onWaiting(event: EventRecord): void
}): Forwarder {
  async function post(event: EventRecord, previousSequence: number | null): Promise<Response> {
    const headers = deliveryHeaders({ ...deps, event, previousSequence, now: new Date() })
    const signal = AbortSignal.timeout(attemptMsMax)
    const response = await fetch(deps.target, { method: 'POST', headers, body: event.body, redirect: 'manual', signal })
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

/** The headers of a delivery. The server's tests compare them with those that Keyhook itself sends. */
export function deliveryHeaders(delivery: {
  event: Pick<EventRecord, 'id' | 'type' | 'body' | 'sequence'>
  secret: string
  serviceName: string
  previousSequence: number | null
  now: Date
}): [name: string, value: string][] {
  const { event, secret, serviceName, previousSequence, now } = delivery
  const seconds = Math.floor(now.getTime() / 1_000)
  const sign = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text)
  const standardKey = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  return [
    ['Content-Type', 'application/json'],
    ['User-Agent', 'Keyhook/1'],
    ['Accept-Encoding', 'identity'],
    [`X-${serviceName}-Event`, event.type],
    [`X-${serviceName}-Signature`, `sha256=${sign(secret, event.body).digest('hex')}`],
    [`X-${serviceName}-Sequence`, String(event.sequence)],
    ...(previousSequence === null
      ? []
      : [[`X-${serviceName}-Previous-Sequence`, String(previousSequence)] as [string, string]]),
    ['webhook-id', event.id],
    ['webhook-timestamp', String(seconds)],
    ['webhook-signature', `v1,${sign(standardKey, `${event.id}.${seconds}.${event.body}`).digest('base64')}`],
  ]
}

function reasonOf(error: unknown): string {
  const { name, message, cause } = error as Error & { cause?: { code?: string; message?: string } }
  if (name === 'TimeoutError') return `no answer within ${attemptMsMax / 1_000} s`
  return cause?.code ?? cause?.message ?? message
}

/** The word in `X-<service>-Event`, which the operator can set. The OpenAPI document names the headers of a delivery. */
export async function readServiceName(url: string): Promise<string> {
  const address = `${url.replace(/\/+$/, '')}/openapi.json`
  const { webhooks = {} } = await readDocument(address)
  for (const { post } of Object.values(webhooks)) {
    for (const { name } of post?.parameters ?? []) {
      const match = /^X-(.+)-Event$/.exec(name)
      if (match !== null) return match[1]!
    }
  }
  throw new OperationFailed(
    `${address} does not describe the headers of a delivery. Check that this is the address of Keyhook.`,
  )
}

type Document = { webhooks?: Record<string, { post?: { parameters?: { name: string }[] } }> }

/** A wrong name would be worse than none: the program would refuse every event. */
async function readDocument(address: string): Promise<Document> {
  try {
    const response = await fetch(address, { redirect: 'manual' })
    if (!response.ok) throw new Error(`status ${response.status}`)
    return (await response.json()) as Document
  } catch (error) {
    throw new OperationFailed(`${address} cannot be read: ${(error as Error).message}. Try again.`)
  }
}
