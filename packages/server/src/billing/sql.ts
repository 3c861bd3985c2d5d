import type { Executor, PageRequest, Transaction } from '../db/database.ts'
import type { InvoiceId, OrgId } from '../lib/ids.ts'
import { firstInvoiceStatus, type InvoiceLine, type InvoiceStatus } from './invoice.ts'

export type InvoiceRow = {
  org_id: OrgId
  id: InvoiceId
  month: string
  status: InvoiceStatus
  currency: string
  total_minor: number
  issued_at: Date
  paid_at: Date | null
}

export type InvoiceLineRow = {
  database_id: string
  name: string
  seconds: number
  hour_price_minor: number
  amount_minor: number
}

const columns = (db: Executor) =>
  db`org_id, id, month, status, currency, total_minor::float8 as total_minor, issued_at, paid_at`

/** Null when the month has an invoice already. */
export const insertInvoice = (
  tx: Transaction,
  orgId: OrgId,
  invoice: { id: InvoiceId; month: string; currency: string; totalMinor: number },
) =>
  tx<InvoiceRow[]>`
    insert into keyhook.invoices (org_id, id, month, status, currency, total_minor)
    values (${orgId}, ${invoice.id}, ${invoice.month}, ${firstInvoiceStatus}, ${invoice.currency},
      ${invoice.totalMinor})
    on conflict (org_id, month) do nothing
    returning ${columns(tx)}`.first()

export const insertInvoiceLines = (tx: Transaction, orgId: OrgId, id: InvoiceId, lines: readonly InvoiceLine[]) => tx`
  insert into keyhook.invoice_lines (org_id, invoice_id, database_id, name, seconds, hour_price_minor, amount_minor)
  select ${orgId}, ${id}, l.database_id, l.name, l.seconds, l.hour_price_minor, l.amount_minor
  from unnest(
    ${lines.map((line) => line.databaseId)}::text[],
    ${lines.map((line) => line.name)}::text[],
    ${lines.map((line) => line.seconds)}::bigint[],
    ${lines.map((line) => line.hourPriceMinor)}::bigint[],
    ${lines.map((line) => line.amountMinor)}::bigint[]
  ) as l (database_id, name, seconds, hour_price_minor, amount_minor)`

export const findInvoiceOfMonth = (db: Executor, orgId: OrgId, month: string) =>
  db<InvoiceRow[]>`
    select ${columns(db)} from keyhook.invoices where org_id = ${orgId} and month = ${month}`.first()

export const findInvoice = (db: Executor, orgId: OrgId, id: InvoiceId) =>
  db<InvoiceRow[]>`
    select ${columns(db)} from keyhook.invoices where org_id = ${orgId} and id = ${id}`.first()

export const listInvoices = (db: Executor, orgId: OrgId, { before, limit }: PageRequest) => db<InvoiceRow[]>`
  select ${columns(db)} from keyhook.invoices
  where org_id = ${orgId} and (${before}::text is null or id < ${before})
  order by id desc
  limit ${limit}`

export const linesOfInvoice = (db: Executor, orgId: OrgId, id: InvoiceId) => db<InvoiceLineRow[]>`
  select database_id, name, seconds::float8 as seconds, hour_price_minor::float8 as hour_price_minor,
    amount_minor::float8 as amount_minor
  from keyhook.invoice_lines
  where org_id = ${orgId} and invoice_id = ${id}
  order by database_id`

/** For the operator, who has the id alone. Locked: the second of two concurrent payments sees it paid. */
export const lockInvoiceById = (tx: Transaction, id: InvoiceId) =>
  tx<InvoiceRow[]>`select ${columns(tx)} from keyhook.invoices where id = ${id} for update`.first()

export const markInvoicePaid = async (
  tx: Transaction,
  orgId: OrgId,
  id: InvoiceId,
  status: InvoiceStatus,
): Promise<InvoiceRow> => {
  const [row] = await tx<[InvoiceRow]>`
    update keyhook.invoices set status = ${status}, paid_at = clock_timestamp()
    where org_id = ${orgId} and id = ${id}
    returning ${columns(tx)}`
  return row
}
