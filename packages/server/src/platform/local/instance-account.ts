import type { RunAs } from '../../embedded/start-program.ts'
import type { Home } from './home.ts'

/** Who the server of an instance and the tools on its files run as, and what limits them. Its directory has to exist. */
export async function runAsOf({ account, uids }: Home, { path }: { path: string }): Promise<RunAs> {
  return { account: uids === null ? account : await uids.accountFor(path) }
}
