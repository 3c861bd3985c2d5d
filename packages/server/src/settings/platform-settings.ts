import { isAddress } from '../lib/network.ts'
import { bytes, count, InvalidValue, integer, matching, oneOf, optional, secret, setting, text } from './setting.ts'

const portRange = (value: string): { first: number; last: number } => {
  const [first = 0, last = 0] = (/^(\d{4,5})-(\d{4,5})$/.exec(value) ?? []).slice(1).map(Number)
  if (!(first >= 1_024 && first <= last && last <= 65_535)) {
    throw new InvalidValue('is not a range of ports such as 15432-16431 (1024 to 65535)')
  }
  return { first, last }
}

const uidRange = (value: string): { first: number; last: number } => {
  const [first = 0, last = 0] = (/^(\d{3,10})-(\d{3,10})$/.exec(value) ?? []).slice(1).map(Number)
  if (!(first >= 100 && first <= last && last < 2 ** 32 - 2)) {
    throw new InvalidValue('is not a range of user ids such as 1900000000-1999999999 (100 to 4294967293)')
  }
  return { first, last }
}

const address = (value: string): string => {
  if (!isAddress(value)) throw new InvalidValue('is not an IP address')
  return value
}

/** No port: every database has its own. */
const hostOrAddress = (value: string): string => {
  if (!isAddress(value) && !/^[A-Za-z0-9.-]{1,253}$/.test(value))
    throw new InvalidValue('is not a host name or address')
  return value
}

