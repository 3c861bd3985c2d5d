import type { Database } from '../../db/database.ts'
import type { Actor } from '../../domain/audit.ts'
import type { InvoiceId } from '../../kernel/ids.ts'
import { type InvoiceRow, linesOfInvoice } from '../../store/platform/invoices.ts'
import { chosen } from '../basis.ts'
import { invoiceRecord, invoiceWithLines } from '../platform/invoice-schemas.ts'
import { operatorRoute, type Route } from '../route.ts'

export function operatorInvoiceRoutes(deps: {
  db: Database
  pay: (actor: Actor, id: InvoiceId) => Promise<InvoiceRow>
}): Route[] {
  return [
    operatorRoute({
      method: 'POST',
      path: '/operator/v1/invoices/:invoiceId/pay',
      needs: 'operator',
      audit: 'invoice.paid',
      basis: chosen(64),
      tag: 'Operator',
      summary: 'Mark an invoice paid',
      description:
        'Marks it paid and fires `invoice.paid`, both once: every further call answers the same invoice and changes nothing.',
      faults: ['not_found'],
      success: { status: 200, description: 'The invoice, paid.', schema: invoiceRecord },
      async handler({ actor, params: { invoiceId: id } }) {
        const row = await deps.pay(actor, id)
        return { status: 200, body: invoiceWithLines(row, await linesOfInvoice(deps.db, row.org_id, id)) }
      },
    }),
  ]
}
