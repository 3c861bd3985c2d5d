import { mkdtemp, readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { removeDataDirectory } from '../kit/data-directory.ts'
import { keyhook, serve } from '../kit/processes.ts'
import '../kit/server-limits.ts'

test('a link to the console has the address of the running server, for a user by e-mail address or id', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'keyhook-test-'))
  onTestFinished(() => removeDataDirectory(dataDir))
  const { url, stop } = await serve({ KEYHOOK_DATA_DIR: dataDir })
  const link = (...args: string[]) => keyhook(['console', 'link', ...args], { KEYHOOK_DATA_DIR: dataDir })
  const created = await keyhook(['user', 'create', '--email', 'ada@example.com', '--json'], {
    KEYHOOK_DATA_DIR: dataDir,
  })
  const { id } = JSON.parse(created.stdout) as { id: string }
  for (const user of ['Ada@example.com', id]) {
    const { stdout } = await link('--user', user)
    expect(stdout).toMatch(new RegExp(`^${url}/console/sign-in#\\S+\n$`))
  }
  const unknown = await link('--user', 'nobody@example.com')
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('No user has the e-mail address')])
  const wrong = await link('--user', 'ada')
  expect([wrong.code, wrong.stderr]).toEqual([2, '--user: "ada" is not an e-mail address or an id (usr_…)\n'])
  expect(await readdir(dataDir)).toContain('server.address')
  await stop()
  expect(await readdir(dataDir)).not.toContain('server.address')
})
