const unitSeconds: Record<string, number> = { s: 1, m: 60, h: 3_600, d: 86_400 }

/** Reads "90s", "15m", "12h" or "7d" as seconds; null if it is none of these. */
export function durationSeconds(text: string): number | null {
  const match = /^(\d{1,9})([smhd])$/.exec(text)
  return match === null ? null : Number(match[1]) * unitSeconds[match[2]!]!
}
