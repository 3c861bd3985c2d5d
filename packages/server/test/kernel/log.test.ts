import { execFile } from 'node:child_process'
import { expect, test } from 'vitest'
import { loggedError } from '../../src/log.ts'

test('a line tells of an error what happened and where, and nothing that a library hung on it', () => {
  const cause = Object.assign(new Error('reset'), { code: 'ECONNRESET', options: { password: 'hunter2' } })
  const error = Object.assign(new TypeError('lost', { cause }), {
    client: { connectionParameters: { password: 'hunter2' } },
    detail: 'Key (hash)=(hunter2) already exists.',
  })
  const line = JSON.stringify(loggedError(error))
  expect(line).not.toContain('hunter2')
  expect(JSON.parse(line)).toMatchObject({
    type: 'TypeError',
    message: 'lost',
    stack: expect.stringContaining('log.test'),
    cause: { message: 'reset', code: 'ECONNRESET' },
  })
})

test.each([
  ['runs out of work', '', 0],
  ['is told to exit', 'process.exit(0)', 0],
  ['throws', 'throw new Error("a fault of ours")', 1],
  ['writes more than fits at once', 'for (let i = 0; i < 20_000; i++) log.info("many")', 0],
])('no line is lost when a process %s', async (_how, end, code) => {
  const log = new URL('../../src/log.ts', import.meta.url)
  const script = `import { createLog } from '${log}'\nconst log = createLog('info')\nlog.info('first')\n${end}`
  const ended = await new Promise<{ code: unknown; stderr: string }>((done) => {
    const options = { maxBuffer: 1e8 }
    execFile(process.execPath, ['--input-type=module', '--eval', script], options, (error, _stdout, stderr) => {
      done({ code: error?.code ?? 0, stderr })
    })
  })
  expect(ended.code).toBe(code)
  const lines = ended.stderr.split('\n').filter((line) => line.startsWith('{'))
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual(['first', ...lines.slice(1).map(() => 'many')])
  expect(lines.length).toBe(end.startsWith('for') ? 20_001 : 1)
})
