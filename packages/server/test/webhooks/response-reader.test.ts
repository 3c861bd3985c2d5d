import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type ResponseHead, ResponseReader } from '../../src/webhooks/sending/response-reader.ts'
import { SendError } from '../../src/webhooks/sending/send-error.ts'

/*
 * Answers as they stand on the wire, in whatever pieces they come.
 */

const headerBytesMax = 1_024

function listening() {
  const heard = { isOver: false, heads: [] as ResponseHead[], body: '' }
  return Object.assign(heard, {
    onHead: (head: ResponseHead) => void heard.heads.push(head),
    onBody: (bytes: Buffer) => {
      heard.body += bytes.toString('latin1')
    },
  })
}

/** Reads the pieces as one answer, and after them that there is nothing more. */
function readAll(pieces: readonly string[]) {
  const reader = new ResponseReader(headerBytesMax)
  const heard = listening()
  reader.expect(heard)
  let endedWith: 'a piece' | 'the connection' | 'nothing' = 'nothing'
  for (const piece of pieces) if (reader.read(Buffer.from(piece, 'latin1'))) endedWith = 'a piece'
  if (endedWith === 'nothing' && reader.finish()) endedWith = 'the connection'
  reader.free()
  const { keepsAlive } = reader
  return { ...heard.heads[0], heads: heard.heads.length, body: heard.body, endedWith, keepsAlive }
}

const answers: [string, string, Partial<ReturnType<typeof readAll>>][] = [
  [
    'of a stated length',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Empty:\r\nx-empty: \r\n\r\nok',
    { status: 200, headers: ['content-length', '2', 'x-empty', '', 'x-empty', ''], body: 'ok', keepsAlive: true },
  ],
  [
    'in chunks, with extensions and trailers',
    'HTTP/1.1 201 \r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n1\r\nd\r\n0\r\nTrailer: x\r\n\r\n',
    { status: 201, headers: ['transfer-encoding', 'chunked'], body: 'abcd', keepsAlive: true },
  ],
  [
    'that ends with its connection',
    'HTTP/1.1 200 OK\r\nServer: x\r\n\r\nall there is',
    { status: 200, headers: ['server', 'x'], body: 'all there is', keepsAlive: false, endedWith: 'the connection' },
  ],
  [
    'with words on the way',
    'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nlink: <x>\r\n\r\nHTTP/1.1 204 x\r\nServer: y\r\n\r\n',
    { status: 204, headers: ['server', 'y'], body: '', keepsAlive: true },
  ],
  [
    'that is the last of its connection',
    'HTTP/1.1 500 x\r\nconnection: close\r\ncontent-length: 1\r\n\r\n!',
    { status: 500, headers: ['connection', 'close', 'content-length', '1'], body: '!', keepsAlive: false },
  ],
  [
    'that says so behind its body',
    'HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n0\r\nConnection: close\r\n\r\n',
    { status: 200, headers: ['transfer-encoding', 'chunked'], body: '', keepsAlive: false },
  ],
  [
    'of HTTP/1.0',
    'HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n!',
    { status: 200, headers: ['content-length', '1'], body: '!', keepsAlive: false },
  ],
  [
    'with bytes that are no ASCII',
    'HTTP/1.1 200 \xe9\r\nx: \xe9\xff\r\n__proto__: y\r\ncontent-length: 1\r\n\r\n\xff',
    { status: 200, headers: ['x', '\xe9\xff', '__proto__', 'y', 'content-length', '1'], body: '\xff' },
  ],
]

test.each(answers)('an answer %s is the same wherever it is cut', (_what, wire, expected) => {
  for (let at = 0; at <= wire.length; at++) {
    const read = readAll([wire.slice(0, at), wire.slice(at)])
    expect(read).toMatchObject({ endedWith: 'a piece', ...expected, heads: 1 })
  }
  expect(readAll([...wire])).toMatchObject({ endedWith: 'a piece', ...expected, heads: 1 })
})

