import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { calculateJwkThumbprint, decodeJwt, decodeProtectedHeader, exportJWK, type JWK } from 'jose'
import { describe, expect, it } from 'vitest'
import { isId } from '../../src/lib/ids.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { createLocalIssuer, localTtlSecondsMax } from '../../src/login/login-tokens.ts'
import { createClock } from './support/clock.ts'
import { encode, forge } from './support/forge.ts'

const oldKey = randomBytes(32)
const newKey = randomBytes(32)

function issuerWith(...keys: [Buffer, ...Buffer[]]) {
  const clock = createClock()
  return { clock, ...createLocalIssuer({ masterKeys: createMasterKeys(keys), now: clock.now }) }
}

/** The issuer's private key, derived from the master key. */
function signingKey(masterKey: Buffer, purpose = 'local issuer'): Promise<JWK & { alg: string }> {
  const [seed] = createMasterKeys([masterKey]).derive(purpose)
  const { privateKey } = generateKeyPairSync('ed25519')
  const prefix = privateKey.export({ format: 'der', type: 'pkcs8' }).subarray(0, 16)
  return crypto.subtle
    .importKey('pkcs8', Buffer.concat([prefix, seed!]), 'Ed25519', true, ['sign'])
    .then(async (key) => ({ ...(await exportJWK(key)), alg: 'EdDSA' }))
}

describe('a local token', () => {
  it('is verified as the login it was issued for', async () => {
    const { issue, verify } = issuerWith(oldKey)
    const token = await issue({ subject: 'ada', ttlSeconds: 600 })
    expect(await verify(token)).toEqual({
      issuer: 'urn:keyhook:local',
      subject: 'ada',
      tokenId: decodeJwt(token).jti,
      verifiedEmail: null,
      operator: false,
      sessionId: null,
      openedOrg: null,
      expiresAt: expect.any(Number),
    })
  })

  it('has the header and claims of RFC 9068', async () => {
    const { issue } = issuerWith(oldKey)
    const token = await issue({ subject: 'ada', ttlSeconds: 600 })
    const { d: _, ...publicKey } = await signingKey(oldKey)
    expect(decodeProtectedHeader(token)).toEqual({
      alg: 'EdDSA',
      typ: 'at+jwt',
      kid: await calculateJwkThumbprint(publicKey),
    })
    const { iat, exp, jti, ...rest } = decodeJwt(token)
    expect(rest).toEqual({ iss: 'urn:keyhook:local', aud: 'keyhook', sub: 'ada', client_id: 'keyhook-cli' })
    expect(exp! - iat!).toBe(600)
    expect(Math.abs(iat! - Date.now() / 1000)).toBeLessThan(5)
    expect(isId('tok', jti!)).toBe(true)
  })

  it('is an operator token only on request', async () => {
    const { issue, verify } = issuerWith(oldKey)
    expect(await verify(await issue({ subject: 'root', ttlSeconds: 60, operator: true }))).toMatchObject({
      operator: true,
    })
    expect(await verify(await issue({ subject: 'root', ttlSeconds: 60, operator: false }))).toMatchObject({
      operator: false,
    })
  })

  it('cannot be promoted to an operator token', async () => {
    const { issue, verify } = issuerWith(oldKey)
    const token = await issue({ subject: 'ada', ttlSeconds: 60 })
    const [header, , signature] = token.split('.')
    expect(await verify(`${header}.${encode({ ...decodeJwt(token), scope: 'operator' })}.${signature}`)).toBeNull()
  })

  it('expires after its lifetime and the clock tolerance', async () => {
    const { issue, verify, clock } = issuerWith(oldKey)
    const token = await issue({ subject: 'ada', ttlSeconds: 600 })
    clock.advance((600 + 55) * 1000)
    expect(await verify(token)).not.toBeNull()
    clock.advance(5_000)
    expect(await verify(token)).toBeNull()
  })

  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, localTtlSecondsMax + 1])(
    'is not issued for %s seconds',
    async (ttlSeconds) => {
      await expect(issuerWith(oldKey).issue({ subject: 'ada', ttlSeconds })).rejects.toThrow()
    },
  )

  it.each(['', 'a\nb', 'x'.repeat(256)])('is not issued for the subject %j', async (subject) => {
    await expect(issuerWith(oldKey).issue({ subject, ttlSeconds: 60 })).rejects.toThrow()
  })
})

describe('when the master key changes', () => {
  it('tokens of the old key stay valid while it is listed', async () => {
    const token = await issuerWith(oldKey).issue({ subject: 'ada', ttlSeconds: 600 })
    expect(await issuerWith(newKey, oldKey).verify(token)).toMatchObject({ subject: 'ada' })
    expect(await issuerWith(newKey).verify(token)).toBeNull()
  })

  it('new tokens are signed with the first key', async () => {
    const token = await issuerWith(newKey, oldKey).issue({ subject: 'ada', ttlSeconds: 600 })
    expect(await issuerWith(newKey).verify(token)).toMatchObject({ subject: 'ada' })
    expect(await issuerWith(oldKey).verify(token)).toBeNull()
  })

  it('every node with the same key accepts the token', async () => {
    const token = await issuerWith(oldKey).issue({ subject: 'ada', ttlSeconds: 600 })
    expect(await issuerWith(oldKey).verify(token)).not.toBeNull()
  })
})

describe('refused', () => {
  it('a token that names our key id and is signed with another key', async () => {
    const { issue, verify } = issuerWith(oldKey)
    const token = await issue({ subject: 'root', ttlSeconds: 600, operator: true })
    expect(await verify(await forge(token, { key: await signingKey(oldKey) }))).not.toBeNull()
    expect(await verify(await forge(token, { key: await signingKey(newKey) }))).toBeNull()
    expect(await verify(await forge(token, { key: await signingKey(oldKey, 'another purpose') }))).toBeNull()
  })

  it.each([
    ['another issuer', { claims: { iss: 'https://issuer.example' } }],
    ['another audience', { claims: { aud: 'another' } }],
    ['no expiry', { claims: { exp: undefined } }],
    ['no client', { claims: { client_id: undefined } }],
    ['another type', { header: { typ: 'JWT' } }],
    ['no key id', { header: { kid: undefined } }],
    ['an unknown key id', { header: { kid: 'unknown' } }],
  ])('%s, even with the right signature', async (_, change) => {
    const { issue, verify } = issuerWith(oldKey)
    const token = await issue({ subject: 'ada', ttlSeconds: 600 })
    expect(await verify(await forge(token, { key: await signingKey(oldKey), ...change }))).toBeNull()
  })

  it('a key inside of the token', async () => {
    const { issue, verify } = issuerWith(oldKey)
    const stranger = await signingKey(newKey)
    const { d: _, ...jwk } = stranger
    const token = await issue({ subject: 'ada', ttlSeconds: 600 })
    expect(await verify(await forge(token, { key: stranger, header: { jwk } }))).toBeNull()
  })
})
