import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'

/** An answer without an end, in pieces of text. */
export type EventStream = {
  /** `recheckAccess` rejects when the caller has lost access. */
  chunks(recheckAccess: () => Promise<void>): AsyncGenerator<string>
  /** Aborted when the process stops. */
  stopping: AbortSignal
  close(): void
}

/** What is read ahead for a reader that is slow. */
const bufferedBytes = 64 * 1024
/** A reader that takes nothing for so long is disconnected. A stream that has nothing to send writes more often than that. */
const stalledMsMax = 60_000
/** How long readers have to take the rest when the process stops. */
const stopMsMax = 1_000

/**
 * Sends a stream of server-sent events (WHATWG HTML, 9.2). The next piece is made when the socket has taken the one before, so a
 * slow reader costs one piece of memory.
 */
export function sendEventStream(
  reply: FastifyReply,
  stream: EventStream,
  { recheckAccess, onAborted }: { recheckAccess(): Promise<void>; onAborted(error: unknown): void },
): void {
  const { raw, request } = reply
  // nginx would otherwise collect a few kilobytes before it passes them on.
  reply.header('x-accel-buffering', 'no').type('text/event-stream')
  if (request.method === 'HEAD' || raw.destroyed || request.socket.readableEnded) {
    stream.close()
    return void reply.send(Readable.from([]))
  }
  const disconnect = () => void raw.destroy()
  const stop = () => setTimeout(disconnect, stopMsMax).unref()
  stream.stopping.addEventListener('abort', stop, { once: true })
  raw.setTimeout(stalledMsMax, disconnect)
  // Other answers still go to a client that has closed its side; a stream would only notice by its next line.
  request.socket.once('end', disconnect)
  raw.once('close', () => {
    request.socket.off('end', disconnect)
    stream.stopping.removeEventListener('abort', stop)
    stream.close()
  })
  const chunks = endedBy(stream.chunks(recheckAccess), onAborted)
  void reply.send(Readable.from(chunks, { objectMode: false, highWaterMark: bufferedBytes }))
}

/** Ends where an error would break the connection: either way the reader connects again, and is answered the reason. */
async function* endedBy(chunks: AsyncGenerator<string>, onError: (error: unknown) => void): AsyncGenerator<string> {
  try {
    yield* chunks
  } catch (error) {
    onError(error)
  }
}
