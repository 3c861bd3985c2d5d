import { exportJWK, generateKeyPair, jwtVerify } from 'jose'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { refetchCooldownMs } from '../../src/login/issuer-keys.ts'
import { createOpenIdIssuer } from '../../src/login/openid.ts'
import { createClock } from './support/clock.ts'
import { forge } from './support/forge.ts'
import { audience, newSigningKey, type RealIssuer, startRealIssuer } from './support/real-issuer.ts'
import { json, startScriptedIssuer } from './support/scripted-issuer.ts'

const discoveryPath = '/.well-known/openid-configuration'

let real: RealIssuer
let scripted: Awaited<ReturnType<typeof startScriptedIssuer>>
let keys: unknown
let token: string

beforeEach(async () => {
  real = await startRealIssuer({ signingKey: await newSigningKey('ES256') })
  scripted = await startScriptedIssuer()
  keys = await (await fetch(`${real.issuer}/jwks`)).json()
  token = await forge(await real.robotToken(), { key: real.signingKey, claims: { iss: scripted.issuer } })
  scripted.answers.set(discoveryPath, json({ issuer: scripted.issuer, jwks_uri: `${scripted.issuer}/keys` }))
  scripted.answers.set('/keys', json(keys))
})
afterEach(async () => {
  await scripted.stop()
  await real.stop()
})

const newVerifier = (clock = createClock()) =>
  createOpenIdIssuer({ issuer: scripted.issuer, audience, now: clock.now }).verify

const unavailable = (internal: RegExp) =>
  expect.objectContaining({ code: 'service.unavailable', internal: expect.stringMatching(internal) })

it('the scripted issuer is valid: a token passes, so the following tests fail for their own reason', async () => {
  expect(await newVerifier()(token)).not.toBeNull()
})

describe('the issuer is rejected when', () => {
  it('discovery names another issuer, even one that differs by a slash only', async () => {
    for (const issuer of [real.issuer, `${scripted.issuer}/`, undefined]) {
      scripted.answers.set(discoveryPath, json({ issuer, jwks_uri: `${scripted.issuer}/keys` }))
      await expect(newVerifier()(token)).rejects.toEqual(unavailable(/another issuer/))
    }
  })

  it('discovery redirects', async () => {
    scripted.answers.set('/moved', json({ issuer: scripted.issuer, jwks_uri: `${scripted.issuer}/keys` }))
    scripted.answers.set(discoveryPath, (_, response) => response.writeHead(302, { location: '/moved' }).end())
    await expect(newVerifier()(token)).rejects.toEqual(unavailable(/answered 302/))
  })

  it('the key set redirects to another host', async () => {
    scripted.answers.set('/keys', (_, response) =>
      response.writeHead(307, { location: `${real.issuer.replace('127.0.0.1', 'localhost')}/jwks` }).end(),
    )
    await expect(newVerifier()(token)).rejects.toEqual(unavailable(/answered 307/))
  })

  it.each([
    ['is missing', undefined, /no usable jwks_uri/],
    ['is no URL', 'keys', /no usable jwks_uri/],
    ['is plain http elsewhere', 'http://keys.example/jwks', /without https/],
    ['is of this machine, but not http', 'ftp://127.0.0.1/keys', /without https/],
    ['is no web address', 'data:application/json,{"keys":[]}', /without https/],
  ])('its jwks_uri %s', async (_, jwksUri, internal) => {
    scripted.answers.set(discoveryPath, json({ issuer: scripted.issuer, jwks_uri: jwksUri }))
    await expect(newVerifier()(token)).rejects.toEqual(unavailable(internal))
  })

  it('it is remote, and its jwks_uri is on this machine', async () => {
    const issuer = 'https://issuer.example'
    const { verify } = createOpenIdIssuer({
      issuer,
      audience,
      now: () => new Date(),
      fetch: async (url, init) =>
        String(url).startsWith(issuer)
          ? Response.json({ issuer, jwks_uri: `${scripted.issuer}/keys` })
          : fetch(url, init),
    })
    const fromElsewhere = await forge(token, { key: real.signingKey, claims: { iss: issuer } })
    await expect(verify(fromElsewhere)).rejects.toEqual(unavailable(/without https/))
  })

  it.each([
    ['an error', (body: string) => ({ status: 500, body }), /answered 500/],
    ['something that is not JSON', () => ({ status: 200, body: '<html>' }), /JSON/],
    ['JSON that is no key set', () => ({ status: 200, body: '{"keys":"none"}' }), /malformed/],
    ['JSON null', () => ({ status: 200, body: 'null' }), /malformed/],
  ])('the key set is %s', async (_, answer, internal) => {
    const { status, body } = answer(JSON.stringify(keys))
    scripted.answers.set('/keys', (_request, response) => response.writeHead(status).end(body))
    await expect(newVerifier()(token)).rejects.toEqual(unavailable(internal))
  })

  it('discovery is JSON null', async () => {
    scripted.answers.set(discoveryPath, json(null))
    await expect(newVerifier()(token)).rejects.toEqual(unavailable(/another issuer/))
  })
})

