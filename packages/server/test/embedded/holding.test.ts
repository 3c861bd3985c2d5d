import { execFile } from 'node:child_process'
import { mkdir, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { decide, inUse } from '../../src/embedded/acquire.ts'
import { directoryId } from '../../src/embedded/data-directory.ts'
import { askHolder, type Holder, tryHold } from '../../src/embedded/hold.ts'
import { DataDirectoryInUse } from '../../src/embedded/index.ts'
import { isPostgresOn, readLockFile } from '../../src/embedded/lock-file.ts'
import { dataDirectory, notes, open, putNote, scratch, startOwner } from './support/scratch.ts'

test('a second server is refused with a sentence that says who is there', async () => {
  const dataDir = await dataDirectory()
  const owner = startOwner(dataDir, 'serve')
  await owner.until((line) => line.ready === true)
  const refusal = await open(dataDir).catch((error: unknown) => error)
  expect(refusal).toBeInstanceOf(DataDirectoryInUse)
  const { message } = refusal as Error
  expect(message).toContain(dataDir)
  expect(message).toContain(`pid ${owner.child.pid}`)
  expect(message).toContain('http://localhost:8080')
  expect(message).toMatch(/since \d{4}-\d\d-\d\dT/)
  expect(message).toContain('give this one a data directory of its own (KEYHOOK_DATA_DIR)')
  // With that alone, `--role dispatcher` would run, on a database of its own, and deliver nothing.
  expect(message).toMatch(/To work on one installation, both need DATABASE_URL as well\.$/)
})

test('a command beside a running server shares it and leaves it running', async () => {
  const dataDir = await dataDirectory()
  const owner = startOwner(dataDir, 'serve')
  const { connection } = await owner.until((line) => line.ready === true)
  const command = await open(dataDir, 'command')
  expect(command.owned).toBe(false)
  expect(command.connection).toEqual(connection)
  await putNote(command.connection, 'from the command')
  await command.stop()
  expect(await notes(connection!)).toEqual(['from the command'])
})

// Seen to fail when only the name is compared: the command's note was in the original.
test('a copy of a data directory that is in use is told so, whatever it is opened for, and runs once that one has stopped', async () => {
  const dataDir = await dataDirectory()
  const owner = startOwner(dataDir, 'serve')
  const { connection } = await owner.until((line) => line.ready === true)
  await putNote(connection!, 'from before')
  const copy = await dataDirectory()
  // A file that vanishes in the middle is no reason to stop.
  await promisify(execFile)('cp', ['-a', dataDir, copy]).catch(() => {})
  const said = `The data directory ${copy} is a copy of ${dataDir}, which is in use by a Keyhook server (pid ${owner.child.pid}, `
  const refused = async () => {
    for (const purpose of ['command', 'serve'] as const) {
      const refusal = await open(copy, purpose).catch((error: unknown) => error)
      expect(refusal, purpose).toBeInstanceOf(DataDirectoryInUse)
      expect((refusal as Error).message).toContain(said)
      expect((refusal as Error).message).toContain('stop that process first')
    }
  }
  await refused()
  await rm(join(copy, 'postgres/postmaster.pid'))
  await refused()
  // By another path it is still the same one.
  const link = join(await scratch(), 'link')
  await symlink(dataDir, link)
  expect((await open(link, 'command')).owned).toBe(false)

  owner.child.kill('SIGTERM')
  await owner.ended
  const alone = await open(copy)
  expect(await notes(alone.connection)).toEqual(['from before'])
})

test('a command waits for a server that is still starting, and then shares it', async () => {
  const dataDir = await dataDirectory()
  const owner = startOwner(dataDir, 'serve')
  await owner.until((line) => line.note?.includes('first start only') === true)
  const command = await open(dataDir, 'command')
  expect(command.owned).toBe(false)
  await putNote(command.connection, 'shared')
})

test('a command without a server starts one and stops it again', async () => {
  const dataDir = await dataDirectory()
  const command = await open(dataDir, 'command')
  expect(command.owned).toBe(true)
  const { pid } = (await readLockFile(join(dataDir, 'postgres')))!
  await command.stop()
  expect(await isPostgresOn(join(dataDir, 'postgres'), pid)).toBe(false)
})

test('a server waits for a command to finish and says so once', async () => {
  const dataDir = await dataDirectory()
  const owner = startOwner(dataDir, 'command')
  await owner.until((line) => line.ready === true)
  const told: string[] = []
  const opening = open(dataDir, 'serve', { note: (text) => void told.push(text) })
  setTimeout(() => owner.child.kill('SIGTERM'), 300)
  expect((await opening).owned).toBe(true)
  await owner.ended
  expect(told).toEqual([expect.stringContaining(`pid ${owner.child.pid}`)])
})

test('of several commands at once on a new directory each gets its turn', async () => {
  const dataDir = await dataDirectory()
  const turn = async (text: string) => {
    const command = await open(dataDir, 'command')
    await putNote(command.connection, text)
    await command.stop()
  }
  await Promise.all(['a', 'b', 'c'].map(turn))
  const last = await open(dataDir)
  expect(await notes(last.connection)).toEqual(['a', 'b', 'c'])
})

test('every process that asks for the id of a new directory at once gets the same one', async () => {
  const dataDir = await dataDirectory()
  await mkdir(dataDir)
  const ids = await Promise.all(Array.from({ length: 20 }, () => directoryId(dataDir)))
  expect(new Set(ids).size).toBe(1)
})

test('a socket file, where there are no abstract names, holds as well, and a dead one does not', async () => {
  const address = join(await scratch(), 'hold.sock')
  const hold = (await tryHold(address, 'serve'))!
  onTestFinished(() => hold.release())
  hold.update({ url: 'http://here' })
  expect(await tryHold(address, 'serve')).toBeUndefined()
  expect(await askHolder(address)).toMatchObject({
    pid: process.pid,
    purpose: 'serve',
    url: 'http://here',
    ready: false,
  })
})

test('a holder that does not answer is waited for and then named as such', () => {
  expect(decide('serve', 'silent')).toBe('wait')
  expect(inUse('/data', 'silent')).toContain('does not answer')
  const holder: Holder = {
    pid: 7,
    purpose: 'serve',
    since: 'then',
    url: null,
    ready: false,
    socketDirectory: null,
    directory: null,
  }
  expect(decide('serve', holder)).toBe('refuse')
  expect(decide('command', holder)).toBe('wait')
  expect(decide('command', { ...holder, ready: true })).toBe('share')
  expect(decide('serve', { ...holder, purpose: 'command' })).toBe('wait')
})
