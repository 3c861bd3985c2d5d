import { createPrivateKey, KeyObject, randomBytes, webcrypto, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { createSecureContext } from 'node:tls'
import type { Database, Executor } from '../db/database.ts'
import type { DatabaseId } from '../lib/ids.ts'
import { type MasterKeys, type Sealed, UnknownMasterKey } from '../lib/master-keys.ts'

/** The authority of the installation, created by the first node that asks. */
export async function openAuthority(db: Database, masterKeys: MasterKeys, now: Date): Promise<Certificate> {
  const found = await findAuthority(db)
  if (found !== null) return { certificate: found.certificate, key: openKey(masterKeys, found.key) }
  const { certificate, key } = await createAuthority(now)
  await insertAuthority(db, { certificate, key: masterKeys.seal(key, sealContext) })
  // Another node may have been faster, and then its authority counts.
  return openAuthority(db, masterKeys, now)
}

/** Never a new authority instead of one that cannot be opened: clients that trust the old one would be locked out. */
function openKey(masterKeys: MasterKeys, sealed: Sealed): string {
  try {
    return masterKeys.open(sealed, sealContext)
  } catch (cause) {
    if (!(cause instanceof UnknownMasterKey)) throw cause
    throw new Error(
      `The certificate authority of the databases is ${cause.message}. List it too (KEYHOOK_MASTER_KEY=<new>,<old>); ` +
        `or, if it is lost for good: npx keyhook secrets abandon --key ${sealed.keyId}`,
      { cause },
    )
  }
}

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

const validFor = (now: Date, days: number) => ({
  // Positive, without leading zeros, 120 random bits (CA/Browser Forum: at least 64).
  serialNumber: `01${randomBytes(15).toString('hex')}`,
  notBefore: new Date(now.getTime() - clockSkewMs),
  notAfter: new Date(now.getTime() + days * dayMs),
  signingAlgorithm: algorithm,
})

const inPem = (
  certificate: { toString(format: 'pem'): string },
  { privateKey }: webcrypto.CryptoKeyPair,
): Certificate => ({
  certificate: `${certificate.toString('pem')}\n`,
  key: String(KeyObject.from(privateKey).export({ format: 'pem', type: 'pkcs8' })),
})

/** A certificate authority that may sign servers, and no other authorities. */
export async function createAuthority(now: Date): Promise<Certificate> {
  const x509 = await loadLibrary()
  const keys = await generateKeys()
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    ...validFor(now, authorityDays),
    // The id tells installations apart: clients that trust several look an authority up by its name.
    name: `CN=Keyhook databases ${randomBytes(4).toString('hex')}`,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return inPem(certificate, keys)
}

/** A certificate for a server that clients reach under these names or addresses; the first is the main one. */
export async function issueCertificate(
  authority: Certificate,
  names: readonly string[],
  now: Date,
): Promise<Certificate> {
  const x509 = await loadLibrary()
  const issuer = new x509.X509Certificate(authority.certificate)
  const keys = await generateKeys()
  const certificate = await x509.X509CertificateGenerator.create({
    ...validFor(now, serverDays),
    // libpq before 15 compares an IP address with the common name only, which has at most 64 characters.
    subject: [{ CN: [names.find((name) => name.length <= 64) ?? 'Keyhook database'] }],
    issuer: issuer.subject,
    publicKey: keys.publicKey,
    signingKey: createPrivateKey(authority.key).toCryptoKey(algorithm, false, ['sign']),
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
  return inPem(certificate, keys)
}

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

/** The one authority of the installation. `key` is sealed in the context `sealContext`. */
export type AuthorityRow = { certificate: string; key: Sealed }

export const sealContext = 'certificate_authority'

export const findAuthority = async (db: Executor): Promise<AuthorityRow | null> => {
  const [row] = await db<{ certificate: string; key_id: string; key_box: Buffer }[]>`
    select certificate, key_id, key_box from keyhook.certificate_authority`
  return row === undefined ? null : { certificate: row.certificate, key: { keyId: row.key_id, box: row.key_box } }
}

/** Keeps an authority that exists: of two nodes that start at once the first wins. */
export const insertAuthority = (db: Executor, { certificate, key }: AuthorityRow) => db`
  insert into keyhook.certificate_authority (certificate, key_id, key_box)
  values (${certificate}, ${key.keyId}, ${key.box}) on conflict do nothing`

/** Only if it was not replaced in between. */
export const resealAuthority = async (db: Executor, from: Sealed, to: Sealed): Promise<boolean> => {
  const rows = await db`
    update keyhook.certificate_authority set key_id = ${to.keyId}, key_box = ${to.box} where key_box = ${from.box}`
  return rows.count > 0
}

/** For a master key that is lost for good: the next node that starts creates another authority. */
export const deleteAuthorityUnder = async (db: Executor, keyId: string): Promise<boolean> => {
  const rows = await db`delete from keyhook.certificate_authority where key_id = ${keyId}`
  return rows.count > 0
}

/** What one database shows to clients from now on: the certificate that it has (`current`) for as long as that is good. */
export type CertificateSource = (current?: Certificate) => Promise<Certificate>

/** A renewed file of the operator is used within this time. Certificates that we issue have a month left by then. */
const checkMs = 60_000

/** The certificates of this node's databases, which are in memory only. `onRenewal` hands a new one to a server that runs. */
export function createCertificates(deps: {
  onRenewal: (id: DatabaseId, certificate: Certificate) => Promise<void>
  onProblem: (error: unknown) => void
  checkMs?: number | undefined
}) {
  const known = new Map<DatabaseId, Certificate>()
  let source: CertificateSource | undefined
  let timer: NodeJS.Timeout | undefined

  /** Of one database; undefined while databases have no TLS. */
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
    use(given: CertificateSource): void {
      source = given
      clearInterval(timer)
      timer = setInterval(() => void check().catch(deps.onProblem), deps.checkMs ?? checkMs).unref()
    },
    of,
    forget: (id: DatabaseId) => void known.delete(id),
    close: () => clearInterval(timer),
  }
}
