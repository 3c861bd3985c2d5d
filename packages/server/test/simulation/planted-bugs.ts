import type { NewAttempt } from '../../src/delivery/statements/begin.ts'
import type { PlantedBug } from './run.ts'
import { keyOf } from './tables.ts'

/** Bugs in the statements, each of which breaks an invariant. The checks have to find every one. */
export const plantedBugs: Record<string, PlantedBug> = {
  'an attempt is not written down'({ statements }, random) {
    const { begin } = statements
    statements.begin = (attempts) => {
      const { lanes } = begin(random.chance(0.05) ? attempts.slice(1) : attempts)
      return { lanes, begun: new Map(attempts.map((one) => [one.attemptId, one.tries])) }
    }
  },

  'a lane is leased to two processes'({ statements, lanes }, random) {
    const { lease } = statements
    statements.lease = (request) => {
      for (const lane of lanes.values()) if (lane.owner !== null && random.chance(0.02)) lane.dueMs = 0
      return lease(request)
    }
  },

  'a delivery is left out of a fetch'({ statements }, random) {
    const { fetch } = statements
    statements.fetch = (requests) => fetch(requests).filter(() => !random.chance(0.01))
  },

  'a retry is forgotten'({ statements }, random) {
    const { settle } = statements
    statements.settle = (attempts) =>
      settle(attempts.map((one) => (random.chance(0.05) ? { ...one, retryMs: null } : one)))
  },

  'settle does not compare the token'({ statements, lanes }) {
    const { settle } = statements
    statements.settle = (attempts) =>
      settle(
        attempts.map((one) => {
          const { token } = lanes.get(one.attempt.laneId)!
          return { ...one, attempt: { ...one.attempt, token } }
        }),
      )
  },

  'a first attempt begins at or below the cursor'(model) {
    const { begin } = model.statements
    model.statements.begin = (attempts) => {
      const { lanes, begun } = begin(attempts)
      const again = attempts.filter((one) => lanes.has(one.laneId) && one.attempt === 1 && !begun.has(one.attemptId))
      for (const one of again)
        model.inFlight.set(keyOf(one.laneId, one.eventSeq), { ...one, tries: 0, redelivered: false, requested: false })
      return { lanes, begun: new Map([...begun, ...again.map((one: NewAttempt) => [one.attemptId, 0] as const)]) }
    }
  },

  'interrupt does not retry'(model) {
    const { interrupt } = model.statements
    model.statements.interrupt = (held) => {
      const before = new Set(model.retries.keys())
      const free = interrupt(held)
      for (const key of model.retries.keys()) if (!before.has(key)) model.retries.delete(key)
      return free
    }
  },

  'wake drops the wakes of locked lanes'(model) {
    const { wake } = model.statements
    model.statements.wake = (after) => {
      const woken = wake(after)
      if (woken.next === null) model.deleteWakes(model.wakes)
      return woken
    }
  },

  // Without the comparison, a request just before the release is missed: the due time comes from the retries of before it.
  'release ignores redelivery requests'(model, random) {
    const { release } = model.statements
    model.statements.release = (held) =>
      held.flatMap((one) => {
        const attempt = [...model.attempts.values()].find(({ laneId }) => laneId === one.laneId)
        if (attempt !== undefined && random.chance(0.05)) model.redeliver(one.laneId, attempt.eventSeq)
        const { redeliveryRequests } = model.lanes.get(one.laneId)!
        const unseen = redeliveryRequests === one.redeliveryRequests ? [] : model.retriesOf(one.laneId)
        for (const { laneId, eventSeq } of unseen) model.retries.delete(keyOf(laneId, eventSeq))
        const released = release([{ ...one, redeliveryRequests }])
        for (const row of unseen) model.retries.set(keyOf(row.laneId, row.eventSeq), row)
        return released
      })
  },

  'an attempt begins while its webhook is paused'(model) {
    const { begin } = model.statements
    model.statements.begin = (attempts) => {
      const lanes = attempts.map(({ laneId }) => model.lanes.get(laneId)!)
      const paused = lanes.map((lane) => ({ lane, pausedMs: lane.pausedMs }))
      for (const { lane } of paused) lane.pausedMs = null
      const begun = begin(attempts)
      for (const { lane, pausedMs } of paused.reverse()) lane.pausedMs = pausedMs ?? lane.pausedMs
      return begun
    }
  },

  'an attempt begins with settings of before'(model) {
    const { begin } = model.statements
    model.statements.begin = (attempts) =>
      begin(attempts.map((one) => ({ ...one, version: model.lanes.get(one.laneId)!.version })))
  },

  'a paused lane is not due when its pause ends'(model) {
    const { release } = model.statements
    model.statements.release = (held) => {
      const released = release(held)
      for (const laneId of released) {
        const lane = model.lanes.get(laneId)!
        if (lane.pausedMs !== null && lane.pausedMs === lane.dueMs) lane.dueMs = null
      }
      return released
    }
  },

  'a suspended lane is not due for its next try'(model) {
    const { release } = model.statements
    model.statements.release = (held) => {
      const released = release(held)
      for (const laneId of released) {
        const lane = model.lanes.get(laneId)!
        if (model.isSuspended(lane) && lane.dueMs === lane.probeMs) lane.dueMs = null
      }
      return released
    }
  },

  'a suspended webhook is tried more often'({ statements, lanes }) {
    const { fetch, begin } = statements
    const atOnce = () => {
      for (const lane of lanes.values()) if (lane.probeMs !== null) lane.probeMs = 0
    }
    statements.fetch = (requests) => {
      atOnce()
      return fetch(requests)
    }
    statements.begin = (attempts) => {
      atOnce()
      return begin(attempts)
    }
  },

  // Reading goes on behind a first attempt that did not begin, which is then left out.
  'a first attempt of a suspended lane is passed over'({ statements, lanes }) {
    const { begin } = statements
    statements.begin = (attempts) => {
      const answer = begin(attempts)
      for (const one of attempts) {
        const lane = lanes.get(one.laneId)!
        if (one.suspended && !answer.begun.has(one.attemptId)) lane.cursorSeq = Math.max(lane.cursorSeq, one.eventSeq)
      }
      return answer
    }
  },

  'a lease survives its server'(model) {
    const { begin, renew, release, isHeld, interrupt } = model.statements
    const surviving =
      <A extends unknown[], R>(statement: (...given: A) => R) =>
      (...given: A): R => {
        for (const lane of model.lanes.values()) lane.server = model.server
        return statement(...given)
      }
    Object.assign(model.statements, {
      begin: surviving(begin),
      renew: surviving(renew),
      release: surviving(release),
      isHeld: surviving(isHeld),
      interrupt: surviving(interrupt),
    })
  },
}
