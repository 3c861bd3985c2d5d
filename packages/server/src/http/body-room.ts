import type { FastifyReply, FastifyRequest } from 'fastify'
import { Fault } from '../lib/faults.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The handler's work, which may go on after the client has left. */
    work: Promise<unknown> | null
  }
}

/** Until it is answered, a body takes about four times its size: as sent, parsed, as events, and on its way to PostgreSQL. */
const bytesMax = 128 * 1_024 * 1_024
/** Less than Node gives a request to arrive: afterwards it would be answered that the client was too slow. */
const waitMsMax = 10_000
/** These take little, and do not wait for others. */
const smallBytesMax = 64 * 1_024
/** What a body counts for that does not say how long it is. */
const unknownBytes = 1_024 * 1_024

type Waiting = { bytes: number; start(): void }

export type BodyRoom = {
  /** Calls `done` when there is room, or with a fault after a while. The function that it returns gives the room back. */
  enter(bytes: number, done: (fault?: Fault) => void): () => void
}

/** Room for the bodies that are in memory at the same time. They enter in order of arrival; one that is too large enters alone. */
export function createBodyRoom(limits = { bytesMax, waitMsMax }): BodyRoom {
  let heldBytes = 0
  const waiting = new Set<Waiting>()

  function admit(): void {
    for (const one of waiting) {
      if (heldBytes > 0 && heldBytes + one.bytes > limits.bytesMax) return
      waiting.delete(one)
      heldBytes += one.bytes
      one.start()
    }
  }

  return {
    enter(bytes, done) {
      let hasLeft = false
      const leave = (): void => {
        if (hasLeft) return
        hasLeft = true
        clearTimeout(timer)
        if (!waiting.delete(one)) heldBytes -= bytes
        admit()
      }
      const timer = setTimeout(() => {
        leave()
        done(noRoom(limits.waitMsMax))
      }, limits.waitMsMax)
      const one = {
        bytes,
        start() {
          clearTimeout(timer)
          done()
        },
      }
      waiting.add(one)
      admit()
      return leave
    },
  }
}

const noRoom = (waitedMs: number): Fault =>
  new Fault('service.unavailable', {
    public: 'Too many large requests arrive at the same time. Nothing was changed by this one; try again shortly.',
    internal: `for ${waitedMs} ms, other large bodies took all the room that there is for them`,
    headers: { 'retry-after': '2' },
  })

/** Calls `done` when the body may be read. Its room is free again when the request is answered and its work is done. */
export function waitForRoom(
  room: BodyRoom,
  request: FastifyRequest,
  reply: FastifyReply,
  done: (fault?: Fault) => void,
): void {
  const length = request.headers['content-length']
  const bytes = length === undefined ? unknownBytes : Number(length)
  // A body that is too large is refused without being read.
  if (bytes <= smallBytesMax || bytes > request.routeOptions.bodyLimit) return void done()
  // Access may end while it waits.
  request.isBodyPending = true
  const leave = room.enter(bytes, done)
  reply.raw.once('close', () => {
    if (request.work === null) leave()
    else request.work.then(leave, leave)
  })
}
