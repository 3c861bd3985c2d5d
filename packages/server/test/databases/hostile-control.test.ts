import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openControl, readActivity } from '../../src/databases/drivers/local/control.ts'
import { inTime } from './support/program.ts'
import '../kit/server-limits.ts'

/*
 * A program in the place of a tenant's server, on its socket: whatever it answers costs that tenant's work, and nothing else.
 */
type Answer = (socket: Socket, request: Buffer, count: number) => void

async function hostileServer(answer: Answer) {
  const host = await mkdtemp(join(tmpdir(), 'keyhook-'))
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    let count = 0
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (request: Buffer) => answer(socket, request, count++))
  })
  server.listen(join(host, '.s.PGSQL.5432'))
  await once(server, 'listening')
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
    await rm(host, { recursive: true })
  })
  return { control: { host, port: 5432, user: 'keyhook', password: '', database: 'postgres' }, sockets }
}

const message = (code: string, ...parts: (Buffer | string)[]): Buffer => {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part)))
  const head = Buffer.alloc(5)
  head.write(code, 'latin1')
  head.writeUInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}
const int16 = (value: number) => Buffer.from([(value >> 8) & 0xff, value & 0xff])
const int32 = (value: number) => Buffer.concat([int16(value >> 16), int16(value)])
const field = (name: string, type = 25) =>
  Buffer.concat([Buffer.from(`${name}\0`), int32(0), int16(0), int32(type), int16(-1), int32(-1), int16(0)])
const text = (value: string) => Buffer.concat([int32(Buffer.byteLength(value)), Buffer.from(value)])

const ready = message('Z', 'I')
const welcome = Buffer.concat([message('R', int32(0)), message('K', int32(1), int32(2)), ready])
const described = message('T', int16(1), field('one'))
const row = message('D', int16(1), text('1'))
const complete = Buffer.concat([message('C', 'SELECT 1\0'), ready])
const prepared = Buffer.concat([message('1'), message('2'), described])
const one = Buffer.concat([prepared, row, complete])

const { signal } = new AbortController()
const open = (control: Parameters<typeof openControl>[0]) => openControl(control, { name: 'keyhook test', signal })
const welcomed =
  (then: (socket: Socket) => void): Answer =>
  (socket, _request, count) =>
    count === 0 ? void socket.write(welcome) : then(socket)

test('a session works with a server that answers as PostgreSQL does, in parts of any size', async () => {
  const { control } = await hostileServer(
    welcomed(async (socket) => {
      for (const byte of one) socket.write(Buffer.from([byte]))
    }),
  )
  const { sql, close } = await open(control)
  expect(await sql`select 1 as one`).toEqual([{ one: '1' }])
  await close()
})

const endless: Record<string, Buffer> = {
  rows: row,
  'rows without columns': message('D', int16(0)),
  notices: message('N', 'Mlong\0', '\0'),
  'one message': Buffer.concat([Buffer.from('D'), int32(0x7fffffff)]),
  'one row': Buffer.concat([Buffer.from('D'), int32(0x7fffffff), int16(1), int32(0x7ffffff0)]),
}
for (const [what, part] of Object.entries(endless)) {
  test(`an answer with endless ${what} ends the session`, async () => {
    let bytes = 0
    const { control } = await hostileServer(
      welcomed((socket) => {
        const more = what.startsWith('one') ? Buffer.alloc(65_536) : Buffer.concat(Array(1_000).fill(part))
        const write = () => {
          while (!socket.destroyed && socket.write(more)) bytes += more.length
        }
        socket.write(Buffer.concat([prepared, part]))
        socket.on('drain', write)
        write()
      }),
    )
    await expect(inTime(open(control), 'refused', 20_000)).rejects.toThrow('sends too much')
    expect(bytes).toBeLessThan(16 * 1024 * 1024)
  })
}

