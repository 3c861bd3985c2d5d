import { isAddress } from '../domain/network.ts'
import { bytes, InvalidValue, integer, matching, oneOf, optional, setting, text } from './setting.ts'

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

/** Databases, backups and invoices. */
export const platformSettings = {
  databasesHost: setting(
    'KEYHOOK_DATABASES_HOST',
    '127.0.0.1',
    address,
    'Address that the databases of this node listen on.',
  ),
  databasesPublicHost: optional(
    'KEYHOOK_DATABASES_PUBLIC_HOST',
    hostOrAddress,
    'The host shown to clients. Unset: the address above.',
  ),
  databasesPorts: setting(
    'KEYHOOK_DATABASES_PORTS',
    '15432-16431',
    portRange,
    'Ports for the databases of this node, one each.',
  ),
  databasesUids: optional(
    'KEYHOOK_DATABASES_UIDS',
    uidRange,
    'As root: user and group ids for the databases of this node, one each, which nobody else has. Unset: 1900000000-1999999999, or 20000-59999 in a container without them.',
  ),
  databasesTls: setting(
    'KEYHOOK_DATABASES_TLS',
    'on',
    oneOf('off', 'on', 'required'),
    'TLS of the databases: `on` takes connections with and without it, `required` rejects those without. The same on every node.',
  ),
  databasesCertificateFile: optional(
    'KEYHOOK_DATABASES_CERTIFICATE_FILE',
    text,
    'Certificate, with its chain, for the host shown to clients (PEM). Read again every minute. Unset: Keyhook issues one, with an authority of its own.',
  ),
  databasesKeyFile: optional(
    'KEYHOOK_DATABASES_KEY_FILE',
    text,
    'Its private key, without a passphrase. Required with the certificate.',
  ),
  databasesCaFile: optional(
    'KEYHOOK_DATABASES_CA_FILE',
    text,
    'With a certificate of a private authority: the certificate of that authority, which `/database-ca.pem` then serves.',
  ),
  databasesPerOrgMax: setting(
    'KEYHOOK_DATABASES_PER_ORG_MAX',
    '20',
    integer(1, 10_000, 'a number of databases'),
    'Most databases in one organization.',
  ),
  databasesPerNodeMax: setting(
    'KEYHOOK_DATABASES_PER_NODE_MAX',
    '100',
    integer(1, 10_000, 'a number of databases'),
    'Most databases on this node; each is a PostgreSQL server of its own.',
  ),
  databaseStorageMax: setting(
    'KEYHOOK_DATABASE_STORAGE_MAX',
    '10GB',
    bytes('128MB', '1000TB'),
    'Disk that one database may use, with its WAL and temporary files. It is read-only from 95 % on, and stopped at 120 %.',
  ),
  databaseMemoryMax: setting(
    'KEYHOOK_DATABASE_MEMORY_MAX',
    '768MB',
    bytes('128MB', '16TB'),
    'Memory of one database with all its sessions, where cgroups can be created. One session gets half of it; without cgroups a quarter, and nothing limits the sum.',
  ),
  databaseProcessesMax: setting(
    'KEYHOOK_DATABASE_PROCESSES_MAX',
    '400',
    integer(250, 1_000_000, 'a number of processes'),
    'Processes of one database, where cgroups can be created; a session is one, and PostgreSQL has some more.',
  ),
  databaseCpusMax: setting(
    'KEYHOOK_DATABASE_CPUS_MAX',
    '1',
    integer(1, 1_024, 'a number of processors'),
    'Processor time of one database, in processors, where cgroups can be created.',
  ),
  diskFreeMin: setting(
    'KEYHOOK_DISK_FREE_MIN',
    '2GB',
    bytes('16MB', '1000TB'),
    'Free space of the disk with the databases; at most a quarter of the disk. Below it, the databases that fill the disk become read-only; below half of it all do, and below a quarter all are stopped.',
  ),
  diskReserve: setting(
    'KEYHOOK_DISK_RESERVE',
    '1GB',
    bytes('0', '1000TB'),
    "Space that is kept for Keyhook's own embedded PostgreSQL, in a file that is deleted when the disk is full; at most a twentieth of the disk.",
  ),
  nodePatienceSeconds: setting(
    'KEYHOOK_NODE_PATIENCE_SECONDS',
    '60',
    integer(5, 86_400, 'a number of seconds'),
    'How long a backup or restore waits for a node without a heartbeat, before it fails.',
  ),
  backupEveryHours: optional(
    'KEYHOOK_BACKUP_EVERY_HOURS',
    integer(1, 8_760, 'a number of hours'),
    'Back up every database this often. Unset: only when asked.',
  ),
  backupsKept: setting(
    'KEYHOOK_BACKUPS_KEPT',
    '7',
    integer(1, 10_000, 'a number of backups'),
    'How many scheduled backups of a database are kept, and how many bases of its log; requested backups stay.',
  ),
  pointInTimeRestore: setting(
    'KEYHOOK_POINT_IN_TIME_RESTORE',
    'on',
    oneOf('on', 'off'),
    '`on`: the log of every database is stored beside its backups, so that it can be restored to any time of about the last week (docs/backups.md).',
  ),
  walEverySeconds: setting(
    'KEYHOOK_WAL_EVERY_SECONDS',
    '30',
    integer(1, 3_600, 'a number of seconds'),
    'How often that log is stored. What is lost with the disk of a node is at most this and the time to store it.',
  ),
  walBytesPerBaseMax: setting(
    'KEYHOOK_WAL_PER_BASE_MAX',
    '1GB',
    bytes('1MB', '1000TB'),
    'After so much stored log a base of the database is taken before its day is over. `KEYHOOK_BACKUPS_KEPT` of them are kept with the log after each, so this limits what a busy database can store.',
  ),
  currency: setting(
    'KEYHOOK_CURRENCY',
    'USD',
    matching(/^[A-Z]{3}$/, 'a currency such as EUR'),
    'The currency of invoices.',
  ),
  databaseHourPriceMinor: setting(
    'KEYHOOK_DATABASE_HOUR_PRICE_MINOR',
    '2',
    integer(0, 1_000_000_000, 'a price in minor units'),
    'What an hour of one database costs, in minor units (cents).',
  ),
} as const
