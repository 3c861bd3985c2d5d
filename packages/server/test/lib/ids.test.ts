import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test, vi } from 'vitest'
import { attemptIdOf, attemptUuid, isId, newId } from '../../src/lib/ids.ts'

test('a new id is valid and unique, and sorts after those of earlier milliseconds', () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  const startMs = Date.now()
  const ids = Array.from({ length: 20 }, (_, i) => {
    vi.setSystemTime(startMs + i)
    return newId('key')
  })
  expect(ids.every((id) => isId('key', id))).toBe(true)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.toSorted()).toEqual(ids)
})

const good = 'key_01h455vb4pex5vsknk084sn02q'
test.each([
  ['another prefix', good.replace('key', 'org')],
  ['no prefix', good.slice(4)],
  ['an empty string', ''],
  ['a character too few', good.slice(0, -1)],
  ['a character too many', `${good}0`],
  ['capitals', good.toUpperCase()],
  ['more than 128 bits', good.replace('_0', '_8')],
  ['a letter outside of the alphabet', good.replace(/q$/, 'l')],
  ['a line break at the end', `${good}\n`],
  ['a NUL', `${good.slice(0, -1)}\0`],
])('%s is not an id', (_, text) => {
  expect(isId('key', good)).toBe(true)
  expect(isId('key', text)).toBe(false)
})

test('the id of an attempt is the TypeID of its UUID, and is converted back to it', () => {
  expect(attemptIdOf('01890a5d-ac96-774b-bcce-b302099a8057')).toBe('dlv_01h455vb4pex5vsknk084sn02q')
  for (const uuid of Array.from({ length: 100 }, () => randomUUID())) {
    const id = attemptIdOf(uuid)
    expect(isId('dlv', id)).toBe(true)
    expect(attemptUuid(id)).toBe(uuid.replaceAll('-', ''))
  }
})
