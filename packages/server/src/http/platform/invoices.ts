import Type from 'typebox'
import type { Database } from '../../db/database.ts'
import { notFound } from '../../kernel/faults.ts'
import { findInvoice, linesOfInvoice, listInvoices } from '../../store/platform/invoices.ts'
import { choice, chosen } from '../basis.ts'
import { listById, onlyPageQuery } from '../lists.ts'
import { type Route, route } from '../route.ts'
import { invoiceOf, invoiceRecord, invoiceSummary, invoiceWithLines } from './invoice-schemas.ts'

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
      faults: ['not_found'],
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
      faults: ['not_found'],
      success: { status: 200, description: 'The invoice.', schema: invoiceRecord },
      async handler({ orgId, params: { invoiceId: id } }) {
        const row = await findInvoice(deps.db, orgId, id)
        if (row === null) throw notFound(`${id} is not in ${orgId}`)
        return { status: 200, body: invoiceWithLines(row, await linesOfInvoice(deps.db, orgId, id)) }
      },
    }),
  ]
}
