import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { removeDataDirectory } from '../support/data-directory.ts'
import { program, scratchDirectory } from '../support/processes.ts'

// With 24 there is none left for a program's input and output, and with 40 PostgreSQL itself finds them too few.
test.each([24, 40])('where a process may have only %i files open, that is said in one line', async (files) => {
  const dataDir = await scratchDirectory()
  onTestFinished(() => removeDataDirectory(dataDir))
  const script = `ulimit -n ${files} && exec "$0" "$1" serve --json`
  const env = { PATH: process.env.PATH, KEYHOOK_DATA_DIR: dataDir, PORT: '0' }
  const ending = promisify(execFile)('/bin/sh', ['-c', script, process.execPath, program], { env })
  const line = new RegExp(`^A process may have too few files open here \\(${files}\\): [^\\n]+\\n$`)
  await expect(ending).rejects.toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(line) })
})
