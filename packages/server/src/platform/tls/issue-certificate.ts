import { createPrivateKey, KeyObject, randomBytes, webcrypto } from 'node:crypto'
import { isIP } from 'node:net'

/** In PEM. `certificate` may be a chain, the server's own first. */
export type Certificate = { certificate: string; key: string }

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const
const dayMs = 24 * 60 * 60 * 1_000
const authorityDays = 3_650
const serverDays = 90
/** Clocks of clients may be behind ours. */
const clockSkewMs = 60 * 60 * 1_000

/** Loaded on first use: most processes issue nothing, and it takes a tenth of a second. */
async function loadLibrary() {
  await import('reflect-metadata')
  return import('@peculiar/x509')
}

const generateKeys = () => webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])

const period = (now: Date, days: number) => ({
  notBefore: new Date(now.getTime() - clockSkewMs),
  notAfter: new Date(now.getTime() + days * dayMs),
})

/** Positive, without leading zeros, 120 random bits (CA/Browser Forum: at least 64). */
const newSerialNumber = (): string => `01${randomBytes(15).toString('hex')}`

const pemOf = (key: webcrypto.CryptoKey): string => String(KeyObject.from(key).export({ format: 'pem', type: 'pkcs8' }))

/** A certificate authority that may sign servers, and no other authorities. */
export async function createAuthority(now: Date): Promise<Certificate> {
  const x509 = await loadLibrary()
  const keys = await generateKeys()
  const id = randomBytes(4).toString('hex')
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: newSerialNumber(),
    // The id tells installations apart: clients that trust several look an authority up by its name.
    name: `CN=Keyhook databases ${id}`,
    ...period(now, authorityDays),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return { certificate: `${certificate.toString('pem')}\n`, key: pemOf(keys.privateKey) }
}

/** A certificate for a server that clients reach under these names or addresses; the first is the main one. */
export async function issueCertificate(
  authority: Certificate,
  names: readonly string[],
  now: Date,
): Promise<Certificate> {
  const x509 = await loadLibrary()
  const issuer = new x509.X509Certificate(authority.certificate)
  const signingKey = createPrivateKey(authority.key).toCryptoKey(algorithm, false, ['sign'])
  const keys = await generateKeys()
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: newSerialNumber(),
    // libpq before 15 compares an IP address with the common name only, which has at most 64 characters.
    subject: [{ CN: [names.find((name) => name.length <= 64) ?? 'Keyhook database'] }],
    issuer: issuer.subject,
    ...period(now, serverDays),
    signingAlgorithm: algorithm,
    publicKey: keys.publicKey,
    signingKey,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(
        names.map((value) => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value })),
      ),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return { certificate: `${certificate.toString('pem')}\n`, key: pemOf(keys.privateKey) }
}
