import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { LoginTokens } from '../../src/access/authenticate.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { createLocalIssuer, createLoginTokens, type LocalIssuer } from '../../src/login/login-tokens.ts'
import { createOpenIdIssuer } from '../../src/login/openid.ts'
import { encode, forge } from './support/forge.ts'
import { audience, newSigningKey, type RealIssuer, startRealIssuer } from './support/real-issuer.ts'

const now = () => new Date()

let real: RealIssuer
let local: LocalIssuer
let tokens: LoginTokens

beforeAll(async () => {
  real = await startRealIssuer({ signingKey: await newSigningKey('EdDSA') })
  local = createLocalIssuer({ masterKeys: createMasterKeys([randomBytes(32)]), now })
  tokens = createLoginTokens({ issuers: [local, createOpenIdIssuer({ issuer: real.issuer, audience, now })] })
})
afterAll(() => real.stop())

describe('a token goes to the issuer that it names', () => {
  it('and is accepted there', async () => {
    const localToken = await local.issue({ subject: 'ada', ttlSeconds: 60, operator: true })
    expect(await tokens.verify(localToken)).toMatchObject({ issuer: 'urn:keyhook:local', operator: true })
    expect(await tokens.verify(await real.robotToken())).toMatchObject({ issuer: real.issuer, operator: false })
  })

  it('and is refused when another issuer signed it', async () => {
    const localToken = await local.issue({ subject: 'ada', ttlSeconds: 60, operator: true })
    const robotToken = await real.robotToken()
    const key = real.signingKey
    // The local issuer's name, on the real issuer's signature: with its own key id, and with ours.
    const pretender = { iss: 'urn:keyhook:local', aud: 'keyhook' }
    expect(await tokens.verify(await forge(robotToken, { key, claims: pretender }))).toBeNull()
    expect(await tokens.verify(await forge(localToken, { key }))).toBeNull()
    // And the other way round.
    const [header, , signature] = localToken.split('.')
    expect(await tokens.verify(`${header}.${robotToken.split('.')[1]}.${signature}`)).toBeNull()
  })

  it('and is refused when no issuer has that name', async () => {
    const localToken = await local.issue({ subject: 'ada', ttlSeconds: 60 })
    const key = real.signingKey
    for (const iss of ['https://unknown.example', '', undefined, 7, [real.issuer], { toString: 'x' }]) {
      expect(await tokens.verify(await forge(localToken, { key, claims: { iss } }))).toBeNull()
    }
  })
})

it('two issuers cannot share a name', () => {
  expect(() => createLoginTokens({ issuers: [local, local] })).toThrow()
})

it('a token of more than 8 KiB never reaches an issuer', async () => {
  let asked = 0
  const issuer = {
    issuer: 'x',
    verify: async () => {
      asked += 1
      return null
    },
  }
  const { verify } = createLoginTokens({ issuers: [issuer] })
  const tokenOf = (padding: number) => `${encode({})}.${encode({ iss: 'x', padding: 'x'.repeat(padding) })}.`
  await verify(tokenOf(6_000))
  expect(asked).toBe(1)
  await verify(tokenOf(6_200))
  expect(asked).toBe(1)
})

describe('garbage is refused and never throws', () => {
  it('as any text', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 500 }), async (text) => {
        expect(await tokens.verify(text)).toBeNull()
        expect(await local.verify(text)).toBeNull()
      }),
      { numRuns: 500 },
    )
  })

  it('as a token with any header and any claims', async () => {
    const names = fc.constantFrom('urn:keyhook:local', real.issuer)
    const header = fc.record(
      {
        alg: fc.oneof(fc.constantFrom('EdDSA', 'HS256', 'none', 'RS256'), fc.jsonValue()),
        typ: fc.oneof(fc.constantFrom('at+jwt', 'AT+JWT'), fc.jsonValue()),
        kid: fc.oneof(fc.constant(real.signingKey.kid), fc.jsonValue()),
        crit: fc.jsonValue(),
        b64: fc.jsonValue(),
      },
      { requiredKeys: ['alg'] },
    )
    const claims = fc.record(
      { iss: names, sub: fc.jsonValue(), aud: fc.jsonValue(), exp: fc.jsonValue(), client_id: fc.jsonValue() },
      { requiredKeys: ['iss'] },
    )
    await fc.assert(
      fc.asyncProperty(header, claims, fc.base64String(), async (head, body, signature) => {
        expect(await tokens.verify(`${encode(head)}.${encode(body)}.${signature}`)).toBeNull()
      }),
      { numRuns: 500 },
    )
  })

  // The last character of a signature has unused bits.
  it('as a valid token whose signature is encoded differently', async () => {
    const good = await local.issue({ subject: 'ada', ttlSeconds: 60 })
    const bytes = (token: string) => Buffer.from(token.split('.')[2]!, 'base64url')
    const characters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const others = [...characters].map((last) => good.slice(0, -1) + last).filter((token) => token !== good)
    const alike = others.filter((token) => bytes(token).equals(bytes(good)))
    expect(alike.length).toBeGreaterThan(0)
    for (const token of [...alike, `${good}=`, `${good}==`]) expect(await tokens.verify(token)).toBeNull()
    expect(await tokens.verify(good)).not.toBeNull()
  })

  it('as a valid token with one character changed', async () => {
    const good = await local.issue({ subject: 'ada', ttlSeconds: 60 })
    const at = fc.nat({ max: good.length - 1 })
    await fc.assert(
      fc.asyncProperty(at, fc.string({ minLength: 1, maxLength: 1 }), async (index, character) => {
        const changed = good.slice(0, index) + character + good.slice(index + 1)
        fc.pre(changed !== good)
        expect(await tokens.verify(changed)).toBeNull()
      }),
      { numRuns: 500 },
    )
  })
})
