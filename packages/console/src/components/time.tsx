import { useSyncExternalStore } from 'react'
import { minuteText } from './time-axis.ts'

const listeners = new Set<() => void>()
let now = Date.now()

function subscribe(listener: () => void): () => void {
  if (listeners.size === 0) {
    now = Date.now()
    timer = setInterval(() => {
      now = Date.now()
      for (const one of listeners) one()
    }, 1_000)
  }
  listeners.add(listener)
  return () => {
    listeners.delete(listener)
    if (listeners.size === 0) clearInterval(timer)
  }
}
let timer: ReturnType<typeof setInterval>

/** The current time in steps, so that a page of times renders only when a text changes. */
const useNow = (stepMs = 1_000): number => useSyncExternalStore(subscribe, () => Math.floor(now / stepMs) * stepMs)

const format = new Intl.RelativeTimeFormat('en', { numeric: 'always', style: 'short' })

/** "5 min ago": the abbreviations without their full stops, which only make a table restless. */
const relative = (value: number, unit: Intl.RelativeTimeFormatUnit): string =>
  format.format(value, unit).replace('.', '')
/** Each unit up to a number; then the next one. */
const units = [
  ['second', 1, 59],
  ['minute', 60, 59],
  ['hour', 3_600, 24],
  ['day', 86_400, Number.POSITIVE_INFINITY],
] as const

/** Such as "5 min ago" or "in 24 hr", to the nearest unit; within a few seconds of now, "just now". */
function relativeText(time: string, nowMs: number): string {
  const seconds = Math.round((Date.parse(time) - nowMs) / 1_000)
  // The time that is shown may be five seconds old.
  if (seconds > -10 && seconds <= 5) return 'just now'
  const [unit, size] = units.find(([, size, max]) => Math.round(Math.abs(seconds) / size) <= max)!
  return relative(Math.round(seconds / size), unit)
}

const exact = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'long' })

export const exactText = (time: string): string => exact.format(new Date(time))

/** How long ago; the exact time on hover. */
export function RelativeTime({ at }: { at: string }) {
  // All rows of a list use the same "now": each with its own would put "12 sec ago" above "9 sec ago".
  const nowMs = useNow(5_000)
  return (
    <time dateTime={at} title={exactText(at)} className="number">
      {relativeText(at, nowMs)}
    </time>
  )
}

/** "Nov 18, 14:00", for what has lasted since then. */
export function MinuteTime({ at }: { at: string }) {
  return (
    <time dateTime={at} title={exactText(at)} className="number">
      {minuteText(Date.parse(at))}
    </time>
  )
}

/** "in 1:05", counting down; "in 6 days" where seconds say nothing. */
export function Countdown({ to }: { to: string }) {
  const seconds = Math.max(0, Math.round((Date.parse(to) - useNow()) / 1_000))
  const text = seconds === 0 ? 'now' : seconds < 86_400 ? `in ${clock(seconds)}` : relativeText(to, Date.now())
  return (
    <time dateTime={to} title={exactText(to)} className="number">
      {text}
    </time>
  )
}

function clock(seconds: number): string {
  const [hours, minutes, rest] = [Math.floor(seconds / 3_600), Math.floor((seconds % 3_600) / 60), seconds % 60]
  const padded = (part: number) => String(part).padStart(2, '0')
  return hours > 0 ? `${hours}:${padded(minutes)}:${padded(rest)}` : `${minutes}:${padded(rest)}`
}
