import { lchown, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { isRoot } from './account.ts'
import type { Account } from './reach.ts'

/** Whose directory root is at work in; undefined for one of root's own, and for everybody who is not root. */
export async function hostOf(directory: string): Promise<Account | undefined> {
  if (!isRoot()) return undefined
  const { uid, gid } = await stat(directory)
  return uid === 0 ? undefined : { uid, gid }
}

/** What root makes in somebody else's directory is theirs: they may be the next to start Keyhook on it. */
export async function leaveToHost(path: string): Promise<void> {
  const host = await hostOf(dirname(path))
  // Not through a link, which its owner may have put there to be given what it points to.
  if (host !== undefined) await lchown(path, host.uid, host.gid)
}
