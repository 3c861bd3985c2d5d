/** Longest time that a lane may be leased without renewal. */
export const leaseMsMax = 600_000
