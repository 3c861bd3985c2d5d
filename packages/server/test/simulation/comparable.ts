import type { Model } from './model.ts'

/** Every delay in a comparison is zero or this long. */
export const elevenDaysMs = 1_000_000_000

/** The rows of the model as `database-tables.ts` reads the real ones: a due time is now, later or never. */
export function modelRows(model: Model) {
  const due = (dueMs: number | null) =>
    dueMs === null ? 'never' : dueMs > 1_700_000_000_000 + elevenDaysMs / 2 ? 'later' : 'now'
  return {
    lanes: [...model.lanes.values()].map((lane) => ({
      id: lane.id,
      head: lane.headSeq,
      cursor: lane.cursorSeq,
      requests: lane.redeliveryRequests,
      owner: lane.owner,
      due: due(lane.dueMs),
      ended: lane.ended,
      version: lane.version,
      paused: due(lane.pausedMs),
      failures: lane.failures,
      failing: lane.isFailing,
      suspended: due(lane.suspendedMs),
      probe: due(lane.probeMs),
      resumes: lane.resumes,
    })),
    wakes: model.wakes.map(({ orgId, firstSeq, lastSeq }) => ({ org: orgId, first: firstSeq, last: lastSeq })),
    retries: [...model.retries.values()].map(({ laneId, eventSeq, attempt, tries, dueMs, redelivered }) => {
      return { lane: laneId, seq: eventSeq, attempt, try: tries, due: due(dueMs), redelivered }
    }),
    inFlight: [...model.inFlight.values()].map(({ laneId, eventSeq, attemptId, token, tries, ...row }) => {
      return {
        lane: laneId,
        seq: eventSeq,
        attempt: row.attempt,
        try: tries,
        id: attemptId,
        redelivered: row.redelivered,
        current: model.lanes.get(laneId)!.token === token,
      }
    }),
    changes: model.changes.map(({ laneId, kind }) => ({ lane: laneId, kind })),
    attempts: [...model.attempts.values()].map(({ laneId, eventSeq, attempt, attemptId, status }) => {
      return { lane: laneId, seq: eventSeq, attempt, id: attemptId, status }
    }),
  }
}

/** Statements do not order what they return. */
export const sorted = (answer: unknown): unknown => {
  if (!Array.isArray(answer)) return answer
  const text = (row: object) => JSON.stringify(row, Object.keys(row).sort())
  return answer.map((row) => (typeof row === 'object' && row !== null ? text(row) : row)).sort()
}
