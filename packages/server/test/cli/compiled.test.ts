import { readdir, rm, stat } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { keyhook } from '../support/processes.ts'

const libraries = new URL('../../../../node_modules', import.meta.url)
const kept = new URL('node_modules/.cache/keyhook/', new URL('../../../../', import.meta.url))

test('what was compiled is kept beside the libraries for the next start, by whoever owns them', async () => {
  await rm(kept, { recursive: true, force: true, maxRetries: 5 })
  expect(await keyhook(['--help'], {})).toMatchObject({ code: 0, stderr: '' })
  const isOurs = (await stat(libraries)).uid === process.getuid!()
  const versions = await readdir(kept).catch(() => [])
  expect(versions.length).toBe(isOurs ? 1 : 0)
  expect(await keyhook(['--help'], {})).toMatchObject({ code: 0, stderr: '' })
})
