import { expect, test } from 'vitest'
import { createFairQueue } from '../../../src/delivery/dispatcher/work.ts'

const lanesOf = (organization: string, count: number) =>
  Array.from({ length: count }, (_, i) => ({ organization, name: `${organization}${i}`, isQueued: false }))

type Lane = ReturnType<typeof lanesOf>[number]

function queueOf(lanes: readonly Lane[]) {
  const queue = createFairQueue<Lane>(
    ({ organization }) => organization,
    (lane, isQueued) => {
      lane.isQueued = isQueued
    },
  )
  for (const lane of lanes) queue.add(lane)
  const take = (count: number) => Array.from({ length: count }, () => queue.next()?.name).join(' ')
  return { ...queue, take, size: () => queue.size }
}

test('organizations take turns, and then the lanes of each', () => {
  const { take, size } = queueOf([...lanesOf('a', 3), ...lanesOf('b', 1), ...lanesOf('c', 2)])
  expect(size()).toBe(6)
  expect(take(6)).toBe('a0 b0 c0 a1 c1 a2')
  expect(take(1)).toBe('')
  expect(size()).toBe(0)
})

test('a lane that is added again goes to the back, and one that waits keeps its place', () => {
  const [first, second, third] = lanesOf('a', 3)
  const { add, take, size } = queueOf([first!, second!, third!])
  expect(take(1)).toBe('a0')
  add(first!)
  add(second!)
  expect(size()).toBe(3)
  expect(take(3)).toBe('a1 a2 a0')
})

test('an organization that comes back takes its turn behind those that wait', () => {
  const [a] = lanesOf('a', 1)
  const { add, take } = queueOf([a!, ...lanesOf('b', 2)])
  expect(take(1)).toBe('a0')
  add(a!)
  expect(take(3)).toBe('b0 a0 b1')
})

test('what is removed has no turn, and may wait again', () => {
  const [a0, a1] = lanesOf('a', 2)
  const [b0] = lanesOf('b', 1)
  const { add, remove, take, size } = queueOf([a0!, b0!, a1!])
  remove(b0!)
  remove(b0!)
  remove(a0!)
  expect(size()).toBe(1)
  add(b0!)
  expect(take(3)).toBe('a1 b0 ')
})
