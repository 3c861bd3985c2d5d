import { decodeJwt, decodeProtectedHeader, importJWK, type JWK, type JWTPayload, SignJWT } from 'jose'

/** A copy of a real token with some things changed, signed with the given key. `undefined` removes a member. */
export async function forge(
  token: string,
  change: { key: JWK & { alg: string }; header?: Record<string, unknown>; claims?: Record<string, unknown> },
): Promise<string> {
  const header = { ...decodeProtectedHeader(token), ...change.header }
  const claims: JWTPayload = { ...decodeJwt(token), ...change.claims }
  const crit = Object.fromEntries(((header.crit as string[]) ?? []).map((name) => [name, true]))
  return new SignJWT(JSON.parse(JSON.stringify(claims)))
    .setProtectedHeader({ ...JSON.parse(JSON.stringify(header)), alg: change.key.alg })
    .sign(await importJWK(change.key, change.key.alg), { crit })
}

export const encode = (part: unknown): string => Buffer.from(JSON.stringify(part)).toString('base64url')
