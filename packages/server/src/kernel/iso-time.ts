const dayMs = 86_400_000
const daysMax = 4_096
const days = new Map<number, string>()
const padded = (length: number) => Array.from({ length: 10 ** length }, (_, n) => String(n).padStart(length, '0'))
const two = padded(2)
const three = padded(3)

/**
 * RFC 3339, in UTC, to the millisecond: what `toISOString` says, which takes a microsecond to say it. A list has two or three
 * in every row. The calendar is JavaScript's own; days that were written lately are kept, and the time of day is easy.
 */
export function isoTime(at: Date): string {
  const ms = at.getTime()
  const day = Math.floor(ms / dayMs)
  let rest = ms - day * dayMs
  const millisecond = rest % 1_000
  rest = (rest - millisecond) / 1_000
  const second = rest % 60
  rest = (rest - second) / 60
  const minute = rest % 60
  return `${dateOf(day)}${two[(rest - minute) / 60]}:${two[minute]}:${two[second]}.${three[millisecond]}Z`
}

function dateOf(day: number): string {
  const known = days.get(day)
  if (known !== undefined) return known
  const date = new Date(day * dayMs).toISOString().slice(0, -'00:00:00.000Z'.length)
  if (days.size >= daysMax) days.clear()
  days.set(day, date)
  return date
}
