/** RFC 3339, in UTC, to the millisecond. */
export const isoTime = (at: Date): string => at.toISOString()
