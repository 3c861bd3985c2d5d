import { durationSeconds } from '../domain/duration.ts'
import { UsageError } from './output.ts'

/** Milliseconds of a text such as 5s, 30m, 2h or 3d. */
export function durationMs(option: string, text: string): number {
  const seconds = durationSeconds(text)
  if (seconds === null)
    throw new UsageError(`${option}: ${JSON.stringify(text)} is not a duration such as 5s, 30m, 2h or 3d`)
  return seconds * 1_000
}

export const momentAfter = (option: string, text: string): string =>
  new Date(Date.now() + durationMs(option, text)).toISOString()

/** A moment (2026-11-17T12:00:00Z), or a duration before now (2h). */
export function momentOption(option: string, text: string): string {
  const seconds = durationSeconds(text)
  if (seconds !== null) return new Date(Date.now() - seconds * 1_000).toISOString()
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(text) && !Number.isNaN(Date.parse(text))) return text
  throw new UsageError(
    `${option}: ${JSON.stringify(text)} is not a time such as 2026-11-17T12:00:00Z, or 2h (two hours ago)`,
  )
}
