import type { Dirent } from 'node:fs'
import { constants, type FileHandle, lstat, open, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { runTool } from './start-program.ts'

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_DIRECTORY } = constants

/** Somebody put another thing in the place of a file: a link, a pipe, or a file of someone else. */
export class NotAClusterFile extends Error {
  override readonly name = 'NotAClusterFile'
}

/**
 * The files of a cluster, which its account can replace at any time: with a link to our master key, a link to a directory,
 * a hard link, or a pipe that blocks the reader. Only regular files with one name count, and only those of the owner.
 */
export type UntrustedTree = {
  entries(directory: string): Promise<Dirent[]>
  /** 0 if it does not exist any more. */
  sizeOf(path: string): Promise<number>
  /** Undefined if it does not exist. */
  open(path: string): Promise<FileHandle | undefined>
  /** Undefined if it does not exist. Rejects a larger one. */
  read(path: string, bytesMax: number): Promise<Buffer | undefined>
}

/** Paths are relative to `root`. Without `owner`, the owner of `root` counts, and `root` may be a link of ours. */
export function untrustedTree(root: string, owner?: number): UntrustedTree {
  /** Opens one directory after the other, each inside the one before: none can be swapped for a link meanwhile. */
  async function inside<T>(directories: string[], work: (at: Place) => Promise<T>): Promise<T> {
    const top = owner === undefined ? await realpath(root) : root
    const opened = [await openDirectory(top, '.')]
    try {
      const uid = owner ?? (await opened[0]!.stat()).uid
      await checkOwner(opened[0]!, uid, root)
      for (const [depth, name] of directories.entries()) {
        const shown = directories.slice(0, depth + 1).join('/')
        const parent = pathOf(opened[depth]!, join(top, ...directories.slice(0, depth)))
        opened.push(await openDirectory(`${parent}/${name}`, shown))
        await checkOwner(opened[depth + 1]!, uid, shown)
      }
      return await work({ path: pathOf(opened.at(-1)!, join(top, ...directories)), uid })
    } finally {
      for (const handle of opened) await handle.close()
    }
  }

  async function openFile(path: string): Promise<FileHandle | undefined> {
    const [directories, name] = split(path)
    try {
      return await inside(directories, async (at) => {
        const handle = await open(`${at.path}/${name}`, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch(rejectLink(path))
        try {
          await checkFile(handle, at.uid, path)
        } catch (error) {
          await handle.close()
          throw error
        }
        return handle
      })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
  }

  return {
    open: openFile,
    entries: (directory) => inside(partsOf(directory), (at) => readdir(at.path, { withFileTypes: true })),
    async sizeOf(path) {
      const [directories, name] = split(path)
      return inside(directories, async (at) => (await lstat(`${at.path}/${name}`)).size).catch(() => 0)
    },
    async read(path, bytesMax) {
      const handle = await openFile(path)
      if (handle === undefined) return undefined
      try {
        // One more than allowed, so that a larger file is noticed without reading it.
        const buffer = Buffer.alloc(bytesMax + 1)
        const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0)
        if (bytesRead > bytesMax) throw new NotAClusterFile(`${path} is larger than ${bytesMax} bytes`)
        return buffer.subarray(0, bytesRead)
      } finally {
        await handle.close()
      }
    },
  }
}

type Place = { path: string; uid: number }

/**
 * On Linux a path below /proc/self/fd starts at the open directory itself, whatever its name leads to by now. Elsewhere there
 * is only the name, so a directory that is swapped between two calls would be followed; files are still checked.
 */
const pathOf = (directory: FileHandle, name: string): string =>
  process.platform === 'linux' ? `/proc/self/fd/${directory.fd}` : name

const openDirectory = (path: string, shown: string): Promise<FileHandle> =>
  open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK).catch(rejectLink(shown))

const rejectLink =
  (shown: string) =>
  (error: NodeJS.ErrnoException): never => {
    // ENXIO: a socket.
    if (error.code === 'ELOOP' || error.code === 'ENOTDIR' || error.code === 'ENXIO') {
      throw new NotAClusterFile(`${shown} is a link or not a file, which is not followed`, { cause: error })
    }
    throw error
  }

async function checkOwner(handle: FileHandle, uid: number, shown: string): Promise<void> {
  const found = await handle.stat()
  if (found.uid !== uid) throw new NotAClusterFile(`${shown} belongs to the user with id ${found.uid}, not ${uid}`)
}

async function checkFile(handle: FileHandle, uid: number, shown: string): Promise<void> {
  const found = await handle.stat()
  if (!found.isFile()) throw new NotAClusterFile(`${shown} is not a regular file`)
  // A name that exists twice may be a hard link to a file of ours.
  if (found.nlink > 1) throw new NotAClusterFile(`${shown} is a hard link`)
  await checkOwner(handle, uid, shown)
}

const partsOf = (path: string): string[] => {
  const parts = path === '' ? [] : path.split('/')
  if (parts.some((part) => part === '' || part === '.' || part === '..')) throw new Error(`not a plain path: ${path}`)
  return parts
}

const split = (path: string): [string[], string] => {
  const parts = partsOf(path)
  return [parts.slice(0, -1), parts.at(-1)!]
}

/** With the system's `rm`, which opens directories one inside the other. Node's goes by paths, and can be led out by a link. */
export const removeTree = (path: string): Promise<void> => runTool('rm', ['-rf', '--', path], { account: undefined })
