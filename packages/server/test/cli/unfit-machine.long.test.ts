import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, chown, readFile, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { removeDataDirectory } from '../kit/data-directory.ts'
import { cleanEnvironment, keyhook, program, scratchDirectory, serve } from '../kit/processes.ts'
import { makeReadOnly, smallDisk } from '../kit/small-disk.ts'
import { asRoot, query } from '../postgres/support/scratch.ts'

/*
 * Problems of the machine are reported in one line that says what to do.
 */

const full = /^KEYHOOK_DATA_DIR: "[^\n]+" cannot be used: there is no room left on the disk\. [^\n]+\n$/

test('a disk is too small for a new installation', async (context) => {
  // Room for half of a cluster, which takes 40 MB; and for one without the tables that come after it.
  for (const size of ['size=20m', 'size=46m']) {
    const disk = await smallDisk(size)
    if (disk === null) return context.skip('no small file system can be mounted here')
    const ended = await keyhook(['migrate', '--json'], { KEYHOOK_DATA_DIR: join(disk, 'data') })
    expect(ended, size).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(full) })
  }
})

test('a disk without inodes is distinguished from a full one', async (context) => {
  // Room for no file at all, for two of them, and for half of a cluster.
  for (const files of [1, 3, 500]) {
    const disk = await smallDisk(`size=400m,nr_inodes=${files}`)
    if (disk === null) return context.skip('no small file system can be mounted here')
    const ended = await keyhook(['migrate', '--json'], { KEYHOOK_DATA_DIR: join(disk, 'data') })
    const inodes = /^KEYHOOK_DATA_DIR: "[^\n]+" cannot be used: too few inodes are left on the disk\. [^\n]+\n$/
    expect(ended, `${files}`).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(inodes) })
  }
})

test('a full disk stops the start of an installation until there is room', async (context) => {
  const disk = await smallDisk('size=120m')
  if (disk === null) return context.skip('no small file system can be mounted here')
  const migrate = () => keyhook(['migrate', '--json'], { KEYHOOK_DATA_DIR: join(disk, 'data') })
  expect(await migrate()).toMatchObject({ code: 0 })
  const filler = join(disk, 'filler')
  const fill = () => appendFile(filler, Buffer.alloc(120 * 1024 * 1024)).catch(() => {})
  await fill()
  expect(await migrate()).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(full) })
  // Without room even for PostgreSQL's own message in its log.
  await truncate(join(disk, 'data/postgres.log'))
  await fill()
  expect(await migrate()).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(full) })
  await rm(filler)
  expect(await migrate()).toMatchObject({ code: 0 })
})

test('a full disk ends PostgreSQL and the server', async (context) => {
  const disk = await smallDisk('size=150m')
  if (disk === null) return context.skip('no small file system can be mounted here')
  const dataDir = join(disk, 'data')
  const running = await serve({ KEYHOOK_DATA_DIR: dataDir, KEYHOOK_LOG_LEVEL: 'error' }, ['--json', '--role', 'api'])
  const password = (await readFile(join(dataDir, 'postgres.password'), 'utf8')).trim()
  const connection = { host: join(dataDir, 'postgres'), port: 5432, user: 'keyhook', password, database: 'keyhook' }
  await appendFile(join(disk, 'filler'), Buffer.alloc(150 * 1024 * 1024)).catch(() => {})
  const ended = once(running.child, 'close')
  // More than one WAL segment: PostgreSQL creates a segment as a whole before it writes to it.
  const write = query(
    connection,
    (sql) => sql`
    select pg_logical_emit_message(false, 'test', repeat('.', 1000000)) from generate_series(1, 20)`,
  )
  await expect(write).rejects.toThrow()
  const [code] = await ended
  expect({ code, stderr: running.output().stderr }).toMatchObject({ code: 2, stderr: expect.stringMatching(full) })
})

const readOnly = /^KEYHOOK_DATA_DIR: "[^\n]+" cannot be used: the file system is mounted read-only\. [^\n]+\n$/

test('a disk is mounted read-only', async (context) => {
  const disk = await smallDisk('size=120m,mode=777')
  if (disk === null) return context.skip('no small file system can be mounted here')
  const otherUser = { uid: 65_534, gid: 65_534 }
  const migrate = (name: string, account = {}) =>
    keyhook(['migrate', '--json'], { KEYHOOK_DATA_DIR: join(disk, name) }, account)
  const refused = { code: 2, stdout: '', stderr: expect.stringMatching(readOnly) }
  expect(await migrate('ours')).toMatchObject({ code: 0 })
  expect(await migrate('theirs', otherUser)).toMatchObject({ code: 0 })
  await makeReadOnly(disk)
  expect(await migrate('new')).toMatchObject(refused)
  expect(await migrate('ours')).toMatchObject(refused)
  expect(await migrate('theirs', otherUser)).toMatchObject(refused)
})

// With 24 none is left for the pipes of a program, and with 40 PostgreSQL itself refuses to start.
test.each([24, 40])('a limit of %i open files is too low', async (files) => {
  const dataDir = await scratchDirectory()
  onTestFinished(() => removeDataDirectory(dataDir))
  const script = `ulimit -n ${files} && exec "$0" "$1" serve --json`
  const env = cleanEnvironment({ KEYHOOK_DATA_DIR: dataDir, PORT: '0' })
  const ending = promisify(execFile)('/bin/sh', ['-c', script, process.execPath, program], { env })
  const line = new RegExp(`^A process may have too few files open here \\(${files}\\): [^\\n]+\\n$`)
  await expect(ending).rejects.toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(line) })
})

// Only root can start a process as another user.
test.skipIf(!asRoot)('a user without a name on this machine cannot start PostgreSQL', async () => {
  const nameless = { uid: 54_321, gid: 54_321 }
  const dataDir = await scratchDirectory()
  await chown(dataDir, nameless.uid, nameless.gid)
  const ended = await keyhook(['migrate', '--json'], { KEYHOOK_DATA_DIR: dataDir }, nameless)
  const line = /^PostgreSQL makes no database for a user without a name, [^\n]+\n$/
  expect(ended).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(line) })
})
