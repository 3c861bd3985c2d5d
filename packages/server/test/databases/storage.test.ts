import { describe, expect, test } from 'vitest'
import { blame, diskLevel, type StorageView, storageState } from '../../src/databases/storage-rules.ts'

const mib = 1024 ** 2
const gib = 1024 * mib

const quiet: StorageView = {
  before: 'normal',
  usedBytes: 100 * mib,
  limitBytes: 10 * gib,
  grownBytes: 0,
  grownReadOnlyBytes: 0,
  disk: 'ok',
  isBlamed: false,
}
const stateOf = (view: Partial<StorageView>) => storageState({ ...quiet, ...view }).state

describe('a disk that is nearly full', () => {
  test('makes only those read-only who filled it, all below half of the floor, and stops all below a quarter', () => {
    const blamed = { isBlamed: true }
    expect([stateOf({ disk: 'low' }), stateOf({ disk: 'low', ...blamed })]).toEqual(['normal', 'read_only'])
    expect([stateOf({ disk: 'very_low' }), stateOf({ disk: 'very_low', ...blamed })]).toEqual([
      'read_only',
      'read_only',
    ])
    expect([stateOf({ disk: 'critical' }), stateOf({ disk: 'critical', ...blamed })]).toEqual(['stopped', 'stopped'])
  })

  test('stops those who go on writing although they must not, and lets nobody else wait for them', () => {
    expect(stateOf({ disk: 'low', isBlamed: true, grownBytes: 40 * mib })).toBe('stopped')
    expect(stateOf({ disk: 'low', isBlamed: true, before: 'read_only', grownReadOnlyBytes: 40 * mib })).toBe('stopped')
    expect(stateOf({ disk: 'low', grownBytes: 40 * mib })).toBe('normal')
    expect(stateOf({ disk: 'low', before: 'stopped' })).toBe('normal')
    expect(stateOf({ disk: 'low', before: 'stopped', isBlamed: true })).toBe('stopped')
  })

  test('gets better a tenth above where it got worse', () => {
    const floor = 1_000
    const after = (before: Parameters<typeof diskLevel>[0]) => (free: number) => diskLevel(before, free, floor)
    expect([1_001, 999, 499, 249].map(after('ok'))).toEqual(['ok', 'low', 'very_low', 'critical'])
    expect([1_101, 1_099, 549, 274].map(after('critical'))).toEqual(['ok', 'low', 'very_low', 'critical'])
    expect([551, 549].map(after('very_low'))).toEqual(['low', 'very_low'])
  })
})

describe('a disk is full because of', () => {
  const database = (name: string, usedBytes: number, grownBytes = 0, limitBytes = 10 * gib) => ({
    name,
    usedBytes,
    grownBytes,
    limitBytes,
  })
  const blamed = (diskBytes: number, ...databases: ReturnType<typeof database>[]) =>
    blame(databases, diskBytes).map(({ name }) => name)

  test('who grew most in the last minutes, and who grew half as much', () => {
    const three = [
      database('a', 900 * mib, 800 * mib),
      database('b', 500 * mib, 450 * mib),
      database('c', gib, 60 * mib),
    ]
    expect(blamed(6 * gib, ...three)).toEqual(['a', 'b'])
  })

  test('who uses most beyond their share, which is as their limit', () => {
    expect(blamed(3 * gib, database('a', 2 * gib), database('b', gib), database('c', 50 * mib))).toEqual(['a'])
    expect(blamed(3 * gib, database('a', 2 * gib, 0, 30 * gib), database('b', gib))).toEqual(['b'])
  })

  test('nobody, if something else fills it', () => {
    expect(blamed(10 * gib, database('a', 100 * mib, 10 * mib), database('b', 50 * mib))).toEqual([])
    expect(blamed(10 * gib)).toEqual([])
  })
})
