import { expect, test } from 'vitest'
import { connectionsToEnd } from '../../src/databases/drivers/local/pending-connections.ts'

test('the oldest of the source with too many are ended, and then the oldest of all', () => {
  const from = (source: string, first: number, count: number) =>
    Array.from({ length: count }, (_, n) => ({ pid: first + n, source }))
  const limits = { perSourceMax: 3, inAllMax: 5 }
  const pids = (pending: { pid: number; source: string }[]) => connectionsToEnd(pending, limits).map(({ pid }) => pid)
  expect(pids(from('a', 1, 3))).toEqual([])
  expect(pids([...from('b', 1, 1), ...from('a', 2, 5)])).toEqual([2, 3])
  expect(pids([...from('b', 1, 3), ...from('a', 4, 3)])).toEqual([1])
})
