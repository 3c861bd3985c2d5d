import { checkAnswer, readText } from './answer.ts'
import { aborted, backoffMs, createDeadline, type Deadline, waitMs } from './deadline.ts'
import { KeyhookError, networkError } from './errors.ts'

export type TransportOptions = {
  /** The address of the server, such as `https://keyhook.example.com`. */
  url: string
  /** An API key or a login token, or a function that gives the current one. */
  token: string | (() => string | Promise<string>)
  /** Used instead of the global `fetch`. */
  fetch?: typeof globalThis.fetch | undefined
  /** Limit of one attempt, its body included; 30,000 by default. */
  timeoutMs?: number | undefined
  /** Further attempts of a request that is safe to repeat, or that Keyhook refused because of too many; 2 by default. */
  retries?: number | undefined
}

/** Options of every call; they win over those of the client. */
export type CallOptions = {
  signal?: AbortSignal | undefined
  timeoutMs?: number | undefined
  retries?: number | undefined
}

export type Query = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>

export type ApiRequest = {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string
  query?: Query | undefined
  body?: object | undefined
  headers?: Record<string, string> | undefined
  /** Whether it may be sent again after an attempt whose outcome is unknown. */
  isRepeatable: boolean
  /** For a deletion without an answer: "not found" after such an attempt means that it was deleted. */
  absentIsDone?: boolean
}

type Answer = { text: string; headers: Headers; url: URL }

/** Sends requests to one server, and repeats those that are safe to repeat. */
export type Transport = {
  send(request: ApiRequest, options: CallOptions): Promise<Answer>
  /** One attempt, whose body is still to be read under the deadline. */
  open(request: ApiRequest, deadline: Deadline): Promise<Response>
}

const timeoutMsDefault = 30_000
const retriesDefault = 2
const firstDelayMs = 250
const delayMsMax = 8_000
/** If the server asks for a longer wait than this, the caller gets the error. */
const retryAfterSecondsMax = 60

export function createTransport(options: TransportOptions): Transport {
  const base = readBase(options.url)
  const fetch: typeof globalThis.fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init))

  async function open(request: ApiRequest, { signal }: Deadline): Promise<Response> {
    const body = request.body && JSON.stringify(request.body)
    // Made here and not by fetch, whose error about a wrong character would look like one of the network.
    const headers = new Headers({
      accept: 'application/json',
      authorization: `Bearer ${await readToken(options.token)}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...request.headers,
    })
    // The token goes to this address and nowhere else, so redirects are not followed.
    const init: RequestInit = { method: request.method, headers, signal, redirect: 'manual' }
    if (body !== undefined) init.body = body
    const response = await fetch(addressOf(base, request), init).catch((cause) => {
      throw networkError(cause)
    })
    await checkAnswer(response)
    return response
  }

  async function attempt(request: ApiRequest, call: CallOptions): Promise<Answer> {
    const deadline = createDeadline(call.timeoutMs ?? options.timeoutMs ?? timeoutMsDefault, call.signal)
    try {
      const response = await open(request, deadline)
      return { text: await readText(response), headers: response.headers, url: addressOf(base, request) }
    } catch (error) {
      throw explain(error, deadline, call.signal)
    } finally {
      deadline.clear()
    }
  }

  async function send(request: ApiRequest, call: CallOptions): Promise<Answer> {
    const retries = call.retries ?? options.retries ?? retriesDefault
    let mayBeDone = false
    for (let attempts = 0; ; attempts++) {
      try {
        return await attempt(request, call)
      } catch (error) {
        if (mayBeDone && request.absentIsDone && isKeyhookError(error) && error.code === 'not_found') {
          return { text: '', headers: new Headers(), url: addressOf(base, request) }
        }
        if (attempts >= retries || !isTransient(error) || !(request.isRepeatable || wasRefused(error))) throw error
        mayBeDone ||= !wasRefused(error)
        await waitMs(delayMs(attempts, error.retryAfter), call.signal)
      }
    }
  }

  return { send, open }
}

function readBase(text: string): string {
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new TypeError('url must start with https:// or http://')
  if (url.username || url.password || url.search || url.hash) {
    throw new TypeError('url must have no user name, password, query or fragment')
  }
  return url.href.replace(/\/+$/, '')
}

async function readToken(token: TransportOptions['token']): Promise<string> {
  const text = typeof token === 'function' ? await token() : token
  if (typeof text !== 'string' || !/^[\x21-\x7e]+$/.test(text)) {
    throw new TypeError('token must be an API key or a login token: a text without spaces and line breaks')
  }
  return text
}

function addressOf(base: string, { path, query = {} }: ApiRequest): URL {
  const url = new URL(base + path)
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(name, String(value))
  }
  return url
}

const isKeyhookError = (error: unknown): error is KeyhookError => error instanceof KeyhookError

/** What ended an attempt. An abort looks like a network error until one asks who caused it. */
export function explain(error: unknown, deadline: Deadline, signal?: AbortSignal): unknown {
  if (!isKeyhookError(error) || error.code !== 'client.network') return error
  if (signal?.aborted) return aborted(signal)
  if (!deadline.isOver()) return error
  return new KeyhookError({ code: 'client.timeout', message: 'The server did not answer in time.' })
}

const transientStatuses = [408, 429, 500, 502, 503, 504]
const transientCodes = ['client.network', 'client.timeout']

/** Errors that a later request may not meet. */
export const isTransient = (error: unknown): error is KeyhookError =>
  isKeyhookError(error) &&
  (error.status === null ? transientCodes.includes(error.code) : transientStatuses.includes(error.status)) &&
  (error.retryAfter ?? 0) <= retryAfterSecondsMax

/** Keyhook has done nothing, so that any request may be sent again. */
const wasRefused = ({ code }: KeyhookError): boolean => code === 'request.rate_limited'

const delayMs = (attempts: number, retryAfter: number | null): number =>
  (retryAfter ?? 0) * 1_000 + backoffMs(attempts, firstDelayMs, delayMsMax)
