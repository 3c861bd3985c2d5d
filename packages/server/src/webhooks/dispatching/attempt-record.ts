import { recordHeaders } from '../../domain/recorded-headers.ts'
import type { SettledAttempt } from '../../store/delivery/attempts.ts'
import type { BegunAttempt } from '../../store/delivery/beginnings.ts'
import type { Exchange } from '../sending/exchange.ts'
import type { FlatHeaders } from '../sending/receiver-connections.ts'

/** An attempt as it is settled: what was begun, what was sent, what came of it, and when the next is due. */
export const settled = (
  begun: BegunAttempt,
  exchange: Exchange,
  headers: FlatHeaders,
  tries: number,
  retryMs: number | null,
): SettledAttempt => ({
  laneId: begun.laneId,
  token: begun.token,
  eventSeq: begun.eventSeq,
  attemptId: begun.attemptId,
  attempt: begun.attempt,
  startedAtMs: begun.startedAtMs,
  begunNo: begun.begunNo,
  status: exchange.status,
  durationUs: storable(exchange.durationUs),
  dnsUs: storable(exchange.dnsUs),
  connectUs: storable(exchange.connectUs),
  tlsUs: storable(exchange.tlsUs),
  firstByteUs: storable(exchange.firstByteUs),
  address: exchange.address,
  requestHeaders: recordHeaders(headers),
  responseStatus: exchange.response?.status ?? null,
  responseHeaders: exchange.response?.headers ?? null,
  responseBody: exchange.response?.body ?? null,
  responseComplete: exchange.response?.complete ?? null,
  errorCode: exchange.error?.code ?? null,
  errorDetail: exchange.error?.detail ?? null,
  tries,
  retryMs,
})

/** A process that was stopped in the middle, or a machine, measures hours; the column ends after 35 minutes. */
const storable = (us: number | null): number | null => (us === null ? null : Math.min(us, 2 ** 31 - 1))

/** For a record that the database refuses: what the receiver said may be the reason. */
export const withoutWords = (attempt: SettledAttempt): SettledAttempt => ({
  ...attempt,
  responseHeaders: null,
  responseBody: null,
  responseComplete: false,
  errorDetail: null,
})

export const unknownOutcome: Exchange = {
  status: 'interrupted',
  durationUs: null,
  firstByteUs: null,
  address: null,
  dnsUs: null,
  connectUs: null,
  tlsUs: null,
  response: null,
  error: { code: 'interrupted', detail: 'The dispatcher stopped before the outcome was known.' },
  gone: false,
  retryAfterMs: null,
}
