import { Agent } from 'node:https'
import { rootCertificates } from 'node:tls'
import { S3Client } from '@aws-sdk/client-s3'
import { NodeHttpHandler } from '@smithy/node-http-handler'

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
