import { chown } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { asRoot } from '../embedded/support/scratch.ts'
import { keyhook, scratchDirectory } from '../support/processes.ts'

// Only root can be another user.
test.skipIf(!asRoot)('a user who has no name on this machine is told so in one line', async () => {
  const nameless = { uid: 54_321, gid: 54_321 }
  const dataDir = await scratchDirectory()
  await chown(dataDir, nameless.uid, nameless.gid)
  const ended = await keyhook(['migrate', '--json'], { KEYHOOK_DATA_DIR: dataDir }, nameless)
  const line = /^PostgreSQL makes no database for a user without a name, [^\n]+\n$/
  expect(ended).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(line) })
})
