import type { S3Server } from '../../kit/s3-server.ts'

/** The settings of a Keyhook that has its archives in the bucket of this server. */
export function s3Settings({ options: { bucket, endpoint, credentials } }: S3Server): Record<string, string> {
  return {
    KEYHOOK_S3_BUCKET: bucket,
    KEYHOOK_S3_PREFIX: 'installation',
    KEYHOOK_S3_ENDPOINT: endpoint!,
    KEYHOOK_S3_ACCESS_KEY_ID: credentials!.accessKeyId,
    KEYHOOK_S3_SECRET_ACCESS_KEY: credentials!.secretAccessKey,
    KEYHOOK_S3_PART_MIB: '5',
    KEYHOOK_S3_TIMEOUT_SECONDS: '20',
  }
}
