import { once } from 'node:events'
import { appendFile, readFile, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { query } from '../embedded/support/scratch.ts'
import { keyhook, serve } from '../support/processes.ts'
import { smallDisk } from '../support/small-disk.ts'

const line = /^KEYHOOK_DATA_DIR: "[^\n]+" cannot be used: there is no room left on the disk\. [^\n]+\n$/

test('a disk without room for a new installation is a mistake, named in one line', async (context) => {
  // Room for half of a cluster, which takes 40 MB; and for one without the tables that come after it.
  for (const size of ['size=20m', 'size=46m']) {
    const disk = await smallDisk(size)
    if (disk === null) return context.skip()
    const ended = await keyhook(['migrate', '--json'], { KEYHOOK_DATA_DIR: join(disk, 'data') })
    expect(ended, size).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(line) })
  }
})

test('a disk without room for more files, whatever bytes it has, is told from one that is full', async (context) => {
  // Room for no file at all, for two of them, and for half of a cluster.
  for (const files of [1, 3, 500]) {
    const disk = await smallDisk(`size=400m,nr_inodes=${files}`)
    if (disk === null) return context.skip()
    const ended = await keyhook(['migrate', '--json'], { KEYHOOK_DATA_DIR: join(disk, 'data') })
    const inodes = /^KEYHOOK_DATA_DIR: "[^\n]+" cannot be used: too few inodes are left on the disk\. [^\n]+\n$/
    expect(ended, `${files}`).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(inodes) })
  }
})

test('an installation whose disk is full says so in one line, and starts once there is room', async (context) => {
  const disk = await smallDisk('size=120m')
  if (disk === null) return context.skip()
  const migrate = () => keyhook(['migrate', '--json'], { KEYHOOK_DATA_DIR: join(disk, 'data') })
  expect(await migrate()).toMatchObject({ code: 0 })
  const filler = join(disk, 'filler')
  const fill = () => appendFile(filler, Buffer.alloc(120 * 1024 * 1024)).catch(() => {})
  await fill()
  expect(await migrate()).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(line) })
  // Not even for what PostgreSQL says about it: the last block of its log has some, until it is gone.
  await truncate(join(disk, 'data/postgres.log'))
  await fill()
  expect(await migrate()).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(line) })
  await rm(filler)
  expect(await migrate()).toMatchObject({ code: 0 })
})

test('a server whose PostgreSQL ends for want of room says so in one line, and no more', async (context) => {
  const disk = await smallDisk('size=150m')
  if (disk === null) return context.skip()
  const dataDir = join(disk, 'data')
  const running = await serve({ KEYHOOK_DATA_DIR: dataDir, KEYHOOK_LOG_LEVEL: 'error' }, ['--json', '--role', 'api'])
  const password = (await readFile(join(dataDir, 'postgres.password'), 'utf8')).trim()
  const connection = { host: join(dataDir, 'postgres'), port: 5432, user: 'keyhook', password, database: 'keyhook' }
  await appendFile(join(disk, 'filler'), Buffer.alloc(150 * 1024 * 1024)).catch(() => {})
  const ended = once(running.child, 'close')
  // More than a segment of its log of changes, each of which is made in full before anything is written to it.
  const write = query(
    connection,
    (sql) => sql`
    select pg_logical_emit_message(false, 'test', repeat('.', 1000000)) from generate_series(1, 20)`,
  )
  await expect(write).rejects.toThrow()
  const [code] = await ended
  expect({ code, stderr: running.output().stderr }).toMatchObject({ code: 2, stderr: expect.stringMatching(line) })
})
