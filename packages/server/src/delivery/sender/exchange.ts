import { StringDecoder } from 'node:string_decoder'
import { readRetryAfter } from '../retry-schedule.ts'
import { headerValues, type PostResponse, type PostResult, SendError } from './http1/client.ts'
import type { Exchange, RecordedResponse } from './port.ts'

/** Turns the result of a POST into what is recorded and what decides about a retry. */
export function exchangeOf(result: PostResult, requestHeaders: string, nowMs: number): Exchange {
  const { response } = result
  const error = result.error ?? responseError(response!)
  return {
    requestHeaders,
    status: error === null ? 'succeeded' : error.code === 'interrupted' ? 'interrupted' : 'failed',
    durationUs: result.durationUs,
    dnsUs: result.dnsUs,
    connectUs: result.connectUs,
    tlsUs: result.tlsUs,
    firstByteUs: result.firstByteUs,
    address: result.address,
    response: response && recordResponse(response),
    error: error && { code: error.code, detail: error.message },
    gone: response?.status === 410,
    retryAfterMs: error === null || response === null ? null : retryAfterMs(response, nowMs),
  }
}

/** 304 is not one: it has no location. */
const redirects = new Set([300, 301, 302, 303, 305, 307, 308])

/** Whether a complete response accepts the delivery. */
function responseError(response: PostResponse): SendError | null {
  const { status } = response
  if (status >= 200 && status < 300) return null
  if (redirects.has(status)) {
    return new SendError('redirect_not_followed', `The receiver redirects (${status}); deliveries are not redirected.`)
  }
  return new SendError('status_not_successful', `The receiver answered ${status}.`)
}

function retryAfterMs(response: PostResponse, nowMs: number): number | null {
  const values = headerValues(response, 'retry-after')
  return readRetryAfter(values.length === 1 ? values[0] : undefined, nowMs)
}

const recordResponse = (response: PostResponse): RecordedResponse => {
  // We decompress nothing, as the content could have any size; and compressed bytes cannot be kept as text.
  const isOmitted = isEncoded(response) && response.body.length > 0
  return {
    status: response.status,
    headers: recordHeaders(response.headers),
    body: isOmitted ? '' : recordText(response.body, response.isTruncated),
    complete: response.isComplete && !response.isTruncated && !isOmitted,
  }
}

function isEncoded(response: PostResponse): boolean {
  const encoding = headerValues(response, 'content-encoding').join(',').trim().toLowerCase()
  return encoding !== '' && encoding !== 'identity'
}

/**
 * PostgreSQL's text cannot hold NUL, and bytes that are not UTF-8 become U+FFFD. Where we truncated the body, half a character
 * at the end is left out.
 */
function recordText(bytes: Buffer, isTruncated: boolean): string {
  if (bytes.length === 0) return ''
  const text = isTruncated ? new StringDecoder('utf8').write(bytes) : bytes.toString('utf8')
  return text.replaceAll('\0', '\ufffd')
}

/*
 * Headers as they are recorded: one line each, as on the wire. JSON has many quotes, and escaping them for the database cost a
 * twentieth of all that sending takes.
 */

/** `flat` is name, value, name, value, without line breaks. */
export function recordHeaders(flat: readonly string[]): string {
  const lines: string[] = []
  for (let i = 0; i < flat.length; i += 2) lines.push(`${flat[i]}: ${flat[i + 1]}`)
  return lines.join('\n')
}

export type ReadHeaders = Record<string, string | string[]>

export function readHeaders(record: string): ReadHeaders {
  const headers: ReadHeaders = {}
  for (const line of record.split('\n')) {
    const end = line.indexOf(': ')
    if (end > 0) add(headers, line.slice(0, end), line.slice(end + 2))
  }
  return headers
}

function add(headers: ReadHeaders, name: string, value: string): void {
  const earlier = Object.hasOwn(headers, name) ? headers[name]! : null
  const now = earlier === null ? value : [earlier, value].flat()
  // Not by assignment: a header may be named __proto__.
  Object.defineProperty(headers, name, { value: now, enumerable: true, configurable: true, writable: true })
}
