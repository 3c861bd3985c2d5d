import { SendError } from './send-error.ts'

/** A timer that fires so much later than planned says that this process stood still. */
const heldUpMs = 1_000

/**
 * Ends what has taken too long. After a pause of this process, Node runs timers before it reads what has come in meanwhile: an
 * answer that was there in time would count as none. So everything is read first; and what is still open when the pause was long
 * is not the other side's failure, for the exchange may have waited for us. The function it returns calls it off.
 */
export function deadline(ms: number, end: (error: SendError) => void, late: () => SendError): () => void {
  const dueMs = performance.now() + ms
  let isOff = false
  const timer = setTimeout(() => {
    const isHeldUp = performance.now() - dueMs > heldUpMs
    // Twice: what is read in the first round may be only the last bytes of a handshake, with the answer behind it.
    setImmediate(() => setImmediate(() => !isOff && end(isHeldUp ? heldUp() : late())))
  }, ms)
  return () => {
    isOff = true
    clearTimeout(timer)
  }
}

const heldUp = () => new SendError('interrupted', 'The dispatcher stood still while the attempt was on its way.')
