import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SendError } from '../../../../src/delivery/send-errors.ts'
import { type ResponseHead, ResponseParser } from '../../../../src/delivery/sender/http1/response-parser.ts'

const headerBytesMax = 1_024

function createListener() {
  const got = { isDone: false, heads: [] as ResponseHead[], body: '' }
  return Object.assign(got, {
    onHead: (head: ResponseHead) => void got.heads.push(head),
    onBody: (bytes: Buffer) => {
      got.body += bytes.toString('latin1')
    },
  })
}

/** Parses the pieces, and then the end of the connection. */
function readAll(pieces: readonly string[]) {
  const parser = new ResponseParser(headerBytesMax)
  const got = createListener()
  parser.expect(got)
  let endedWith: 'a piece' | 'the connection' | 'nothing' = 'nothing'
  for (const piece of pieces) if (parser.read(Buffer.from(piece, 'latin1'))) endedWith = 'a piece'
  if (endedWith === 'nothing' && parser.finish()) endedWith = 'the connection'
  parser.free()
  const { keepsAlive } = parser
  return { ...got.heads[0], heads: got.heads.length, body: got.body, endedWith, keepsAlive }
}

const responses: [string, string, Partial<ReturnType<typeof readAll>>][] = [
  [
    'with a length',
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
    'after interim responses',
    'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nlink: <x>\r\n\r\nHTTP/1.1 204 x\r\nServer: y\r\n\r\n',
    { status: 204, headers: ['server', 'y'], body: '', keepsAlive: true },
  ],
  [
    'with `connection: close`',
    'HTTP/1.1 500 x\r\nconnection: close\r\ncontent-length: 1\r\n\r\n!',
    { status: 500, headers: ['connection', 'close', 'content-length', '1'], body: '!', keepsAlive: false },
  ],
  [
    'with `connection: close` in a trailer',
    'HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n0\r\nConnection: close\r\n\r\n',
    { status: 200, headers: ['transfer-encoding', 'chunked'], body: '', keepsAlive: false },
  ],
  [
    'of HTTP/1.0',
    'HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n!',
    { status: 200, headers: ['content-length', '1'], body: '!', keepsAlive: false },
  ],
  [
    'with bytes outside of ASCII',
    'HTTP/1.1 200 \xe9\r\nx: \xe9\xff\r\n__proto__: y\r\ncontent-length: 1\r\n\r\n\xff',
    { status: 200, headers: ['x', '\xe9\xff', '__proto__', 'y', 'content-length', '1'], body: '\xff' },
  ],
]

test.each(responses)('a response %s is parsed the same wherever it is split', (_what, wire, expected) => {
  for (let at = 0; at <= wire.length; at++) {
    const read = readAll([wire.slice(0, at), wire.slice(at)])
    expect(read).toMatchObject({ endedWith: 'a piece', ...expected, heads: 1 })
  }
  expect(readAll([...wire])).toMatchObject({ endedWith: 'a piece', ...expected, heads: 1 })
})

test('a response larger than the input buffer is read whole', () => {
  const body = 'x'.repeat(200_000)
  expect(readAll([`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`]).body).toBe(body)
})

test('bytes after a response are not part of it, and the connection is not kept alive', () => {
  const answer = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
  expect(readAll([`${answer}HTTP/1.1 201 x\r\n\r\n`])).toMatchObject({ status: 200, heads: 1, keepsAlive: false })
  expect(readAll([`${answer}?`])).toMatchObject({ status: 200, heads: 1, body: 'ok', keepsAlive: false })
})

const invalid: [string, string, string][] = [
  ['is not HTTP', 'SSH-2.0-x\r\n', 'response_malformed'],
  ['has two lengths', 'HTTP/1.1 200 x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n', 'response_malformed'],
  [
    'has a length and chunks',
    'HTTP/1.1 200 x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n',
    'response_malformed',
  ],
  ['ends its lines without CR', 'HTTP/1.1 200 x\ncontent-length: 1\n\n!', 'response_malformed'],
  ['switches protocols', 'HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: y\r\n\r\n', 'response_malformed'],
  ['has an endless header', `HTTP/1.1 200 x\r\nx: ${'y'.repeat(headerBytesMax)}`, 'response_headers_too_large'],
  [
    'has endless trailers',
    `HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n${'x: y\r\n'.repeat(headerBytesMax)}`,
    'response_headers_too_large',
  ],
  ['ends before its headers do', 'HTTP/1.1 200 x\r\n', 'response_malformed'],
  ['ends before its body does', 'HTTP/1.1 200 x\r\ncontent-length: 2\r\n\r\n!', 'response_malformed'],
]

test.each(invalid)('a response that %s is rejected, wherever it is split', (_what, wire, code) => {
  for (let at = 0; at <= wire.length; at++) {
    expect(() => readAll([wire.slice(0, at), wire.slice(at)])).toThrow(expect.objectContaining({ code }))
  }
})

test('switching protocols is rejected with a plain sentence', () => {
  for (const headers of ['connection: upgrade\r\nupgrade: y\r\n', '']) {
    expect(() => readAll([`HTTP/1.1 101 x\r\n${headers}\r\n`])).toThrow(
      'The receiver changed to another protocol, which was not asked for.',
    )
  }
})

test('a listener that is done gets nothing more', () => {
  const parser = new ResponseParser(headerBytesMax)
  const got = createListener()
  got.onBody = (bytes) => {
    got.body += bytes.toString('latin1')
    got.isDone = true
  }
  parser.expect(got)
  expect(parser.read(Buffer.from('HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n'))).toBe(
    false,
  )
  expect(got.body).toBe('a')
  parser.free()
})

/** Valid responses, joined, with up to three random bytes. */
const wires = fc
  .tuple(
    fc.array(fc.constantFrom(...responses.map(([, wire]) => wire)), { minLength: 1, maxLength: 3 }),
    fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 3 }),
  )
  .map(([parts, spots]) => {
    const bytes = Buffer.from(parts.join(''), 'latin1')
    for (const [at, byte] of spots) bytes[at % bytes.length] = byte
    return bytes.toString('latin1')
  })

test('random bytes are parsed or rejected, and other parsers are not affected', () => {
  const other = new ResponseParser(headerBytesMax)
  const got = createListener()
  other.expect(got)
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
      expect(got.body.length).toBe(others)
    }),
    { numRuns: 2_000 },
  )
  other.free()
})
