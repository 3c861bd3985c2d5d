export const inMegabytes = (bytes: number): string => `${Math.round(bytes / 1024 ** 2).toLocaleString('en')} MiB`

/** In the largest unit that gives a whole number: 1 TiB, 1,536 GiB. */
export function sizeText(bytes: number): string {
  const gib = bytes / 1024 ** 3
  if (bytes === 0 || !Number.isInteger(gib)) return inMegabytes(bytes)
  return gib % 1024 === 0 ? `${(gib / 1024).toLocaleString('en')} TiB` : `${gib.toLocaleString('en')} GiB`
}

const unitSeconds: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400 }

/** Parses "90s", "15m", "12h" or "7d" into seconds; null if it is not a duration. */
export function durationSeconds(text: string): number | null {
  const match = /^(\d{1,9})([smhd])$/.exec(text)
  return match === null ? null : Number(match[1]) * unitSeconds[match[2]!]!
}
