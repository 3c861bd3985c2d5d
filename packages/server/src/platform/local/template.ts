import { randomBytes } from 'node:crypto'
import { chown, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { ownerDatabase, ownerRole } from '../../domain/database.ts'
import { giveTo, singleUser, superuser } from '../../embedded/cluster.ts'
import { syncDirectory } from '../../embedded/data-directory.ts'
import { runTool } from '../../embedded/tool.ts'
import { step } from '../steps/step.ts'
import type { Home } from './home.ts'

/** Part of the name: a template of an older Keyhook, with other contents, is not used. */
const edition = 1

/**
 * Who may come in how. The superuser only through the socket, which lies in a directory that nobody else can enter; the
 * owner only over TCP, only with the password, only to the one database. Anything else has no line and is refused.
 */
const accessRules = `local all ${superuser} trust
host ${ownerDatabase} ${ownerRole} all scram-sha-256
`

const contents = `create role ${ownerRole} login nosuperuser nocreatedb nocreaterole noreplication
create database ${ownerDatabase} owner ${ownerRole}`

export type Template = { path(): Promise<string> }

/** An initialised cluster that new databases are copied from: made by the first one that asks, once per PostgreSQL. */
export function createTemplate(home: Home, signal: AbortSignal): Template {
  let making: Promise<string> | undefined
  return {
    path() {
      making ??= ensure(home, signal).catch((error: unknown) => {
        making = undefined
        throw error
      })
      return making
    },
  }
}

async function ensure(home: Home, signal: AbortSignal): Promise<string> {
  const path = join(home.path, `template-${edition}-${home.version}`)
  if (!(await stat(path).catch(() => undefined))) {
    await removeTemplates(home.path, (name) => /\.preparing-/.test(name))
    await make(path, home, signal)
  } else if (home.account) await giveTo(home.account, path)
  // Databases are copies and need no template any more. One that cannot be removed is no reason to make none.
  await removeTemplates(home.path, (name) => name !== basename(path)).catch(() => {})
  return path
}

async function make(path: string, home: Home, signal: AbortSignal): Promise<void> {
  step('template.making', path)
  const { account, binaries } = home
  const tool = { account, signal, unhurried: true }
  const workshop = `${path}.preparing-${randomBytes(6).toString('hex')}`
  await mkdir(workshop, { mode: 0o700 })
  if (account) await chown(workshop, account.uid, account.gid)
  try {
    const cluster = join(workshop, 'cluster')
    const locale = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8']
    const rest = [`--username=${superuser}`, '--auth=reject', '--data-checksums', '--no-instructions', '--no-sync']
    await runTool(binaries.initdb, ['-D', cluster, ...locale, ...rest], tool)
    await singleUser(cluster, contents, { ...tool, binaries, fsync: false })
    // The file exists and belongs to the account already; only its contents change.
    await writeFile(join(cluster, 'pg_hba.conf'), accessRules)
    await runTool(binaries.initdb, ['-D', cluster, '--sync-only'], tool)
    await rename(cluster, path)
    await syncDirectory(home.path)
  } finally {
    // Where an initdb was ended early, its last words may still be on their way to the disk.
    await rm(workshop, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** What a killed attempt or another PostgreSQL left. Only whoever holds the data directory gets here: nobody uses it. */
async function removeTemplates(home: string, isLeft: (name: string) => boolean): Promise<void> {
  for (const name of await readdir(home)) {
    if (name.startsWith('template-') && isLeft(name)) await rm(join(home, name), { recursive: true, force: true })
  }
}
