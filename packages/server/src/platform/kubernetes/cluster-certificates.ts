import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import type { DatabaseId } from '../../kernel/ids.ts'
import { isDueForRenewal } from '../tls/node-certificate.ts'
import type { KubernetesApi } from './api.ts'
import { secrets, serviceOf, tlsSecretOf } from './names.ts'
import { type Secret, tlsSecret } from './resources.ts'

export type IssueCertificate = (
  names: readonly string[],
) => Promise<{ certificate: string; key: string; authority: string }>

/** The names of a database inside of the Kubernetes cluster. */
const innerNames = (id: DatabaseId, namespace: string): string[] => {
  const service = serviceOf(id, 'ClusterIP')
  const full = `${service}.${namespace}.svc`
  return [full, service, `${service}.${namespace}`, `${full}.cluster.local`]
}

/** Keeps the certificate of each database in a secret, from which CloudNativePG loads it, also after a renewal. */
export function createClusterCertificates(deps: { api: KubernetesApi; issue: IssueCertificate; now: () => Date }) {
  const { api } = deps
  return {
    /** `host`: the address from outside, once it is known. */
    async ensure(id: DatabaseId, host?: string): Promise<void> {
      const names = innerNames(id, api.namespace)
      if (host !== undefined && !names.includes(host)) names.unshift(host)
      const found = await api.get<Secret>(secrets, tlsSecretOf(id))
      const stored = found?.data?.['tls.crt']
      if (stored !== undefined && isUsable(Buffer.from(stored, 'base64').toString(), names, deps.now())) return
      await api.apply(secrets, tlsSecret(id, await deps.issue(names)))
    },
  }
}

function isUsable(certificate: string, names: readonly string[], now: Date): boolean {
  const own = new X509Certificate(certificate)
  const covers = (name: string) => (isIP(name) === 0 ? own.checkHost(name) : own.checkIP(name)) !== undefined
  return names.every(covers) && !isDueForRenewal(certificate, now)
}
