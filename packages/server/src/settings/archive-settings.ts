import { bytes, InvalidValue, integer, matching, oneOf, optional, setting, text } from './setting.ts'

const endpoint = (value: string): string => {
  const url = URL.parse(value)
  if (url === null || !/^https?:$/.test(url.protocol) || url.pathname !== '/' || /[?#@]/.test(value)) {
    throw new InvalidValue('is not an address such as https://s3.example.com:9000')
  }
  return url.origin
}

/** Where the archives of backups are stored, and how. */
export const archiveSettings = {
  archivesDir: optional(
    'KEYHOOK_ARCHIVES_DIR',
    text,
    'Folder in which this node stores backups. If unset, it is `archives` in the data directory. With a bucket, only older backups are read there.',
  ),
  archivesEncryption: setting(
    'KEYHOOK_ARCHIVES_ENCRYPTION',
    'master-key',
    oneOf('master-key', 'off'),
    '`master-key` encrypts new archives under the master key. Existing archives stay readable either way, and a write-ahead log that is encrypted stays so.',
  ),
  archivesPerOrgMax: setting(
    'KEYHOOK_ARCHIVES_PER_ORG_MAX',
    '1TB',
    bytes('1MB', '1000TB'),
    'Storage for all backups and write-ahead logs of one organization. When it is used up, no backup is taken and no log is stored. Set it alike on every node.',
  ),
  s3Bucket: optional(
    'KEYHOOK_S3_BUCKET',
    matching(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'a name of a bucket'),
    'Bucket of an S3-compatible store for backups, instead of the folder. Set it alike on every node.',
  ),
  s3Prefix: optional(
    'KEYHOOK_S3_PREFIX',
    matching(/^[A-Za-z0-9_][A-Za-z0-9_.-]*(\/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$/, 'a prefix such as keyhook/production'),
    'Prefix of all object names in the bucket. Each installation needs its own bucket or prefix.',
  ),
  s3Endpoint: optional(
    'KEYHOOK_S3_ENDPOINT',
    endpoint,
    'Address of the store. If unset, it is AWS in `KEYHOOK_S3_REGION`.',
  ),
  s3Region: setting(
    'KEYHOOK_S3_REGION',
    'us-east-1',
    matching(/^[a-z0-9-]{1,50}$/, 'a region such as eu-central-1'),
    'Region that requests to the store are signed for.',
  ),
  s3Addressing: setting(
    'KEYHOOK_S3_ADDRESSING',
    'path',
    oneOf('path', 'virtual-host'),
    'Place of the bucket name in requests: in the path, or first in the host name.',
  ),
  s3CaFile: optional(
    'KEYHOOK_S3_CA_FILE',
    text,
    'PEM file of an authority that the certificate of the store may use, besides the public ones.',
  ),
  s3AccessKeyId: optional(
    'KEYHOOK_S3_ACCESS_KEY_ID',
    text,
    'Access key id for the store. If unset, the AWS SDK looks for credentials (`AWS_ACCESS_KEY_ID`, `AWS_SHARED_CREDENTIALS_FILE`, the role of the machine).',
  ),
  s3SecretAccessKey: optional(
    'KEYHOOK_S3_SECRET_ACCESS_KEY',
    text,
    'Secret of the access key. It is required with `KEYHOOK_S3_ACCESS_KEY_ID`.',
    true,
  ),
  s3PartMib: setting(
    'KEYHOOK_S3_PART_MIB',
    '16',
    integer(5, 512, 'a number of MiB'),
    'Size of one part of an upload in MiB. An archive has at most 10,000 parts, and an upload keeps up to three in memory.',
  ),
  s3TimeoutSeconds: setting(
    'KEYHOOK_S3_TIMEOUT_SECONDS',
    '60',
    integer(1, 3_600, 'a number of seconds'),
    'Seconds that one request to the store may take, or that a download may pause. A request is tried three times.',
  ),
} as const
