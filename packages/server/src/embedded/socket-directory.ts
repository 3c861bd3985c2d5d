import { chown, mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Account, firstClosedDirectory } from './permissions.ts'

export const port = 5432
export const socketNameOf = (port: number): string => `.s.PGSQL.${port}`
export const socketName = socketNameOf(port)
/** Customers' databases have other ports, with up to five digits. */
const socketNameLongest = socketNameOf(65_535)

/** The kernel's limit for a socket's path is 104 bytes on macOS and 108 on Linux, with the zero byte at its end. */
const pathBytesMax = 103

export type SocketDirectory = { path: string; remove(): Promise<void> }

export const fits = (directory: string): boolean =>
  Buffer.byteLength(join(directory, socketNameLongest)) <= pathBytesMax

/** A directory that `openSocketDirectory` may have made. */
export const isPrivateSocketDirectory = (path: string): boolean => /^\/([^.].*\/)?keyhook-[A-Za-z0-9]{6}$/.test(path)

/** The cluster's directory, which only its owner can enter; or a private one with a short path if that is too long. */
export async function openSocketDirectory(cluster: string, account: Account | undefined): Promise<SocketDirectory> {
  if (fits(cluster)) return { path: cluster, remove: async () => {} }
  for (const base of [tmpdir(), '/tmp']) {
    const real = await realpath(base).catch(() => undefined)
    if (real === undefined || !fits(join(real, 'keyhook-XXXXXX'))) continue
    if (account && (await firstClosedDirectory(real, account)) !== undefined) continue
    // mkdtemp creates it new with mode 0700, so no other user can have prepared it.
    const path = await mkdtemp(join(real, 'keyhook-'))
    if (account) await chown(path, account.uid, account.gid)
    return { path, remove: () => rm(path, { recursive: true, force: true }) }
  }
  throw new Error(
    `No place for PostgreSQL's socket: the paths of ${cluster} and of ${tmpdir()} are too long. Set TMPDIR.`,
  )
}
