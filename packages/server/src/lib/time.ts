import { invalid } from './faults.ts'

/** RFC 3339, in UTC, to the millisecond. */
export const isoTime = (at: Date): string => at.toISOString()

const rfc3339 = /^\d{4}-\d\d-\d\d[Tt ](?!24)\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/

/** The range of times that PostgreSQL and the audit log both accept. */
const firstTimestamp = new Date('0001-01-01T00:00:00Z')
const lastTimestamp = new Date('9999-12-31T23:59:59.999Z')

export const timestampDetail = 'must be a time such as 2026-01-31T12:00:00Z'

/** A time in a request; null if it is none. */
export function parseTimestamp(text: string): Date | null {
  const at = new Date(text)
  const isTimestamp = rfc3339.test(text) && isDay(text.slice(0, 10)) && at >= firstTimestamp && at <= lastTimestamp
  return isTimestamp ? at : null
}

/** JavaScript reads February 30 as March 2. */
function isDay(day: string): boolean {
  const at = new Date(day)
  return !Number.isNaN(at.getTime()) && at.toISOString().startsWith(day)
}

/** A time in a query; null if it is not given. */
export function timestampParameter(parameter: string, text: string | undefined): Date | null {
  if (text === undefined) return null
  const at = parseTimestamp(text)
  if (at === null) throw invalid([{ parameter, detail: timestampDetail }])
  return at
}
