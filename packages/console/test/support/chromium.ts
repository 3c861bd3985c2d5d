import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  interface ProvidedContext {
    /** Where the first test file that needs it builds the console, for all of the run. */
    consoleFolder: string
  }
}

const places = [process.env.KEYHOOK_TEST_CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser']

/** A Chromium of this machine; undefined without one. */
export const chromiumPath = places.find((path) => path !== undefined && existsSync(path))

export const skipped =
  'Skipped the browser tests of the console: no Chromium found. To run them: apt-get install chromium (KEYHOOK_TEST_CHROMIUM names another one).'

export default async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  if (chromiumPath === undefined) {
    console.log(skipped)
    return undefined
  }
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-console-'))
  project.provide('consoleFolder', folder)
  return () => rm(folder, { recursive: true })
}
