import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type ConnectionOptions, checkServerIdentity, createSecureContext, getCACertificates } from 'node:tls'

const modes = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const

/** `prefer` is settled when the server has been asked; until then it stands for `require`. The files are here as their text. */
export type Tls = {
  mode: 'prefer' | 'require' | 'verify-ca' | 'verify-full'
  ca?: string
  cert?: string
  key?: string
}

type Given = Record<'sslmode' | 'sslrootcert' | 'sslcert' | 'sslkey', string | undefined>

/**
 * What PostgreSQL's own programs mean by these parameters, with three differences: without sslmode there is no TLS, files that
 * nobody named are not looked for, and what would ask for a check without making sure of it is refused.
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
    problems.push('needs sslrootcert with sslmode=verify-ca: a public authority signs for everybody')
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
  if (ca === '') problems.push('says sslrootcert=system, and this machine has no certificate authorities')
  const cert = read('sslcert', (pem) => new X509Certificate(pem))
  const key = read('sslkey', (pem) => createSecureContext({ key: pem, ...(cert && { cert }) }))
  if (problems.length > 0) return { problems }
  // A file of authorities makes `require` look at the certificate: so it is with PostgreSQL's own programs.
  const mode = sslmode === 'require' && ca !== undefined ? 'verify-ca' : (sslmode as Tls['mode'])
  return { tls: { mode, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) } }
}

const systemAuthorities = (): string => getCACertificates('system').join('\n')

/** For either driver. Both would compare an address with other names than its own, each in its own way. */
export function tlsOptions({ host, tls }: { host: string; tls?: Tls }): ConnectionOptions | false {
  if (tls === undefined) return false
  const { mode, ...files } = tls
  return {
    ...files,
    rejectUnauthorized: mode === 'verify-ca' || mode === 'verify-full',
    checkServerIdentity: (_, shown) => (mode === 'verify-full' ? checkServerIdentity(host, shown) : undefined),
  }
}
