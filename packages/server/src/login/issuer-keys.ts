import { createLocalJWKSet, errors, type JSONWebKeySet } from 'jose'
import { Fault } from '../lib/faults.ts'
import { isPrivateChannel } from '../lib/network.ts'
import type { KeyOf } from './access-token.ts'

/** A key that the issuer has removed is refused after this time at the latest, while the issuer is reachable. */
export const keysFreshMs = 5 * 60_000

/** The same limit while the issuer is not reachable. */
export const keysUsableMsMax = 60 * 60_000

/**
 * The minimum time between two reads of the issuer, for any reason: tokens with invented key ids must not cause more than 12
 * reads a minute. A new key may be refused for this long. It equals the Retry-After of our 503.
 */
export const refetchCooldownMs = 5_000

/** For discovery and key set together. */
const refreshMsMax = 5_000

type KeySet = ReturnType<typeof createLocalJWKSet>

/**
 * The issuer's current signing keys. Not jose's createRemoteJWKSet: that drops working keys when a refresh fails,
 * does not back off after failures, reads discovery only once, and uses the global clock.
 */
export function createIssuerKeys(deps: { issuer: string; now: () => Date; fetch: typeof fetch }): KeyOf {
  let held: { keys: KeySet; readAtMs: number } | null = null
  let attempt: { endedAtMs: number; failure: unknown } | null = null
  let running: Promise<void> | null = null

  // A clock that was set back counts as elapsed; otherwise we would wait until it catches up.
  const elapsed = (sinceMs: number, ms: number): boolean => {
    const passedMs = deps.now().getTime() - sinceMs
    return passedMs < 0 || passedMs >= ms
  }

  /** Never rejects: an error is kept in `attempt`. Concurrent callers share one read. */
  function refresh(): Promise<void> {
    if (running !== null) return running
    if (attempt !== null && !elapsed(attempt.endedAtMs, refetchCooldownMs)) return Promise.resolve()
    running = read().finally(() => {
      running = null
    })
    return running
  }

  async function read(): Promise<void> {
    // Taken before the read, because the answer may be as old as the request.
    const readAtMs = deps.now().getTime()
    let failure: unknown = null
    try {
      held = { keys: await readKeySet(deps), readAtMs }
    } catch (error) {
      failure = error
    }
    attempt = { endedAtMs: deps.now().getTime(), failure }
  }

  const failed = (): boolean => attempt !== null && attempt.failure !== null

  const match = async (header: Parameters<KeyOf>[0]): Promise<CryptoKey | null> => {
    if (held === null || elapsed(held.readAtMs, keysUsableMsMax)) return null
    try {
      return await held.keys(header)
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey) return null
      throw error
    }
  }

  return async (header) => {
    if (held !== null && elapsed(held.readAtMs, keysFreshMs)) {
      const refreshed = refresh()
      // During an outage requests do not wait for the refresh while known keys are still usable.
      if (!failed()) await refreshed
    }
    const known = await match(header)
    if (known !== null) return known

    await refresh()
    const found = await match(header)
    if (found !== null) return found
    if (failed()) throw unavailable(deps.issuer, attempt?.failure)
    throw new errors.JWKSNoMatchingKey()
  }
}

/** Discovery is read each time: it is one small document, and a moved key set is found without a restart. */
async function readKeySet(deps: { issuer: string; fetch: typeof fetch }): Promise<KeySet> {
  const signal = AbortSignal.timeout(refreshMsMax)
  const discoveryUrl = new URL(`${deps.issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
  const discovered = await getJson({ fetch: deps.fetch, url: discoveryUrl, signal })
  const { issuer, jwks_uri: jwksUri } = (discovered ?? {}) as Record<string, unknown>
  // OpenID Connect Discovery 4.3: identical, not only equivalent. Otherwise one tenant could act for another.
  if (issuer !== deps.issuer) throw new Error(`${discoveryUrl} names another issuer`)
  const keysUrl = typeof jwksUri === 'string' ? URL.parse(jwksUri) : null
  if (keysUrl === null) throw new Error(`${discoveryUrl} has no usable jwks_uri`)
  // Plain http is allowed for an issuer on this machine only; another one must not point at our loopback services.
  const protectedKeys = discoveryUrl.protocol === 'http:' ? isPrivateChannel(keysUrl) : keysUrl.protocol === 'https:'
  if (!protectedKeys) throw new Error(`${discoveryUrl} has a jwks_uri without https`)
  return createLocalJWKSet((await getJson({ fetch: deps.fetch, url: keysUrl, signal })) as JSONWebKeySet)
}

/** The documents have a few KiB; key sets with certificate chains some tens. */
const responseBytesMax = 256 * 1024

/** Reads a JSON document, with limits on time and size, and without redirects. */
async function getJson(deps: { fetch: typeof fetch; url: URL; signal: AbortSignal }): Promise<unknown> {
  const response = await deps.fetch(deps.url, {
    // Not kept alive: the cooldown equals the idle timeout of many servers, so a kept connection is often closed just when
    // the next read uses it.
    headers: { accept: 'application/json', connection: 'close' },
    // A redirect could lead to another host or to plain http.
    redirect: 'manual',
    signal: deps.signal,
  })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Error(`${deps.url} answered ${response.status}`)
  }
  return JSON.parse(await boundedText(response, deps.url))
}

async function boundedText(response: Response, url: URL): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  // Counted after decompression, which a content-length header does not tell.
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength
    if (bytes > responseBytesMax) throw new Error(`${url} answered more than ${responseBytesMax} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

const unavailable = (issuer: string, cause: unknown): Fault =>
  new Fault('service.unavailable', {
    public: 'The login service cannot be reached, so the token could not be checked. Try again in a few seconds.',
    internal: `no usable keys of issuer ${issuer}: ${reason(cause)}`,
    headers: { 'retry-after': String(refetchCooldownMs / 1000) },
    cause,
  })

/** The message of fetch is only "fetch failed"; the cause says why. */
const reason = (error: unknown): string => {
  if (!(error instanceof Error)) return 'unknown'
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}
