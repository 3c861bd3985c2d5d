import { createHmac, createPublicKey, type JsonWebKeyInput } from 'node:crypto'
import { decodeJwt, decodeProtectedHeader, type JWTPayload } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createOpenIdIssuer } from '../../src/login/openid.ts'
import { encode, forge } from './support/forge.ts'
import { audience, newSigningKey, person, type RealIssuer, startRealIssuer } from './support/real-issuer.ts'

let real: RealIssuer
let token: string
let claims: JWTPayload & { exp: number; iat: number }

beforeAll(async () => {
  real = await startRealIssuer({ signingKey: await newSigningKey() })
  token = await real.robotToken()
  claims = decodeJwt(token) as typeof claims
})
afterAll(() => real.stop())

const verify = (text: string, options: { audience?: string; now?: Date } = {}) =>
  createOpenIdIssuer({
    issuer: real.issuer,
    audience: options.audience ?? audience,
    now: () => options.now ?? new Date(),
  }).verify(text)

const resigned = (change: { header?: Record<string, unknown>; claims?: Record<string, unknown> }) =>
  forge(token, { key: real.signingKey, ...change })

const seconds = (value: number): Date => new Date(value * 1000)

describe('a token of a real issuer', () => {
  it('names the client when no person is involved', async () => {
    expect(await verify(token)).toEqual({
      issuer: real.issuer,
      subject: 'robot',
      tokenId: claims.jti,
      verifiedEmail: null,
      operator: false,
      sessionId: null,
      openedOrg: null,
      expiresAt: claims.exp,
    })
  })

  it('names the person who logged in, with the verified address', async () => {
    const { accessToken } = await real.logIn()
    expect(await verify(accessToken)).toMatchObject({ subject: person.subject, verifiedEmail: person.email })
  })

  it('never makes an operator, even with the scope that the local issuer uses', async () => {
    expect(claims.scope).toBe('operator')
    expect(await verify(token)).toMatchObject({ operator: false })
  })

  it.each(['PS256', 'ES256', 'EdDSA'])('may be signed with %s', async (alg) => {
    const other = await startRealIssuer({ signingKey: await newSigningKey(alg) })
    try {
      const signed = await other.robotToken()
      expect(decodeProtectedHeader(signed).alg).toBe(alg)
      const issuer = createOpenIdIssuer({ issuer: other.issuer, audience, now: () => new Date() })
      expect(await issuer.verify(signed)).toMatchObject({ subject: 'robot' })
    } finally {
      await other.stop()
    }
  })
})

describe('an e-mail address', () => {
  it('that the issuer has not verified is not passed on', async () => {
    const careless = await startRealIssuer({ signingKey: await newSigningKey(), emailVerified: false })
    try {
      const { accessToken } = await careless.logIn()
      expect(decodeJwt(accessToken).email).toBe(person.email)
      const issuer = createOpenIdIssuer({ issuer: careless.issuer, audience, now: () => new Date() })
      expect(await issuer.verify(accessToken)).toMatchObject({ subject: person.subject, verifiedEmail: null })
    } finally {
      await careless.stop()
    }
  })

  it.each([
    ['a string instead of a boolean', { email: 'ada@example.com', email_verified: 'true' }],
    ['a missing address', { email_verified: true }],
    ['an address with a line break', { email: 'ada@example.com\n', email_verified: true }],
  ])('is absent for %s', async (_, extra) => {
    expect(await verify(await resigned({ claims: extra }))).toMatchObject({ subject: 'robot', verifiedEmail: null })
  })
})

