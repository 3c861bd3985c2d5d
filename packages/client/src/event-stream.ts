import { backoffMs, createDeadline, type Deadline, waitMs } from './deadline.ts'
import { KeyhookError, networkError } from './errors.ts'
import { readJson } from './json.ts'
import { createEventParser, type ServerSentEvent } from './server-sent-events.ts'
import { explain, isTransient, type Query, type Transport } from './transport.ts'

/** The server sends at least a comment every 15 seconds. A connection that is silent for longer than this is dead. */
const silentMsMax = 45_000
const firstDelayMs = 1_000
const delayMsMax = 30_000

type StreamRequest = {
  path: string
  query: Query
  after: number | undefined
  signal: AbortSignal | undefined
  onReconnect: ((error: unknown) => void) | undefined
  onConnect: (() => void) | undefined
}

/** Yields events for ever. Each new connection starts after the last event of the one before. */
export async function* streamEvents<T>(transport: Transport, request: StreamRequest): AsyncGenerator<T> {
  const { path, query, signal, onReconnect, onConnect } = request
  let position: string | null = request.after === undefined ? null : String(request.after)
  let failures = 0
  for (;;) {
    const deadline = createDeadline(silentMsMax, signal)
    let lost: KeyhookError | null = null
    try {
      const headers = { accept: 'text/event-stream', ...(position !== null && { 'last-event-id': position }) }
      const response = await transport.open({ method: 'GET', path, query, headers, isRepeatable: true }, deadline)
      onConnect?.()
      for await (const { id, data } of readBlocks(response, deadline)) {
        failures = 0
        position = id ?? position
        if (data !== null) yield readJson<T>(data)
      }
    } catch (error) {
      const reason = explain(error, deadline, signal)
      if (!isTransient(reason)) throw reason
      lost = reason
    } finally {
      deadline.clear()
    }
    onReconnect?.(lost)
    await waitMs((lost?.retryAfter ?? 0) * 1_000 + backoffMs(failures++, firstDelayMs, delayMsMax), signal)
  }
}

async function* readBlocks(response: Response, deadline: Deadline): AsyncGenerator<ServerSentEvent> {
  if (!response.headers.get('content-type')?.startsWith('text/event-stream') || response.body === null) {
    throw new KeyhookError({
      code: 'client.unexpected_response',
      message: 'The answer is not an event stream. Is a proxy in between?',
      status: response.status,
    })
  }
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  const parse = createEventParser()
  try {
    for (;;) {
      deadline.restart()
      const { done, value } = await reader.read().catch((cause) => {
        throw networkError(cause)
      })
      // The caller may take any time for an event.
      deadline.pause()
      if (done) return
      yield* parse(decoder.decode(value, { stream: true }))
    }
  } finally {
    // Also when the caller leaves the loop: it closes the connection.
    await reader.cancel().catch(() => {})
  }
}
