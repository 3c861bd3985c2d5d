import { recordHeaders } from '../domain/recorded-headers.ts'
import type { SettledAttempt } from '../store/attempts.ts'
import type { BegunAttempt, Leftover } from '../store/unsettled.ts'
import type { Exchange } from './exchange.ts'
import type { Lane } from './lane.ts'
import type { FlatHeaders } from './receiver.ts'

/** An attempt as it is settled: what was begun, what was sent, what came of it, and when the next is due. */
export const settled = (
  begun: BegunAttempt,
  exchange: Exchange,
  headers: FlatHeaders,
  tries: number,
  retryMs: number | null,
): SettledAttempt => ({
  laneId: begun.laneId,
  orgId: begun.orgId,
  token: begun.token,
  eventSeq: begun.eventSeq,
  attemptId: begun.attemptId,
  status: exchange.status,
  durationUs: exchange.durationUs,
  dnsUs: exchange.dnsUs,
  connectUs: exchange.connectUs,
  tlsUs: exchange.tlsUs,
  firstByteUs: exchange.firstByteUs,
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

/** An attempt that a holder before us began and never settled. */
export function interrupted(lane: Lane, left: Leftover): SettledAttempt {
  const { laneId, orgId, webhook } = lane.leased
  const begun = { laneId, orgId, token: left.token, eventSeq: left.eventSeq, attempt: left.attempts, tries: left.tries }
  const headers = webhook === null ? [] : lane.sender.headers(left, left.startedAtMs)
  const record = { ...begun, attemptId: left.attemptId, startedAtMs: left.startedAtMs }
  return settled(record, unknownOutcome, headers, left.tries, webhook === null ? null : 0)
}