describe('refused', () => {
  it('a token for another audience', async () => {
    const elsewhere = await real.robotToken({ resource: 'https://elsewhere.example' })
    expect(await verify(elsewhere, { audience: 'https://elsewhere.example' })).not.toBeNull()
    expect(await verify(elsewhere)).toBeNull()
  })

  it('an ID token, although issuer and signature are right and its audience is ours', async () => {
    const { idToken } = await real.logIn()
    expect(await verify(idToken, { audience: 'web' })).toBeNull()
    // Everything but `typ` is valid.
    const dressedUp = { aud: audience, client_id: 'web', jti: 'x' }
    expect(await verify(await forge(idToken, { key: real.signingKey, claims: dressedUp }))).toBeNull()
    const typed = await forge(idToken, { key: real.signingKey, header: { typ: 'at+jwt' }, claims: dressedUp })
    expect(await verify(typed)).toMatchObject({ subject: person.subject })
  })

  it('a token of another issuer that offers the same audience', async () => {
    const other = await startRealIssuer({ signingKey: await newSigningKey() })
    try {
      expect(await verify(await other.robotToken())).toBeNull()
      expect(await verify(await resigned({ claims: { iss: other.issuer } }))).toBeNull()
    } finally {
      await other.stop()
    }
  })

  it('a token signed by a key that only claims to be the published one', async () => {
    const stranger = { ...(await newSigningKey()), kid: real.signingKey.kid! }
    expect(await verify(await forge(token, { key: stranger }))).toBeNull()
  })

  it('a token with any one character of its signature or claims changed', async () => {
    const [header, body, signature] = token.split('.') as [string, string, string]
    const flip = (text: string, at: number) => text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1)
    for (const at of [0, 20, 100]) {
      expect(await verify(`${header}.${body}.${flip(signature, at)}`)).toBeNull()
      expect(await verify(`${header}.${flip(body, at)}.${signature}`)).toBeNull()
    }
    const promoted = encode({ ...claims, sub: 'somebody-else' })
    expect(await verify(`${header}.${promoted}.${signature}`)).toBeNull()
  })

  it.each(['pem', 'der', 'jwk'] as const)('HS256 with the public key (%s) as the secret', async (format) => {
    const publicKey = createPublicKey({ key: real.signingKey, format: 'jwk' } as JsonWebKeyInput)
    const secret =
      format === 'jwk'
        ? JSON.stringify(publicKey.export({ format }))
        : publicKey.export({ format: format as 'pem', type: 'spki' })
    const signed = `${encode({ ...decodeProtectedHeader(token), alg: 'HS256' })}.${encode(claims)}`
    expect(await verify(`${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`)).toBeNull()
  })

  it.each(['none', 'None', 'NONE'])('the algorithm %s', async (alg) => {
    const header = encode({ ...decodeProtectedHeader(token), alg })
    expect(await verify(`${header}.${encode(claims)}.`)).toBeNull()
    expect(await verify(`${header}.${encode(claims)}.${token.split('.')[2]}`)).toBeNull()
  })

  it('a token longer than 8 KiB, before anything is read or fetched', async () => {
    const long = await resigned({ claims: { padding: 'x'.repeat(6200) } })
    expect(long.length).toBeGreaterThan(8 * 1024)
    let fetches = 0
    const issuer = createOpenIdIssuer({
      issuer: real.issuer,
      audience,
      now: () => new Date(),
      fetch: (...args) => {
        fetches += 1
        return fetch(...args)
      },
    })
    expect(await issuer.verify(long)).toBeNull()
    expect(fetches).toBe(0)
    const short = await resigned({ claims: { padding: 'x'.repeat(4000) } })
    expect(await issuer.verify(short)).not.toBeNull()
  })

  it.each([
    ['no exp', { exp: undefined }],
    ['an exp that is no number', { exp: '9999999999' }],
    ['no sub', { sub: undefined }],
    ['an empty sub', { sub: '' }],
    ['a sub that is no string', { sub: 7 }],
    ['a sub of 256 characters', { sub: 'x'.repeat(256) }],
    ['a sub with NUL', { sub: 'a\0b' }],
    ['a sub with half a character', { sub: '\ud800' }],
    ['no client_id', { client_id: undefined }],
    ['a client_id that is no string', { client_id: ['web'] }],
    ['a jti that is no string', { jti: 7 }],
    ['an iat that is no number', { iat: 'now' }],
    ['no aud', { aud: undefined }],
    ['an aud that only begins like ours', { aud: [`${audience}/more`] }],
    ['no iss', { iss: undefined }],
  ])('%s', async (_, change) => {
    expect(await verify(await resigned({ claims: change }))).toBeNull()
  })

  it('an iss that is only equivalent', async () => {
    expect(await verify(await resigned({ claims: { iss: `${real.issuer}/` } }))).toBeNull()
    expect(await verify(await resigned({ claims: { iss: [real.issuer] } }))).toBeNull()
  })

  it.each([
    ['no typ', { typ: undefined }],
    ['typ JWT', { typ: 'JWT' }],
    ['typ at+jwt-ish', { typ: 'at+jwtx' }],
    ['a critical extension that we do not know', { crit: ['urn:unknown'], 'urn:unknown': 1 }],
  ])('%s', async (_, header) => {
    expect(await verify(await resigned({ header }))).toBeNull()
  })
})

describe('accepted, because the standards allow it', () => {
  it.each([
    ['typ in capitals', { header: { typ: 'AT+JWT' } }],
    ['typ as a full media type', { header: { typ: 'application/at+jwt' } }],
    ['one of several audiences', { claims: { aud: ['https://elsewhere.example', audience] } }],
    ['no iat', { claims: { iat: undefined } }],
    ['a sub of 255 characters', { claims: { sub: 'x'.repeat(255) } }],
    ['no kid, as long as one key fits', { header: { kid: undefined } }],
  ])('%s', async (_, change) => {
    expect(await verify(await resigned(change))).not.toBeNull()
  })

  it('no jti, which leaves the token without an id', async () => {
    expect(await verify(await resigned({ claims: { jti: undefined } }))).toMatchObject({ tokenId: null })
  })
})

describe('time', () => {
  it('a token is valid until 60 s after its expiry', async () => {
    expect(await verify(token, { now: seconds(claims.exp + 59) })).not.toBeNull()
    expect(await verify(token, { now: seconds(claims.exp + 60) })).toBeNull()
  })

  it('a token is valid from 60 s before it was issued', async () => {
    expect(await verify(token, { now: seconds(claims.iat - 60) })).not.toBeNull()
    expect(await verify(token, { now: seconds(claims.iat - 61) })).toBeNull()
  })

  it('a token is valid from 60 s before its nbf', async () => {
    const later = await resigned({ claims: { nbf: claims.iat + 300 } })
    expect(await verify(later, { now: seconds(claims.iat + 240) })).not.toBeNull()
    expect(await verify(later, { now: seconds(claims.iat + 239) })).toBeNull()
  })
})

describe('creating an issuer', () => {
  it.each(['http://issuer.example', 'issuer.example', 'https://issuer.example/?tenant=1'])('refuses %s', (issuer) => {
    expect(() => createOpenIdIssuer({ issuer, audience, now: () => new Date() })).toThrow()
  })

  it('refuses an empty audience', () => {
    expect(() =>
      createOpenIdIssuer({ issuer: 'https://issuer.example', audience: '', now: () => new Date() }),
    ).toThrow()
  })
})
