import { expect, test } from 'vitest'
import { unusable } from '../../src/embedded/ensure-directory.ts'
import { explained, MachineUnfit } from '../../src/startup/explained.ts'

const here = { database: null, dataDir: '/data' }
const system = (code: string) => Object.assign(new Error(`${code}: open '/data/postgres.log'`), { code })
const lastWords = (words: string) => new Error(`initdb ended with code 1:\ninitdb: error: could not write: ${words}`)

test.each([
  ['EROFS', /^KEYHOOK_DATA_DIR: "\/data" cannot be used: the file system is mounted read-only\. Mount it [^\n]+\.$/],
  ['ENOSPC', /^KEYHOOK_DATA_DIR: "\/data" cannot be used: [^\n]+ left on the disk\. [^\n]+ and start again\.$/],
])('%s is explained in one line, also where it is the cause of another error', async (code, line) => {
  const kept = unusable({ path: '/data', setting: 'KEYHOOK_DATA_DIR' }, `it cannot be made (${code})`, system(code))
  for (const error of [system(code), kept])
    expect(await explained(here, error)).toMatchObject({ message: expect.stringMatching(line) })
})

test.each([
  ['Read-only file system', 'mounted read-only'],
  ['No space left on device', 'left on the disk'],
])('the last words of a program are understood: %s', async (words, told) => {
  expect(await explained(here, lastWords(words))).toMatchObject({ message: expect.stringContaining(told) })
})

test('a user without a name is told the ways out, and whose name it is', async () => {
  const words = 'initdb: could not look up effective user ID 54321: user does not exist'
  const error = await explained(here, new Error(`initdb ended with code 1:\n${words}`))
  expect(error).toBeInstanceOf(MachineUnfit)
  expect((error as Error).message).toMatch(
    /^PostgreSQL makes no database[^\n]+ id 54321 has none: [^\n]+DATABASE_URL[^\n]+$/,
  )
})

test.each([
  'spawn /usr/bin/initdb EMFILE',
  'FATAL:  insufficient file descriptors available to start server process',
  'could not open directory "base": Too many open files',
])('too few files are named as such: %s', async (words) => {
  const error = await explained(here, new Error(`PostgreSQL did not start (exit code 1). Its last words:\n${words}`))
  expect(error).toBeInstanceOf(MachineUnfit)
  expect((error as Error).message).toMatch(/^A process may have too few files open here [^\n]+ulimit -n[^\n]+$/)
})

test('any other error is told as it is, and so is one that comes from a server of somebody else', async () => {
  const other = new TypeError('undefined is not a function')
  expect(await explained(here, other)).toBe(other)
  const theirs = system('ENOSPC')
  expect(await explained({ ...here, database: {} as never }, theirs)).toBe(theirs)
})
