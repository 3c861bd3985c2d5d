import Type from 'typebox'
import { invoiceStatuses } from '../../domain/invoice.ts'
import { isoTime } from '../../kernel/iso-time.ts'
import type { InvoiceLineRow, InvoiceRow } from '../../store/platform/invoices.ts'
import { chosen } from '../basis.ts'
import { id, moment } from '../schemas.ts'

const here = chosen(62)
const whole = (description: string) => Type.Integer({ minimum: 0, description })

const shown = () => ({
  id: id('inv', 'The <invoice_id> of other paths.'),
  month: Type.String({ pattern: '^\\d{4}-(0[1-9]|1[0-2])$', description: 'The month it is for, in UTC.' }),
  status: Type.Enum([...invoiceStatuses], { description: 'Whether it was marked paid.' }),
  currency: Type.String({ pattern: '^[A-Z]{3}$', description: 'ISO 4217.' }),
  total_minor: whole('The sum of the lines, in minor units (cents).'),
  issued_at: moment('When it was made.'),
  paid_at: Type.Union([moment(''), Type.Null()], { description: 'When it was marked paid.' }),
})

export const invoiceSummary = Type.Object(shown(), { $id: 'InvoiceSummary', additionalProperties: false, ...here })

const line = Type.Object(
  {
    database_id: id('db', 'The database, which may be gone by now.'),
    name: Type.String({ description: 'What it was called when the invoice was made.' }),
    seconds: whole('Whole seconds of that month in which it was available.'),
    hour_price_minor: whole('The price of an hour, in minor units.'),
    amount_minor: whole('seconds × price / 3600, rounded to the nearest minor unit, a half upwards.'),
  },
  { $id: 'InvoiceLine', additionalProperties: false, ...here },
)

export const invoiceRecord = Type.Object(
  { ...shown(), lines: Type.Array(line, { description: 'One line per database.' }) },
  { $id: 'Invoice', additionalProperties: false, ...here },
)

export const invoiceOf = (row: InvoiceRow) => ({
  id: row.id,
  month: row.month,
  status: row.status,
  currency: row.currency,
  total_minor: row.total_minor,
  issued_at: isoTime(row.issued_at),
  paid_at: row.paid_at && isoTime(row.paid_at),
})

export const invoiceWithLines = (row: InvoiceRow, lines: readonly InvoiceLineRow[]) => ({
  ...invoiceOf(row),
  lines: lines.map(({ database_id, name, seconds, hour_price_minor, amount_minor }) => ({
    database_id,
    name,
    seconds,
    hour_price_minor,
    amount_minor,
  })),
})
