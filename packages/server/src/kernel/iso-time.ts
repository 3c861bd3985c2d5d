/** Times that were written lately. An organization's is in the answer to nearly every request, and formatting it takes 0.8 us. */
const recent = new Map<number, string>()
const recentMax = 1_000

/** RFC 3339, in UTC, to the millisecond. */
export function isoTime(at: Date): string {
  const ms = at.getTime()
  let text = recent.get(ms)
  if (text !== undefined) return text
  text = at.toISOString()
  if (recent.size >= recentMax) recent.clear()
  recent.set(ms, text)
  return text
}
