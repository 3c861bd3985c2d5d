/** Longest that a lane may be leased for without a sign of life from its holder. */
export const leaseMsMax = 600_000
