import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
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

const log = new URL('../../src/log.ts', import.meta.url)
const start = `import { createLog } from '${log}'\nconst log = createLog('info')\n`

test.each([
  ['runs out of work', '', 0],
  ['is told to exit', 'process.exit(0)', 0],
  ['throws', 'throw new Error("a fault of ours")', 1],
  ['writes more than fits at once', 'for (let i = 0; i < 20_000; i++) log.info("many")', 0],
])('no line is lost when a process %s', async (_how, end, code) => {
  const script = `${start}log.info('first')\n${end}`
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

/** A process whose standard error nobody reads yet. */
const unread = (script: string) =>
  spawn(process.execPath, ['--input-type=module', '--eval', start + script], { stdio: ['pipe', 'pipe', 'pipe'] })

test('lines that nobody reads do not fill the memory: what is too much is lost, and said to be', async () => {
  const child = unread(`
    const line = 'x'.repeat(1_000)
    for (let n = 0; n < 40; n++) {
      for (let i = 0; i < 1_000; i++) log.info(line)
      await new Promise((done) => setTimeout(done, 1))
    }
    process.stdout.write('written')
    setInterval(() => log.info('after'), 20)
    process.stdin.on('end', () => process.exit()).resume()`)
  await once(child.stdout, 'data')
  let bytes = 0
  let tail = ''
  child.stderr.on('data', (chunk) => {
    bytes += chunk.length
    tail = tail.slice(-1_000) + chunk
    if (tail.includes('"after"')) child.stdin.end()
  })
  let lost = 0
  child.stderr.on('data', () => {
    const found = /"lines":(\d+),"msg":"log.lines_lost"/.exec(tail)
    if (found !== null) lost = Number(found[1])
  })
  await once(child, 'close')
  expect(bytes).toBeLessThan(25e6)
  expect(lost).toBeGreaterThan(10_000)
})

// Seen to fail without, at the first line: it ended the process, which then hung.
test('a disk that is full stops neither a process nor its end', async () => {
  const full = openSync('/dev/full', 'w')
  const script = `${start}
    import { writeSync } from 'node:fs'
    setInterval(() => log.info('a line'), 20)
    setTimeout(() => writeSync(1, 'still here'), 1_000)
    process.once('SIGTERM', () => process.exit(3))`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { stdio: ['ignore', 'pipe', full] })
  closeSync(full)
  const [said] = await once(child.stdout!, 'data')
  expect(String(said)).toBe('still here')
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([3, null])
})

test('nor do they keep a process from ending', { timeout: 30_000 }, async () => {
  const child = unread(`for (let i = 0; i < 5_000; i++) log.info('x'.repeat(100))\nprocess.exit(3)`)
  expect(await once(child, 'exit')).toEqual([3, null])
  child.stderr.destroy()
})
