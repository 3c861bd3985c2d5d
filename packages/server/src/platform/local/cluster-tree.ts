import { type UntrustedTree, untrustedTree } from '../../embedded/untrusted-files.ts'
import type { DatabaseId } from '../../kernel/ids.ts'
import type { Home } from './home.ts'
import { runAsOf } from './instance-account.ts'
import { instanceDirectory } from './instance-directory.ts'

/** The files of an instance, which its account may have replaced. */
export async function clusterTree(home: Home, id: DatabaseId): Promise<UntrustedTree> {
  const directory = instanceDirectory(home, id)
  const { account } = await runAsOf(home, directory)
  return untrustedTree(directory.cluster, account?.uid ?? process.getuid?.())
}
