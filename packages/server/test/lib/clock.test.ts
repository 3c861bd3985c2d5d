import { expect, test } from 'vitest'
import { retryUntilAccepted } from '../../src/lib/clock.ts'

/** Work that fails `times` times, on a clock that only records its pauses. */
function failing(times: number) {
  const pauses: number[] = []
  let calls = 0
  return {
    pauses,
    calls: () => calls,
    pause: async (ms: number) => void pauses.push(ms),
    work: async () => {
      calls += 1
      if (calls <= times) throw new Error(`failure ${calls}`)
      return 'accepted'
    },
  }
}

test('work is repeated until it succeeds, with pauses that double up to a limit', async () => {
  const { work, pause, pauses } = failing(6)
  const retried: string[] = []
  const onRetry = (error: unknown) => void retried.push((error as Error).message)
  const options = { pause, onRetry, isTransient: () => true, pauseMsMin: 50, pauseMsMax: 500 }
  expect(await retryUntilAccepted(options, work)).toBe('accepted')
  expect(pauses).toEqual([50, 100, 200, 400, 500, 500])
  expect(retried.at(-1)).toBe('failure 6')
})

test('an error that is not transient is thrown at once', async () => {
  const { work, pause, pauses } = failing(1)
  await expect(retryUntilAccepted({ pause, isTransient: () => false }, work)).rejects.toThrow('failure 1')
  expect(pauses).toEqual([])
})

test('an aborted signal, a rejected pause and an error of onRetry each end the retrying', async () => {
  const aborted = failing(9)
  const signal = AbortSignal.abort(new Error('stopping'))
  const isTransient = () => true
  await expect(retryUntilAccepted({ pause: aborted.pause, isTransient, signal }, aborted.work)).rejects.toThrow(
    'stopping',
  )
  expect(aborted.calls()).toBe(0)
  const noPause = failing(9)
  const pause = () => Promise.reject(new Error('no more pauses'))
  await expect(retryUntilAccepted({ pause, isTransient }, noPause.work)).rejects.toThrow('no more pauses')
  const limited = failing(9)
  const onRetry = () => {
    throw new Error('too often')
  }
  await expect(retryUntilAccepted({ pause: limited.pause, isTransient, onRetry }, limited.work)).rejects.toThrow(
    'too often',
  )
  expect(limited.calls()).toBe(1)
})
