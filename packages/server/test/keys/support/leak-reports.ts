import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { call } from '../../kit/client.ts'

/** A pair as GitHub has them, and what its endpoint would answer about it. */
export function githubKeyPair(id = 'a'.repeat(64)) {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const key = publicKey.export({ type: 'spki', format: 'pem' }).toString()
  return { id, privateKey, published: { public_keys: [{ key_identifier: id, key, is_current: true }] } }
}

/** The path of a file with this content, until the test or file ends. */
export function fileWith(content: unknown, onEnd: (remove: () => void) => void = onTestFinished): string {
  const folder = mkdtempSync(join(tmpdir(), 'keyhook-leaks-'))
  onEnd(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'keys.json')
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
  return file
}

export type Reported = { token: string; type?: string; url?: string | null; source?: string | null }
type Label = { token_hash: string; token_type: string | null; label: 'true_positive' | 'false_positive' }
type Problem = { code: string; detail: string }

export const signatureOf = (privateKey: KeyObject, body: string | Buffer): string =>
  sign('sha256', Buffer.from(body), privateKey).toString('base64')

/** As GitHub sends it; `changes` replaces headers or the body after it was signed. */
export function report(
  url: string,
  { id, privateKey }: { id: string; privateKey: KeyObject },
  reports: readonly Reported[] | string | Buffer,
  changes: { headers?: Record<string, string>; body?: string } = {},
) {
  const body = typeof reports === 'string' || Buffer.isBuffer(reports) ? reports : JSON.stringify(reports)
  return call<Label[] & Problem>(`${url}/operator/v1/leak-reports/github`, {
    raw: changes.body ?? body,
    headers: {
      'Github-Public-Key-Identifier': id,
      'Github-Public-Key-Signature': signatureOf(privateKey, body),
      ...changes.headers,
    },
  })
}
