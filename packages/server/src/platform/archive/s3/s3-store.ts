import {
  DeleteObjectCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
} from '@aws-sdk/client-s3'
import { type ArchiveStore, checkName, isName, StoreFailure } from '../archive-store.ts'
import { explainS3Error } from './explain-s3-error.ts'
import { createS3Client, type S3Options } from './s3-client.ts'
import { downloadObject } from './s3-download.ts'
import { abortUpload, notS3, uploadObject } from './s3-upload.ts'

/** Objects in a bucket of AWS S3, or of any store with the same API. */
export function createS3Store(options: S3Options): ArchiveStore {
  const client = createS3Client(options)
  const { bucket: Bucket } = options
  const prefix = options.prefix === null ? '' : `${options.prefix}/`
  const keyOf = (name: string): string => {
    checkName(name)
    return `${prefix}${name}`
  }
  const explain = (what: string) => (error: unknown) => {
    throw error instanceof StoreFailure ? error : explainS3Error(options, what, error)
  }
  const transfer = { client, options, explain }

  async function* objects(keyPrefix: string) {
    let token: string | undefined
    do {
      const page: ListObjectsV2CommandOutput = await client
        .send(new ListObjectsV2Command({ Bucket, Prefix: keyPrefix, ContinuationToken: token }))
        .catch(explain('listing objects'))
      checkIsList(page)
      for (const { Key = '', Size = 0 } of page.Contents ?? []) yield { key: Key, bytes: Size }
      token = nextPage(page.IsTruncated, token, page.NextContinuationToken)
    } while (token !== undefined)
  }

  async function* uploads(keyPrefix: string) {
    let marker: { KeyMarker?: string | undefined; UploadIdMarker?: string | undefined } = {}
    let token: string | undefined
    do {
      const page: ListMultipartUploadsCommandOutput = await client
        .send(new ListMultipartUploadsCommand({ Bucket, Prefix: keyPrefix, ...marker }))
        .catch(explain('listing unfinished uploads'))
      checkIsList(page)
      for (const { Key = '', UploadId = '' } of page.Uploads ?? []) yield { key: Key, uploadId: UploadId }
      marker = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker }
      token = nextPage(page.IsTruncated, token, `${page.NextKeyMarker} ${page.NextUploadIdMarker}`)
    } while (token !== undefined)
  }

  async function abortUploads(key: string): Promise<void> {
    for await (const upload of uploads(key)) if (upload.key === key) await abortUpload(transfer, upload)
  }

  return {
    async put(name, content, { signal } = {}) {
      const key = keyOf(name)
      await abortUploads(key)
      const stored = await uploadObject(transfer, key, content, signal)
      const found = await this.head(name)
      if (found?.bytes !== stored.bytes) {
        throw new StoreFailure(`the store has ${found?.bytes ?? 'no'} bytes of ${key} after ${stored.bytes} were sent`)
      }
      return stored
    },
    async *get(name, { signal } = {}) {
      yield* downloadObject(transfer, keyOf(name), signal)
    },
    async head(name) {
      const key = keyOf(name)
      // Not HeadObject: its 404 does not tell a missing object from a missing bucket.
      for await (const found of objects(key)) return found.key === key ? { bytes: found.bytes } : null
      return null
    },
    async *list(start) {
      for await (const { key, bytes } of objects(`${prefix}${start}`)) {
        const name = key.slice(prefix.length)
        if (isName(name)) yield { name, bytes }
      }
    },
    async *unfinished(start) {
      const names = new Set<string>()
      for await (const { key } of uploads(`${prefix}${start}`)) names.add(key.slice(prefix.length))
      yield* [...names].filter(isName)
    },
    async remove(name) {
      const key = keyOf(name)
      await abortUploads(key)
      await client.send(new DeleteObjectCommand({ Bucket, Key: key })).catch(explain('deleting an object'))
    },
  }
}

/** The SDK reads any page of HTML as an empty list. */
function checkIsList({ IsTruncated }: { IsTruncated?: boolean | undefined }): void {
  if (IsTruncated === undefined) throw new StoreFailure(notS3)
}

/** Undefined at the end. A store that sends the same page again would keep us for ever. */
function nextPage(more: boolean | undefined, before: string | undefined, next: string | undefined) {
  if (!more) return undefined
  if (next === undefined || next === before) throw new StoreFailure('the list of the store does not go on')
  return next
}
