import { isLockTimeout } from '../../db/database.ts'
import type { Wait } from '../../store/delivery/events.ts'
import { createPlaces, type Place } from './places.ts'

const pauseMs = { first: 50, max: 800 }
/** Twice as long as an attempt waits, so that those who stand in line leave room for an attempt of whoever comes now. */
const roomMs = 20

/**
 * Does what may have to wait for publishers elsewhere, for so many at a time. Those who stand in line for a place try it in the
 * meantime, again and again, without waiting for anybody: somebody who is held would keep them for seconds, and they may be free.
 */
export type Turns = {
  /** Nobody has a place left: what needs none is quicker. */
  areTaken(): boolean
  /** `work` is told how long it may wait. When that was not enough it throws, has written nothing and is called again. */
  take<T>(work: (wait: Wait) => Promise<T>): Promise<T>
}

export function createTurns(waitingMax: number): Turns {
  const places = createPlaces(waitingMax)
  // Few: each has a connection, if only for a moment.
  const attempts = createPlaces(Math.max(1, Math.floor(waitingMax / 4)))

  /** Null where somebody else is publishing, or the place was given before it began. */
  async function attempt<T>(work: (wait: Wait) => Promise<T>, place: Place): Promise<{ done: T } | null> {
    const one = attempts.ask()
    try {
      // Else a place would stand empty while its owner waits for an attempt.
      await Promise.race([place.given, one.given])
      return place.isGiven ? null : { done: await work('moment') }
    } catch (error) {
      if (isLockTimeout(error)) return null
      throw error
    } finally {
      one.giveBack()
    }
  }

  return {
    areTaken: places.areTaken,

    async take(work) {
      const place = places.ask()
      try {
        for (let ms = pauseMs.first; !place.isGiven; ms = Math.min(pauseMs.max, ms * 2)) {
          const attempted = await attempt(work, place)
          if (attempted !== null) return attempted.done
          await within(Math.max(ms, places.waiting() * roomMs), place.given)
        }
        return await work('turn')
      } finally {
        place.giveBack()
      }
    },
  }
}

/** Until it is so, or the time is over. */
async function within(ms: number, so: Promise<void>): Promise<void> {
  const over = Promise.withResolvers<void>()
  const timer = setTimeout(over.resolve, ms)
  await Promise.race([so, over.promise])
  clearTimeout(timer)
}
