/*
 * How long after its beginning was said to PostgreSQL an attempt may leave. Whoever deletes a webhook waits half a second for
 * what had begun before (http/published/departures.ts), and expects to hear the last of it then. A process that was paused, or
 * waited long for PostgreSQL's answer, would send what began seconds ago to a webhook that has been gone for as long.
 *
 * By the wall clock: it goes on while the whole machine sleeps, which the other one does not.
 */

/** An answer that took longer is no leave to send. What follows it has a tenth of a second. */
const answerMsMax = 350
/** From here on it waits for no connection, and takes one of its own. */
const waitMsMax = 250
const leaveMsMax = 450

export const isLate = (saidMs: number, answeredMs: number): boolean => answeredMs - saidMs > answerMsMax

/** What was late twice, because PostgreSQL is slow, leaves at once or not at all. */
export function setLeaveTimes(one: { hurryMs: number; overMs: number }, saidMs: number, answeredMs: number): void {
  one.hurryMs = saidMs + waitMsMax
  one.overMs = Math.max(saidMs + leaveMsMax, answeredMs + leaveMsMax - answerMsMax)
}
