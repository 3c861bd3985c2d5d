import Type from 'typebox'
import type { Database, Transact } from '../db/database.ts'
import { choice, chosen } from '../http/basis.ts'
import { listById, onlyPageQuery } from '../http/lists.ts'
import { operatorRoute, type Route, route } from '../http/route.ts'
import { id, timestamp } from '../http/schemas.ts'
import { notFound } from '../lib/faults.ts'
import { isoTime } from '../lib/time.ts'
import { invoiceStatuses } from './invoice.ts'
import { payInvoice } from './rules.ts'
import { findInvoice, type InvoiceLineRow, type InvoiceRow, linesOfInvoice, listInvoices } from './sql.ts'

const path = '/platform/v1/organizations/:orgId/invoices'

export function invoiceRoutes(deps: { db: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path,
      needs: 'invoices:read',
      audit: null,
      basis: chosen(62),
      choices: [choice(63, 'There is one for each month that is over and in which something was used.')],
      tag: 'Invoices',
      summary: 'List invoices',
      description: 'The invoices of the organization, newest first, without their lines.',
      query: onlyPageQuery,
      success: { status: 200, description: 'The invoices.', schema: Type.Array(invoiceSummary) },
      async handler({ orgId }) {
        return listById('inv', invoiceOf, (request) => listInvoices(deps.db, orgId, request))
      },
    }),
    route({
      method: 'GET',
      path: `${path}/:invoiceId`,
      needs: 'invoices:read',
      audit: null,
      basis: chosen(62),
      tag: 'Invoices',
      summary: 'Read an invoice',
      description: 'With a line for each database that was used in its month.',
      success: { status: 200, description: 'The invoice.', schema: invoiceRecord },
      async handler({ orgId, params: { invoiceId: id } }) {
        const row = await findInvoice(deps.db, orgId, id)
        if (row === null) throw notFound(`${id} is not in ${orgId}`)
        return { status: 200, body: invoiceWithLines(row, await linesOfInvoice(deps.db, orgId, id)) }
      },
    }),
  ]
}

const here = chosen(62)
const whole = (description: string, example: number) => Type.Integer({ minimum: 0, description, examples: [example] })

const shown = () => ({
  id: id('inv', 'The <invoice_id> of other paths.'),
  month: Type.String({
    pattern: '^\\d{4}-(0[1-9]|1[0-2])$',
    description: 'The month it is for, in UTC.',
    examples: ['2026-01'],
  }),
  status: Type.Enum([...invoiceStatuses], { description: 'Whether it was marked paid.' }),
  currency: Type.String({ pattern: '^[A-Z]{3}$', description: 'ISO 4217.', examples: ['EUR'] }),
  total_minor: whole('The sum of the lines, in minor units (cents).', 1_488),
  issued_at: timestamp('When it was made.'),
  paid_at: Type.Union([timestamp(''), Type.Null()], { description: 'When it was marked paid.' }),
})

const invoiceSummary = Type.Object(shown(), { $id: 'InvoiceSummary', additionalProperties: false, ...here })

const line = Type.Object(
  {
    database_id: id('db', 'The database, which may be gone by now.'),
    name: Type.String({ description: 'What it was called when the invoice was made.', examples: ['orders'] }),
    seconds: whole('Whole seconds of that month in which it was available.', 2_678_400),
    hour_price_minor: whole('The price of an hour, in minor units.', 2),
    amount_minor: whole('seconds × price / 3600, rounded to the nearest minor unit, a half upwards.', 1_488),
  },
  { $id: 'InvoiceLine', additionalProperties: false, ...here },
)

const invoiceRecord = Type.Object(
  { ...shown(), lines: Type.Array(line, { description: 'One line per database.' }) },
  { $id: 'Invoice', additionalProperties: false, ...here },
)

const invoiceOf = (row: InvoiceRow) => ({
  id: row.id,
  month: row.month,
  status: row.status,
  currency: row.currency,
  total_minor: row.total_minor,
  issued_at: isoTime(row.issued_at),
  paid_at: row.paid_at && isoTime(row.paid_at),
})

const invoiceWithLines = (row: InvoiceRow, lines: readonly InvoiceLineRow[]) => ({ ...invoiceOf(row), lines })

export function operatorInvoiceRoutes({ db, transact }: { db: Database; transact: Transact }): Route[] {
  return [
    operatorRoute({
      method: 'POST',
      path: '/operator/v1/invoices/:invoiceId/pay',
      audit: 'invoice.paid',
      basis: chosen(64),
      summary: 'Mark an invoice paid',
      description:
        'Marks it paid and fires `invoice.paid`, both once: every further call answers the same invoice and changes nothing.',
      success: { status: 200, description: 'The invoice, paid.', schema: invoiceRecord },
      async handler({ actor, params: { invoiceId: id } }) {
        const row = await payInvoice(transact, actor, id)
        return { status: 200, body: invoiceWithLines(row, await linesOfInvoice(db, row.org_id, id)) }
      },
    }),
  ]
}
