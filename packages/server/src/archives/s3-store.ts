import {
  DeleteObjectCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
  S3ServiceException,
} from '@aws-sdk/client-s3'
import { type ArchiveStore, checkName, isName, StoreFailure } from './archive-store.ts'
import { abortUpload, createS3Client, downloadObject, notS3, type S3Options, uploadObject } from './s3-transfer.ts'

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

const permissions =
  's3:ListBucket, s3:ListBucketMultipartUploads, s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload'

/** What to do about an error code of S3 or of the connection. */
const remedies: Record<string, string> = {
  AccessDenied: `allow the access key ${permissions} on the bucket`,
  AllAccessDisabled: `allow the access key ${permissions} on the bucket`,
  NoSuchBucket: 'create the bucket, or correct KEYHOOK_S3_BUCKET',
  InvalidAccessKeyId: 'correct KEYHOOK_S3_ACCESS_KEY_ID',
  SignatureDoesNotMatch: 'correct KEYHOOK_S3_SECRET_ACCESS_KEY',
  RequestTimeTooSkewed: 'set the clock of this machine',
  AuthorizationHeaderMalformed: 'correct KEYHOOK_S3_REGION',
  PermanentRedirect: 'correct KEYHOOK_S3_REGION or KEYHOOK_S3_ENDPOINT',
  CredentialsProviderError: 'set KEYHOOK_S3_ACCESS_KEY_ID and KEYHOOK_S3_SECRET_ACCESS_KEY',
  TimeoutError: 'check KEYHOOK_S3_ENDPOINT and the network, or raise KEYHOOK_S3_TIMEOUT_SECONDS',
  ECONNREFUSED: 'check KEYHOOK_S3_ENDPOINT, and that the store runs',
  ENOTFOUND: 'check KEYHOOK_S3_ENDPOINT; with KEYHOOK_S3_ADDRESSING=virtual-host the bucket is part of the host name',
  ECONNRESET: 'check the network and the store',
  SlowDown: 'the store is overloaded; the job is tried again',
  ServiceUnavailable: 'the store is overloaded or down; the job is tried again',
  InternalError: 'look into the log of the store; the job is tried again',
  EntityTooLarge: 'raise KEYHOOK_S3_PART_MIB',
  InvalidPart: 'the store lost a part; the job is tried again',
}

/**
 * An error of the store as one line for the operator. The error of the SDK is not attached: it can contain the request, and
 * with it the signature.
 */
function explainS3Error({ bucket, endpoint }: S3Options, what: string, error: unknown): StoreFailure {
  const { name = '', message = '', code } = error as { name?: string; message?: string; code?: unknown }
  const status = error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined
  const key = typeof code === 'string' && code in remedies ? code : name
  const remedy = remedies[key] ?? remedyByShape(status, typeof code === 'string' ? code : '', error)
  const where = `bucket ${bucket}${endpoint === null ? '' : ` at ${endpoint}`}`
  const answer = [name, status, message].filter((part) => part !== undefined && part !== '').join(' ')
  return new StoreFailure(`${what} in ${where} failed (${answer.slice(0, 300)}): ${remedy}`)
}

function remedyByShape(status: number | undefined, code: string, error: unknown): string {
  if (/CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS/.test(code)) {
    return 'name the authority of its certificate in KEYHOOK_S3_CA_FILE'
  }
  if (status === 403 || status === 401) return remedies.AccessDenied!
  if (status === 404) return remedies.NoSuchBucket!
  if (status !== undefined && status >= 500) return remedies.InternalError!
  if (error instanceof SyntaxError || /deserializ/i.test(String(error)))
    return 'check that KEYHOOK_S3_ENDPOINT is an S3 store'
  return 'check the settings KEYHOOK_S3_… and the store'
}
