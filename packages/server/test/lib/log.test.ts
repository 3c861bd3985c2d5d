import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { expect, test } from 'vitest'
import { loggedError } from '../../src/lib/log.ts'

test('an error is logged with its message, code, stack and cause, and nothing that a library attached to it', () => {
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

const module = new URL('../../src/lib/log.ts', import.meta.url)
const startWith = (logFormat: string) =>
  `import { createLog } from '${module}'\nconst { log, lines } = await createLog({ logLevel: 'info', logFormat: '${logFormat}' })\n`
const start = startWith('auto')

/** Runs a script to its end, with pipes for its output. */
const run = (script: string): Promise<{ code: unknown; stderr: string }> =>
  new Promise((done) => {
    execFile(process.execPath, ['--input-type=module', '--eval', script], { maxBuffer: 1e8 }, (error, _, stderr) => {
      done({ code: error?.code ?? 0, stderr })
    })
  })

test.each([
  ['runs out of work', '', 0],
  ['calls process.exit', 'process.exit(0)', 0],
  ['throws', 'throw new Error("a fault of ours")', 1],
  ['writes more than fits at once', 'for (let i = 0; i < 20_000; i++) log.info("many")', 0],
])('no line is lost when a process %s', async (_how, end, code) => {
  const ended = await run(`${start}log.info('first')\n${end}`)
  expect(ended.code).toBe(code)
  const lines = ended.stderr.split('\n').filter((line) => line.startsWith('{'))
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual(['first', ...lines.slice(1).map(() => 'many')])
  expect(lines.length).toBe(end.startsWith('for') ? 20_001 : 1)
})

const twoLines = `log.warn({ status: 503 }, 'one')\nlines.write('"attempt":2,"msg":"two"')`

test('the log is one JSON object a line where standard error is no terminal', async () => {
  const { stderr } = await run(start + twoLines)
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  const lines = stderr.trim().split('\n')
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { level: 40, time, status: 503, msg: 'one' },
    { level: 30, time, attempt: 2, msg: 'two' },
  ])
})

test('the pretty format is one readable line each, without colour where standard error is no terminal', async () => {
  const { stderr } = await run(startWith('pretty') + twoLines)
  expect(stderr).toMatch(/^\[[\d:.]+\] WARN: one \{"status":503\}\n\[[\d:.]+\] INFO: two \{"attempt":2\}\n$/)
})

/** A process whose standard error is a pipe that is not read yet. */
const unread = (script: string) =>
  spawn(process.execPath, ['--input-type=module', '--eval', start + script], { stdio: ['pipe', 'pipe', 'pipe'] })

test('a pipe that is not read does not fill the memory: further lines are dropped, and their number is logged', async () => {
  const child = unread(`
    const line = 'x'.repeat(1_000)
    for (let n = 0; n < 40; n++) {
      for (let i = 0; i < 1_000; i++) log.info(line)
      await new Promise((done) => setTimeout(done, 1))
    }
    process.stdout.write('written')
    process.stdin.on('end', () => process.exit()).resume()`)
  await once(child.stdout, 'data')
  let bytes = 0
  let tail = ''
  let dropped = 0
  child.stderr.on('data', (chunk) => {
    bytes += chunk.length
    tail = tail.slice(-1_000) + chunk
    const found = /"lines":(\d+),"msg":"log.lines_dropped"/.exec(tail)
    if (found === null || dropped > 0) return
    dropped = Number(found[1])
    child.stdin.end()
  })
  await once(child, 'close')
  expect(bytes).toBeLessThan(25e6)
  expect(dropped).toBeGreaterThan(10_000)
})

test('a full disk neither stops a process nor keeps it from ending', async () => {
  const full = openSync('/dev/full', 'w')
  const script = `${start}
    import { writeSync } from 'node:fs'
    setInterval(() => log.info('a line'), 20)
    setTimeout(() => writeSync(1, 'still here'), 1_000)
    process.once('SIGTERM', () => process.exit(3))`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { stdio: ['ignore', 'pipe', full] })
  closeSync(full)
  const [output] = await once(child.stdout!, 'data')
  expect(String(output)).toBe('still here')
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([3, null])
})

test('a pipe that is never read does not keep a process from ending', async () => {
  const child = unread(`for (let i = 0; i < 5_000; i++) log.info('x'.repeat(100))\nprocess.exit(3)`)
  expect(await once(child, 'exit')).toEqual([3, null])
  child.stderr.destroy()
})
