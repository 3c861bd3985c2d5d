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
    'Where this node keeps backups. Unset: `archives` in the data directory. With a bucket, only backups from before are read there.',
  ),
  archivesEncryption: setting(
    'KEYHOOK_ARCHIVES_ENCRYPTION',
    'master-key',
    oneOf('master-key', 'off'),
    'Whether new archives are encrypted under the master key. Existing ones stay readable either way, and the log of a database stays encrypted once it is.',
  ),
  archivesPerOrgMax: setting(
    'KEYHOOK_ARCHIVES_PER_ORG_MAX',
    '1TB',
    bytes('1MB', '1000TB'),
    'What the backups and logs of one organization may take together in the store. At that, no backup is taken and no log is stored. The same on every node.',
  ),
  s3Bucket: optional(
    'KEYHOOK_S3_BUCKET',
    matching(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'a name of a bucket'),
    'Store backups in this bucket of an S3-compatible store, instead of the directory. Set it alike on all nodes.',
  ),
  s3Prefix: optional(
    'KEYHOOK_S3_PREFIX',
    matching(/^[A-Za-z0-9_][A-Za-z0-9_.-]*(\/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$/, 'a prefix such as keyhook/production'),
    'What all names in the bucket start with. Each installation needs a bucket or prefix of its own.',
  ),
  s3Endpoint: optional('KEYHOOK_S3_ENDPOINT', endpoint, 'Address of the store. Unset: AWS, in the region below.'),
  s3Region: setting(
    'KEYHOOK_S3_REGION',
    'us-east-1',
    matching(/^[a-z0-9-]{1,50}$/, 'a region such as eu-central-1'),
    'The region that requests are signed for.',
  ),
  s3Addressing: setting(
    'KEYHOOK_S3_ADDRESSING',
    'path',
    oneOf('path', 'virtual-host'),
    'Where the bucket is named: in the path, or as the first part of the host name.',
  ),
  s3CaFile: optional(
    'KEYHOOK_S3_CA_FILE',
    text,
    'PEM file of the authority that signed the certificate of the store, in addition to the usual ones.',
  ),
  s3AccessKeyId: optional(
    'KEYHOOK_S3_ACCESS_KEY_ID',
    text,
    'Unset: what the AWS SDK finds (`AWS_ACCESS_KEY_ID`, `AWS_SHARED_CREDENTIALS_FILE`, the role of the machine).',
  ),
  s3SecretAccessKey: optional(
    'KEYHOOK_S3_SECRET_ACCESS_KEY',
    text,
    'The secret of that access key. Required with it.',
    true,
  ),
  s3PartMib: setting(
    'KEYHOOK_S3_PART_MIB',
    '16',
    integer(5, 512, 'a number of MiB'),
    'Size of a part of an upload. An archive has at most 10,000 parts, and an upload holds up to three parts in memory.',
  ),
  s3TimeoutSeconds: setting(
    'KEYHOOK_S3_TIMEOUT_SECONDS',
    '60',
    integer(1, 3_600, 'a number of seconds'),
    'How long one request to the store may take, or a download go without a byte. Requests are tried three times.',
  ),
} as const