const malformed: Record<string, Buffer> = {
  'an error that does not end': message('E', 'Mno end'),
  'an error without fields': message('E'),
  'a row that is shorter than it says': message('D', int16(1)),
  'a row with a negative number of columns': message('D', int16(-1)),
  'a column with a negative length': message('D', int16(1), int32(-2)),
  'a description without columns': message('T', int16(9)),
  'a request for a password': message('R', int32(3)),
  'a request for SCRAM': message('R', int32(10), 'SCRAM-SHA-256\0\0'),
  'an authentication that does not exist': message('R', int32(99)),
  'an empty authentication': message('R'),
  'an unknown message': message('!', 'x'),
  'a length below the least': Buffer.from('D\0\0\0\0'),
  'the start of a copy': message('G', '\0', int16(0)),
  'no protocol at all': Buffer.from('\0\0\0\0\x08HTTP'),
}
for (const [what, answer] of Object.entries(malformed)) {
  test(`${what} ends the session, before and after the login`, async () => {
    const first = await hostileServer((socket) => void socket.write(answer))
    await expect(inTime(open(first.control), 'refused', 20_000)).rejects.toThrow(/does not answer as PostgreSQL/)
    const later = await hostileServer(welcomed((socket) => void socket.write(Buffer.concat([prepared, answer]))))
    await expect(inTime(open(later.control), 'refused', 20_000)).rejects.toThrow(/does not answer as PostgreSQL/)
  })
}

test('any order of messages ends in an answer or an error', async () => {
  const messages = [row, described, complete, ready, message('1'), message('2'), message('3'), message('n')]
  messages.push(message('s'), message('I'), message('S', 'a\0b\0'), message('t', int16(1), int32(25)), welcome)
  messages.push(
    message('E', 'SERROR\0', 'C42P01\0', 'Mno\0', '\0'),
    message('N', 'Mnote\0', '\0'),
    message('D', int16(0)),
  )
  messages.push(message('T', int16(1), field('__proto__', 114)), message('D', int16(1), text('{"a":[')))
  let state = 1
  const random = (below: number) => {
    state = (state * 48_271) % 2_147_483_647
    return state % below
  }
  const any = () => Buffer.concat(Array.from({ length: random(8) }, () => messages[random(messages.length)]!))
  const { control } = await hostileServer((socket, _request, count) => {
    socket.write(Buffer.concat(count === 0 && random(4) > 0 ? [welcome, any()] : [any()]))
    if (random(3) > 0) socket.end()
  })
  const run = async () => {
    const limited = AbortSignal.timeout(1_000)
    const session = await openControl(control, { name: 'keyhook test', signal: limited }).catch(() => null)
    await session?.sql.unsafe('select 2').catch(() => {})
    await session?.close()
    return 'ended'
  }
  // An error that nobody could catch would fail the run of the tests.
  const runs = Array.from({ length: 200 }, run)
  expect(new Set(await Promise.all(runs))).toEqual(new Set(['ended']))
})

test('a session that is given up while it connects ends, though the server answers the login and nothing else', async () => {
  const given = new AbortController()
  const { control, sockets } = await hostileServer((socket, _request, count) => {
    if (count > 0) return
    given.abort()
    setTimeout(() => socket.write(welcome), 100)
  })
  const opened = openControl(control, { name: 'keyhook test', signal: given.signal })
  await expect(inTime(opened, 'given up', 20_000)).rejects.toThrow('aborted')
  await expect.poll(() => sockets.size).toBe(0)
})

test('a server that never closes a connection keeps none open', async () => {
  const { control, sockets } = await hostileServer(welcomed((socket) => void socket.write(one)))
  const { close } = await open(control)
  for (const socket of sockets) socket.allowHalfOpen = true
  await close()
  await expect.poll(() => sockets.size).toBe(0)
})

test('statistics that are no numbers are refused, because those of all databases are recorded together', async () => {
  const columns = ['sizeBytes', 'connections', 'connectionsMax']
  const answer = (values: string[]) => {
    const description = message('T', int16(3), ...columns.map((name) => field(name, 701)))
    return Buffer.concat([
      message('1'),
      message('2'),
      description,
      message('D', int16(3), ...values.map(text)),
      complete,
    ])
  }
  let values = ['1', '2', '3']
  const { control } = await hostileServer((socket, _request, count) => {
    socket.write(count === 0 ? welcome : count === 1 ? one : answer(values))
  })
  expect(await readActivity(control, signal)).toEqual({ sizeBytes: 1, connections: 2, connectionsMax: 3 })
  for (values of [
    ['NaN', '2', '3'],
    ['1', 'Infinity', '3'],
    ['1', '2', '-1'],
    ['1', '2.5', '3'],
    ['1', '3000000000', '3'],
  ])
    await expect(readActivity(control, signal)).rejects.toThrow(/statistic/)
})
