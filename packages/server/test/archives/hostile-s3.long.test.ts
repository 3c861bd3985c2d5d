import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import { MissingObject } from '../../src/archives/archive-store.ts'
import { createS3Store } from '../../src/archives/s3-store.ts'
import type { S3Options } from '../../src/archives/s3-transfer.ts'
import { collect, stream } from './store-conformance.ts'

/* What no real S3 server does on request: answers that are wrong, late, cut off or never come. */

type Answer = (request: IncomingMessage, response: ServerResponse, what: string) => unknown

/** Serves what `answer` says. `what` is the method and the kind of the request, for example `GET list`. */
async function hostile(answer: Answer, more: Partial<S3Options> = {}) {
  const seen: string[] = []
  const server = createServer(async (request, response) => {
    const url = new URL(request.url!, 'http://x')
    const kinds = ['list-type', 'uploads', 'uploadId'].filter((name) => url.searchParams.has(name))
    const what = `${request.method} ${{ 'list-type': 'list' }[kinds[0] ?? ''] ?? kinds[0] ?? 'object'}`
    seen.push(what)
    request.resume()
    await new Promise((resolve) => request.once('end', resolve))
    if (answer(request, response, what) === undefined && what === 'GET uploads') xml(response, emptyUploads)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as { port: number }
  const store = createS3Store({
    bucket: 'bucket',
    prefix: null,
    endpoint: `http://127.0.0.1:${port}`,
    region: 'us-east-1',
    addressing: 'path',
    ca: null,
    credentials: { accessKeyId: 'id', secretAccessKey: 'the-secret' },
    partBytes: 5 * 1024 * 1024,
    timeoutMs: 10_000,
    ...more,
  })
  return { store, seen }
}

const xml = (response: ServerResponse, text: string, status = 200) => {
  response.writeHead(status, { 'content-type': 'application/xml', etag: '"e"' }).end(text)
  return true
}
const errorXml = (code: string) => `<Error><Code>${code}</Code><Message>no</Message></Error>`
const emptyUploads = '<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>'
const listXml = (objects: [string, number][], next?: string) =>
  `<ListBucketResult><IsTruncated>${next !== undefined}</IsTruncated>${
    next === undefined ? '' : `<NextContinuationToken>${next}</NextContinuationToken>`
  }${objects.map(([key, size]) => `<Contents><Key>${key}</Key><Size>${size}</Size></Contents>`).join('')}</ListBucketResult>`

/** Sends what the request asks for, or `cutAfter` bytes of it before the connection breaks. */
function sendFrom(request: IncomingMessage, response: ServerResponse, content: Buffer, cutAfter?: number): true {
  const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0)
  const range = from > 0 ? { 'content-range': `bytes ${from}-${content.length - 1}/${content.length}` } : {}
  response.writeHead(from > 0 ? 206 : 200, { 'content-length': content.length - from, etag: '"e"', ...range })
  if (cutAfter === undefined) response.end(content.subarray(from))
  else response.write(content.subarray(from, from + cutAfter), () => response.destroy())
  return true
}

/** What the operator reads. */
const reasonOf = async (failing: Promise<unknown>): Promise<string> => {
  const error = await failing.then(
    () => new Error('it succeeded'),
    (caught: Error) => caught,
  )
  expect(error.message).toBe('The store of backups cannot be used now.')
  expect(String(error.cause)).not.toContain('the-secret')
  return String(error.cause)
}

const put = (store: ReturnType<typeof createS3Store>, bytes = 3) =>
  store.put('backups/db_1/a', stream(Buffer.alloc(bytes)))
const get = (store: ReturnType<typeof createS3Store>) => collect(store.get('backups/db_1/a'))

test('a store that answers with a page of HTML is not taken for an empty one', async () => {
  const { store } = await hostile((_request, response) => xml(response, '<html><body>Welcome</body></html>'))
  for (const call of [() => put(store), () => store.head('a'), () => Array.fromAsync(store.list(''))]) {
    expect(await reasonOf(call())).toContain('check KEYHOOK_S3_ENDPOINT')
  }
})

test('a store that answers with bytes that mean nothing fails every call', async () => {
  const { store } = await hostile((_request, response) => {
    response.writeHead(200).end(randomBytes(1_000))
    return true
  })
  for (const call of [() => put(store), () => store.head('a'), () => Array.fromAsync(store.list(''))]) {
    expect(await reasonOf(call())).toContain('KEYHOOK_S3_')
  }
})

test('a store that never answers is given up after the timeout', async () => {
  const { store } = await hostile(() => true, { timeoutMs: 200 })
  expect(await reasonOf(store.head('a'))).toContain('raise KEYHOOK_S3_TIMEOUT_SECONDS')
  expect(await reasonOf(get(store))).toContain('raise KEYHOOK_S3_TIMEOUT_SECONDS')
})

test('a store that is not there is named with its address', async () => {
  const { store } = await hostile(() => true, { endpoint: 'http://127.0.0.1:9' })
  expect(await reasonOf(store.head('a'))).toMatch(
    /bucket bucket at http:\/\/127\.0\.0\.1:9 .*check KEYHOOK_S3_ENDPOINT/,
  )
})

test('503 is tried again, and reported when it stays', async () => {
  let left = 2
  const { store } = await hostile((_request, response, what) => {
    if (what !== 'GET list') return
    return left-- > 0 ? xml(response, errorXml('SlowDown'), 503) : xml(response, listXml([['a', 7]]))
  })
  expect(await store.head('a')).toEqual({ bytes: 7 })
  left = 1_000
  expect(await reasonOf(store.head('a'))).toContain('the store is overloaded')
})

test('a bucket that may not be written names the permissions that are needed', async () => {
  const { store } = await hostile((_request, response, what) =>
    what.startsWith('PUT') || what === 'POST uploads' ? xml(response, errorXml('AccessDenied'), 403) : undefined,
  )
  for (const bytes of [3, 6_000_000]) {
    expect(await reasonOf(put(store, bytes))).toMatch(/AccessDenied 403 .*allow the access key .*s3:PutObject/)
  }
})

test('an upload that the store stored only in part, or not at all, is no success', async () => {
  for (const [stored, text] of [
    [[['backups/db_1/a', 2]], 'has 2 bytes of backups/db_1/a after 3 were sent'],
    [[], 'has no bytes of backups/db_1/a after 3 were sent'],
  ] as [[string, number][], string][]) {
    const { store } = await hostile((_request, response, what) => {
      if (what === 'PUT object') return xml(response, '')
      if (what === 'GET list') return xml(response, listXml(stored))
      return undefined
    })
    expect(await reasonOf(put(store))).toContain(text)
  }
})

test('an error in the answer to the last request of an upload is no success, and the parts are removed', async () => {
  const { store, seen } = await hostile((_request, response, what) => {
    if (what === 'POST uploads')
      return xml(response, '<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>')
    if (what === 'PUT uploadId') return xml(response, '')
    // S3 answers 200 before it knows the outcome.
    if (what === 'POST uploadId') return xml(response, errorXml('InvalidPart'))
    if (what === 'DELETE uploadId') return xml(response, '', 204)
    return undefined
  })
  expect(await reasonOf(put(store, 6_000_000))).toContain('the store lost a part')
  expect(seen.at(-1)).toBe('DELETE uploadId')
  expect(seen.filter((what) => what === 'PUT uploadId')).toHaveLength(2)
})

test('a download that is cut off goes on where it stopped, and gives up when nothing more arrives', async () => {
  const content = randomBytes(300_000)
  let cuts = 3
  const { store, seen } = await hostile((request, response) => {
    return sendFrom(request, response, content, cuts-- > 0 ? 60_000 : undefined)
  })
  expect((await get(store)).equals(content)).toBe(true)
  expect(seen.length).toBeGreaterThan(1)
  const { store: dead } = await hostile((_request, response) => {
    response.writeHead(200, { 'content-length': content.length, etag: '"e"' }).flushHeaders()
    response.destroy()
    return true
  })
  expect(await reasonOf(get(dead))).toContain('reading an object')
})

test('a download that stalls is given up, but a reader that is slow is not', async () => {
  const content = randomBytes(200_000)
  const { store } = await hostile(
    (request, response) => {
      if (request.headers.range !== undefined) return true
      response.writeHead(200, { 'content-length': content.length, etag: '"e"' })
      response.write(content.subarray(0, 1_000))
      return true
    },
    { timeoutMs: 300 },
  )
  expect(await reasonOf(get(store))).toContain('raise KEYHOOK_S3_TIMEOUT_SECONDS')
  const { store: quick } = await hostile((request, response) => sendFrom(request, response, content), {
    timeoutMs: 1_000,
  })
  const parts: Uint8Array[] = []
  for await (const part of quick.get('backups/db_1/a')) {
    if (parts.length === 0) await new Promise((resolve) => setTimeout(resolve, 1_500))
    parts.push(part)
  }
  expect(Buffer.concat(parts).equals(content)).toBe(true)
})

test('a download that continues at another byte, or of another object, is rejected', async () => {
  const content = randomBytes(100_000)
  const cut = (response: ServerResponse) => {
    response.writeHead(200, { 'content-length': content.length, etag: '"e"' })
    response.write(content.subarray(0, 50_000), () => response.destroy())
    return true
  }
  const { store } = await hostile((request, response) => {
    if (request.headers.range === undefined) return cut(response)
    response.writeHead(200, { 'content-length': content.length, etag: '"e"' }).end(content)
    return true
  })
  expect(await reasonOf(get(store))).toContain('did not go on where it was asked to')
  const { store: replaced } = await hostile((request, response) =>
    request.headers['if-match'] === undefined ? cut(response) : xml(response, errorXml('PreconditionFailed'), 412),
  )
  expect(await reasonOf(get(replaced))).toContain('PreconditionFailed')
})

test('a list of many pages is read to its end, and one that repeats itself is given up', async () => {
  const { store } = await hostile((request, response, what) => {
    if (what !== 'GET list') return
    const page = Number(new URL(request.url!, 'http://x').searchParams.get('continuation-token') ?? 0)
    return xml(response, listXml([[`wal/db_1/${page}`, page]], page < 4 ? String(page + 1) : undefined))
  })
  const names = (await Array.fromAsync(store.list('wal/'))).map(({ name }) => name)
  expect(names).toEqual([0, 1, 2, 3, 4].map((page) => `wal/db_1/${page}`))
  const { store: endless } = await hostile((_request, response) => xml(response, listXml([['a', 1]], 'same')))
  expect(await reasonOf(Array.fromAsync(endless.list('')))).toContain('does not go on')
})

test('an object that is gone is missing, and an abort ends a request that hangs', async () => {
  const { store } = await hostile((_request, response) => xml(response, errorXml('NoSuchKey'), 404))
  await expect(get(store)).rejects.toBeInstanceOf(MissingObject)
  const stop = new AbortController()
  const { store: stuck } = await hostile((_request, _response, what) => {
    if (what === 'GET uploads') return undefined
    stop.abort(new Error('the database was deleted'))
    return true
  })
  const putting = stuck.put('a', stream(Buffer.from('a')), { signal: stop.signal })
  await expect(putting).rejects.toThrow('the database was deleted')
  await expect(collect(stuck.get('a', { signal: stop.signal }))).rejects.toThrow('the database was deleted')
})
