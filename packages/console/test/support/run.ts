import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { chromiumPath, skipped } from './chromium.ts'

/*
 * `npm run test:browser`: the tests of the console, after all others and one file at a time. A browser needs the whole machine.
 */
if (chromiumPath === undefined) console.log(skipped)
else {
  const vitest = fileURLToPath(import.meta.resolve('vitest/package.json')).replace(/package\.json$/, 'vitest.mjs')
  const { status } = spawnSync(process.execPath, [vitest, 'run', ...process.argv.slice(2)], {
    stdio: 'inherit',
    env: { ...process.env, TEST_SUITE: 'browser' },
  })
  process.exitCode = status ?? 1
}
