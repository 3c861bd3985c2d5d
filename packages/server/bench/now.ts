/** The time that several processes share, with fractions of a millisecond. */
export const now = (): number => performance.timeOrigin + performance.now()
