import { randomUUID } from 'node:crypto'
import { fromUUID } from 'typeid-js'
import { expect, test } from 'vitest'
import { attemptIdOf, attemptUuid, isId, newId } from '../../src/kernel/ids.ts'

test('a new id is one by its shape, unique, and sorts after the ones before it', async () => {
  const ids: string[] = []
  for (let i = 0; i < 20; i++) {
    ids.push(newId('key'))
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  expect(ids.every((id) => isId('key', id))).toBe(true)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.toSorted()).toEqual(ids)
})

const good = 'key_01h455vb4pex5vsknk084sn02q'
test.each([
  ['another prefix', good.replace('key', 'org')],
  ['no prefix', good.slice(4)],
  ['an empty text', ''],
  ['a character too few', good.slice(0, -1)],
  ['a character too many', `${good}0`],
  ['capitals', good.toUpperCase()],
  ['more than 128 bits', good.replace('_0', '_8')],
  ['a letter that base32 leaves out', good.replace(/q$/, 'l')],
  ['a line break at the end', `${good}\n`],
  ['a NUL', `${good.slice(0, -1)}\0`],
])('%s is not an id', (_, text) => {
  expect(isId('key', good)).toBe(true)
  expect(isId('key', text)).toBe(false)
})

test('the id of an attempt is what the library makes of its UUID, and leads back to it', () => {
  const edges = ['0', '7', '8', 'f'].map((digit) => '00000000-0000-0000-0000-000000000000'.replaceAll('0', digit))
  for (const uuid of [...edges, ...Array.from({ length: 1_000 }, () => randomUUID())]) {
    const id = attemptIdOf(uuid)
    expect(id).toBe(fromUUID(uuid, 'dlv'))
    expect(attemptIdOf(uuid.toUpperCase())).toBe(id)
    expect(attemptUuid(id)).toBe(uuid.replaceAll('-', ''))
  }
})