const endpoint = (value: string): string => {
  const url = URL.parse(value)
  if (url === null || !/^https?:$/.test(url.protocol) || url.pathname !== '/' || /[?#@]/.test(value)) {
    throw new InvalidValue('is not an address such as https://s3.example.com:9000')
  }
  return url.origin
}

/** Databases, backups and invoices. */
export const platformSettings = {
  databasesHost: setting('KEYHOOK_DATABASES_HOST', '127.0.0.1', address).about(
    'The databases of this node listen on this IP address.',
  ),
  databasesPublicHost: optional('KEYHOOK_DATABASES_PUBLIC_HOST', hostOrAddress).about(
    'Host name or address that customers are shown. If unset, `KEYHOOK_DATABASES_HOST` is shown.',
  ),
  databasesPorts: setting('KEYHOOK_DATABASES_PORTS', '15432-16431', portRange).about(
    'Range of ports for the databases of this node. Each database has one.',
  ),
  databasesUids: optional('KEYHOOK_DATABASES_UIDS', uidRange).about(
    'Range of user and group ids for the databases of this node, used as root only. Nobody else may have them. If unset, the range is 1900000000-1999999999, or 20000-59999 in a container without those ids.',
  ),
  databasesTls: setting('KEYHOOK_DATABASES_TLS', 'on', oneOf('off', 'on', 'required')).about(
    'TLS of the databases. `on` accepts connections with and without TLS, `required` rejects those without. Set it alike on every node.',
  ),
  databasesCertificateFile: optional('KEYHOOK_DATABASES_CERTIFICATE_FILE', text).about(
    'PEM file with the certificate, and its chain, for the host that customers see. It is read again every minute. If unset, Keyhook issues certificates with its own authority.',
  ),
  databasesKeyFile: optional('KEYHOOK_DATABASES_KEY_FILE', text).about(
    'PEM file with the private key of that certificate, without a passphrase. It is required with `KEYHOOK_DATABASES_CERTIFICATE_FILE`.',
  ),
  databasesCaFile: optional('KEYHOOK_DATABASES_CA_FILE', text).about(
    'PEM file with the authority of that certificate, if it is a private one. `/database-ca.pem` serves it.',
  ),
  databasesPerOrgMax: setting('KEYHOOK_DATABASES_PER_ORG_MAX', '20', count(1, 10_000, 'databases')).about(
    'Largest number of databases in one organization.',
  ),
  databasesPerNodeMax: setting('KEYHOOK_DATABASES_PER_NODE_MAX', '100', count(1, 10_000, 'databases')).about(
    'Largest number of databases on this node. Each is a PostgreSQL server.',
  ),
  databaseStorageMax: setting('KEYHOOK_DATABASE_STORAGE_MAX', '10GB', bytes('128MB', '1000TB')).about(
    'Disk space of one database, including its write-ahead log and temporary files. A database is read-only from 95 % on, and stopped at 120 %.',
  ),
  databaseMemoryMax: setting('KEYHOOK_DATABASE_MEMORY_MAX', '768MB', bytes('128MB', '16TB')).about(
    'Memory of one database with all its sessions, where cgroups can be created. One session gets half of it; without cgroups it gets a quarter, and the sum has no limit.',
  ),
  databaseProcessesMax: setting('KEYHOOK_DATABASE_PROCESSES_MAX', '400', count(250, 1_000_000, 'processes')).about(
    'Largest number of processes of one database, where cgroups can be created. A session is one process.',
  ),
  databaseCpusMax: setting('KEYHOOK_DATABASE_CPUS_MAX', '1', count(1, 1_024, 'processors')).about(
    'Processor time of one database, in processors, where cgroups can be created.',
  ),
  diskFreeMin: setting('KEYHOOK_DISK_FREE_MIN', '2GB', bytes('16MB', '1000TB')).about(
    'Free disk space that databases must leave, at most a quarter of the disk. Below it the databases that fill the disk become read-only, below half of it all of them, and below a quarter all are stopped.',
  ),
  diskReserve: setting('KEYHOOK_DISK_RESERVE', '1GB', bytes('0', '1000TB')).about(
    "Disk space that is reserved for Keyhook's embedded PostgreSQL, at most a twentieth of the disk. It is a file that is deleted when the disk is full.",
  ),
  nodePatienceSeconds: setting('KEYHOOK_NODE_PATIENCE_SECONDS', '60', count(5, 86_400, 'seconds')).about(
    'Time that a backup or restore waits for a node without a heartbeat before it fails.',
  ),
  backupEveryHours: optional('KEYHOOK_BACKUP_EVERY_HOURS', count(1, 8_760, 'hours')).about(
    'Hours between scheduled backups of every database. If unset, backups are taken on request only.',
  ),
  backupsKept: setting('KEYHOOK_BACKUPS_KEPT', '7', count(1, 10_000, 'backups')).about(
    'Number of scheduled backups, and of base backups, that are kept for each database. Requested backups stay.',
  ),
  pointInTimeRestore: setting('KEYHOOK_POINT_IN_TIME_RESTORE', 'on', oneOf('on', 'off')).about(
    '`on` stores the write-ahead log of every database beside its backups, so that it can be restored to any time of about the last week (docs/databases.md).',
  ),
  walEverySeconds: setting('KEYHOOK_WAL_EVERY_SECONDS', '30', count(1, 3_600, 'seconds')).about(
    'Seconds between uploads of the write-ahead log. If the disk of a node is lost, at most this and the time of the upload are lost.',
  ),
  walBytesPerBaseMax: setting('KEYHOOK_WAL_PER_BASE_MAX', '1GB', bytes('1MB', '1000TB')).about(
    'Size of stored write-ahead log after which a base backup is taken before the day is over. `KEYHOOK_BACKUPS_KEPT` base backups are kept with their write-ahead log, so this limits what a busy database stores.',
  ),
  currency: setting('KEYHOOK_CURRENCY', 'USD', matching(/^[A-Z]{3}$/, 'a currency such as EUR')).about(
    'Currency of invoices.',
  ),
  databaseHourPriceMinor: setting(
    'KEYHOOK_DATABASE_HOUR_PRICE_MINOR',
    '2',
    integer(0, 1_000_000_000, 'a price in minor units'),
  ).about('Price of one database for one hour, in minor units (cents).'),
} as const

/** Databases as CloudNativePG clusters; used with `KEYHOOK_DATABASE_DRIVER=cloudnativepg` only. */
export const kubernetesSettings = {
  databaseDriver: setting('KEYHOOK_DATABASE_DRIVER', 'local', oneOf('local', 'cloudnativepg')).about(
    'What runs the databases: this machine, or CloudNativePG on Kubernetes. Set it alike on every node.',
  ),
  kubernetesNamespace: setting(
    'KEYHOOK_KUBERNETES_NAMESPACE',
    'keyhook-databases',
    matching(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'a namespace'),
  ).about('Namespace of the databases. Each installation needs its own.'),
  kubernetesConfig: optional('KEYHOOK_KUBERNETES_CONFIG', text).about(
    'Path of a kubeconfig file. If unset, Keyhook uses the service account of its pod.',
  ),
  kubernetesInstances: setting('KEYHOOK_KUBERNETES_INSTANCES', '1', count(1, 9, 'instances')).about(
    'Number of PostgreSQL servers of a new database: the primary and its replicas.',
  ),
  kubernetesStorageClass: optional(
    'KEYHOOK_KUBERNETES_STORAGE_CLASS',
    matching(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, 'a storage class'),
  ).about('Storage class of new databases. If unset, the default of the Kubernetes cluster is used.'),
  kubernetesService: setting('KEYHOOK_KUBERNETES_SERVICE', 'ClusterIP', oneOf('ClusterIP', 'LoadBalancer')).about(
    'How clients reach a database: `ClusterIP` inside the Kubernetes cluster only, `LoadBalancer` through a load balancer for each database.',
  ),
  kubernetesImage: optional(
    'KEYHOOK_KUBERNETES_IMAGE',
    matching(/^[a-z0-9][A-Za-z0-9_.:/@-]{0,500}$/, 'a name of an image'),
  ).about('PostgreSQL image of new databases. If unset, CloudNativePG chooses it.'),
  kubernetesReadyMinutes: setting('KEYHOOK_KUBERNETES_READY_MINUTES', '30', count(1, 1_440, 'minutes')).about(
    'Minutes that a new or restored database may take until it is ready.',
  ),
} as const

/** Where the archives of backups are stored, and how. */
export const archiveSettings = {
  archivesDir: optional('KEYHOOK_ARCHIVES_DIR', text).about(
    'Folder in which this node stores backups. If unset, it is `archives` in the data directory. With a bucket, only older backups are read there.',
  ),
  archivesEncryption: setting('KEYHOOK_ARCHIVES_ENCRYPTION', 'master-key', oneOf('master-key', 'off')).about(
    '`master-key` encrypts new archives under the master key. Existing archives stay readable either way, and a write-ahead log that is encrypted stays so.',
  ),
  archivesPerOrgMax: setting('KEYHOOK_ARCHIVES_PER_ORG_MAX', '1TB', bytes('1MB', '1000TB')).about(
    'Storage for all backups and write-ahead logs of one organization. When it is used up, no backup is taken and no log is stored. Set it alike on every node.',
  ),
  s3Bucket: optional('KEYHOOK_S3_BUCKET', matching(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'a name of a bucket')).about(
    'Bucket of an S3-compatible store for backups, instead of the folder. Set it alike on every node.',
  ),
  s3Prefix: optional(
    'KEYHOOK_S3_PREFIX',
    matching(/^[A-Za-z0-9_][A-Za-z0-9_.-]*(\/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$/, 'a prefix such as keyhook/production'),
  ).about('Prefix of all object names in the bucket. Each installation needs its own bucket or prefix.'),
  s3Endpoint: optional('KEYHOOK_S3_ENDPOINT', endpoint).about(
    'Address of the store. If unset, it is AWS in `KEYHOOK_S3_REGION`.',
  ),
  s3Region: setting(
    'KEYHOOK_S3_REGION',
    'us-east-1',
    matching(/^[a-z0-9-]{1,50}$/, 'a region such as eu-central-1'),
  ).about('Region that requests to the store are signed for.'),
  s3Addressing: setting('KEYHOOK_S3_ADDRESSING', 'path', oneOf('path', 'virtual-host')).about(
    'Place of the bucket name in requests: in the path, or first in the host name.',
  ),
  s3CaFile: optional('KEYHOOK_S3_CA_FILE', text).about(
    'PEM file of an authority that the certificate of the store may use, besides the public ones.',
  ),
  s3AccessKeyId: optional('KEYHOOK_S3_ACCESS_KEY_ID', text).about(
    'Access key id for the store. If unset, the AWS SDK looks for credentials (`AWS_ACCESS_KEY_ID`, `AWS_SHARED_CREDENTIALS_FILE`, the role of the machine).',
  ),
  s3SecretAccessKey: secret('KEYHOOK_S3_SECRET_ACCESS_KEY', text).about(
    'Secret of the access key. It is required with `KEYHOOK_S3_ACCESS_KEY_ID`.',
  ),
  s3PartMib: setting('KEYHOOK_S3_PART_MIB', '16', count(5, 512, 'MiB')).about(
    'Size of one part of an upload in MiB. An archive has at most 10,000 parts, and an upload keeps up to three in memory.',
  ),
  s3TimeoutSeconds: setting('KEYHOOK_S3_TIMEOUT_SECONDS', '60', count(1, 3_600, 'seconds')).about(
    'Seconds that one request to the store may take, or that a download may pause. A request is tried three times.',
  ),
} as const
