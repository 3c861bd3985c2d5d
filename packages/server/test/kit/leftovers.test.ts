import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const module = new URL('leftovers.ts', import.meta.url)

/** A small test run: the setup, a test that does this, the teardown. */
async function run(script: string): Promise<{ code: number; output: string; folder: string }> {
  const whole = `
    import setup from '${module}'
    import { spawn } from 'node:child_process'
    import { mkdirSync, mkdtempSync } from 'node:fs'
    import { tmpdir } from 'node:os'
    import { join } from 'node:path'
    const teardown = await setup()
    ${script}
    console.log(tmpdir())
    await teardown()`
  const ended = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', whole]).catch(
    (error) => error,
  )
  return { code: ended.code ?? 0, output: ended.stderr, folder: ended.stdout.trim() }
}

test('a run that leaves nothing behind passes', async () => {
  const ended = await run('')
  expect(ended).toMatchObject({ code: 0, output: '' })
  await expect(stat(ended.folder)).rejects.toThrow('ENOENT')
})

test.each([
  ['a temporary folder', `mkdtempSync(join(tmpdir(), 'keyhook-x-'))`, /keyhook-x-/],
  ['a cluster', `mkdirSync(join(process.env.STATE_DIRECTORY, 'clusters/c1'), { recursive: true })`, /clusters\/c1/],
])('a run that leaves %s behind fails and names it', async (_what, script, named) => {
  const ended = await run(script)
  expect(ended.code).toBe(1)
  expect(ended.output).toMatch(/^The tests left behind:\n {2}\S+\n/)
  expect(ended.output).toMatch(named)
  await expect(stat(ended.folder)).rejects.toThrow('ENOENT')
})

// Children of the run itself are its workers, so these processes are started by a shell that ends at once.
const twoProcesses = `
  const script = 'sleep 600 & env -i ' + process.execPath + ' -e "setTimeout(() => {}, 6e5)" $TMPDIR &'
  await new Promise((done) => spawn('sh', ['-c', script], { stdio: 'ignore' }).once('exit', done))`

test.skipIf(!existsSync('/proc/self/environ'))(
  'a run that leaves processes behind fails, names them and ends them: found by their environment or arguments',
  async () => {
    const ended = await run(twoProcesses)
    expect(ended.code).toBe(1)
    const found = [...ended.output.matchAll(/process (\d+): .*(sleep 600|setTimeout)/g)]
    expect(found.map(([, , command]) => command).sort()).toEqual(['setTimeout', 'sleep 600'])
    for (const [, pid] of found) await expect.poll(() => existsSync(`/proc/${pid}/exe`)).toBe(false)
  },
)
