import { randomBytes } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import type { Account } from '../../../postgres/account.ts'
import { superuser } from '../../../postgres/cluster.ts'
import { giveToDirectoryOwner } from '../../../postgres/ownership.ts'
import type { Certificate } from '../../certificates.ts'
import { ownerDatabase, ownerRole } from '../../database.ts'

/** `encrypted`: only with TLS. `any`: with or without. Null: PostgreSQL has no certificate. */
export type InstanceTls = { certificate: Certificate; accept: 'encrypted' | 'any' } | null

/** Beside the cluster, whose own may come from an archive, and belong to the account. Returns the settings that name them. */
export async function writeServerFiles(
  directory: string,
  { account, tls }: { account: Account | undefined; tls: InstanceTls },
): Promise<Readonly<Record<string, string>>> {
  const [rules, names] = [join(directory, 'pg_hba.conf'), join(directory, 'pg_ident.conf')]
  await replaceFile(rules, accessRules(tls), { mode: 0o644, owner: undefined })
  await replaceFile(names, namesOf(userInfo().username), { mode: 0o644, owner: undefined })
  const access = { hba_file: rules, ident_file: names }
  if (tls === null) return { ...access, ssl: 'off' }
  await writeCertificate(directory, { account, certificate: tls.certificate })
  return {
    ...access,
    ssl: 'on',
    ssl_cert_file: join(directory, 'server.crt'),
    ssl_key_file: join(directory, 'server.key'),
    ssl_min_protocol_version: 'TLSv1.2',
  }
}

/** PostgreSQL reads both again on a reload. The key first: a new certificate never meets the key of the old one for long. */
export async function writeCertificate(
  directory: string,
  { account, certificate }: { account: Account | undefined; certificate: Certificate },
): Promise<void> {
  // PostgreSQL refuses a key that others can read, unless it belongs to root.
  await replaceFile(join(directory, 'server.key'), certificate.key, { mode: 0o600, owner: account })
  await replaceFile(join(directory, 'server.crt'), certificate.certificate, { mode: 0o644, owner: undefined })
}

/** The superuser connects only through the socket, as the user that Keyhook runs as; the owner only over TCP, with the password, to one database. */
const accessRules = (tls: InstanceTls): string => `local all ${superuser} peer map=${superuser}
${tls?.accept === 'encrypted' ? 'hostssl' : 'host'} ${ownerDatabase} ${ownerRole} all scram-sha-256
`

/** Which user of the operating system may connect as which role. */
const namesOf = (user: string): string => `${superuser} "${user.replaceAll('"', '""')}" ${superuser}\n`

/** A reader sees the old file or the new one. */
async function replaceFile(
  path: string,
  text: string,
  { mode, owner }: { mode: number; owner: Account | undefined },
): Promise<void> {
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  try {
    const file = await open(draft, 'wx', mode)
    try {
      await file.writeFile(text)
      // The umask may have removed bits.
      await file.chmod(mode)
      if (owner !== undefined) await file.chown(owner.uid, owner.gid)
    } finally {
      await file.close()
    }
    if (owner === undefined) await giveToDirectoryOwner(draft)
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}

/** Little memory when idle, bounded under load. Owners can still change what PostgreSQL lets them change for a session or a role. */
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
