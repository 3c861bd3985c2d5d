import { createHash } from 'node:crypto'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { type StoredObject, StoreFailure } from '../archive-store.ts'
import type { S3Options } from './s3-client.ts'

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
