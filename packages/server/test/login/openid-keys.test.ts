import { afterEach, describe, expect, it } from 'vitest'
import { Fault } from '../../src/lib/faults.ts'
import { keysFreshMs, keysUsableMsMax, refetchCooldownMs } from '../../src/login/issuer-keys.ts'
import { createOpenIdIssuer } from '../../src/login/openid.ts'
import { createClock } from './support/clock.ts'
import { forge } from './support/forge.ts'
import { audience, newSigningKey, startRealIssuer } from './support/real-issuer.ts'

const cleanups: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup()
})

const day = 24 * 60 * 60

async function start(options: { port?: number } = {}) {
  const real = await startRealIssuer({ signingKey: await newSigningKey('ES256'), ttlSeconds: day, ...options })
  cleanups.push(real.stop)
  return real
}

function verifier(issuer: string) {
  const clock = createClock()
  const urls: string[] = []
  const { verify } = createOpenIdIssuer({
    issuer,
    audience,
    now: clock.now,
    fetch: (url, init) => {
      urls.push(new URL(String(url)).pathname)
      return fetch(url, init)
    },
  })
  return { verify, clock, urls }
}

const unavailable = expect.objectContaining({
  name: 'Fault',
  code: 'service.unavailable',
  headers: { 'retry-after': '5' },
})

describe('reading the keys', () => {
  it('waits for the first token, and happens once for many at the same time', async () => {
    const real = await start()
    const token = await real.robotToken()
    const { verify, urls } = verifier(real.issuer)
    expect(urls).toEqual([])
    const logins = await Promise.all(Array.from({ length: 20 }, () => verify(token)))
    expect(logins.every((login) => login?.subject === 'robot')).toBe(true)
    expect(urls).toEqual(['/.well-known/openid-configuration', '/jwks'])
  })

  it('is not repeated for tokens with invented key ids until the cooldown has passed', async () => {
    const real = await start()
    const { verify, clock, urls } = verifier(real.issuer)
    const token = await real.robotToken()
    const invented = () => forge(token, { key: real.signingKey, header: { kid: crypto.randomUUID() } })
    for (let round = 0; round < 20; round += 1) expect(await verify(await invented())).toBeNull()
    expect(urls.length).toBe(2)
    clock.advance(refetchCooldownMs)
    for (let round = 0; round < 20; round += 1) expect(await verify(await invented())).toBeNull()
    expect(urls.length).toBe(4)
    expect(await verify(token)).not.toBeNull()
  })

  it('happens again when the clock was set back', async () => {
    const real = await start()
    const { verify, clock, urls } = verifier(real.issuer)
    const token = await real.robotToken()
    clock.advance(10_000_000)
    await verify(token)
    clock.advance(-10_000_000)
    expect(await verify(token)).not.toBeNull()
    expect(urls.length).toBe(4)
  })
})

describe('when the issuer changes its keys', () => {
  it('the new key is accepted as soon as the cooldown allows', async () => {
    const before = await start()
    const { verify, clock } = verifier(before.issuer)
    const oldToken = await before.robotToken()
    expect(await verify(oldToken)).not.toBeNull()

    await before.stop()
    const after = await start({ port: before.port })
    const newToken = await after.robotToken()
    expect(await verify(newToken)).toBeNull()
    clock.advance(refetchCooldownMs)
    expect(await verify(newToken)).not.toBeNull()
    // The same read removed the old key.
    expect(await verify(oldToken)).toBeNull()
  })

  it('the removed key is refused within the limit, even if the new one is not used', async () => {
    const before = await start()
    const { verify, clock } = verifier(before.issuer)
    const oldToken = await before.robotToken()
    expect(await verify(oldToken)).not.toBeNull()

    await before.stop()
    await start({ port: before.port })
    clock.advance(keysFreshMs - 1_000)
    expect(await verify(oldToken)).not.toBeNull()
    clock.advance(1_000)
    expect(await verify(oldToken)).toBeNull()
  })
})

describe('when the issuer is down', () => {
  it('at first: the answer is "try again", not "bad token", and it works once the issuer is up', async () => {
    const real = await start()
    const token = await real.robotToken()
    await real.stop()
    const { verify, clock, urls } = verifier(real.issuer)
    await expect(verify(token)).rejects.toEqual(unavailable)

    // Within the cooldown the answer stays the same, without another read.
    await expect(verify(token)).rejects.toEqual(unavailable)
    expect(urls.length).toBe(1)

    const again = await startRealIssuer({ signingKey: real.signingKey, port: real.port, ttlSeconds: day })
    cleanups.push(again.stop)
    clock.advance(refetchCooldownMs)
    expect(await verify(token)).not.toBeNull()
  })

  it('later: known keys stay valid up to the maximum, then the answer is "try again"', async () => {
    const real = await start()
    const token = await real.robotToken()
    const { verify, clock, urls } = verifier(real.issuer)
    expect(await verify(token)).not.toBeNull()

    await real.stop()
    clock.advance(keysFreshMs)
    expect(await verify(token)).not.toBeNull()
    expect(urls.length).toBe(3)
    clock.advance(keysUsableMsMax - keysFreshMs - 1_000)
    expect(await verify(token)).not.toBeNull()
    clock.advance(1_000)
    await expect(verify(token)).rejects.toEqual(unavailable)

    const again = await startRealIssuer({ signingKey: real.signingKey, port: real.port, ttlSeconds: day })
    cleanups.push(again.stop)
    clock.advance(refetchCooldownMs)
    expect(await verify(token)).not.toBeNull()
  })

  it('later: a key we have never seen may be a new one, so the answer is "try again"', async () => {
    const real = await start()
    const token = await real.robotToken()
    const { verify, clock } = verifier(real.issuer)
    expect(await verify(token)).not.toBeNull()
    await real.stop()
    clock.advance(refetchCooldownMs)
    const unseen = await forge(token, { key: await newSigningKey('ES256'), header: { kid: 'unseen' } })
    await expect(verify(unseen)).rejects.toEqual(unavailable)
  })

  it('bad tokens are still refused with the keys we hold', async () => {
    const real = await start()
    const token = await real.robotToken()
    const { verify, clock } = verifier(real.issuer)
    expect(await verify(token)).not.toBeNull()
    await real.stop()
    clock.advance(keysFreshMs)
    const stranger = { ...(await newSigningKey('ES256')), kid: real.signingKey.kid! }
    expect(await verify(await forge(token, { key: stranger }))).toBeNull()
  })

  it('no text of the fault contains a part of the token', async () => {
    const real = await start()
    const token = await real.robotToken()
    await real.stop()
    const fault = await verifier(real.issuer)
      .verify(token)
      .catch((error: unknown) => error)
    expect(fault).toBeInstanceOf(Fault)
    const texts = `${(fault as Fault).public} ${(fault as Fault).internal}`
    expect(texts).toContain('ECONNREFUSED')
    for (const part of ['robot', audience, ...token.split('.')]) expect(texts).not.toContain(part)
  })
})
