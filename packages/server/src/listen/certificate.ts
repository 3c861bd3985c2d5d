import { randomBytes, webcrypto } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

export type Certificate = { certificatePath: string; certificate: string; key: string }

const yearMs = 365 * 24 * 60 * 60 * 1_000
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const

/** A certificate for this machine's own names, made on first use and kept: what trusts it today trusts it tomorrow. */
export async function localCertificate(folder: string, now: Date): Promise<Certificate> {
  const certificatePath = join(folder, 'certificate.pem')
  const keyPath = join(folder, 'key.pem')
  await mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  try {
    const [certificate, key] = await Promise.all([readFile(certificatePath, 'utf8'), readFile(keyPath, 'utf8')])
    return { certificatePath, certificate, key }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const { certificate, key } = await issue(now)
  await writeFile(keyPath, key, { mode: 0o600 })
  await writeFile(certificatePath, certificate)
  return { certificatePath, certificate, key }
}

async function issue(now: Date): Promise<{ certificate: string; key: string }> {
  // Loaded here and not at the top: only this command needs it, and every other one starts faster without it.
  await import('reflect-metadata')
  const x509 = await import('@peculiar/x509')
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: randomBytes(16).toString('hex'),
    name: 'CN=Keyhook local receiver',
    notBefore: new Date(now.getTime() - 60_000),
    notAfter: new Date(now.getTime() + 10 * yearMs),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.SubjectAlternativeNameExtension([
        { type: 'dns', value: 'localhost' },
        { type: 'ip', value: '127.0.0.1' },
        { type: 'ip', value: '::1' },
      ]),
    ],
  })
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64')
  const key = `-----BEGIN PRIVATE KEY-----\n${pkcs8.replace(/.{64}/g, '$&\n')}\n-----END PRIVATE KEY-----\n`
  return { certificate: `${certificate.toString('pem')}\n`, key }
}
