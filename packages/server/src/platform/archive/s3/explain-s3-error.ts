import { S3ServiceException } from '@aws-sdk/client-s3'
import { StoreFailure } from '../archive-store.ts'
import type { S3Options } from './s3-client.ts'

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
export function explainS3Error({ bucket, endpoint }: S3Options, what: string, error: unknown): StoreFailure {
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
