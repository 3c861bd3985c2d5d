import { type Actor, operator, recordAudit } from '../access/audit.ts'
import type { Prices } from '../databases/node-sql.ts'
import { unbilledMonths, usageOf } from '../databases/usage-sql.ts'
import { type Database, databaseNowMs, isUnavailable, type Transact } from '../db/database.ts'
import { publish } from '../delivery/publish.ts'
import { Fault, invalid } from '../lib/faults.ts'
import { type InvoiceId, newId, type OrgId } from '../lib/ids.ts'
import { lockOrganization } from '../organizations/sql.ts'
import { invoiceLines, monthOf, monthPeriod, moveInvoice, totalMinor } from './invoice.ts'
import {
  findInvoiceOfMonth,
  type InvoiceRow,
  insertInvoice,
  insertInvoiceLines,
  lockInvoiceById,
  markInvoicePaid,
} from './sql.ts'

export type Issued = { invoice: InvoiceRow; isNew: boolean }

/** One invoice per organization and month, once the month is over. Null if nothing was used in it. */
export async function issueInvoice(
  deps: { db: Database; prices: Prices },
  actor: Actor,
  request: { orgId: OrgId; month: string },
): Promise<Issued | null> {
  const { orgId, month } = request
  const period = monthPeriod(month)
  if (period === null) throw invalid([{ pointer: '/month', detail: 'must be a month such as 2026-10' }])
  return deps.db.begin(async (tx) => {
    // By the clock of PostgreSQL, which also recorded the usage: a fast clock here would bill a month before its end.
    if (period.to.getTime() > (await databaseNowMs(tx))) {
      throw new Fault('invoice.month_not_over', {
        public: `${month} is not over yet (UTC), so what it costs is not known.`,
      })
    }
    if (!(await lockOrganization(tx, orgId))) {
      throw new Fault('not_found', { public: `There is no organization ${orgId}.` })
    }
    const existing = await findInvoiceOfMonth(tx, orgId, month)
    if (existing !== null) return { invoice: existing, isNew: false }
    const lines = invoiceLines(await usageOf(tx, orgId, period), period, deps.prices.hourPriceMinor)
    if (lines.length === 0) return null
    const { currency } = deps.prices
    const id = newId('inv')
    const invoice = await insertInvoice(tx, orgId, { id, month, currency, totalMinor: totalMinor(lines) })
    if (invoice === null) throw new Error(`${orgId} got an invoice for ${month} although it was locked`)
    await insertInvoiceLines(tx, orgId, id, lines)
    const details = { month, currency, total_minor: invoice.total_minor }
    await recordAudit(tx, { orgId, action: 'invoice.issued', actor, targetId: id, details })
    return { invoice, isNew: true }
  })
}

/** For every month that is over, however long no node was running. One that fails does not keep the others from being issued. */
export async function issueInvoicesDue(deps: { db: Database; prices: Prices }): Promise<InvoiceId[]> {
  const thisMonth = monthPeriod(monthOf(new Date(await databaseNowMs(deps.db))))!
  const issued: InvoiceId[] = []
  const failed: unknown[] = []
  for (const { org_id: orgId, month } of await unbilledMonths(deps.db, thisMonth.from)) {
    try {
      const result = await issueInvoice(deps, operator, { orgId, month })
      if (result?.isNew) issued.push(result.invoice.id)
    } catch (cause) {
      // Then the others would fail as well.
      if (isUnavailable(cause)) throw cause
      failed.push(new Error(`no invoice for ${orgId} and ${month}`, { cause }))
    }
  }
  if (failed.length > 0) throw new AggregateError(failed, `${failed.length} invoices could not be issued`)
  return issued
}

/** Marks it paid, once. A second call, even at the same time, returns the paid invoice and changes nothing. */
export async function payInvoice(transact: Transact, actor: Actor, id: InvoiceId): Promise<InvoiceRow> {
  return transact(async (tx) => {
    const invoice = await lockInvoiceById(tx, id)
    if (invoice === null) throw new Fault('not_found', { public: `There is no invoice ${id}.` })
    const next = moveInvoice(invoice.status, 'pay')
    if (next === null) return invoice
    const orgId = invoice.org_id
    const paid = await markInvoicePaid(tx, orgId, id, next)
    await recordAudit(tx, { orgId, action: 'invoice.paid', actor, targetId: id, details: { month: invoice.month } })
    const { month, currency, total_minor } = invoice
    const data = { invoice_id: id, month, currency, total_minor, paid_at: paid.paid_at!.toISOString() }
    await publish(tx, { orgId, type: 'invoice.paid', data })
    return paid
  })
}
