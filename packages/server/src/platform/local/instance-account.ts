import { whyNoNamespaces } from '../../embedded/namespaces.ts'
import type { RunAs } from '../../embedded/start-program.ts'
import type { Home } from './home.ts'

/** Who the server of an instance and the tools on its files run as, and what limits them. Its directory has to exist. */
export async function runAsOf({ account, uids, dataDir }: Home, { path }: { path: string }): Promise<RunAs> {
  if (uids !== null) return { account: await uids.accountFor(path) }
  const view = (await whyNoNamespaces()) === null ? { readable: [path], hidden: dataDir } : undefined
  return { account, view }
}
