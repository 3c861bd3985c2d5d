import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type ConnectionOptions, checkServerIdentity, createSecureContext, getCACertificates } from 'node:tls'

const modes = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const

/** `prefer` becomes `require` or no TLS when the server has been asked. Files are here as their text. */
export type Tls = {
  mode: 'prefer' | 'require' | 'verify-ca' | 'verify-full'
  ca?: string
  cert?: string
  key?: string
}

type Given = Record<'sslmode' | 'sslrootcert' | 'sslcert' | 'sslkey', string | undefined>

/**
 * The parameters mean what they mean to libpq, with three differences: without sslmode there is no TLS, there are no default
 * file names, and a combination that looks like a check but makes none is rejected.
 */
export function readTls(given: Given): { tls: Tls | null } | { problems: string[] } {
  const { sslrootcert, sslcert, sslkey } = given
  const sslmode = given.sslmode ?? (sslrootcert === 'system' ? 'verify-full' : undefined)
  if (sslmode === 'disable') return { tls: null }
  if (sslmode !== undefined && !modes.some((mode) => mode === sslmode)) {
    return { problems: [`has an sslmode that is not one of ${modes.join(', ')}`] }
  }
  if (sslmode === undefined || sslmode === 'allow' || sslmode === 'prefer') {
    if (sslrootcert ?? sslcert ?? sslkey) {
      return { problems: ['names a certificate, which needs sslmode=require, verify-ca or verify-full'] }
    }
    return { tls: sslmode === undefined ? null : { mode: 'prefer' } }
  }

  const problems: string[] = []
  if (sslrootcert === 'system' && sslmode !== 'verify-full')
    problems.push('needs sslmode=verify-full with sslrootcert=system')
  if (sslrootcert === undefined && sslmode === 'verify-ca') {
    problems.push('needs sslrootcert with sslmode=verify-ca: a public authority signs for everyone')
  }
  if ((sslcert === undefined) !== (sslkey === undefined))
    problems.push('names one of sslcert and sslkey, and needs both')
  const read = (name: keyof Given, check: (pem: string) => unknown): string | undefined => {
    try {
      const pem = given[name] && readFileSync(given[name], 'utf8')
      if (pem !== undefined) check(pem)
      return pem
    } catch (error) {
      problems.push(`names an ${name} that cannot be used (${(error as Error).message})`)
    }
  }
  const ca = sslrootcert === 'system' ? systemAuthorities() : read('sslrootcert', (pem) => new X509Certificate(pem))
  if (ca === '') problems.push('has sslrootcert=system, and this machine has no certificate authorities')
  const cert = read('sslcert', (pem) => new X509Certificate(pem))
  const key = read('sslkey', (pem) => createSecureContext({ key: pem, ...(cert && { cert }) }))
  if (problems.length > 0) return { problems }
  // As in libpq: with a file of authorities `require` checks the certificate.
  const mode = sslmode === 'require' && ca !== undefined ? 'verify-ca' : (sslmode as Tls['mode'])
  return { tls: { mode, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) } }
}

const systemAuthorities = (): string => getCACertificates('system').join('\n')

/** The host is compared by us: the driver would compare an IP address with `localhost`. */
export function tlsOptions({ host, tls }: { host: string; tls?: Tls }): ConnectionOptions | false {
  if (tls === undefined) return false
  const { mode, ...files } = tls
  return {
    ...files,
    rejectUnauthorized: mode === 'verify-ca' || mode === 'verify-full',
    checkServerIdentity: (_, shown) => (mode === 'verify-full' ? checkServerIdentity(host, shown) : undefined),
  }
}
