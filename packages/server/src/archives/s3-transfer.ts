import { createHash } from 'node:crypto'
import { Agent } from 'node:https'
import type { Readable } from 'node:stream'
import { rootCertificates } from 'node:tls'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  type GetObjectCommandOutput,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { NodeHttpHandler } from '@smithy/node-http-handler'
import { MissingObject, type StoredObject, StoreFailure } from './archive-store.ts'

export type Transfer = {
  client: S3Client
  options: S3Options
  explain: (what: string) => (error: unknown) => never
}

const partsMax = 10_000

export const notS3 = 'the store does not answer as S3 does: check KEYHOOK_S3_ENDPOINT'

/**
 * Uploads in parts of one size, or in one request if one part is enough. A part is sent while the next one is filled, so
 * memory does not depend on the size of the content. The object appears when all parts have arrived.
 */
export async function uploadObject(
  transfer: Transfer,
  key: string,
  content: AsyncIterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<StoredObject> {
  const { client, options, explain } = transfer
  const at = { Bucket: options.bucket, Key: key }
  const sending = signal ? { abortSignal: signal } : {}
  const failed = (what: string) => (error: unknown) => {
    signal?.throwIfAborted()
    return explain(what)(error)
  }
  const hash = createHash('sha256')
  let bytes = 0
  let uploadId: string | undefined
  const sent: { PartNumber: number; ETag: string | undefined }[] = []
  let inFlight: Promise<void> = Promise.resolve()

  async function sendPart(part: Buffer, PartNumber: number): Promise<void> {
    const command = new UploadPartCommand({ ...at, UploadId: uploadId, PartNumber, Body: part, ContentMD5: md5(part) })
    const { ETag } = await client.send(command, sending).catch(failed('uploading a part'))
    sent.push({ PartNumber, ETag })
  }

  async function start(): Promise<string> {
    const command = new CreateMultipartUploadCommand(at)
    const { UploadId } = await client.send(command, sending).catch(failed('starting an upload'))
    if (UploadId === undefined) throw new StoreFailure(notS3)
    return UploadId
  }

  try {
    for await (const { part, isLast } of inParts(content, options.partBytes)) {
      signal?.throwIfAborted()
      hash.update(part)
      bytes += part.length
      await inFlight
      if (isLast && uploadId === undefined) {
        const command = new PutObjectCommand({ ...at, Body: part, ContentMD5: md5(part) })
        await client.send(command, sending).catch(failed('uploading an object'))
        return { bytes, sha256: hash.digest('hex') }
      }
      uploadId ??= await start()
      if (sent.length === partsMax) throw tooLarge(options)
      inFlight = sendPart(part, sent.length + 1)
      // Reported by the next `await`, which may come later than the failure.
      inFlight.catch(() => {})
    }
    await inFlight
    const command = new CompleteMultipartUploadCommand({ ...at, UploadId: uploadId, MultipartUpload: { Parts: sent } })
    await client.send(command, sending).catch(failed('completing an upload'))
    return { bytes, sha256: hash.digest('hex') }
  } catch (error) {
    await inFlight.catch(() => {})
    // If this fails too, the next `put` or `remove` of the name aborts it.
    if (uploadId !== undefined) await abortUpload(transfer, { key, uploadId }).catch(() => {})
    throw error
  }
}

export async function abortUpload(
  { client, options, explain }: Transfer,
  { key, uploadId }: { key: string; uploadId: string },
): Promise<void> {
  const command = new AbortMultipartUploadCommand({ Bucket: options.bucket, Key: key, UploadId: uploadId })
  await client.send(command).catch((error: { name?: string }) => {
    // It ended in the meantime.
    if (error.name !== 'NoSuchUpload') explain('aborting an upload')(error)
  })
}

/** At least one part, all of the same length but the last, as some stores require. */
async function* inParts(
  content: AsyncIterable<Uint8Array>,
  partBytes: number,
): AsyncGenerator<{ part: Buffer; isLast: boolean }> {
  let pieces: Uint8Array[] = []
  let bytes = 0
  for await (let piece of content) {
    // A full part is sent only when something follows it: an object of exactly one part needs no parts.
    while (bytes + piece.length > partBytes) {
      const room = partBytes - bytes
      pieces.push(piece.subarray(0, room))
      yield { part: Buffer.concat(pieces), isLast: false }
      piece = piece.subarray(room)
      pieces = []
      bytes = 0
    }
    pieces.push(piece)
    bytes += piece.length
  }
  yield { part: Buffer.concat(pieces), isLast: true }
}

const md5 = (part: Buffer): string => createHash('md5').update(part).digest('base64')

const tooLarge = ({ partBytes }: S3Options): StoreFailure =>
  new StoreFailure(
    `the archive has more than ${partsMax} parts of ${partBytes / 1024 / 1024} MiB: raise KEYHOOK_S3_PART_MIB`,
  )

/** In a row, without a byte in between. */
const interruptionsMax = 3

/** Downloads an object. A connection that breaks is replaced by one that goes on at the same byte of the same object. */
export async function* downloadObject(
  { client, options, explain }: Transfer,
  key: string,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const at = { Bucket: options.bucket, Key: key }
  let first: { etag: string | undefined; bytes: number } | undefined
  let bytesDone = 0
  let interruptions = 0
  for (;;) {
    try {
      const rest = first && { IfMatch: first.etag, ...(bytesDone > 0 && { Range: `bytes=${bytesDone}-` }) }
      const answer = await client.send(new GetObjectCommand({ ...at, ...rest }), signal ? { abortSignal: signal } : {})
      first ??= { etag: answer.ETag, bytes: answer.ContentLength ?? 0 }
      for await (const part of bodyOf(answer, { bytesDone, timeoutMs: options.timeoutMs })) {
        bytesDone += part.length
        interruptions = 0
        if (bytesDone > first.bytes) throw new Error('the store sent more bytes than the object has')
        yield part
      }
      if (bytesDone === first.bytes) return
      throw new Error(`the store sent ${bytesDone} of ${first.bytes} bytes`)
    } catch (error) {
      signal?.throwIfAborted()
      const { name, $metadata } = error as { name?: string; $metadata?: { httpStatusCode?: number } }
      if (name === 'NoSuchKey') throw new MissingObject(key)
      // An answer of the store was final: the SDK has retried what is worth it.
      const isFinal = $metadata !== undefined && name !== 'TimeoutError'
      if (isFinal || ++interruptions > interruptionsMax) explain('reading an object')(error)
    }
  }
}

async function* bodyOf(
  answer: GetObjectCommandOutput,
  { bytesDone, timeoutMs }: { bytesDone: number; timeoutMs: number },
): AsyncGenerator<Uint8Array> {
  const body = answer.Body as Readable
  if (bytesDone > 0 && !answer.ContentRange?.startsWith(`bytes ${bytesDone}-`)) {
    body.destroy()
    throw new Error('the store did not go on where it was asked to')
  }
  const stuck = () => body.destroy(Object.assign(new Error('no byte arrived in time'), { name: 'TimeoutError' }))
  let timer = setTimeout(stuck, timeoutMs)
  try {
    for await (const part of body) {
      // A reader may take as long as it likes.
      clearTimeout(timer)
      yield part
      timer = setTimeout(stuck, timeoutMs)
    }
  } finally {
    clearTimeout(timer)
    body.destroy()
  }
}

export type S3Options = {
  bucket: string

  /** What all names start with, without the slash. */
  prefix: string | null

  /** Null: AWS. */
  endpoint: string | null
  region: string
  addressing: 'path' | 'virtual-host'

  /** PEM, besides the usual authorities. */
  ca: string | null

  /** Null: what the SDK finds in the environment, in its files or from the machine. */
  credentials: { accessKeyId: string; secretAccessKey: string } | null
  partBytes: number
  timeoutMs: number
}

const attemptsMax = 3
const connectMsMax = 10_000

export function createS3Client(options: S3Options): S3Client {
  const { endpoint, region, credentials, timeoutMs, ca } = options
  return new S3Client({
    region,
    forcePathStyle: options.addressing === 'path',
    maxAttempts: attemptsMax,
    // Checksums that older servers do not know are left out; parts carry Content-MD5, and archives are read back.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    ...(endpoint !== null && { endpoint }),
    ...(credentials !== null && { credentials }),
    requestHandler: new NodeHttpHandler({
      connectionTimeout: Math.min(connectMsMax, timeoutMs),
      requestTimeout: timeoutMs,
      throwOnRequestTimeout: true,
      httpsAgent: new Agent({ keepAlive: true, ...(ca !== null && { ca: [...rootCertificates, ca] }) }),
    }),
  })
}
