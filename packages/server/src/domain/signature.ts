import { createMac } from '../kernel/mac.ts'

/*
 * Two signatures of one body. The specified one covers the body alone, keyed with the secret's text. The other is Standard
 * Webhooks': it covers id and time too, so that a replay can be told, and its key is what the secret's base64 stands for.
 */
export type Signer = {
  /** `sha256=<hex>` of exactly these bytes. */
  body(body: Uint8Array): string
  /** `v1,<base64>` of `<id>.<seconds>.<body>`. */
  standard(id: string, seconds: number, body: Uint8Array): string
}

export function createSigner(secret: string): Signer {
  const bySecret = createMac(Buffer.from(secret))
  const byItsBytes = createMac(Buffer.from(secret.replace(/^whsec_/, ''), 'base64'))
  return {
    body: (body) => `sha256=${bySecret('', body, 'hex')}`,
    standard: (id, seconds, body) => `v1,${byItsBytes(`${id}.${seconds}.`, body, 'base64')}`,
  }
}
