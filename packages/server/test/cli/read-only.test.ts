import { join } from 'node:path'
import { expect, test } from 'vitest'
import { keyhook } from '../support/processes.ts'
import { makeReadOnly, smallDisk } from '../support/small-disk.ts'

const line = /^KEYHOOK_DATA_DIR: "[^\n]+" cannot be used: the file system is mounted read-only\. [^\n]+\n$/

test('a disk that is mounted read-only is a mistake, named in one line', { timeout: 90_000 }, async (context) => {
  const disk = await smallDisk('size=120m,mode=777')
  if (disk === null) return context.skip()
  const nobody = { uid: 65_534, gid: 65_534 }
  const migrate = (name: string, account = {}) =>
    keyhook(['migrate', '--json'], { KEYHOOK_DATA_DIR: join(disk, name) }, account)
  const refused = { code: 2, stdout: '', stderr: expect.stringMatching(line) }
  expect(await migrate('ours')).toMatchObject({ code: 0 })
  expect(await migrate('theirs', nobody)).toMatchObject({ code: 0 })
  await makeReadOnly(disk)
  expect(await migrate('new')).toMatchObject(refused)
  expect(await migrate('ours')).toMatchObject(refused)
  expect(await migrate('theirs', nobody)).toMatchObject(refused)
})
