import { expect, test } from 'vitest'
import { importMended } from '../../src/kernel/mend-library.ts'

// Seen to fail when only what is loaded is looked at: a release that bundles its files would go unmended.
test('a library that has the file no more is refused', async () => {
  const mends = [{ file: 'typebox/nowhere.js', from: 'a', to: 'b' }]
  await expect(importMended(mends, async () => 'the library')).rejects.toThrow(/not loaded: typebox\/nowhere\.js/)
})

test('one whose file says something else is refused, with what is missing', async () => {
  const mends = [{ file: 'standardwebhooks/dist/index.js', from: 'what no release has ever said', to: '' }]
  await expect(importMended(mends, () => import('standardwebhooks'))).rejects.toThrow(/it has no "what no release/)
})
