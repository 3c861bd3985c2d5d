import type { Usage } from '../databases/usage-sql.ts'

/* The cost of a month. Time is in whole seconds and money in whole minor units (cents), without fractions. */

export const invoiceStatuses = ['issued', 'paid'] as const
export type InvoiceStatus = (typeof invoiceStatuses)[number]

export const firstInvoiceStatus: InvoiceStatus = 'issued'
export const moveInvoice = (status: InvoiceStatus, move: 'pay'): InvoiceStatus | null =>
  status === 'issued' && move === 'pay' ? 'paid' : null

/** `YYYY-MM`, in UTC. */
export type Month = string

export type Period = { from: Date; to: Date }

export function monthPeriod(month: Month): Period | null {
  // PostgreSQL has no year 0.
  const match = /^(?!0000)(\d{4})-(0[1-9]|1[0-2])$/.exec(month)
  if (match === null) return null
  const year = Number(match[1])
  const index = Number(match[2]) - 1
  return { from: utc(year, index), to: utc(year, index + 1) }
}

/** Not `Date.UTC`: it reads the years 0 to 99 as 1900 to 1999. */
function utc(year: number, monthIndex: number): Date {
  const date = new Date(0)
  date.setUTCFullYear(year, monthIndex, 1)
  return date
}

export const monthOf = (at: Date): Month => at.toISOString().slice(0, 7)

export type InvoiceLine = {
  databaseId: string
  name: string
  seconds: number
  hourPriceMinor: number
  amountMinor: number
}

/** Whole seconds of use within the period, rounded down. */
export function usedSeconds(usage: Pick<Usage, 'from' | 'to'>, period: Period): number {
  const from = Math.max(usage.from.getTime(), period.from.getTime())
  const to = Math.min(usage.to?.getTime() ?? Number.POSITIVE_INFINITY, period.to.getTime())
  return Math.max(0, Math.floor((to - from) / 1_000))
}

/** Rounded once per line, to the nearest minor unit, half up. */
export function amountMinor(seconds: number, hourPriceMinor: number): number {
  return Number((BigInt(seconds) * BigInt(hourPriceMinor) * 2n + 3_600n) / 7_200n)
}

/** A database that was not used in the period has no line. */
export function invoiceLines(usage: readonly Usage[], period: Period, hourPriceMinor: number): InvoiceLine[] {
  return usage.flatMap((one) => {
    const seconds = usedSeconds(one, period)
    if (seconds === 0) return []
    return [
      {
        databaseId: one.databaseId,
        name: one.name,
        seconds,
        hourPriceMinor,
        amountMinor: amountMinor(seconds, hourPriceMinor),
      },
    ]
  })
}

export const totalMinor = (lines: readonly InvoiceLine[]): number =>
  lines.reduce((sum, line) => sum + line.amountMinor, 0)
