import { randomBytes } from 'node:crypto'
import { chown, mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { ownerDatabase, ownerRole } from '../../domain/database.ts'
import type { Binaries } from '../../embedded/binaries.ts'
import { runInitdb, singleUser, syncCluster } from '../../embedded/cluster.ts'
import { syncDirectory } from '../../embedded/data-directory.ts'
import { giveClusterTo } from '../../embedded/ownership.ts'
import type { Account } from '../../embedded/permissions.ts'
import { removeTree } from '../../embedded/untrusted-files.ts'
import { traceStep } from '../steps/trace-step.ts'
import { extensionRules } from './extensions.ts'
import type { Home } from './home.ts'

/** Part of the name, so that a template of an older Keyhook is not used. */
const edition = 3

const contentsOf = ({ major }: Binaries): string =>
  [
    ...extensionRules(major),
    `create role ${ownerRole} login nosuperuser nocreatedb nocreaterole noreplication`,
    `create database ${ownerDatabase} owner ${ownerRole}`,
  ].join('\n')

export type Template = { path(): Promise<string> }

/** An initialised cluster that new databases are copied from. Created on first use, once per build of PostgreSQL. */
export function createTemplate(home: Home, signal: AbortSignal): Template {
  let creating: Promise<string> | undefined
  return {
    path() {
      creating ??= ensure(home, signal).catch((error: unknown) => {
        creating = undefined
        throw error
      })
      return creating
    },
  }
}

async function ensure(home: Home, signal: AbortSignal): Promise<string> {
  const path = join(home.path, `template-${edition}-${home.version}`)
  if (!(await stat(path).catch(() => undefined))) {
    await removeTemplates(home.path, (name) => /\.preparing-/.test(name))
    await create(path, home, signal)
  } else if (home.account) await giveClusterTo(ownerOf(home, home.account), path)
  // Databases are copies and do not need old templates. An error here must not fail the new one.
  await removeTemplates(home.path, (name) => name !== basename(path)).catch(() => {})
  return path
}

/** Root, where each instance has an account of its own: no account may change what others are copied from. */
const ownerOf = (home: Home, account: Account): Account => (home.uids === null ? account : { uid: 0, gid: 0 })

async function create(path: string, home: Home, signal: AbortSignal): Promise<void> {
  traceStep('template.creating', path)
  const { account, binaries } = home
  const tool = { binaries, account, signal, lowPriority: true }
  const staging = `${path}.preparing-${randomBytes(6).toString('hex')}`
  await mkdir(staging, { mode: 0o700 })
  if (account) await chown(staging, account.uid, account.gid)
  try {
    const cluster = join(staging, 'cluster')
    await runInitdb(cluster, ['--auth=reject'], tool)
    await singleUser(cluster, contentsOf(binaries), { ...tool, fsync: false })
    await syncCluster(cluster, tool)
    if (account) await giveClusterTo(ownerOf(home, account), cluster)
    await rename(cluster, path)
    await syncDirectory(home.path)
  } finally {
    // An aborted initdb may still write for a moment.
    await rm(staging, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** Removes templates of killed attempts and of other builds. The lock of the data directory makes sure that none is in use. */
async function removeTemplates(home: string, isObsolete: (name: string) => boolean): Promise<void> {
  for (const name of await readdir(home)) {
    if (name.startsWith('template-') && isObsolete(name)) await removeTree(join(home, name))
  }
}
