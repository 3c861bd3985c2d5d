import { execFile } from 'node:child_process'
import { mkdir, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { directoryId } from '../../src/postgres/data-directory.ts'
import { askLockHolder, decide, inUse, type LockHolder, tryLock } from '../../src/postgres/data-directory-lock.ts'
import { DataDirectoryInUse } from '../../src/postgres/index.ts'
import { isPostgresOn, readLockFile } from '../../src/postgres/lock-file.ts'
import { dataDirectory, notes, open, putNote, scratch, startHolder } from './support/scratch.ts'

test('a second server is rejected with a message that names the first', async () => {
  const dataDir = await dataDirectory()
  const owner = startHolder(dataDir, 'serve')
  await owner.until((line) => line.ready === true)
  const error = await open(dataDir).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(DataDirectoryInUse)
  const { message } = error as Error
  expect(message).toContain(dataDir)
  expect(message).toContain(`pid ${owner.child.pid}`)
  expect(message).toContain('http://localhost:8080')
  expect(message).toMatch(/since \d{4}-\d\d-\d\dT/)
  expect(message).toContain('give this one a data directory of its own (KEYHOOK_DATA_DIR)')
  // With a data directory alone, `--role dispatcher` would run on its own empty database.
  expect(message).toMatch(/To work on one installation, both need DATABASE_URL as well\.$/)
})

test('a command beside a running server shares it and leaves it running', async () => {
  const dataDir = await dataDirectory()
  const owner = startHolder(dataDir, 'serve')
  const { connection } = await owner.until((line) => line.ready === true)
  const command = await open(dataDir, 'command')
  expect(command.owned).toBe(false)
  expect(command.connection).toEqual(connection)
  await putNote(command.connection, 'from the command')
  await command.stop()
  expect(await notes(connection!)).toEqual(['from the command'])
})

// If only the id were compared, the command on the copy would write into the original.
test('a copy of a data directory that is in use is rejected, and can run once the original has stopped', async () => {
  const dataDir = await dataDirectory()
  const owner = startHolder(dataDir, 'serve')
  const { connection } = await owner.until((line) => line.ready === true)
  await putNote(connection!, 'from before')
  const copy = await dataDirectory()
  // Files may disappear during the copy.
  await promisify(execFile)('cp', ['-a', dataDir, copy]).catch(() => {})
  const expected = `The data directory ${copy} is a copy of ${dataDir}, which is in use by a Keyhook server (pid ${owner.child.pid}, `
  const expectRejected = async () => {
    for (const purpose of ['command', 'serve'] as const) {
      const error = await open(copy, purpose).catch((reason: unknown) => reason)
      expect(error, purpose).toBeInstanceOf(DataDirectoryInUse)
      expect((error as Error).message).toContain(expected)
      expect((error as Error).message).toContain('stop that process first')
    }
  }
  await expectRejected()
  await rm(join(copy, 'postgres/postmaster.pid'))
  await expectRejected()
  // Another path to the same directory is not a copy.
  const link = join(await scratch(), 'link')
  await symlink(dataDir, link)
  expect((await open(link, 'command')).owned).toBe(false)

  owner.child.kill('SIGTERM')
  await owner.ended
  const alone = await open(copy)
  expect(await notes(alone.connection)).toEqual(['from before'])
})

test('a command waits for a server that is starting, and then shares it', async () => {
  const dataDir = await dataDirectory()
  const owner = startHolder(dataDir, 'serve')
  await owner.until((line) => line.note?.includes('first start only') === true)
  const command = await open(dataDir, 'command')
  expect(command.owned).toBe(false)
  await putNote(command.connection, 'shared')
  expect(await notes(command.connection)).toEqual(['shared'])
})

test('a command without a server starts one and stops it again', async () => {
  const dataDir = await dataDirectory()
  const command = await open(dataDir, 'command')
  expect(command.owned).toBe(true)
  const { pid } = (await readLockFile(join(dataDir, 'postgres')))!
  await command.stop()
  expect(await isPostgresOn(join(dataDir, 'postgres'), pid)).toBe(false)
})

test('a server waits for a command to finish, and reports it once', async () => {
  const dataDir = await dataDirectory()
  const owner = startHolder(dataDir, 'command')
  await owner.until((line) => line.ready === true)
  const noted: string[] = []
  const note = (text: string) => {
    noted.push(text)
    owner.child.kill('SIGTERM')
  }
  expect((await open(dataDir, 'serve', { note })).owned).toBe(true)
  await owner.ended
  expect(noted).toEqual([expect.stringContaining(`pid ${owner.child.pid}`)])
})

test('several commands at once on a new directory all succeed', async () => {
  const dataDir = await dataDirectory()
  const run = async (text: string) => {
    const command = await open(dataDir, 'command')
    await putNote(command.connection, text)
    await command.stop()
  }
  await Promise.all(['a', 'b', 'c'].map(run))
  const last = await open(dataDir)
  expect(await notes(last.connection)).toEqual(['a', 'b', 'c'])
})

test('all processes that create the id of a new directory at once get the same id', async () => {
  const dataDir = await dataDirectory()
  await mkdir(dataDir)
  const ids = await Promise.all(Array.from({ length: 20 }, () => directoryId(dataDir)))
  expect(new Set(ids).size).toBe(1)
})

test('a socket file works as a lock on systems without abstract sockets', async () => {
  const address = join(await scratch(), 'lock.sock')
  const lock = (await tryLock(address, 'serve'))!
  onTestFinished(() => lock.release())
  lock.update({ url: 'http://here' })
  expect(await tryLock(address, 'serve')).toBeUndefined()
  expect(await askLockHolder(address)).toMatchObject({
    pid: process.pid,
    purpose: 'serve',
    url: 'http://here',
    ready: false,
  })
})

test('a holder that does not answer is waited for, and then reported', () => {
  expect(decide('serve', 'silent')).toBe('wait')
  expect(inUse('/data', 'silent')).toContain('does not answer')
  const holder: LockHolder = {
    pid: 7,
    purpose: 'serve',
    since: 'then',
    url: null,
    ready: false,
    socketDirectory: null,
    directory: null,
  }
  expect(decide('serve', holder)).toBe('reject')
  expect(decide('command', holder)).toBe('wait')
  expect(decide('command', { ...holder, ready: true })).toBe('share')
  expect(decide('serve', { ...holder, purpose: 'command' })).toBe('wait')
})
