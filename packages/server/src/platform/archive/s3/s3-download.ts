import type { Readable } from 'node:stream'
import { GetObjectCommand, type GetObjectCommandOutput } from '@aws-sdk/client-s3'
import { MissingObject } from '../archive-store.ts'
import type { Transfer } from './s3-upload.ts'

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
