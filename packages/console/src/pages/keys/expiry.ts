import { dayText } from './key-sentence.ts'

/** A number of days, or `never`, or `keep`: as it is. */
export type Expiry = string

const dayMs = 86_400_000
export const daysText = (days: number): string => (days === 1 ? '1 day' : `${days} days`)

const daysOffered = [30, 90, 365]

export const defaultExpiry = (daysMax: number | null): Expiry => String(Math.min(90, daysMax ?? 90))

/** What the select offers; `current` is the end of a key that has one, or null. */
export function expiryOptions(daysMax: number | null, current?: string | null): [Expiry, string][] {
  const days = daysOffered.filter((one) => daysMax === null || one < daysMax)
  const kept: [Expiry, string][] =
    current === undefined ? [] : [['keep', `As now: ${current === null ? 'never' : dayText(current)}`]]
  return [
    ...kept,
    ...days.map((one): [Expiry, string] => [String(one), `In ${one} days`]),
    daysMax === null ? ['never', 'Never'] : [String(daysMax), `In ${daysText(daysMax)}`],
  ]
}

export function expiresAt(expiry: Expiry, current: string | null = null): string | null {
  if (expiry === 'keep') return current
  if (expiry === 'never') return null
  return new Date(Date.now() + Number(expiry) * dayMs).toISOString()
}

/** Whether a new key may end when this one does. */
export const mayKeep = (daysMax: number | null, end: string | null): boolean =>
  daysMax === null || (end !== null && Date.parse(end) <= Date.now() + daysMax * dayMs)
