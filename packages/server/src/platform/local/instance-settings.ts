/**
 * Limits for an instance on a machine that many share: little memory when idle, bounded under load. Owners can still change
 * what PostgreSQL lets them change for a session or a role.
 */
const shared: Readonly<Record<string, string>> = {
  // More than the customer's role may have (`ownerConnectionsMax`): a client that has not logged in takes one as well.
  max_connections: '200',
  superuser_reserved_connections: '5',
  shared_buffers: '32MB',
  effective_cache_size: '256MB',
  work_mem: '4MB',
  maintenance_work_mem: '32MB',
  max_worker_processes: '4',
  max_parallel_workers: '2',
  max_parallel_workers_per_gather: '1',
  // Backups need both: WAL that can be replayed, and a slot that keeps it until it has been copied.
  wal_level: 'replica',
  max_replication_slots: '4',
  // If archived WAL cannot be stored, the archive gets a gap before the disk is full.
  max_slot_wal_keep_size: '2GB',
  // Tells what was committed last, and owners when a row was (pg_xact_commit_timestamp).
  track_commit_timestamp: 'on',
  max_wal_senders: '0',
  // The reasons of a failed start are FATAL or PANIC. With LOG, any client could write gigabytes.
  log_min_messages: 'fatal',
  password_encryption: 'scram-sha-256',
  // A client without a password may keep a connection for so long.
  authentication_timeout: '10s',
  // A client that disappeared would keep its locks and its connection for hours.
  tcp_keepalives_idle: '60',
  tcp_keepalives_interval: '10',
  tcp_keepalives_count: '6',
}

const megabyte = 1024 ** 2

/** Parts of its storage limit. Only a superuser may raise them. */
function storageSettings(limitBytes: number): Readonly<Record<string, string>> {
  const share = (divisor: number, min: number, max = Number.POSITIVE_INFINITY) =>
    `${Math.floor(Math.min(Math.max(limitBytes / divisor / megabyte, min), max))}MB`
  return {
    // No less than two segments.
    min_wal_size: '32MB',
    max_wal_size: share(16, 32, 512),
    // WAL that waits for a backup. Beyond that the backup fails, and not the database.
    max_slot_wal_keep_size: share(4, 64),
    // Of each session.
    temp_file_limit: share(8, 32, 2048),
  }
}

export const instanceSettings = (instance: {
  id: string
  host: string | null
  port: number
  storageLimitBytes: number
}): Readonly<Record<string, string>> => ({
  ...shared,
  ...storageSettings(instance.storageLimitBytes),
  // Null: no TCP. A restored database starts like this until the old password is replaced.
  listen_addresses: instance.host ?? '',
  port: String(instance.port),
  cluster_name: instance.id,
})
