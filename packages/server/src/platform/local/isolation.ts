import { whyNoNamespaces } from '../../embedded/namespaces.ts'
import { foreignOwnerOf } from '../../embedded/ownership.ts'
import { type UidRange, usableUids } from '../../embedded/uids.ts'

/** What separates the databases of a data directory from each other; docs/isolation.md describes the three modes. */
export type Isolation = { mode: 'uids' | 'namespaces' } | { mode: 'shared'; why: string }

export async function isolationOf(dataDir: string, wanted: UidRange | null): Promise<Isolation> {
  if ((await foreignOwnerOf(dataDir)) !== undefined)
    return { mode: 'shared', why: `root runs them as the owner of ${dataDir}` }
  if ((await usableUids(wanted)) !== null) return { mode: 'uids' }
  const why = await whyNoNamespaces()
  return why === null ? { mode: 'namespaces' } : { mode: 'shared', why: `namespaces cannot be used: ${why}` }
}
