import type { DatabaseId } from '../../../lib/ids.ts'
import type { Certificate, CertificateSource } from '../../certificates.ts'

/** A renewed file of the operator is used within this time. Certificates that we issue have a month left by then. */
const checkMs = 60_000

export type Certificates = {
  use(source: CertificateSource): void
  /** Of one database; undefined while databases have no TLS. */
  of(id: DatabaseId): Promise<Certificate | undefined>
  forget(id: DatabaseId): void
  close(): void
}

/** The certificates of this node's databases, which are in memory only. `onRenewal` hands a new one to a server that runs. */
export function createCertificates(deps: {
  onRenewal: (id: DatabaseId, certificate: Certificate) => Promise<void>
  onProblem: (error: unknown) => void
  checkMs?: number | undefined
}): Certificates {
  const known = new Map<DatabaseId, Certificate>()
  let source: CertificateSource | undefined
  let timer: NodeJS.Timeout | undefined

  async function of(id: DatabaseId): Promise<Certificate | undefined> {
    const before = known.get(id)
    try {
      const now = await source?.(before)
      if (now !== undefined) known.set(id, now)
      return now
    } catch (error) {
      // A server that restarts meanwhile gets the one that was good before.
      if (before === undefined) throw error
      deps.onProblem(error)
      return before
    }
  }

  async function check(): Promise<void> {
    for (const [id, before] of known) {
      // The first problem ends the check: it is the same for all of them.
      const now = await source!(before)
      if (now.certificate === before.certificate || !known.has(id)) continue
      known.set(id, now)
      await deps.onRenewal(id, now)
    }
  }

  return {
    use(given) {
      source = given
      clearInterval(timer)
      timer = setInterval(() => void check().catch(deps.onProblem), deps.checkMs ?? checkMs).unref()
    },
    of,
    forget: (id) => void known.delete(id),
    close: () => clearInterval(timer),
  }
}
