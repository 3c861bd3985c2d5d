import { SendError } from './send-error.ts'

/** A timer that fires this much too late means that this process was paused. */
const pausedMs = 1_000

/**
 * Calls `onLate` when the time is over; the returned function cancels it. After a pause of this process, Node runs timers before it
 * reads what has arrived, so reading comes first. What is still open after a long pause is `interrupted`: we may have held it up.
 */
export function startDeadline(ms: number, onLate: (error: SendError) => void, timeout: () => SendError): () => void {
  const dueMs = performance.now() + ms
  let isCancelled = false
  const timer = setTimeout(() => {
    const wasPaused = performance.now() - dueMs > pausedMs
    // Twice: the first round may read only the last bytes of a handshake, with the response behind it.
    setImmediate(() => setImmediate(() => !isCancelled && onLate(wasPaused ? paused() : timeout())))
  }, ms)
  return () => {
    isCancelled = true
    clearTimeout(timer)
  }
}

const paused = () => new SendError('interrupted', 'The dispatcher was paused while the attempt was in flight.')
