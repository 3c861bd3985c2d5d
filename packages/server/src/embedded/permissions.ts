import { lstat, realpath, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/** An operating-system account without supplementary groups: Node drops those when it spawns under another uid. */
export type Account = { uid: number; gid: number }
export type Modes = { mode: number; uid: number; gid: number }

export const enter = 0o1
export const read = 0o4

/** Exactly one triplet of mode bits counts: an owner without x is rejected even where "other" has it. */
export function allows(modes: Modes, who: Account, wanted: number): boolean {
  if (who.uid === 0) return true
  if (modes.uid === who.uid) return ((modes.mode >> 6) & wanted) === wanted
  if (modes.gid === who.gid) return ((modes.mode >> 3) & wanted) === wanted
  return (modes.mode & wanted) === wanted
}

/** The outermost directory on the path, itself included, that `who` may not enter. Expects a real path. */
export async function firstClosedDirectory(
  path: string,
  who: Account,
  modesOf: (path: string) => Promise<Modes> = stat,
): Promise<string | undefined> {
  for (const directory of pathsFromRoot(path)) {
    if (!allows(await modesOf(directory), who, enter)) return directory
  }
  return undefined
}

/** `/a/b` → `/`, `/a`, `/a/b`. */
export function pathsFromRoot(path: string): string[] {
  const parent = dirname(path)
  return parent === path ? [path] : [...pathsFromRoot(parent), path]
}

/** Who owns a path that this user cannot access, or its directory; and what to do if the mode is the reason. */
export async function whyInaccessible(path: string): Promise<{ owner: number; modeProblem: string | null }> {
  const real = await realpath(path).catch(() => path)
  const closed = await lstat(real).then(
    () => real,
    () => dirname(real),
  )
  const { uid, mode } = await lstat(closed)
  if (uid !== process.getuid?.()) return { owner: uid, modeProblem: null }
  const bits = (mode & 0o777).toString(8).padStart(3, '0')
  return { owner: uid, modeProblem: `${closed} is yours, but its mode (${bits}) denies access: chmod u+rwX ${closed}` }
}
