import type { InvoiceSummary } from '@keyhook/client'
import { Badge } from '../../components/badge.tsx'

/** Amounts come in the smallest unit of the currency. */
export function moneyText(minor: number, currency: string): string {
  const format = new Intl.NumberFormat('en', { style: 'currency', currency })
  return format.format(minor / 10 ** (format.resolvedOptions().maximumFractionDigits ?? 2))
}

const month = new Intl.DateTimeFormat('en', { month: 'long', year: 'numeric', timeZone: 'UTC' })

export const monthText = (text: string): string => month.format(new Date(`${text.slice(0, 7)}-01T00:00:00Z`))

export const InvoiceStatus = ({ invoice }: { invoice: InvoiceSummary }) =>
  invoice.status === 'paid' ? <Badge tone="success">Paid</Badge> : <Badge tone="warning">Open</Badge>
