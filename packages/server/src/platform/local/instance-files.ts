import { randomBytes } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { ownerDatabase, ownerRole } from '../../domain/database.ts'
import { superuser } from '../../embedded/cluster.ts'
import { giveToDirectoryOwner } from '../../embedded/ownership.ts'
import type { Account } from '../../embedded/permissions.ts'
import type { Certificate } from '../tls/issue-certificate.ts'

/** `encrypted`: only with TLS. `any`: with or without. Null: PostgreSQL has no certificate. */
export type InstanceTls = { certificate: Certificate; accept: 'encrypted' | 'any' } | null

/**
 * Files that a server reads at its start, beside its cluster: the cluster's own may come from an archive, and belong to the
 * account. Returns the settings that name them.
 */
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

/**
 * The superuser connects only through the socket, and only from a process of the user that Keyhook runs as: the kernel tells
 * PostgreSQL who that is. The owner connects only over TCP, with the password, to the one database. PostgreSQL rejects
 * everything else.
 */
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
