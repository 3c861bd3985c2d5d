import { createHmac } from 'node:crypto'

/*
 * Two signatures of one body. The specified one covers the body alone, and its key is the text of the secret. The one of Standard
 * Webhooks also covers id and time against replays, and its key is the decoded secret.
 */
export type Signer = {
  /** `sha256=<hex>` of exactly these bytes. */
  body(body: Uint8Array): string
  /** `v1,<base64>` of `<id>.<seconds>.<body>`; two of them, separated by a space, while two secrets are valid. */
  standard(id: string, seconds: number, body: Uint8Array): string
}

export function createSigner(secret: string): Signer {
  const decoded = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  return {
    body: (body) => `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
    standard: (id, seconds, body) =>
      `v1,${createHmac('sha256', decoded).update(`${id}.${seconds}.`).update(body).digest('base64')}`,
  }
}

/** While a secret is being replaced: Standard Webhooks has room for both signatures, the specified header for one. */
export const createOverlappingSigner = (current: Signer, old: Signer, { switched }: { switched: boolean }): Signer => ({
  body: (switched ? current : old).body,
  standard: (id, seconds, body) => `${current.standard(id, seconds, body)} ${old.standard(id, seconds, body)}`,
})
