import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/** An operating-system account without supplementary groups: Node drops those when it spawns under another uid. */
export type Account = { uid: number; gid: number }
export type Modes = { mode: number; uid: number; gid: number }

export const enter = 0o1
export const read = 0o4

/** What the mode bits say. Exactly one triplet counts: an owner without x is refused even where "other" has it. */
export function allows(modes: Modes, who: Account, wanted: number): boolean {
  if (who.uid === 0) return true
  if (modes.uid === who.uid) return ((modes.mode >> 6) & wanted) === wanted
  if (modes.gid === who.gid) return ((modes.mode >> 3) & wanted) === wanted
  return (modes.mode & wanted) === wanted
}

/** The outermost directory on the way to `path`, itself included, that `who` may not enter. Give it a real path. */
export async function firstBarrier(
  path: string,
  who: Account,
  modesOf: (path: string) => Promise<Modes> = stat,
): Promise<string | undefined> {
  for (const step of wayTo(path)) {
    if (!allows(await modesOf(step), who, enter)) return step
  }
  return undefined
}

/** `/a/b` → `/`, `/a`, `/a/b`. */
export function wayTo(path: string): string[] {
  const parent = dirname(path)
  return parent === path ? [path] : [...wayTo(parent), path]
}
