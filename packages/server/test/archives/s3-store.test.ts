import { randomBytes } from 'node:crypto'
import dns from 'node:dns'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { localCertificate } from '@keyhook/cli/receiver'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { createS3Store } from '../../src/archives/s3-store.ts'
import { scratchDirectory } from '../kit/processes.ts'
import { type S3Server, s3Missing, s3Program, startS3Server } from '../kit/s3-server.ts'
import { collect, stream, testStore } from './store-conformance.ts'
import '../kit/server-limits.ts'

setFlagsFromString('--expose_gc')
const collectGarbage = runInNewContext('gc') as () => void

describe.skipIf(s3Program === null)(s3Program === null ? s3Missing : 'on a real S3 server', () => {
  let server: S3Server
  beforeAll(async () => {
    server = await startS3Server()
  })
  afterAll(() => server?.close())

  testStore('bucket', {
    open: async (place) => createS3Store({ ...server.options, prefix: place }),
    // Three parts of at least 5 MiB, the smallest that S3 allows.
    largeBytes: 12_000_000,
    async interruptPut(place, name) {
      const { S3Client, CreateMultipartUploadCommand, UploadPartCommand } = await import('@aws-sdk/client-s3')
      const { endpoint, region, credentials, bucket } = server.options
      const client = new S3Client({ endpoint: endpoint!, region, credentials: credentials!, forcePathStyle: true })
      onTestFinished(() => client.destroy())
      const at = { Bucket: bucket, Key: `${place}/${name}` }
      const { UploadId } = await client.send(new CreateMultipartUploadCommand(at))
      await client.send(new UploadPartCommand({ ...at, UploadId, PartNumber: 1, Body: Buffer.from('half') }))
    },
  })

  test('two prefixes in one bucket do not see each other', async () => {
    const [one, other] = ['one', 'other'].map((prefix) => createS3Store({ ...server.options, prefix }))
    await one!.put('backups/db_1/a', stream(Buffer.from('a')))
    expect(await Array.fromAsync(other!.list(''))).toEqual([])
    expect(await Array.fromAsync(one!.list(''))).toEqual([{ name: 'backups/db_1/a', bytes: 1 }])
    await one!.remove('backups/db_1/a')
  })

  test('memory does not grow with the size of an object', async () => {
    const store = createS3Store(server.options)
    const part = randomBytes(1024 * 1024)
    let bytesMax = 0
    // What is held, without the garbage: before a collection, a download had 34 to 80 MiB in six runs.
    const held = () => {
      collectGarbage()
      return process.memoryUsage().arrayBuffers
    }
    const before = held()
    const measure = () => {
      bytesMax = Math.max(bytesMax, held() - before)
    }
    async function* content(): AsyncGenerator<Uint8Array> {
      for (let n = 0; n < 150; n++) {
        if (n % 10 === 0) measure()
        yield part
      }
    }
    await store.put('backups/db_1/large', content())
    let bytes = 0
    let measuredAt = 0
    for await (const piece of store.get('backups/db_1/large')) {
      bytes += piece.length
      if (bytes < measuredAt) continue
      measuredAt = bytes + 10 * part.length
      measure()
    }
    expect(bytes).toBe(150 * part.length)
    expect(bytesMax).toBeLessThan(50 * 1024 * 1024)
    await store.remove('backups/db_1/large')
  })

  test('wrong credentials and a missing bucket are named, with what to do, and without the secret', async () => {
    const secretAccessKey = 'a-very-secret-key-of-someone'
    const wrong = createS3Store({
      ...server.options,
      credentials: { accessKeyId: server.options.credentials!.accessKeyId, secretAccessKey },
    })
    const missing = createS3Store({ ...server.options, bucket: 'no-such-bucket' })
    for (const [store, remedy] of [
      [wrong, 'correct KEYHOOK_S3_SECRET_ACCESS_KEY'],
      [missing, 'create the bucket, or correct KEYHOOK_S3_BUCKET'],
    ] as const) {
      for (const failing of [
        () => store.put('backups/db_1/a', stream(Buffer.from('a'))),
        () => store.head('backups/db_1/a'),
        () => store.remove('backups/db_1/a'),
        () => collect(store.get('backups/db_1/a')),
        () => Array.fromAsync(store.list('')),
      ]) {
        const error = await failing().then(
          () => new Error('it succeeded'),
          (caught: Error) => caught,
        )
        expect(error.message).toBe('The store of backups cannot be used now.')
        expect(String(error.cause)).toContain(remedy)
        expect(JSON.stringify({ ...error, cause: { ...(error.cause as Error) } })).not.toContain(secretAccessKey)
        expect(String(error.cause)).not.toContain(secretAccessKey)
      }
    }
  })

  test('a certificate of an authority of our own is accepted with its file, and named without it', async () => {
    const folder = await scratchDirectory()
    const { certificate, key } = await localCertificate(folder, new Date())
    const secure = await startS3Server({ certificate: { cert: certificate, key } })
    onTestFinished(secure.close)
    const store = createS3Store({ ...secure.options, ca: certificate })
    await store.put('backups/db_1/a', stream(Buffer.from('a')))
    expect((await collect(store.get('backups/db_1/a'))).toString()).toBe('a')
    const error = await createS3Store(secure.options)
      .head('backups/db_1/a')
      .catch((caught: Error) => caught)
    expect(String((error as Error).cause)).toContain('name the authority of its certificate in KEYHOOK_S3_CA_FILE')
  })

  test('with virtual-host addressing the bucket is in the host name', async () => {
    const names: string[] = []
    // As an entry of the DNS would.
    const { lookup } = dns
    const resolve = (name: string, options: object, done: () => void) => {
      names.push(name)
      return lookup(name.endsWith('s3.test') ? '127.0.0.1' : name, options, done)
    }
    vi.spyOn(dns, 'lookup').mockImplementation(resolve as typeof lookup)
    onTestFinished(() => void vi.restoreAllMocks())
    const virtual = await startS3Server({ virtualDomain: 's3.test' })
    onTestFinished(virtual.close)
    const endpoint = virtual.options.endpoint!.replace('127.0.0.1', 's3.test')
    const store = createS3Store({ ...virtual.options, endpoint, addressing: 'virtual-host' })
    await store.put('backups/db_1/a', stream(Buffer.from('a')))
    expect(await Array.fromAsync(store.list(''))).toEqual([{ name: 'backups/db_1/a', bytes: 1 }])
    expect((await collect(store.get('backups/db_1/a'))).toString()).toBe('a')
    expect(new Set(names.filter((name) => name !== '127.0.0.1'))).toEqual(new Set(['backups-bucket.s3.test']))
  })
})
