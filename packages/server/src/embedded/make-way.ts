import { chmod, mkdir, stat } from 'node:fs/promises'
import { wayTo } from './reach.ts'

/** Nothing can be kept there. The text is for the operator who chose the directory. */
export class DirectoryUnusable extends Error {
  override readonly name = 'DirectoryUnusable'
}

/** A directory, by its absolute path, and the setting that chose it. */
export type Chosen = { path: string; setting: string }

/**
 * Makes every directory on the way that is missing, and answers whether there was any. Not by mkdir's own `recursive`:
 * where a file system answers ENOENT to a new directory, as /proc does, Node tries again for ever.
 */
export async function makeWay(chosen: Chosen, mode: number): Promise<boolean> {
  let made = false
  for (const step of wayTo(chosen.path)) {
    if (await isDirectory(step, chosen)) continue
    try {
      await mkdir(step)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      // Another process that starts at the same moment was faster.
      if (code === 'EEXIST' && (await isDirectory(step, chosen))) continue
      throw unusable(chosen, `${step} cannot be made (${code})`, error)
    }
    // In its own right, because mkdir subtracts the umask; under 077 the account of PostgreSQL could not get in.
    await chmod(step, mode)
    made = true
  }
  return made
}

async function isDirectory(path: string, chosen: Chosen): Promise<boolean> {
  try {
    if ((await stat(path)).isDirectory()) return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return false
    throw unusable(chosen, `${path} cannot be looked at (${code})`, error)
  }
  throw unusable(chosen, `${path} is no directory`)
}

export const unusable = ({ path, setting }: Chosen, why: string, cause?: unknown): DirectoryUnusable =>
  new DirectoryUnusable(`${setting}: "${path}" cannot be used: ${why}.`, { cause })
