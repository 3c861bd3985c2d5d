import { execFileSync, spawnSync } from 'node:child_process'
import { accessSync, constants, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const root = fileURLToPath(new URL('../../../..', import.meta.url))
const unit = readFileSync(join(root, 'deploy/systemd/keyhook.service'), 'utf8')

const hasAnalyze = (() => {
  try {
    execFileSync('systemd-analyze', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

test.skipIf(!hasAnalyze)(
  `systemd-analyze verify accepts the unit${hasAnalyze ? '' : ' (not run: systemd-analyze is not installed)'}`,
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'keyhook-unit-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const path = join(folder, 'keyhook.service')
    // Its programs have to be there: those of this checkout.
    writeFileSync(path, unit.replaceAll('/opt/keyhook/', root))
    const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', path], { encoding: 'utf8' })
    expect({ status, output: stdout + stderr }).toEqual({ status: 0, output: '' })
  },
)

test('the unit starts files of the checkout, and gives Keyhook the time to stop that docs/deploying.md names', () => {
  for (const [, program] of unit.matchAll(/^Exec\w+=\/opt\/keyhook\/(\S+)/gm))
    accessSync(join(root, program!), constants.X_OK)
  expect(unit).toMatch(/^ExecStart=\S+\/bin\/keyhook serve$/m)
  const page = readFileSync(join(root, 'docs/deploying.md'), 'utf8')
  // Two and a half minutes, and one for the embedded server.
  expect(page).toContain('two and a half minutes for `jobs` or `all`, a minute more with the')
  expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)![1])).toBe(150 + 60)
})
