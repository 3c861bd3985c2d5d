import { createPublicKey, type KeyObject, verify } from 'node:crypto'

/** Public keys by their identifiers. */
export type LeakReportKeys = ReadonlyMap<string, KeyObject>

/**
 * Reads what https://api.github.com/meta/public_keys/secret_scanning answers. Keys that are not current count too: a report may have
 * been signed before they were replaced. Throws an error whose message continues "The file …".
 */
export function readLeakReportKeys(json: string): LeakReportKeys {
  const list = (parsed(json) as { public_keys?: unknown } | null)?.public_keys
  if (!Array.isArray(list) || list.length === 0) throw new Error('has no list `public_keys` with keys')
  return new Map(
    list.map((one: { key_identifier?: unknown; key?: unknown } | null, at) => {
      const { key_identifier: id, key } = one ?? {}
      if (typeof id !== 'string' || id === '' || typeof key !== 'string') {
        throw new Error(`has no \`key_identifier\` and \`key\` at place ${at + 1} of \`public_keys\``)
      }
      return [id, publicKey(id, key)]
    }),
  )
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    throw new Error('is not valid JSON')
  }
}

function publicKey(id: string, pem: string): KeyObject {
  // `createPublicKey` would also take a private key, which nobody should keep in this file.
  const key = pem.includes('PRIVATE') ? null : readPem(pem)
  if (key?.asymmetricKeyDetails?.namedCurve === 'prime256v1') return key
  throw new Error(`has a key ${JSON.stringify(id)} that is no public key on the curve P-256`)
}

function readPem(pem: string): KeyObject | null {
  try {
    return createPublicKey(pem)
  } catch {
    return null
  }
}

/** ECDSA with SHA-256 over the exact bytes, in ASN.1 and base64, as GitHub signs. */
export const isSignedReport = (key: KeyObject, body: Buffer, signature: string): boolean =>
  verify('sha256', body, key, Buffer.from(signature, 'base64'))
