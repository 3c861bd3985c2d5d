import type { Home } from './home.ts'
import { portOwnersIn } from './instance-directory.ts'
import type { LocalInstancesOptions } from './instances-options.ts'
import type { PortGuard } from './port-guard.ts'
import { createPorts } from './ports.ts'
import { createSpareClusters } from './spare-clusters.ts'

/** What instances need, opened on first use. */
export async function openParts(
  options: LocalInstancesOptions,
  { openLimits, guard, signal }: { openLimits: (home: Home) => void; guard: PortGuard; signal: AbortSignal },
) {
  const home = await options.home()
  openLimits(home)
  // All ports before the first server runs: a program in its account could take the port of the next.
  if (home.uids !== null) await guard.protect(await portOwnersIn(home))
  return {
    home,
    spares: createSpareClusters(home, signal),
    ports: createPorts({ home, host: options.host, range: options.ports }),
  }
}
