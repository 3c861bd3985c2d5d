import { chown } from 'node:fs/promises'
import { syncCluster } from '../../embedded/cluster.ts'
import { giveClusterTo } from '../../embedded/ownership.ts'
import type { RunAs } from '../../embedded/start-program.ts'
import { runTool } from '../../embedded/tool.ts'
import type { Home } from './home.ts'

/**
 * With `cp`: it shares blocks if the file system can, and leaves our event loop free. As root where the template is root's, so
 * that no instance can read or change it.
 */
export async function copyTemplate(home: Home, template: string, staging: string, runAs: RunAs): Promise<void> {
  const { account } = runAs
  if (account && !home.uids) await chown(staging, account.uid, account.gid)
  const share = process.platform === 'darwin' ? ['-c'] : []
  // Not join(), which would drop the dot that means "the contents of".
  const args = ['-R', '-p', ...share, `${template}/.`, staging]
  await runTool('cp', args, home.uids ? { account: undefined } : runAs)
  if (account) await giveClusterTo(account, staging)
  await syncCluster(staging, { binaries: home.binaries, ...runAs })
}
