import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { createSecureContext } from 'node:tls'
import type { CertificateSource } from '../local-instances.ts'
import { type Certificate, issueCertificate } from './issue-certificate.ts'

/** Issued by the authority of the installation, with a key of its own, and replaced when two thirds of its time have passed. */
export const issuedCertificate =
  (deps: { authority: () => Promise<Certificate>; names: readonly string[]; now: () => Date }): CertificateSource =>
  async (current) =>
    current === undefined || isDueForRenewal(current.certificate, deps.now())
      ? issueCertificate(await deps.authority(), deps.names, deps.now())
      : current

export function isDueForRenewal(certificate: string, now: Date): boolean {
  const { validFromDate, validToDate } = new X509Certificate(certificate)
  const [from, to] = [validFromDate.getTime(), validToDate.getTime()]
  return now.getTime() > from + ((to - from) * 2) / 3
}

/** From files of the operator, read each time: a renewed file is used without a restart. The message says what is wrong. */
export const certificateFromFiles =
  (files: { certificate: string; key: string }, host: string): CertificateSource =>
  async () => {
    const [certificate, key] = await Promise.all([readFile(files.certificate, 'utf8'), readFile(files.key, 'utf8')])
    const problem = problemOf({ certificate, key }, host)
    if (problem !== null) throw new Error(`${files.certificate} cannot be the certificate of databases: ${problem}.`)
    return { certificate, key }
  }

function problemOf({ certificate, key }: Certificate, host: string): string | null {
  try {
    // Also checks that the key fits, and that it has no passphrase.
    createSecureContext({ cert: certificate, key })
  } catch (error) {
    return (error as Error).message
  }
  const own = new X509Certificate(certificate)
  const fits = isIP(host) === 0 ? own.checkHost(host) : own.checkIP(host)
  if (fits === undefined) return `it is not for ${host}, the host that clients connect to`
  if (own.validToDate.getTime() < Date.now()) return `it expired on ${own.validTo}`
  return null
}
