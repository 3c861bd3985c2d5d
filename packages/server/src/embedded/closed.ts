import { lstat, realpath } from 'node:fs/promises'
import { dirname } from 'node:path'

/** What keeps this user out of a path, or out of the directory that it lies in, and whom that belongs to. */
export async function whyClosed(path: string): Promise<{ owner: number; ownMode: string | null }> {
  const real = await realpath(path).catch(() => path)
  const closed = await lstat(real).then(
    () => real,
    () => dirname(real),
  )
  const { uid, mode } = await lstat(closed)
  if (uid !== process.getuid?.()) return { owner: uid, ownMode: null }
  const bits = (mode & 0o777).toString(8).padStart(3, '0')
  return { owner: uid, ownMode: `${closed} is yours, and its mode (${bits}) keeps you out: chmod u+rwX ${closed}` }
}
