import { KeyObject, randomBytes, webcrypto } from 'node:crypto'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

export type Certificate = { certificatePath: string; certificate: string; key: string }

const yearMs = 365 * 24 * 60 * 60 * 1_000
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const

/** A certificate for the names of this machine, created once and kept, so that clients which trust it can go on. */
export async function localCertificate(folder: string, now: Date): Promise<Certificate> {
  const certificatePath = join(folder, 'certificate.pem')
  const keyPath = join(folder, 'key.pem')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  try {
    const [certificate, key] = await Promise.all([readFile(certificatePath, 'utf8'), readFile(keyPath, 'utf8')])
    return { certificatePath, certificate, key }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const { certificate, key } = await issue(now)
  await writeNewFile(keyPath, key)
  await writeNewFile(certificatePath, certificate)
  return { certificatePath, certificate, key }
}

/** Never follows a link that another user may have put there. */
async function writeNewFile(path: string, text: string): Promise<void> {
  await rm(path, { force: true })
  await writeFile(path, text, { mode: 0o600, flag: 'wx' })
}

async function issue(now: Date): Promise<{ certificate: string; key: string }> {
  // Loaded here because only this command needs it: other commands start faster.
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
  const key = KeyObject.from(keys.privateKey).export({ format: 'pem', type: 'pkcs8' })
  return { certificate: `${certificate.toString('pem')}\n`, key: String(key) }
}
