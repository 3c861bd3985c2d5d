import type { SettledAttempt } from '../../store/delivery/attempts.ts'
import type { Exchange } from '../sender/port.ts'

/** For a record that the database refuses: what the receiver said may be the reason. */
export const withoutWords = (attempt: SettledAttempt): SettledAttempt => {
  const { response, error } = attempt.outcome
  return {
    ...attempt,
    outcome: {
      ...attempt.outcome,
      response: response && { ...response, headers: '', body: '', complete: false },
      error: error && { ...error, detail: null },
    },
  }
}

export const unknownOutcome: Exchange = {
  requestHeaders: '',
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