test('an answer that is larger than what is read at a time is read whole', () => {
  const body = 'x'.repeat(200_000)
  expect(readAll([`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`]).body).toBe(body)
})

test('what comes behind an answer is no part of it, and its connection is not to be trusted', () => {
  const answer = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
  expect(readAll([`${answer}HTTP/1.1 201 x\r\n\r\n`])).toMatchObject({ status: 200, heads: 1, keepsAlive: false })
  expect(readAll([`${answer}?`])).toMatchObject({ status: 200, heads: 1, body: 'ok', keepsAlive: false })
})

const faults: [string, string, string][] = [
  ['is no HTTP', 'SSH-2.0-x\r\n', 'response_malformed'],
  ['has two lengths', 'HTTP/1.1 200 x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n', 'response_malformed'],
  [
    'has a length and chunks',
    'HTTP/1.1 200 x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n',
    'response_malformed',
  ],
  ['ends its lines as it likes', 'HTTP/1.1 200 x\ncontent-length: 1\n\n!', 'response_malformed'],
  ['goes over to something else', 'HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: y\r\n\r\n', 'response_malformed'],
  ['has a header without end', `HTTP/1.1 200 x\r\nx: ${'y'.repeat(headerBytesMax)}`, 'response_headers_too_large'],
  [
    'has trailers without end',
    `HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n${'x: y\r\n'.repeat(headerBytesMax)}`,
    'response_headers_too_large',
  ],
  ['ends before its header', 'HTTP/1.1 200 x\r\n', 'response_malformed'],
  ['ends before its body', 'HTTP/1.1 200 x\r\ncontent-length: 2\r\n\r\n!', 'response_malformed'],
]

test.each(faults)('an answer that %s is refused, wherever it is cut', (_what, wire, code) => {
  for (let at = 0; at <= wire.length; at++) {
    expect(() => readAll([wire.slice(0, at), wire.slice(at)])).toThrow(expect.objectContaining({ code }))
  }
})

test('an answer that goes over to something else is refused in words for people', () => {
  for (const headers of ['connection: upgrade\r\nupgrade: y\r\n', '']) {
    expect(() => readAll([`HTTP/1.1 101 x\r\n${headers}\r\n`])).toThrow(
      'The receiver changed to another protocol, which was not asked for.',
    )
  }
})

test('who has had enough hears no more', () => {
  const reader = new ResponseReader(headerBytesMax)
  const heard = listening()
  heard.onBody = (bytes) => {
    heard.body += bytes.toString('latin1')
    heard.isOver = true
  }
  reader.expect(heard)
  expect(reader.read(Buffer.from('HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n'))).toBe(
    false,
  )
  expect(heard.body).toBe('a')
  reader.free()
})

/** Of answers, put together and spoilt as it comes. */
const wires = fc
  .tuple(
    fc.array(fc.constantFrom(...answers.map(([, wire]) => wire)), { minLength: 1, maxLength: 3 }),
    fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 3 }),
  )
  .map(([parts, spots]) => {
    const bytes = Buffer.from(parts.join(''), 'latin1')
    for (const [at, byte] of spots) bytes[at % bytes.length] = byte
    return bytes.toString('latin1')
  })

test('whatever comes, it is read or refused, and others read on', () => {
  const other = new ResponseReader(headerBytesMax)
  const heard = listening()
  other.expect(heard)
  other.read(Buffer.from('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'))
  let others = 0
  fc.assert(
    fc.property(wires, fc.nat(), (wire, cut) => {
      const at = cut % wire.length
      try {
        expect(readAll([wire.slice(0, at), wire.slice(at)]).heads).toBeLessThanOrEqual(1)
      } catch (error) {
        if (!(error instanceof SendError)) throw error
      }
      other.read(Buffer.from('1\r\nx\r\n'))
      others += 1
      expect(heard.body.length).toBe(others)
    }),
    { numRuns: 2_000 },
  )
  other.free()
})
