const hour = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
const day = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric' })

/** "Nov 18, 14:00", in the time zone of the browser. */
export const minuteText = (ms: number): string => `${day.format(ms)}, ${hour.format(ms)}`

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const intervals = [
  hourMs / 6,
  hourMs / 2,
  hourMs,
  2 * hourMs,
  3 * hourMs,
  6 * hourMs,
  12 * hourMs,
  dayMs,
  2 * dayMs,
  3 * dayMs,
  7 * dayMs,
]
/** A date with a time, and some space. */
const roomPx = 90

/**
 * Which of these times get a label: round ones of the local clock, as many as there is room for. The first one and the first of each
 * day have their date.
 */
export function timeTicks(times: readonly number[], widthPx: number): { index: number; text: string }[] {
  const [first, last] = [times[0] ?? 0, times.at(-1) ?? 0]
  const apartMs = (roomPx / widthPx) * (last - first)
  const interval = intervals.find((one) => one >= apartMs) ?? 7 * dayMs
  const place = (ms: number, size: number) => Math.floor((ms - new Date(ms).getTimezoneOffset() * 60_000) / size)
  let before: number | undefined
  return times.flatMap((ms, index) => {
    if (index === 0 || place(ms, interval) === place(times[index - 1]!, interval)) return []
    const isNewDay = before === undefined || place(ms, dayMs) !== place(before, dayMs)
    before = ms
    if (interval >= dayMs) return [{ index, text: day.format(ms) }]
    return [{ index, text: isNewDay ? minuteText(ms) : hour.format(ms) }]
  })
}
