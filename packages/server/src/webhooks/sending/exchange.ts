import { StringDecoder } from 'node:string_decoder'
import { readRetryAfter } from '../../domain/retry-schedule.ts'
import type { AttemptOutcome } from '../../store/delivery/attempts.ts'
import { headerValues, type ResponseHead } from './response-reader.ts'
import { SendError, type SendErrorCode } from './send-error.ts'

/** What came of one request: what is recorded of it, and what decides on the next. */
export type Exchange = AttemptOutcome & {
  error: { code: SendErrorCode; detail: string } | null
  /** 410: the receiver says that this will never be taken. */
  gone: boolean
  retryAfterMs: number | null
}

/** Not 304, which leads nowhere. */
const redirects = new Set([300, 301, 302, 303, 305, 307, 308])

/** A verdict on a response that was read to its end. */
export function judge(head: ResponseHead): SendError | null {
  const { status } = head
  const encoding = headerValues(head, 'content-encoding').join(',').trim()
  // We ask for identity and unpack nothing: what is inside could be of any size, and cannot be read in a history either.
  if (encoding !== '' && encoding.toLowerCase() !== 'identity') {
    return new SendError('response_encoded', `The response is encoded as ${encoding}, which was not asked for.`)
  }
  if (status >= 200 && status < 300) return null
  if (redirects.has(status)) {
    return new SendError('redirect_not_followed', `The receiver redirects (${status}); deliveries are not redirected.`)
  }
  return new SendError('status_not_successful', `The receiver answered ${status}.`)
}

export const retryAfterOf = (head: ResponseHead, now: number): number | null => {
  const values = headerValues(head, 'retry-after')
  return readRetryAfter(values.length === 1 ? values[0] : undefined, now)
}

/**
 * PostgreSQL's text holds no NUL, and bytes that are not UTF-8 become U+FFFD: a history is for reading. Where we have cut it,
 * half a character at the end is left out: that it is not whole was our doing.
 */
export function recordedText(chunks: readonly Buffer[], isCut: boolean): string {
  if (chunks.length === 0) return ''
  const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
  const text = isCut ? new StringDecoder('utf8').write(bytes) : bytes.toString('utf8')
  return text.replaceAll('\0', '\ufffd')
}
