import { execFile } from 'node:child_process'
import { mkdtemp, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { onTestFinished } from 'vitest'

const run = promisify(execFile)

/** A small file system, removed after the test; null if this user may not mount one. */
export async function smallDisk(options: string): Promise<string | null> {
  const path = await mkdtemp(join(tmpdir(), 'keyhook-small-'))
  onTestFinished(() => rmdir(path))
  const mounted = await run('mount', ['-t', 'tmpfs', '-o', `mode=755,${options}`, 'tmpfs', path]).then(
    () => true,
    () => false,
  )
  if (!mounted) return null
  onTestFinished(async () => void (await run('umount', ['-l', path])))
  return path
}

export const makeReadOnly = async (disk: string): Promise<void> => void (await run('mount', ['-o', 'remount,ro', disk]))
