import { expect, test } from 'vitest'
import { noRoom } from '../../src/startup/no-room.ts'

test('what has run out is what is named: inodes, bytes, or both where there is little of both', () => {
  const plenty = 1_000_000_000
  for (const files of [0, 499]) expect(noRoom({ bytes: plenty, files })).toMatch(/^too few inodes .* takes 3000\)/)
  expect(noRoom({ bytes: 5_000_000, files: 0 })).toMatch(/^too few inodes/)
  expect(noRoom({ bytes: 5_000_000, files: 499 })).toMatch(/^there is no room .* 200 MB and 3000 inodes\)/)
  expect(noRoom({ bytes: 0, files: 1_000_000 })).toMatch(/^there is no room .* 200 MB\)/)
})

test('a disk that makes inodes as they are needed never lacks them, and a quota is a matter of bytes', () => {
  expect(noRoom({ bytes: 0, files: null })).toMatch(/^there is no room .* 200 MB\)/)
  expect(noRoom({ bytes: 1_000_000_000, files: 1_000_000 })).toMatch(/^there is no room .* 200 MB\)/)
})
