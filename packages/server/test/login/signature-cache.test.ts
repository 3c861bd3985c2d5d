import { randomBytes } from 'node:crypto'
import { generateKeyPair, SignJWT } from 'jose'
import { afterEach, expect, test, vi } from 'vitest'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { createAccessTokens } from '../../src/login/access-token.ts'
import { createLocalIssuer } from '../../src/login/login-tokens.ts'
import { createClock } from './support/clock.ts'

const clock = createClock()
const { issue, verify } = createLocalIssuer({ masterKeys: createMasterKeys([randomBytes(32)]), now: clock.now })

afterEach(() => void vi.restoreAllMocks())

test('the signature of a repeated token is not verified again', async () => {
  const token = await issue({ subject: 'ada', ttlSeconds: 600 })
  const workedOut = vi.spyOn(crypto.subtle, 'verify')
  for (let n = 0; n < 20; n++) expect(await verify(token)).toMatchObject({ subject: 'ada' })
  expect(workedOut).toHaveBeenCalledTimes(1)
})

test('a cached signature of a key that the issuer has replaced under the same id is refused', async () => {
  const [first, second] = [await generateKeyPair('EdDSA'), await generateKeyPair('EdDSA')]
  let current = first
  const isGood = createAccessTokens({
    issuer: 'https://issuer.example',
    audience: 'keyhook',
    algorithms: ['EdDSA'],
    key: () => current.publicKey,
    now: clock.now,
  })
  const token = await new SignJWT({ client_id: 'tour' })
    .setProtectedHeader({ alg: 'EdDSA', typ: 'at+jwt', kid: 'always the same' })
    .setIssuer('https://issuer.example')
    .setAudience('keyhook')
    .setSubject('ada')
    .setIssuedAt(clock.now())
    .setExpirationTime(new Date(clock.now().getTime() + 600_000))
    .sign(first.privateKey)
  expect(await isGood(token)).toMatchObject({ subject: 'ada' })
  current = second
  expect(await isGood(token)).toBeNull()
  current = first
  expect(await isGood(token)).toMatchObject({ subject: 'ada' })
})

test('a token that differs in one character is verified on its own', async () => {
  const token = await issue({ subject: 'ada', ttlSeconds: 600 })
  expect(await verify(token)).not.toBeNull()
  for (const place of [token.indexOf('.') + 5, token.lastIndexOf('.') + 5]) {
    const other = token[place] === 'A' ? 'B' : 'A'
    expect(await verify(token.slice(0, place) + other + token.slice(place + 1))).toBeNull()
  }
  expect(await verify(token)).not.toBeNull()
})

// Other tests cover expiry and the removal of a key: "expires after its lifetime", "the removed key is refused".
test('a cached token is refused while the clock is before its issue, and accepted later', async () => {
  const token = await issue({ subject: 'ada', ttlSeconds: 600 })
  expect(await verify(token)).not.toBeNull()
  clock.advance(-120_000)
  expect(await verify(token)).toBeNull()
  clock.advance(120_000)
  expect(await verify(token)).not.toBeNull()
})

test('the cache is bounded: the oldest entry is removed first', async () => {
  const [oldest, next] = [
    await issue({ subject: 'ada', ttlSeconds: 600 }),
    await issue({ subject: 'bob', ttlSeconds: 600 }),
  ]
  await verify(oldest)
  const others = await Promise.all(Array.from({ length: 10_000 }, () => issue({ subject: 'eve', ttlSeconds: 600 })))
  await Promise.all(others.map((token) => verify(token)))
  const workedOut = vi.spyOn(crypto.subtle, 'verify')
  await verify(others.at(-1)!)
  expect(workedOut).toHaveBeenCalledTimes(0)
  await verify(oldest)
  await verify(next)
  expect(workedOut).toHaveBeenCalledTimes(2)
})
