import type { RunAs } from '../../embedded/start-program.ts'
import type { Home } from './home.ts'
import type { InstanceDirectory } from './instance-directory.ts'

/** Who the server of an instance and the tools on its files run as, and what limits them. */
export async function runAsOf(home: Home, _directory: InstanceDirectory): Promise<RunAs> {
  return { account: home.account }
}
