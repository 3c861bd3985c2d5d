import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { inject } from 'vitest'
import { until } from '../../../server/test/kit/until.ts'

/** The folder of the built console. Test files run side by side: the first one builds, and the others wait for it. */
export async function builtConsole(): Promise<string> {
  const folder = inject('consoleFolder')
  const directory = join(folder, 'dist')
  const done = join(folder, 'done')
  const isFirst = await mkdir(join(folder, 'building')).then(
    () => true,
    () => false,
  )
  if (isFirst) {
    await build(directory)
    await writeFile(done, '')
  }
  await until(() => existsSync(done))
  return directory
}

/** In a process of its own: vitest sets NODE_ENV, and then a build is one for development. */
async function build(directory: string): Promise<void> {
  const vite = ['node_modules/vite/bin/vite.js', 'build', 'packages/console', '--logLevel', 'error']
  const cwd = join(import.meta.dirname, '../../../..')
  const env = { ...process.env, NODE_ENV: 'production' }
  await promisify(execFile)(process.execPath, [...vite, '--outDir', directory], { cwd, env })
}