it('a signature algorithm outside our list is refused, even if the issuer publishes its key', async () => {
  const { publicKey, privateKey } = await generateKeyPair('ML-DSA-44', { extractable: true })
  const published = { ...(await exportJWK(publicKey)), alg: 'ML-DSA-44', kid: 'later' }
  scripted.answers.set('/keys', json({ keys: [published] }))
  const key = { ...(await exportJWK(privateKey)), alg: 'ML-DSA-44' }
  const signed = await forge(token, { key, header: { kid: 'later' } })
  await expect(jwtVerify(signed, publicKey)).resolves.toBeDefined()
  expect(await newVerifier()(signed)).toBeNull()
})

it('no connection is kept for the next read', async () => {
  const connections: unknown[] = []
  for (const [path, answer] of [...scripted.answers]) {
    scripted.answers.set(path, (request, response) => {
      connections.push(request.headers.connection)
      answer(request, response)
    })
  }
  await newVerifier()(token)
  expect(connections).toEqual(['close', 'close'])
})

describe('limits', () => {
  it('an endless answer is aborted', async () => {
    let sentBytes = 0
    let cutOff: (() => void) | undefined
    const closed = new Promise<void>((resolve) => {
      cutOff = resolve
    })
    scripted.answers.set('/keys', (_, response) => {
      response.writeHead(200)
      const chunk = Buffer.alloc(64 * 1024, ' ')
      const send = () => {
        if (response.destroyed) return
        sentBytes += chunk.length
        response.write(chunk, () => setImmediate(send))
      }
      response.once('close', () => cutOff?.())
      send()
    })
    await expect(newVerifier()(token)).rejects.toEqual(unavailable(/more than 262144 bytes/))
    await closed
    expect(sentBytes).toBeLessThan(64 * 1024 * 1024)
  })

  it('an answer just below the limit is read', async () => {
    scripted.answers.set('/keys', json({ ...(keys as object), padding: 'x'.repeat(255 * 1024) }))
    expect(await newVerifier()(token)).not.toBeNull()
  })

  it('an answer that never ends is aborted after 5 s, and the next read is a new one', async () => {
    const clock = createClock()
    const verify = newVerifier(clock)
    scripted.answers.set('/keys', (_, response) => response.writeHead(200).write('{'))
    const begunMs = performance.now()
    await expect(verify(token)).rejects.toEqual(unavailable(/timeout/))
    expect(performance.now() - begunMs).toBeLessThan(20_000)
    scripted.answers.set('/keys', json(keys))
    clock.advance(refetchCooldownMs)
    expect(await verify(token)).not.toBeNull()
  })

  it('while a refresh hangs during an outage, tokens of known keys do not wait for it', async () => {
    const clock = createClock()
    const verify = newVerifier(clock)
    expect(await verify(token)).not.toBeNull()
    scripted.answers.set('/keys', (_, response) => response.writeHead(503).end())
    clock.advance(5 * 60_000)
    expect(await verify(token)).not.toBeNull()

    let asked = false
    scripted.answers.set('/keys', () => {
      asked = true
    })
    clock.advance(refetchCooldownMs)
    const begunMs = performance.now()
    expect(await verify(token)).not.toBeNull()
    // A refresh is aborted after five.
    expect(performance.now() - begunMs).toBeLessThan(4_000)
    await expect.poll(() => asked).toBe(true)
  })

  it('an invalid key in the set affects only its own tokens', async () => {
    const broken = { kty: 'EC', crv: 'P-256', kid: 'broken', x: 'AA', y: 'AA' }
    const symmetric = { kty: 'oct', kid: 'symmetric', k: 'AAAA' }
    const { keys: good } = keys as { keys: unknown[] }
    scripted.answers.set('/keys', json({ keys: [broken, symmetric, ...good] }))
    const verify = newVerifier()
    expect(await verify(token)).not.toBeNull()
    for (const kid of ['broken', 'symmetric']) {
      expect(await verify(await forge(token, { key: real.signingKey, header: { kid } }))).toBeNull()
    }
  })
})

it('an issuer below a path is found there, with or without a final slash', async () => {
  for (const path of ['/tenant/one', '/tenant/two/']) {
    const issuer = `${scripted.issuer}${path}`
    scripted.answers.set(
      `${path.replace(/\/$/, '')}${discoveryPath}`,
      json({ issuer, jwks_uri: `${scripted.issuer}/keys` }),
    )
    const { verify } = createOpenIdIssuer({ issuer, audience, now: () => new Date() })
    const own = await forge(token, { key: real.signingKey, claims: { iss: issuer } })
    expect(await verify(own)).toMatchObject({ issuer })
    expect(await verify(token)).toBeNull()
  }
})
