import { randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { giveTo } from '../../embedded/cluster.ts'
import { syncDirectory, writeSecret } from '../../embedded/data-directory.ts'
import { leaveToHost } from '../../embedded/host.ts'
import { type DatabaseId, isId } from '../../kernel/ids.ts'
import type { Home } from './home.ts'

/*
 * One directory per instance:
 *   <home>/<database id>/cluster        what PostgreSQL owns
 *                        port           where it listens, for as long as it exists
 *                        postgres.log
 *   <home>/<database id>.removed-…      on its way out
 */
export type InstanceDirectory = { path: string; cluster: string }

export const instanceDirectory = (home: Home, id: DatabaseId): InstanceDirectory => {
  const path = join(home.path, id)
  return { path, cluster: join(path, 'cluster') }
}

const exists = async (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  )

/**
 * Makes the cluster unless it is there. `fill` works on an empty directory beside the final place, and the rename comes
 * last: a cluster under its own name is whole, no matter when a predecessor was killed.
 */
export async function makeCluster(
  home: Home,
  { path, cluster }: InstanceDirectory,
  fill: (workshop: string) => Promise<void>,
): Promise<void> {
  await mkdir(path, { recursive: true })
  await leaveToHost(path)
  await chmod(path, home.account === undefined ? 0o700 : 0o711)
  for (const name of await readdir(path)) {
    if (name.startsWith('preparing-')) await rm(join(path, name), { recursive: true, force: true })
  }
  if (await exists(cluster)) return
  const workshop = join(path, `preparing-${randomBytes(6).toString('hex')}`)
  await mkdir(workshop, { mode: 0o700 })
  try {
    await fill(workshop)
    await rename(workshop, cluster)
    await syncDirectory(path)
  } catch (error) {
    await rm(workshop, { recursive: true, force: true })
    throw error
  }
}

/** To the account that is about to run it: root may have restored it with a plain copy, or somebody else run it before. */
export async function handOver({ account }: Home, { path, cluster }: InstanceDirectory): Promise<void> {
  // Nothing of ours is a link; what is behind one is not touched.
  if (account === undefined || !(await lstat(path)).isDirectory()) return
  await chmod(path, 0o711)
  await giveTo(account, cluster)
}

export const hasCluster = ({ cluster }: InstanceDirectory): Promise<boolean> => exists(join(cluster, 'PG_VERSION'))

const portPath = (directory: string): string => join(directory, 'port')

export async function readPort(directory: string): Promise<number | null> {
  const text = await readFile(portPath(directory), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null
    throw error
  })
  return text === null ? null : Number(text)
}

export const writePort = (directory: string, port: number): Promise<void> =>
  writeSecret(portPath(directory), String(port))

export const forgetPort = (directory: string): Promise<void> => rm(portPath(directory), { force: true })

/** Out of the way in one step, so that a removal which is cut off never leaves half an instance under its name. */
export async function removeDirectory(home: Home, id: DatabaseId): Promise<void> {
  const { path } = instanceDirectory(home, id)
  if (await exists(path)) await rename(path, `${path}.removed-${randomBytes(6).toString('hex')}`)
  for (const name of await readdir(home.path)) {
    if (name.startsWith(`${id}.removed-`)) await rm(join(home.path, name), { recursive: true, force: true })
  }
}

export async function instancesIn(home: Home): Promise<DatabaseId[]> {
  const names = (await readdir(home.path)).map((name) => name.replace(/\.removed-.*$/, ''))
  return [...new Set(names)].filter((name) => isId('db', name))
}
