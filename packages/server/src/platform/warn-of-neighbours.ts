import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Database } from '../db/database.ts'
import { organizationsOfNode } from '../store/platform/databases.ts'
import type { LocalInstances } from './local-instances.ts'

const everyMs = 60_000
const risk =
  'Whoever gets a shell in one database can take the port of another while its server restarts, and ask its clients for their passwords.'

/** Warns once, when databases of several organizations are on this machine and nothing protects their ports from each other. */
export async function warnOfNeighbours(deps: {
  db: Database
  node: string
  instances: Pick<LocalInstances, 'portProblem'>
  signal: AbortSignal
  log: Logger
}): Promise<void> {
  const { db, node, instances, signal, log } = deps
  const warned = async (): Promise<boolean> => {
    const organizations = await organizationsOfNode(db, node)
    const why = organizations > 1 ? await instances.portProblem() : null
    if (why !== null) log.warn({ organizations, why, risk, see: 'docs/isolation.md' }, 'databases.ports_unprotected')
    return why !== null
  }
  while (!signal.aborted) {
    if (await warned().catch(() => false)) return
    await sleep(everyMs, undefined, { signal, ref: false }).catch(() => {})
  }
}
