import { expect, test } from 'vitest'
import { MachineUnfit } from '../../src/postgres/account.ts'
import { unusable } from '../../src/postgres/ownership.ts'
import { diskFull, explainError } from '../../src/startup/explain-error.ts'

const here = { database: null, dataDir: '/data' }
const system = (code: string) => Object.assign(new Error(`${code}: open '/data/postgres.log'`), { code })
const failedInitdb = (text: string) => new Error(`initdb ended with code 1:\ninitdb: error: could not write: ${text}`)

test.each([
  ['EROFS', /^The directory "\/data" cannot be used: the file system is mounted read-only\. Mount it [^\n]+\.$/],
  ['ENOSPC', /^The directory "\/data" cannot be used: [^\n]+ left on the disk\. [^\n]+ and start again\.$/],
])('%s is explained in one line, also where it is the cause of another error', async (code, line) => {
  const kept = unusable({ path: '/data', setting: 'KEYHOOK_DATA_DIR' }, `it cannot be made (${code})`, system(code))
  for (const error of [system(code), kept])
    expect(await explainError(here, error)).toMatchObject({ message: expect.stringMatching(line) })
})

test.each([
  ['Read-only file system', 'mounted read-only'],
  ['No space left on device', 'left on the disk'],
])('the error text of a PostgreSQL program is recognized: %s', async (text, explanation) => {
  expect(await explainError(here, failedInitdb(text))).toMatchObject({ message: expect.stringContaining(explanation) })
})

test('for a user without a name the message has the user id and the ways out', async () => {
  const text = 'initdb: could not look up effective user ID 54321: user does not exist'
  const error = await explainError(here, new Error(`initdb ended with code 1:\n${text}`))
  expect(error).toBeInstanceOf(MachineUnfit)
  expect((error as Error).message).toMatch(
    /^PostgreSQL makes no database[^\n]+ id 54321 has none: [^\n]+DATABASE_URL[^\n]+$/,
  )
})

test.each([
  'spawn /usr/bin/initdb EMFILE',
  'FATAL:  insufficient file descriptors available to start server process',
  'could not open directory "base": Too many open files',
])('a limit of open files that is too low is named: %s', async (text) => {
  const error = await explainError(here, new Error(`PostgreSQL did not start (exit code 1). Its last lines:\n${text}`))
  expect(error).toBeInstanceOf(MachineUnfit)
  expect((error as Error).message).toMatch(/^A process may have too few files open here [^\n]+ulimit -n[^\n]+$/)
})

test('any other error is kept, and so is one of an external server', async () => {
  const other = new TypeError('undefined is not a function')
  expect(await explainError(here, other)).toBe(other)
  const theirs = system('ENOSPC')
  expect(await explainError({ ...here, database: {} as never }, theirs)).toBe(theirs)
})

test('the message for a full disk names inodes, bytes, or both', () => {
  const plenty = 1_000_000_000
  for (const files of [0, 499]) expect(diskFull({ bytes: plenty, files })).toMatch(/^too few inodes .* takes 3000\)/)
  expect(diskFull({ bytes: 5_000_000, files: 0 })).toMatch(/^too few inodes/)
  expect(diskFull({ bytes: 5_000_000, files: 499 })).toMatch(/^there is no room .* 200 MiB and 3000 inodes\)/)
  expect(diskFull({ bytes: 0, files: 1_000_000 })).toMatch(/^there is no room .* 200 MiB\)/)
})

test('a file system without a fixed number of inodes is never short of them, and a quota counts as bytes', () => {
  expect(diskFull({ bytes: 0, files: null })).toMatch(/^there is no room .* 200 MiB\)/)
  expect(diskFull({ bytes: 1_000_000_000, files: 1_000_000 })).toMatch(/^there is no room .* 200 MiB\)/)
})
