import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'

/** systemd sets STATE_DIRECTORY for a service; the tests set it to stay away from the machine's own directory. */
const home = process.env.STATE_DIRECTORY ?? '/var/lib/keyhook'
export const clustersHome = join(home, 'clusters')

/** For files that the account of PostgreSQL needs and cannot reach in a checkout under /root. */
export async function systemHome(): Promise<string> {
  await mkdir(home, { recursive: true })
  // Set explicitly: under umask 077 the account could not enter.
  await chmod(home, 0o755)
  return home
}

export async function systemClusters(): Promise<string> {
  await systemHome()
  await mkdir(clustersHome, { recursive: true })
  await chmod(clustersHome, 0o711)
  return clustersHome
}
