import { chmod, mkdir, stat } from 'node:fs/promises'
import { pathsFromRoot } from './permissions.ts'

/** The text is for the operator who chose the directory. */
export class DirectoryUnusable extends Error {
  override readonly name = 'DirectoryUnusable'
}

/** An absolute path, and the setting that it comes from. */
export type ConfiguredDirectory = { path: string; setting: string }

/**
 * Creates the directory and its missing parents. True if anything was created.
 * Not mkdir's `recursive`: where a file system answers ENOENT to a new directory, as /proc does, Node retries for ever.
 */
export async function ensureDirectory(wanted: ConfiguredDirectory, mode: number): Promise<boolean> {
  let created = false
  for (const path of pathsFromRoot(wanted.path)) {
    if (await isDirectory(path, wanted)) continue
    try {
      await mkdir(path)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      // Another process that starts at the same time was faster.
      if (code === 'EEXIST' && (await isDirectory(path, wanted))) continue
      throw unusable(wanted, `${path} cannot be made (${code}). ${remedy(wanted)}`, error)
    }
    // Set explicitly, because mkdir subtracts the umask: under 077 the account of PostgreSQL could not enter.
    await chmod(path, mode)
    created = true
  }
  return created
}

async function isDirectory(path: string, wanted: ConfiguredDirectory): Promise<boolean> {
  try {
    if ((await stat(path)).isDirectory()) return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return false
    throw unusable(wanted, `${path} cannot be accessed (${code}). ${remedy(wanted)}`, error)
  }
  throw unusable(wanted, `${path} is no directory`)
}

const remedy = ({ setting }: ConfiguredDirectory): string =>
  `Give this user access, or set ${setting} to a directory that it can make or write to`

/** A variable that is not set is not named: the path is then the default. */
export const unusable = ({ path, setting }: ConfiguredDirectory, why: string, cause?: unknown): DirectoryUnusable => {
  const name = process.env[setting] === undefined ? 'The directory' : `${setting}:`
  return new DirectoryUnusable(`${name} "${path}" cannot be used: ${why}.`, { cause })
}
