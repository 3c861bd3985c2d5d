import type { CertificateSource } from '../local-instances.ts'
import type { Certificate } from '../tls/issue-certificate.ts'

/** A renewed file of the operator is used within this time. Certificates that we issue have a month left by then. */
const checkMs = 60_000

export type Certificates = {
  use(source: CertificateSource): void
  /** Undefined while databases have no TLS. */
  current(): Promise<Certificate | undefined>
  close(): void
}

/** The certificate of this node's databases. `onRenewal` hands a new one to the servers that run. */
export function createCertificates(deps: {
  onRenewal: (certificate: Certificate) => Promise<void>
  onProblem: (error: unknown) => void
  checkMs?: number | undefined
}): Certificates {
  let source: CertificateSource | undefined
  let last: Certificate | undefined
  let timer: NodeJS.Timeout | undefined

  async function current(): Promise<Certificate | undefined> {
    try {
      last = await source?.()
    } catch (error) {
      // A server that restarts meanwhile gets the one that was good before.
      if (last === undefined) throw error
      deps.onProblem(error)
    }
    return last
  }

  async function check(): Promise<void> {
    const before = last
    const now = await current()
    if (now !== undefined && now.certificate !== before?.certificate) await deps.onRenewal(now)
  }

  return {
    use(given) {
      source = given
      clearInterval(timer)
      timer = setInterval(() => void check().catch(deps.onProblem), deps.checkMs ?? checkMs).unref()
    },
    current,
    close: () => clearInterval(timer),
  }
}
