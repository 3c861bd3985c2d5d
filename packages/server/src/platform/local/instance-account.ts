import { whyNoNamespaces } from '../../embedded/namespaces.ts'
import type { RunAs } from '../../embedded/start-program.ts'
import { extensionSettings } from './extensions.ts'
import type { Home } from './home.ts'

/** Who the server of an instance and the tools on its files run as, and what limits them. Its directory has to exist. */
export async function runAsOf(home: Home, { path }: { path: string }): Promise<RunAs> {
  const { account, uids, dataDir } = home
  if (uids !== null) return { account: await uids.accountFor(path) }
  if ((await whyNoNamespaces()) !== null) return { account }
  const extensions = Object.values(await extensionSettings(home))
  return { account, view: { readable: [path, ...extensions], hidden: dataDir } }
}
