import type { DatabaseId } from '../../../lib/ids.ts'
import type { Home } from './home.ts'
import type { InstanceEvent } from './instance.ts'
import { portOwnersIn } from './instance-directory.ts'
import type { InstanceLimits, LimitReport } from './limiter.ts'
import { createPorts, type PortGuard, type PortRange } from './ports.ts'
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

export type LocalInstancesOptions = {
  /** Called on first use, so that an installation without databases has no cost. */
  home: () => Promise<Home>
  host: string
  /** The name under which clients find this node. */
  publicHost: string
  ports: PortRange
  /** What one instance may use of the disk; its WAL and temporary files get shares of it. */
  storageLimitBytes: number
  /** Memory, processes and processor time of each instance. */
  limits: InstanceLimits
  /** How they are enforced here. */
  onLimits?: (report: LimitReport) => void
  /** Whether clients may connect without TLS. Counts once there is a certificate. */
  tlsAccept?: 'encrypted' | 'any'
  onEvent: (id: DatabaseId, event: InstanceEvent) => void
  onCertificateProblem?: (error: unknown) => void
  certificateCheckMs?: number
  /** Settings of PostgreSQL instead of the usual ones. */
  settings?: Readonly<Record<string, string>>
  /** False: `archiveWal` is never called. */
  archivesWal?: boolean
  /** Limit for each statement of a backup. */
  backupStatementMsMax?: number
}
